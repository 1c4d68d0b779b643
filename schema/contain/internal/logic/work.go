package logic

import (
	"reflect"
	"slices"
)

// How much work is left? Everything that takes time charges for it. For example, the comparison with an enum of a thousand values charges for
// each at first, and then builds an index of them.

// Work counts the work of a decision: formulas visited, values compared, and other work that callers charge (steps of automata, rules
// translated, objects confirmed). A unit is far less than a microsecond of one core, and allocates a few hundred bytes at most, so that
// a bound on work bounds time and memory as well. It holds no clock: the same question costs the same on every machine. The nil Work
// counts nothing and is never spent.
type Work struct {
	done, limit int64
	enums       map[*any]*enumIndex
}

// NewWork returns a counter that is spent after limit units.
func NewWork(limit int64) *Work { return &Work{limit: limit} }

// Charge adds n units and reports whether there are any left.
func (w *Work) Charge(n int64) bool {
	if w == nil {
		return true
	}
	if n > w.limit { // no sum overflows
		n = w.limit + 1
	}
	if w.done <= w.limit {
		w.done += n
	}
	return w.done <= w.limit
}

// Spent reports whether the limit is passed. It stays true: nothing is ever given back, except by [Work.Part].
func (w *Work) Spent() bool { return w != nil && w.done > w.limit }

// Done returns the units charged so far.
func (w *Work) Done() int64 {
	if w == nil {
		return 0
	}
	return w.done
}

// Left returns how many units are left.
func (w *Work) Left() int64 {
	if w == nil {
		return 1 << 40
	}
	return max(0, w.limit-w.done)
}

// Part calls f with a limit of at most n units more, and returns whether f kept to it.
func (w *Work) Part(n int64, f func()) bool {
	if w == nil {
		f()
		return true
	}
	whole := w.limit
	w.limit = min(whole, w.done+n)
	f()
	kept := !w.Spent()
	if w.limit < whole && w.done > w.limit {
		w.done = w.limit // work beyond the limit was not done
	}
	w.limit = whole
	return kept
}

// fewValues bounds the values of an enum that are compared one by one.
const fewValues = 8

// enumHolds reports whether v equals one of the values, in the sense of [Same]. For long enums, it uses an index.
func (w *Work) enumHolds(values []any, v any) bool {
	if w == nil || len(values) <= fewValues {
		return equalsAny(w, values, v)
	}
	x, ok := w.enums[&values[0]]
	if !ok || x.n != len(values) {
		w.Charge(int64(len(values)))
		x = indexOf(values)
		if w.enums == nil {
			w.enums = map[*any]*enumIndex{}
		}
		w.enums[&values[0]] = x
	}
	return x.holdsValue(w, v)
}

// equalsAny compares v with the values one by one, and charges for all of them.
func equalsAny(w *Work, values []any, v any) bool {
	w.Charge(int64(len(values)))
	return slices.ContainsFunc(values, func(e any) bool { return Same(v, e) })
}

// enumIndex finds the values of an enum that a value may equal.
type enumIndex struct {
	n       int
	scalars map[any]bool // the strings, int64s and float64s
	others  []any
}

// indexOf makes the index of an enum. Null is left out, because no value equals it. Booleans, lists and objects are compared one by one.
func indexOf(values []any) *enumIndex {
	x := &enumIndex{n: len(values), scalars: map[any]bool{}}
	for _, e := range values {
		switch e.(type) {
		case string, int64, float64:
			x.scalars[e] = true
		case nil:
		default:
			x.others = append(x.others, e)
		}
	}
	return x
}

// holdsValue looks v up in the index, with the conversions of Same.
func (x *enumIndex) holdsValue(w *Work, v any) bool {
	switch v := v.(type) {
	case string:
		return x.scalars[v]
	case int64:
		// The conversions of Same: an integer becomes the nearest float, and the character with that code.
		return x.scalars[v] || x.scalars[float64(v)] || x.scalars[characterOf(v)]
	case float64:
		return x.scalars[v] || x.scalars[int64(v)]
	}
	return equalsAny(w, x.others, v)
}

// characterOf is the string that Go converts an integer to: the character of that code, or U+FFFD for a number that
// is no code.
func characterOf(v int64) string {
	if r := rune(v); int64(r) == v { //nolint:gosec // what does not fit is seen
		return string(r)
	}
	return "\uFFFD"
}

// Same reports whether the value v equals the enum value e as upstream has it: v converted to the Go type of e, then
// deeply equal (k8s.io/kube-openapi/pkg/validation/validate, basicCommonValidator). So 1.5 equals the integer 1, and 65
// equals "A"; null equals nothing.
func Same(v, e any) bool {
	if v == nil || e == nil {
		return false
	}
	have, want := reflect.ValueOf(v), reflect.TypeOf(e)
	if !have.Type().ConvertibleTo(want) {
		return false
	}
	return reflect.DeepEqual(have.Convert(want).Interface(), e)
}
