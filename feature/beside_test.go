package feature_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// TestTwoComponentsOnOneConfigMap: the later of two is refused, unless each knows the keys of the other.
func TestTwoComponentsOnOneConfigMap(t *testing.T) {
	t.Parallel()
	const one, two = "settings: [{name: b-one}, {name: b-gates}]", "gatesKey: b-gates, settings: [{name: a-one}, {name: feature-gates}]"
	for name, tt := range map[string]struct {
		a, b         string // of the spec
		aAge, bAge   time.Duration
		configMap    string // of b
		wantA, wantB []string
		words        []string
	}{
		"both have one of their own":  {configMap: "other"},
		"none knows the other's":      {configMap: "flags", wantB: []string{"error settings-shared  spec.configMap"}, words: []string{"a-one, b-one, feature-gates", `component "a"`, `Give "b" its own ConfigMap`}},
		"the later one is refused":    {configMap: "flags", aAge: time.Minute, bAge: time.Hour, wantA: []string{"error settings-shared  spec.configMap"}},
		"one knows the other's":       {configMap: "flags", a: one, b: "gatesKey: b-gates", wantB: []string{"error settings-shared  spec.configMap"}, words: []string{"(a-one, feature-gates)"}},
		"each knows the other's":      {configMap: "flags", a: one, b: two},
		"each knows, but for a level": {configMap: "flags", a: one, b: two + ", levelKey: b-level", wantB: []string{"error settings-shared  spec.configMap"}, words: []string{"(b-level, enable-api-fields)"}},
		"each knows, but for a plain": {configMap: "flags", a: one, b: strings.TrimSuffix(two, "]") + ", {name: c}]", wantB: []string{"error settings-shared  spec.configMap"}, words: []string{"(c)"}},
		"a plain one that both have":  {configMap: "flags", a: strings.TrimSuffix(one, "]") + ", {name: c}]", b: strings.TrimSuffix(two, "]") + ", {name: c}]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var components []v1alpha1.Component
			var all []v1alpha1.Feature
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, x := range []struct {
				name, spec, configMap string
				age                   time.Duration
			}{{"a", tt.a, "flags", tt.aAge}, {"b", tt.b, tt.configMap, tt.bAge}} {
				spec := "release: v1.0.0, configMap: {namespace: demo, name: " + x.configMap + "}"
				if x.spec != "" {
					spec += ", " + x.spec
				}
				c := component(t, "metadata: {name: "+x.name+"}\nspec: {"+spec+"}")
				c.CreationTimestamp = metav1.NewTime(now.Add(-x.age))
				components = append(components, *c)
				for _, f := range features(t, "- {gate: "+strings.ToUpper(x.name)+"One, key: "+x.name+"-one, stages: [{stage: Alpha, release: v1.0.0}]}") {
					f.Spec.Component, f.Name = x.name, ""
					all = append(all, f)
				}
			}
			for i, want := range [][]string{tt.wantA, tt.wantB} {
				m, findings := feature.Define(&components[i], all, feature.Options{})
				if err := findings.Err(); err != nil {
					t.Fatal(err)
				}
				got := m.SharedWith(components, all, feature.Options{})
				if diff := cmp.Diff(want, lines(got)); diff != "" {
					t.Errorf("%s: %s", components[i].Name, diff)
				}
				for _, w := range tt.words {
					if want != nil && !strings.Contains(got[0].Message, w) {
						t.Errorf("%q is not in %q", w, got[0].Message)
					}
				}
			}
		})
	}
}

func TestLintFindsDefaultsWithoutASay(t *testing.T) {
	t.Parallel()
	const part = "parts: [{field: spec.tasksTimeout}]"
	for name, tt := range map[string]struct {
		component, feature string
		want               []string
	}{
		"on, where the level is stable":   {"", "stages: [{stage: Beta, release: v1.0.0, default: true}], " + part, nil},
		"off, where the level is beta":    {"defaultLevel: beta", "stages: [{stage: Beta, release: v1.0.0, default: false}], " + part, []string{"warning default-overruled G spec.stages[0].default"}},
		"on, where the level is beta":     {"defaultLevel: beta", "stages: [{stage: Beta, release: v1.0.0, default: true}], " + part, nil},
		"on, where level stable opens it": {"resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]", "stages: [{stage: Beta, release: v1.0.0, default: true}], " + part, nil},
		"left out":                        {"", "stages: [{stage: Beta, release: v1.0.0}], " + part, nil},
		"locked":                          {"", "stages: [{stage: Beta, release: v1.0.0, default: true, lockToDefault: true}], " + part, nil},
		"its own key alone":               {"", "followsLevel: false, stages: [{stage: Beta, release: v1.0.0, default: true}], " + part, nil},
		"behaviour":                       {"", "stages: [{stage: Beta, release: v1.0.0, default: true}]", nil},
		"processes without namespaces":    {"", "stages: [{stage: Beta, release: v1.0.0}], requiredProcesses: [webhook]", []string{"warning no-reports G spec.requiredProcesses"}},
		"processes with namespaces":       {"namespaces: [demo]", "stages: [{stage: Beta, release: v1.0.0}], requiredProcesses: [webhook]", nil},
		"processes beside the ConfigMap":  {"configMap: {namespace: demo, name: flags}", "stages: [{stage: Beta, release: v1.0.0}], requiredProcesses: [webhook]", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := "release: v1.0.0"
			if tt.component != "" {
				spec += ", " + tt.component
			}
			m := define(t, "metadata: {name: demo}\nspec: {"+spec+"}", "- {gate: G, "+tt.feature+"}", nil)
			if diff := cmp.Diff(tt.want, lines(m.Lint(time.Time{}))); diff != "" {
				t.Error(diff, m.Lint(time.Time{}))
			}
		})
	}
}
