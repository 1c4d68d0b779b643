package policy_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/schema"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

func model(t testing.TB, group string, features []v1alpha1.FeatureSpec, props *apiextensionsv1.JSONSchemaProps) *feature.Model {
	t.Helper()
	n, err := schema.New(props)
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{}
	c.Name = "demo"
	c.Spec = v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo-system", Name: "flags"}}
	var list []v1alpha1.Feature
	for _, s := range features {
		s.Component = "demo"
		s.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
		for i := range s.Parts {
			s.Parts[i].Group, s.Parts[i].Resource = group, "things"
		}
		list = append(list, v1alpha1.Feature{Spec: s})
	}
	m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{
		Group: group, Resource: "things", Versions: []feature.Version{{Name: "v1", Schema: n}, {Name: "v2", Schema: n}},
	}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

func object(properties map[string]apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: properties},
	}}
}

func TestWhatTakesTheWebhookAndWhy(t *testing.T) {
	yes, atomic, keyed := true, "atomic", "map"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	list := func(kind *string, item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		p := apiextensionsv1.JSONSchemaProps{Type: "array", XListType: kind, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
		if kind == &keyed {
			p.XListMapKeys = []string{"name"}
		}
		return p
	}
	item := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "mode": text, "inner": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": text}}, "steps": list(&atomic, apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": text}})}}
	props := object(map[string]apiextensionsv1.JSONSchemaProps{
		"mode": text, "open": {Type: "object", XPreserveUnknownFields: &yes}, "keyed": list(&keyed, item), "plain": list(&atomic, text),
		"long": {Type: "string"},
		"map":  {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": text}}}},
	})
	for _, tt := range []struct {
		name, group, kubernetes string
		spec                    v1alpha1.FeatureSpec
		part                    v1alpha1.Part
		want                    string // in the reason; empty: a policy
	}{
		{"a field", "demo.dev", "1.30", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.mode"}, ""},
		{"no policies", "demo.dev", "1.29", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.mode"}, "no ValidatingAdmissionPolicy"},
		{"no mutating policies", "demo.dev", "1.35", v1alpha1.FeatureSpec{WhenDisabled: v1alpha1.Drop}, v1alpha1.Part{Field: "spec.mode"}, "no MutatingAdmissionPolicy"},
		{"mutating policies", "demo.dev", "1.36", v1alpha1.FeatureSpec{WhenDisabled: v1alpha1.Drop}, v1alpha1.Part{Field: "spec.mode"}, ""},
		{"a list, old", "demo.dev", "1.32", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.keyed[*].mode"}, "since Kubernetes 1.33"},
		{"a list", "demo.dev", "1.33", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.keyed[*].mode"}, ""},
		{"what no policy is asked about", "authentication.k8s.io", "", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.mode"}, "asks no policy"},
		{"list or map, old", "demo.dev", "1.34", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.open.x[*].y"}, "whether spec.open.x is a list or a map"},
		{"list or map", "demo.dev", "1.35", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.open.x[*].y"}, ""},
		{"lists or maps within", "demo.dev", "1.35", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.open.x[*].y[*].z[*].w"}, ""},
		{"null", "demo.dev", "", v1alpha1.FeatureSpec{Ratchet: v1alpha1.Unchanged}, v1alpha1.Part{Field: "spec.open"}, "null"},
		{"objects in a list", "demo.dev", "", v1alpha1.FeatureSpec{Ratchet: v1alpha1.Unchanged}, v1alpha1.Part{Field: "spec.keyed[*].inner"}, "cannot be compared"},
		{"values of no identity", "demo.dev", "", v1alpha1.FeatureSpec{Ratchet: v1alpha1.Unchanged}, v1alpha1.Part{Field: "spec.plain[*]", Pattern: "x"}, "takes too long"},
		{"a long pattern", "demo.dev", "", v1alpha1.FeatureSpec{}, v1alpha1.Part{Field: "spec.long", Pattern: strings.Repeat("[ab]", 20)}, "maxLength"},
		{"dropped of items", "demo.dev", "", v1alpha1.FeatureSpec{WhenDisabled: v1alpha1.Drop}, v1alpha1.Part{Field: "spec.keyed[*].mode"}, ""},
		{"dropped of entries", "demo.dev", "", v1alpha1.FeatureSpec{WhenDisabled: v1alpha1.Drop}, v1alpha1.Part{Field: "spec.map[*].a"}, ""},
		{"dropped of items within items", "demo.dev", "", v1alpha1.FeatureSpec{WhenDisabled: v1alpha1.Drop}, v1alpha1.Part{Field: "spec.keyed[*].steps[*].a"}, ""},
		{"put back in a list", "demo.dev", "", v1alpha1.FeatureSpec{WhenDisabled: v1alpha1.Drop, Ratchet: v1alpha1.Unchanged}, v1alpha1.Part{Field: "spec.keyed[*].mode"}, "put back"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Gate, tt.spec.Parts = "G", []v1alpha1.Part{tt.part}
			set, err := policy.Compile(t.Context(), model(t, tt.group, []v1alpha1.FeatureSpec{tt.spec}, props), policy.Options{Kubernetes: tt.kubernetes})
			if err != nil {
				t.Fatal(err)
			}
			set.Enforced = slices.DeleteFunc(set.Enforced, func(e policy.Enforced) bool { return e.Undropped })
			if len(set.Enforced) != 2 || set.Webhook != (tt.want != "") {
				t.Fatalf("enforced %+v", set.Enforced)
			}
			for _, e := range set.Enforced {
				if !strings.Contains(e.Reason, tt.want) || (e.Name == "") != (tt.want != "") {
					t.Errorf("%+v", e)
				}
			}
		})
	}
	if _, err := policy.Compile(t.Context(), model(t, "demo.dev", nil, props), policy.Options{Kubernetes: "newest"}); err == nil {
		t.Error("any version is taken")
	}
}

func TestVersionsWithTheSamePartsShareAPolicy(t *testing.T) {
	m := model(t, "demo.dev", []v1alpha1.FeatureSpec{{Gate: "G", Parts: []v1alpha1.Part{{Field: "spec.mode"}}}}, object(map[string]apiextensionsv1.JSONSchemaProps{"mode": {Type: "string"}}))
	for mode, want := range map[v1alpha1.Mode][]string{
		v1alpha1.Live:  {"features.demo.anchor", "features.demo.settings", "features.demo.things.demo.dev.reject.v1"},
		v1alpha1.Baked: {"features.demo.settings", "features.demo.things.demo.dev.reject.v1"},
	} {
		set, err := policy.Compile(t.Context(), m, policy.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		var names, bindings []string
		for _, p := range set.Validating {
			names = append(names, p.Name)
			if (p.Spec.ParamKind != nil) != (mode == v1alpha1.Live && p.Name != policy.GuardName("demo")) {
				t.Errorf("%s, %s: parameter %v", mode, p.Name, p.Spec.ParamKind)
			}
			if p.Spec.ParamKind != nil && p.Spec.ParamKind.Kind != "ConfigMap" {
				t.Errorf("the parameter is a %s", p.Spec.ParamKind.Kind)
			}
		}
		for _, b := range set.ValidatingBindings {
			bindings = append(bindings, b.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want, bindings); diff != "" {
			t.Error(diff)
		}
		last := set.Validating[len(set.Validating)-1].Spec.MatchConstraints.ResourceRules[0]
		if diff := cmp.Diff([]string{"v1", "v2"}, last.APIVersions); diff != "" {
			t.Error(diff)
		}
		if len(set.Objects()) != 2*len(want) {
			t.Errorf("%d objects", len(set.Objects()))
		}
	}
}

// TestTheGuardOfBakedSettings has settings judged in baked mode too, as long as there is anything to judge and to judge with.
func TestTheGuardOfBakedSettings(t *testing.T) {
	props := object(map[string]apiextensionsv1.JSONSchemaProps{"mode": {Type: "string"}})
	m := model(t, "demo.dev", []v1alpha1.FeatureSpec{{Gate: "G", Parts: []v1alpha1.Part{{Field: "spec.mode"}}}}, props)
	open, findings := m.ParseSettings(map[string]string{"g": "true"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		model   *feature.Model
		options policy.Options
		want    bool
	}{
		{"closed", m, policy.Options{}, true},
		{"open, so that there is no other policy", m, policy.Options{Settings: open}, true},
		{"no features", model(t, "demo.dev", nil, props), policy.Options{}, false},
		{"an API server without policies", m, policy.Options{WithoutValidating: true}, false},
		{"an old API server", m, policy.Options{Kubernetes: "1.29"}, false},
	} {
		tt.options.Mode = v1alpha1.Baked
		set, err := policy.Compile(t.Context(), tt.model, tt.options)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, p := range set.Validating {
			if p.Name != policy.GuardName("demo") {
				continue
			}
			got = true
			want := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
			if diff := cmp.Diff(want, p.Spec.MatchConstraints.ResourceRules[0].Operations); diff != "" {
				t.Errorf("%s: to delete the settings gives the defaults, and is nobody's concern: %s", tt.name, diff)
			}
		}
		if got != tt.want {
			t.Errorf("%s: a guard: %t", tt.name, got)
		}
	}
}

func TestCostlyFeaturesAreSplit(t *testing.T) {
	keyed := "map"
	fields := map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}}
	var specs []v1alpha1.FeatureSpec
	for i := range 40 {
		name := fmt.Sprintf("f%d", i)
		fields[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		specs = append(specs, v1alpha1.FeatureSpec{Gate: fmt.Sprintf("G%02d", i), Parts: []v1alpha1.Part{{Field: "spec.list[*]." + name}}})
	}
	props := object(map[string]apiextensionsv1.JSONSchemaProps{"list": {
		Type: "array", XListType: &keyed, XListMapKeys: []string{"name"},
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"}, Properties: fields}},
	}})
	set, err := policy.Compile(t.Context(), model(t, "demo.dev", specs, props), policy.Options{Mode: v1alpha1.Baked})
	if err != nil {
		t.Fatal(err)
	}
	// At least two of the features fit into a policy; one policy more guards the settings.
	if n := len(set.Validating); n < 2 || n > len(specs)/2+1 || set.Webhook {
		t.Errorf("%d policies, webhook %v", n, set.Webhook)
	}
	names := map[string]bool{}
	for _, e := range set.Enforced {
		names[e.Name] = true
	}
	for _, p := range set.Validating {
		if !names[p.Name] && p.Name != policy.GuardName("demo") {
			t.Errorf("%s enforces nothing", p.Name)
		}
	}
}

func TestCompilingTwiceGivesTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	props := map[string]apiextensionsv1.JSONSchemaProps{}
	var specs []v1alpha1.FeatureSpec
	for i := range 10 {
		name := fmt.Sprintf("f%d", i)
		props[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		specs = append(specs, v1alpha1.FeatureSpec{Gate: fmt.Sprintf("G%d", i), Parts: []v1alpha1.Part{{Field: "spec." + name}}})
	}
	first, err := policy.Compile(t.Context(), model(t, "demo.dev", specs, object(props)), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	second, err := policy.Compile(t.Context(), model(t, "demo.dev", slices.Clone(specs), object(props)), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Objects(), second.Objects()); diff != "" {
		t.Error(diff)
	}
}

// TestPoliciesOfListsLeaveRoom has policies go through more items than they promise, and versions with the same parts share them.
func TestPoliciesOfListsLeaveRoom(t *testing.T) {
	atomic, keyed := "atomic", "map"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	item := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "timeout": text, "debug": text, "script": text, "hint": text, "secret": text}}
	l := func(kind *string) apiextensionsv1.JSONSchemaProps {
		p := apiextensionsv1.JSONSchemaProps{Type: "array", XListType: kind, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
		if kind == &keyed {
			p.XListMapKeys = []string{"name"}
		}
		return p
	}
	props := object(map[string]apiextensionsv1.JSONSchemaProps{"tasks": l(&keyed), "loose": l(&atomic), "env": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &item}}})
	var fs []v1alpha1.FeatureSpec
	for i, p := range []string{"tasks[*].timeout", "tasks[*].debug", "loose[*].script", "loose[*].hint", "env[*].secret", "env[*].hint"} {
		s := v1alpha1.FeatureSpec{Gate: fmt.Sprintf("G%d", i), Parts: []v1alpha1.Part{{Field: "spec." + p}}}
		if i%2 == 1 {
			s.WhenDisabled = v1alpha1.Drop
		}
		fs = append(fs, s)
	}
	set, err := policy.Compile(t.Context(), model(t, "demo.dev", fs, props), policy.Options{Mode: v1alpha1.Baked})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range set.Enforced {
		if e.Kind == "" || strings.HasSuffix(e.Name, ".v2") {
			t.Errorf("%+v", e)
		}
	}
	found := 0
	for i := range set.Validating {
		for _, v := range set.Validating[i].Spec.Variables {
			for _, m := range regexp.MustCompile(`more than (\d+) items`).FindAllStringSubmatch(v.Expression, -1) {
				found++
				if n, err := strconv.Atoi(m[1]); err != nil || n < 8000 {
					t.Errorf("%s, %s: %s", set.Validating[i].Name, v.Name, m[0])
				}
			}
		}
	}
	if found < 6 {
		t.Errorf("%d limits", found)
	}
}

// Short loops end early where a part is found: that begins with the second piece, and small samples count it with each.
func TestSmallSamplesTellTheCostsOfLargeOnes(t *testing.T) {
	measured := 0
	for seed := range draws.Seeds(50) {
		w, err := featuregen.New(rand.New(rand.NewPCG(seed, 77)))
		if err != nil {
			t.Fatal(err)
		}
		small, large, err := policy.CostsBySamples(t.Context(), w.Model, policy.Options{})
		if err != nil || len(small) != len(large) {
			t.Fatal(err, len(small), len(large))
		}
		measured += len(large)
		for name, want := range large {
			if got := small[name]; got[0] != want[0] || got[1] < want[1] || got[1] > want[1]+3 {
				t.Errorf("seed %d: %s: %d, want %d", seed, name, got, want)
			}
		}
	}
	if measured == 0 {
		t.Error("nothing was measured")
	}
}
