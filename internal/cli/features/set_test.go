package features

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

func TestOnlyTheEntryOfTheGateIsEdited(t *testing.T) {
	for _, tt := range []struct {
		text, gate string
		on         bool
		want       string
		found      bool
	}{
		{"", "A", true, "", false},
		{"A=false", "A", true, "A=true", true},
		{"A=true,B=false", "B", true, "A=true,B=true", true},
		{" A = false ,\n  B=true\n", "B", false, " A = false ,\n  B=false\n", true},
		{"AB=false,A=false", "A", true, "AB=false,A=true", true},
		{"A=", "A", true, "A=true", true},
		{"A=false,A=True", "A", false, "A=false,A=false", true},
		{"A", "A", true, "A", false},
		{",,A=0,", "A", true, ",,A=true,", true},
	} {
		if got, found := editGates(tt.text, tt.gate, tt.on); got != tt.want || found != tt.found {
			t.Errorf("%q, %s: %q, %t; want %q, %t", tt.text, tt.gate, got, found, tt.want, tt.found)
		}
	}
}

// TestImmutableSettingsAreNotWritten: the refusal says what to do, and nothing is refused where nothing would change.
func TestImmutableSettingsAreNotWritten(t *testing.T) {
	c := &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.ComponentSpec{Release: "v1.0.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo", Name: "flags"}}}
	f := v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "demo.fast"}, Spec: v1alpha1.FeatureSpec{Component: "demo", Gate: "Fast", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}}}
	m, findings := feature.Define(c, []v1alpha1.Feature{f}, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	for _, immutable := range []*bool{nil, new(false), new(true)} {
		s := &setter{
			flags: &setFlags{}, gates: []string{"Fast"}, on: true,
			part: &componentFeatures{component: c, model: m, config: &corev1.ConfigMap{Immutable: immutable, Data: map[string]string{"fast": "false"}}},
		}
		locked := immutable != nil && *immutable
		if refused := s.planChange().Refused; (refused != nil) != locked || locked && !strings.Contains(refused[0], "kubectl delete configmap flags --namespace demo") {
			t.Errorf("immutable is %t: %q", locked, refused)
		}
		if s.on = false; s.planChange().Refused != nil {
			t.Error("what is off already is refused")
		}
	}
}
