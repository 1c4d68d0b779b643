package celrule

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/tools/draws"
)

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{``, `self.`, `self ==`, `(`, `"`, `self.a ? 1`, `for`, "\x00", `[1, 2`, `self.a b`} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q: parsed as %s", text, r.Canonical())
		}
	}
	for _, text := range []string{
		strings.Repeat("a", MaxSize+1), strings.Repeat("[", 10_000), strings.Repeat("!", 10_000), strings.Repeat("(", 5_000),
		"[" + strings.Repeat("1,", 30_000) + "1]",
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%.10s...: no error", text)
		}
	}
	if _, err := Parse(strings.Repeat("a", MaxSize+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestNames(t *testing.T) {
	r := parse(t, `has(self.a__dash__b) && self.m['x.y'].all(v, v.__namespace__ == 'k') && self.?opt.hasValue()`)
	want := map[string]bool{
		"a__dash__b": true, "a-b": true, "m": true, "x.y": true, "__namespace__": true, "namespace": true, "k": true, "opt": true,
	}
	if d := cmp.Diff(want, r.Names()); d != "" {
		t.Error(d)
	}
}

func TestTransition(t *testing.T) {
	p := props{Type: "object", Properties: map[string]props{"a": {Type: "integer"}, "l": {
		Type:  "array",
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &props{Type: "integer"}},
	}}}
	for _, tt := range []struct {
		rule          string
		uses, upgrade bool
	}{
		{`self.a == 1`, false, false},
		{`self == oldSelf`, true, true},
		{`self.l.all(oldSelf, oldSelf > 1)`, true, true},
		{`self.l.all(oldSelf, true)`, false, false},
		{`self.a == 1 || 'oldSelf' == 'x'`, false, false},
	} {
		r := parse(t, tt.rule)
		if r.UsesOldSelf() != tt.uses || r.Transition(false) != tt.upgrade || r.Transition(true) {
			t.Errorf("%s: %v, %v", tt.rule, r.UsesOldSelf(), r.Transition(false))
		}
		if f := Translate(r, Scope{Spine: toNode(t, p)}); tt.upgrade && !isTrue(f) {
			t.Errorf("%s: %#v", tt.rule, f)
		}
		j := newJudge(t, p, tt.rule, false)
		if j == nil {
			t.Errorf("%s: upstream does not compile it", tt.rule)
			continue
		}
		if skipped := j.refuses(map[string]any{}) == ""; skipped != tt.upgrade && !strings.Contains(tt.rule, "true") {
			t.Errorf("%s: upstream evaluates it on creation: %v", tt.rule, !skipped)
		}
	}
}

func TestOptionalOldSelfOnCreation(t *testing.T) {
	p := props{Type: "object", Properties: map[string]props{"a": {Type: "integer"}, "s": {Type: "string"}}}
	yes := true
	for _, rule := range []string{
		`!oldSelf.hasValue() || self.a >= oldSelf.value().a`, `oldSelf.hasValue() || self.a == 1`,
		`oldSelf.orValue(self).a == 1`, `oldSelf.?a.orValue(5) == 5`, `oldSelf.optMap(o, o.a).orValue(2) == self.a`,
		`oldSelf.value().a == 1`, `oldSelf.optFlatMap(o, o.?s).hasValue()`, `oldSelf.or(optional.of(self)).value().a < 2`,
		`!oldSelf.?s.hasValue() ? has(self.s) : true`, `oldSelf.a.hasValue()`,
	} {
		j := newJudgeOf(t, p, apiextensionsv1.ValidationRule{Rule: rule, OptionalOldSelf: &yes}, false)
		if j == nil {
			t.Errorf("%s: upstream does not compile it", rule)
			continue
		}
		f := Translate(parse(t, rule), Scope{Spine: toNode(t, p), OptionalOldSelf: true, Checker: reChecker{}})
		for _, v := range []string{`{}`, `{"a":1}`, `{"a":2}`, `{"s":"x"}`, `{"a":5,"s":""}`} {
			v := decode(t, v)
			want := logic.No
			if j.refuses(v) == "" {
				want = logic.Yes
			}
			if got := logic.Eval(f, v, reChecker{}); got != want {
				t.Errorf("%s on %v: %v, want %v", rule, v, got, want)
			}
		}
	}
}

func TestNullIsNotEvaluated(t *testing.T) {
	n := node(t, `{"type":"string","nullable":true}`)
	f := Translate(parse(t, `self == 'a'`), Scope{Spine: n})
	for v, want := range map[any]logic.Truth{nil: logic.Yes, "a": logic.Yes, "b": logic.No} {
		if got := logic.Eval(f, v, reChecker{}); got != want {
			t.Errorf("%v: %v", v, got)
		}
	}
}

// ids collects the IDs of the opaque parts.
func ids(f logic.Formula) map[string]bool {
	out := map[string]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch kind := v.Kind(); {
		case kind == reflect.Interface && !v.IsNil():
			walk(v.Elem())
		case kind == reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case kind == reflect.Struct:
			if o, ok := reflect.TypeAssert[logic.Opaque](v); ok {
				out[o.ID] = true
				return
			}
			for _, f := range v.Fields() {
				walk(f)
			}
		}
	}
	walk(reflect.ValueOf(&f).Elem())
	return out
}

