package feature_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// TestDeprecationAloneChangesNothing draws components, and deprecates each feature in turn, with no default of its own: without settings, what was on
// stays on, and what was off stays off.
func TestDeprecationAloneChangesNothing(t *testing.T) {
	deprecated, on := 0, 0
	for seed := range draws.Seeds(400) {
		w, err := featuregen.New(rand.New(rand.NewPCG(seed, 41)))
		if err != nil {
			t.Fatal(err)
		}
		before := w.Model.Defaults()
		for i := range w.Features {
			was, ok := before.State(w.Features[i].Spec.Gate)
			if !ok || was.Feature.Locked {
				continue
			}
			list := slices.Clone(w.Features)
			list[i].Spec.Stages = append(slices.Clone(list[i].Spec.Stages), v1alpha1.FeatureStage{Stage: v1alpha1.Deprecated, Release: "v1.5.0"})
			m, findings := feature.Define(w.Component, list, feature.Options{})
			is, ok := m.Defaults().State(was.Feature.Spec.Gate)
			if !ok {
				if len(findings.Of(was.Feature.Spec.Gate)) == 0 {
					t.Errorf("seed %d: %s is left out", seed, was.Feature.Spec.Gate)
				}
				continue
			}
			deprecated++
			if is.Open {
				on++
			}
			if is.Open != was.Open && is.Why != feature.WhyRequires && was.Why != feature.WhyRequires && is.Why != feature.WhyImpliedBy && was.Why != feature.WhyImpliedBy {
				t.Errorf("seed %d: %s was %s (%s), and is %s (%s)", seed, was.Feature.Spec.Gate, feature.OnOff(was.Open), was.Reason, feature.OnOff(is.Open), is.Reason)
			}
			if by := is.Feature.DefaultsInEffect()[is.Feature.Entry]; by != is.Alone() {
				t.Errorf("seed %d: %s is %s by itself, and its default in effect is %s", seed, was.Feature.Spec.Gate, feature.OnOff(is.Alone()), feature.OnOff(by))
			}
		}
	}
	if on == 0 || on == deprecated {
		t.Errorf("of %d deprecated features %d are on", deprecated, on)
	}
}

