package contain

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// A candidate is a witness only where the old schema accepts it and keeps all of it, and the new one does what the gap says,
// at the place of the gap.
func TestConfirm(t *testing.T) {
	const old = `{type: object, properties: {spec: {type: object, properties: {a: {type: integer, maximum: 10}, ab: {type: integer}, c: {type: string}, d: {type: string, default: x}}}}}`
	const new = `{type: object, properties: {spec: {type: object, required: [ab], properties: {a: {type: integer, maximum: 5}, ab: {type: integer, maximum: 5}, d: {type: string, default: z}}}}}`
	field := func(names ...string) Path {
		var p Path
		for _, n := range names {
			p = append(p, Step{Field, n})
		}
		return p
	}
	maximum := Gap{Keyword: "maximum", Path: field("spec", "a"), Rule: -1}
	required := Gap{Keyword: "required", Detail: "ab", Path: field("spec"), Rule: -1}
	pruned := Gap{Keyword: "properties", Harm: Pruned, Path: field("spec", "c"), Rule: -1}
	defaulted := Gap{Keyword: "default", Harm: Redefaulted, Path: field("spec", "d"), Rule: -1}
	for _, c := range []struct {
		name string
		gap  Gap
		spec string
		why  string // a part of why it is no witness; empty where it is one
	}{
		{"refused where the gap is", maximum, `{"a": 7, "ab": 1}`, ""},
		{"accepted by the new schema", maximum, `{"a": 4, "ab": 1}`, "the new schema accepts"},
		{"refused by the old schema", maximum, `{"a": 11, "ab": 1}`, "the old schema refuses"},
		{"pruned by the old schema", maximum, `{"a": 7, "ab": 1, "z": 1}`, "the old schema prunes"},
		{"refused at a place whose name begins alike", maximum, `{"a": 4, "ab": 7}`, "for another reason"},
		{"the required property is missing", required, `{"a": 4}`, ""},
		{"something else is refused", required, `{"a": 7, "ab": 4}`, "for another reason"},
		{"pruned where the gap is", pruned, `{"c": "x", "ab": 1}`, ""},
		{"not pruned", pruned, `{"ab": 1}`, "keeps the field"},
		{"filled in otherwise", defaulted, `{"ab": 1}`, ""},
		{"not filled in", defaulted, `{"ab": 1, "d": "y"}`, "fill in the same"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newComparison(side(t, parseSchema(t, old)), side(t, parseSchema(t, new)), &Options{Namespaced: true})
			obj := resource(t, `{"spec": `+c.spec+`}`)
			confirmer, err := s.newConfirmer(t.Context(), []map[string]any{obj})
			if err != nil {
				t.Fatal(err)
			}
			w, _, why := confirmer.confirmWitness(t.Context(), &suspect{gap: c.gap}, obj)
			if (w != nil) != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("witness %+v, %q; want %q", w, why, c.why)
			}
			if w != nil && c.gap.Harm == Refused && (w.Stuck || !w.Ratcheted) {
				t.Errorf("what ratcheting tolerates is not told as that: %+v", w)
			}
		})
	}
}