func TestOpaqueIDs(t *testing.T) {
	const rule = `self.a.trim() == self.b.lowerAscii()`
	base := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`
	of := func(schema, rule string) map[string]bool {
		return ids(Translate(parse(t, rule), Scope{Spine: node(t, schema)}))
	}
	want := of(base, rule)
	if len(want) == 0 {
		t.Fatal("nothing is opaque")
	}
	for _, same := range []string{
		`{"type":"object","properties":{"a":{"type":"string","maxLength":3},"b":{"type":"string","enum":["x"]},"c":{"type":"integer"}}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","pattern":"x"},"b":{"type":"string","format":"uuid"}}}`,
	} {
		if d := cmp.Diff(want, of(same, rule)); d != "" {
			t.Errorf("%s: %s", same, d)
		}
	}
	if d := cmp.Diff(want, of(base, `self.b.lowerAscii() == self.a.trim()`)); d != "" {
		t.Error(d)
	}
	for _, other := range []string{`self.a.trim() == self.b.upperAscii()`, `self.b.trim() == self.a.lowerAscii()`} {
		if cmp.Equal(want, of(base, other)) {
			t.Errorf("%s has the same IDs", other)
		}
	}
	// A rule that stands nearer to the value says the same of it.
	deep := of(`{"type":"object","properties":{"x":`+base+`}}`, `self.x.a.trim() == self.x.b.lowerAscii()`)
	if d := cmp.Diff(want, deep); d != "" {
		t.Error(d)
	}
	const list = `self.l.all(x, self.l.all(y, x.a == y.a || x.b.v != y.b.v))`
	shape := func(item string) map[string]bool {
		return of(`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{`+item+`}}}}}`, list)
	}
	want = shape(`"a":{"type":"string"},"b":{"type":"object","properties":{"v":{"type":"integer"}}}`)
	if d := cmp.Diff(want, shape(`"a":{"type":"string","minLength":1},"b":{"type":"object","properties":{"v":{"type":"integer"},"w":{"type":"string","default":"x"}}}`)); d != "" {
		t.Error(d)
	}
	for _, item := range []string{
		`"a":{"type":"string","default":"x"},"b":{"type":"object","properties":{"v":{"type":"integer"}}}`,
		`"a":{"type":"string","nullable":true},"b":{"type":"object","properties":{"v":{"type":"integer"}}}`,
		`"a":{"type":"string"},"b":{"type":"object","properties":{"v":{"type":"integer","default":1}}}`,
		`"a":{"type":"string"},"b":{"type":"object","default":{"v":1},"properties":{"v":{"type":"integer"}}}`,
		`"a":{"x-kubernetes-int-or-string":true},"b":{"type":"object","properties":{"v":{"type":"integer"}}}`,
		`"a":{"type":"string"},"b":{"type":"object","additionalProperties":{"type":"integer"}}`,
	} {
		if cmp.Equal(want, shape(item)) {
			t.Errorf("%s: the same IDs", item)
		}
	}
}

// change makes one change to a schema that may or may not matter to a rule.
func (g *gen) change(p *props) props {
	q := *p.DeepCopy()
	at := &q
	for range 3 {
		switch {
		case at.Items != nil && g.chance(70):
			at = at.Items.Schema
		case at.AdditionalProperties != nil && g.chance(70):
			at = at.AdditionalProperties.Schema
		case len(at.Properties) > 0:
			for _, name := range fieldNames {
				if c, ok := at.Properties[name]; ok && g.chance(50) {
					c = g.change(&c)
					at.Properties[name] = c
					return q
				}
			}
		}
	}
	switch g.IntN(8) {
	case 0:
		at.Nullable = !at.Nullable
	case 1:
		at.Default = nil
	case 2:
		if at.Type == "string" && at.Format == "" {
			at.Default = raw(pick(g, `"A"`, `"B"`))
		}
	case 3:
		if at.Type == "array" && at.XListType == nil {
			at.XListType = new("set")
		}
	case 4:
		if at.Type == "object" && at.Properties != nil {
			at.Properties["zz"] = props{Type: "string", Default: raw(`"u"`)}
		}
	case 5:
		if at.Type == "integer" {
			at.Type = "number"
		}
	case 6:
		if at.Type == "string" && at.Default == nil && at.Enum == nil {
			*at = props{XIntOrString: true}
		}
	case 7:
		at.MaxLength = new(int64(1000))
	}
	return q
}

