package certify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var widget = Resource{
	APIVersion: "example.com/v1", Kind: "Widget", NumberFormats: true,
	Format: func(name string) bool { return name == "uuid" || name == "datetime" },
}

// spec is a schema with a property x of spec.
func spec(t *testing.T, x string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	out := &apiextensionsv1.JSONSchemaProps{}
	text := fmt.Sprintf("{type: object, properties: {spec: {type: object, properties: {x: %s}}}}", x)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// complete makes a certificate of the proof's steps and what the checker asks for besides, each with the lemma.
func complete(t *testing.T, before, after *apiextensionsv1.JSONSchemaProps, lemma Lemma, cert Certificate) (Certificate, Result) {
	t.Helper()
	for {
		got := Verify(before, after, cert, widget)
		var missing []Step
		for _, why := range got.Refused {
			head, ok := strings.CutSuffix(why, ": the proof says nothing about it")
			i := strings.LastIndex(head, " at ")
			if !ok || i < 0 {
				continue
			}
			what, path := strings.TrimPrefix(head[:i], "step "), strings.TrimPrefix(head[i+len(" at "):], "the root")
			keyword, detail, _ := strings.Cut(what, " ")
			if rest, ok := strings.CutPrefix(what, Updates+" "); ok {
				keyword, detail = Updates, rest
			}
			s := Step{Path: path, Keyword: keyword, Detail: strings.TrimSpace(detail), Lemma: lemma}
			if !slices.Contains(cert.Steps, s) {
				missing = append(missing, s)
			}
		}
		if len(missing) == 0 {
			return cert, got
		}
		cert.Steps = append(cert.Steps, missing...)
	}
}

// changes that take something from somebody; a search that overlooks one writes a proof with a step that does not hold.
var changes = []struct{ name, before, after string }{
	{"a type narrowed", "{type: number}", "{type: integer}"},
	{"a type changed", "{type: string}", "{type: integer}"},
	{"int-or-string lost", "{x-kubernetes-int-or-string: true}", "{type: string}"},
	{"nullable removed", "{type: string, nullable: true}", "{type: string}"},
	{"minimum raised", "{type: integer, minimum: 1}", "{type: integer, minimum: 2}"},
	{"minimum exclusive", "{type: number, minimum: 1}", "{type: number, minimum: 1, exclusiveMinimum: true}"},
	{"maximum added", "{type: integer}", "{type: integer, maximum: 9}"},
	{"multipleOf changed", "{type: integer, multipleOf: 2}", "{type: integer, multipleOf: 4}"},
	{"int32 added", "{type: integer}", "{type: integer, format: int32}"},
	{"minLength added", "{type: string}", "{type: string, minLength: 1}"},
	{"maxLength lowered", "{type: string, maxLength: 9}", "{type: string, maxLength: 8}"},
	{"pattern narrowed", "{type: string, pattern: '^[a-z]*$'}", "{type: string, pattern: '^[a-y]*$'}"},
	{"pattern anchored", "{type: string, pattern: '^a'}", "{type: string, pattern: '^a$'}"},
	{"pattern of words", "{type: string, pattern: 'a'}", "{type: string, pattern: '\\ba\\b'}"},
	{"enum value removed", "{type: string, enum: [a, b]}", "{type: string, enum: [a]}"},
	{"format added", "{type: string}", "{type: string, format: uuid}"},
	{"a list for a string", "{type: string, format: uuid}", "{type: string}"},
	{"required added", "{type: object, properties: {a: {type: string}}}", "{type: object, required: [a], properties: {a: {type: string}}}"},
	{"required without its default", "{type: object, required: [a], properties: {a: {type: string, default: d}}}", "{type: object, required: [a], properties: {a: {type: string}}}"},
	{"a property removed", "{type: object, properties: {a: {type: string}}}", "{type: object}"},
	{"unknown fields dropped", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object}"},
	{"values of a map narrowed", "{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: string, maxLength: 3}}"},
	{"objects in a map emptied", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, additionalProperties: true}"},
	{"items narrowed", "{type: array, items: {type: string}}", "{type: array, items: {type: string, enum: [a]}}"},
	{"minItems raised", "{type: array, items: {type: string}}", "{type: array, minItems: 1, items: {type: string}}"},
	{"maxItems of few values", "{type: array, x-kubernetes-list-type: set, items: {type: string, enum: [a, b]}}", "{type: array, maxItems: 1, x-kubernetes-list-type: set, items: {type: string, enum: [a, b]}}"},
	{"maxItems of few keys", listKey("name: {type: string, enum: [a, b]}", ""), listKey("name: {type: string, enum: [a, b]}", "maxItems: 1, ")},
	{"maxItems of few values that a length leaves", "{type: array, x-kubernetes-list-type: set, items: {type: string, maxLength: 1, enum: [a, b, cc]}}", "{type: array, maxItems: 1, x-kubernetes-list-type: set, items: {type: string, maxLength: 1, enum: [a, b, cc]}}"},
	{"maxItems of booleans or null", "{type: array, x-kubernetes-list-type: set, items: {type: boolean, nullable: true}}", "{type: array, maxItems: 2, x-kubernetes-list-type: set, items: {type: boolean, nullable: true}}"},
	{"maxItems of integers", "{type: array, x-kubernetes-list-type: set, items: {type: integer, minimum: 1, maximum: 2}}", "{type: array, maxItems: 2, x-kubernetes-list-type: set, items: {type: integer, minimum: 1, maximum: 2}}"},
	{"maxItems of keys that may be missing", twoKeys(""), twoKeys("maxItems: 2, ")},
	{"set added", "{type: array, items: {type: string}}", "{type: array, x-kubernetes-list-type: set, items: {type: string}}"},
	{"fewer keys", listMap("[a, b]"), listMap("[a]")},
	{"minProperties added", "{type: object, additionalProperties: {type: string}}", "{type: object, minProperties: 1, additionalProperties: {type: string}}"},
	{"maxProperties after defaulting", "{type: object, maxProperties: 1, properties: {a: {type: string}, b: {type: string}}}", "{type: object, maxProperties: 1, properties: {a: {type: string}, b: {type: string, default: d}}}"},
	{"allOf added", "{type: integer}", "{type: integer, allOf: [{minimum: 3}]}"},
	{"a branch of anyOf gone", "{type: integer, anyOf: [{minimum: 9}, {maximum: 1}]}", "{type: integer, anyOf: [{minimum: 9}]}"},
	{"oneOf for anyOf", "{type: integer, anyOf: [{minimum: 3}, {maximum: 5}]}", "{type: integer, oneOf: [{minimum: 3}, {maximum: 5}]}"},
	{"not added", "{type: string}", "{type: string, not: {enum: [a]}}"},
	{"a default that a branch refuses", "{type: object, not: {required: [a]}, properties: {a: {type: string}}}", "{type: object, not: {required: [a]}, properties: {a: {type: string, default: d}}}"},
	{"an embedded resource", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}"},
	{"a default changed", "{type: string, default: a}", "{type: string, default: b}"},
	{"a rule added", "{type: string}", "{type: string, x-kubernetes-validations: [{rule: self != 'a'}]}"},
	{"what a rule sees", ruled("has(self.a)", ""), ruled("has(self.a)", ", default: d")},
	{"a rule about updates added", "{type: string}", "{type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}"},
	{"a default on what never changes", "{type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}", "{type: string, default: a, x-kubernetes-validations: [{rule: self == oldSelf}]}"},
	{"a key by which updates find items", listed("[a]"), listed("[a, b]")},
}

func listKey(name, more string) string {
	return "{type: array, " + more + "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {" + name + "}}}"
}

func twoKeys(more string) string {
	return "{type: array, " + more + "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, on], items: {type: object, required: [name], properties: {name: {type: string, enum: [a]}, on: {type: boolean}}}}"
}

func listMap(keys string) string {
	return "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: " + keys + ", items: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: string}}}}"
}

func listed(keys string) string {
	return "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: " + keys + ", items: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: string}}, x-kubernetes-validations: [{rule: self.a == oldSelf.a}]}}"
}

func ruled(rule, d string) string {
	return "{type: object, properties: {a: {type: string" + d + "}}, x-kubernetes-validations: [{rule: '" + rule + "'}]}"
}

// TestForgedSteps claims each lemma for harmful changes. The checker refuses every forged step, and a certificate without the step.
func TestForgedSteps(t *testing.T) {
	for _, c := range changes {
		for _, lemma := range []Lemma{EqualSubtree, Equal, ImpliedHere, ImpliedByWhole, SubtreeByWhole, WithRules, "it-is-so"} {
			t.Run(c.name+" "+string(lemma), func(t *testing.T) {
				before, after := spec(t, c.before), spec(t, c.after)
				cert := Certificate{}
				if lemma == EqualSubtree {
					cert.Steps = []Step{{Path: ".spec", Keyword: Subtree, Lemma: lemma}}
				}
				cert, got := complete(t, before, after, lemma, cert)
				if lemma == SubtreeByWhole && strings.Contains(c.after, "self != 'a'") {
					if got.Trusted[RuleImplied] == 0 {
						t.Errorf("a rule is passed over: %+v", got)
					}
					return
				}
				if len(got.Refused) == 0 {
					t.Errorf("verified: %+v by %+v", got, cert.Steps)
				}
				if got := Verify(before, after, Certificate{}, widget); len(got.Refused) == 0 {
					t.Error("the empty proof is verified")
				}
			})
		}
	}
}

// TestTheWayBack has the proofs of the same changes the other way round verified, where that takes nothing from anybody.
func TestTheWayBack(t *testing.T) {
	harmful := []string{
		"a type changed", "pattern of words", "a default changed", "required without its default", "maxProperties after defaulting", "a default that a branch refuses",
		"what a rule sees", "a default on what never changes", "a key by which updates find items", "objects in a map emptied", "a list for a string", "format added", "multipleOf changed",
	}
	n := 0
	for _, c := range changes {
		if slices.Contains(harmful, c.name) {
			continue
		}
		before, after := spec(t, c.after), spec(t, c.before)
		cert, got := complete(t, before, after, ImpliedHere, Certificate{})
		if len(got.Refused) > 0 || len(got.Trusted) > 0 {
			t.Errorf("%s: refused %q, trusted %v of %v", c.name, got.Refused, got.Trusted, cert.Steps)
		}
		n++
	}
	if n < 25 {
		t.Errorf("%d changes: the test says little", n)
	}
}

// TestFewKeys has a bound verified that the keys of a list imply.
func TestFewKeys(t *testing.T) {
	const few = "name: {type: string, enum: [a, b]}"
	for more, proven := range map[string]bool{"maxItems: 1, ": false, "maxItems: 2, ": true} {
		cert, got := complete(t, spec(t, listKey(few, "")), spec(t, listKey(few, more)), ImpliedHere, Certificate{})
		if (len(got.Refused) == 0) != proven {
			t.Errorf("%s: %q of %v", more, got.Refused, cert.Steps)
		}
	}
}

// TestImpossibleItems has a bound verified that no list can break, because there is no item.
func TestImpossibleItems(t *testing.T) {
	list := func(bounds, length string) string {
		return "{type: array, " + bounds + "items: {type: string, maxLength: " + length + ", enum: [zz]}}"
	}
	for length, proven := range map[string]bool{"1": true, "2": false} {
		cert, got := complete(t, spec(t, list("", length)), spec(t, list("maxItems: 1, ", length)), ImpliedHere, Certificate{})
		if (len(got.Refused) == 0) != proven {
			t.Errorf("%s: %q of %v", length, got.Refused, cert.Steps)
		}
	}
}

// TestWholeObjects has what only the whole object shows verified, and refused where it does not show it.
func TestWholeObjects(t *testing.T) {
	union := func(x string) string {
		return "{type: object, oneOf: [{required: [a]}, {required: [b]}], properties: {a: {type: string}, b: {type: object, properties: {c: " + x + "}}}}"
	}
	before, after := spec(t, "{type: object, required: [b], not: {properties: {b: {minimum: 5}}}, properties: {b: {type: integer}}}"), spec(t, "{type: object, required: [b], properties: {b: {type: integer, maximum: 4}}}")
	if cert, got := complete(t, before, after, ImpliedByWhole, Certificate{}); len(got.Refused) > 0 {
		t.Errorf("%q of %v", got.Refused, cert.Steps)
	}
	before, after = spec(t, union("{type: string}")), spec(t, union("{type: string, maxLength: 3}"))
	if _, got := complete(t, before, after, ImpliedByWhole, Certificate{}); len(got.Refused) != 1 {
		t.Errorf("%q, want one step refused", got.Refused)
	}
	// What is reported needs no step.
	cert, _ := complete(t, before, after, ImpliedByWhole, Certificate{Reported: []Step{{Path: ".spec.x.b.c", Keyword: "maxLength"}}})
	if got := Verify(before, after, cert, widget); len(got.Refused) > 0 {
		t.Errorf("%q", got.Refused)
	}
	// A step for what is nowhere to be proven is a mistake as well.
	cert.Steps = append(cert.Steps, Step{Path: ".spec.y", Keyword: "maxLength", Lemma: ImpliedHere})
	if got := Verify(before, after, cert, widget); len(got.Refused) != 1 {
		t.Errorf("%q, want one step refused", got.Refused)
	}
}

// TestEqualPartsOfWhichUpdatesSeeOthers refuses that equal parts need no proof where updates find other old values for them: by
// other keys, or because an object around them is filled in.
func TestEqualPartsOfWhichUpdatesSeeOthers(t *testing.T) {
	const part = "{type: object, properties: {b: {type: string}}, x-kubernetes-validations: [{rule: self == oldSelf}]}"
	for _, c := range []struct{ path, before, after string }{
		{".spec.x[*]", listed("[a]"), listed("[a, b]")},
		{".spec.x.a", "{type: object, properties: {a: " + part + "}}", "{type: object, default: {a: {b: c}}, properties: {a: " + part + "}}"},
	} {
		equal := Certificate{Steps: []Step{{Path: c.path, Keyword: Subtree, Lemma: EqualSubtree}}}
		got := Verify(spec(t, c.before), spec(t, c.after), equal, widget)
		if !slices.ContainsFunc(got.Refused, func(why string) bool { return strings.Contains(why, "updates compare other values") }) {
			t.Errorf("%s: %q", c.path, got.Refused)
		}
		if got := Verify(spec(t, c.before), spec(t, c.before), equal, widget); slices.ContainsFunc(got.Refused, func(why string) bool { return strings.Contains(why, c.path+":") }) {
			t.Errorf("%s: %q", c.path, got.Refused)
		}
	}
}
