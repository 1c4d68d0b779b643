package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// modelOfMany is the model of a component with that many features, whose gates end with a suffix.
func modelOfMany(t testing.TB, n int, suffix string) *feature.Model {
	t.Helper()
	c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo", Name: "flags"}}}
	c.Name = "demo"
	var list []v1alpha1.Feature
	for i := range n {
		list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "demo", Gate: fmt.Sprintf("SomeFeature%d%s", i, suffix), Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "things", Field: fmt.Sprintf("spec.f%d", i)}},
		}})
	}
	m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "demo.dev", Resource: "things", Versions: []feature.Version{{Name: "v1"}}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// judge evaluates the policies of a model's settings with the API server's code, and returns the problems that they find.
func judge(t *testing.T, guards []*guard, data map[string]string) (out []string) {
	t.Helper()
	object, binary := map[string]any{}, map[string]any{}
	for k, v := range data {
		if name, ok := strings.CutPrefix(k, "binaryData/"); ok {
			binary[name] = []byte(v)
		} else {
			object[k] = v
		}
	}
	for _, g := range guards {
		run, err := (&compiler{minor: newestMinor}).newRunner()
		if err != nil {
			t.Fatal(err)
		}
		run.object, run.request = map[string]any{"data": object, "binaryData": binary}, map[string]any{"operation": "CREATE"}
		problems := variable{"problems", g.allProblems()}
		for _, v := range append(slices.Clone(g.vars), problems) {
			if _, err := run.runVariable(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		list, ok := run.values["problems"].(traits.Lister)
		if !ok {
			t.Fatalf("%T", run.values["problems"])
		}
		for i := list.Iterator(); i.HasNext() == types.True; {
			out = append(out, fmt.Sprint(i.Next()))
		}
	}
	return out
}

func compiled(m *feature.Model) *compiler {
	return &compiler{model: m, minor: newestMinor, follows: true, live: true, states: m.Resolve(nil, feature.Runtime{}), set: &Set{Validating: make([]admissionregistrationv1.ValidatingAdmissionPolicy, 1)}}
}

// TestSettingsOfManyFeatures: however many features there are, what policies judge costs no more than the API server allows.
func TestSettingsOfManyFeatures(t *testing.T) {
	for _, tt := range []struct {
		features, policies int
		suffix, reason     string
	}{{50, 1, "", ""}, {1200, 2, "", ""}, {4500, 1, "", "more than 3 policies"}, {5000, 1, strings.Repeat("X", 40), "actual cost limit exceeded"}} {
		m := modelOfMany(t, tt.features, tt.suffix)
		c := compiled(m)
		c.addGuardPolicies(t.Context())
		if got := len(c.set.Validating) - 1; got != tt.policies || (tt.reason == "") != (c.set.SettingsReason == "") || !strings.Contains(c.set.SettingsReason, tt.reason) {
			t.Errorf("%d features: %d policies, %q", tt.features, got, c.set.SettingsReason)
		}
		for _, p := range c.set.Validating[1:] {
			rules := p.Spec.MatchConstraints.ResourceRules
			if ops := rules[len(rules)-1].Operations; (p.Name == GuardName("demo")) != slices.Contains(ops, admissionregistrationv1.Delete) {
				t.Errorf("%d features: %s is about %v", tt.features, p.Name, ops)
			}
		}
		if tt.policies < 2 {
			continue
		}
		guards, err := c.settingsGuards(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf("SomeFeature%d", tt.features-1)
		all := map[string]string{}
		var list []string
		for _, f := range m.Features() {
			all[f.Spec.Key] = "true"
			list = append(list, f.Spec.Gate+"=true")
		}
		all["feature-gates"] = strings.Join(list, ",")
		if got := judge(t, guards, all); got != nil {
			t.Errorf("all on: %v", got)
		}
		all[m.Feature(last).Spec.Key] = "false"
		if diff := cmp.Diff([]string{m.Feature(last).Spec.Key + " and feature-gates disagree on " + last}, judge(t, guards, all)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestSettingsAreJudgedAsTheModelDoes has the policies find a problem wherever the model does, and nowhere else.
func TestSettingsAreJudgedAsTheModelDoes(t *testing.T) {
	c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{
		Release: "v1.5.0", MaxLevel: v1alpha1.LevelBeta, ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo", Name: "flags"},
		Settings: []v1alpha1.Setting{{Name: "size", Pattern: "[0-9]+"}, {Name: "free"}},
	}}
	c.Name = "demo"
	beta := []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v1.0.0"}}
	specs := []v1alpha1.FeatureSpec{
		{Gate: "Plain", Stages: beta},
		{Gate: "Turned", Key: "disable-turned", Inverted: true, Stages: beta},
		{Gate: "Narrow", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}}, // beyond maxLevel
		{Gate: "Later", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v2.0.0"}}},
		{Gate: "LockedOn", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Stable, Release: "v1.0.0", LockToDefault: true}}},
		{Gate: "LockedOff", Key: "no-locked", Inverted: true, Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v1.0.0", LockToDefault: true}}},
		{Gate: "Needs", Requires: []string{"Plain"}, Stages: beta},
		{Gate: "Level", FollowsLevel: new(true), Stages: beta},
		{Gate: "NeedsLevel", Requires: []string{"Level"}, Stages: beta},
		{Gate: "Gone", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}, {Stage: v1alpha1.Removed, Release: "v1.2.0"}}},
	}
	var features []v1alpha1.Feature
	for _, s := range specs {
		s.Component = "demo"
		features = append(features, v1alpha1.Feature{Spec: s})
	}
	m, findings := feature.Define(c, features, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	guards, err := compiled(m).settingsGuards(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cases := []map[string]string{
		{},
		{"plain": "true"},
		{"plain": "yes"},
		{"needs-level": "true"},
		{"needs-level": "true", "enable-api-fields": "beta"},
		{"needs-level": "true", "level": "true"},
		{"pla": "true"},
		{"_pla": "x"},
		{"size": "12"},
		{"size": "x"},
		{"free": "x"},
		{"enable-api-fields": "beta"},
		{"enable-api-fields": "alpha"},
		{"enable-api-fields": "gamma"},
		{"feature-gates": "Plain=true, Turned=false"},
		{"feature-gates": "Plain=true,Plain=true"},
		{"feature-gates": "Plain=true,Plain=false"},
		{"feature-gates": "Plain"},
		{"feature-gates": "Plain=maybe"},
		{"feature-gates": "Other=true"},
		{"feature-gates": "AllAlpha=true,AllAlpha=false"},
		{"feature-gates": "AllBeta=true"},
		{"feature-gates": "Gone=true"},
		{"gone": "true"},
		{"plain": "true", "feature-gates": "Plain=false"},
		{"plain": "1", "feature-gates": "Plain=t"},
		{"disable-turned": "true", "feature-gates": "Turned=true"},
		{"disable-turned": "false", "feature-gates": "Turned=true"},
		{"disable-turned": "true", "feature-gates": "Turned=false"},
		{"narrow": "true"},
		{"narrow": "false"},
		{"feature-gates": "Narrow=true"},
		{"later": "true"},
		{"later": "false"},
		{"feature-gates": "Later=false"},
		{"locked-on": "true"},
		{"locked-on": "false"},
		{"feature-gates": "LockedOn=false"},
		{"no-locked": "true"},
		{"no-locked": "false"},
		{"feature-gates": "LockedOff=true"},
		{"needs": "true"},
		{"needs": "true", "plain": "true"},
		{"feature-gates": "Needs=true,Plain=false"},
		{"needs": "true", "enable-api-fields": "beta"},
		feature.SettingsOf(map[string]string{"plain": "true"}, map[string]string{"needs": ""}),
		feature.SettingsOf(nil, map[string]string{"other": ""}),
		feature.SettingsOf(nil, map[string]string{"_other": ""}),
	}
	for _, data := range cases {
		_, findings := m.ParseSettings(data)
		got := judge(t, guards, data)
		if bad := findings.Err() != nil; bad != (got != nil) {
			t.Errorf("%v: the model says %v, the policies say %v", data, findings.Err(), got)
		}
	}
}
