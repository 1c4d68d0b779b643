package logic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice.dev/tools/draws"
)

// generator makes small formulas out of small constants, so that they often meet.
type generator struct {
	*rand.Rand
	// lazies counts the lazy formulas: each says something else.
	lazies int
}

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) bounds() (lo, hi int64) {
	lo = int64(g.IntN(3))
	return lo, lo + int64(g.IntN(3))
}

// value returns one of the values that formulas are tried on.
func (g *generator) value(depth int) any {
	switch n := g.IntN(8); {
	case n < 3:
		return pick[any](g, nil, true, int64(0), int64(1), int64(2), int64(65), 0.5, 1.0, 1.5, 65.0)
	case n < 5 || depth == 0:
		return pick[any](g, "", "a", "b", "A", "ab", "é", "aé")
	case n < 7:
		out := map[string]any{}
		for _, k := range []string{"a", "b", "c", "x"} {
			if g.IntN(2) == 0 {
				out[k] = g.value(depth - 1)
			}
		}
		return out
	}
	out := make([]any, g.IntN(4))
	for i := range out {
		if out[i] = g.value(depth - 1); i > 0 && g.IntN(3) == 0 {
			out[i] = out[0]
		}
	}
	return out
}

func (g *generator) formula(depth int) Formula {
	if depth > 0 {
		switch g.IntN(12) {
		case 0, 1, 2:
			return And{g.formula(depth - 1), g.formula(depth - 1)}
		case 3, 4:
			return Or{g.formula(depth - 1), g.formula(depth - 1)}
		case 5:
			return Not(g.formula(depth - 1))
		case 6:
			g.lazies++
			id := g.lazies
			return lazily(id, g.formula(depth-1))
		case 7, 8:
			return g.object(depth)
		case 9:
			return g.array(depth)
		}
	}
	return g.scalar()
}

func (g *generator) scalar() Formula {
	lo, hi := g.bounds()
	switch g.IntN(9) {
	case 0:
		return Length{lo, hi}
	case 1:
		return Pattern{Expr: pick(g, "a", "^(a|b)$", "^(é)$", "b$"), Neg: g.IntN(2) == 0}
	case 2:
		return Format{Name: pick(g, "even", "any"), Neg: g.IntN(4) == 0}
	case 3:
		return IntRange{lo - 1, hi}
	case 4:
		return pick[Formula](g, IntMultiple{N: 2}, IntMultiple{N: 2, Neg: true}, FloatMultiple{F: 0.5}, FloatMultiple{F: 1, Neg: true})
	case 5:
		return FloatRange{Lo: float64(lo), Hi: float64(hi), LoOpen: g.IntN(2) == 0, HiOpen: g.IntN(2) == 0}
	case 6:
		return Integral{Neg: g.IntN(2) == 0, Exact: g.IntN(2) == 0}
	case 7:
		return Enum{Values: []any{g.value(1), g.value(0)}, Neg: g.IntN(3) == 0}
	}
	return Kinds(1 + g.IntN(int(AnyKind)))
}

func (g *generator) object(depth int) Formula {
	name := pick(g, "a", "b", "c")
	except := pick(g, nil, []string{"a"}, []string{"a", "b"}, []string{"b", "c"})
	switch g.IntN(9) {
	case 0, 1:
		return Has{name}
	case 2:
		return Lacks{name}
	case 3, 4:
		return Prop{name, g.formula(depth - 1)}
	case 5:
		return Rest{except, g.formula(depth - 1)}
	case 6:
		return SomeRest{except, g.formula(depth - 1)}
	case 7:
		f := Pattern{Expr: pick(g, "^(a|b|x)$", "^(x)$", "a")}
		return pick[Formula](g, AllKeys{f}, SomeKey{f})
	}
	lo, hi := g.bounds()
	return NumProps{lo, hi}
}

