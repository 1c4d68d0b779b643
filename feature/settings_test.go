package feature_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// findings shows findings in short, a line each.
func lines(fs feature.Findings) (out []string) {
	for _, f := range fs {
		out = append(out, fmt.Sprintf("%s %s %s %s", f.Severity, f.Code, f.Gate, f.Where))
	}
	return out
}

// rows are features for the rows of the table of precedence.
const rows = `
- {gate: Locked, stages: [{stage: Alpha, release: v1.0.0}, {stage: Stable, release: v1.2.0, lockToDefault: true}], parts: [{field: spec.tasksTimeout}]}
- {gate: LockedOff, stages: [{stage: Alpha, release: v1.0.0, lockToDefault: true}], parts: [{field: spec.name}]}
- {gate: Value, stages: [{stage: Beta, release: v1.5.0, lockToDefault: true}, {stage: Stable, release: v1.6.0}]}
- {gate: Gone, stages: [{stage: Alpha, release: v1.0.0}, {stage: Removed, release: v1.3.0}]}
- {gate: Unborn, stages: [{stage: Alpha, release: v2.0.0}]}
- {gate: AlphaField, parts: [{field: spec.onError, values: [Continue]}]}
- {gate: BetaField, stages: [{stage: Beta, release: v1.0.0}], parts: [{field: spec.onError, values: [Retry]}]}
- {gate: DeclaredField, stages: [{stage: Beta, release: v1.0.0, default: true}], parts: [{field: spec.must, values: [B]}]}
- {gate: StableField, stages: [{stage: Stable, release: v1.0.0}], parts: [{field: spec.replicas}]}
- {gate: OldField, stages: [{stage: Alpha, release: v1.0.0}, {stage: Deprecated, release: v1.1.0}], parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: OwnFlag, followsLevel: false, parts: [{field: "spec.tasks[*].policy", values: [New]}]}
- {gate: AlphaBehaviour}
- {gate: BetaBehaviour, stages: [{stage: Beta, release: v1.0.0}]}
- {gate: BetaOnBehaviour, stages: [{stage: Beta, release: v1.0.0, default: true}]}
- {gate: LevelBehaviour, followsLevel: true}
- {gate: Version, parts: [{wholeVersion: true, versions: [v2]}]}
- {gate: Legacy, impliedByLevel: true, key: enable-legacy}
- {gate: Affinity, stages: [{stage: Stable, release: v1.0.0}], key: disable-affinity-assistant, inverted: true}
- {gate: NeedsAlpha, requires: [AlphaBehaviour]}
- {gate: NeedsBoth, followsLevel: true, requires: [AlphaField, LevelBehaviour]}
- {gate: Both, requiredProcesses: [webhook, controller]}
- {gate: Either, followsLevel: false, impliedBy: [AlphaField, BetaBehaviour]}
- {gate: EitherLocked, impliedBy: [BetaBehaviour], stages: [{stage: Alpha, release: v1.0.0, lockToDefault: true}]}
- {gate: EitherNeeds, impliedBy: [BetaBehaviour], requires: [AlphaBehaviour]}
- {gate: NeedsEither, requires: [Either]}
`

