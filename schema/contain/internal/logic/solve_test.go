package logic

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	some    = "some"    // a model is found
	nothing = "nothing" // it is proven that there is none
	unknown = "unknown" // neither
)

func answer(r Result) string {
	switch {
	case len(r.Models) > 0:
		return some
	case r.None:
		return nothing
	}
	return unknown
}

var (
	ints    = Kinds(Int)
	floats  = Kinds(Float)
	texts   = Kinds(String)
	arrays  = Kinds(Array)
	objects = Kinds(Object)

	byKeyA  = Unique{By: UniqueBy{Keys: "a"}}
	byKeys  = Unique{By: UniqueBy{Keys: "a\x00b"}}
	byValue = Unique{}
)

func intsIn(lo, hi int64) Formula { return And{ints, IntRange{lo, hi}} }

func floatsIn(lo, hi float64) FloatRange { return FloatRange{Lo: lo, Hi: hi} }

func lazily(id any, f Formula) Lazy { return Lazy{ID: id, Make: func() Formula { return f }} }

// endless is true of objects that have a property a that is of the same kind again.
func endless() Lazy {
	return Lazy{ID: "endless", Make: func() Formula {
		return And{objects, Has{"a"}, Prop{"a", endless()}}
	}}
}

// items is true of lists of n items that are as f says.
func items(n int64, f Formula) And { return And{arrays, NumItems{n, n}, Items{f}} }

// farAway is true of integers that the search does not find.
var farAway = And{intsIn(1, 1<<40), IntMultiple{N: 999983}, IntMultiple{N: 7919}}