// What becomes of objects once they are stored: an object that left out what the old schema filled in has it from then on.
func TestFate(t *testing.T) {
	type fate struct{ Stuck, Ratcheted, WritersOnly bool }
	for _, c := range []struct {
		name     string
		old, new string // of spec
		kube     string
		want     fate
	}{
		{"ratcheting tolerates it", "properties: {a: {type: integer}}", "properties: {a: {type: integer, maximum: 5}}", "1.30", fate{Ratcheted: true}},
		{"without ratcheting", "properties: {a: {type: integer}}", "properties: {a: {type: integer, maximum: 5}}", "1.29", fate{Stuck: true}},
		{"filled in before it is stored", "properties: {a: {type: string, default: x}}", "required: [a], properties: {a: {type: string}}", "1.30", fate{WritersOnly: true}},
		{
			"an object around it is filled in before it is stored", "properties: {o: {type: object, default: {a: x}, properties: {a: {type: string}}}}",
			"required: [o], properties: {o: {type: object, required: [a], properties: {a: {type: string}}}}", "1.30",
			fate{WritersOnly: true},
		},
		{
			"more of it is filled in before it is stored", "properties: {o: {type: object, properties: {a: {type: string, default: x}}}}",
			"properties: {o: {type: object, required: [a], properties: {a: {type: string, maxLength: 3}}}}", "1.30",
			fate{WritersOnly: true},
		},
		{
			"items of it are filled in before they are stored", "properties: {l: {type: array, items: {type: object, properties: {a: {type: string, default: x}}}}}",
			"properties: {l: {type: array, items: {type: object, required: [a], properties: {a: {type: string}}}}}", "1.30",
			fate{WritersOnly: true},
		},
		{
			"it is counted before it is stored", "properties: {a: {type: string}, z: {type: string, default: x}}",
			"minProperties: 1, properties: {a: {type: string}, z: {type: string}}", "1.30",
			fate{WritersOnly: true},
		},
		{
			"it is required where it was filled in", "properties: {a: {type: string}, z: {type: string, default: x}}",
			"required: [z], properties: {a: {type: string}, z: {type: string}}", "1.30",
			fate{WritersOnly: true},
		},
		{
			"what is filled in before it is stored has more", "properties: {o: {type: object, default: {p: {a: x}}, properties: {p: {type: object, properties: {a: {type: string}}}}}}",
			"required: [o], properties: {o: {type: object, required: [p], properties: {p: {type: object, required: [a], properties: {a: {type: string}}}}}}", "1.30",
			fate{WritersOnly: true},
		},
		{
			"unknown fields are never equal", "x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}",
			"x-kubernetes-preserve-unknown-fields: true, required: [a], properties: {a: {type: integer}}", "1.30",
			fate{Stuck: true},
		},
		{
			"unknown fields of an object that may be missing are never equal", "properties: {a: {type: integer}, o: {type: object, x-kubernetes-preserve-unknown-fields: true}}",
			"required: [a], properties: {a: {type: integer}, o: {type: object, x-kubernetes-preserve-unknown-fields: true}}", "1.30",
			fate{Stuck: true},
		},
		{
			"the rule tolerates what is stored", "properties: {a: {type: integer}}",
			"properties: {a: {type: integer, x-kubernetes-validations: [{rule: 'oldSelf.hasValue() || self < 5', optionalOldSelf: true}]}}", "1.30",
			fate{WritersOnly: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := func(s string) Side {
				return side(t, parseSchema(t, "{type: object, properties: {spec: {type: object, "+s+"}}}"))
			}
			r := Decide(t.Context(), spec(c.old), spec(c.new), Options{Namespaced: true, KubeVersion: version.MustParse(c.kube)})
			i := slices.IndexFunc(r.Gaps, func(g Gap) bool { return g.Harm == Refused && g.Witness != nil })
			if i < 0 {
				t.Fatalf("no witness: %v", told(r.Gaps))
			}
			w := r.Gaps[i].Witness
			if got := (fate{w.Stuck, w.Ratcheted, w.WritersOnly}); got != c.want {
				t.Errorf("%+v, want %+v: %v", got, c.want, w.StuckErrors)
			}
		})
	}
}

// What is declared under what was kept whatever it was loses the fields that it does not know, though it is also refused for
// its type.
func TestWhatWasKeptIsPruned(t *testing.T) {
	const kept = "{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true"
	for _, c := range []struct{ name, declared, path string }{
		{"a text", "{type: string}", ".spec.config"},
		{"an object", "{type: object, properties: {level: {type: string}}}", ".spec.config.*"},
		{"an object in one that keeps the rest", "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {log: {type: object, properties: {level: {type: string}}}}}", ".spec.config.log.*"},
		{"an object that keeps all", "{type: object, x-kubernetes-preserve-unknown-fields: true}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(t.Context(), side(t, parseSchema(t, kept+"}}}")), side(t, parseSchema(t, kept+", properties: {config: "+c.declared+"}}}}")), Options{Namespaced: true})
			var pruned []string
			for _, g := range r.Gaps {
				if g.Verdict == NotContained && (g.Harm == Pruned || g.Witness.Lost) {
					pruned = append(pruned, g.Path.String())
				}
			}
			if got := strings.Join(pruned, " "); got != c.path {
				t.Errorf("pruned is %q, want %q: %v", got, c.path, told(r.Gaps))
			}
		})
	}
}