func TestPrecedence(t *testing.T) {
	type s = map[string]string
	for _, tt := range []struct {
		name      string
		component string // added to the spec
		settings  s
		processes map[string]map[string]bool
		gate      string
		open      bool
		why       feature.Why
	}{
		{name: "0: before its first stage a feature is closed", settings: s{"feature-gates": "Unborn=true,AllAlpha=true"}, gate: "Unborn", why: feature.WhyUnborn},

		{name: "1: locked, whatever its key says", settings: s{"locked": "false"}, gate: "Locked", open: true, why: feature.WhyLocked},
		{name: "1: locked off, whatever the level says", settings: s{"enable-api-fields": "alpha", "locked-off": "true"}, gate: "LockedOff", why: feature.WhyLocked},
		{name: "1: removed is locked", settings: s{"gone": "true"}, gate: "Gone", why: feature.WhyLocked},

		{name: "2: beyond maxLevel, whatever its key says", component: "maxLevel: beta", settings: s{"alpha-field": "true"}, gate: "AlphaField", why: feature.WhyMaxLevel},
		{name: "2: nor does the level", component: "maxLevel: beta", settings: s{"enable-api-fields": "alpha"}, gate: "AlphaField", why: feature.WhyMaxLevel},
		{name: "2: a level beyond it counts as it", component: "maxLevel: beta", settings: s{"enable-api-fields": "alpha"}, gate: "BetaField", open: true, why: feature.WhyLevel},
		{name: "2: maxLevel stable closes beta", component: "maxLevel: stable", settings: s{"feature-gates": "BetaOnBehaviour=true"}, gate: "BetaOnBehaviour", why: feature.WhyMaxLevel},

		{name: "3: closed while what it requires is", settings: s{"needs-alpha": "true"}, gate: "NeedsAlpha", why: feature.WhyRequires},
		{name: "3: open with it", settings: s{"feature-gates": "NeedsAlpha=true,AlphaBehaviour=true"}, gate: "NeedsAlpha", open: true, why: feature.WhyKey},
		{name: "3: one of two is not enough", settings: s{"enable-api-fields": "alpha", "alpha-field": "false"}, gate: "NeedsBoth", why: feature.WhyRequires},
		{name: "3: both are", settings: s{"enable-api-fields": "alpha"}, gate: "NeedsBoth", open: true, why: feature.WhyLevel},
		{name: "3: AllAlpha does not help, where the other is off", settings: s{"feature-gates": "AllAlpha=true,AlphaBehaviour=false"}, gate: "NeedsAlpha", why: feature.WhyRequires},

		{name: "4: implied by the level, although its key says no", settings: s{"enable-api-fields": "alpha", "enable-legacy": "false"}, gate: "Legacy", open: true, why: feature.WhyImplied},
		{name: "4: not implied by a narrower level", settings: s{"enable-api-fields": "beta", "enable-legacy": "true"}, gate: "Legacy", open: true, why: feature.WhyKey},
		{name: "4: nor open then by itself", settings: s{"enable-api-fields": "beta"}, gate: "Legacy", why: feature.WhyDefault},

		{name: "4: implied by one of two", settings: s{"beta-behaviour": "true"}, gate: "Either", open: true, why: feature.WhyImpliedBy},
		{name: "4: implied by the other of two, although its key says no", settings: s{"enable-api-fields": "alpha", "either": "false"}, gate: "Either", open: true, why: feature.WhyImpliedBy},
		{name: "4: open by itself", settings: s{"either": "true", "beta-behaviour": "true"}, gate: "Either", open: true, why: feature.WhyKey},
		{name: "4: implied by neither", settings: s{"beta-behaviour": "false"}, gate: "Either", why: feature.WhyDefault},
		{name: "4: nothing implies what is locked", settings: s{"beta-behaviour": "true"}, gate: "EitherLocked", why: feature.WhyLocked},
		{name: "4: nor what is beyond maxLevel", component: "maxLevel: beta", settings: s{"beta-behaviour": "true"}, gate: "Either", why: feature.WhyMaxLevel},
		{name: "4: nor does what is beyond maxLevel imply anything", component: "maxLevel: beta", settings: s{"alpha-field": "true"}, gate: "Either", why: feature.WhyMaxLevel},
		{name: "4: what is implied still requires", settings: s{"beta-behaviour": "true"}, gate: "EitherNeeds", why: feature.WhyRequires},
		{name: "4: and is open with that", settings: s{"beta-behaviour": "true", "alpha-behaviour": "true"}, gate: "EitherNeeds", open: true, why: feature.WhyImpliedBy},
		{name: "4: what is implied is on for what requires it", settings: s{"beta-behaviour": "true", "needs-either": "true"}, gate: "NeedsEither", open: true, why: feature.WhyKey},

		{name: "5: its key opens", settings: s{"alpha-field": "true"}, gate: "AlphaField", open: true, why: feature.WhyKey},
		{name: "5: its key closes what the level opens", settings: s{"enable-api-fields": "alpha", "alpha-field": "false"}, gate: "AlphaField", why: feature.WhyKey},
		{name: "5: its entry opens", settings: s{"feature-gates": " A=b, AlphaField = true "}, gate: "AlphaField", open: true, why: feature.WhyKey},
		{name: "5: its entry closes", settings: s{"enable-api-fields": "alpha", "feature-gates": "AlphaField=false"}, gate: "AlphaField", why: feature.WhyKey},
		{name: "5: key and entry agree", settings: s{"alpha-field": "1", "feature-gates": "AlphaField=T"}, gate: "AlphaField", open: true, why: feature.WhyKey},
		{name: "5: key and entry disagree: neither", settings: s{"alpha-field": "true", "feature-gates": "AlphaField=false"}, gate: "AlphaField", why: feature.WhyLevel},
		{name: "5: an inverted key closes", settings: s{"disable-affinity-assistant": "true"}, gate: "Affinity", why: feature.WhyKey},
		{name: "5: an inverted key opens", settings: s{"disable-affinity-assistant": "false"}, gate: "Affinity", open: true, why: feature.WhyKey},
		{name: "5: the entry of an inverted key is not inverted", settings: s{"feature-gates": "Affinity=false"}, gate: "Affinity", why: feature.WhyKey},
		{name: "5: a key wins over AllAlpha", settings: s{"feature-gates": "AllAlpha=true", "alpha-behaviour": "false"}, gate: "AlphaBehaviour", why: feature.WhyKey},

		{name: "6: fields follow the level", settings: s{"enable-api-fields": "alpha"}, gate: "AlphaField", open: true, why: feature.WhyLevel},
		{name: "6: level alpha opens beta", settings: s{"enable-api-fields": "alpha"}, gate: "BetaField", open: true, why: feature.WhyLevel},
		{name: "6: level beta does not open alpha", settings: s{"enable-api-fields": "beta"}, gate: "AlphaField", why: feature.WhyLevel},
		{name: "6: level stable closes beta", settings: s{"enable-api-fields": "stable"}, gate: "BetaField", why: feature.WhyLevel},
		{name: "6: a declared default opens it", settings: s{"enable-api-fields": "stable"}, gate: "DeclaredField", open: true, why: feature.WhyDefault},
		{name: "6: AllBeta opens what the level does not", settings: s{"feature-gates": "AllBeta=true"}, gate: "BetaField", open: true, why: feature.WhyStage},
		{name: "6: AllBeta=false closes nothing that the level opens", settings: s{"enable-api-fields": "beta", "feature-gates": "AllBeta=false"}, gate: "BetaField", open: true, why: feature.WhyLevel},
		{name: "6: as in Tekton, AllBeta opens no field", component: "convention: Tekton", settings: s{"feature-gates": "AllBeta=true"}, gate: "BetaField", why: feature.WhyLevel},
		{name: "6: as in Tekton, the level opens it", component: "convention: Tekton", settings: s{"enable-api-fields": "beta"}, gate: "BetaField", open: true, why: feature.WhyLevel},
		{name: "6: as in Kubernetes, the level opens no field", component: "convention: Kubernetes", settings: s{"enable-api-fields": "alpha"}, gate: "BetaField", why: feature.WhyDefault},
		{name: "6: as in Kubernetes, AllAlpha opens it", component: "convention: Kubernetes", settings: s{"feature-gates": "AllAlpha=true"}, gate: "AlphaField", open: true, why: feature.WhyStage},
		{name: "6: as in Kubernetes, AllBeta=false closes it", component: "convention: CertManager", settings: s{"feature-gates": "AllBeta=false"}, gate: "DeclaredField", why: feature.WhyStage},
		{name: "6: level stable opens beta where nothing is more stable", component: "resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]", gate: "BetaField", open: true, why: feature.WhyLevel},
		{name: "6: level stable opens stable", settings: s{"enable-api-fields": "stable"}, gate: "StableField", open: true, why: feature.WhyLevel},
		{name: "6: in any case", settings: s{"enable-api-fields": " Alpha\n"}, gate: "AlphaField", open: true, why: feature.WhyLevel},
		{name: "6: the component's level, where none is set", component: "defaultLevel: beta", gate: "BetaField", open: true, why: feature.WhyLevel},
		{name: "6: no level, stable", gate: "BetaField", why: feature.WhyLevel},
		{name: "6: deprecated needs the level of before", settings: s{"enable-api-fields": "beta"}, gate: "OldField", why: feature.WhyLevel},
		{name: "6: and is opened by that", settings: s{"enable-api-fields": "alpha"}, gate: "OldField", open: true, why: feature.WhyLevel},
		{name: "6: behaviour does not follow", settings: s{"enable-api-fields": "alpha"}, gate: "AlphaBehaviour", why: feature.WhyDefault},
		{name: "6: unless it says so", settings: s{"enable-api-fields": "alpha"}, gate: "LevelBehaviour", open: true, why: feature.WhyLevel},
		{name: "6: whole versions do not follow", settings: s{"enable-api-fields": "alpha"}, gate: "Version", why: feature.WhyDefault},
		{name: "6: nor do fields that say so", settings: s{"enable-api-fields": "alpha"}, gate: "OwnFlag", why: feature.WhyDefault},

		{name: "7: AllAlpha", settings: s{"feature-gates": "AllAlpha=true"}, gate: "AlphaBehaviour", open: true, why: feature.WhyStage},
		{name: "7: AllAlpha is not AllBeta", settings: s{"feature-gates": "AllAlpha=true"}, gate: "BetaBehaviour", why: feature.WhyDefault},
		{name: "7: AllBeta=false closes", settings: s{"feature-gates": "AllBeta=false"}, gate: "BetaOnBehaviour", why: feature.WhyStage},
		{name: "7: AllAlpha, then not: nothing is left", settings: s{"feature-gates": "AllAlpha=false"}, gate: "AlphaBehaviour", why: feature.WhyStage},

		{name: "8: alpha is off", gate: "AlphaBehaviour", why: feature.WhyDefault},
		{name: "8: beta is as declared, off", gate: "BetaBehaviour", why: feature.WhyDefault},
		{name: "8: beta is as declared, on", gate: "BetaOnBehaviour", open: true, why: feature.WhyDefault},
		{name: "8: stable is on", gate: "Affinity", open: true, why: feature.WhyDefault},

		{name: "no process reports", settings: s{"both": "true"}, gate: "Both", why: feature.WhyProcess},
		{name: "one process reports off", settings: s{"both": "true"}, processes: map[string]map[string]bool{"webhook": {"Both": true}, "controller": {"Both": false}}, gate: "Both", why: feature.WhyProcess},
		{name: "all processes report on", settings: s{"both": "true"}, processes: map[string]map[string]bool{"webhook": {"Both": true}, "controller": {"Both": true}}, gate: "Both", open: true, why: feature.WhyKey},
		{name: "processes alone do not open", processes: map[string]map[string]bool{"webhook": {"Both": true}, "controller": {"Both": true}}, gate: "Both", why: feature.WhyDefault},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows := strings.ReplaceAll(rows, "spec.name}", "spec.free}")
			switch {
			case strings.Contains(tt.component, "Tekton"): // where neither has a meaning
				rows = strings.ReplaceAll(rows, "default: true}], parts", "lockToDefault: true}], parts")
			case strings.Contains(tt.component, "convention"):
				rows = strings.NewReplacer("followsLevel: true", "followsLevel: false", ", impliedByLevel: true", "").Replace(rows)
			}
			m, findings := feature.Define(component(t, componentYAML+"  "+tt.component), features(t, rows), feature.Options{Resources: pipelines(t)})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			settings, _ := m.ParseSettings(tt.settings)
			st, ok := m.Resolve(settings, feature.Runtime{Processes: tt.processes}).State(tt.gate)
			if !ok || st.Open != tt.open || st.Why != tt.why {
				t.Errorf("open %v because of %s (%s), want %v because of %s", st.Open, st.Why, st.Reason, tt.open, tt.why)
			}
			if (st.Fix == "") != st.Open {
				t.Errorf("open %v, what to set: %q", st.Open, st.Fix)
			}
		})
	}
}