var solveCases = []struct {
	name string
	f    Formula
	want string
}{
	{"a disjunction of which a part says the same", And{objects, Prop{"t", And{texts, Enum{Values: []any{"A", "B"}}}}, Or{And{Has{"t"}, Enum{Values: []any{map[string]any{"t": "A"}}}}, Or{And{Has{"t"}, Enum{Values: []any{map[string]any{"t": "A"}}}}, And{Has{"t"}, Enum{Values: []any{map[string]any{"t": "A"}}}}}}, Prop{"t", Enum{Values: []any{"B"}}}}, nothing},
	{"a key of two, whose value is not found", And{objects, SomeKey{Enum{Values: []any{"k", "l"}}}, Rest{F: farAway}}, unknown},
	{"a key of two, whose value is impossible", And{objects, SomeKey{Enum{Values: []any{"k", "l"}}}, Rest{F: And{ints, IntRange{2, 1}}}}, nothing},
	{"a key that may be one of a named field, whose value is not found", And{objects, SomeKey{Enum{Values: []any{"k"}}}, Rest{[]string{"k"}, False}, Prop{"k", farAway}}, unknown},
	{"a key that only a named field may have, which is impossible", And{objects, SomeKey{Enum{Values: []any{"k"}}}, Rest{[]string{"k"}, False}, Prop{"k", False}}, unknown},
	{"true", True, some},
	{"false", False, nothing},
	{"kinds that exclude each other", And{ints, texts}, nothing},
	{"one of two kinds", And{Or{ints, texts}, Kinds(AnyKind &^ Int)}, some},
	{"every disjunct is impossible", And{Or{ints, texts}, Or{arrays, objects}}, nothing},
	{"only the last disjunct is possible", And{Or{arrays, Kinds(Bool), ints}, Or{objects, texts, ints}}, some},
	{"only the first disjunct is possible", And{Or{ints, arrays, Kinds(Bool)}, Or{ints, objects, texts}}, some},
	{"the last of three disjuncts that have to be tried", And{
		objects, Or{
			And{Has{"a"}, Prop{"a", And{ints, texts}}},
			And{Has{"b"}, Prop{"b", And{ints, texts}}},
			And{Has{"c"}, Prop{"c", And{ints, texts}}},
			And{Has{"d"}, Prop{"d", ints}},
		},
	}, some},

	{"a length that is exact", And{texts, Length{3, 3}}, some},
	{"lengths that leave one", And{texts, Length{0, 3}, Length{3, 9}}, some},
	{"lengths that leave none", And{texts, Length{0, 2}, Length{3, 9}}, nothing},
	{"longer than any request", And{texts, Length{maxLength + 1, Unbounded}}, nothing},
	{"longer than a maximum and no longer than one more", And{texts, Not(Length{0, 4}), Length{0, 5}}, some},
	{"shorter than a minimum and no shorter than one less", And{texts, Not(Length{4, Unbounded}), Length{3, 9}}, some},
	{"code points, not bytes", And{texts, Length{1, 1}, Pattern{Expr: "^(é)$"}}, some},
	{"a length says nothing of other kinds", And{Kinds(String | Int), Length{1, 2}, Length{3, 4}}, some},
	{"a pattern and its negation", And{texts, Pattern{Expr: "a"}, Pattern{Expr: "a", Neg: true}}, nothing},
	{"patterns without a common string", And{texts, Pattern{Expr: "^(a|b)$"}, Pattern{Expr: "^(c)$"}}, nothing},
	{"patterns with a common string", And{texts, Pattern{Expr: "^(a|b)$"}, Pattern{Expr: "b"}}, some},
	{"patterns that are not understood, or a boolean that is none", And{
		Kinds(String | Bool), Pattern{Expr: "^x"}, Pattern{Expr: "^y"}, Enum{Values: []any{true, false}, Neg: true},
	}, unknown},
	{"patterns that are not understood", And{texts, Pattern{Expr: "^x"}, Pattern{Expr: "^y"}}, unknown},
	{"a format and its negation", And{texts, Format{Name: "even"}, Format{Name: "even", Neg: true}}, nothing},
	{"of a format", And{texts, Format{Name: "even"}, Length{1, 9}}, some},
	{"not of a format", And{texts, Format{Name: "even", Neg: true}}, some},

	{"an integer that is fixed", intsIn(7, 7), some},
	{"an integer between neighbours", And{ints, IntRange{math.MinInt64, 7}, IntRange{8, math.MaxInt64}}, nothing},
	{"below a minimum and not below one less", And{ints, Not(IntRange{5, math.MaxInt64}), IntRange{4, 9}}, some},
	{"above a maximum and not above one more", And{ints, Not(IntRange{math.MinInt64, 5}), IntRange{0, 6}}, some},
	{"all integers", And{ints, Not(IntRange{math.MinInt64, math.MaxInt64})}, nothing},
	{"the least integer", And{ints, Not(IntRange{math.MinInt64 + 1, math.MaxInt64})}, some},
	{"a multiple in a small range", And{intsIn(8, 13), IntMultiple{N: 7}}, nothing},
	{"a multiple at the end of a small range", And{intsIn(8, 14), IntMultiple{N: 7}}, some},
	{"a multiple in a large range", And{intsIn(1, 1<<40), IntMultiple{N: 1 << 39}}, some},
	{"two numbers' multiple, far away", farAway, unknown},
	{"a multiple and not one", And{ints, IntMultiple{N: 3}, IntMultiple{N: 3, Neg: true}}, nothing},

	{"a float that is fixed", And{floats, floatsIn(1.5, 1.5)}, some},
	{"a float that is fixed and excluded", And{floats, floatsIn(1.5, 1.5), FloatRange{Lo: 1.5, LoOpen: true, Hi: 2}}, nothing},
	{"a half-open range of one", And{floats, FloatRange{Lo: 1, LoOpen: true, Hi: 1}}, nothing},
	{"an exclusive and an inclusive bound", And{floats, floatsIn(1, 2), FloatRange{Lo: 1, LoOpen: true, Hi: 2, HiOpen: true}, Not(FloatRange{Lo: 1, LoOpen: true, Hi: 9})}, nothing},
	{"the bound itself is in neither of two open ranges", And{floats, floatsIn(1, 1), Or{FloatRange{Lo: 1, LoOpen: true, Hi: 2}, FloatRange{Lo: 0, Hi: 1, HiOpen: true}}}, nothing},
	{"the bound itself, of an inclusive range", And{floats, floatsIn(1, 2), Not(FloatRange{Lo: 1, LoOpen: true, Hi: 2})}, some},
	{"below an inclusive minimum", And{floats, floatsIn(1, 9), Not(floatsIn(1, math.Inf(1)))}, nothing},
	{"above an inclusive maximum", And{floats, floatsIn(1, 9), Not(floatsIn(math.Inf(-1), 9))}, nothing},
	{"exactly integral between two integers", And{floats, floatsIn(0.25, 0.75), Integral{Exact: true}}, nothing},
	{"integral between two integers, as the API server computes it", And{floats, floatsIn(5e-324, 0.75), Integral{}}, unknown},
	{"integral, and not exactly", And{floats, Integral{}, Integral{Neg: true, Exact: true}}, unknown},
	{"integral in a small range where all are excluded", And{
		floats, floatsIn(1, 2), Integral{}, Enum{Values: []any{1.0, 2.0}, Neg: true},
	}, unknown},
	{"exactly integral in a small range where all are excluded", And{
		floats, floatsIn(1, 2), Integral{Exact: true}, Enum{Values: []any{1.0, 2.0}, Neg: true},
	}, nothing},
	{"exactly integral, but not as the API server computes it", And{floats, Integral{Exact: true}, Integral{Neg: true}}, nothing},
	{"floats in ranges that lie apart", And{floats, floatsIn(0, 1), floatsIn(2, 3)}, nothing},
	{"an inclusive bound above an exclusive one", And{floats, FloatRange{Lo: 0, LoOpen: true, Hi: 2}, floatsIn(1, 1)}, some},
	{"an inclusive bound below an exclusive one", And{floats, FloatRange{Lo: 0, Hi: 2, HiOpen: true}, floatsIn(1, 1)}, some},
	{"a multiple of a fraction", And{floats, floatsIn(0.3, 0.6), FloatMultiple{F: 0.5}}, some},

	{"an enum's value", Enum{Values: []any{"x"}}, some},
	{"an enum's value and not", And{Enum{Values: []any{"x"}}, Enum{Values: []any{"x"}, Neg: true}}, nothing},
	{"null equals no enum value", And{Enum{Values: []any{nil}}, Kinds(Null)}, nothing},
	{"an integer is converted to a letter", And{Enum{Values: []any{"A"}}, ints}, some},
	{"an integer is converted to no word", And{Enum{Values: []any{"AB"}}, ints}, nothing},
	{"a float is cut to an integer", And{Enum{Values: []any{int64(1)}}, floats, Not(floatsIn(1, 1))}, some},
	{"a float is cut to no other integer", And{Enum{Values: []any{int64(1)}}, floats, FloatRange{Lo: 2, Hi: 3}}, nothing},
	{"a float that is cut to an integer and is a multiple", And{
		Enum{Values: []any{int64(1)}}, floats, FloatRange{Lo: 1, LoOpen: true, Hi: 2}, FloatMultiple{F: 0.35},
	}, unknown},
	{"an integral float equals the integer", And{Enum{Values: []any{int64(3)}}, floats, Integral{Exact: true}}, some},
	{"a whole list", And{Enum{Values: []any{[]any{int64(1)}}}, arrays, NumItems{1, 1}}, some},
	{"a whole list of another length", And{Enum{Values: []any{[]any{int64(1)}}}, arrays, NumItems{2, 2}}, nothing},

	{"a property that is there and is not", And{objects, Has{"a"}, Lacks{"a"}}, nothing},
	{"a property that cannot be", And{objects, Has{"a"}, Prop{"a", And{ints, texts}}}, nothing},
	{"a property that cannot be and need not", And{objects, Prop{"a", And{ints, texts}}}, some},
	{"not a property of a kind", And{objects, Not(Prop{"a", ints}), Lacks{"a"}}, nothing},
	{"an object with exactly what it must have", And{objects, Has{"a"}, Has{"b"}, NumProps{0, 2}}, some},
	{"an object with more than it may have", And{objects, Has{"a"}, Has{"b"}, NumProps{0, 1}}, nothing},
	{"no property may be added", And{objects, Rest{Except: []string{"a"}, F: False}, NumProps{2, 9}}, nothing},
	{"the optional property makes up the number", And{objects, Rest{Except: []string{"a"}, F: False}, NumProps{1, 9}}, some},
	{"undeclared properties of a kind", And{objects, Rest{F: ints}, SomeRest{F: texts}}, nothing},
	{"an undeclared property of another kind", And{objects, Rest{Except: []string{"a"}, F: ints}, SomeRest{F: texts}}, some},
	{"two undeclared properties", And{objects, SomeRest{F: texts}, SomeRest{F: ints}}, some},
	{"two undeclared properties where one has a place", And{
		objects, NumProps{0, 1}, SomeRest{F: texts}, SomeRest{F: ints},
	}, unknown},
	{"two undeclared properties, of which the first takes the second's place", And{
		objects, Rest{Except: []string{"a", "b"}, F: False}, Prop{"a", Or{texts, ints}}, Prop{"b", texts}, SomeRest{F: texts}, SomeRest{F: ints},
	}, unknown},
	{"what is not undeclared for one is for the other", And{
		objects, Rest{Except: []string{"a"}, F: False}, SomeRest{F: And{ints, IntRange{1, 9}}}, Prop{"a", ints},
	}, some},
	{"keys as they must be", And{objects, AllKeys{Pattern{Expr: "^(x)$"}}, NumProps{1, 9}}, some},
	{"more keys than there are", And{objects, AllKeys{Pattern{Expr: "^(x)$"}}, NumProps{2, 9}}, unknown},
	{"a key that may not be", And{objects, AllKeys{Pattern{Expr: "^(x)$"}}, Has{"y"}}, nothing},
	{"a key of a form", And{objects, SomeKey{Pattern{Expr: "^(x)$"}}}, some},
	{"a key that all are not", And{objects, SomeKey{Pattern{Expr: "^(x)$"}}, AllKeys{Not(Pattern{Expr: "^(x)$"})}}, nothing},

	{"an empty list", And{arrays, NumItems{0, 0}}, some},
	{"an item in an empty list", And{arrays, NumItems{0, 0}, SomeItem{True}}, nothing},
	{"one item for two purposes", And{arrays, NumItems{0, 1}, SomeItem{ints}, SomeItem{texts}}, nothing},
	{"one item for two purposes that it can serve", And{arrays, NumItems{0, 1}, SomeItem{ints}, SomeItem{IntRange{3, 3}}}, some},
	{"two items for three purposes", And{arrays, NumItems{0, 2}, SomeItem{ints}, SomeItem{Or{ints, texts}}, SomeItem{texts}}, unknown},
	{"an item that all are not", And{arrays, Items{ints}, SomeItem{texts}}, nothing},
	{"equal items", And{arrays, NumItems{2, 2}, Not(byValue)}, some},
	{"equal items in a list of one", And{arrays, NumItems{0, 1}, Not(byValue)}, nothing},
	{"distinct items and equal ones", And{arrays, byValue, Not(byValue)}, nothing},
	{"as many distinct items as there are values", append(items(2, Kinds(Bool)), byValue), some},
	{"more distinct items than there are values", append(items(3, Kinds(Bool)), byValue), nothing},
	{"more items than there are values", items(3, Kinds(Bool)), some},
	{"distinct by two keys, equal by one", And{arrays, byKeys, Not(byKeyA), Items{And{
		objects, Has{"a"}, Has{"b"},
	}}}, some},
	{"distinct by one key, equal by two", And{arrays, byKeyA, Not(byKeys)}, nothing},
	{"distinct by a key, equal as a whole", And{arrays, byKeyA, Not(byValue)}, nothing},
	{"distinct as a whole, equal by a key", And{arrays, byValue, Not(byKeyA), Items{And{objects, Has{"a"}, Has{"b"}}}}, some},
	{"distinct by a key, equal by two of which the other has a default", And{arrays, byKeyA, Not(Unique{By: UniqueBy{Keys: "a\x00b", Defaults: "b=1"}})}, nothing},
	{"distinct by a key before defaulting", And{arrays, byKeyA, Not(Unique{By: UniqueBy{Keys: "a\x00b", Defaults: "a=1\x00b=1"}})}, unknown},
	{"distinct by a key, equal by the text of two", And{
		arrays, Unique{By: UniqueBy{Keys: "a", Text: true}}, Not(Unique{By: UniqueBy{Keys: "a\x00b", Text: true, Numbers: true}}),
	}, unknown},
	{"distinct by the text of a key, equal by that of two", And{
		arrays, Unique{By: UniqueBy{Keys: "a", Text: true, Numbers: true}}, Not(Unique{By: UniqueBy{Keys: "a\x00b", Text: true, Numbers: true}}),
	}, nothing},
	{"distinct in two ways, where the first item that comes to mind fits no other", append(items(2, Enum{Values: []any{
		map[string]any{"a": "x", "b": "x"}, map[string]any{"a": "x", "b": "y"}, map[string]any{"a": "y", "b": "x"},
	}}), byKeyA, Unique{By: UniqueBy{Keys: "b"}}), unknown},
	{"one item without the key and one with it", And{arrays, byKeyA, NumItems{2, 2}, SomeItem{And{objects, Lacks{"a"}}}, SomeItem{And{objects, Has{"a"}}}}, some},

	{"something opaque", Opaque{ID: "x"}, some},
	{"something opaque and its negation", And{Opaque{ID: "x"}, Opaque{ID: "x", Neg: true}}, nothing},
	{"two opaque statements", And{Opaque{ID: "x"}, Opaque{ID: "y", Neg: true}}, some},
	{"a lazy formula and its negation", And{lazily(1, Opaque{ID: "x"}), Not(lazily(1, Opaque{ID: "y"}))}, nothing},
	{"a lazy formula in two disjuncts", And{lazily(1, texts), Or{Not(lazily(1, texts)), ints}}, nothing},
	{"what nests without end", endless(), unknown},
	{"what nests without end, or not", Or{endless(), ints}, some},
	{"a disjunct that holds of another kind", And{Kinds(String | Int), Length{5, 5}, Or{Length{0, 4}, Kinds(Null)}}, some},
	{"a disjunct that the length does not entail", And{texts, Length{2, 5}, Or{Length{1, 3}, Kinds(Null)}, Length{4, 9}}, nothing},
}

