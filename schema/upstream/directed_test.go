package upstream_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/schema/upstream"
)

// TestRareCasesAgreeWithUpstream holds what is decided quickly against the API server's code where random schemas and objects
// hardly ever lead.
func TestRareCasesAgreeWithUpstream(t *testing.T) {
	keys := func(items string) map[string]any { return widget(t, "{l: ["+items+"]}") }
	const threeKeys = "{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b, c], items: {type: object, required: [a, b, c], properties: {a: {type: string}, b: {type: string}, c: {type: integer}, d: {type: string}}}}}}"
	const sets = "{type: object, properties: {m: {type: object, additionalProperties: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}"
	number := func(v any) map[string]any {
		obj := widget(t, "{}")
		obj["spec"] = map[string]any{"num": v}
		return obj
	}
	const numbers = "{type: object, properties: {num: {type: number, enum: [1, 2.5, 3]}}}"
	const texts = "{type: object, properties: {s: {type: string, enum: [a, b]}}}"
	for _, tt := range []struct {
		name, schema string
		obj          map[string]any
		refused      bool
	}{
		{"three keys, one item twice", threeKeys, keys("{a: x, b: q, c: 1}, {a: x, b: q, c: 1, d: z}"), true},
		{"three keys, two items", threeKeys, keys("{a: x, b: q, c: 1}, {a: x, b: q, c: 2}"), false},
		{"three keys, one item", threeKeys, keys("{a: x, b: q, c: 1}"), false},
		{"an item twice in a set in a map", sets, widget(t, "{m: {k: [a, b, a]}}"), true},
		{"two items in a set in a map", sets, widget(t, "{m: {k: [a, b], j: [a]}}"), false},
		{"an enum's integer as a float", numbers, number(1.0), false},
		{"an enum's integer with a fraction", numbers, number(1.5), false}, // Go cuts it to 1, and so upstream takes it
		{"no number of an enum", numbers, number(4.5), true},
		{"no text of an enum", texts, widget(t, "{s: c}"), true},
		{"the empty text, which is none of an enum", texts, widget(t, "{s: ''}"), true},
		{"one letter of two bytes, where two letters are wanted", "{type: object, properties: {s: {type: string, minLength: 2}}}", widget(t, "{s: é}"), true},
		{"two letters of two bytes each, where two are allowed", "{type: object, properties: {s: {type: string, maxLength: 2}}}", widget(t, "{s: éé}"), false},
		{"an enum's text", texts, widget(t, "{s: b}"), false},
		{"an enum's float", numbers, number(2.5), false},
		{"an integer where the enum has a float", numbers, number(int64(2)), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := schemaOf(t, tt.schema)
			exact, err := upstream.NewExact(s, widgets)
			if err != nil {
				t.Fatal(err)
			}
			fast := newValidator(t, s, widgets)
			if diff := compareVerdicts(t, exact, fast, tt.obj, widget(t, "{}")); diff != "" {
				t.Errorf("-exact +fast:\n%s", diff)
			}
			r, err := fast.Create(t.Context(), tt.obj)
			if err != nil {
				t.Fatal(err)
			}
			if r.Refused() != tt.refused {
				t.Errorf("refused: %t, want %t: %v", r.Refused(), tt.refused, r.Errors)
			}
		})
	}
}

// A touch changes a label, so that what is wrong with the labels is not tolerated as something that was left alone.
func TestLabelsAreNotTolerated(t *testing.T) {
	s := decodeYAML[props](t, "{type: object, properties: {metadata: {type: object, properties: {name: {type: string}, namespace: {type: string}, generation: {type: integer}, creationTimestamp: {type: string}, resourceVersion: {type: string}, uid: {type: string}, labels: {type: object, maxProperties: 1, additionalProperties: {type: string}}}}, spec: {type: object}}}")
	stored := widget(t, "{}")
	stored["metadata"] = map[string]any{"name": "w", "namespace": "default", "labels": map[string]any{"a": "b"}}
	exact, err := upstream.NewExact(&s, widgets)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]*upstream.Validator{"exact": exact, "fast": newValidator(t, &s, widgets)} {
		got, err := v.TouchUpdate(t.Context(), stored, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { checkErrors(t, []string{"metadata.labels: Too many"}, got) })
	}
}

