package feature_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
)

const fixFeatures = `
- {gate: Base, stages: [{stage: Beta, release: v1.0.0, default: true}]}
- {gate: Middle, requires: [Base]}
- {gate: Other, requires: [Base], inverted: true, key: disable-other}
- {gate: Top, requires: [Middle, Other]}
- {gate: Leveled, parts: [{field: spec.tasksTimeout}]}
- {gate: Higher, requires: [Leveled], parts: [{field: spec.onError}]}
- {gate: Legacy, impliedByLevel: true}
- {gate: Sure, stages: [{stage: Stable, release: v1.0.0, lockToDefault: true}]}
- {gate: NeedsSure, requires: [Sure]}
- {gate: Late, stages: [{stage: Beta, release: v9.0.0}]}
- {gate: NeedsLate, requires: [Late], stages: [{stage: Alpha, release: v1.0.0}]}
- {gate: Hooked, requiredProcesses: [webhook]}
- {gate: NeedsHooked, requires: [Hooked]}
`

// TestHowToOpen: what is said of any settings, and with some in force.
func TestHowToOpen(t *testing.T) {
	m := define(t, "{metadata: {name: demo}, spec: {release: v1.0.0, configMap: {namespace: ns, name: ff}}}", fixFeatures, pipelines(t))
	for _, tt := range []struct{ gate, want string }{
		{"Leveled", `set leveled: "true", or enable-api-fields: alpha without leveled, in ConfigMap ns/ff`},
		{"Legacy", `set legacy: "true", or enable-api-fields: alpha, in ConfigMap ns/ff`},
		{"Base", `set base: "true" in ConfigMap ns/ff`},
		{"Middle", `it requires Base: set base: "true" and middle: "true" in ConfigMap ns/ff`},
		{"Top", `it requires Base and Middle and Other: set base: "true" and middle: "true" and disable-other: "false" and top: "true" in ConfigMap ns/ff`},
		{"Higher", `it requires Leveled: set leveled: "true" and higher: "true", or enable-api-fields: alpha without leveled and higher, in ConfigMap ns/ff`},
		{"NeedsSure", `set needs-sure: "true" in ConfigMap ns/ff`},
		{"NeedsLate", `it requires Late: it comes with v9.0.0 of the component`},
	} {
		if diff := cmp.Diff(tt.want, m.Feature(tt.gate).HowToOpen()); diff != "" {
			t.Errorf("%s: %s", tt.gate, diff)
		}
	}
	for _, tt := range []struct {
		gate     string
		settings map[string]string
		want     string
	}{
		{"Leveled", map[string]string{"leveled": "false"}, `set leveled: "true" in ConfigMap ns/ff`},
		{"Leveled", map[string]string{"feature-gates": "Leveled=false"}, `set leveled: "true", without Leveled in feature-gates, in ConfigMap ns/ff`},
		{"Legacy", map[string]string{"feature-gates": "Legacy=false"}, `set legacy: "true", without Legacy in feature-gates, or enable-api-fields: alpha, in ConfigMap ns/ff`},
		{"Middle", map[string]string{}, `set middle: "true" in ConfigMap ns/ff`},
		{"Top", map[string]string{"base": "false", "middle": "true"}, `it requires Base and Middle and Other: set base: "true" and disable-other: "false" and top: "true" in ConfigMap ns/ff`},
		{"Higher", map[string]string{"leveled": "false"}, `it requires Leveled: set leveled: "true" and higher: "true" in ConfigMap ns/ff`},
		{"Higher", map[string]string{"leveled": "false", "higher": "true"}, `it requires Leveled: set leveled: "true" in ConfigMap ns/ff`},
		{"NeedsLate", map[string]string{}, `it requires Late: it comes with v9.0.0 of the component`},
		{"NeedsHooked", map[string]string{"hooked": "true"}, `it requires Hooked: set needs-hooked: "true" in ConfigMap ns/ff; Hooked: it is on by the settings, but webhook does not report it as on`},
	} {
		settings, _ := m.ParseSettings(tt.settings)
		s, _ := m.Resolve(settings, feature.Runtime{}).State(tt.gate)
		if diff := cmp.Diff(tt.want, s.Fix); diff != "" || s.Open {
			t.Errorf("%s with %v, open %v: %s", tt.gate, tt.settings, s.Open, diff)
		}
	}
}

// TestWhatIsSaidToOpenOpens follows the text for any settings, from settings in which all is off.
func TestWhatIsSaidToOpenOpens(t *testing.T) {
	m := define(t, "{metadata: {name: demo}, spec: {release: v1.0.0, configMap: {namespace: ns, name: ff}}}", fixFeatures, pipelines(t))
	for _, f := range m.Features() {
		if !f.Free() || f.Spec.Gate == "NeedsLate" {
			continue
		}
		settings := map[string]string{}
		for _, o := range m.Features() {
			if o.Free() {
				settings[o.Spec.Key] = fmt.Sprint(o.Spec.Inverted)
			}
		}
		text := f.HowToOpen()
		for _, o := range m.Features() {
			if pair := fmt.Sprintf("%s: %q", o.Spec.Key, fmt.Sprint(!o.Spec.Inverted)); strings.Contains(text, " "+pair) {
				settings[o.Spec.Key] = fmt.Sprint(!o.Spec.Inverted)
			}
		}
		parsed, findings := m.ParseSettings(settings)
		if s, _ := m.Resolve(parsed, feature.Runtime{AssumeProcesses: true}).State(f.Spec.Gate); !s.Open || findings.Err() != nil {
			t.Errorf("%s: %s: %v, %v", f.Spec.Gate, text, s.Reason, findings)
		}
	}
}

// TestOptingInToAFeatureTakesWhatItRequires: a user who opts in to a feature also opts in to the features that it requires.
func TestOptingInToAFeatureTakesWhatItRequires(t *testing.T) {
	m := define(t, "{metadata: {name: demo}, spec: {release: v1.0.0, optIn: {namespaceLabel: true, rbac: true}}}", "[{gate: Base}, {gate: Top, requires: [Base]}]", pipelines(t))
	want := "it requires Base: set feature gates Base=true,Top=true; or label the namespace feature.sluice.dev/demo.Base: enabled and feature.sluice.dev/demo.Top: enabled; " +
		"or get the verb use on demo.base and demo.top of features.sluice.dev"
	if diff := cmp.Diff(want, m.Feature("Top").HowToOpen()); diff != "" {
		t.Error(diff)
	}
}
