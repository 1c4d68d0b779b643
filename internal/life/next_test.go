package life

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/api/v1alpha1"
)

func TestNextStagesAreThoseThatTheLawAllows(t *testing.T) {
	day := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	component := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.3.0"}}
	component.Name = "demo"
	stages := func(list ...v1alpha1.FeatureStage) *v1alpha1.FeatureSpec {
		return &v1alpha1.FeatureSpec{Component: "demo", Gate: "Shards", Stages: list, Parts: []v1alpha1.Part{{Group: "example.com", Resource: "widgets", Field: "spec.shards"}}}
	}
	alpha := v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.1.0", Date: "2026-01-01"}
	beta := v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.2.0", Date: "2026-03-01"}
	gone := v1alpha1.FeatureStage{Stage: v1alpha1.Deprecated, Release: "v1.3.0", Date: "2026-05-01"}
	for _, tt := range []struct {
		name string
		spec *v1alpha1.FeatureSpec
		now  v1alpha1.Stage
		want map[v1alpha1.Stage]string // a part of the reason against it
	}{
		{"alpha", stages(alpha), v1alpha1.Alpha, map[v1alpha1.Stage]string{v1alpha1.Beta: "", v1alpha1.Stable: "from alpha to stable", v1alpha1.Deprecated: "", v1alpha1.Removed: "never announced"}},
		{"beta", stages(alpha, beta), v1alpha1.Beta, map[v1alpha1.Stage]string{v1alpha1.Stable: "", v1alpha1.Deprecated: "", v1alpha1.Removed: "never announced"}},
		{"deprecated beta", stages(alpha, beta, gone), v1alpha1.Deprecated, map[v1alpha1.Stage]string{v1alpha1.Removed: "what is beta takes 9 months and 3 minor releases"}},
		{"deprecated alpha", stages(alpha, gone), v1alpha1.Deprecated, map[v1alpha1.Stage]string{v1alpha1.Removed: ""}},
		{"removed", stages(alpha), v1alpha1.Removed, map[v1alpha1.Stage]string{}},
	} {
		got := NextStages(t.Context(), component, tt.spec, tt.now, day)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		for _, step := range got {
			if want, ok := tt.want[step.Stage]; !ok || (want == "") != (step.Against == "") || !strings.Contains(step.Against, want) {
				t.Errorf("%s to %s: %q, want %q", tt.name, step.Stage, step.Against, want)
			}
		}
	}
	component.Spec.Release = ""
	if got := NextStages(t.Context(), component, stages(alpha), v1alpha1.Alpha, day); got != nil {
		t.Errorf("without a release: %+v", got)
	}
}
