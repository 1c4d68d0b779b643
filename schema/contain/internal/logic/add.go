package logic

// What does one more formula add to what is known? For example, "is over 5" narrows the range of integers. If the range is empty then, integers are
// ruled out, and if no kind is left, the state is contradictory.

import (
	"slices"
)

// seenAtOnce is the number of facts that a unit of work pays to check.
const seenAtOnce = 64

// addFormula adds a formula, which rests on the choices, to the conjunction. It returns false if the conjunction is now contradictory.
func (s *Solver) addFormula(st *state, f Formula, why deps) bool {
	if !s.chargeStep(1) {
		return true // not a proof of anything
	}
	st.sum |= why
	switch f := f.(type) {
	case And:
		for _, g := range f {
			if !s.addFormula(st, g, why) {
				return false
			}
		}
		return true
	case Or:
		switch len(f) {
		case 0:
			return s.recordClash(why)
		case 1:
			return s.addFormula(st, f[0], why)
		}
		return s.addOr(st, f, why)
	case Lazy:
		return s.addLazy(st, f, why)
	case Opaque:
		return s.addOpaque(st, f, why)
	case Kinds:
		st.all = append(st.all, f)
		if st.kinds&^Kind(f) != 0 {
			st.kinds, st.why = st.kinds&Kind(f), st.why|why
		}
		return st.kinds != 0 || s.recordClash(st.why)
	}
	return s.addLiteral(st, f, why)
}

// addLiteral adds a statement about values of one kind, or about single values.
func (s *Solver) addLiteral(st *state, f Formula, why deps) bool {
	st.all = append(st.all, f)
	switch f := f.(type) {
	case Length, Pattern, Format:
		return s.addString(st, f, why)
	case IntRange, IntMultiple:
		return s.addInteger(st, f, why)
	case FloatRange, FloatMultiple, Integral:
		return s.addFloat(st, f, why)
	case NumItems, Items, SomeItem, Unique:
		return s.addArray(st, f, why)
	case Enum:
		for i := range st.said {
			st.said[i] |= why
		}
		st.enums = append(st.enums, f)
		return true
	}
	return s.addObject(st, f, why)
}

// addOr keeps a disjunction. If it was added before, it adds nothing; if its negation was, that is a contradiction. No part of a kept
// disjunction means the same as the whole, so that none is justified by itself.
func (s *Solver) addOr(st *state, f Or, why deps) bool {
	id := s.table.ID(f, &s.work)
	for _, d := range f {
		switch d.(type) {
		case And, Or, Lazy:
			if s.table.ID(d, &s.work) == id { // the other parts add nothing
				return s.addFormula(st, d, why)
			}
		}
	}
	if _, ok := st.takenWhole(id); ok {
		return true
	}
	if at, ok := st.takenWhole(s.table.Not(f, &s.work)); ok {
		return s.recordClash(why | at)
	}
	st.wholes = append(st.wholes, given[ID]{id, why})
	st.ors = append(st.ors, given[Or]{f, why})
	return true
}

// addLazy keeps a formula that is made when it is needed, and adds what it stands for unless it was added before.
func (s *Solver) addLazy(st *state, f Lazy, why deps) bool {
	if !s.chargeStep(int64(len(st.lazy) / seenAtOnce)) {
		return true
	}
	if g, at, ok := st.lazyOf(f.ID); ok {
		return g.Neg == f.Neg || s.recordClash(why|at)
	}
	st.lazy = append(st.lazy, given[Lazy]{f, why})
	return s.addFormula(st, f.Expand(), why)
}

// addOpaque adds an opaque statement, or its negation. All that is known of such statements is that one does not hold
// together with its negation.
func (s *Solver) addOpaque(st *state, f Opaque, why deps) bool {
	if !s.chargeStep(int64(len(st.opaque) / seenAtOnce)) {
		return true
	}
	if g, at, ok := st.opaqueOf(f.ID); ok {
		return g.Neg == f.Neg || s.recordClash(why|at)
	}
	st.opaque = append(st.opaque, given[Opaque]{f, why})
	return true
}

