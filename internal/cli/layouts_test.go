package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// shortCRD matches a line of the files in testdata/layouts that stands for a definition: @crd PLURAL KIND PROPERTIES.
var shortCRD = regexp.MustCompile(`(?m)^@crd (\S+) (\S+) (.*)$`)

const longCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $1.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: $2, plural: $1}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {$3}}}}}}`

// TestLayoutsOfRepositories checks small repositories, each with the layout of real ones, without a flag. Each has three revisions: v2 differs
// from v1 by the files below safe/, and v3 from v2 by those below unsafe/. The comment of the file says what the check prints.
func TestLayoutsOfRepositories(t *testing.T) {
	files, err := filepath.Glob("testdata/layouts/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			commitLayout(t, dir, a)
			for step, revisions := range map[string]string{"safe": "v1...v2", "unsafe": "v2...v3"} {
				out, code := checkIn(t, dir, revisions)
				want := 0
				if step == "unsafe" {
					want = 1
				}
				if code != want {
					t.Errorf("%s: exit code %d, want %d\n%s", step, code, want, out)
				}
				for line := range strings.Lines(string(a.Comment)) {
					if text, ok := strings.CutPrefix(strings.TrimSpace(line), step+": "); ok && !regexp.MustCompile(text).MatchString(out) {
						t.Errorf("%s: no match of %q\n%s", step, text, out)
					}
				}
			}
		})
	}
}

// commitLayout makes the revisions v1, v2 and v3 of a layout.
func commitLayout(t *testing.T, dir string, a *txtar.Archive) {
	t.Helper()
	runGit(t, dir, "init", "-q")
	for version, step := range []string{"", "safe/", "unsafe/"} {
		for _, f := range a.Files {
			name, below := strings.CutPrefix(f.Name, step)
			if !below || step == "" && (strings.HasPrefix(name, "safe/") || strings.HasPrefix(name, "unsafe/")) {
				continue
			}
			name = filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, shortCRD.ReplaceAll(f.Data, []byte(longCRD)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tag := fmt.Sprintf("v%d", version+1)
		runGit(t, dir, "add", "-A")
		runGit(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", tag)
		runGit(t, dir, "tag", tag)
	}
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// checkIn runs sluice check --git in a folder. TestMain puts sluice into the path.
func checkIn(t *testing.T, dir, revisions string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "sluice", "check", "--git", revisions)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &text, &text
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "none"))
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode()
}
