package celrule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/operators"
)

// dump writes a tree, chains of && and || flat.
func dump(e *expr) string {
	var args []string
	var add func(x *expr)
	add = func(x *expr) {
		if x.kind == call && x.name == e.name && (e.name == operators.LogicalAnd || e.name == operators.LogicalOr) && e.kind == call {
			for _, a := range x.args {
				add(a)
			}
			return
		}
		args = append(args, dump(x))
	}
	for _, a := range e.args {
		add(a)
	}
	return fmt.Sprintf("{%d %q %v %T:%#v %s}", e.kind, e.name, e.member, e.val, e.val, strings.Join(args, " "))
}

// sameParse fails where the quick parser reads something else than cel-go.
func sameParse(t *testing.T, text string) bool {
	t.Helper()
	a, ok := quick(text)
	if !ok {
		return false
	}
	b, err := parseFull(text)
	if err != nil {
		t.Errorf("%q: quick reads %s, cel-go says %v", text, dump(a), err)
		return true
	}
	if x, y := dump(a), dump(b); x != y {
		t.Errorf("%q:\nquick  %s\ncel-go %s", text, x, y)
	}
	return true
}

// quickCases are texts at the edge of what the quick parser reads.
var quickCases = []string{
	`-1`, `- 1`, `--1`, `-(1)`, `-a`, `-a.b`, `!-a`, `!!a`, `!!!a.b()`, `a-1`, `a -1`, `a - -1`, `-1.5`, `-9223372036854775808`, `9223372036854775808`,
	`1.size()`, `1.5.size()`, `1u`, `0x1F`, `1e3`, `1.e3`, `.5`, `1.`, `1..2`, `'a'`, `"a"`, `''`, `""`, `'''a'''`, `"""a"b"""`, `r'''\'''`, `r'\'`, `r"\d+"`,
	`R'\d'`, `b'a'`, `rb'a'`, `'\n\t\\\'\"'`, `"\x41"`, `'\u00e9'`, `'\101'`, `'\d'`, "'a\nb'", "'''a\nb'''", "r'a\nb'", "'a\rb'", "'''a\rb'''", `'é'`, `""""`, `""""""`, `"""""""`, `r""""""`, `'''\''''`,
	`a ? b : c`, `a ? b ? c : d : e`, `a ? (b ? c : d) : e`, `a ? b : c ? d : e`, `a || b ? c : d`, `a && b || c && d`, `a == b == c`, `a < b in c`,
	`a + b * c - d % e / f`, `a.b.c`, `a.?b`, `a.?b.c`, `a[0]`, `a[?0]`, `a["b"]`, `[1, 2,]`, `[,]`, `[]`, `[?a]`, `{}`, `{'a': 1}`, `{,}`, `A{}`, `a.B{c: 1}`,
	`f()`, `f(a,)`, `f(a, b)`, `a.f()`, `a.in`, `a.true`, `a.namespace`, `namespace`, `namespace(a)`, `a.for()`, `.a`, `.a.b`, `.f(a)`, `in`, `a in b`, `ain b`, `a in(b)`,
	`true`, `falsey`, `null`, `a // c`, "a // c\n && b", `a /b`, `a/b`, "a\t\r\n&&\fb", "a\vb", `a & b`, `a = b`, `a;`, `a.b.`, `a b`, `(a`, `a)`, `a[`, ``, ` `, "a.`b-c`",
	`a.b (c)`, `f (a)`, `a . b`, `a ? . b : c`, `a?.b:c`, `a ?b:c`, `has(a.b)`, `a.all(x, x)`, `"a" "b"`, `1 2`, `a.1`, `a.b1`, `_a`, `__x__`, `a!b`, `!a!=b`, `a?b:c`, `1-1`, `1 -1`, `[1]-1`, `"é" == 'é'`, "\xff", `'` + "\xff" + `'`,
}

func TestQuickParsesAsCELDoes(t *testing.T) {
	read := 0
	texts := slices.Concat(quickCases, stringRules)
	for _, text := range hostileRules() {
		texts = append(texts, text)
	}
	for seed := range uint64(200) {
		g := &gen{Rand: rand.New(rand.NewPCG(seed, 4))}
		p := g.object(3)
		texts = append(texts, g.boolean([]genVar{{"self", &p, 0}}, 4))
	}
	for _, text := range texts {
		if sameParse(t, text) {
			read++
		}
	}
	t.Logf("%d of %d read", read, len(texts))
	if read < len(texts)/2 {
		t.Errorf("only %d of %d read", read, len(texts))
	}
}

func FuzzQuick(f *testing.F) {
	for _, text := range slices.Concat(quickCases, stringRules) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 10_000 {
			sameParse(t, text)
		}
	})
}
