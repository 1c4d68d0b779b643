package feature_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
)

func TestLintFindsWhatIsPastItsTime(t *testing.T) {
	for _, tt := range []struct {
		name, release, stages string
		want                  []string
	}{
		{"young", "v1.5.0", `[{stage: Alpha, release: v1.1.0, date: "2024-01-01"}]`, nil},
		{"alpha, by releases and days", "v1.6.0", `[{stage: Alpha, release: v1.1.0, date: "2024-01-01"}]`, []string{"warning overdue G spec.stages[0]"}},
		{"long ago, but few releases", "v1.2.0", `[{stage: Alpha, release: v1.1.0, date: "2024-01-01"}]`, nil},
		{"many releases, but not long ago", "v1.9.0", `[{stage: Alpha, release: v1.1.0, date: "2025-12-01"}]`, nil},
		{"by releases alone", "v1.6.0", `[{stage: Alpha, release: v1.1.0}]`, []string{"warning overdue G spec.stages[0]"}},
		{"by days alone", "", `[{stage: Alpha, date: "2024-01-01"}]`, []string{"warning overdue G spec.stages[0]"}},
		{"releases that cannot be counted", "v2.0.0", `[{stage: Alpha, release: v1.1.0}]`, nil},
		{"beta is shorter", "v1.5.0", `[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.1.0}]`, []string{"warning overdue G spec.stages[1]"}},
		{"a change of the default begins nothing", "v1.5.0", `[{stage: Beta, release: v1.1.0}, {stage: Beta, release: v1.4.0, default: true}]`, []string{"warning overdue G spec.stages[1]"}},
		{"planned", "v1.9.0", `[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.10.0}]`, nil},
		{"planned for a day that has gone by", "v1.1.0", `[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.2.0, date: "2025-12-31"}]`, []string{"warning overdue G spec.stages[1].date"}},
		{"planned for a day to come", "v1.1.0", `[{stage: Alpha, release: v1.0.0}, {stage: Beta, release: v1.2.0, date: "2026-12-31"}]`, nil},
		{"stable, not locked", "v1.5.0", `[{stage: Stable, release: v1.1.0}]`, []string{"warning overdue G spec.stages[0]"}},
		{"stable and locked", "v1.5.0", `[{stage: Stable, release: v1.1.0, lockToDefault: true}]`, []string{"warning overdue G spec.stages[0]"}},
		{"deprecated", "v1.5.0", `[{stage: Alpha, release: v1.0.0}, {stage: Deprecated, release: v1.1.0}]`, []string{"warning overdue G spec.stages[1]"}},
		{"removed is for ever", "v1.50.0", `[{stage: Alpha, release: v1.0.0}, {stage: Removed, release: v1.1.0}]`, nil},
		{"yet to come", "v1.1.0", `[{stage: Alpha, release: v1.2.0, date: "2024-01-01"}]`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := define(t, "metadata: {name: demo}\nspec: {release: "+tt.release+"}", "- {gate: G, stages: "+tt.stages+"}", nil)
			if diff := cmp.Diff(tt.want, lines(m.Lint(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)))); diff != "" {
				t.Errorf("%s%v", diff, m.Lint(time.Time{}))
			}
		})
	}
}

// TestWhatIsOverdueNamesTheCommand has a feature at each stage for too long.
func TestWhatIsOverdueNamesTheCommand(t *testing.T) {
	for stage, want := range map[string]string{
		"Alpha": "(sluice features promote G)", "Beta": "(sluice features promote G)", "Beta, lockToDefault: true": "(sluice features promote G)",
		"Stable": "lock it to its default (sluice features promote G --lock)", "Stable, lockToDefault: true": "(sluice features remove G)",
		"Deprecated": "remove it (sluice features remove G)", "Deprecated, lockToDefault: true": "(sluice features remove G)",
	} {
		m := define(t, "metadata: {name: demo}\nspec: {release: v1.9.0}", "- {gate: G, stages: [{release: v1.0.0, stage: "+stage+"}]}", nil)
		if list := m.Lint(time.Time{}); len(list) != 1 || !strings.HasSuffix(list[0].Message, want) {
			t.Errorf("%s: %v", stage, list)
		}
	}
}

// TestTombstones has names of removed features used again.
func TestTombstones(t *testing.T) {
	withdrawn := func(part string) string {
		return "- {gate: Old, stages: [{stage: Alpha, release: v1.0.0}, {stage: Removed, release: v1.2.0}], parts: [{" + part + "}]}\n"
	}
	graduated := func(part string) string {
		return "- {gate: Old, stages: [{stage: Stable, release: v1.0.0}, {stage: Removed, release: v1.2.0}], parts: [{" + part + "}]}\n"
	}
	for _, tt := range []struct {
		name, features string
		want           []string
	}{
		{"a field that is gone", withdrawn("field: spec.gone"), nil},
		{"a version that is gone", withdrawn("versions: [v0], wholeVersion: true"), nil},
		{"a resource that is gone", withdrawn("group: demo.dev, resource: others, field: spec.x"), nil},
		{"what graduated", graduated("field: spec.withDefault"), nil},
		{"what graduated, gated again", graduated("field: spec.tasksTimeout") + "- {gate: New, parts: [{field: spec.tasksTimeout}]}", nil},
		{"the field is still there", withdrawn("field: spec.tasksTimeout"), []string{"warning tombstone Old spec.parts[0].field"}},
		{"the gate again", withdrawn("field: spec.gone") + "- {gate: Old}", []string{"error duplicate Old spec.gate"}},
		{"the key again", withdrawn("field: spec.gone") + "- {gate: New, key: old}", []string{"error key-taken New spec.key"}},
		{"the field again", withdrawn("field: spec.tasksTimeout") + "- {gate: New, parts: [{field: spec.tasksTimeout}]}", []string{"error tombstone New spec.parts[0]", "warning tombstone Old spec.parts[0].field"}},
		{"the field again, some values of it", withdrawn("field: spec.onError") + "- {gate: New, parts: [{field: spec.onError, values: [Retry]}]}", []string{"error tombstone New spec.parts[0]", "warning tombstone Old spec.parts[0].field"}},
		{"the value again", withdrawn("field: spec.onError, values: [Retry]") + "- {gate: New, parts: [{field: spec.onError, values: [Retry]}]}", []string{"error tombstone New spec.parts[0]"}},
		{"another value", withdrawn("field: spec.onError, values: [Retry]") + "- {gate: New, parts: [{field: spec.onError, values: [Stop]}]}", nil},
		{"in another version", withdrawn("versions: [v1], field: spec.onError, values: [Retry]") + "- {gate: New, parts: [{versions: [v2], field: spec.onError, values: [Retry]}]}", nil},
		{"the version again", withdrawn("versions: [v2], wholeVersion: true") + "- {gate: New, parts: [{versions: [v2], wholeVersion: true}]}", []string{"error tombstone New spec.parts[0]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, findings := feature.Define(component(t, strings.Replace(componentYAML, "v1.5.0", "v1.3.0", 1)), features(t, tt.features), feature.Options{Resources: pipelines(t)})
			got := map[string]bool{}
			for _, l := range append(lines(findings), lines(m.Lint(time.Time{}))...) {
				got[l] = true
			}
			want := map[string]bool{}
			for _, l := range tt.want {
				want[l] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s%v%v", diff, findings, m.Lint(time.Time{}))
			}
		})
	}
}