func TestSolve(t *testing.T) {
	for _, test := range solveCases {
		t.Run(test.name, func(t *testing.T) {
			s := Solver{Strings: library{}, Budget: 100_000}
			r := s.Solve(3, test.f)
			if got := answer(r); got != test.want {
				t.Fatalf("%s, want %s: %+v", got, test.want, r)
			}
			if (r.Reason != "") != (test.want == unknown) {
				t.Errorf("the reason is %q where the answer is %s", r.Reason, test.want)
			}
			for _, m := range r.Models {
				if Eval(test.f, m, library{}) == No {
					t.Errorf("the formula is false of its model %v", m)
				}
			}
			if again := s.Solve(3, test.f); !cmp.Equal(r, again) {
				t.Errorf("a second search finds something else (-first +second):\n%s", cmp.Diff(r, again))
			}
		})
	}
}

// What is proven with a large budget is never refuted with a small one, nor the other way round: too little leads to no
// answer.
func TestBudget(t *testing.T) {
	for _, test := range solveCases {
		t.Run(test.name, func(t *testing.T) {
			for budget := range int64(120) {
				s := Solver{Strings: library{}, Budget: budget}
				r := s.Solve(3, test.f)
				if got := answer(r); got != test.want && got != unknown {
					t.Fatalf("with a budget of %d: %s, want %s or %s", budget, got, test.want, unknown)
				}
				if answer(r) == unknown && r.Reason == "" {
					t.Errorf("with a budget of %d: no answer and no reason", budget)
				}
			}
		})
	}
}

