// Package logic decides formulas about JSON values: it finds a value that makes a formula true, or shows that there is
// none. Schemas and validation rules are translated into these formulas by the packages above; "everything that A
// accepts, B accepts" is then "A and not B has no model".
//
// It promises that the answer "no model" is a proof: every case was tried, or ruled out. It also promises that a formula is true of
// every model that it offers, except for [Opaque] parts, which stand for statements that cannot be expressed. The caller has to check
// those. It does not know Kubernetes.
package logic

import (
	"math"
	"slices"
)

// Kind is a set of JSON kinds. Numbers that are decoded to int64 and to float64 are different kinds, because the API
// server treats them differently.
type Kind uint8

// The kinds.
const (
	Null Kind = 1 << iota
	Bool
	Int
	Float
	String
	Array
	Object

	AnyKind Kind = 1<<7 - 1
	Number       = Int | Float
	NonNull      = AnyKind &^ Null
	nKinds       = 7
)

// KindOf returns the kind of a decoded JSON value: nil, bool, int64, float64, string, []any or map[string]any.
func KindOf(v any) Kind {
	switch v.(type) {
	case nil:
		return Null
	case bool:
		return Bool
	case int64:
		return Int
	case float64:
		return Float
	case string:
		return String
	case []any:
		return Array
	case map[string]any:
		return Object
	}
	return 0
}

// Formula is a statement about one JSON value. Formulas about one kind (Length, Prop, Items and so on) are true of every value of
// another kind, as keywords of JSON Schema are.
type Formula interface {
	// negatedForm is what [Not] returns.
	negatedForm() Formula
}

// Unbounded stands for "no maximum" in Length, NumItems and NumProps.
const Unbounded int64 = math.MaxInt64

type (
	// And is true if all parts are; the empty And is true.
	And []Formula
	// Or is true if one part is; the empty Or is false.
	Or []Formula
	// Kinds is true of values of these kinds.
	Kinds Kind

	// Length bounds the number of Unicode code points of a string, both ends inclusive.
	Length struct{ Min, Max int64 }
	// Pattern is true of strings in which the RE2 expression finds a match (unanchored, as the API server uses it), or finds none if Neg
	// is set.
	Pattern struct {
		Expr string
		Neg  bool
	}
	// Format is true of strings that the API server accepts for the format, or does not accept if Neg is set.
	Format struct {
		Name string
		Neg  bool
	}

	// IntRange bounds an Int, both ends inclusive.
	IntRange struct{ Lo, Hi int64 }
	// FloatRange bounds a Float.
	FloatRange struct {
		Lo, Hi         float64
		LoOpen, HiOpen bool
	}
	// IntMultiple is true of an Int that N divides (N > 0), or does not divide if Neg is set.
	IntMultiple struct {
		N   int64
		Neg bool
	}
	// FloatMultiple is true of a Float that is a multiple of F as the API server computes it, or that is none if Neg is set.
	FloatMultiple struct {
		F   float64
		Neg bool
	}
	// Integral is true of a Float without fraction, small enough to be exact; or of any other Float if Neg is set. Unless Exact is set, it
	// ignores a fraction of up to a billionth of the value, as the API server does outside of type: integer.
	Integral struct{ Neg, Exact bool }

	// Enum is true of a value that equals one of Values in the API server's sense (see [Same]), or none if Neg is set. It is about all
	// kinds; null equals nothing.
	Enum struct {
		Values []any
		Neg    bool
	}

	// Has is true of objects that have the property.
	Has struct{ Name string }
	// Lacks is true of objects that do not have the property.
	Lacks struct{ Name string }
	// Prop is true of objects that lack the property, or whose property satisfies F.
	Prop struct {
		Name string
		F    Formula
	}
	// Rest is true if F is true of every property that is not in Except (sorted).
	Rest struct {
		Except []string
		F      Formula
	}
	// SomeRest is true of objects that have a property not in Except (sorted) whose value satisfies F.
	SomeRest struct {
		Except []string
		F      Formula
	}
	// AllKeys is true of objects whose keys all satisfy F.
	AllKeys struct{ F Formula }
	// SomeKey is true of objects with a key that satisfies F.
	SomeKey struct{ F Formula }
	// NumProps bounds the number of properties, both ends inclusive.
	NumProps struct{ Min, Max int64 }

	// Items is true of arrays whose items all satisfy F.
	Items struct{ F Formula }
	// SomeItem is true of arrays with an item that satisfies F.
	SomeItem struct{ F Formula }
	// NumItems bounds the number of items, both ends inclusive.
	NumItems struct{ Min, Max int64 }
	// Unique is true of arrays without two equal items, or with two if Neg is set.
	Unique struct {
		By  UniqueBy
		Neg bool
	}

	// Opaque stands for a statement that cannot be expressed. Two with the same ID mean the same.
	Opaque struct {
		ID  string
		Neg bool
	}
	// Lazy is a formula that is made when it is needed. Two with the same ID (any comparable value, not nil) mean the same; make must
	// always return equal formulas.
	Lazy struct {
		ID   any
		Make func() Formula
		Neg  bool
		// Small says that the formula is short, so that it is worth a check before it is needed.
		Small bool
	}
)

