package logic

import (
	"math"
	"slices"
)

// state is a conjunction of literals, and of disjunctions that are still to be split. Its slices are only ever appended
// to, so a copy may share them once they are clipped.
type state struct {
	kinds Kind
	all   []Formula // every literal, to test candidates

	length   Length
	patterns []Pattern
	formats  []Format

	ints      IntRange
	intMults  []IntMultiple
	floats    FloatRange
	floatMult []FloatMultiple
	integral  []Integral

	enums []Enum

	has, lacks []string
	props      []Prop
	rests      []Rest
	someRests  []SomeRest
	allKeys    []Formula
	someKeys   []Formula
	numProps   NumProps

	items     []Formula
	someItems []Formula
	numItems  NumItems
	unique    []Unique

	opaque []Opaque
	lazy   []Lazy
	ors    []Or
}

func newState() *state {
	return &state{
		kinds: AnyKind, length: Length{0, maxLength}, ints: IntRange{math.MinInt64, math.MaxInt64},
		floats:   FloatRange{Lo: math.Inf(-1), Hi: math.Inf(1)},
		numProps: NumProps{0, maxCount}, numItems: NumItems{0, maxCount},
	}
}

// The API server reads no request of more than 3 MiB (k8s.io/apiserver/pkg/server Config.MaxRequestBodyBytes), so no
// string is longer and no list or map has more entries (each takes two bytes at least) than this.
const (
	maxLength = 3 << 20
	maxCount  = maxLength / 2
)

func (st *state) clone() *state {
	c := *st
	c.all = slices.Clip(st.all)
	c.patterns = slices.Clip(st.patterns)
	c.formats = slices.Clip(st.formats)
	c.intMults = slices.Clip(st.intMults)
	c.floatMult = slices.Clip(st.floatMult)
	c.integral = slices.Clip(st.integral)
	c.enums = slices.Clip(st.enums)
	c.has = slices.Clip(st.has)
	c.lacks = slices.Clip(st.lacks)
	c.props = slices.Clip(st.props)
	c.rests = slices.Clip(st.rests)
	c.someRests = slices.Clip(st.someRests)
	c.allKeys = slices.Clip(st.allKeys)
	c.someKeys = slices.Clip(st.someKeys)
	c.items = slices.Clip(st.items)
	c.someItems = slices.Clip(st.someItems)
	c.unique = slices.Clip(st.unique)
	c.opaque = slices.Clip(st.opaque)
	c.lazy = slices.Clip(st.lazy)
	c.ors = slices.Clip(st.ors)
	return &c
}

// drop rules a kind out, because what is said about it contradicts itself.
func (st *state) drop(k Kind) bool {
	st.kinds &^= k
	return st.kinds != 0
}

