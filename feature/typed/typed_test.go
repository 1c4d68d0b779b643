package typed_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/typed"
)

type widget struct {
	Spec spec `json:"spec"`
}

type spec struct {
	Mode  string            `json:"mode,omitempty"`
	Kind  kind              `json:"kind,omitempty"`
	Deep  *deep             `json:"deep,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	Tasks []task            `json:"tasks,omitempty"`
	// Env is a map whose entries have a list, and Volumes a list whose items nothing tells apart.
	Env     map[string]env `json:"env,omitempty"`
	Volumes []volume       `json:"volumes,omitempty"`
}

type env struct {
	Secret string `json:"secret,omitempty"`
	Steps  []step `json:"steps,omitempty"`
}

type volume struct {
	Path string `json:"path,omitempty"`
	CSI  string `json:"csi,omitempty"`
}

type kind string

type deep struct {
	Size *int64 `json:"size,omitempty"`
}

type task struct {
	Name    string `json:"name"`
	Timeout string `json:"timeout,omitempty"`
	Steps   []step `json:"steps,omitempty"`
}

type step struct {
	ID    string `json:"id"`
	Debug bool   `json:"debug,omitempty"`
}

// on is a gate on which some features are on.
type on []featuregate.Feature

func (o on) Enabled(name featuregate.Feature) bool { return slices.Contains(o, name) }

var parts = []typed.Gated[widget]{
	typed.Field("Mode", func(w *widget) *string { return &w.Spec.Mode }),
	typed.Field("Size", func(w *widget) **int64 {
		if w.Spec.Deep == nil {
			return nil
		}
		return &w.Spec.Deep.Size
	}),
	typed.Field("Tags", func(w *widget) *map[string]string { return &w.Spec.Tags }),
	typed.Items(func(w *widget) []task { return w.Spec.Tasks }, func(t *task) string { return t.Name },
		typed.Field("Timeout", func(t *task) *string { return &t.Timeout }),
		typed.Items(func(t *task) []step { return t.Steps }, func(s *step) string { return s.ID }, typed.Field("Debug", func(s *step) *bool { return &s.Debug })),
	),
	typed.Entries(func(w *widget) map[string]env { return w.Spec.Env },
		typed.Field("Secret", func(e *env) *string { return &e.Secret }),
		typed.Items(func(e *env) []step { return e.Steps }, func(s *step) string { return s.ID }, typed.Field("Debug", func(s *step) *bool { return &s.Debug })),
	),
	typed.Items[widget, volume, string](func(w *widget) []volume { return w.Spec.Volumes }, nil, typed.Field("CSI", func(v *volume) *string { return &v.CSI })),
}

func TestDropDisabled(t *testing.T) {
	zero, one := int64(0), int64(1)
	for _, tt := range []struct {
		name        string
		on          on
		old         *spec
		object      spec
		want        spec
		partsDroped int
	}{
		{"create, all off", nil, nil, spec{Mode: "a", Deep: &deep{&zero}, Tags: map[string]string{"a": "b"}, Kind: "x"}, spec{Deep: &deep{}, Kind: "x"}, 3},
		{"create, on", on{"Mode", "Size"}, nil, spec{Mode: "a", Deep: &deep{&one}}, spec{Mode: "a", Deep: &deep{&one}}, 0},
		{"update, the old object has it", nil, &spec{Mode: "b", Deep: &deep{&zero}}, spec{Mode: "a", Deep: &deep{&one}}, spec{Mode: "a", Deep: &deep{&one}}, 0},
		{"update, the old object has it not", nil, &spec{Deep: &deep{}}, spec{Mode: "a", Deep: &deep{&one}}, spec{Deep: &deep{}}, 2},
		{"nothing to drop", nil, nil, spec{Tags: map[string]string{}}, spec{Tags: map[string]string{}}, 0},
		{"items, create", nil, nil, spec{Tasks: []task{{Name: "a", Timeout: "1"}, {Name: "b"}}}, spec{Tasks: []task{{Name: "a"}, {Name: "b"}}}, 1},
		{
			"items are found by key", nil, &spec{Tasks: []task{{Name: "a", Timeout: "1"}, {Name: "b"}}},
			spec{Tasks: []task{{Name: "b", Timeout: "2"}, {Name: "a", Timeout: "3"}}},
			spec{Tasks: []task{{Name: "b"}, {Name: "a", Timeout: "3"}}},
			1,
		},
		{
			"items with one key twice", nil, &spec{Tasks: []task{{Name: "a"}, {Name: "a", Timeout: "1"}, {Name: "a"}}},
			spec{Tasks: []task{{Name: "a", Timeout: "2"}}},
			spec{Tasks: []task{{Name: "a", Timeout: "2"}}},
			0,
		},
		{
			"items in items", nil, &spec{Tasks: []task{{Name: "a", Steps: []step{{"x", true}}}}},
			spec{Tasks: []task{{Name: "b", Steps: []step{{"x", true}}}, {Name: "a", Steps: []step{{"y", true}, {"x", true}}}}},
			spec{Tasks: []task{{Name: "b", Steps: []step{{"x", false}}}, {Name: "a", Steps: []step{{"y", false}, {"x", true}}}}},
			1,
		},
		{
			"entries, create", nil, nil,
			spec{Env: map[string]env{"a": {Secret: "x", Steps: []step{{"x", true}}}, "b": {}}},
			spec{Env: map[string]env{"a": {Steps: []step{{"x", false}}}, "b": {}}},
			1,
		},
		{
			"entries are found by key", nil, &spec{Env: map[string]env{"a": {Secret: "x", Steps: []step{{"x", true}}}}},
			spec{Env: map[string]env{"a": {Secret: "y", Steps: []step{{"y", true}, {"x", true}}}, "b": {Secret: "x", Steps: []step{{"x", true}}}}},
			spec{Env: map[string]env{"a": {Secret: "y", Steps: []step{{"y", false}, {"x", true}}}, "b": {Steps: []step{{"x", false}}}}},
			1,
		},
		{
			"entries, on",
			on{"Secret", "Debug"},
			nil,
			spec{Env: map[string]env{"a": {Secret: "x", Steps: []step{{"x", true}}}}},
			spec{Env: map[string]env{"a": {Secret: "x", Steps: []step{{"x", true}}}}},
			0,
		},
		{
			"items that nothing tells apart: one that is stored lets all pass", nil, &spec{Volumes: []volume{{Path: "a"}, {Path: "b", CSI: "x"}}},
			spec{Volumes: []volume{{Path: "c", CSI: "y"}, {Path: "b", CSI: "x"}}},
			spec{Volumes: []volume{{Path: "c", CSI: "y"}, {Path: "b", CSI: "x"}}},
			0,
		},
		{
			"items that nothing tells apart: none is stored", nil, &spec{Volumes: []volume{{Path: "a"}}},
			spec{Volumes: []volume{{Path: "a", CSI: "y"}, {Path: "b", CSI: "x"}}},
			spec{Volumes: []volume{{Path: "a"}, {Path: "b"}}},
			1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := &widget{tt.object}
			var old, before *widget
			if tt.old != nil {
				old, before = &widget{*tt.old}, clone(t, *tt.old)
			}
			if n := typed.DropDisabled(tt.on, object, old, parts...); n != tt.partsDroped {
				t.Errorf("%d parts dropped, want %d", n, tt.partsDroped)
			}
			if diff := cmp.Diff(tt.want, object.Spec); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, old); diff != "" {
				t.Errorf("the old object changed: %s", diff)
			}
		})
	}
}

// clone copies a spec to the last item, so that a change of what it shares with the original is seen.
func clone(t *testing.T, s spec) *widget {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := &widget{}
	if err := json.Unmarshal(data, &out.Spec); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAnEnumValueComesInTwoReleases has the gates of a value that is declared as data, through its releases and back.
func TestAnEnumValueComesInTwoReleases(t *testing.T) {
	d := gate.Declaration{Name: "demo", Features: []v1alpha1.FeatureSpec{
		gate.NewEnumValue("Turbo", "v1.2.0", "v1.3.0", v1alpha1.Part{Group: "demo.dev", Resource: "widgets", Field: "spec.kind", Values: []string{"Turbo"}}),
	}}
	e := typed.Enum[kind]{Values: []kind{"Plain"}, Gated: map[kind]featuregate.Feature{"Turbo": "Turbo"}}
	for _, tt := range []struct {
		name, release, gates string
		create, stored       bool
	}{
		{"before it is known", "v1.1.0", "", false, true},
		{"the release that knows it", "v1.2.0", "", false, true},
		{"a patch of that", "v1.2.7", "AllBeta=true", false, true},
		{"the release that opens it", "v1.3.0", "", true, true},
		{"where somebody keeps it closed", "v1.3.0", "Turbo=false", false, true},
		{"and later", "v1.9.0", "", true, true},
		{"one release back", "v1.2.0", "", false, true},
	} {
		g, err := gate.New(d, gate.Options{Release: tt.release})
		if err != nil {
			t.Fatal(err)
		}
		g.Set(gate.ConfigMap, map[string]string{"feature-gates": tt.gates, "enable-api-fields": "alpha"}, "1")
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		path := field.NewPath("spec", "kind")
		if got := e.Options(g).Validate(path, "Turbo") == nil; got != tt.create {
			t.Errorf("%s: creation passes %t, want %t", tt.name, got, tt.create)
		}
		if got := e.Options(g, "Turbo").Validate(path, "Turbo") == nil; got != tt.stored {
			t.Errorf("%s: an update of what is stored passes %t, want %t", tt.name, got, tt.stored)
		}
		if got := e.Options(g, "Plain").Validate(path, "Turbo") == nil; got != tt.create {
			t.Errorf("%s: a change to the value passes %t, want %t", tt.name, got, tt.create)
		}
		// The declared parts say the same.
		r := typed.Resource[widget]{Gates: g, GVR: schema.GroupVersionResource{Group: "demo.dev", Version: "v1", Resource: "widgets"}}
		turbo, plain := &widget{spec{Kind: "Turbo"}}, &widget{spec{Kind: "Plain"}}
		for old, want := range map[*widget]bool{nil: tt.create, turbo: tt.stored, plain: tt.create} {
			if _, errs, err := r.Judge(&widget{spec{Kind: "Turbo"}}, old); err != nil || (len(errs) == 0) != want {
				t.Errorf("%s: %+v becomes Turbo: %v, %v; want it to pass: %t", tt.name, old, errs, err, want)
			}
		}
	}
}

func TestEnum(t *testing.T) {
	e := typed.Enum[kind]{Values: []kind{"A", "B"}, Gated: map[kind]featuregate.Feature{"C": "KindC"}}
	for _, tt := range []struct {
		on      on
		old     []kind
		value   kind
		want    field.ErrorType
		allowed []kind
	}{
		{nil, nil, "A", "", []kind{"A", "B"}},
		{nil, nil, "C", field.ErrorTypeForbidden, []kind{"A", "B"}},
		{on{"KindC"}, nil, "C", "", []kind{"A", "B", "C"}},
		{nil, []kind{"B", "C"}, "C", "", []kind{"A", "B", "C"}},
		{nil, []kind{"A"}, "C", field.ErrorTypeForbidden, []kind{"A", "B"}},
		{on{"KindC"}, nil, "D", field.ErrorTypeNotSupported, []kind{"A", "B", "C"}},
		{nil, []kind{"D"}, "", field.ErrorTypeNotSupported, []kind{"A", "B"}},
	} {
		o := e.Options(tt.on, tt.old...)
		if diff := cmp.Diff(tt.allowed, o.Allowed()); diff != "" {
			t.Errorf("allowed with %v and %v: %s", tt.on, tt.old, diff)
		}
		err := o.Validate(field.NewPath("spec", "kind"), tt.value)
		var got field.ErrorType
		if err != nil {
			got = err.Type
		}
		if got != tt.want {
			t.Errorf("%s with %v and %v: %v", tt.value, tt.on, tt.old, err)
		}
	}
}

func TestResource(t *testing.T) {
	alpha := []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
	part := func(p v1alpha1.Part) []v1alpha1.Part {
		p.Group, p.Resource = "demo.dev", "widgets"
		return []v1alpha1.Part{p}
	}
	d := gate.Declaration{Name: "demo", Spec: v1alpha1.ComponentSpec{Release: "v1.2.0"}, Features: []v1alpha1.FeatureSpec{
		{Gate: "Mode", Stages: alpha, Parts: part(v1alpha1.Part{Field: "spec.mode"})},
		{Gate: "Size", Stages: alpha, WhenDisabled: v1alpha1.Drop, Parts: part(v1alpha1.Part{Field: "spec.deep.size"})},
		{Gate: "Tags", Stages: alpha, WhenDisabled: v1alpha1.Warn, Parts: part(v1alpha1.Part{Field: "spec.tags"})},
		gate.NewEnumValue("Turbo", "v1.2.0", "v1.3.0", part(v1alpha1.Part{Field: "spec.kind", Values: []string{"Turbo"}})...),
	}}
	one := int64(1)
	full := spec{Mode: "a", Deep: &deep{&one}, Tags: map[string]string{"a": "b"}, Kind: "Turbo"}
	for _, tt := range []struct {
		name     string
		release  string
		on       featuretest.Values
		old      *spec
		object   spec
		want     spec
		errs     []string
		warnings int
	}{
		{"refused", "", nil, nil, full, full, []string{"spec.kind", "spec.mode"}, 0},
		{"opened", "v1.3.0", featuretest.Values{"Mode": true, "Turbo": true}, nil, full, spec{Mode: "a", Deep: &deep{}, Tags: full.Tags, Kind: "Turbo"}, nil, 2},
		{"stored", "", nil, &full, full, full, nil, 0},
		{"the value comes with the second release", "v1.2.0", nil, nil, spec{Kind: "Turbo"}, spec{Kind: "Turbo"}, []string{"spec.kind"}, 0},
		{"and stays in the first", "v1.2.0", nil, &spec{Kind: "Turbo"}, spec{Kind: "Turbo", Tags: full.Tags}, spec{Kind: "Turbo", Tags: full.Tags}, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			values := featuretest.Values{"Mode": false, "Size": false, "Tags": false}
			maps.Copy(values, tt.on)
			r := typed.Resource[widget]{
				Gates: featuretest.New(t, d, gate.Options{Release: tt.release}, values),
				GVR:   schema.GroupVersionResource{Group: "demo.dev", Version: "v1", Resource: "widgets"},
			}
			object := &widget{tt.object}
			var old *widget
			if tt.old != nil {
				old = &widget{*tt.old}
			}
			warnings, errs, err := r.Judge(object, old)
			if err != nil {
				t.Fatal(err)
			}
			var at []string
			for _, e := range errs {
				at = append(at, e.Field)
				if !strings.Contains(e.Detail, `component "demo"`) {
					t.Errorf("error %v", e)
				}
			}
			if diff := cmp.Diff(tt.errs, at); diff != "" {
				t.Errorf("errors: %s", diff)
			}
			if len(warnings) != tt.warnings {
				t.Errorf("warnings %v", warnings)
			}
			if diff := cmp.Diff(tt.want, object.Spec); diff != "" {
				t.Error(diff)
			}
		})
	}
}
