package feature_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// there are parts whose resource, version and field the test's schema has; nowhere are those that lack one of them.
var (
	there = []string{
		"field: spec.tasksTimeout", "field: spec.onError, values: [Retry]", "versions: [v1], field: spec.replicas, beyond: {maximum: 5}",
		"versions: [v2], wholeVersion: true", "field: spec.env.FOO.secretRef", "field: spec.tasksTimeout, pattern: x",
	}
	nowhere = map[string]string{
		"group: demo.dev, resource: rails, field: spec.tasksTimeout":                         "unknown-resource",
		"group: other.dev, resource: pipelines, field: spec.tasksTimeout":                    "unknown-resource",
		"group: demo.dev, resource: rails, versions: [v1], wholeVersion: true":               "unknown-resource",
		"versions: [v3], wholeVersion: true":                                                 "unknown-version",
		"versions: [v3], field: spec.nosuch":                                                 "unknown-version",
		"field: spec.nosuch":                                                                 "unknown-field",
		"versions: [v1], field: spec.nosuch":                                                 "unknown-field",
		`field: "spec.volumes[*]", match: [{field: kind}]`:                                   "unknown-field",
		`field: "spec.volumes[*]", match: [{field: kind}], versions: [v1]`:                   "unknown-field",
		`group: demo.dev, resource: rails, field: "spec.volumes[*]", match: [{field: kind}]`: "unknown-resource",
	}
)

// TestTheOtherPartsOfAFeatureDoNotWait: a feature with parts that have nothing to gate yet is the same as without them, for each way to
// treat a use and each ratchet; with nothing but such parts, it is left out. Without PartsMayWait, each of them is an error.
func TestTheOtherPartsOfAFeatureDoNotWait(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	missing := make([]string, 0, len(nowhere))
	for part := range nowhere {
		missing = append(missing, part)
	}
	slices.Sort(missing)
	for range 300 {
		var with, without, want []string
		for _, part := range there {
			if r.IntN(3) == 0 {
				with, without = append(with, part), append(without, part)
			}
		}
		for range 1 + r.IntN(3) {
			part := missing[r.IntN(len(missing))]
			if !slices.Contains(with, part) {
				with = slices.Insert(with, r.IntN(len(with)+1), part)
			}
		}
		spec := fmt.Sprintf("ratchet: %s, whenDisabled: %s", []string{"InUse", "InObject", "Unchanged"}[r.IntN(3)], []string{"Reject", "Warn"}[r.IntN(2)])
		define := func(parts []string, o feature.Options) (*feature.Model, feature.Findings) {
			o.Resources = pipelines(t)
			text := ""
			for _, p := range parts {
				text += "{" + p + "}, "
			}
			return feature.Define(component(t, componentYAML), features(t, "- {gate: G, "+spec+", parts: ["+text+"]}"), o)
		}
		severity := feature.Warning
		if without == nil {
			severity = feature.Error
		}
		for i, part := range with {
			if code := nowhere[part]; code != "" {
				want = append(want, fmt.Sprintf("%s spec.parts[%d]", code, i))
			}
		}
		m, findings := define(with, feature.Options{PartsMayWait: true})
		for _, w := range want {
			if !slices.ContainsFunc(findings, func(x feature.Finding) bool {
				return x.Waits() && x.Severity == severity && strings.HasPrefix(string(x.Code)+" "+x.Where, w)
			}) {
				t.Errorf("%q is not told of %q: %v", w, with, findings)
			}
		}
		switch f := m.Feature("G"); {
		case without == nil && f != nil || without != nil && f == nil:
			t.Errorf("%q: the feature is in the model: %t", with, f != nil)
		case f != nil:
			alone, _ := define(without, feature.Options{})
			if got, want := places(f.Targets), places(alone.Feature("G").Targets); !reflect.DeepEqual(got, want) {
				t.Errorf("%q gates %v, want %v", with, got, want)
			}
		}
		if m, findings := define(with, feature.Options{}); m.Feature("G") != nil || len(findings) < len(want) || findings.Err() == nil {
			t.Errorf("without PartsMayWait, %q is taken: %v", with, findings)
		}
	}
}

func places(targets []feature.Target) (out []string) {
	for i := range targets {
		x := &targets[i]
		out = append(out, fmt.Sprintf("%s %s %s %q %t %v", x.Resource, x.Version, x.Path, x.Values, x.WholeVersion, x.Pattern))
	}
	slices.Sort(out)
	return out
}

// TestAValueThatIsNotThereYetIsGatedAllTheSame: an enum that lacks a value refuses it, and gets it while the gate is in force.
func TestAValueThatIsNotThereYetIsGatedAllTheSame(t *testing.T) {
	m, findings := feature.Define(component(t, componentYAML), features(t, "- {gate: G, parts: [{field: spec.tasksTimeout}, {field: spec.onError, values: [Retyr]}]}"),
		feature.Options{Resources: pipelines(t), PartsMayWait: true})
	f := m.Feature("G")
	if f == nil || findings.Err() != nil || len(findings) == 0 || !findings[0].Waits() {
		t.Fatal(findings)
	}
	if !slices.ContainsFunc(f.Targets, func(x feature.Target) bool { return slices.Equal(x.Values, []string{"Retyr"}) }) {
		t.Errorf("it gates %v", places(f.Targets))
	}
}

// TestOtherErrorsDoNotWait: what is wrong in itself stays an error.
func TestOtherErrorsDoNotWait(t *testing.T) {
	for _, wrong := range []string{"field: spec..x", "field: spec.name", "field: spec.replicas, pattern: x", `field: spec.tasksTimeout, pattern: "("`} {
		m, findings := feature.Define(component(t, componentYAML), features(t, "- {gate: G, parts: [{field: spec.tasksTimeout}, {field: spec.nosuch}, {"+wrong+"}]}"),
			feature.Options{Resources: pipelines(t), PartsMayWait: true})
		if m.Feature("G") != nil || findings.Err() == nil {
			t.Errorf("%s is taken: %v", wrong, findings)
		}
	}
}

// TestGroupsThatFilesHaveNothingOf: a part of a kind of Kubernetes is taken as it is, although the files have the CRD of another part.
func TestGroupsThatFilesHaveNothingOf(t *testing.T) {
	define := func(o feature.Options) (*feature.Model, feature.Findings) {
		o.Resources = pipelines(t)
		list := features(t, "- {gate: G, parts: [{field: spec.tasksTimeout}]}\n- {gate: H, parts: [{field: spec.nosuch}]}")
		list[0].Spec.Parts = append(list[0].Spec.Parts, v1alpha1.Part{Resource: "pods", Versions: []string{"v1"}, Field: "spec.hostNetwork"},
			v1alpha1.Part{Group: "apps", Resource: "deployments", Field: "spec.paused"})
		return feature.Define(component(t, componentYAML), list, o)
	}
	m, findings := define(feature.Options{OtherGroups: true})
	if f := m.Feature("G"); f == nil || len(f.Targets) != 4 || m.Feature("H") != nil {
		t.Errorf("%v", findings)
	}
	if m, _ := define(feature.Options{}); m.Feature("G") != nil {
		t.Error("in a cluster, they are taken although they are not there")
	}
}