func TestEqualFormulasMeanEqualVerdicts(t *testing.T) {
	equal, changed := 0, 0
	for seed := range draws.Seeds(200) {
		g := &gen{Rand: rand.New(rand.NewPCG(seed, 3))}
		p := g.object(3)
		q := g.change(&p)
		text := g.boolean([]genVar{{"self", &p, 0}}, 3)
		r := parse(t, text)
		f := Translate(r, Scope{Spine: toNode(t, p), Checker: reChecker{}})
		h := Translate(r, Scope{Spine: toNode(t, q), Checker: reChecker{}})
		if !reflect.DeepEqual(f, h) {
			changed++
			continue
		}
		j, k := newJudge(t, p, text, false), newJudge(t, q, text, false)
		if j == nil || k == nil {
			continue
		}
		for range 15 {
			v := g.value(&p)
			if !k.valid(v) {
				continue
			}
			equal++
			if a, b := j.refuses(v), k.refuses(v); (a == "") != (b == "") {
				t.Fatalf("seed %d: %s on %s\nunder %s: %q\nunder %s: %q\n%#v", seed, text, toJSON(v), toJSON(p), a, toJSON(q), b, f)
			}
		}
	}
	t.Logf("%d values under equal formulas, %d pairs of other formulas", equal, changed)
}

