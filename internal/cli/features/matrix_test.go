package features

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheMatrixInGoPasses puts the cases of the example operator into its package, and runs a test with each.
func TestTheMatrixInGoPasses(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var cases, errs bytes.Buffer
	if code := runFeatures(t, []string{"matrix", "-f", filepath.Join(root, "examples", "operator", "features.yaml"), "-o", "go"}, &cases, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	const test = `package features

import (
	"testing"

	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

func TestCases(t *testing.T) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { featuretest.New(t, Declaration(), gate.Options{}, c.Values) })
	}
}
`
	dir, folder := t.TempDir(), filepath.Join(root, "examples", "operator", "features")
	replace := map[string]string{}
	for name, text := range map[string]string{"matrix_cases.go": cases.String(), "matrix_cases_test.go": test} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(folder, name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-v", "-overlay", file, "-run", "^TestCases$", ".")
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"--- PASS: TestCases/all_off", "--- PASS: TestCases/level_alpha"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q is missing: %v\n%s", want, err, out)
		}
	}
}
