package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheReadmeShowsWhatIsPrinted runs the first command of the README and compares its output with what the README shows, up to
// the ellipsis; the headline is left out there.
func TestTheReadmeShowsWhatIsPrinted(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(data), "```console\n$ ")
	command, rest, _ := strings.Cut(block, "\n")
	want, _, ok := strings.Cut(rest, "  …\n")
	args := strings.Fields(command)
	if !ok || len(args) != 4 || args[0] != "sluice" {
		t.Fatalf("the README does not begin with a command and its output: %q", command)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	var out, errs bytes.Buffer
	if code := Main(args[1:], strings.NewReader(""), &out, &errs); code != 1 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), strings.TrimRight(want, "\n")+"\n") {
		t.Errorf("the README shows\n%s\nand the command prints\n%s", want, out.String())
	}
}