// UniqueBy says when two items are equal. The zero value: when they are deeply equal (uniqueItems).
type UniqueBy struct {
	// Text is set if lists and objects are equal when their JSON texts are. Then [1] equals [1.0], although 1 does not equal 1.0
	// (list-type set and map).
	Text bool
	// Numbers is set if keys that are numbers are equal when their JSON texts are. Then the key 1 equals the key 1.0 (list-type map with
	// several keys). It may be set if no key can be a number.
	Numbers bool
	// Keys, joined by U+0000 and sorted, are the properties that identify an item of a list-type map; empty otherwise.
	Keys string
	// Defaults identifies the defaults inside of the items, or of the keys, because defaulting can make items equal. It is empty if there
	// are none. Those of keys are written as key=value, sorted and joined by U+0000.
	Defaults string
}

// True and False.
var (
	True  Formula = And(nil)
	False Formula = Or(nil)
)

// Not returns the negation: it is true of exactly the values of which f is not, of other kinds too.
func Not(f Formula) Formula { return f.negatedForm() }

func (f And) negatedForm() Formula           { return Or(negateAll(f)) }
func (f Or) negatedForm() Formula            { return And(negateAll(f)) }
func (f Kinds) negatedForm() Formula         { return AnyKinds(AnyKind &^ Kind(f)) }
func (f Pattern) negatedForm() Formula       { return And{Kinds(String), Pattern{f.Expr, !f.Neg}} }
func (f Format) negatedForm() Formula        { return And{Kinds(String), Format{f.Name, !f.Neg}} }
func (r IntRange) negatedForm() Formula      { return And{Kinds(Int), r.rangesOutside()} }
func (r FloatRange) negatedForm() Formula    { return And{Kinds(Float), r.rangesOutside()} }
func (f IntMultiple) negatedForm() Formula   { return And{Kinds(Int), IntMultiple{f.N, !f.Neg}} }
func (f FloatMultiple) negatedForm() Formula { return And{Kinds(Float), FloatMultiple{f.F, !f.Neg}} }
func (f Integral) negatedForm() Formula      { return And{Kinds(Float), Integral{!f.Neg, f.Exact}} }
func (f Enum) negatedForm() Formula          { return Enum{f.Values, !f.Neg} }
func (f Opaque) negatedForm() Formula        { return Opaque{f.ID, !f.Neg} }
func (l Lazy) negatedForm() Formula          { return Lazy{l.ID, l.Make, !l.Neg, l.Small} }
func (f Has) negatedForm() Formula           { return And{Kinds(Object), Lacks(f)} }
func (f Lacks) negatedForm() Formula         { return And{Kinds(Object), Has(f)} }
func (f Prop) negatedForm() Formula          { return And{Kinds(Object), Has{f.Name}, Prop{f.Name, Not(f.F)}} }

