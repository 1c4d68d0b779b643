package logic

// What is known, and which choices does each fact rest on? A state is a conjunction of literals, with disjunctions that wait. For example, of
// (a or b) and c, the search first takes a: that is choice 0, and all that follows from a has the bit of choice 0 in its deps, while c has
// none.
//
// If facts contradict each other, the add functions return false and s.why has the choices of those facts. If the bit of choice 0 is not among
// them, b leads to the same contradiction, and is not tried. So deps may have too many bits, which costs time, but never too few: then a
// disjunct would be left out that has a model.

import (
	"math"
	"math/bits"
	"slices"
)

// deps is a set of choices: the disjuncts that were taken on the way to a state.
type deps uint64

// choiceAt is the set with the choice at a level. Deep levels share one bit, which stands for all of them.
func choiceAt(level int) deps { return 1 << min(level, lastChoice) }

const lastChoice = 63

// given is a statement that holds, with the choices that it rests on.
type given[F any] struct {
	f   F
	why deps
}

// fact is a formula that holds.
type fact = given[Formula]

// state is a conjunction of literals, and of disjunctions that are not split yet. Its slices only grow by append, so a copy may share
// them once they are clipped.
type state struct {
	kinds Kind
	why   deps         // the choices that rule kinds out
	said  [nKinds]deps // of all facts about a kind; facts about single fields of objects are in fields
	sum   deps         // of everything
	all   []Formula    // every literal, to test candidates

	length   Length
	patterns []Pattern
	formats  []Format

	ints      IntRange
	intMults  []IntMultiple
	floats    FloatRange
	floatMult []FloatMultiple
	integral  []Integral

	enums []Enum
	// tried are the few values that a scalar has left, if few, as of triedAt.
	tried   []any
	few     bool
	triedAt int

	fields    fields
	rests     []given[Rest]
	someRests []SomeRest
	allKeys   []Formula
	someKeys  []Formula
	numProps  NumProps

	items     []fact // what all items are like
	someItems []fact
	numItems  NumItems
	unique    []Unique

	opaque []given[Opaque]
	lazy   []given[Lazy]
	wholes []given[ID] // formulas that were added as a whole
	ors    []given[Or] // disjunctions that are not split yet; why is also for the parts that they have lost
	depth  int         // the number of fields that lead to it from the first state of a search
}

// newState is the state in which nothing is known, but for the bounds of a request that the API server reads.
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

// cloneState returns a copy that a choice may change. The slices only grow, so both share them; the properties are copied once one of both
// changes them.
func (st *state) cloneState() *state {
	c := *st
	c.all = slices.Clip(st.all)
	c.patterns = slices.Clip(st.patterns)
	c.formats = slices.Clip(st.formats)
	c.intMults = slices.Clip(st.intMults)
	c.floatMult = slices.Clip(st.floatMult)
	c.integral = slices.Clip(st.integral)
	c.enums = slices.Clip(st.enums)
	st.fields.shared = true
	c.fields = st.fields
	c.rests = slices.Clip(st.rests)
	c.someRests = slices.Clip(st.someRests)
	c.allKeys = slices.Clip(st.allKeys)
	c.someKeys = slices.Clip(st.someKeys)
	c.items = slices.Clip(st.items)
	c.someItems = slices.Clip(st.someItems)
	c.unique = slices.Clip(st.unique)
	c.opaque = slices.Clip(st.opaque)
	c.lazy = slices.Clip(st.lazy)
	c.wholes = slices.Clip(st.wholes)
	c.ors = slices.Clip(st.ors)
	return &c
}

// kindIndex returns the place of a kind in said.
func kindIndex(k Kind) int { return bits.TrailingZeros8(uint8(k)) }

// takenWhole reports whether the formula of this number was taken in as a whole.
func (st *state) takenWhole(id ID) (deps, bool) {
	for _, a := range st.wholes {
		if a.f == id {
			return a.why, true
		}
	}
	return 0, false
}

// tooMany returns the choices that cause more fields than allowed.
func (st *state) tooMany() deps {
	why := st.said[kindIndex(Object)]
	for _, name := range st.fields.had {
		why |= st.fields.named[name].hasWhy
	}
	return why
}

// intersect is the range of the floats that are in both. Where both have the same end, it is left out if one of them
// leaves it out.
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

// isEmpty reports whether no float is in the range, as far as its ends show.
func (r FloatRange) isEmpty() bool {
	return r.Lo > r.Hi || r.Lo == r.Hi && (r.LoOpen || r.HiOpen)
}

// isWithin reports whether all floats of r are in o.
func (r FloatRange) isWithin(o FloatRange) bool {
	return (r.Lo > o.Lo || r.Lo == o.Lo && (r.LoOpen || !o.LoOpen)) && (r.Hi < o.Hi || r.Hi == o.Hi && (r.HiOpen || !o.HiOpen))
}

// lazyOf returns the part that was taken in with an ID, and the choices that it rests on.
func (st *state) lazyOf(id any) (Lazy, deps, bool) {
	for _, l := range st.lazy {
		if l.f.ID == id {
			return l.f, l.why, true
		}
	}
	return Lazy{}, 0, false
}

// opaqueOf returns the opaque statement that was taken in with an ID, and the choices that it rests on.
func (st *state) opaqueOf(id string) (Opaque, deps, bool) {
	for _, o := range st.opaque {
		if o.f.ID == id {
			return o.f, o.why, true
		}
	}
	return Opaque{}, 0, false
}

// field has the facts of a state about one property of an object.
type field struct {
	has, lacks       bool
	hasWhy, lacksWhy deps
	facts            []fact // facts about its value, if it has one
	kinds            Kind   // the kinds that the plain facts allow
	kindsWhy         deps
	telling          bool   // there are facts other than kinds and whole schemas
	owner            *state // the state that may change this

	// inside is the conjunction of the facts, made if they may interact. Its consequences are known without a search.
	inside      *state
	insideOwner *state
	fed, rested int // the number of facts and rests in it
}

// fields are the facts of a state about single properties.
type fields struct {
	named  map[string]*field
	names  []string // in the order in which they were first named
	had    []string // names that must exist
	meet   []string // names whose facts may interact, and which were not checked since
	shared bool
}
