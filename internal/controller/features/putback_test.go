package features

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSettingsArePutBackWithoutWhatIsBad has settings that were good once meet the model of today.
func TestSettingsArePutBackWithoutWhatIsBad(t *testing.T) {
	m := movesModel(t, `
metadata: {name: demo}
spec: {release: v1.0.0, maxLevel: beta, configMap: {namespace: demo, name: flags}, settings: [{name: results-from, pattern: "a|b"}]}
`, `
- {component: demo, gate: Base, stages: [{stage: Beta, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: Top, requires: [Base], stages: [{stage: Beta, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.dropped}]}
- {component: demo, gate: Early, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
- {component: demo, gate: Done, stages: [{stage: Stable, release: v1.0.0, lockToDefault: true}]}
`)
	many := map[string]string{"base": "true"}
	for i := range 1000 {
		many[fmt.Sprintf("gone-%04d", i)] = "true"
	}
	type settings = map[string]string
	for _, tt := range []struct {
		name       string
		data, good settings
		without    []string // what is told of each, in this order
	}{
		{name: "none"},
		{"all good", settings{"base": "true", "feature-gates": "Top=true", "_note": "x", "results-from": "a"}, settings{"base": "true", "feature-gates": "Top=true", "_note": "x", "results-from": "a"}, nil},
		{"a key that is gone", settings{"gone": "true", "base": "true"}, settings{"base": "true"}, []string{"gone"}},
		{"a gate that is gone", settings{"feature-gates": "Gone=true, Base=true"}, settings{"feature-gates": " Base=true"}, []string{"Gone"}},
		{"nothing is left of the list", settings{"feature-gates": "Gone=true"}, settings{}, []string{"Gone"}},
		{"an entry that is none", settings{"feature-gates": "Base,Top=false"}, settings{"feature-gates": "Top=false"}, []string{"Base"}},
		{"an entry that is neither", settings{"feature-gates": "Base=yes,Top=false"}, settings{"feature-gates": "Top=false"}, []string{"Base"}},
		{"twice", settings{"feature-gates": "Base=true,Base=true,Top=false"}, settings{"feature-gates": "Top=false"}, []string{"twice"}},
		{"beyond maxLevel", settings{"early": "true", "enable-api-fields": "alpha"}, settings{}, []string{"alpha", "beyond"}},
		{"locked by now", settings{"done": "false", "base": "true"}, settings{"base": "true"}, []string{"for good"}},
		{"what it requires is off", settings{"top": "true", "base": "false"}, settings{"base": "false"}, []string{"requires Base"}},
		{"two in a row", settings{"top": "true", "feature-gates": "Gone=true,Base=false"}, settings{"feature-gates": "Base=false"}, []string{"Gone", "requires Base"}},
		{"two that disagree", settings{"base": "true", "feature-gates": "Base=false,Top=false"}, settings{"feature-gates": "Top=false"}, []string{"says that"}},
		{"a plain setting", settings{"results-from": "c", "base": "true"}, settings{"base": "true"}, []string{"does not match"}},
		{"a list that is too long", settings{"feature-gates": strings.Repeat("Base=true,", 7000), "base": "true"}, settings{"base": "true"}, []string{"longer"}},
		{"very much", many, settings{"base": "true"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good, without := cleanSettings(m, tt.data)
			if diff := cmp.Diff(tt.good, good); diff != "" {
				t.Error(diff)
			}
			if _, findings := m.ParseSettings(good); findings.Err() != nil {
				t.Errorf("what is left is bad: %v", findings)
			}
			if tt.name != "very much" && len(without) != len(tt.without) {
				t.Fatalf("left out: %q", without)
			}
			for i, w := range tt.without {
				if !strings.Contains(without[i], w) {
					t.Errorf("%q is not told: %q", w, without)
				}
			}
		})
	}
}

// TestSettingsThatCannotBeCleanedAreEmpty has a model know none of very many.
func TestSettingsThatCannotBeCleanedAreEmpty(t *testing.T) {
	m := movesModel(t, movesComponent, movesFeatures)
	data := map[string]string{"refused": "true"}
	for i := range maxCleanings*200 + 1 {
		data[fmt.Sprintf("gone-%05d", i)] = ""
	}
	if good, without := cleanSettings(m, data); len(good) > 0 || len(without) != 1 {
		t.Errorf("%d are left, and told is %q", len(good), without)
	}
}
