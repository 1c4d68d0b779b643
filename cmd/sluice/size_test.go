package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"sluice.dev/tools/draws"
)

// TestTheLinkerDropsMethodsThatNobodyCalls: if the program can reach text/template, which calls methods by names that it reads, the linker
// keeps every exported method of every type, and the program is 30 MB larger (docs/adr/0004-weight-of-compat.md).
func TestTheLinkerDropsMethodsThatNobodyCalls(t *testing.T) {
	if !draws.All() {
		t.Skip("make test-long links the program")
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", "grpcnotrace", "-ldflags", "-dumpdep", "-o", os.DevNull, ".")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%.2000s", err, stderr.String())
	}
	if !bytes.Contains(stderr.Bytes(), []byte("\nmain.main -> ")) {
		t.Fatalf("the linker does not say what needs what:\n%.2000s", stderr.String())
	}
	for line := range bytes.Lines(stderr.Bytes()) {
		if bytes.Contains(line, []byte("-> text/template.(*Template).Execute")) && !bytes.HasPrefix(line, []byte("text/template.")) {
			t.Errorf("%s", line)
		}
	}
}