func TestStatusAtCreation(t *testing.T) {
	s := decodeYAML[props](t, "{type: object, properties: {spec: {type: object}, status: {type: object, properties: {ready: {type: boolean}}}}}")
	obj := widget(t, "{}")
	obj["status"] = map[string]any{"ready": true}
	for _, subresource := range []bool{false, true} {
		o := widgets
		o.StatusSubresource = subresource
		v := newValidator(t, &s, o)
		r, err := v.Create(t.Context(), obj)
		if err != nil || r.Refused() {
			t.Fatal(r.Errors, err)
		}
		if _, kept := r.Stored["status"]; kept == subresource {
			t.Errorf("with a status subresource: %t; status is kept: %t", subresource, kept)
		}
		r, err = v.CreateWithStatus(t.Context(), obj)
		if err != nil || r.Refused() {
			t.Fatal(r.Errors, err)
		}
		if diff := cmp.Diff(obj["status"], r.Stored["status"]); diff != "" {
			t.Errorf("with a status subresource: %t; -status +what is stored:\n%s", subresource, diff)
		}
	}
}

func TestReadTellsOfDefaults(t *testing.T) {
	const schema = "{type: object, properties: {a: {type: string, default: x}, nul: {type: string, nullable: true, default: x}, o: {type: object, properties: {b: {type: string, default: x}}}, l: {type: array, items: {type: string, default: x}}}}"
	v := newValidator(t, schemaOf(t, schema), widgets)
	for spec, want := range map[string]bool{
		"{a: q, nul: q}": false, "{nul: q}": true, "{a: null, nul: q}": true, "{a: q, nul: null}": false, "{a: q, nul: q, o: {}}": true,
		"{a: q, nul: q, o: {b: null}}": true, "{a: q, nul: q, o: null}": false, "{a: q, nul: q, l: [z]}": false, "{a: q, nul: q, l: [null]}": true,
	} {
		_, _, defaulted, err := v.Read(widget(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		if defaulted != want {
			t.Errorf("%s: defaulted: %t, want %t", spec, defaulted, want)
		}
	}
}

func TestOptionalOldSelfAtCreation(t *testing.T) {
	const schema = "{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: 'oldSelf.hasValue() || self < 5', optionalOldSelf: true, message: begin below 5}]}}}"
	v := newValidator(t, schemaOf(t, schema), widgets)
	for spec, want := range map[string][]string{"{a: 4}": nil, "{a: 5}": {"spec.a: Invalid value: 5: begin below 5"}} {
		got, err := v.Create(t.Context(), widget(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		checkErrors(t, want, got)
	}
}

// TestRulesAboveAreKept: what a rule far above mentions is not cut out.
func TestRulesAboveAreKept(t *testing.T) {
	const schema = `
type: object
x-kubernetes-validations: [{rule: "!has(self.deep) || !has(self.deep.er) || has(self.deep.er.mentioned)"}]
properties:
  deep:
    type: object
    x-kubernetes-validations: [{rule: "!has(self.er) || true"}]
    properties: {er: {type: object, properties: {mentioned: {type: string}, a: {type: string}, gone: {type: string}}}}
`
	s, obj := schemaOf(t, schema), widget(t, "{deep: {er: {a: x}}}")
	projected := upstream.Project(s, obj)
	if diff := compareVerdicts(t, newValidator(t, s, widgets), newValidator(t, projected, widgets), obj, widget(t, "{}")); diff != "" {
		t.Errorf("-whole +projected:\n%s", diff)
	}
	er := projected.Properties["spec"].Properties["deep"].Properties["er"].Properties
	if _, ok := er["gone"]; ok {
		t.Error("what nothing mentions is kept, so that nothing is shown")
	}
}

// TestRulesRunOutOfBudget: each evaluation is within the limit of one call, all together are not within that of the object.
func TestRulesRunOutOfBudget(t *testing.T) {
	const schema = "{type: object, properties: {l: {type: array, items: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: 'self.all(x, self.all(y, x == y || x != y))'}]}}}}"
	v := newValidator(t, schemaOf(t, schema), widgets)
	list := func(lists int) map[string]any {
		numbers := make([]any, 250)
		for i := range numbers {
			numbers[i] = int64(i)
		}
		obj := widget(t, "{}")
		obj["spec"] = map[string]any{"l": slices.Repeat([]any{numbers}, lists)}
		return obj
	}
	for lists, want := range map[int]bool{1: false, 40: true} {
		got, err := v.Create(t.Context(), list(lists))
		if err != nil {
			t.Fatal(err)
		}
		spent := slices.ContainsFunc(errorTexts(got), func(s string) bool { return strings.Contains(s, "running out of cost budget") })
		if spent != want || got.Refused() != want {
			t.Errorf("%d lists: the budget is spent: %t, want %t: %v", lists, spent, want, errorTexts(got))
		}
	}
}
