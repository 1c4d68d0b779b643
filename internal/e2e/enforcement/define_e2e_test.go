//go:build e2e

package enforcement

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// model defines a component and its features, a list of specs, for kinds.
func model(t testing.TB, component, features string, crds ...string) *feature.Model {
	t.Helper()
	var c v1alpha1.Component
	var specs []v1alpha1.FeatureSpec
	for text, to := range map[string]any{component: &c, features: &specs} {
		if err := yaml.UnmarshalStrict([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	var o feature.Options
	for _, text := range crds {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(text), &crd); err != nil {
			t.Fatal(err)
		}
		r, err := feature.ResourceOf(&crd)
		if err != nil {
			t.Fatal(err)
		}
		o.Resources = append(o.Resources, r)
	}
	list := make([]v1alpha1.Feature, len(specs))
	for i, s := range specs {
		s.Component = c.Name
		if s.Stages == nil {
			s.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
		}
		list[i].Name, list[i].Spec = feature.ObjectName(c.Name, s.Gate), s
	}
	m, findings := feature.Define(&c, list, o)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}
