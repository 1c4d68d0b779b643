package feature_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// TestDefinitionsAreRefused has a case for each thing that makes a definition a bad one.
func TestDefinitionsAreRefused(t *testing.T) {
	part := func(part string) string { return "- {gate: G, parts: [{" + part + "}]}" }
	drop := func(part string) string { return "- {gate: G, whenDisabled: Drop, parts: [{" + part + "}]}" }
	staged := func(stages string) string { return "- {gate: G, stages: [" + stages + "]}" }
	for _, tt := range []struct {
		name, features string
		want           []string
	}{
		{"a good one", part("field: spec.tasksTimeout"), nil},
		{"a field that the schema does not have", part("field: spec.taskTimeout"), []string{"error unknown-field G spec.parts[0].field"}},
		{"a field of items that they do not have", part(`field: "spec.tasks[*].timeuot"`), []string{"error unknown-field G spec.parts[0].field"}},
		{"items of what is no list", part(`field: "spec.name[*]"`), []string{"error unknown-field G spec.parts[0].field"}},
		{"no path", part(`field: "spec..x"`), []string{"error bad-path G spec.parts[0].field"}},
		{"metadata", part("field: metadata.labels"), []string{"error bad-path G spec.parts[0].field"}},
		{"status", part("field: status.phase"), []string{"error bad-path G spec.parts[0].field"}},
		{"a value that the enum does not have", part("field: spec.onError, values: [Retry, Retyr]"), []string{"error unknown-enum-value G spec.parts[0].values[1]"}},
		{"a value that is no number", part("field: spec.replicas, values: [\"7\", \"7.0\", two]"), []string{"error unknown-enum-value G spec.parts[0].values[2]"}},
		{"a value that is no integer", part("field: spec.replicas, values: [\"7.5\"]"), []string{"error unknown-enum-value G spec.parts[0].values[0]"}},
		{"no value", part("field: spec.onError, values: []"), []string{"error too-many G spec.parts[0].values"}},
		{"values of an object", part("field: spec.free, values: [x]"), []string{"error bad-part G spec.parts[0].values"}},
		{"a pattern of a number", part("field: spec.replicas, pattern: x"), []string{"error bad-part G spec.parts[0].pattern"}},
		{"a pattern that is none", part(`field: spec.tasksTimeout, pattern: "("`), []string{"error bad-pattern G spec.parts[0].pattern"}},
		{"a pattern that closes its group", part(`field: spec.tasksTimeout, pattern: "a)(b"`), []string{"error bad-pattern G spec.parts[0].pattern"}},
		{"values and a pattern", part("field: spec.onError, values: [Retry], pattern: x"), []string{"error bad-part G spec.parts[0]"}},
		{"no bounds", part("field: spec.replicas, beyond: {}"), []string{"error bad-part G spec.parts[0].beyond"}},
		{"bounds and values", part(`field: spec.replicas, values: ["7"], beyond: {maximum: 5}`), []string{"error bad-part G spec.parts[0]"}},
		{"bounds that leave no number", part("field: spec.replicas, beyond: {minimum: 6, maximum: 5}"), []string{"error bad-part G spec.parts[0].beyond.minimum"}},
		{"a bound of another type", part("field: spec.replicas, beyond: {maxLength: 5}"), []string{"error bad-part G spec.parts[0].beyond.maxLength"}},
		{"a bound of a string", part("field: spec.tasksTimeout, beyond: {maximum: 5}"), []string{"error bad-part G spec.parts[0].beyond.maximum"}},
		{"less than no items", part("field: spec.tasks, beyond: {maxItems: -1}"), []string{"error bad-part G spec.parts[0].beyond.maxItems"}},
		{"bounds by values that the enum does not have", part("field: spec.onError, beyond: {values: [Stopp]}"), []string{"error unknown-enum-value G spec.parts[0].beyond.values[0]"}},
		{"bounds by a pattern that is none", part(`field: spec.tasksTimeout, beyond: {pattern: "("}`), []string{"error bad-pattern G spec.parts[0].beyond.pattern"}},
		{"a default beyond the bounds", part("field: spec.withDefault, beyond: {values: [y]}"), []string{"error field-has-default G spec.parts[0].field"}},
		{"a default within the bounds", part("field: spec.withDefault, beyond: {values: [x]}"), nil},
		{"the same bounds twice", "- {gate: G, parts: [{field: spec.replicas, beyond: {maximum: 5}}, {field: spec.replicas, beyond: {maximum: 5}}]}", []string{"error duplicate G spec.parts[1]"}},
		{"other bounds", "- {gate: G, parts: [{field: spec.replicas, beyond: {maximum: 5}}, {field: spec.replicas, beyond: {minimum: 1}}]}", nil},
		{"bounds of a required field", part("field: spec.name, beyond: {maxLength: 5}"), nil},
		{"reset, refused", part("field: spec.onError, values: [Retry], resetTo: Stop"), []string{"error bad-part G spec.parts[0].resetTo"}},
		{"reset", drop("field: spec.onError, values: [Retry], resetTo: Stop"), nil},
		{"reset to what is gated", drop("field: spec.onError, values: [Retry], resetTo: Retry"), []string{"error bad-part G spec.parts[0].resetTo"}},
		{"reset to what the enum does not have", drop("field: spec.onError, values: [Retry], resetTo: Stopp"), []string{"error unknown-enum-value G spec.parts[0].resetTo"}},
		{"reset of whatever value", drop("field: spec.onError, resetTo: Stop"), []string{"error bad-part G spec.parts[0].resetTo"}},
		{"reset to another type", drop("field: spec.replicas, beyond: {maximum: 5}, resetTo: five"), []string{"error bad-part G spec.parts[0].resetTo"}},
		{"reset of a number", drop(`field: spec.replicas, beyond: {maximum: 5}, resetTo: "5"`), nil},
		{"reset beyond the bounds", drop(`field: spec.replicas, beyond: {maximum: 5}, resetTo: "6"`), []string{"error bad-part G spec.parts[0].resetTo"}},
		{"reset of a required field", drop("field: spec.must, values: [B], resetTo: A"), nil},
		{"reset of items that nothing tells apart", drop(`field: "spec.mounts[*].kind", values: [rw], resetTo: ro`), nil},
		{"reset in a set", drop(`field: "spec.modes[*]", values: [Odd], resetTo: Fast`), []string{"error bad-part G spec.parts[0].resetTo"}},
		{"reset to what another gates", drop("field: spec.onError, values: [Retry], resetTo: Stop") + "\n- {gate: H, parts: [{field: spec.onError, values: [Stop]}]}", []string{"error contradiction G spec.parts[0].resetTo"}},
		{"two resets", drop("field: spec.replicas, beyond: {maximum: 5}, resetTo: \"5\"") + "\n- {gate: H, whenDisabled: Drop, parts: [{field: spec.replicas, beyond: {maximum: 7}, resetTo: \"4\"}]}", []string{"error contradiction H spec.parts[0].resetTo"}},
		{"an in-object ratchet", "- {gate: G, ratchet: InObject, parts: [{field: spec.tasksTimeout}]}", nil},
		{"a condition on what items do not have", part(`field: "spec.volumes[*]", match: [{field: kind}]`), []string{"error unknown-field G spec.parts[0].match[0].field"}},
		{"a condition on values that the enum does not have", part(`field: "spec.volumes[*]", match: [{field: type, values: [nfs]}]`), []string{"error unknown-enum-value G spec.parts[0].match[0].values[0]"}},
		{"a required field", part("field: spec.name"), []string{"error required-field G spec.parts[0].field"}},
		{"a required field, dropped", drop("field: spec.name, pattern: x"), []string{"error cannot-drop G spec.parts[0].field"}},
		{"all values of what is required", part(`field: "spec.tasks[*].name"`), []string{"error list-map-key G spec.parts[0].field", "error required-field G spec.parts[0].field"}},
		{"values of a list's key", part(`field: "spec.tasks[*].name", values: [odd]`), nil},
		{"values of a list's key, dropped", drop(`field: "spec.tasks[*].name", values: [odd]`), []string{"error cannot-drop G spec.parts[0].field", "error list-map-key G spec.parts[0].field"}},
		{"a field with a default", part("field: spec.withDefault"), []string{"error field-has-default G spec.parts[0].field"}},
		{"a default that is the value", part("field: spec.withDefault, values: [x]"), []string{"error field-has-default G spec.parts[0].field"}},
		{"a default that is another value", part("field: spec.withDefault, values: [y]"), nil},
		{"what cannot be put back, dropped", drop(`field: "spec.tasks[*].steps[*].script", pattern: x`), []string{"error cannot-drop G spec.parts[0].field"}},
		{"a version that there is not", part("versions: [v3], field: spec.tasksTimeout"), []string{"error unknown-version G spec.parts[0].versions[0]"}},
		{"a resource that there is not", part("group: demo.dev, resource: pipeline, field: spec.tasksTimeout"), []string{"error unknown-resource G spec.parts[0].resource"}},
		{"a whole version, dropped", drop("versions: [v2], wholeVersion: true"), []string{"error cannot-drop G spec.parts[0]"}},
		{"a whole version and a field", part("versions: [v2], wholeVersion: true, field: spec.tasksTimeout"), []string{"error bad-part G spec.parts[0]"}},
		{"which version", part("wholeVersion: true"), []string{"error bad-part G spec.parts[0].versions"}},
		{"the same part twice", "- {gate: G, parts: [{field: spec.tasksTimeout}, {field: spec.tasksTimeout}]}", []string{"error duplicate G spec.parts[1]"}},
		{"no stage that there is", staged("{stage: Gamma, release: v1.0.0}"), []string{"error stage-order G spec.stages[0].stage"}},
		{"a stage that goes back", staged("{stage: Beta, release: v1.0.0}, {stage: Alpha, release: v1.1.0}"), []string{"error stage-order G spec.stages[1].stage"}},
		{"a release that goes back", staged("{stage: Alpha, release: v1.2.0}, {stage: Beta, release: v1.1.0}"), []string{"error stage-order G spec.stages[1].release"}},
		{"a day that goes back", staged(`{stage: Alpha, date: "2026-02-01"}, {stage: Beta, date: "2026-01-31"}`), []string{"error stage-order G spec.stages[1].date"}},
		{"a stage without a beginning", staged("{stage: Alpha}"), []string{"error stage-order G spec.stages[0]"}},
		{"no release", staged("{stage: Alpha, release: one}"), []string{"error bad-release G spec.stages[0].release"}},
		{"no day", staged(`{stage: Alpha, date: "2026-02-30"}`), []string{"error bad-release G spec.stages[0].date"}},
		{"alpha and on", staged("{stage: Alpha, release: v1.0.0, default: true}"), []string{"error stage-default G spec.stages[0].default"}},
		{"stable and off", staged("{stage: Stable, release: v1.0.0, default: false}"), []string{"error stage-default G spec.stages[0].default"}},
		{"removed twice", staged("{stage: Removed, release: v1.0.0}, {stage: Removed, release: v1.1.0}"), []string{"error stage-order G spec.stages[1].stage"}},
		{"a name that is none", "- {gate: fastPath}", []string{"error bad-name fastPath spec.gate"}},
		{"a name that stands for others", "- {gate: AllAlpha}", []string{"error bad-name AllAlpha spec.gate"}},
		{"a name without end", "- {gate: G" + strings.Repeat("x", 60) + "}", []string{"error bad-name G" + strings.Repeat("x", 60) + " spec.gate"}},
		{"the key of the level", "- {gate: G, key: enable-api-fields}", []string{"error key-taken G spec.key"}},
		{"a key that is taken", "- {gate: G, key: f}\n- {gate: F}", []string{"error key-taken F spec.key"}},
		{"two of a name", "- {gate: G}\n- {gate: G}", []string{"error duplicate G spec.gate"}},
		{"a requirement that there is not", "- {gate: G, requires: [F]}", []string{"error bad-requirement G spec.requires[0]"}},
		{"a circle", "- {gate: A, requires: [B]}\n- {gate: B, requires: [C]}\n- {gate: C, requires: [A]}", []string{
			"error requirement-cycle A spec.requires", "error requirement-cycle B spec.requires", "error requirement-cycle C spec.requires",
		}},
		{"what implies it is not there", "- {gate: G, impliedBy: [F]}", []string{"error bad-requirement G spec.impliedBy[0]"}},
		{"what implies it stands there twice", "- {gate: F}\n- {gate: G, impliedBy: [F, F]}", []string{"error duplicate G spec.impliedBy[1]"}},
		{"a circle of both", "- {gate: A, requires: [B]}\n- {gate: B, impliedBy: [A]}", []string{"error requirement-cycle A spec.requires", "error requirement-cycle B spec.impliedBy"}},
		{"itself", "- {gate: A, requires: [A]}", []string{"error requirement-cycle A spec.requires"}},
		{"beta that requires alpha", "- {gate: A}\n- {gate: B, stages: [{stage: Beta, release: v1.0.0}], requires: [A]}", []string{"error bad-requirement B spec.requires[0]"}},
		{"refused and dropped", part("field: spec.tasksTimeout") + "\n- {gate: H, whenDisabled: Drop, parts: [{field: spec.tasksTimeout}]}", []string{"error contradiction H spec.parts[0]"}},
		{"two ratchets", part("field: spec.tasksTimeout") + "\n- {gate: H, ratchet: Unchanged, parts: [{field: spec.tasksTimeout}]}", []string{"error contradiction H spec.parts[0]"}},
		{"two values, refused and dropped", part("field: spec.onError, values: [Retry]") + "\n- {gate: H, whenDisabled: Drop, parts: [{field: spec.onError, values: [Continue]}]}", nil},
		{"an entry of the map that another gates", "- {gate: G, parts: [{field: 'spec.env[*].secretRef'}]}\n- {gate: H, whenDisabled: Drop, parts: [{field: spec.env.FOO.secretRef}]}", []string{"error contradiction H spec.parts[0]"}},
		{"the map of which another gates an entry", "- {gate: G, whenDisabled: Warn, parts: [{field: spec.env.FOO.secretRef}]}\n- {gate: H, parts: [{field: 'spec.env[*].secretRef'}]}", []string{"error contradiction H spec.parts[0]"}},
		{"two entries of a map", "- {gate: G, parts: [{field: spec.env.FOO.secretRef}]}\n- {gate: H, whenDisabled: Drop, parts: [{field: spec.env.BAR.secretRef}]}", nil},
		{"an entry of the map that another gates alike", "- {gate: G, parts: [{field: 'spec.env[*].secretRef'}]}\n- {gate: H, parts: [{field: spec.env.FOO.secretRef}]}", nil},
		{"an entry and all, in one feature", "- {gate: G, parts: [{field: 'spec.env[*].secretRef'}, {field: spec.env.FOO.secretRef}]}", nil},
		{"all at once", "- {gate: G, key: feature-gates, requires: [F], whenDisabled: Refuse, stages: [{stage: Beta}], parts: [{field: spec.x}, {field: spec.name}]}", []string{
			"error stage-order G spec.stages[0]", "error bad-requirement G spec.requires[0]", "error key-taken G spec.key", "error unknown-field G spec.parts[0].field",
			"error required-field G spec.parts[1].field", "error bad-value G spec.whenDisabled",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, findings := feature.Define(component(t, componentYAML), features(t, tt.features), feature.Options{Resources: pipelines(t)})
			got := map[string]bool{}
			for _, l := range lines(findings) {
				got[l] = true // a line for each version, where it is the schema's
			}
			want := map[string]bool{}
			for _, l := range tt.want {
				want[l] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s%v", diff, findings)
			}
			for _, f := range findings {
				if m.Feature(f.Gate) != nil && f.Severity == feature.Error {
					t.Errorf("%s is in the model", f.Gate)
				}
			}
		})
	}
}

