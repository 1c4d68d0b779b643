package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A library reads files of the working directory before main runs, and complains of broken ones. This program, which has all
// packages of the command, must not come to that in somebody else's checkout.
func TestStartReadsNoFilesOfTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"inflections.json", "acronyms.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^$")
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "INFLECT_PATH=") || strings.HasPrefix(v, "ACRONYMS_PATH=")
	})
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text := string(out); strings.Contains(text, "inflection") || strings.Contains(text, "acronym") {
		t.Errorf("the program read a file of the working directory: %s", text)
	}
}

// Package gcpercent serves its purpose only if Go initialises it before the packages that allocate most, but for flect.
func TestTheCollectorIsSetBeforeLargePackages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	set := strings.Index(string(out), "init sluice.dev/internal/gcpercent ")
	for _, large := range []string{"k8s.io/client-go/kubernetes/scheme", "k8s.io/kube-openapi/pkg/validation/strfmt", "github.com/asaskevich/govalidator"} {
		if at := strings.Index(string(out), "init "+large+" "); set < 0 || at < set {
			t.Errorf("%s is initialised before the collector is set", large)
		}
	}
}