// TestTEP0033 holds the two tables of TEP-0033: which level opens fields of which stage, while the highest version of a
// resource is beta, and once it is stable.
func TestTEP0033(t *testing.T) {
	for highest, table := range map[string]map[string]string{
		// level: what is open of alpha, beta, stable
		"Beta":   {"stable": "-BS", "beta": "-BS", "alpha": "ABS"},
		"Stable": {"stable": "--S", "beta": "-BS", "alpha": "ABS"},
	} {
		m := define(t, componentYAML+"  resources: [{group: demo.dev, resource: pipelines, highestStage: "+highest+"}]", `
- {gate: A, parts: [{field: spec.tasksTimeout}]}
- {gate: B, stages: [{stage: Beta, release: v1.0.0}], parts: [{field: spec.onError}]}
- {gate: S, stages: [{stage: Stable, release: v1.0.0}], parts: [{field: spec.replicas}]}
`, pipelines(t))
		for level, want := range table {
			settings, findings := m.ParseSettings(map[string]string{"enable-api-fields": level})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			states := m.Resolve(settings, feature.Runtime{})
			got := ""
			for _, s := range states.All() {
				gate := s.Feature.Spec.Gate
				if states.OpenFor(gate, nil) {
					got += gate
				} else {
					got += "-"
				}
			}
			if got != want {
				t.Errorf("highest stage %s, level %s: open %s, want %s", highest, level, got, want)
			}
			d := states.Compile().Evaluate(request(t, "", `{spec: {name: a, tasksTimeout: x, onError: Stop, replicas: 1}}`))
			if d.Rejected.Count != strings.Count(want, "-") {
				t.Errorf("highest stage %s, level %s: %s", highest, level, d.Message())
			}
		}
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, component string
		settings        map[string]string
		want            []string
	}{
		{name: "nothing"},
		{name: "all is well", settings: map[string]string{"enable-api-fields": "alpha", "feature-gates": "AllAlpha=true,BetaField=false,", "locked": "true", "coschedule": "workspaces", "_example": "a: b", "anything": ""}},
		{
			name:     "all at once, with the nearest names",
			settings: map[string]string{"enable-api-fields": "aplha", "alpha-feild": "true", "alpha-field": "yes", "feature-gates": "AlphaFeild=true,BetaField=true,BetaField=true,nonsense", "coschedule": "Pods!"},
			want: []string{
				`error unknown-key  alpha-feild: alpha-feild: there is no such key (did you mean "alpha-field"?)`,
				`error bad-setting  coschedule: coschedule: "Pods!" does not match ^(?:[a-z]+)$`,
				`error bad-level  enable-api-fields: enable-api-fields: "aplha" is no level (did you mean "alpha"?); the levels are stable, beta, alpha`,
				`error bad-entry  feature-gates: feature-gates: "nonsense" has to be NAME=true or NAME=false`,
				`error unknown-gate  feature-gates: feature-gates: there is no gate "AlphaFeild" (did you mean "AlphaField"?)`,
				`error bad-boolean AlphaField alpha-field: AlphaField: alpha-field: "yes" is neither true nor false (did you mean "true"?)`,
				`error set-twice BetaField feature-gates: BetaField: feature-gates: BetaField stands there twice`,
			},
		},
		{
			name: "booleans of others", settings: map[string]string{"feature-gates": "AlphaField=OFF,BetaField=ture,OwnFlag=2"},
			want: []string{
				`error bad-boolean AlphaField feature-gates: AlphaField: feature-gates: "OFF" is neither true nor false (did you mean "false"?)`,
				`error bad-boolean BetaField feature-gates: BetaField: feature-gates: "ture" is neither true nor false (did you mean "true"?)`,
				`error bad-boolean OwnFlag feature-gates: OwnFlag: feature-gates: "2" is neither true nor false`,
			},
		},
		{name: "locked", settings: map[string]string{"locked": "false"}, want: []string{`error locked Locked locked: Locked: locked: Locked is on for good since v1.2.0`}},
		{name: "locked for a release", settings: map[string]string{"value": "true"}, want: []string{`error locked Value value: Value: value: Value is off, whatever is set, until v1.6.0`}},
		{name: "locked to what it is set to", settings: map[string]string{"locked": "true", "locked-off": "false"}},
		{name: "removed: one warning", settings: map[string]string{"gone": "true"}, want: []string{`warning removed-gate Gone gone: Gone: gone: Gone was removed in v1.3.0: the setting has no effect, take it out`}},
		{name: "not there yet", settings: map[string]string{"feature-gates": "Unborn=true"}, want: []string{`error locked Unborn feature-gates: Unborn: feature-gates: Unborn is not there yet, it comes with v2.0.0`}},
		{
			name: "beyond maxLevel", component: "maxLevel: beta", settings: map[string]string{"enable-api-fields": "alpha", "alpha-field": "true", "beta-field": "true"},
			want: []string{
				`error beyond-max-level  enable-api-fields: enable-api-fields: alpha is beyond beta, the maxLevel of component "demo"`,
				`error beyond-max-level AlphaField alpha-field: AlphaField: alpha-field: AlphaField is alpha, which is beyond beta, the maxLevel of component "demo"`,
			},
		},
		{name: "key and entry disagree", settings: map[string]string{"beta-field": "true", "feature-gates": "BetaField=false"}, want: []string{`error settings-disagree BetaField feature-gates: BetaField: feature-gates: beta-field says that BetaField is on`}},
		{name: "an inverted key and its entry agree", settings: map[string]string{"disable-affinity-assistant": "true", "feature-gates": "Affinity=false"}},
		{name: "opened without what it requires", settings: map[string]string{"needs-alpha": "true"}, want: []string{`error needs-another NeedsAlpha needs-alpha: NeedsAlpha: needs-alpha: NeedsAlpha is on, but requires AlphaBehaviour, which is off`}},
		{name: "opened with what implies what it requires", settings: map[string]string{"needs-either": "true", "beta-behaviour": "true"}},
		{name: "opened with what it requires", settings: map[string]string{"needs-alpha": "true", "feature-gates": "AllAlpha=true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, findings := feature.Define(component(t, componentYAML+"  settings: [{name: coschedule, pattern: '[a-z]+'}, {name: anything}]\n  "+tt.component),
				features(t, strings.ReplaceAll(rows, "spec.name}", "spec.free}")), feature.Options{Resources: pipelines(t)})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			_, findings = m.ParseSettings(tt.settings)
			var got []string
			for _, f := range findings {
				got = append(got, fmt.Sprintf("%s %s %s %s: %s", f.Severity, f.Code, f.Gate, f.Where, f))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSettingsOfHostileLengthAreBounded(t *testing.T) {
	m := define(t, componentYAML, rejectFeatures, pipelines(t))
	var entries strings.Builder
	data := map[string]string{}
	for i := range 20_000 {
		if i < 4000 { // as many as a list may have characters for
			fmt.Fprintf(&entries, "Gate%d=true,", i)
		}
		data[fmt.Sprintf("key-%d", i)] = "true"
	}
	data["feature-gates"] = entries.String()
	_, findings := m.ParseSettings(data)
	last := findings[len(findings)-1]
	if len(findings) != 201 || last.Code != feature.CodeMore || last.Severity != feature.Error || last.Message != "and 23800 more" {
		t.Errorf("%d findings, the last %v", len(findings), last)
	}
}

// TestTektonSettings reads every key of Tekton's ConfigMap feature-flags.
func TestTektonSettings(t *testing.T) {
	m, findings := feature.Define(component(t, tektonComponent), features(t, tektonFeatures), feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		"enable-api-fields": "beta", "await-sidecar-readiness": "true", "coschedule": "workspaces", "disable-creds-init": "false",
		"disable-inline-spec": "", "enable-artifacts": "false", "enable-cel-in-whenexpression": "false",
		"enable-concise-resolver-syntax": "false", "enable-informer-cache-transforms": "true", "enable-kubernetes-sidecar": "false",
		"enable-param-enum": "false", "enable-provenance-in-status": "true", "enable-step-actions": "true",
		"enable-tekton-oci-bundles": "false", "enable-termination-message-compression": "false",
		"enable-wait-exponential-backoff": "false", "enforce-nonfalsifiability": "none", "keep-pod-on-cancel": "false",
		"require-git-ssh-secret-known-hosts": "false", "results-from": "termination-message",
		"running-in-environment-with-injected-sidecars": "true", "send-cloudevents-for-runs": "false", "set-security-context": "false",
		"set-security-context-read-only-root-filesystem": "false", "trusted-resources-verification-no-match-policy": "ignore",
		// of the time of TEP-0033
		"disable-affinity-assistant": "false", "disable-home-env-overwrite": "true", "disable-working-directory-overwrite": "true",
		"enable-custom-tasks": "true", "_example": "...",
	}
	s, findings := m.ParseSettings(settings)
	if diff := cmp.Diff([]string{"warning removed-gate TektonOCIBundles enable-tekton-oci-bundles"}, lines(findings)); diff != "" {
		t.Error(diff)
	}
	if level, set := s.Level(); level != v1alpha1.LevelBeta || !set {
		t.Errorf("level %s, %v", level, set)
	}
	for key := range settings {
		bad := maps.Clone(settings)
		bad[key] = "no such value!"
		_, findings := m.ParseSettings(bad)
		free := key == "_example" || key == "disable-inline-spec"
		if (findings.Err() == nil) != free {
			t.Errorf("%s with a value that is none: %v", key, findings)
		}
	}
}

// TestSettingsOfBinaryData: what stands in binaryData is an error, and the data of the caller stay as they are.
func TestSettingsOfBinaryData(t *testing.T) {
	m := define(t, componentYAML, "- {gate: Fast}", nil)
	data := map[string]string{"fast": "true"}
	for _, binary := range []map[string][]byte{nil, {}, {"_note": nil}} {
		if diff := cmp.Diff(data, feature.SettingsOf(data, binary)); diff != "" {
			t.Errorf("%v: %s", binary, diff)
		}
	}
	if got := feature.SettingsOf[[]byte](nil, nil); got != nil {
		t.Errorf("no settings are %v", got)
	}
	s, findings := m.ParseSettings(feature.SettingsOf(data, map[string][]byte{"slow": nil, "_note": nil, "feature-gates": nil}))
	want := []string{"error binary-setting  binaryData/feature-gates", "error binary-setting  binaryData/slow"}
	if diff := cmp.Diff(want, lines(findings)); diff != "" || len(data) != 1 {
		t.Errorf("%s%v", diff, data)
	}
	if on, set := s.Gate("Fast"); !on || !set {
		t.Error("the settings in data do not count")
	}
}
