package logic

import (
	"maps"
	"slices"
)

// field is what a state says of one property of an object.
type field struct {
	has, lacks       bool
	hasWhy, lacksWhy deps
	facts            []fact // what its value is like, if there is one
	kinds            Kind   // which kinds the plain facts leave to it
	kindsWhy         deps
	telling          bool   // there are facts that are more than kinds and whole schemas
	owner            *state // who may change this

	// inside is the conjunction of the facts, made where they may meet: what it entails is known without search.
	inside      *state
	insideOwner *state
	fed, rested int // how many facts and rests it holds
}

// fields are what a state says of single properties.
type fields struct {
	named  map[string]*field
	names  []string // in the order in which they were first named
	had    []string // of those that must be there
	meet   []string // of those whose facts may meet, and have not been looked at since
	shared bool
}

// field returns what st says of a property, for change.
func (s *Solver) field(st *state, name string) *field {
	fs := &st.fields
	if fs.shared {
		s.step(int64(len(fs.named)) / 16)
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
	x := s.field(st, p.Name)
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

// mustLack notes that no value of the property is possible.
func (s *Solver) mustLack(st *state, name string, why deps) bool {
	if x := st.fields.named[name]; x != nil && x.lacks {
		return true
	}
	return s.add(st, Lacks{name}, why)
}

// maxInside is how deep fields are looked into without search.
const maxInside = 64

// within returns the conjunction of what st says of a property's value. It returns false where that contradicts itself; s.why
// holds the reason.
func (s *Solver) within(st *state, name string) (*state, bool) {
	x := s.field(st, name)
	if x.inside == nil {
		x.inside, x.insideOwner, x.fed, x.rested = newState(), st, 0, 0
		x.inside.depth = st.depth + 1
	}
	if x.fed == len(x.facts) && x.rested == len(st.rests) {
		return x.inside, true
	}
	if x.insideOwner != st {
		x.inside, x.insideOwner = x.inside.clone(), st
	}
	for ; x.fed < len(x.facts); x.fed++ {
		if f := x.facts[x.fed]; !s.add(x.inside, f.f, f.why) {
			return nil, false
		}
	}
	for ; x.rested < len(st.rests); x.rested++ {
		f := st.rests[x.rested]
		r := f.f.(Rest) //nolint:errcheck // nothing else is in there
		if _, ok := slices.BinarySearch(r.Except, name); !ok && !s.add(x.inside, r.F, f.why) {
			return nil, false
		}
	}
	return x.inside, s.simplify(x.inside)
}

// meet looks at the properties of which something new was said. What no value can be like, the object has to lack.
func (s *Solver) meet(st *state) bool {
	for len(st.fields.meet) > 0 && !s.over() {
		name := st.fields.meet[0]
		st.fields.meet = st.fields.meet[1:]
		x := st.fields.named[name]
		if x.lacks || st.kinds&Object == 0 || st.depth > maxInside {
			continue
		}
		if _, ok := s.within(st, name); !ok && !s.mustLack(st, name, s.why) {
			return false
		}
	}
	return true
}

// knownOf judges a formula about the value of a property by what is known of it.
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
	if l, ok := f.(Lazy); ok && !l.Small { // a whole schema: there is no point in looking through it
		for _, y := range x.facts {
			if g, ok := y.f.(Lazy); ok && g.ID == l.ID {
				return truth(g.Neg == l.Neg), y.why
			}
		}
		return Unsure, 0
	}
	in, ok := s.within(st, name)
	if !ok {
		why := s.why
		s.mustLack(st, name, why) // seen to at the next simplify: whoever asks goes on
		return No, why
	}
	return s.known(in, f)
}

// child collects what st says of the property name.
func (st *state) child(name string) []fact {
	var out []fact
	if x := st.fields.named[name]; x != nil {
		out = append(out, x.facts...)
	}
	for _, r := range st.rests {
		if f := r.f.(Rest); !inSorted(f.Except, name) { //nolint:errcheck // nothing else is in there
			out = append(out, fact{f.F, r.why})
		}
	}
	return out
}

func inSorted(names []string, name string) bool {
	_, ok := slices.BinarySearch(names, name)
	return ok
}

// mentioned returns the names that st speaks of, sorted.
func (st *state) mentioned() []string {
	var out []string
	for _, name := range st.fields.names {
		if len(st.fields.named[name].facts) > 0 {
			out = append(out, name)
		}
	}
	for _, r := range st.rests {
		out = append(out, r.f.(Rest).Except...) //nolint:errcheck // nothing else is in there
	}
	for _, r := range st.someRests {
		out = append(out, r.Except...)
	}
	return NamesExcept(out...)
}

func (st *state) lacks(name string) bool {
	x := st.fields.named[name]
	return x != nil && x.lacks
}

func (st *state) has(name string) bool {
	x := st.fields.named[name]
	return x != nil && x.has
}
