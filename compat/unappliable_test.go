package compat

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/report"
)

// kindsOfFields are schemas of a field by the kinds of values that they take.
var kindsOfFields = []string{
	"{type: string}", "{type: string, nullable: true}", "{type: integer}", "{type: number}", "{type: boolean}", "{x-kubernetes-int-or-string: true}",
	"{type: object, properties: {a: {type: string}}}", "{type: object, additionalProperties: {type: string}}", "{type: object, x-kubernetes-preserve-unknown-fields: true}",
	"{type: array, items: {type: string}}", "{type: array, items: {type: integer}, x-kubernetes-list-type: set}", "{x-kubernetes-preserve-unknown-fields: true}",
	"{type: array, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}}",
	"{type: array, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}, x-kubernetes-list-type: set}",
	"{type: array, maxItems: 1, items: {x-kubernetes-preserve-unknown-fields: true}}",
	"{type: array, maxItems: 1, items: {x-kubernetes-preserve-unknown-fields: true}, x-kubernetes-list-type: set}",
	"{type: array, maxItems: 1, items: {type: array, items: {type: string}}}", "{type: array, maxItems: 1, items: {type: array, items: {type: string}}, x-kubernetes-list-type: set}",
}

// valuesOfFields are a few values of each kind.
var valuesOfFields = []any{
	"", "a", int64(0), int64(5), 1.5, true,
	map[string]any{},
	map[string]any{"a": "x"},
	map[string]any{"a": int64(1)},
	[]any{},
	[]any{"a"},
	[]any{int64(1)},
	nil,
	[]any{map[string]any{}},
	[]any{map[string]any{"a": "x"}},
	[]any{map[string]any{}, map[string]any{}},
	[]any{[]any{}},
	[]any{[]any{"a"}, []any{"a"}},
}

// TestTypesThatNothingCanBeAppliedTo holds the level of each change from one kind to another against the API server's code: is there a stored
// value to which nothing can be applied, or which no update leaves in place? The field stands in the object, in a list and in a map.
func TestTypesThatNothingCanBeAppliedTo(t *testing.T) {
	places := map[string]func(any) any{
		"f: %s": func(v any) any { return map[string]any{"f": v} },
		"l: {type: array, items: {type: object, properties: {f: %s}}}": func(v any) any {
			return map[string]any{"l": []any{map[string]any{"f": v}}}
		},
		"m: {type: object, additionalProperties: {type: object, properties: {f: %s}}}": func(v any) any {
			return map[string]any{"m": map[string]any{"k": map[string]any{"f": v}}}
		},
	}
	pairs, stuck, tolerated := 0, 0, 0
	for place, around := range places {
		for _, from := range kindsOfFields {
			if strings.Contains(from, "type: set") && !strings.Contains(from, "integer") {
				continue // nothing can be applied to its values, before and after
			}
			for _, to := range kindsOfFields {
				old, new := specCRD(t, fmt.Sprintf(place, from)), specCRD(t, fmt.Sprintf(place, to))
				c := newComparison(old, new, Options{})
				before, err := c.validatorOf(c.oldParts[0])
				if err != nil {
					t.Fatal(err)
				}
				after, err := c.validatorOf(c.newParts[0])
				if err != nil {
					t.Fatal(err)
				}
				var hurt, refused []string
				for _, v := range valuesOfFields {
					obj := map[string]any{
						"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"},
						"spec": runtime.DeepCopyJSONValue(around(v)),
					}
					res, err := before.Create(t.Context(), obj)
					if err != nil || res.Refused() || len(res.Pruned) > 0 {
						continue
					}
					why, err := after.Unappliable(res.Stored)
					if err != nil {
						t.Fatal(err)
					}
					touched, err := after.TouchUpdate(t.Context(), res.Stored, true)
					if err != nil {
						t.Fatal(err)
					}
					strict, err := after.TouchUpdate(t.Context(), res.Stored, false)
					if err != nil {
						t.Fatal(err)
					}
					if why != "" || touched.Refused() {
						hurt = append(hurt, compactJSON(v))
					}
					if strict.Refused() {
						refused = append(refused, compactJSON(v))
					}
				}
				got, worst, lost := check(t, old, new), false, false
				for _, f := range got.Findings {
					worst = worst || f.Level == report.ObjectsStuck || f.MayBe == report.ObjectsStuck
					lost = lost || f.Level == report.DataLost || f.MayBe == report.DataLost
				}
				pairs++
				switch {
				case len(hurt) > 0:
					stuck++
				case len(refused) > 0:
					tolerated++
				}
				if len(hurt) > 0 && !worst && !lost {
					t.Errorf("%s: %s to %s: nothing can be applied to %s\n%s", place, from, to, strings.Join(hurt, ", "), listed(got))
				}
				if len(hurt) == 0 && len(refused) > 0 && worst && from != "{x-kubernetes-preserve-unknown-fields: true}" {
					t.Errorf("%s: %s to %s: worse than what %s come to\n%s", place, from, to, strings.Join(refused, ", "), listed(got))
				}
			}
		}
	}
	t.Logf("%d changes, %d with stuck values, %d with tolerated ones alone", pairs, stuck, tolerated)
	if stuck < 200 || tolerated < 3 {
		t.Errorf("%d changes, %d with stuck values, %d with tolerated ones alone: the test says little", pairs, stuck, tolerated)
	}
}