// add takes a formula into the conjunction. It returns false when the conjunction has become contradictory.
func (s *Solver) add(st *state, f Formula) bool {
	if s.steps++; s.steps > s.Budget {
		s.fail("the search budget is spent")
		return true // not a proof of anything
	}
	switch f := f.(type) {
	case And:
		for _, g := range f {
			if !s.add(st, g) {
				return false
			}
		}
		return true
	case Or:
		switch len(f) {
		case 0:
			return false
		case 1:
			return s.add(st, f[0])
		}
		st.ors = append(st.ors, f)
		return true
	case Lazy:
		for _, l := range st.lazy {
			if l.ID == f.ID {
				return l.Neg == f.Neg
			}
		}
		st.lazy = append(st.lazy, f)
		return s.add(st, f.Expand())
	case Opaque:
		for _, o := range st.opaque {
			if o.ID == f.ID {
				return o.Neg == f.Neg
			}
		}
		st.opaque = append(st.opaque, f)
		return true
	}
	st.all = append(st.all, f)
	switch f := f.(type) {
	case Kinds:
		st.kinds &= Kind(f)
		return st.kinds != 0
	case Enum:
		st.enums = append(st.enums, f)
	case Length:
		st.length = Length{max(st.length.Min, f.Min), min(st.length.Max, f.Max)}
		if st.length.Min > st.length.Max {
			return st.drop(String)
		}
	case Pattern:
		st.patterns = append(st.patterns, f)
		if slices.Contains(st.patterns, Pattern{f.Expr, !f.Neg}) {
			return st.drop(String)
		}
	case Format:
		st.formats = append(st.formats, f)
		if slices.Contains(st.formats, Format{f.Name, !f.Neg}) {
			return st.drop(String)
		}
	case IntRange:
		st.ints = IntRange{max(st.ints.Lo, f.Lo), min(st.ints.Hi, f.Hi)}
		if st.ints.Lo > st.ints.Hi {
			return st.drop(Int)
		}
	case IntMultiple:
		st.intMults = append(st.intMults, f)
		if slices.Contains(st.intMults, IntMultiple{f.N, !f.Neg}) {
			return st.drop(Int)
		}
	case FloatRange:
		st.floats = st.floats.intersect(f)
		if st.floats.empty() {
			return st.drop(Float)
		}
	case FloatMultiple:
		st.floatMult = append(st.floatMult, f)
		if slices.Contains(st.floatMult, FloatMultiple{f.F, !f.Neg}) {
			return st.drop(Float)
		}
	case Integral:
		st.integral = append(st.integral, f)
		exact := slices.Contains(st.integral, Integral{Exact: true})
		if slices.Contains(st.integral, Integral{!f.Neg, f.Exact}) || exact && slices.Contains(st.integral, Integral{Neg: true}) {
			return st.drop(Float)
		}
	case NumItems:
		st.numItems = NumItems{max(st.numItems.Min, f.Min), min(st.numItems.Max, f.Max)}
		if st.numItems.Min > st.numItems.Max {
			return st.drop(Array)
		}
	case Items:
		st.items = append(st.items, f.F)
	case SomeItem:
		st.someItems = append(st.someItems, f.F)
	case Unique:
		st.unique = append(st.unique, f)
		for _, u := range st.unique {
			if !u.Neg && f.Neg && u.By.implies(f.By) || u.Neg && !f.Neg && f.By.implies(u.By) {
				return st.drop(Array)
			}
		}
	default:
		return st.addObject(f)
	}
	return true
}

func (st *state) addObject(f Formula) bool {
	switch f := f.(type) {
	case Has:
		if !slices.Contains(st.has, f.Name) {
			st.has = append(st.has, f.Name)
		}
		if slices.Contains(st.lacks, f.Name) || int64(len(st.has)) > st.numProps.Max {
			return st.drop(Object)
		}
	case Lacks:
		st.lacks = append(st.lacks, f.Name)
		if slices.Contains(st.has, f.Name) {
			return st.drop(Object)
		}
	case Prop:
		st.props = append(st.props, f)
	case Rest:
		st.rests = append(st.rests, f)
	case SomeRest:
		st.someRests = append(st.someRests, f)
	case AllKeys:
		st.allKeys = append(st.allKeys, f.F)
	case SomeKey:
		st.someKeys = append(st.someKeys, f.F)
	case NumProps:
		st.numProps = NumProps{max(st.numProps.Min, f.Min), min(st.numProps.Max, f.Max)}
		if st.numProps.Min > st.numProps.Max || int64(len(st.has)) > st.numProps.Max {
			return st.drop(Object)
		}
	}
	return true
}

