package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/internal/cli/command"
)

// sluice runs the command line, without an environment, and returns the exit code and both outputs.
func sluice(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &command.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
	code = runCommand(t.Context(), args, e)
	return code, out.String(), errs.String()
}

// A program that asks for JSON gets it, whatever was wrong with what it gave.
func TestErrorsAreDocumentsWhereJSONIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("kind: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "none")
	missing := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	for _, c := range []struct {
		kind, says string
		args       []string
	}{
		{"ApplyResult", "no such file or directory", []string{"apply", "-f", missing[0]}},
		{"ApplyResult", "lower case letters", []string{"apply", "--app", "UPPER", "-f", broken}},
		{"ApplyResult", "unknown flag", []string{"apply", "-f", broken, "--nothing"}},
		{"Diff", "", []string{"diff", "-f", broken, "--kubeconfig", kubeconfig}},
		{"DeleteResult", "", []string{"delete", "x", "--kubeconfig", kubeconfig}},
		{"Error", "", []string{"ls", "--kubeconfig", kubeconfig}},
		{"Error", "", []string{"check", missing[0], missing[1]}},
		{"Error", "", []string{"features", "list", "--kubeconfig", kubeconfig}},
	} {
		args := append([]string{c.args[0]}, "-o", "json")
		if c.args[0] == "features" {
			args = []string{"features", "list", "-o", "json"}
			c.args = c.args[1:]
		}
		code, out, errs := sluice(t, append(args, c.args[1:]...)...)
		var got command.Failure
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Errorf("%v: %v\n%s%s", c.args, err, out, errs)
			continue
		}
		if code != ExitFailed || got.Kind != c.kind || got.Outcome != command.OutcomeFailed || got.Error == "" || !strings.Contains(got.Error, c.says) || !strings.Contains(errs, got.Error) {
			t.Errorf("%v: %d %+v\n%s", c.args, code, got, errs)
		}
	}
	// All that is missing is named, with all that a source can be.
	_, _, errs := sluice(t, "apply", "-f", missing[0], "-f", broken, "-f", missing[1])
	for _, want := range append(missing, "git:REV", "git+https://", "oci://", "standard input") {
		if !strings.Contains(errs, want) {
			t.Errorf("does not say %s: %s", want, errs)
		}
	}
}
