package compat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// additive are changes that take nothing from anybody, and the rule that reports the way back. The YAML is that of a
// property before and after.
var additive = []struct{ name, before, after, back string }{
	{"a property", "{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}, b: {type: integer}}}", "property-removed"},
	{"unknown fields", "{type: object}", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "preserve-unknown-removed"},
	{"any key", "{type: object, properties: {a: {type: string}}}", "{type: object, additionalProperties: {type: string}}", "additional-properties-narrowed"},
	{"null", "{type: integer}", "{type: integer, nullable: true}", "nullable-removed"},
	{"a wider number", "{type: integer}", "{type: number}", "type-narrowed"},
	{"int or string", "{type: string}", "{x-kubernetes-int-or-string: true}", "type-narrowed"},
	{"an enum value", "{type: string, enum: [a, b]}", "{type: string, enum: [c, b, a]}", "enum-value-removed"},
	{"no enum", "{type: string, enum: [a, b]}", "{type: string}", "enum-added"},
	{"no pattern", "{type: string, pattern: ^a+$}", "{type: string}", "pattern-added"},
	{"a wider pattern", "{type: string, pattern: ^a+$}", "{type: string, pattern: ^a*$}", "pattern-changed"},
	{"no number format", "{type: integer, format: int32}", "{type: integer}", "format-added"},
	{"a wider number format", "{type: integer, format: int32}", "{type: integer, format: int64}", "format-changed"},
	{"a lower minimum", "{type: integer, minimum: 5}", "{type: integer, minimum: 4}", "minimum-raised"},
	{"an inclusive minimum", "{type: number, minimum: 5, exclusiveMinimum: true}", "{type: number, minimum: 5}", "minimum-raised"},
	{"a higher maximum", "{type: integer, maximum: 5}", "{type: integer, maximum: 6}", "maximum-lowered"},
	{"no maximum", "{type: integer, maximum: 5}", "{type: integer}", "maximum-lowered"},
	{"any multiple", "{type: integer, multipleOf: 5}", "{type: integer}", "multiple-of-changed"},
	{"shorter strings", "{type: string, minLength: 5}", "{type: string, minLength: 4}", "min-length-raised"},
	{"longer strings", "{type: string, maxLength: 5}", "{type: string, maxLength: 6}", "max-length-lowered"},
	{"shorter lists", "{type: array, items: {type: string}, minItems: 2}", "{type: array, items: {type: string}, minItems: 1}", "min-items-raised"},
	{"longer lists", "{type: array, items: {type: string}, maxItems: 2}", "{type: array, items: {type: string}, maxItems: 3}", "max-items-lowered"},
	{"doubles", "{type: array, items: {type: string}, x-kubernetes-list-type: set}", "{type: array, items: {type: string}}", "list-type-changed"},
	{"smaller maps", "{type: object, additionalProperties: {type: string}, minProperties: 2}", "{type: object, additionalProperties: {type: string}, minProperties: 1}", "min-properties-raised"},
	{"larger maps", "{type: object, additionalProperties: {type: string}, maxProperties: 2}", "{type: object, additionalProperties: {type: string}, maxProperties: 3}", "max-properties-lowered"},
	{"optional", "{type: object, required: [a], properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}}}", "required-added"},
	{"partial resources", "{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "embedded-resource-added"},
	{"no allOf", "{type: integer, allOf: [{minimum: 1}]}", "{type: integer}", "all-of-tightened"},
	{"a branch of anyOf", "{type: integer, anyOf: [{minimum: 9}]}", "{type: integer, anyOf: [{minimum: 9}, {maximum: 1}]}", "any-of-tightened"},
	{"no oneOf", "{type: integer, oneOf: [{minimum: 9}, {maximum: 1}]}", "{type: integer}", "one-of-tightened"},
	{"no not", "{type: integer, not: {minimum: 9}}", "{type: integer}", "not-tightened"},
	{"no rule", "{type: string, x-kubernetes-validations: [{rule: self != 'x'}]}", "{type: string}", "validation-rule-added"},
	{"a rule for one type alone", ruled("has(self.a)"), ruled("self.kind != 'A' || has(self.a)"), "validation-rule-changed"},
	{"a wider ternary", ruled("self.kind == 'A' ? has(self.a) : !has(self.a)"), ruled("self.kind == 'A' ? has(self.a) : true"), "validation-rule-changed"},
	{"none of several", ruled("has(self.a) ? !has(self.b) : has(self.b)"), ruled("!(has(self.a) && has(self.b))"), "validation-rule-changed"},
	{"several of several", ruled("has(self.a) != has(self.b)"), ruled("has(self.a) || has(self.b)"), "validation-rule-changed"},
	{"several items of a kind", ruled("!has(self.l) || self.l.exists_one(x, x == 'A')"), ruled("!has(self.l) || self.l.exists(x, x == 'A')"), "validation-rule-changed"},
	{"no rule about items", ruled("!has(self.l) || self.l.all(x, x != 'A')"), ruled("true"), "validation-rule-changed"},
	{"no transition rule", "{type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}", "{type: string}", "transition-rule-added"},
}

// ruled is a union of two members and a list with a rule.
func ruled(rule string) string {
	return `{type: object, required: [kind], properties: {kind: {type: string, enum: [A, B]}, a: {type: string}, b: {type: integer}, l: {type: array, maxItems: 3, items: {type: string, maxLength: 3}}}, ` +
		`x-kubernetes-validations: [{rule: "` + rule + `"}]}`
}

// TestTheWayBackOfAnAddition puts each change at several places: nothing fails there, and swapped the rule fires, at that
// place, with a witness.
func TestTheWayBackOfAnAddition(t *testing.T) {
	places := []struct{ yaml, path string }{
		{"x: %s", ".spec.x"},
		{"l: {type: array, items: %s}", ".spec.l[*]"},
		{"m: {type: object, additionalProperties: %s}", ".spec.m.*"},
		{`o: {type: object, properties: {"a.b": {type: array, items: {type: object, properties: {x: %s}}}}}`, `.spec.o["a.b"][*].x`},
	}
	for _, change := range additive {
		for _, place := range places {
			if change.back == "transition-rule-added" && strings.Contains(place.path, "[*]") {
				continue // items of an atomic list have no old self; the API server refuses such a rule
			}
			t.Run(change.name+" at "+place.path, func(t *testing.T) {
				old := specCRD(t, fmt.Sprintf(place.yaml, change.before))
				new := specCRD(t, fmt.Sprintf(place.yaml, change.after))
				there := check(t, old, new)
				for _, f := range there.Findings {
					if f.Severity == report.Fail {
						t.Errorf("the addition fails by %s: %s", f.Rule, f.Message)
					}
					if f.Outcome == report.Violation && f.Level != report.Cosmetic {
						requireWitness(t, old, new, f)
					}
				}
				back := check(t, new, old)
				i := slices.IndexFunc(back.Findings, func(f report.Finding) bool { return f.Rule == change.back })
				if i < 0 {
					t.Fatalf("the way back is not reported by %s, but by %v", change.back, ruleIDs(back.Findings))
				}
				f := back.Findings[i]
				if back.Verdict != report.Unsafe || f.Outcome != report.Violation || f.Witness == nil {
					t.Errorf("the way back is %s, its finding %s", back.Verdict, f.Outcome)
				}
				if !strings.HasPrefix(f.Path, place.path) {
					t.Errorf("path %s, want %s", f.Path, place.path)
				}
			})
		}
	}
}

// TestEveryChangeHasItsFinding plants several of the changes at random places of one CRD, among some that change nothing: the
// additions fail nowhere, and on the way back each has its finding at its place, and nothing else fails.
func TestEveryChangeHasItsFinding(t *testing.T) {
	r := rand.New(rand.NewPCG(3+draws.First(), 4))
	places := []struct{ yaml, path string }{
		{"f%d: %s", ".spec.f%d"},
		{"f%d: {type: array, maxItems: 3, items: %s}", ".spec.f%d[*]"},
		{"f%d: {type: object, maxProperties: 3, additionalProperties: %s}", ".spec.f%d.*"},
		{"f%d: {type: object, properties: {deep: {type: object, properties: {x: %s}}}}", ".spec.f%d.deep.x"},
	}
	for range draws.Count(40) {
		var before, after strings.Builder
		want := map[string]string{} // the rule, by the place
		for i := range 1 + r.IntN(8) {
			change, place := additive[r.IntN(len(additive))], places[r.IntN(len(places))]
			if change.back == "transition-rule-added" {
				place = places[0] // items and values of some maps have no old self
			}
			fmt.Fprintf(&before, place.yaml+"\n", i, change.before)
			if r.IntN(4) == 0 {
				change.after = change.before
			} else {
				want[fmt.Sprintf(place.path, i)] = change.back
			}
			fmt.Fprintf(&after, place.yaml+"\n", i, change.after)
		}
		old, new := specCRD(t, before.String()), specCRD(t, after.String())
		if got := check(t, old, new); !got.Verdict.Proven() {
			t.Fatalf("%s for\n%s%s", listed(got), before.String(), after.String())
		}
		back := check(t, new, old)
		for _, f := range back.Findings {
			if f.Severity != report.Fail {
				continue
			}
			planted := false
			for place, rule := range want {
				planted = planted || f.Rule == rule && (f.Path == place || strings.HasPrefix(f.Path, place+"."))
			}
			if !planted || f.Outcome != report.Violation {
				t.Fatalf("%s %s %s is told, and nothing like that was planted: %v\n%s%s%s", f.Outcome, f.Rule, f.Path, want, listed(back), after.String(), before.String())
			}
		}
		for place, rule := range want {
			if !slices.ContainsFunc(back.Findings, func(f report.Finding) bool {
				return f.Rule == rule && strings.HasPrefix(f.Path, place) && f.Severity == report.Fail
			}) {
				t.Fatalf("%s at %s is not told:\n%s%s%s", rule, place, listed(back), after.String(), before.String())
			}
		}
	}
}

// TestAnythingToAnything changes a property of each kind to one of another: one rule speaks for each thing, and no harm is
// told without a witness.
func TestAnythingToAnything(t *testing.T) {
	var all []string
	for _, change := range additive {
		all = append(all, change.before, change.after)
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 150 {
		before, after := "x: "+all[r.IntN(len(all))], "x: "+all[r.IntN(len(all))]
		old, new := specCRD(t, before), specCRD(t, after)
		for _, f := range check(t, old, new).Findings {
			if f.Rule == "schema-changed" {
				t.Errorf("no rule for %s: %s to %s", f.Message, before, after)
			}
			if f.Outcome == report.Violation && f.Level != report.Cosmetic {
				requireWitness(t, old, new, f)
			}
		}
	}
}

// TestWitnessesHold runs what is reported through the API server's code once more, as a reader of the report would: read
// from the YAML.
func TestWitnessesHold(t *testing.T) {
	for _, r := range Rules() {
		old, new, err := crdsOf(&r, r.Unsafe)
		if err != nil {
			t.Fatal(err)
		}
		if old == nil || new == nil || len(new.Spec.Versions) > 1 || len(old.Spec.Versions) > 1 || old.Spec.PreserveUnknownFields {
			continue // TestReachabilityAcrossVersions holds those of several versions
		}
		for _, f := range check(t, old, new).Findings {
			if f.Witness != nil && f.Rule != oddValueRefused.ID { // YAML is read as 1 where the witness has 1.0: that is the point
				t.Run(r.ID+"/"+f.Rule, func(t *testing.T) { requireWitness(t, old, new, f) })
			}
		}
	}
}

func requireWitness(t testing.TB, old, new *crd, f report.Finding) {
	t.Helper()
	if f.Witness == nil || f.Witness.Effect == "" {
		t.Fatalf("%s has no witness", f.Rule)
	}
	obj, err := readBack(f.Witness.Object)
	if err != nil {
		t.Fatal(err)
	}
	takes, refuses := validator(t, old), validator(t, new)
	if f.Level == report.ReadersSurprised && f.Rule != "default-added" {
		takes, refuses = refuses, takes // readers of the old schema meet what it would refuse
	}
	accepted, err := takes.Create(t.Context(), obj)
	if err != nil || accepted.Refused() || len(accepted.Pruned) > 0 {
		t.Fatalf("%s: the one CRD does not take the witness: %v %v %v\n%s", f.Rule, err, accepted.Errors, accepted.Pruned, f.Witness.Object)
	}
	if f.Witness.Old != "" {
		stored, err := readBack(f.Witness.Old)
		if err != nil {
			t.Fatal(err)
		}
		if result, err := refuses.Update(t.Context(), obj, stored, true); err != nil || !result.Refused() {
			t.Errorf("%s: the update is not refused: %v", f.Rule, err)
		}
		return
	}
	result, err := refuses.Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	if result.Refused() && harmsByRefusal(f.Level) {
		said, _, _ := strings.Cut(f.Witness.Effect, "; an update that leaves it alone passes")
		said = strings.TrimSuffix(strings.TrimSuffix(said, notEvaluated), "…")
		if !slices.ContainsFunc(result.Errors, func(e *field.Error) bool { return strings.HasPrefix(strings.TrimPrefix(e.Error(), "<nil>: "), said) }) {
			t.Errorf("%s: %q is not what the API server says: %v", f.Rule, said, result.Errors)
		}
	}
	touched, err := refuses.TouchUpdate(t.Context(), accepted.Stored, refuses.Ratchets())
	if err != nil {
		t.Fatal(err)
	}
	unappliable, err := refuses.Unappliable(accepted.Stored)
	if err != nil {
		t.Fatal(err)
	}
	if stuck := f.Level == report.ObjectsStuck; stuck && !touched.Refused() && unappliable == "" {
		t.Errorf("%s: the object is not stuck", f.Rule)
	}
	switch {
	case result.Refused() || touched.Refused() || len(result.Pruned) > 0:
	case f.Level == report.DataLost || f.Level == report.MeaningChanged || f.Level == report.ReadersSurprised:
		if a, b := compactJSON(accepted.Stored), compactJSON(result.Stored); a == b {
			t.Errorf("%s: both store the same: %s", f.Rule, a)
		}
	default:
		t.Errorf("%s: the other CRD takes the witness as well", f.Rule)
	}
}

func harmsByRefusal(l report.Level) bool {
	return l == report.ObjectsStuck || l == report.ObjectsRatcheted || l == report.WritersRefused
}

func validator(t testing.TB, d *crd) *upstream.Validator {
	t.Helper()
	v := d.Spec.Versions[0]
	out, err := upstream.New(schemaProps(&v), upstream.Options{
		Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind, Namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Scale: scaleOf(&part{crdVersion: &v}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
