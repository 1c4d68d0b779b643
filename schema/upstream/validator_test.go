package upstream_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/upstream"
)

func decodeYAML[T any](t testing.TB, text string) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	o := decodeYAML[map[string]any](t, text)
	return asMap(jsonValue(o))
}

// asMap is v, or nil where v is no map.
func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// jsonValue turns the float64 that yaml decodes integers to into int64, as the API server has them.
func jsonValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = jsonValue(v[k])
		}
	case []any:
		for i := range v {
			v[i] = jsonValue(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

var widgets = upstream.Options{Group: "example.com", Version: "v1", Kind: "Widget", Namespaced: true}

// schemaOf wraps the schema of .spec (YAML) into one of a Widget.
func schemaOf(t testing.TB, spec string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text := "type: object\nproperties:\n  spec:\n" + indent(spec, "    ")
	s := decodeYAML[apiextensionsv1.JSONSchemaProps](t, text)
	return &s
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by) + "\n"
}

func widget(t testing.TB, spec string) map[string]any {
	t.Helper()
	return object(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec:\n"+indent(spec, "  "))
}

func newValidator(t testing.TB, s *apiextensionsv1.JSONSchemaProps, o upstream.Options) *upstream.Validator {
	t.Helper()
	v, err := upstream.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func errorTexts(r upstream.Result) []string {
	var out []string
	for _, e := range r.Errors {
		out = append(out, e.Error())
	}
	return out
}

func TestCreate(t *testing.T) {
	tests := []struct {
		name, schema, spec string
		stored             string // the stored spec; empty where it is the one that was sent
		pruned             []string
		errors             []string // parts of them, in order
	}{{
		name:   "unknown fields are pruned and named",
		schema: "{type: object, properties: {a: {type: string}, l: {type: array, items: {type: object, properties: {m: {type: string}}}}}}",
		spec:   "{a: x, b: 1, l: [{m: q, k: 2}]}",
		stored: "{a: x, l: [{m: q}]}",
		pruned: []string{"spec.b", "spec.l[0].k"},
	}, {
		name:   "below preserve-unknown-fields only declared objects are pruned",
		schema: "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, properties: {x: {type: string}}}}}",
		spec:   "{b: {c: 1}, a: {z: 1}}",
		stored: "{b: {c: 1}, a: {}}",
		pruned: []string{"spec.a.z"},
	}, {
		name:   "a null is dropped where there is no default and it is not nullable",
		schema: "{type: object, properties: {a: {type: string}, b: {type: string, nullable: true}, c: {type: string, default: d}}}",
		spec:   "{a: null, b: null, c: null}",
		stored: "{b: null, c: d}",
	}, {
		name:   "a null item is not dropped and is refused",
		schema: "{type: object, properties: {l: {type: array, items: {type: string}}}}",
		spec:   "{l: [null]}",
		errors: []string{`spec.l[0]: Invalid value: "null": spec.l[0] in body must be of type string: "null"`},
	}, {
		name:   "defaults are filled in before validation, in defaults too",
		schema: "{type: object, required: [a], properties: {a: {type: object, default: {}, properties: {b: {type: integer, default: 3}}}}}",
		spec:   "{}",
		stored: "{a: {b: 3}}",
	}, {
		name:   "what a required field lacks is named",
		schema: "{type: object, required: [a], properties: {a: {type: string}}}",
		spec:   "{}",
		errors: []string{"spec.a: Required value"},
	}, {
		name:   "a list set may not repeat",
		schema: "{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: integer}}}}",
		spec:   "{l: [1, 2, 1]}",
		errors: []string{"spec.l[2]: Duplicate value: 1"},
	}, {
		name:   "a list map may not repeat a key, defaults of keys counted",
		schema: "{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [p, q], items: {type: object, required: [p], properties: {p: {type: integer}, q: {type: string, default: TCP}}}}}}",
		spec:   "{l: [{p: 1}, {p: 1, q: UDP}, {p: 1, q: TCP}]}",
		stored: "{l: [{p: 1, q: TCP}, {p: 1, q: UDP}, {p: 1, q: TCP}]}",
		errors: []string{`spec.l[2]: Duplicate value: {"p":1,"q":"TCP"}`},
	}, {
		name:   "a rule refuses with its message",
		schema: "{type: object, x-kubernetes-validations: [{rule: self.a <= 5, message: too much}], properties: {a: {type: integer}}}",
		spec:   "{a: 6}",
		errors: []string{"spec: Invalid value: too much"},
	}, {
		name:   "a transition rule does not apply to creation",
		schema: "{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}}}",
		spec:   "{a: 6}",
	}, {
		name:   "rules are not run where the schema is violated",
		schema: "{type: object, x-kubernetes-validations: [{rule: self.a <= 5}], properties: {a: {type: integer}}}",
		spec:   "{a: x}",
		errors: []string{"<nil>: Invalid value: null: some validation rules were not checked", "spec.a: Invalid value: \"string\""},
	}, {
		name:   "an embedded resource needs apiVersion and kind, and its metadata is pruned",
		schema: "{type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}",
		spec:   "{r: {apiVersion: v1, metadata: {name: m, foo: bar}}}",
		stored: "{r: {apiVersion: v1, metadata: {name: m}}}",
		pruned: []string{"spec.r.metadata.foo"},
		errors: []string{"spec.r.kind: Required value"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newValidator(t, schemaOf(t, tt.schema), widgets)
			if !v.Structural() {
				t.Error("the schema counts as not structural")
			}
			obj := widget(t, tt.spec)
			got, err := v.Create(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(widget(t, tt.spec), obj); diff != "" {
				t.Errorf("the argument was changed (-before +after):\n%s", diff)
			}
			stored := tt.stored
			if stored == "" {
				stored = tt.spec
			}
			if diff := cmp.Diff(widget(t, stored)["spec"], got.Stored["spec"]); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.pruned, got.Pruned); diff != "" {
				t.Errorf("pruned (-want +got):\n%s", diff)
			}
			checkErrors(t, tt.errors, got)
		})
	}
}

func checkErrors(t *testing.T, want []string, got upstream.Result) {
	t.Helper()
	texts := errorTexts(got)
	if len(texts) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%s", len(texts), len(want), strings.Join(texts, "\n"))
	}
	for i := range want {
		if !strings.Contains(texts[i], want[i]) {
			t.Errorf("error %d is %q, want %q in it", i, texts[i], want[i])
		}
	}
}

func TestUpdate(t *testing.T) {
	const tight = "{type: object, required: [b], properties: {a: {type: string, maxLength: 2}, b: {type: string}, m: {type: integer}, l: {type: array, items: {type: string, maxLength: 1}}}}"
	tests := []struct {
		name, schema, old, new string
		loose, ratcheted       []string // errors without and with ratcheting
	}{{
		name: "a value that was wrong before and stays is tolerated", schema: tight,
		old: "{a: xxx, b: q}", new: "{a: xxx, b: z}",
		loose: []string{"spec.a: Too long"},
	}, {
		name: "a value that was wrong before and changes is not", schema: tight,
		old: "{a: xxx, b: q}", new: "{a: xxxx, b: q}",
		loose:     []string{"spec.a: Too long"},
		ratcheted: []string{"spec.a: Too long"},
	}, {
		name: "a missing required field is tolerated while its parent stays the same", schema: tight,
		old: "{a: x}", new: "{a: x}",
		loose: []string{"spec.b: Required"},
	}, {
		name: "a missing required field is not when its parent changes", schema: tight,
		old: "{a: x}", new: "{a: q}",
		loose:     []string{"spec.b: Required"},
		ratcheted: []string{"spec.b: Required"},
	}, {
		name: "items of an atomic list are not told apart", schema: tight,
		old: "{b: x, l: [xx]}", new: "{b: x, l: [xx, z]}",
		loose:     []string{"spec.l[0]: Too long"},
		ratcheted: []string{"spec.l[0]: Too long"},
	}, {
		name:   "a transition rule refuses a change",
		schema: "{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf, message: no way back}]}}}",
		old:    "{a: 2}", new: "{a: 1}",
		loose:     []string{"spec.a: Invalid value: 1: no way back"},
		ratcheted: []string{"spec.a: Invalid value: 1: no way back"},
	}, {
		name:   "a rule that was broken before and whose field stays is tolerated",
		schema: "{type: object, properties: {b: {type: string}, a: {type: integer, x-kubernetes-validations: [{rule: self < 2, message: less}]}}}",
		old:    "{a: 2, b: x}", new: "{a: 2, b: q}",
		loose: []string{"spec.a: Invalid value: 2: less"},
	}, {
		name:   "a repeated list-map key is tolerated where the old object had it",
		schema: "{type: object, properties: {b: {type: string}, l: {type: array, x-kubernetes-list-type: set, items: {type: integer}}}}",
		old:    "{l: [1, 1]}", new: "{l: [1, 1], b: x}",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newValidator(t, schemaOf(t, tt.schema), widgets)
			for _, ratchet := range []bool{false, true} {
				want := tt.loose
				if ratchet {
					want = tt.ratcheted
				}
				got, err := v.Update(t.Context(), widget(t, tt.new), widget(t, tt.old), ratchet)
				if err != nil {
					t.Fatal(err)
				}
				checkErrors(t, want, got)
			}
		})
	}
}

func TestTouchUpdateTellsStuckObjects(t *testing.T) {
	v := newValidator(t, schemaOf(t, `{type: object, required: [b], properties: {b: {type: string},
		c: {type: integer, x-kubernetes-validations: [{rule: oldSelf < 5, message: closed}]}}}`), widgets)
	stored := widget(t, "{gone: 1}")
	for _, tt := range []struct {
		name    string
		spec    string
		ratchet bool
		errors  []string
		pruned  []string
	}{
		{"required under an unchanged spec is tolerated", "{}", true, nil, nil},
		{"and is not without ratcheting", "{}", false, []string{"rules were not checked", "spec.b: Required"}, nil},
		{"what is pruned is named", "{b: x, gone: 1}", true, nil, []string{"spec.gone"}},
		{"a transition rule that fails on equal values is never tolerated", "{b: x, c: 7}", true, []string{"spec.c: Invalid value: 7: closed"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := v.TouchUpdate(t.Context(), widget(t, tt.spec), tt.ratchet)
			if err != nil {
				t.Fatal(err)
			}
			checkErrors(t, tt.errors, got)
			if diff := cmp.Diff(tt.pruned, got.Pruned); diff != "" {
				t.Errorf("pruned (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(widget(t, "{gone: 1}"), stored); diff != "" {
		t.Error(diff)
	}
}

func TestRatchetsSince130(t *testing.T) {
	for text, want := range map[string]bool{"1.29.5": false, "1.30.0": true, "1.37.2": true} {
		o := widgets
		o.KubeVersion = version.MustParse(text)
		if got := newValidator(t, nil, o).Ratchets(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestFormatsFollowTheVersion(t *testing.T) {
	s := schemaOf(t, "{type: object, properties: {a: {type: string, format: k8s-short-name}}}")
	for text, refused := range map[string]bool{"1.34.0": false, "1.35.0": true} { // the format came with 1.34
		o := widgets
		o.KubeVersion = version.MustParse(text)
		got, err := newValidator(t, s, o).Create(t.Context(), widget(t, "{a: NOT A NAME}"))
		if err != nil {
			t.Fatal(err)
		}
		if got.Refused() != refused {
			t.Errorf("%s: %v", text, errorTexts(got))
		}
	}
}
