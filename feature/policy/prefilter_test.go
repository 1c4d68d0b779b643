package policy

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

func prefiltered(t *testing.T, parts string) (*feature.Model, []*feature.Target) {
	t.Helper()
	var f v1alpha1.FeatureSpec
	if err := yaml.UnmarshalStrict([]byte("{component: demo, gate: Gate, stages: [{stage: Alpha, release: v1.0.0}], parts: "+parts+"}"), &f); err != nil {
		t.Fatal(err)
	}
	for i := range f.Parts {
		f.Parts[i].Resource = "things"
	}
	c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
	c.Name = "demo"
	m, findings := feature.Define(c, []v1alpha1.Feature{{Spec: f}}, feature.Options{Resources: []feature.Resource{{Resource: "things", Versions: []feature.Version{{Name: "v1"}}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	var targets []*feature.Target
	for i := range m.Feature("Gate").Targets {
		targets = append(targets, &m.Feature("Gate").Targets[i])
	}
	return m, targets
}

// TestPrefiltersLeaveNoUseOut evaluates them with the API server's code.
func TestPrefiltersLeaveNoUseOut(t *testing.T) {
	objects := []string{
		"{}", "{spec: null}", "{spec: text}", "{spec: []}", "{spec: {a: null}}", "{spec: {a: x}}", "{spec: {a: {b: {}}}}", "{spec: {a: {b: {c-d: 1}}}}", "{spec: {a: [1]}}",
		"{spec: {list: []}}", "{spec: {list: [{x: 1}]}}", "{spec: {list: {x: 1}}}", "{spec: {in: {b: 2}}}", "{other: {a: 1}}", "{spec: {map: {k: {secret: s}}}}",
	}
	for parts, passedOver := range map[string]int{ // objects that are not asked about
		"[{field: spec.a}]":   10,
		"[{field: spec.a.b}]": 13,
		`[{field: 'spec.a.b["c-d"]'}, {field: 'spec["in"].b'}]`:         13,
		`[{field: "spec.list[*].x"}]`:                                   12,
		`[{field: "spec.map[*].secret"}, {field: spec.a, values: [x]}]`: 9,
	} {
		m, targets := prefiltered(t, parts)
		expression := Prefilter(targets)
		in := m.Inspector()
		n := 0
		for _, text := range objects {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			run, err := (&compiler{minor: newestMinor}).newRunner()
			if err != nil {
				t.Fatal(err)
			}
			run.object = object
			res := run.compileVariable(variable{"use", expression})
			value, cost, err := run.evalProgram(t.Context(), &res)
			if err != nil {
				t.Errorf("%s of %s: %v", expression, text, err)
				continue
			}
			use := fmt.Sprint(value) == "true"
			if !use {
				n++
			}
			if uses := in.Uses("", "v1", "things", object); !use && uses != nil {
				t.Errorf("%s of %s is false, and the object uses %s", expression, text, uses[0].Path)
			}
			if cost > 100 {
				t.Errorf("%s of %s costs %d", expression, text, cost)
			}
		}
		if n != passedOver {
			t.Errorf("%s passes over %d objects, not %d", expression, n, passedOver)
		}
	}
}

func TestThereIsNoPrefilterOfWhatEverybodyUses(t *testing.T) {
	_, targets := prefiltered(t, "[{wholeVersion: true, versions: [v1]}]")
	if got := Prefilter(targets); got != "" {
		t.Error(got)
	}
	var parts []string
	for i := range maxPrefilter + 1 {
		parts = append(parts, fmt.Sprintf("{field: spec.f%d}", i))
	}
	_, targets = prefiltered(t, "["+strings.Join(parts[:maxPrefilter], ", ")+"]")
	if Prefilter(targets) == "" {
		t.Error("none for as many as there may be")
	}
	_, targets = prefiltered(t, "["+strings.Join(parts, ", ")+"]")
	if got := Prefilter(targets); got != "" {
		t.Error(got)
	}
}
