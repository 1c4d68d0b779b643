package kapprules

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMatchersSelectAsKappDoes(t *testing.T) {
	obj := object(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n","annotations":{"a":"","b":"x"}},"spec":{"empty":[],"full":[{"x":1},{"x":2}]}}`)
	for text, want := range map[string]bool{
		`[]`:                  false,
		`[{"allMatcher":{}}]`: true,
		`[{"apiGroupKindMatcher":{"apiGroup":"apps","kind":"Deployment"}}]`:                                                       true,
		`[{"apiGroupKindMatcher":{"apiGroup":"","kind":"Deployment"}}]`:                                                           false,
		`[{"apiVersionKindMatcher":{"apiVersion":"apps/v1","kind":"Deployment"}}]`:                                                true,
		`[{"apiVersionKindMatcher":{"apiVersion":"v1","kind":"Deployment"}}]`:                                                     false,
		`[{"kindNamespaceNameMatcher":{"kind":"Deployment","namespace":"n","name":"d"}}]`:                                         true,
		`[{"kindNamespaceNameMatcher":{"kind":"Deployment","namespace":"m","name":"d"}}]`:                                         false,
		`[{"hasAnnotationMatcher":{"keys":["a","b"]}}]`:                                                                           true,
		`[{"hasAnnotationMatcher":{"keys":["a","c"]}}]`:                                                                           false,
		`[{"hasNamespaceMatcher":{}}]`:                                                                                            true,
		`[{"hasNamespaceMatcher":{"names":["m"]}}]`:                                                                               false,
		`[{"customResourceMatcher":{}}]`:                                                                                          false,
		`[{"emptyFieldMatcher":{"path":["spec","empty"]}}]`:                                                                       true,
		`[{"emptyFieldMatcher":{"path":["spec","none"]}}]`:                                                                        true,
		`[{"emptyFieldMatcher":{"path":["spec","full"]}}]`:                                                                        false,
		`[{"emptyFieldMatcher":{"path":["spec","full",{"allIndexes":true},"y"]}}]`:                                                true,
		`[{"notMatcher":{"matcher":{"allMatcher":{}}}}]`:                                                                          false,
		`[{"andMatcher":{"matchers":[{"allMatcher":{}},{"notMatcher":{"matcher":{"hasNamespaceMatcher":{"names":["n"]}}}}]}}]`:    false,
		`[{"anyMatcher":{"matchers":[{"hasNamespaceMatcher":{"names":["m"]}},{"hasNamespaceMatcher":{"names":["n"]}}]}}]`:         true,
		`[{"hasNamespaceMatcher":{"names":["m"]}},{"kindNamespaceNameMatcher":{"kind":"Deployment","namespace":"n","name":"d"}}]`: true,
	} {
		var list Matchers
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := list.Match(obj); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// What is set is what is got, and the value that it was set in stays as it was.
func TestPathsLeadToWhatWasSet(t *testing.T) {
	const text = `{"a":{"b":[{"c":1},{"c":2}]}}`
	for _, path := range []string{`["a","b",{"index":1},"c"]`, `["a","b",{"allIndexes":true},"c"]`, `["a","b"]`} {
		var p Path
		if err := json.Unmarshal([]byte(path), &p); err != nil {
			t.Fatal(err)
		}
		obj := object(t, text)
		for _, at := range p.Places(obj) {
			valuesIn := func(v any) (values []any) {
				for _, one := range p.Places(v) {
					if cmp.Equal(one.Steps, at.Steps) {
						values = append(values, one.Value)
					}
				}
				return values
			}
			if next := Set(obj, at.Steps, "new", false); !cmp.Equal(valuesIn(next), []any{"new"}) {
				t.Errorf("%s: %v", path, next)
			}
			if left := valuesIn(Set(obj, at.Steps, nil, true)); left != nil {
				t.Errorf("%s: %v is still there", path, left)
			}
		}
		if diff := cmp.Diff(object(t, text), obj); diff != "" {
			t.Errorf("%s changed its value: %s", path, diff)
		}
	}
	made, ok := Set(map[string]any{}, []any{"x", "y"}, 1, false).(map[string]any)
	if diff := cmp.Diff(map[string]any{"x": map[string]any{"y": 1}}, made); diff != "" || !ok {
		t.Error(diff)
	}
}

func TestChangeRules(t *testing.T) {
	for text, want := range map[string]Order{
		"upsert after upserting x":    {Verb: "upsert", Target: "upserting", Group: "x"},
		" upsert  before upserting x": {Verb: "upsert", Target: "upserting", Before: true, Group: "x"},
		"delete after deleting x/y":   {Verb: "delete", Target: "deleting", Group: "x/y"},
	} {
		got, err := ParseOrder(text)
		if err != nil || got != want || (got.NotDone() == "") != (want.Verb == "upsert") {
			t.Errorf("%q: %+v, %v, %q", text, got, err, got.NotDone())
		}
	}
	for _, text := range []string{"", "upsert after upserting", "upsert after upserting x y", "apply after upserting x"} {
		if _, err := ParseOrder(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