// addString narrows the length, or adds a pattern or a format. If its negation is there too, no string is left; whether patterns exclude each
// other, only the search for strings finds out. Of formats it is known whether the empty string has them.
func (s *Solver) addString(st *state, f Formula, why deps) bool {
	none := false
	switch f := f.(type) {
	case Length:
		st.length = Length{max(st.length.Min, f.Min), min(st.length.Max, f.Max)}
	case Pattern:
		st.patterns = append(st.patterns, f)
		none = slices.Contains(st.patterns, Pattern{f.Expr, !f.Neg})
	case Format:
		st.formats = append(st.formats, f)
		none = slices.Contains(st.formats, Format{f.Name, !f.Neg})
		if !f.Neg && !s.Strings.MatchFormat(f.Name, "") {
			st.length.Min = max(st.length.Min, 1)
		}
	}
	return s.addFact(st, String, why, none || st.length.Min > st.length.Max)
}

// addFact notes that a kind of values rests on choices, and rules the kind out if no value is left. It returns false if no kind is left.
func (s *Solver) addFact(st *state, k Kind, why deps, none bool) bool {
	st.said[kindIndex(k)] |= why
	return !none || s.dropKind(st, k, st.said[kindIndex(k)])
}

// addInteger narrows the range of integers, or adds a divisor. Integers and floats are kept apart, because the API server treats 1 and 1.0 in
// different ways.
func (s *Solver) addInteger(st *state, f Formula, why deps) bool {
	none := false
	switch f := f.(type) {
	case IntRange:
		st.ints = IntRange{max(st.ints.Lo, f.Lo), min(st.ints.Hi, f.Hi)}
		none = st.ints.Lo > st.ints.Hi
	case IntMultiple:
		st.intMults = append(st.intMults, f)
		none = slices.Contains(st.intMults, IntMultiple{f.N, !f.Neg})
	}
	return s.addFact(st, Int, why, none)
}

// addFloat narrows the range of floats, or adds a divisor.
func (s *Solver) addFloat(st *state, f Formula, why deps) bool {
	none := false
	switch f := f.(type) {
	case FloatRange:
		st.floats = st.floats.intersect(f)
		none = st.floats.isEmpty()
	case FloatMultiple:
		st.floatMult = append(st.floatMult, f)
		none = slices.Contains(st.floatMult, FloatMultiple{f.F, !f.Neg})
	case Integral:
		st.integral = append(st.integral, f)
		exact := slices.Contains(st.integral, Integral{Exact: true})
		none = slices.Contains(st.integral, Integral{!f.Neg, f.Exact}) || exact && slices.Contains(st.integral, Integral{Neg: true})
	}
	return s.addFact(st, Float, why, none)
}

// addArray narrows the number of items, or adds what all items or some item are like. If what some item is like is denied of all items, by its
// number in the table, no list is left. Other contradictions between items need a search.
func (s *Solver) addArray(st *state, f Formula, why deps) bool {
	none := false
	switch f := f.(type) {
	case NumItems:
		st.numItems = NumItems{max(st.numItems.Min, f.Min), min(st.numItems.Max, f.Max)}
		none = st.numItems.Min > st.numItems.Max
	case Items:
		st.items = append(st.items, fact{f.F, why})
		return s.addFact(st, Array, why, false) && s.dropDenied(st, st.someItems, f.F, why)
	case SomeItem:
		st.someItems = append(st.someItems, fact{f.F, why})
		return s.addFact(st, Array, why, false) && s.dropDenied(st, st.items, f.F, why)
	case Unique:
		st.unique = append(st.unique, f)
		none = slices.ContainsFunc(st.unique, func(u Unique) bool {
			return !u.Neg && f.Neg && u.By.impliesUnique(f.By) || u.Neg && !f.Neg && f.By.impliesUnique(u.By)
		})
	}
	return s.addFact(st, Array, why, none)
}

// dropDenied rules lists out if one of the facts about items is the negation of f.
func (s *Solver) dropDenied(st *state, facts []fact, f Formula, why deps) bool {
	at, denied := s.deniedBy(facts, f)
	return !denied || s.dropKind(st, Array, why|at)
}

// deniedBy searches the list for the negation of f.
func (s *Solver) deniedBy(list []fact, f Formula) (deps, bool) {
	if len(list) == 0 {
		return 0, false
	}
	return s.findByID(list, s.table.Not(f, &s.work))
}

