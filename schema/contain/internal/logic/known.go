package logic

// Is a disjunct decided by what is known, without a search? For example, if it is known that a number is over 5, "is over 3" is entailed, and
// "is below 2" is contradicted: a disjunction with the former is dropped, and one with the latter gets shorter. What is left has to be split,
// and each split multiplies the work.
//
// The value of a property has a state of its own once its facts may interact. For example, from "a is over 5" and "a is below 3" follows that
// the object has no a, long before an object is searched.

import "slices"

// knownTruth judges a formula by the literals alone, without a search: Yes if they entail it, No if they contradict it. It also returns the
// choices that this rests on.
func (s *Solver) knownTruth(st *state, f Formula) (Truth, deps) {
	if !s.chargeStep(1) {
		return Unsure, 0
	}
	switch f.(type) { // lists have to be searched for them
	case Lazy, Opaque, Pattern, Format:
		s.chargeStep(int64(len(st.lazy)+len(st.opaque)+len(st.patterns)+len(st.formats)) / scanned)
	case Or:
		s.chargeStep(int64(len(st.wholes)) / scanned)
	}
	t, why := s.knownByForm(st, f)
	if t == Unsure && st.oneScalarLeft() {
		switch f.(type) {
		case Enum, Pattern, Format, Length, IntRange, IntMultiple:
			return s.knownScalar(st, f)
		}
	}
	return t, why
}

// knownByForm judges by what is known of the same sort: ranges by ranges, names by names.
func (s *Solver) knownByForm(st *state, f Formula) (Truth, deps) {
	switch f := f.(type) {
	case And:
		return s.knownAnd(st, f)
	case Or:
		return s.knownOr(st, f)
	case Kinds:
		if t, why := st.knownKinds(Kind(f)); t != Unsure {
			return t, why
		}
	case Lazy:
		return s.knownLazy(st, f)
	case Opaque:
		if g, why, ok := st.opaqueOf(f.ID); ok {
			return truthOf(g.Neg == f.Neg), why
		}
	case Pattern, Format:
		return st.knownOfString(f)
	case Length, IntRange, FloatRange, NumItems, NumProps:
		return st.knownBounds(f)
	case Items:
		return s.knownItems(st, st.items, st.someItems, f.F)
	case SomeItem:
		return s.knownItems(st, st.someItems, st.items, f.F)
	case Has:
		return st.knownField(f.Name, true)
	case Lacks:
		return st.knownField(f.Name, false)
	case Prop:
		return s.knownProp(st, f)
	}
	return st.vacuousTruth(f)
}

// knownLazy judges a part that is made when it is needed: by its ID if it was added before, and by what it stands for
// if that is short. A long one stays undecided, because to expand it costs as much as a search.
func (s *Solver) knownLazy(st *state, f Lazy) (Truth, deps) {
	if g, why, ok := st.lazyOf(f.ID); ok {
		return truthOf(g.Neg == f.Neg), why
	}
	if f.Small {
		return s.knownTruth(st, f.Expand())
	}
	return Unsure, 0
}

// knownBounds judges bounds by those that hold already.
func (st *state) knownBounds(f Formula) (Truth, deps) {
	whole := func(k Kind, lo, hi, knownLo, knownHi int64) (Truth, deps) {
		return st.judgeForKind(k, lo <= knownLo && knownHi <= hi, hi < knownLo || knownHi < lo)
	}
	switch f := f.(type) {
	case Length:
		return whole(String, f.Min, f.Max, st.length.Min, st.length.Max)
	case IntRange:
		return whole(Int, f.Lo, f.Hi, st.ints.Lo, st.ints.Hi)
	case NumItems:
		return whole(Array, f.Min, f.Max, st.numItems.Min, st.numItems.Max)
	case NumProps:
		return whole(Object, f.Min, f.Max, st.numProps.Min, st.numProps.Max)
	case FloatRange:
		return st.judgeForKind(Float, st.floats.isWithin(f), st.floats.intersect(f).isEmpty())
	}
	return Unsure, 0
}

// knownKinds judges by the kinds that are left. Yes rests on no choice here: who uses it only drops a disjunction,
// which is no proof.
func (st *state) knownKinds(k Kind) (Truth, deps) {
	switch {
	case st.kinds&k == 0:
		return No, st.why
	case st.kinds&^k == 0:
		return Yes, 0
	}
	return Unsure, 0
}