func TestSolveSaysWhatStoppedIt(t *testing.T) {
	deep := Solver{Strings: library{}, Budget: 1_000_000}
	if r := deep.Solve(1, endless()); r.None || !strings.Contains(r.Reason, "deep") {
		t.Errorf("what nests without end: %+v, want a reason that speaks of depth", r)
	}
	total := NewWork(1_000)
	small := Solver{Strings: library{}, Budget: 5, Total: total}
	if r := small.Solve(1, endless()); r.None || !strings.Contains(r.Reason, "budget") {
		t.Errorf("a small budget: %+v, want a reason that speaks of the budget", r)
	}
	if total.Done() <= 5 {
		t.Errorf("work of %d units, and the budget of 5 was said to be spent", total.Done())
	}
}

// An object of many members that are all free to choose is copied for each model that is asked for, and not for each member.
func TestObjectsOfManyMembersAreCopiedFewTimes(t *testing.T) {
	const members, want = 4000, 12
	f := And{objects}
	for i := range members {
		f = append(f, Has{fmt.Sprintf("k%04d", i)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := Solver{Strings: library{}, Budget: 1 << 30}
	r := s.Solve(want, f)
	runtime.ReadMemStats(&after)
	if len(r.Models) < want/2 {
		t.Errorf("%d models", len(r.Models))
	}
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 200 {
		t.Errorf("%d MB are allocated", mb)
	}
}

// The names of fields that must exist are written down once, and not again for each that is added.
func TestManyDemandedFieldsTakeLittleMemory(t *testing.T) {
	f := And{objects, Rest{F: False}}
	for i := range 20_000 {
		f = append(f, Has{fmt.Sprintf("k%05d", i)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := Solver{Strings: library{}, Budget: 1 << 30}
	s.Solve(1, f)
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 300 {
		t.Errorf("%d MB are allocated", mb)
	}
}
