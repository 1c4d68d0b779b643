package feature_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/schema"
)

// TestAFieldIsGatedWhereverItIsTheSameData: in versions that a part does not name too, unless a webhook converts. What cannot be gated there
// is told.
func TestAFieldIsGatedWhereverItIsTheSameData(t *testing.T) {
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
	for _, tt := range []struct {
		name      string
		parts     []v1alpha1.Part
		converted bool
		needed    bool // field a, in v2
		want      []string
		open      []string
	}{
		{name: "all versions", parts: []v1alpha1.Part{part("spec.a")}, want: []string{"v1 spec.a", "v2 spec.a"}},
		{name: "one of two", parts: []v1alpha1.Part{part("spec.a", "v1")}, want: []string{"v1 spec.a", "v2 spec.a"}},
		{name: "each of two", parts: []v1alpha1.Part{part("spec.a", "v1"), part("spec.a", "v2")}, want: []string{"v1 spec.a", "v2 spec.a"}},
		{name: "the other has no such field", parts: []v1alpha1.Part{part("spec.old", "v1")}, want: []string{"v1 spec.old"}},
		{name: "fields of either", parts: []v1alpha1.Part{part("spec.a", "v1"), part("spec.b", "v2")}, want: []string{"v1 spec.a", "v2 spec.a", "v2 spec.b"}},
		{name: "a webhook converts", parts: []v1alpha1.Part{part("spec.a", "v1")}, converted: true, want: []string{"v1 spec.a"}},
		{name: "the other needs it", parts: []v1alpha1.Part{part("spec.a", "v1")}, needed: true, want: []string{"v1 spec.a"}, open: []string{"spec.parts[0].versions"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
			c.Name = "demo"
			f := v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{Component: "demo", Gate: "Gate", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}, Parts: tt.parts}}
			second := node("a", "b")
			if tt.needed {
				second.Properties[0].Node.Required = []string{"a"}
			}
			m, findings := feature.Define(c, []v1alpha1.Feature{f}, feature.Options{Resources: []feature.Resource{{
				Group: "demo.dev", Resource: "things", Stored: "v1", Converted: tt.converted,
				Versions: []feature.Version{{Name: "v1", Schema: node("a", "old")}, {Name: "v2", Schema: second}},
			}}})
			var got, open []string
			for _, x := range findings {
				if x.Code != feature.CodeOpenVersion || x.Severity != feature.Warning {
					t.Errorf("%+v", x)
				}
				open = append(open, x.Where)
			}
			for _, target := range m.Feature("Gate").Targets {
				got = append(got, target.Version+" "+target.Path.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.open, open); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The API server converts between the versions of its own kinds, such as autoscaling/v1 and v2, and no schema says where a field is in each.
func TestAPartOfAKindOfTheAPIServerNamesItsVersions(t *testing.T) {
	for _, tt := range []struct {
		name                string
		known, named, whole []string
		want                int
	}{
		{name: "several versions", known: []string{"v1", "v2"}, want: 1},
		{name: "one version", known: []string{"v1"}},
		{name: "the part names its version", known: []string{"v1", "v2"}, named: []string{"v2"}},
		{name: "a whole version", known: []string{"v1", "v2"}, whole: []string{"v2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := feature.Resource{Group: "autoscaling", Resource: "horizontalpodautoscalers", Converted: len(tt.known) > 1}
			for _, v := range tt.known {
				r.Versions = append(r.Versions, feature.Version{Name: v})
			}
			p := v1alpha1.Part{Group: r.Group, Resource: r.Resource, Field: "spec.metrics", Versions: tt.named}
			if tt.whole != nil {
				p = v1alpha1.Part{Group: r.Group, Resource: r.Resource, Versions: tt.whole, WholeVersion: true}
			}
			c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
			c.Name = "demo"
			_, findings := feature.Define(c, []v1alpha1.Feature{{Spec: v1alpha1.FeatureSpec{
				Component: "demo", Gate: "Gate", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}, Parts: []v1alpha1.Part{p},
			}}}, feature.Options{Resources: []feature.Resource{r}})
			open := 0
			for _, x := range findings {
				if x.Code == feature.CodeOpenVersion {
					open++
				} else {
					t.Errorf("%+v", x)
				}
			}
			if open != tt.want {
				t.Errorf("%d findings of an open version, want %d", open, tt.want)
			}
		})
	}
}

// Without its CRD, any version of a resource may be one that the API server converts.
func TestVersionsOfAnUnknownResourceMayBeConverted(t *testing.T) {
	m := define(t, "metadata: {name: demo}\nspec: {release: v1.0.0}",
		"- {gate: G, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: autoscaling, resource: horizontalpodautoscalers, versions: [v2], field: spec.minReplicas}]}", nil)
	for version, want := range map[string][]string{"v1": {"G"}, "v2": nil} {
		if got := m.Converted("autoscaling", "horizontalpodautoscalers", version); !slices.Equal(got, want) {
			t.Errorf("%s: %v instead of %v", version, got, want)
		}
	}
}