// knownAnd is No if one part is. It also is if a property is demanded whose value is impossible, although neither part alone is contradicted.
func (s *Solver) knownAnd(st *state, and And) (Truth, deps) {
	t := Yes
	for _, g := range and {
		is, why := s.knownTruth(st, g)
		if t = min(t, is); t == No {
			return No, why
		}
	}
	if t == Yes {
		return Yes, 0
	}
	// A demanded property whose value is impossible.
	for _, g := range and {
		h, ok := g.(Has)
		if !ok || st.kinds&^Object != 0 && !slices.Contains(and, Formula(Kinds(Object))) {
			continue
		}
		for _, g := range and {
			if p, ok := g.(Prop); ok && p.Name == h.Name {
				if is, why := s.knownOf(st, p.Name, p.F); is == No {
					return No, why | st.why
				}
			}
		}
	}
	return Unsure, 0
}

// knownOr is Yes if one part is, or if the disjunction was added as a whole before.
func (s *Solver) knownOr(st *state, or Or) (Truth, deps) {
	t, all := No, deps(0)
	for _, g := range or {
		is, why := s.knownTruth(st, g)
		all |= why
		if t = max(t, is); t == Yes {
			return Yes, 0
		}
	}
	if t == No || len(st.wholes) == 0 || len(or) < 2 {
		return t, all
	}
	if _, ok := st.takenWhole(s.table.ID(or, &s.work)); ok {
		return Yes, 0
	}
	return Unsure, 0
}

// knownOfString judges a pattern or a format by whether it, or its negation, is among the facts. What one pattern
// says of another only a search finds out.
func (st *state) knownOfString(f Formula) (Truth, deps) {
	switch f := f.(type) {
	case Pattern:
		return st.judgeForKind(String, slices.Contains(st.patterns, f), slices.Contains(st.patterns, Pattern{f.Expr, !f.Neg}))
	case Format:
		return st.judgeForKind(String, slices.Contains(st.formats, f), slices.Contains(st.formats, Format{f.Name, !f.Neg}))
	}
	return Unsure, 0
}

// knownItems judges what all items, or some item, are like. same has the facts of the same sort, other those whose
// negation contradicts f.
func (s *Solver) knownItems(st *state, same, other []fact, f Formula) (Truth, deps) {
	if st.kinds&Array == 0 {
		return Yes, 0
	}
	_, entailed := s.listedIn(same, f)
	_, contradicted := s.deniedBy(other, f)
	return st.judgeForKind(Array, entailed, contradicted)
}

// knownField judges whether a property is there. What contradicts it counts only if nothing but an object is left: other kinds satisfy both.
func (st *state) knownField(name string, has bool) (Truth, deps) {
	x := st.fields.named[name]
	if st.kinds&Object == 0 {
		return Yes, 0
	}
	if x == nil {
		return Unsure, 0
	}
	switch {
	case has && x.has, !has && x.lacks:
		return Yes, 0
	case st.kinds != Object:
		return Unsure, 0
	case has && x.lacks:
		return No, x.lacksWhy | st.why
	case !has && x.has:
		return No, x.hasWhy | st.why
	}
	return Unsure, 0
}

// knownProp judges a statement about a property, which is true of all values without the property. So it is
// contradicted only if the property is certainly there.
func (s *Solver) knownProp(st *state, p Prop) (Truth, deps) {
	if st.kinds&Object == 0 || st.lacksProperty(p.Name) {
		return Yes, 0
	}
	t, why := s.knownOf(st, p.Name, p.F)
	switch {
	case t == Yes:
		return Yes, 0
	case t == No && st.hasProperty(p.Name) && st.kinds == Object:
		return No, why | st.why | st.fields.named[p.Name].hasWhy
	}
	return Unsure, 0
}

// judgeForKind judges a formula about kind k alone: it is true of the other kinds.
func (st *state) judgeForKind(k Kind, entailed, contradicted bool) (Truth, deps) {
	switch {
	case st.kinds&k == 0 || entailed:
		return Yes, 0
	case contradicted && st.kinds&^k == 0:
		return No, st.said[kindIndex(k)] | st.why
	}
	return Unsure, 0
}

// vacuousTruth returns Yes if a formula is only about kinds that are ruled out.
func (st *state) vacuousTruth(f Formula) (Truth, deps) {
	var k Kind
	switch f.(type) {
	case Rest, SomeRest, AllKeys, SomeKey:
		k = Object
	case Unique:
		k = Array
	case IntMultiple:
		k = Int
	case FloatMultiple, Integral:
		k = Float
	default:
		return Unsure, 0
	}
	if st.kinds&k == 0 {
		return Yes, 0
	}
	return Unsure, 0
}

