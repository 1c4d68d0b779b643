package feature_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/schema"
)

// TestVersionsThatLeaveAFieldOpenAreTold: only of what is the same data in a version that nothing names.
func TestVersionsThatLeaveAFieldOpenAreTold(t *testing.T) {
	node := func(fields ...string) *schema.Node {
		spec := &schema.Node{Type: "object"}
		for _, f := range fields {
			spec.Properties = append(spec.Properties, schema.Property{Name: f, Node: &schema.Node{Type: "string"}})
		}
		return &schema.Node{Type: "object", Properties: []schema.Property{{Name: "spec", Node: spec}}}
	}
	part := func(field string, versions ...string) v1alpha1.Part {
		return v1alpha1.Part{Group: "demo.dev", Resource: "things", Field: field, Versions: versions}
	}
	whole := v1alpha1.FeatureSpec{
		Component: "demo", Gate: "Whole", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
		Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "things", Versions: []string{"v2"}, WholeVersion: true}},
	}
	for _, tt := range []struct {
		name      string
		parts     []v1alpha1.Part
		converted bool
		besides   []v1alpha1.Feature
		want      []string
	}{
		{name: "all versions", parts: []v1alpha1.Part{part("spec.a")}},
		{name: "one of two", parts: []v1alpha1.Part{part("spec.a", "v1")}, want: []string{"spec.parts[0].versions"}},
		{name: "the other has no such field", parts: []v1alpha1.Part{part("spec.old", "v1")}},
		{name: "each has its name", parts: []v1alpha1.Part{part("spec.a", "v1"), part("spec.b", "v2")}},
		{name: "a webhook converts", parts: []v1alpha1.Part{part("spec.a", "v1")}, converted: true},
		{name: "all of the other is gated", parts: []v1alpha1.Part{part("spec.a", "v1")}, besides: []v1alpha1.Feature{{Spec: whole}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
			c.Name = "demo"
			f := v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{Component: "demo", Gate: "Gate", Stages: whole.Stages, Parts: tt.parts}}
			_, findings := feature.Define(c, append(tt.besides, f), feature.Options{Resources: []feature.Resource{{
				Group: "demo.dev", Resource: "things", Stored: "v1", Converted: tt.converted,
				Versions: []feature.Version{{Name: "v1", Schema: node("a", "old")}, {Name: "v2", Schema: node("a", "b")}},
			}}})
			var got []string
			for _, x := range findings {
				if x.Code != feature.CodeOpenVersion || x.Severity != feature.Warning {
					t.Errorf("%+v", x)
				}
				got = append(got, x.Where)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