func (g *generator) array(depth int) Formula {
	switch g.IntN(5) {
	case 0:
		return Items{g.formula(depth - 1)}
	case 1, 2:
		return SomeItem{g.formula(depth - 1)}
	case 3:
		return Unique{By: pick(g, UniqueBy{}, UniqueBy{Text: true}, UniqueBy{Keys: "a"}, UniqueBy{Keys: "a\x00b"},
			UniqueBy{Keys: "a", Text: true}, UniqueBy{Keys: "a\x00b", Text: true, Numbers: true}), Neg: g.IntN(2) == 0}
	}
	lo, hi := g.bounds()
	return NumItems{lo, hi}
}

// small are all scalars, and the small lists and objects that can be made of a few of them.
func small() []any {
	scalars := []any{nil, true, false, int64(-1), int64(0), int64(1), int64(2), int64(65), -0.5, 0.5, 1.0, 1.5, 2.0, 65.0, "", "a", "b", "A", "ab", "é", "aé"}
	inner := []any{nil, int64(1), 1.5, "a", "ab", map[string]any{}, map[string]any{"a": int64(1)}, []any{}}
	out := append(slices.Clone(scalars), []any{})
	for _, x := range inner {
		out = append(out, []any{x})
		for _, y := range inner {
			out = append(out, []any{x, y}, []any{x, y, "b"})
		}
	}
	inner = append(inner, "no property")
	for _, x := range inner {
		for _, y := range inner {
			for _, z := range []any{"no property", int64(1), "a"} {
				o := map[string]any{}
				for k, v := range map[string]any{"a": x, "b": y, "x": z} {
					if v != "no property" {
						o[k] = v
					}
				}
				out = append(out, o)
			}
		}
	}
	return out
}

const formulas = 20_000

// No value makes a formula true of which it was proven that none does; every model makes its formula true; and of the
// formulas that a small value makes true, nearly all have a model that is found.
func TestSolveAgreesWithBruteForce(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(1, 2))}
	values := small()
	found, missed, proven := 0, 0, 0
	for range formulas {
		f := And{g.formula(3), g.formula(3), g.formula(3), g.formula(2)}
		s := Solver{Strings: library{}, Budget: 20_000}
		r := s.Solve(1+g.IntN(4), f)
		for _, m := range r.Models {
			if Eval(f, m, library{}) != Yes {
				t.Fatalf("%s\nis not true of its model %#v", show(f), m)
			}
		}
		tried := values
		for range 20 {
			tried = append(tried, g.value(3))
		}
		i := slices.IndexFunc(tried, func(v any) bool { return Eval(f, v, library{}) == Yes })
		switch {
		case r.None && i >= 0:
			t.Fatalf("%s\nhas the model %#v, and it was proven that there is none", show(f), tried[i])
		case r.None:
			proven++
		case len(r.Models) > 0:
			found++
		case i >= 0:
			missed++
		}
	}
	t.Logf("of %d formulas %d have a model that was found, %d one that was not, %d are proven to have none", formulas, found, missed, proven)
	if proven < formulas/50 {
		t.Errorf("of only %d formulas out of %d was it proven that they have no model: the test shows little", proven, formulas)
	}
	if missed > found/20 {
		t.Errorf("the search missed the models of %d formulas and found those of %d", missed, found)
	}
}

