//go:build e2e

package enforcement

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/tools/featuregen"
)

// tektonExample applies the kinds of examples/tekton, which no webhook converts here. It returns its features, and the kinds by resource.
func (s *server) tektonExample() (*feature.Model, map[string]string) {
	s.Helper()
	var c v1alpha1.Component
	var list []v1alpha1.Feature
	var o feature.Options
	kinds := map[string]string{}
	for _, file := range []string{"crds.yaml", "manifests.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../examples/tekton", file))
		if err != nil {
			s.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			var head metav1.TypeMeta
			err := yaml.Unmarshal([]byte(part), &head)
			switch head.Kind {
			case "Component":
				err = yaml.UnmarshalStrict([]byte(part), &c)
			case "Feature":
				list = append(list, v1alpha1.Feature{})
				err = yaml.UnmarshalStrict([]byte(part), &list[len(list)-1])
			case "CustomResourceDefinition":
				var crd apiextensionsv1.CustomResourceDefinition
				if err = yaml.UnmarshalStrict([]byte(part), &crd); err != nil {
					break
				}
				crd.Spec.Conversion = nil
				u := s.unstructured(&crd)
				s.apply(u)
				if err = s.objects.WaitServed(s.Context(), u); err != nil {
					break
				}
				kinds[crd.Spec.Names.Plural] = crd.Spec.Names.Kind
				o.Resources = append(o.Resources, feature.Resource{})
				o.Resources[len(o.Resources)-1], err = feature.ResourceOf(&crd)
			}
			if err != nil {
				s.Fatal(err)
			}
		}
	}
	m, findings := feature.Define(&c, list, o)
	if err := findings.Err(); err != nil {
		s.Fatal(err)
	}
	return m, kinds
}

// TestE2ETektonShaped has every part that Tekton's webhook gates accepted and refused by policies as there, at each level and with
// each flag, and goes on with what is stored.
func TestE2ETektonShaped(t *testing.T) {
	t.Parallel()
	s := connect(t)
	s.namespace("tekton-pipelines", nil)
	m, names := s.tektonExample()
	cases := featuregen.Tekton()
	set, err := policy.Compile(t.Context(), m, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range set.Enforced {
		if e.Kind == "" {
			t.Errorf("%s of %s takes the webhook: %s", e.Gate, e.Resource, e.Reason)
		}
	}
	kinds := map[string]dynamic.ResourceInterface{}
	for plural := range names {
		kinds[plural], _ = s.as("", schema.GroupVersionResource{Group: featuregen.TektonGroup, Version: "v1", Resource: plural}, "tekton-pipelines")
	}
	object := func(i int, spec map[string]any) *unstructured.Unstructured {
		c := &cases[i]
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": featuregen.TektonGroup + "/v1", "kind": names[c.Resource], "spec": spec}}
		u.SetName(fmt.Sprintf("case-%d", i))
		return u.DeepCopy()
	}
	stored := make([]*unstructured.Unstructured, len(cases))
	for i := range cases {
		if stored[i], err = kinds[cases[i].Resource].Create(t.Context(), object(i, cases[i].Spec), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.settings("tekton-pipelines", nil)
	s.enforce(set)
	defer s.release("tekton-pipelines")

	accepted, refused := 0, 0
	// judged tells how what the API server says of a new object differs from Tekton's rules.
	judged := func(ctx context.Context, i int, want bool) error {
		c := &cases[i]
		u := object(i, c.Spec)
		u.SetName(u.GetName() + "-new")
		_, err := kinds[c.Resource].Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case (err == nil) != want:
			return fmt.Errorf("%s %s is to be accepted: %v; it is: %w", c.Resource, featuregen.Show(c.Spec), want, err)
		case want:
			return nil
		}
		for _, w := range []string{c.Place + ": ", `needs feature "` + c.Gate + `"`, c.Need() + " tekton-pipelines/feature-flags"} {
			if !strings.Contains(err.Error(), w) {
				return fmt.Errorf("%q is not in %w", w, err)
			}
		}
		return nil
	}
	try := func(data map[string]string, level v1alpha1.Level, flags ...string) {
		t.Helper()
		s.settings("tekton-pipelines", data)
		for i := range cases {
			c := &cases[i]
			if len(flags) > 0 && !slices.Contains(flags, c.Flag) && i%8 != 0 {
				continue // with a flag some of those that it does not open will do
			}
			want := c.Gate == "" || c.Opens(level, flags...)
			// Settings are in force a moment after they were written.
			until(t, fmt.Sprint(data), func(ctx context.Context) error { return judged(ctx, i, want) })
			if want {
				accepted++
			} else {
				refused++
			}
		}
	}
	try(map[string]string{}, v1alpha1.LevelBeta)
	try(map[string]string{"enable-api-fields": "stable"}, v1alpha1.LevelStable)
	for i := range cases {
		// What is stored stays, which is another judgement than Tekton's.
		u := stored[i].DeepCopy()
		u.SetLabels(map[string]string{"a": "b"})
		if err := unstructured.SetNestedField(u.Object, "d", "spec", "description"); err != nil {
			t.Fatal(err)
		}
		if _, err := kinds[cases[i].Resource].Update(t.Context(), u, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("stored: %s: %v", featuregen.Show(cases[i].Spec), err)
		}
		// What it does not have is new.
		if c := &cases[i]; c.Gate != "" {
			without := object(i, map[string]any{"description": "d"})
			without.SetName("without-" + without.GetName())
			made, err := kinds[c.Resource].Create(t.Context(), without, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made.Object["spec"] = c.Spec
			if _, err = kinds[c.Resource].Update(t.Context(), made.DeepCopy(), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil || !strings.Contains(err.Error(), c.Place+": ") {
				t.Errorf("added: %s: %v", featuregen.Show(c.Spec), err)
			}
		}
	}
	try(map[string]string{"enable-api-fields": "beta"}, v1alpha1.LevelBeta)
	try(map[string]string{"enable-api-fields": "alpha"}, v1alpha1.LevelAlpha)
	flags := map[string]bool{}
	for i := range cases {
		if flag := cases[i].Flag; flag != "" && !flags[flag] {
			flags[flag] = true
			try(map[string]string{"enable-api-fields": "stable", flag: "true"}, v1alpha1.LevelStable, flag)
		}
	}
	t.Logf("%d cases: %d times accepted, %d times refused, in %d settings", len(cases), accepted, refused, len(flags)+4)
	if accepted < 300 || refused < 300 {
		t.Errorf("only %d times accepted and %d times refused", accepted, refused)
	}
}