// listedIn searches the list for f.
func (s *Solver) listedIn(list []fact, f Formula) (deps, bool) {
	if len(list) == 0 {
		return 0, false
	}
	return s.findByID(list, s.table.ID(f, &s.work))
}

// findByID searches the list for a fact of that meaning, and returns the choices that it rests on.
func (s *Solver) findByID(list []fact, id ID) (deps, bool) {
	for _, x := range list {
		if s.table.ID(x.f, &s.work) == id {
			return x.why, true
		}
	}
	return 0, false
}

// addObject adds that a property is there, is missing, or has some value. These facts are kept by property, with their own choices, so that a
// contradiction in one property does not depend on what is known of the others.
func (s *Solver) addObject(st *state, f Formula, why deps) bool {
	switch f := f.(type) {
	case Has:
		return s.addHas(st, f.Name, why)
	case Lacks:
		x := s.fieldForChange(st, f.Name)
		if !x.lacks {
			x.lacks, x.lacksWhy = true, why
		}
		if x.has {
			return s.dropKind(st, Object, x.hasWhy|x.lacksWhy)
		}
		return true
	case Prop:
		return s.addProp(st, f, why)
	}
	return s.addToObject(st, f, why)
}

// addToObject adds a statement about properties that it does not name, or about their number.
func (s *Solver) addToObject(st *state, f Formula, why deps) bool {
	st.said[kindIndex(Object)] |= why
	switch f := f.(type) {
	case Rest:
		st.rests = append(st.rests, given[Rest]{f, why})
	case SomeRest:
		st.someRests = append(st.someRests, f)
	case AllKeys:
		st.allKeys = append(st.allKeys, f.F)
	case SomeKey:
		st.someKeys = append(st.someKeys, f.F)
	case NumProps:
		st.numProps = NumProps{max(st.numProps.Min, f.Min), min(st.numProps.Max, f.Max)}
		if st.numProps.Min > st.numProps.Max {
			return s.dropKind(st, Object, st.said[kindIndex(Object)])
		}
		return int64(len(st.fields.had)) <= st.numProps.Max || s.dropKind(st, Object, st.tooMany())
	}
	for _, a := range st.someRests {
		for _, b := range st.rests {
			if slices.Equal(a.Except, b.f.Except) && s.table.ID(b.f.F, &s.work) == s.table.Not(a.F, &s.work) {
				return s.dropKind(st, Object, st.said[kindIndex(Object)])
			}
		}
	}
	return true
}

// addHas adds that a property is there. That contradicts what is known if it is missing, if no kind of value is left for it, or if there are
// too many properties then.
func (s *Solver) addHas(st *state, name string, why deps) bool {
	x := s.fieldForChange(st, name)
	if x.has {
		return true
	}
	x.has, x.hasWhy = true, why
	st.fields.had = append(st.fields.had, name) // nobody shares it: field has clipped it
	switch {
	case x.lacks:
		return s.dropKind(st, Object, x.hasWhy|x.lacksWhy)
	case x.kinds == 0:
		return s.dropKind(st, Object, x.hasWhy|x.kindsWhy)
	case int64(len(st.fields.had)) > st.numProps.Max:
		return s.dropKind(st, Object, st.tooMany())
	}
	return true
}

// addProp adds a fact about the value of a property. Facts that may interact with others are checked by checkProperties. Two whole schemas are
// not: that would take the time of a search.
func (s *Solver) addProp(st *state, p Prop, why deps) bool {
	x := s.fieldForChange(st, p.Name)
	x.facts = append(x.facts, fact{p.F, why})
	switch f := p.F.(type) {
	case Kinds:
		if x.kinds&^Kind(f) != 0 {
			x.kinds, x.kindsWhy = x.kinds&Kind(f), x.kindsWhy|why
		}
		if x.kinds == 0 {
			return s.mustLack(st, p.Name, x.kindsWhy)
		}
	case Lazy:
		x.telling = x.telling || f.Small
	default:
		x.telling = true
	}
	if x.inside != nil || x.telling && len(x.facts) > 1 {
		st.fields.meet = append(st.fields.meet, p.Name)
	}
	return true
}

// mustLack records that no value of the property is possible.
func (s *Solver) mustLack(st *state, name string, why deps) bool {
	if x := st.fields.named[name]; x != nil && x.lacks {
		return true
	}
	return s.addFormula(st, Lacks{name}, why)
}
