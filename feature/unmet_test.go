package feature_test

import (
	"testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// TestWhatABetaFeatureRequiresIsMissed: level stable opens beta parts of resources whose highest stage is Beta, and no behaviour.
func TestWhatABetaFeatureRequiresIsMissed(t *testing.T) {
	beta := []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v1.0.0"}}
	follows := true
	list := []v1alpha1.Feature{
		{Spec: v1alpha1.FeatureSpec{Component: "demo", Gate: "Base", FollowsLevel: &follows, Stages: beta}},
		{Spec: v1alpha1.FeatureSpec{Component: "demo", Gate: "Top", Requires: []string{"Base"}, Stages: beta}},
	}
	for highest, missed := range map[v1alpha1.Stage]bool{"": true, v1alpha1.Stable: true, v1alpha1.Beta: true} {
		c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
		c.Name = "demo"
		if highest != "" {
			c.Spec.Resources = []v1alpha1.ResourceStage{{Group: "demo.dev", Resource: "things", HighestStage: highest}}
		}
		m, findings := feature.Define(c, list, feature.Options{})
		if err := findings.Err(); err != nil {
			t.Fatal(err)
		}
		_, findings = m.ParseSettings(map[string]string{"top": "true"})
		if told := findings.Err() != nil; told != missed {
			t.Errorf("highest stage %q: %v", highest, findings)
		}
	}
}
