package features

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// A definition that turns bad keeps what it said before, and nothing else from being in force.
func TestLastGoodDefinitionsAreKept(t *testing.T) {
	const before = `
- {component: demo, gate: Em, parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: En, parts: [{group: demo.dev, resource: widgets, field: spec.dropped}]}
`
	for _, tt := range []struct {
		name, component, features string
		want                      map[string]string // gate to field
		left                      []string
		gone                      bool // of the schema
	}{
		{
			name: "a definition changes for the worse, another for the better, and one comes", features: `
- {component: demo, gate: Em, parts: [{group: demo.dev, resource: widgets, field: spec.refuse}]}
- {component: demo, gate: En, parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
- {component: demo, gate: Oh, requires: [Em], parts: [{group: demo.dev, resource: widgets, field: spec.dropped}]}
`,
			want: map[string]string{"Em": "spec.refused", "En": "spec.warned", "Oh": "spec.dropped"},
		},
		{
			name: "what comes is bad itself, and another requires it", features: before + `
- {component: demo, gate: Bad, key: no-good, parts: [{group: demo.dev, resource: widgets, field: spec.none}]}
- {component: demo, gate: Good, requires: [Bad], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
- {component: demo, gate: Em, parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`,
			want: map[string]string{"Em": "spec.refused", "En": "spec.dropped", "Good": "spec.warned"}, left: []string{"Bad", "no-good"},
		},
		{
			name: "what comes contradicts what is there, of which it is told that it is bad", features: before + `
- {component: demo, gate: A, whenDisabled: Drop, parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
`,
			want: map[string]string{"Em": "spec.refused", "En": "spec.dropped"}, left: []string{"A", "a"},
		},
		{
			name: "the field is gone", features: before, gone: true,
			want: map[string]string{"Em": "spec.refused", "En": "spec.dropped"},
		},
		{
			name: "one is deleted while another is bad", features: `
- {component: demo, gate: Em, parts: [{group: demo.dev, resource: widgets, field: spec.refuse}]}
`,
			want: map[string]string{"Em": "spec.refused"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &v1alpha1.Component{}
			if err := yaml.Unmarshal([]byte(movesComponent), c); err != nil {
				t.Fatal(err)
			}
			define := func(features string, o feature.Options) (list []v1alpha1.Feature, m *feature.Model) {
				var specs []v1alpha1.FeatureSpec
				if err := yaml.Unmarshal([]byte(features), &specs); err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for _, s := range specs {
					f := v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName("demo", s.Gate)}, Spec: s}
					if seen[s.Gate] {
						f.Name += "-2"
					}
					seen[s.Gate] = true
					f.Spec.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
					list = append(list, f)
				}
				m, _ = feature.Define(c, list, o)
				return list, m
			}
			was, now := resourcesOf(t, movesCRD), resourcesOf(t, movesCRD)
			if tt.gone {
				now = resourcesOf(t, strings.ReplaceAll(movesCRD, "refused:", "gone:"))
			}
			_, good := define(before, feature.Options{Resources: was})
			list, after := define(tt.features, feature.Options{Resources: now})
			out := &plan{component: c, features: list}
			if !out.losesFeature(good, after) {
				t.Fatal("nothing turned bad")
			}
			got := out.keepLastGood(good, after, feature.Options{Resources: now})
			fields := map[string]string{}
			for _, f := range got.Features() {
				fields[f.Spec.Gate] = f.Spec.Parts[0].Field
			}
			if d := cmp.Diff(tt.want, fields); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if d := cmp.Diff(tt.left, got.LeftOut()); d != "" {
				t.Errorf("left out: -want +got\n%s", d)
			}
		})
	}
}

func resourcesOf(t *testing.T, text string) []feature.Resource {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	r, err := feature.ResourceOf(&crd)
	if err != nil {
		t.Fatal(err)
	}
	return []feature.Resource{r}
}
