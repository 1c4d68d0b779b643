package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// gizmo builds the program that docs/features-for-operators.md begins with, as it stands there, and returns the CRD beside it as well.
func gizmo(t *testing.T) (program string, crd []byte) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "features-for-operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## From nothing\n")
	section, _, _ = strings.Cut(section, "\n## ")
	block := func(fence string) []byte {
		_, rest, _ := strings.Cut(section, "\n```"+fence+"\n")
		text, _, ok := strings.Cut(rest, "\n```\n")
		if !ok {
			t.Fatalf("there is no block %s", fence)
		}
		return []byte(text + "\n")
	}
	// The files are laid over the module as if they stood in a folder of it: so the program is built with the module's versions.
	at, err := filepath.Abs("../gizmo")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string][]byte{"main.go": block("go file=gizmo/main.go"), "crd.yaml": block("yaml file=gizmo/crd.yaml")} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(at, name)] = file
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "gizmo")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "sluice.dev/examples/gizmo")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program, block("yaml file=gizmo/crd.yaml")
}

// TestTheProgramOfTheDocumentation holds the manifests that the program prints against its CRD.
func TestTheProgramOfTheDocumentation(t *testing.T) {
	program, text := gizmo(t)
	manifests, err := exec.CommandContext(t.Context(), program, "--manifests").Output()
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	resource, err := feature.ResourceOf(&crd)
	if err != nil {
		t.Fatal(err)
	}
	var component v1alpha1.Component
	var list []v1alpha1.Feature
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 1024)
	if err := decoder.Decode(&component); err != nil {
		t.Fatal(err)
	}
	for {
		var f v1alpha1.Feature
		if err := decoder.Decode(&f); err != nil {
			break
		}
		list = append(list, f)
	}
	model, findings := feature.Define(&component, list, feature.Options{Resources: []feature.Resource{resource}})
	if len(findings) > 0 || len(model.Features()) != 3 {
		t.Errorf("%d features, %v", len(model.Features()), findings)
	}

	wrong := exec.CommandContext(t.Context(), program, "--feature-gates=Bannr=true")
	out, err := wrong.CombinedOutput()
	if err == nil || !strings.Contains(string(out), `did you mean "Banner"?`) {
		t.Errorf("a wrong flag: %v: %s", err, out)
	}
}