func (f Rest) negatedForm() Formula     { return And{Kinds(Object), SomeRest{f.Except, Not(f.F)}} }
func (f SomeRest) negatedForm() Formula { return And{Kinds(Object), Rest{f.Except, Not(f.F)}} }
func (f AllKeys) negatedForm() Formula  { return And{Kinds(Object), SomeKey{Not(f.F)}} }
func (f SomeKey) negatedForm() Formula  { return And{Kinds(Object), AllKeys{Not(f.F)}} }
func (f Items) negatedForm() Formula    { return And{Kinds(Array), SomeItem{Not(f.F)}} }
func (f SomeItem) negatedForm() Formula { return And{Kinds(Array), Items{Not(f.F)}} }
func (f Unique) negatedForm() Formula   { return And{Kinds(Array), Unique{f.By, !f.Neg}} }

func (f Length) negatedForm() Formula {
	return notRange(String, f.Min, f.Max, func(a, b int64) Formula { return Length{a, b} })
}

func (f NumProps) negatedForm() Formula {
	return notRange(Object, f.Min, f.Max, func(a, b int64) Formula { return NumProps{a, b} })
}

func (f NumItems) negatedForm() Formula {
	return notRange(Array, f.Min, f.Max, func(a, b int64) Formula { return NumItems{a, b} })
}

// negateAll negates the parts of a junction, for De Morgan's laws.
func negateAll(fs []Formula) []Formula {
	out := make([]Formula, len(fs))
	for i, f := range fs {
		out[i] = Not(f)
	}
	return out
}

// rangesOutside returns the ranges below and above; none where the range has no end on that side.
func (r IntRange) rangesOutside() Or {
	var out Or
	if r.Lo > math.MinInt64 {
		out = append(out, IntRange{math.MinInt64, r.Lo - 1})
	}
	if r.Hi < math.MaxInt64 {
		out = append(out, IntRange{r.Hi + 1, math.MaxInt64})
	}
	return out
}

// rangesOutside returns the ranges below and above. An end that the range includes is not in them, and the other way
// round.
func (r FloatRange) rangesOutside() Or {
	var out Or
	if !math.IsInf(r.Lo, -1) {
		out = append(out, FloatRange{Lo: math.Inf(-1), Hi: r.Lo, HiOpen: !r.LoOpen})
	}
	if !math.IsInf(r.Hi, 1) {
		out = append(out, FloatRange{Lo: r.Hi, LoOpen: !r.HiOpen, Hi: math.Inf(1)})
	}
	return out
}

// notRange is true of values of the kind whose count is below lo or above hi. r makes a range of the kind; no count
// is negative.
func notRange(k Kind, lo, hi int64, r func(a, b int64) Formula) Formula {
	var out Or
	if lo > 0 {
		out = append(out, r(0, lo-1))
	}
	if hi < Unbounded {
		out = append(out, r(max(hi+1, 0), Unbounded))
	}
	return And{Kinds(k), out}
}

// AnyKinds returns Kinds(k), or False for the empty set and True for the full one.
func AnyKinds(k Kind) Formula {
	if k &= AnyKind; k == 0 {
		return False
	} else if k == AnyKind {
		return True
	}
	return Kinds(k)
}

// NamesExcept returns a sorted copy of the names, for Rest and SomeRest.
func NamesExcept(names ...string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// Expand returns what a Lazy stands for.
func (l Lazy) Expand() Formula {
	f := l.Make()
	if l.Neg {
		return Not(f)
	}
	return f
}

// inSorted reports whether the sorted names contain the name.
func inSorted(names []string, name string) bool {
	_, ok := slices.BinarySearch(names, name)
	return ok
}