// Of objects with many disjunctions, most of which have no part in a contradiction, it is proven that there is none exactly
// where no object makes the formula true: a choice is only passed over where it has no part.
func TestUnionsAgreeWithBruteForce(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(7, 8))}
	names := []string{"a", "b", "c", "d", "t"}
	letters := []any{"A", "B", "C"}
	var objects []any
	for n := range 4 * 2 * 2 * 2 * 2 {
		o := map[string]any{}
		for i, name := range names[:4] {
			if n>>i&1 == 1 {
				o[name] = "A"
			}
		}
		if n>>4 > 0 {
			o["t"] = letters[n>>4-1]
		}
		objects = append(objects, o)
	}
	for round := range draws.Count(2_000) {
		exact := round%3 > 0 // values of whole objects are searched less well
		atom := func() Formula {
			name := pick(g, names...)
			e := Enum{Values: []any{pick(g, letters...)}, Neg: g.IntN(3) == 0}
			whole := Formula(Enum{Values: []any{pick(g, objects...), pick(g, objects...)}, Neg: g.IntN(2) == 0})
			if exact {
				whole = Has{name}
			}
			return pick[Formula](g, whole, Has{name}, Lacks{name}, Prop{"t", e}, And{Has{"t"}, Prop{"t", e}}, Not(Prop{"t", e}), And{Has{name}, Lacks{pick(g, names...)}})
		}
		f := And{Kinds(Object), Rest{Except: names, F: False}, Prop{"t", And{Kinds(String), Enum{Values: letters}}}}
		for _, name := range names[:4] {
			f = append(f, Prop{name, Enum{Values: []any{"A"}}}, Prop{name, Kinds(String)})
		}
		for range 2 + g.IntN(9) {
			or := Or{atom(), atom()}
			if g.IntN(2) == 0 {
				or = append(or, atom(), And{atom(), Or{atom(), atom()}})
			}
			f = append(f, pick[Formula](g, or, or, or, Not(And{or, atom()})))
		}
		s := Solver{Strings: library{}, Budget: 100_000}
		r := s.Solve(1, f)
		i := slices.IndexFunc(objects, func(v any) bool { return Eval(f, v, library{}) == Yes })
		if r.None && i >= 0 || len(r.Models) > 0 && i < 0 || exact && (r.None != (i < 0) || len(r.Models) == 0 != (i < 0)) {
			t.Fatalf("%s\nproven to have no model: %t, %s, models %v; an object that makes it true: %d", show(f), r.None, r.Reason, r.Models, i)
		}
	}
}

// The negation of a formula is true where the formula is false, and nowhere else.
func TestNotAgreesWithEval(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(3, 4))}
	values := small()
	for range formulas / 4 {
		f := g.formula(3)
		for range 40 {
			v := pick(g, values...)
			if is, not := Eval(f, v, library{}), Eval(Not(f), v, library{}); is+not != Yes {
				t.Fatalf("%s\nof %#v: %d, and its negation %d", show(f), v, is, not)
			}
		}
	}
}

// What the literals of a conjunction entail or contradict without search, every value that makes them true shows.
func TestKnownAgreesWithEval(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(5, 6))}
	values := small()
	decided := 0
	for range formulas {
		var literals And
		for range 1 + g.IntN(4) {
			literals = append(literals, pick(g, g.scalar(), g.object(1), g.array(1)))
		}
		f := pick(g, g.scalar(), g.object(1), g.array(1), Not(g.scalar()), g.formula(2))
		s := Solver{Strings: library{}, Budget: 20_000}
		s.prepareMemory()
		s.work = Work{limit: s.Budget}
		st := newState()
		if !s.addFormula(st, literals, 0) {
			continue
		}
		known, _ := s.knownTruth(st, f)
		if known == Unsure {
			continue
		}
		decided++
		for _, v := range values {
			if Eval(literals, v, library{}) == Yes && Eval(f, v, library{}) != known {
				t.Fatalf("%s\ndecides\n%s\nas %d, but not for %#v", show(literals), show(f), known, v)
			}
		}
	}
	if decided < formulas/20 {
		t.Errorf("only %d were decided: the test shows little", decided)
	}
}

// show writes a formula with what lazy ones stand for.
func show(f Formula) string {
	switch f := f.(type) {
	case Lazy:
		return fmt.Sprintf("Lazy{%v %v %s}", f.ID, f.Neg, show(f.Make()))
	case And:
		return "And" + showAll(f)
	case Or:
		return "Or" + showAll(f)
	case Prop:
		return fmt.Sprintf("Prop{%s %s}", f.Name, show(f.F))
	case Rest:
		return fmt.Sprintf("Rest{%q %s}", f.Except, show(f.F))
	case SomeRest:
		return fmt.Sprintf("SomeRest{%q %s}", f.Except, show(f.F))
	case Items:
		return "Items{" + show(f.F) + "}"
	case SomeItem:
		return "SomeItem{" + show(f.F) + "}"
	}
	return fmt.Sprintf("%T%+v", f, f)
}

func showAll(fs []Formula) string {
	out := "{"
	for _, f := range fs {
		out += show(f) + ", "
	}
	return out + "}"
}
