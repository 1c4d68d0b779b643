//go:build e2e

package input

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/tools/clustertest/binary"
	"sluice.dev/tools/draws"
)

// TestE2EKustomizationsAreAppliedAsKubectlDoes draws kustomizations with patches of each form, and compares the definitions with those
// that kubectl kustomize prints.
func TestE2EKustomizationsAreAppliedAsKubectlDoes(t *testing.T) {
	kubectl, err := binary.Kubectl(t.Context(), ".", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	patched := 0
	for seed := range draws.Seeds(400) {
		dir := t.TempDir()
		built := drawKustomization(t, rand.New(rand.NewPCG(seed, 1)), dir)
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", built)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			continue // Sluice warns of what kustomize refuses
		}
		want, err := Decode(t.Context(), "rendered", out)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Load(t.Context(), Source{Kind: Path, Paths: []string{dir}}, Options{PassTemplates: true, KeepAll: true})
		if err != nil {
			t.Fatal(err)
		}
		specs := func(s *Set) map[string]any {
			specs := map[string]any{}
			for _, d := range s.Documents {
				specs[d.CRD.Name] = d.CRD.Spec
				if d.Patched {
					patched++
				}
			}
			return specs
		}
		if diff := cmp.Diff(specs(want), specs(got)); diff != "" {
			text, _ := os.ReadFile(filepath.Join(built, "kustomization.yaml"))
			t.Fatalf("seed %d (-kubectl +sluice):\n%s\n%s", seed, diff, text)
		}
	}
	if patched < 5 {
		t.Errorf("only %d definitions were patched", patched)
	}
}

// definition is a definition with two verbs: its name and its kind.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]ss, shortNames: [a]}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string, maxLength: 5}}}}}}}
`

// drawKustomization writes two definitions and a kustomization that patches them, and returns its folder. In half of the draws it is an overlay of
// another one.
func drawKustomization(t *testing.T, r *rand.Rand, dir string) (built string) {
	t.Helper()
	built = dir
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(built, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	merges := []string{
		"conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: x, namespace: system, path: /c, port: 443}}}}",
		"names: {shortNames: [b, c], categories: [all]}", "scope: Cluster", "names: {shortNames: null}", "preserveUnknownFields: false",
		"versions: [{name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]",
	}
	ops := []string{
		"[{op: add, path: /spec/conversion, value: {strategy: None}}]", "[{op: replace, path: /spec/scope, value: Cluster}]",
		"[{op: add, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b, value: {type: integer}}]",
		"[{op: remove, path: /spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength}]",
		"[{op: add, path: /spec/names/shortNames/-, value: z}, {op: add, path: /metadata/labels, value: {x: y}}]",
	}
	object := func() string {
		return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.example.com}\nspec:\n  %s\n",
			pick("widgets", "gadgets"), pick(merges...))
	}
	indent := func(s string) string { return "    " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ") + "\n" }
	target := func() string {
		return fmt.Sprintf("target: {kind: CustomResourceDefinition, name: %s}", pick("widgets.example.com", "gadgets.*", ".*", "idgets.example.com", "'widgets|gadgets'"))
	}
	// draw returns patches for the kustomization in a folder.
	draw := func(below string, most int) (text string) {
		var patches, strategic, json6902 string
		for i := range r.IntN(most + 1) {
			file := fmt.Sprintf("patches/%d.yaml", i)
			switch r.IntN(7) {
			case 0:
				write(below+file, object())
				patches += "- path: " + file + "\n"
			case 1:
				patches += "- patch: |-\n" + indent(object())
			case 2:
				patches += "- " + target() + "\n  patch: '" + pick(ops...) + "'\n"
			case 3:
				write(below+file, pick(ops...)+"\n")
				patches += "- " + target() + "\n  path: " + file + "\n"
			case 4:
				write(below+file, object()+"---\n"+object())
				strategic += "- " + file + "\n"
			case 5:
				strategic += "- |-\n" + indent(object())
			case 6:
				json6902 += "- target: {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: widgets.example.com}\n  patch: '" + pick(ops...) + "'\n"
			}
		}
		for key, list := range map[string]string{"patches": patches, "patchesStrategicMerge": strategic, "patchesJson6902": json6902} {
			if list != "" {
				text += key + ":\n" + list
			}
		}
		return text
	}
	overlaid := r.IntN(2) == 0
	if overlaid {
		built = filepath.Join(dir, "crd")
	}
	for _, name := range []string{"widget", "gadget"} {
		write("bases/"+name+".yaml", fmt.Sprintf(definition, name, strings.ToUpper(name[:1])+name[1:]))
	}
	text := "resources: [bases/widget.yaml, bases/gadget.yaml]\n"
	if r.IntN(2) == 0 {
		text = "resources: [bases]\n"
		write("bases/kustomization.yaml", "resources: [widget.yaml, gadget.yaml]\n"+draw("bases/", 2))
	}
	text += draw("", 4)
	component := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	if r.IntN(2) == 0 {
		text += "components: [components/a]\n"
		if r.IntN(2) == 0 {
			write("components/b/kustomization.yaml", component+draw("components/b/", 2))
			component += "components: [../b]\n"
		}
		write("components/a/kustomization.yaml", component+draw("components/a/", 2))
	}
	write("kustomization.yaml", text)
	if overlaid {
		built = filepath.Join(dir, "overlay")
		write("kustomization.yaml", "namePrefix: x-\nresources: [../crd]\n"+draw("", 3))
	}
	return built
}