// simplifyState drops disjuncts that the literals contradict and disjunctions that they entail. It adds a single remaining disjunct to the
// conjunction, and repeats until nothing changes. It returns false for a contradiction.
func (s *Solver) simplifyState(st *state) bool {
	for changed := true; changed; {
		if !s.checkProperties(st) {
			return false
		}
		if st.kinds == 0 {
			return s.recordClash(st.why)
		}
		changed = false
		// Each pass may add literals, which decide more disjuncts in the next one.
		ors := st.ors
		st.ors = nil
		for _, d := range ors {
			short, entailed := s.shortenDisjunction(st, d)
			switch {
			case entailed:
				changed = true
			case len(short.f) == 0:
				return s.recordClash(short.why)
			case len(short.f) == 1:
				if !s.addFormula(st, short.f[0], short.why) {
					return false
				}
				changed = true
			default:
				changed = changed || len(short.f) < len(d.f)
				st.ors = append(st.ors, short)
			}
		}
		if s.workSpent() {
			return true
		}
		if st.kinds == 0 {
			return s.recordClash(st.why)
		}
		changed = changed || len(st.fields.meet) > 0
	}
	return s.settleScalar(st)
}

// shortenDisjunction leaves out the disjuncts that are contradicted, and reports whether one is entailed.
func (s *Solver) shortenDisjunction(st *state, d given[Or]) (given[Or], bool) {
	out := given[Or]{why: d.why}
	for i, f := range d.f {
		t, why := s.knownTruth(st, f)
		switch t {
		case Yes:
			return out, true
		case No:
			if out.f == nil {
				out.f = append(make(Or, 0, len(d.f)), d.f[:i]...)
			}
			out.why |= why
		case Unsure:
			if out.f != nil {
				out.f = append(out.f, f)
			}
		}
	}
	if out.f == nil {
		out.f = d.f
	}
	return out, false
}

// maxInside bounds the depth of fields that are checked without a search.
const maxInside = 64

// propertyState returns the conjunction of the facts of st about a property's value. It returns false if they contradict each other; s.why has
// the reason.
func (s *Solver) propertyState(st *state, name string) (*state, bool) {
	x := s.fieldForChange(st, name)
	if x.inside == nil {
		x.inside, x.insideOwner, x.fed, x.rested = newState(), st, 0, 0
		x.inside.depth = st.depth + 1
	}
	// Nothing was added since the last look.
	if x.fed == len(x.facts) && x.rested == len(st.rests) {
		return x.inside, true
	}
	if x.insideOwner != st {
		x.inside, x.insideOwner = x.inside.cloneState(), st
	}
	for ; x.fed < len(x.facts); x.fed++ {
		if f := x.facts[x.fed]; !s.addFormula(x.inside, f.f, f.why) {
			return nil, false
		}
	}
	for ; x.rested < len(st.rests); x.rested++ {
		f := st.rests[x.rested]
		if !inSorted(f.f.Except, name) && !s.addFormula(x.inside, f.f.F, f.why) {
			return nil, false
		}
	}
	return x.inside, s.simplifyState(x.inside)
}

// checkProperties checks the properties with new facts. If no value satisfies them, the object must not have the property.
func (s *Solver) checkProperties(st *state) bool {
	for len(st.fields.meet) > 0 && !s.workSpent() {
		name := st.fields.meet[0]
		st.fields.meet = st.fields.meet[1:]
		x := st.fields.named[name]
		if x.lacks || st.kinds&Object == 0 || st.depth > maxInside {
			continue
		}
		if _, ok := s.propertyState(st, name); !ok && !s.mustLack(st, name, s.why) {
			return false
		}
	}
	return true
}

// knownOf judges a formula about the value of a property by the known facts.
func (s *Solver) knownOf(st *state, name string, f Formula) (Truth, deps) {
	x := st.fields.named[name]
	if x == nil || len(x.facts) == 0 || st.depth > maxInside {
		return Unsure, 0
	}
	if x.lacks {
		return No, x.lacksWhy
	}
	if k, ok := f.(Kinds); ok && x.kinds&Kind(k) == 0 {
		return No, x.kindsWhy
	}
	if l, ok := f.(Lazy); ok && !l.Small { // a whole schema: a check would take too long
		for _, y := range x.facts {
			if g, ok := y.f.(Lazy); ok && g.ID == l.ID {
				return truthOf(g.Neg == l.Neg), y.why
			}
		}
		return Unsure, 0
	}
	in, ok := s.propertyState(st, name)
	if !ok {
		why := s.why
		s.mustLack(st, name, why) // the next simplify handles it; the caller continues
		return No, why
	}
	return s.knownTruth(in, f)
}

// scanned is the number of parts that a unit of work pays to search.
const scanned = 8
