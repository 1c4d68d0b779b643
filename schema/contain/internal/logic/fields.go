package logic

// What is known of the properties of an object? Each property has a state of its own for its value, made once its facts may interact. For
// example, from "a is over 5" and "a is below 3" follows that the object has no a, long before an object is searched.

import (
	"maps"
	"slices"
)

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

// fieldForChange returns the facts of st about a property, for changes.
func (s *Solver) fieldForChange(st *state, name string) *field {
	fs := &st.fields
	if fs.shared {
		s.chargeStep(int64(len(fs.named)) / 16)
		named := make(map[string]*field, len(fs.named)+1)
		maps.Copy(named, fs.named)
		fs.named, fs.shared = named, false
		fs.names, fs.had, fs.meet = slices.Clip(fs.names), slices.Clip(fs.had), slices.Clip(fs.meet)
	}
	x := fs.named[name]
	switch {
	case x == nil:
		x = &field{kinds: AnyKind, owner: st}
		if fs.named == nil {
			fs.named = map[string]*field{}
		}
		fs.named[name] = x
		fs.names = append(fs.names, name)
	case x.owner != st:
		c := *x
		c.facts, c.owner = slices.Clip(c.facts), st
		x = &c
		fs.named[name] = x
	}
	return x
}

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

// childFacts collects the facts of st about the property name.
func (st *state) childFacts(name string) []fact {
	var out []fact
	if x := st.fields.named[name]; x != nil {
		out = append(out, x.facts...)
	}
	for _, r := range st.rests {
		if !inSorted(r.f.Except, name) {
			out = append(out, fact{r.f.F, r.why})
		}
	}
	return out
}

func inSorted(names []string, name string) bool {
	_, ok := slices.BinarySearch(names, name)
	return ok
}

// mentionedNames returns the names in the facts of st, sorted.
func (st *state) mentionedNames() []string {
	var out []string
	for _, name := range st.fields.names {
		if len(st.fields.named[name].facts) > 0 {
			out = append(out, name)
		}
	}
	for _, r := range st.rests {
		out = append(out, r.f.Except...)
	}
	for _, r := range st.someRests {
		out = append(out, r.Except...)
	}
	return NamesExcept(out...)
}

func (st *state) lacksProperty(name string) bool {
	x := st.fields.named[name]
	return x != nil && x.lacks
}

func (st *state) hasProperty(name string) bool {
	x := st.fields.named[name]
	return x != nil && x.has
}