// TestDefaultsInEffect has histories under conventions and levels.
func TestDefaultsInEffect(t *testing.T) {
	const (
		onBeta  = "{stage: Beta, release: v1.1.0, default: true}"
		beta    = "{stage: Beta, release: v1.1.0}"
		history = "{stage: Alpha, release: v1.0.0}, "
		old     = ", {stage: Deprecated, release: v1.2.0}"
		field   = "], parts: [{field: spec.free}]"
	)
	for _, tt := range []struct{ name, component, feature, want string }{
		{"a declared default stays", "", history + onBeta + old + field, "- + +"},
		{"and when it is removed", "", history + onBeta + old + ", {stage: Removed, release: v1.3.0}" + field, "- + + +"},
		{"a declared default that changes", "", history + onBeta + ", {stage: Deprecated, release: v1.2.0, default: false}" + field, "- + -"},
		{"the level decides", "", history + beta + old + field, "- - -"},
		{"the level beta", "defaultLevel: beta", history + beta + old + ", {stage: Removed, release: v1.3.0}" + field, "- + + -"},
		{"the level beta, but maxLevel stable", "maxLevel: stable", history + onBeta + field, "- -"},
		{"a resource whose highest stage is Beta", "resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]", history + beta + old + field, "- + +"},
		{"not behaviour", "defaultLevel: beta", history + beta + old + "]", "- - -"},
		{"not what has a convention without levels", "convention: Kubernetes", history + onBeta + old + field, "- + +"},
		{"Tekton's convention", "{convention: Tekton, defaultLevel: beta}", history + beta + old + field, "- + +"},
		{"locked", "defaultLevel: beta", history + "{stage: Beta, release: v1.1.0, lockToDefault: true}, {stage: Beta, release: v1.2.0}" + field, "- - +"},
		{"stable, then off by itself", "", "{stage: Stable, release: v1.1.0}, {stage: Deprecated, release: v1.2.0, default: false}" + field + ", followsLevel: false", "+ -"},
	} {
		m := define(t, componentYAML+"  "+strings.NewReplacer("{conv", "conv", "beta}", "beta", ", default", "\n  default").Replace(tt.component), "- {gate: G, stages: ["+tt.feature+"}", pipelines(t))
		var got []string
		for _, on := range m.Feature("G").DefaultsInEffect() {
			got = append(got, map[bool]string{true: "+", false: "-"}[on])
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}

// TestWhatTheLevelCannotMean has definitions that the level contradicts.
func TestWhatTheLevelCannotMean(t *testing.T) {
	const (
		two     = "resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]"
		beta    = "stages: [{stage: Beta, release: v1.0.0}], "
		parts   = "parts: [{field: spec.free}, {group: demo.dev, resource: others, field: spec.free}]"
		offOnce = "stages: [{stage: Stable, release: v1.0.0}, {stage: Deprecated, release: v1.1.0, default: false}], "
	)
	for _, tt := range []struct{ name, component, feature, want string }{
		{"resources of two highest stages", two, beta + parts, "error contradiction G spec.parts[1].resource"},
		{"by the level alone", two, beta + parts + ", followsLevel: false, impliedByLevel: true", "error contradiction G spec.parts[1].resource"},
		{"which does not follow the level", two, beta + parts + ", followsLevel: false", ""},
		{"which is alpha", two, parts, ""},
		{"which is stable", two, "stages: [{stage: Stable, release: v1.0.0}], " + parts, ""},
		{"which is locked", two, "stages: [{stage: Beta, release: v1.0.0, lockToDefault: true}], " + parts, ""},
		{"which was beta before it was deprecated", two, "stages: [{stage: Beta, release: v1.0.0}, {stage: Deprecated, release: v1.1.0}], " + parts, "error contradiction G spec.parts[1].resource"},
		{"of one highest stage", "resources: [{group: demo.dev, resource: pipelines, highestStage: Stable}]", beta + parts, ""},
		{"stable, then off", "", offOnce + "parts: [{field: spec.free}]", "error default-overruled G spec.stages[1].default"},
		{"stable, then off, as in Tekton", "convention: Tekton", offOnce + "parts: [{field: spec.free}]", "error default-overruled G spec.stages[1].default"},
		{"stable, then off, as in Kubernetes", "convention: Kubernetes", offOnce + "parts: [{field: spec.free}]", ""},
		{"stable, then off, by its own key", "", offOnce + "parts: [{field: spec.free}], followsLevel: false", ""},
		{"stable, then off, and implied by every level", "", offOnce + "parts: [{field: spec.free}], followsLevel: false, impliedByLevel: true", "error default-overruled G spec.stages[1].default"},
		{"stable, then off for good", "", strings.Replace(offOnce, "default: false", "default: false, lockToDefault: true", 1) + "parts: [{field: spec.free}]", ""},
		{"as in Tekton, on at beta and deprecated by now", "convention: Tekton", "stages: [{stage: Beta, release: v1.0.0, default: true}, {stage: Deprecated, release: v1.1.0}], parts: [{field: spec.free}]", "error default-overruled G spec.stages[0].default"},
	} {
		_, findings := feature.Define(component(t, componentYAML+"  "+tt.component), features(t, "- {gate: G, "+tt.feature+"}"), feature.Options{})
		if got := strings.Join(lines(findings), "\n"); got != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, findings, tt.want)
		}
	}
	c := component(t, componentYAML+"  "+two)
	_, findings := feature.Define(c, features(t, "- {gate: G, "+beta+parts+"}"), feature.Options{})
	const want = "G follows the level, and level stable opens what is beta in pipelines.demo.dev, whose highestStage is Beta, but not in others.demo.dev: " +
		"give both the same highestStage in the Component, or set followsLevel: false"
	if len(findings) != 1 || findings[0].Message != want {
		t.Errorf("%v", findings)
	}
}

// TestWhatIsRequiredHasOneAnswer: where the level opens the beta parts of one resource and not of another, a feature needs what it requires as it is
// everywhere.
func TestWhatIsRequiredHasOneAnswer(t *testing.T) {
	m := define(t, componentYAML+"  resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]", `
- {gate: Base, stages: [{stage: Beta, release: v1.0.0}], parts: [{group: demo.dev, resource: others, field: spec.free}]}
- {gate: Top, requires: [Base], stages: [{stage: Beta, release: v1.0.0}], parts: [{field: spec.free}]}
- {gate: Lifted, stages: [{stage: Beta, release: v1.0.0}], parts: [{field: spec.onError}]}
- {gate: Other, requires: [Lifted], stages: [{stage: Beta, release: v1.0.0}], followsLevel: false, parts: [{group: demo.dev, resource: others, field: spec.name}]}
`, nil)
	settings, findings := m.ParseSettings(map[string]string{"enable-api-fields": "stable", "other": "true"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	states := m.Resolve(settings, feature.Runtime{})
	for gate, want := range map[string]bool{"Base": false, "Top": false, "Lifted": true, "Other": true} {
		if s, _ := states.State(gate); s.Open != want || states.OpenFor(gate, nil) != want {
			t.Errorf("%s is %s: %s", gate, feature.OnOff(s.Open), s.Reason)
		}
	}
}
