package celrule

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	celschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	ours "sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/tools/draws"
)

// judge is upstream's evaluation of one rule.
type judge struct {
	s      *schema.Structural
	v      *celschema.Validator
	schema validation.SchemaValidator
}

// valid tells whether the schema without the rule accepts a value after defaulting.
func (j *judge) valid(v any) bool {
	v = runtime.DeepCopyJSONValue(v)
	defaulting.Default(v, j.s)
	return len(validation.ValidateCustomResource(nil, v, j.schema)) == 0
}

// newJudge compiles a rule at the root of a schema; nil where upstream does not compile it.
func newJudge(t testing.TB, p props, rule string, root bool) *judge {
	t.Helper()
	return newJudgeOf(t, p, apiextensionsv1.ValidationRule{Rule: rule}, root)
}

func newJudgeOf(t testing.TB, p props, rule apiextensionsv1.ValidationRule, root bool) *judge {
	t.Helper()
	p.XValidations = apiextensionsv1.ValidationRules{rule}
	var in apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&p, &in, nil); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&in)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := validation.NewSchemaValidator(&in)
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{s, celschema.NewValidator(s, root, celconfig.PerCallLimit), v}
	if j.v == nil {
		return nil
	}
	if why := j.refuses(map[string]any{}); strings.Contains(why, "rule compile") {
		if testing.Verbose() && !strings.Contains(why, "found no matching overload") {
			t.Logf("does not compile: %s: %s", rule.Rule, why)
		}
		return nil
	}
	return j
}

// refuses evaluates the rule on a value after defaulting; empty where it holds.
func (j *judge) refuses(v any) string {
	v = runtime.DeepCopyJSONValue(v)
	defaulting.Default(v, j.s)
	errs, _ := j.v.Validate(context.Background(), nil, j.s, v, nil, celconfig.RuntimeCELCostBudget)
	if err := errs.ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}

func toNode(t testing.TB, p props) *ours.Node {
	t.Helper()
	n, err := ours.New(&p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type tally struct{ rules, compiled, clear, values, unsure, unsureFailures int }

// compareWithUpstream makes a random schema, a rule and values, and fails where the formula contradicts upstream.
func compareWithUpstream(t testing.TB, seed uint64, n *tally) {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 1))}
	p := g.object(3)
	root := g.chance(30)
	vars := []genVar{{"self", &p, 0}}
	node := toNode(t, p)
	for range 8 {
		text := g.boolean(vars, 1+g.IntN(4))
		if len(text) > 600 {
			continue
		}
		n.rules++
		r, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		f := Translate(r, Scope{Spine: node, Root: root, Checker: reChecker{}})
		fails := Failing(r, Scope{Spine: node, Root: root, Checker: reChecker{}})
		j := newJudge(t, p, text, root)
		if j == nil {
			continue
		}
		n.compiled++
		clear := true
		for range 12 {
			p := p
			v := g.value(&p)
			want := j.refuses(v)
			if strings.Contains(want, "cost") {
				continue
			}
			n.values++
			// Values as storage has them: others are odd.
			if reflect.DeepEqual(v, ours.AsStored(v)) {
				compareFailure(t, fails, text, v, want, n)
			}
			got := logic.Eval(f, v, reChecker{})
			neg := logic.Eval(logic.Not(f), v, reChecker{})
			if got+neg != 2 {
				t.Errorf("seed %d: %s: formula %v, negation %v\n%s", seed, text, got, neg, toJSON(v))
			}
			switch {
			case got == logic.Unsure:
				n.unsure++
				clear = false
			case (got == logic.Yes) != (want == ""):
				t.Fatalf("seed %d: rule %s\nof %s\non %s\nformula says %v, upstream says %q\n%#v", seed, text, toJSON(p), toJSON(v), got, want, f)
			}
		}
		if clear {
			n.clear++
		}
	}
}

// compareFailure holds the formula of the errors of a rule against upstream's evaluation.
func compareFailure(t testing.TB, fails logic.Formula, rule string, v any, want string, n *tally) {
	t.Helper()
	failed := strings.Contains(want, " evaluating rule: ") || strings.Contains(want, "did not match a supported operator")
	switch got := logic.Eval(fails, v, reChecker{}); {
	case got == logic.Unsure:
		n.unsureFailures++
	case (got == logic.Yes) != failed:
		t.Fatalf("rule %s\non %s\nan error: %v, and upstream says %q\n%#v", rule, toJSON(v), got, want, fails)
	}
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestAgreesWithUpstream(t *testing.T) {
	var n tally
	for seed := range draws.Seeds(100) {
		compareWithUpstream(t, seed, &n)
	}
	t.Logf("%+v: %.1f%% of the values unsure, %.1f%% of the rules compile, %.1f%% always decided", n,
		100*float64(n.unsure)/float64(n.values), 100*float64(n.compiled)/float64(n.rules), 100*float64(n.clear)/float64(n.compiled))
	if n.compiled*2 < n.rules {
		t.Errorf("only %d of %d rules compile", n.compiled, n.rules)
	}
}

func FuzzAgreesWithUpstream(f *testing.F) {
	for _, s := range []uint64{1, 2, 3} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		var n tally
		compareWithUpstream(t, seed, &n)
	})
}