// An error is told apart by the field that it is about, whatever its text and the value quote.
func TestBlames(t *testing.T) {
	path := func(steps ...Step) Path { return steps }
	replicas := path(Step{Field, "spec"}, Step{Field, "replicas"})
	item := path(Step{Field, "spec"}, Step{Field, "l"}, Step{Kind: AnyItem}, Step{Field, "a"})
	key := path(Step{Field, "spec"}, Step{Field, "m"}, Step{Kind: AnyKey}, Step{Field, "a"})
	number := &field.Error{Type: field.ErrorTypeInvalid, Field: "<nil>", Detail: "Checked value must be of type integer with format int32 in spec.l[0].a"}
	if !blamesGap(&Gap{Path: item}, field.ErrorList{number}) || blamesGap(&Gap{Path: replicas}, field.ErrorList{number}) {
		t.Errorf("%v is about %s", number, item)
	}
	junctor := &field.Error{Type: field.ErrorTypeInvalid, Field: "<nil>", Detail: `"spec.replicas" must validate one and only one schema (oneOf). Found none valid`}
	if blamesGap(&Gap{Path: item}, field.ErrorList{junctor}) || !blamesGap(&Gap{Path: replicas}, field.ErrorList{junctor}) {
		t.Errorf("%v is about %s", junctor, replicas)
	}
	for _, c := range []struct {
		field string
		path  Path
		want  bool
	}{
		{"spec.replicas", replicas, true},
		{"spec.replicas.max", replicas, true},
		{"spec.replicasMax", replicas, false},
		{"spec.replicas-max", replicas, false},
		{"other.spec.replicas", replicas, false},
		{"spec", replicas, false},
		{"spec.l[0].a", item, true},
		{"spec.l.a", item, false},
		{"spec.l[0].ab", item, false},
		{"spec.m.k.a", key, true},
		{"spec.m[k.j].a", key, true},
		{"spec.m.k.b", key, false},
		{"anything", nil, true},
	} {
		e := &field.Error{Type: field.ErrorTypeInvalid, Field: c.field, BadValue: "spec.replicas: spec.l[0].a: spec.m.k.a", Detail: "spec.replicas in body"}
		if got := blamesGap(&Gap{Path: c.path}, field.ErrorList{e}); got != c.want {
			t.Errorf("an error about %q is one about %s: %t, want %t", c.field, c.path, got, c.want)
		}
	}
}

// If the budget of the whole comparison is spent, every place that is left is unknown, and none is left out as proven.
func TestASpentBudgetProvesNothing(t *testing.T) {
	old := side(t, parseSchema(t, `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: integer}}}}}`))
	new := side(t, parseSchema(t, `{type: object, properties: {spec: {type: object, properties: {a: {type: integer, maximum: 5}, b: {type: integer, maximum: 5}}}}}`))
	s := newComparison(old, new, &Options{Namespaced: true})
	suspects := len(s.suspects)
	s.opts.Work.Charge(DefaultBudget + 1)
	gaps := s.resolveSuspects(t.Context(), s.suspects)
	if len(gaps) != suspects || suspects != 2 {
		t.Errorf("%d places that could not be proven, %d gaps, want 2", suspects, len(gaps))
	}
	for _, g := range gaps {
		if g.Verdict != Unknown || g.Reason != TooMuch {
			t.Errorf("%s: %v, %q", g.Path, g.Verdict, g.Reason)
		}
	}
}
