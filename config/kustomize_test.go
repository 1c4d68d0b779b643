package config_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"sluice.dev/config"
)

var update = flag.Bool("update", false, "write the kustomize bases anew")

const kustomization = `# Name your image: images: [{name: sluice, newName: registry.example.com/sluice, newTag: v1.0.0}]
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [install.yaml]
`

// TestKustomizeBases holds the bases equal to what sluice manifests prints.
func TestKustomizeBases(t *testing.T) {
	for name, o := range map[string]config.Options{
		"default": {}, "all": {Roles: []string{"all"}}, "crd-guard": {Roles: []string{config.GuardRole}}, "beside-tekton": {BesideTekton: true},
	} {
		o.Image = "sluice"
		text, err := config.Manifests(o)
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte("# Generated from config/chart. DO NOT EDIT.\n---\n"), text...)
		for file, want := range map[string][]byte{"install.yaml": text, "kustomization.yaml": []byte(kustomization)} {
			path := filepath.Join("kustomize", name, file)
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, want, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what the chart says (%v); write it anew with make generate", path, err)
			}
		}
	}
}
