package feature_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

const layered = `
metadata: {name: demo}
spec: {release: v1.2.0}
`

const layeredFeatures = `
- {component: demo, gate: Base, stages: [{stage: Alpha, release: v1.0.0}]}
- {component: demo, gate: Above, requires: [Base], needsRestart: true, stages: [{stage: Alpha, release: v1.0.0}]}
- {component: demo, gate: Legacy, impliedByLevel: true, stages: [{stage: Alpha, release: v1.0.0}]}
- {component: demo, gate: Locked, stages: [{stage: Stable, release: v1.0.0, lockToDefault: true}]}
`

func TestLayers(t *testing.T) {
	m := define(t, layered, layeredFeatures, nil)
	for _, tt := range []struct {
		name   string
		layers []map[string]string
		open   string
		level  v1alpha1.Level
		codes  []string // of each layer
	}{
		{name: "none", open: "Locked", level: "stable", codes: []string{}},
		{name: "the first wins", layers: []map[string]string{{"feature-gates": "Base=true"}, {"base": "false"}}, open: "Base Locked", level: "stable", codes: []string{"", ""}},
		{
			name: "each says something else", layers: []map[string]string{{"feature-gates": "Above=true"}, {"base": "true"}, {"enable-api-fields": "beta"}},
			open: "Above Base Locked", level: "beta", codes: []string{"", "", ""},
		},
		{
			name: "what is required is closed further up", layers: []map[string]string{{"feature-gates": "Base=false"}, {"feature-gates": "Base=true,Above=true"}},
			open: "Locked", level: "stable", codes: []string{"", "needs-another"},
		},
		{
			name: "a gate beats AllAlpha of a layer above", layers: []map[string]string{{"feature-gates": "AllAlpha=true"}, {"base": "false"}},
			open: "Legacy Locked", level: "stable", codes: []string{"", ""},
		},
		{
			name: "a layer that contradicts itself says nothing, and hides the next", layers: []map[string]string{{"base": "true", "feature-gates": "Base=false"}, {"base": "true"}},
			open: "Locked", level: "stable", codes: []string{"settings-disagree", ""},
		},
		{
			name: "the same key in two layers is no contradiction", layers: []map[string]string{{"base": "true"}, {"feature-gates": "Base=false"}},
			open: "Base Locked", level: "stable", codes: []string{"", ""},
		},
		{
			name: "errors are told of their layer", layers: []map[string]string{{"feature-gates": "Bse=true"}, {"enable-api-fields": "betta"}, {"feature-gates": "Locked=false"}},
			open: "Locked", level: "stable", codes: []string{"unknown-gate", "bad-level", "locked"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings, findings := m.ParseLayers(tt.layers...)
			codes := make([]string, len(findings))
			for i, fs := range findings {
				for _, f := range fs {
					codes[i] += string(f.Code)
				}
			}
			if diff := cmp.Diff(tt.codes, codes); diff != "" {
				t.Errorf("findings: %s", diff)
			}
			states := m.Resolve(settings, feature.Runtime{})
			if got := openGates(states); got != tt.open || states.Level() != tt.level {
				t.Errorf("open %s at level %s, want %s at %s", got, states.Level(), tt.open, tt.level)
			}
			if len(tt.layers) == 1 {
				alone, _ := m.ParseSettings(tt.layers[0])
				if got := openGates(m.Resolve(alone, feature.Runtime{})); got != tt.open {
					t.Errorf("as the only settings: %s", got)
				}
			}
		})
	}
}

func openGates(states *feature.States) string {
	var open []string
	for _, s := range states.All() {
		if s.Open {
			open = append(open, s.Feature.Spec.Gate)
		}
	}
	return strings.Join(open, " ")
}

func TestPinnedFeaturesStay(t *testing.T) {
	m := define(t, layered, layeredFeatures, nil)
	if diff := cmp.Diff([]string{"Above", "Base"}, m.Restart()); diff != "" {
		t.Errorf("to be restarted: %s", diff)
	}
	parse := func(gates string) *feature.Settings {
		s, _ := m.ParseSettings(map[string]string{"feature-gates": gates, "enable-api-fields": "alpha"})
		return s
	}
	before := m.Resolve(parse("Base=true"), feature.Runtime{})
	for _, tt := range []struct{ gates, pins, open, why string }{
		{"Base=false,Legacy=false", "", "Legacy Locked", "key"},
		{"Base=false,Legacy=false", "Base Above Legacy Locked Unknown", "Base Legacy Locked", "restart"},
		{"Base=true,Above=true", "Base", "Above Base Legacy Locked", "key"},
		{"Base=true,Above=true", "Above", "Base Legacy Locked", "key"},
	} {
		pinned := parse(tt.gates).Pin(before, strings.Fields(tt.pins)...)
		states := m.Resolve(pinned, feature.Runtime{})
		base, _ := states.State("Base")
		if got := openGates(states); got != tt.open || string(base.Why) != tt.why {
			t.Errorf("%s pinned %s: open %s, Base because of %s; want %s, %s", tt.gates, tt.pins, got, base.Why, tt.open, tt.why)
		}
		// Pins last through another state.
		if again := openGates(m.Resolve(parse(tt.gates).Pin(states, strings.Fields(tt.pins)...), feature.Runtime{})); again != tt.open {
			t.Errorf("pinned again: %s", again)
		}
	}
	var none *feature.Settings
	if got := openGates(m.Resolve(none.Pin(before, "Base"), feature.Runtime{})); got != "Base Locked" {
		t.Errorf("no settings, pinned: %s", got)
	}
}

func TestFlip(t *testing.T) {
	for _, tt := range []struct {
		name, stages string
		at           string
		done, ok     bool
	}{
		{"never", "[{stage: Alpha, release: v1.0.0}]", "", false, false},
		{"announced", "[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.3.0, default: true}]", "v1.3.0", false, true},
		{"announced as stable", "[{stage: Beta, release: v1.0.0}, {stage: Stable, release: v1.4.0}]", "v1.4.0", false, true},
		{"done", "[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.2.0, default: true}]", "v1.2.0", true, true},
		{"done before the last stage", "[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.1.0, default: true}, {stage: Stable, release: v1.2.0}]", "v1.1.0", true, true},
		{"on from the start", "[{stage: Beta, release: v1.0.0, default: true}]", "", false, false},
		{"not there yet", "[{stage: Alpha, release: v1.3.0}, {stage: Stable, release: v1.4.0}]", "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := define(t, layered, "- {component: demo, gate: A, stages: "+tt.stages+"}", nil)
			at, done, ok := m.Feature("A").Flip()
			if at.Release != tt.at || done != tt.done || ok != tt.ok {
				t.Errorf("%s, %t, %t", at.Release, done, ok)
			}
		})
	}
}
