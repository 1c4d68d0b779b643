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

const kustomization = `# The API server refuses these Deployments until you name your image, by a kustomization of your own with this base and a patch:
#   resources: [config/kustomize/crd-guard]
#   patches:
#     - target: {kind: Deployment, labelSelector: app.kubernetes.io/part-of=sluice}
#       patch: |-
#         - {op: add, path: /spec/template/spec/containers/0/image, value: "registry.example.com/sluice:v1.0.0"}
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [install.yaml]
`

// TestKustomizeBases holds the bases equal to what sluice manifests prints, without the image. Any name of an image would be taken by an
// API server, and would replace that of a running installation.
func TestKustomizeBases(t *testing.T) {
	for name, o := range map[string]config.Options{
		"default": {}, "all": {Roles: []string{"all"}}, "crd-guard": {Roles: []string{config.GuardRole}}, "beside-tekton": {BesideTekton: true},
	} {
		o.Image = "sluice"
		text, err := config.Manifests(o)
		if err != nil {
			t.Fatal(err)
		}
		const image = "          image: \"sluice\"\n"
		if images, deployments := bytes.Count(text, []byte(image)), bytes.Count(text, []byte("\nkind: Deployment\n")); images != deployments {
			t.Errorf("%s: %d images for %d Deployments", name, images, deployments)
		}
		text = bytes.ReplaceAll(text, []byte(image), nil)
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
