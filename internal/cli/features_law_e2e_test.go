//go:build e2e

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A change is compared with what a cluster has: its Component, its Features and its CRDs.
func TestE2EAChangeIsComparedWithACluster(t *testing.T) {
	w := newWorld(t)
	k := w.featureKinds()
	dir, group, component := t.TempDir(), w.namespace+".example.com", w.namespace
	w.forgets(component)
	write := func(stages, fields string) {
		t.Helper()
		for name, text := range map[string]string{
			"crd.yaml": fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: carts.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Cart, plural: carts, singular: cart, listKind: CartList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%[2]s}}}}}}
`, group, fields),
			"features.yaml": fmt.Sprintf(`apiVersion: sluice.dev/v1alpha1
kind: FeatureFile
component: %[1]s
spec: {release: v1.1.0}
source: {crds: [crd.yaml]}
output: {manifests: manifests.yaml, crds: [{path: out.yaml}]}
releases: [{release: v1.0.0, date: 2025-01-01}, {release: v1.1.0, date: 2025-06-01}]
features:
- gate: Extra
  stages: [%[2]s]
  parts: [{group: %[3]s, resource: carts, field: spec.extra}]
`, component, stages, group),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	verify := func(want int) string {
		t.Helper()
		code, stdout, stderr := sluice(t, "features", "verify", "-f", filepath.Join(dir, "features.yaml"), "--against", "cluster", "--kubeconfig", w.Kubeconfig)
		if code != want {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		return stdout + stderr
	}
	const both = "extra: {type: string}, other: {type: string}"
	write("{stage: Alpha, release: v1.0.0}", both)
	if text := verify(ExitOK); !strings.Contains(text, "nothing to compare with in the base cluster: it has no Component "+component) {
		t.Errorf("without a Component: %s", text)
	}
	if code, _, stderr := sluice(t, "features", "generate", "-f", filepath.Join(dir, "features.yaml")); code != ExitOK {
		t.Fatal(stderr)
	}
	for _, name := range []string{"out.yaml", "manifests.yaml"} { // the CRD with stages in its descriptions
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range w.decoded(data) {
			if u.Object == nil {
				continue
			}
			if err := k.ApplyObject(t.Context(), u, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	verify(ExitOK)
	write("{stage: Alpha, release: v1.1.0}", both)
	if text := verify(ExitFindings); !strings.Contains(text, "history-changed") {
		t.Error(text)
	}
	write("{stage: Alpha, release: v1.0.0}", "extra: {type: integer}, other: {type: string}, more: {type: string}")
	if text := verify(ExitFindings); !strings.Contains(text, "field-incompatible") || !strings.Contains(text, "new-field-not-gated") {
		t.Error(text)
	}
}