func TestHints(t *testing.T) {
	n := node(t, pod)
	got := Hints(parse(t, `self.a <= 3 && self.c.startsWith('x') && size(self.l) < 2 && self.os.all(o, o.k in ['p']) && self.m.all(k, k == 'y') && self.port == 80`),
		Scope{Spine: n})
	want := []Hint{
		{Path: []string{"a"}, Values: []any{int64(3), int64(2), int64(4)}},
		{Path: []string{"c"}, Values: []any{"x", "xa", "ax", "", "x://a"}},
		{Path: []string{"l"}, Sizes: []int64{1, 2, 3}},
		{Path: []string{"m", Keys}, Values: []any{"y", "ya", "ay", "", "y://a"}},
		{Path: []string{"os", Items, "k"}, Values: []any{"p", "pa", "ap", "", "p://a"}},
		{Path: []string{"port"}, Values: []any{int64(80), int64(79), int64(81)}},
	}
	for i := range got { // items of l are strings
		if cmp.Equal(got[i].Path, []string{"l", Items}) {
			got = append(got[:i], got[i+1:]...)
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRulesAreSafeForConcurrentUse(t *testing.T) {
	r := parse(t, `self.l.all(x, self.l.exists_one(y, x == y)) && self.d.trim() == 'x'`)
	n := node(t, pod)
	want := Translate(r, Scope{Spine: n, Checker: reChecker{}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if f := Translate(r, Scope{Spine: n, Checker: reChecker{}}); !reflect.DeepEqual(f, want) {
				t.Errorf("got another formula")
			}
			if r.Canonical() == "" || len(r.Names()) == 0 {
				t.Error("nothing")
			}
		})
	}
	wg.Wait()
}

// hostileRules are rules that would take very long if work were not bounded.
func hostileRules() map[string]string {
	nest := func(n int, open, inner, close string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(close, n)
	}
	fields := []string{"a", "b", "c", "d", "n", "flag", "port", "l", "os", "m"}
	var sum, many, alternatives, relations []string
	for i := range 60 {
		f := fields[i%len(fields)]
		sum = append(sum, "(has(self."+f+") && self.a > "+strings.Repeat("1", 1+i%9)+" ? 1 : 0)")
		many = append(many, "self.os.all(x, x.k == 'a' || has(self."+f+") || self.os.exists(y, y.k == x.k && y.v == self.a))")
		alternatives = append(alternatives, "(has(self."+f+") ? self.a : self.b)")
		relations = append(relations, "(has(self."+f+") && x.k != 'a' || x.v > 3 && has(self."+fields[(i*7)%10]+"))")
	}
	loops, closing := "", ""
	for i := range 40 {
		loops += "self.os.all(x" + strings.Repeat("x", i) + ", "
		closing += ")"
	}
	return map[string]string{
		"nested conditions":   nest(80, "(", "has(self.a)", " ? has(self.b) : has(self.c))"),
		"nested values":       nest(80, "(has(self.a) ? self.b : ", "self.a", ")") + " > 1",
		"nested negations":    nest(80, "!(has(self.a) && ", "true", ")"),
		"sum of conditions":   strings.Join(sum, " + ") + " == 7",
		"products of cases":   strings.Join(alternatives, " + ") + " > 3",
		"many macros":         strings.Join(many, " && "),
		"list of macros":      "[" + strings.Join(many, ", ") + "].exists_one(x, x)",
		"mixed statements":    "self.os.all(x, " + strings.Join(relations, " && ") + ") == self.os.exists(x, " + strings.Join(relations, " || ") + ")",
		"nested macros":       loops + "x.k == xx.k && self.a > 1" + closing,
		"counts of counts":    nest(12, "self.os.filter(x, ", "x.k == 'a'", ").size() == 1"),
		"equal booleans":      nest(60, "(has(self.a) == ", "has(self.b)", ")"),
		"long path":           "self" + strings.Repeat(".m", 5_000) + " == 'x'",
		"long list":           "self.c in [" + strings.Repeat("'x', ", 9_000) + "'y']",
		"long sum":            strings.Repeat("self.a + ", 3_000) + "1 > 2",
		"long alternative":    strings.Repeat("self.a == 1 || self.b > 2 && ", 1_500) + "true",
		"many literal lists":  strings.Repeat("[has(self.a), has(self.b), has(self.c)].exists_one(x, x) && ", 300) + "true",
		"large regex":         "self.c.matches('" + strings.Repeat("(a|b)?", 1_000) + "')",
		"optional chain":      "self" + strings.Repeat(".?os", 500) + ".hasValue()",
		"lists in lists":      nest(100, "[", "self.a", "]") + " == []",
		"unknown functions":   nest(100, "foo(", "self.a", ")") + " == 1",
		"wrong macros":        "self.all(1, true) || self.map(x.y, true) || has(1) || self.exists() || all(x, true)",
		"types out of order":  "self.a.all(x, x) || self.l + 1 > self.m || size(self.flag) == self.port || -self.c == !self.l",
		"numbers at the edge": "self.a - 9223372036854775807 - 10 > -9223372036854775807 && self.n * 1e308 * 1e308 > 0.0 && self.a / 0 == 1 && self.a % 0 == 1",
	}
}

func TestHostileRulesAreBounded(t *testing.T) {
	n := node(t, pod)
	for name, text := range hostileRules() {
		r, err := Parse(text)
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		f := Translate(r, Scope{Spine: n, Checker: reChecker{}, OptionalOldSelf: true, Root: true})
		if got := logic.Eval(f, decode(t, `{"a":1,"os":[{"k":"a","v":1},{"k":"b"}],"m":{"k":"v"},"l":["a"]}`), reChecker{}); got > logic.Yes {
			t.Errorf("%s: %v", name, got)
		}
		_, _ = r.Canonical(), Hints(r, Scope{Spine: n})
	}
}

func FuzzTranslate(f *testing.F) {
	for _, text := range hostileRules() {
		if len(text) < 2_000 {
			f.Add(text)
		}
	}
	for _, text := range stringRules {
		f.Add(text)
	}
	n := node(f, pod)
	values := []any{decode(f, `{"a":1,"os":[{"k":"a","v":1},{"k":"b"}],"m":{"k":"v"},"l":["a"]}`), map[string]any{}}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		_, _ = r.Canonical(), r.Names()
		for _, s := range []Scope{{Spine: n, Checker: reChecker{}}, {Spine: n, Root: true, OptionalOldSelf: true, Checker: reChecker{}}} {
			g := Translate(r, s)
			for _, v := range values {
				a, b := logic.Eval(g, v, reChecker{}), logic.Eval(logic.Not(g), v, reChecker{})
				if a+b != 2 {
					t.Errorf("%s: %v, negation %v", text, a, b)
				}
			}
			Hints(r, s)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(`(has(self.selector) ? 1 : 0) + (has(self.targetRef) ? 1 : 0) + (has(self.targetRefs) ? 1 : 0) <= 1`); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTranslate(b *testing.B) {
	n := node(b, pod)
	for _, text := range []string{
		`self.a <= 3`, `!has(self.a) || self.a > 3 && self.c != ''`, `(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) + (has(self.c) ? 1 : 0) <= 1`,
		`self.os.all(x, self.os.exists_one(y, x.k == y.k))`, `self.l.all(x, x.startsWith('a') || x in ['b', 'c'])`,
	} {
		r := parse(b, text)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				Translate(r, Scope{Spine: n, Checker: reChecker{}})
			}
		})
	}
}