func TestWhatTwoComponentsGate(t *testing.T) {
	var components []v1alpha1.Component
	var all []v1alpha1.Feature
	o := feature.Options{Resources: pipelines(t)}
	add := func(name, text string) {
		c := component(t, componentYAML)
		c.Name = name
		c.Spec.ConfigMap = &v1alpha1.ConfigMapReference{Namespace: "demo", Name: name}
		components = append(components, *c)
		for _, f := range features(t, text) {
			f.Spec.Component, f.Name = name, ""
			all = append(all, f)
		}
	}
	add("a", "- {gate: Env, parts: [{field: spec.tasksTimeout}, {field: 'spec.env[*].secretRef'}]}\n- {gate: Own, parts: [{field: spec.free}]}\n- {gate: Retry, parts: [{field: spec.onError, values: [Retry]}]}")
	add("b", "- {gate: Foo, whenDisabled: Drop, requires: [Go], parts: [{field: spec.env.FOO.secretRef}, {resource: unknown, field: spec.x}]}\n- {gate: Go, parts: [{field: spec.onError, values: [Continue]}]}")
	add("c", "- {gate: Behaviour}")
	// In b itself Foo is left out, for a resource that is not known; a is told of it all the same.
	told := map[string][]string{}
	for i := range components {
		m, _ := feature.Define(&components[i], all, o)
		told[m.Component()] = lines(m.SharedWith(components, all, o))
	}
	if diff := cmp.Diff(map[string][]string{"a": {"warning shared-with-another Env spec.parts[1]"}, "b": nil, "c": nil}, told); diff != "" {
		t.Error(diff)
	}
	m, _ := feature.Define(&components[0], all, o)
	text := m.SharedWith(components, all, o)[0].Message
	for _, part := range []string{`"b"`, "Foo", "Reject", "Drop"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %s", text, part)
		}
	}
}