// known judges a formula by the literals alone, without search: Yes where they entail it, No where they contradict it.
func (st *state) known(f Formula) Truth {
	switch f := f.(type) {
	case And:
		t := Yes
		for _, g := range f {
			if t = min(t, st.known(g)); t == No {
				return No
			}
		}
		return t
	case Or:
		t := No
		for _, g := range f {
			if t = max(t, st.known(g)); t == Yes {
				return Yes
			}
		}
		return t
	case Kinds:
		switch {
		case st.kinds&Kind(f) == 0:
			return No
		case st.kinds&^Kind(f) == 0:
			return Yes
		}
	case Lazy:
		for _, l := range st.lazy {
			if l.ID == f.ID {
				return truth(l.Neg == f.Neg)
			}
		}
		if f.Small {
			return st.known(f.Expand())
		}
	case Opaque:
		for _, o := range st.opaque {
			if o.ID == f.ID {
				return truth(o.Neg == f.Neg)
			}
		}
	case Has:
		return st.only(Object, slices.Contains(st.has, f.Name), slices.Contains(st.lacks, f.Name))
	case Lacks:
		return st.only(Object, slices.Contains(st.lacks, f.Name), slices.Contains(st.has, f.Name))
	case Pattern:
		return st.only(String, slices.Contains(st.patterns, f), slices.Contains(st.patterns, Pattern{f.Expr, !f.Neg}))
	case Format:
		return st.only(String, slices.Contains(st.formats, f), slices.Contains(st.formats, Format{f.Name, !f.Neg}))
	case Length:
		return st.only(String, st.length.Min >= f.Min && st.length.Max <= f.Max, st.length.Min > f.Max || st.length.Max < f.Min)
	case IntRange:
		return st.only(Int, st.ints.Lo >= f.Lo && st.ints.Hi <= f.Hi, st.ints.Lo > f.Hi || st.ints.Hi < f.Lo)
	case FloatRange:
		return st.only(Float, st.floats.within(f), st.floats.intersect(f).empty())
	case NumItems:
		return st.only(Array, st.numItems.Min >= f.Min && st.numItems.Max <= f.Max, st.numItems.Min > f.Max || st.numItems.Max < f.Min)
	case NumProps:
		return st.only(Object, st.numProps.Min >= f.Min && st.numProps.Max <= f.Max, st.numProps.Min > f.Max || st.numProps.Max < f.Min)
	case Prop:
		if slices.Contains(st.lacks, f.Name) {
			return st.only(Object, true, false)
		}
	}
	return st.vacuous(f)
}

// only judges a formula that speaks of kind k alone: it is true of the others.
func (st *state) only(k Kind, entailed, contradicted bool) Truth {
	switch {
	case st.kinds&k == 0 || entailed:
		return Yes
	case contradicted && st.kinds&^k == 0:
		return No
	}
	return Unsure
}

// vacuous says Yes where a formula speaks only of kinds that are ruled out.
func (st *state) vacuous(f Formula) Truth {
	var k Kind
	switch f.(type) {
	case Prop, Rest, SomeRest, AllKeys, SomeKey:
		k = Object
	case Items, SomeItem, Unique:
		k = Array
	case IntMultiple:
		k = Int
	case FloatMultiple, Integral:
		k = Float
	default:
		return Unsure
	}
	if st.kinds&k == 0 {
		return Yes
	}
	return Unsure
}

// simplify drops disjuncts that the literals contradict and disjunctions that they entail, and takes what is left alone
// into the conjunction, until nothing changes. It returns false for a contradiction.
func (s *Solver) simplify(st *state) bool {
	for changed := true; changed; {
		changed = false
		ors := st.ors
		st.ors = nil
		for _, or := range ors {
			var keep Or
			entailed := false
			for _, d := range or {
				t := st.known(d)
				if t == Yes {
					entailed = true
					break
				}
				if t == Unsure {
					keep = append(keep, d)
				}
			}
			switch {
			case entailed:
				changed = true
			case len(keep) == 0:
				return false
			case len(keep) == 1:
				if !s.add(st, keep[0]) {
					return false
				}
				changed = true
			default:
				changed = changed || len(keep) < len(or)
				st.ors = append(st.ors, keep)
			}
		}
		if s.spent() {
			return true
		}
	}
	return true
}

func (r FloatRange) intersect(o FloatRange) FloatRange {
	out := r
	switch {
	case o.Lo > out.Lo:
		out.Lo, out.LoOpen = o.Lo, o.LoOpen
	case o.Lo == out.Lo:
		out.LoOpen = out.LoOpen || o.LoOpen
	}
	switch {
	case o.Hi < out.Hi:
		out.Hi, out.HiOpen = o.Hi, o.HiOpen
	case o.Hi == out.Hi:
		out.HiOpen = out.HiOpen || o.HiOpen
	}
	return out
}

func (r FloatRange) empty() bool {
	return r.Lo > r.Hi || r.Lo == r.Hi && (r.LoOpen || r.HiOpen)
}

func (r FloatRange) within(o FloatRange) bool {
	return (r.Lo > o.Lo || r.Lo == o.Lo && (r.LoOpen || !o.LoOpen)) && (r.Hi < o.Hi || r.Hi == o.Hi && (r.HiOpen || !o.HiOpen))
}
