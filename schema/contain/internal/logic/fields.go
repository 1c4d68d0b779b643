package logic

// What is known of the properties of an object? For example, that the value of a is over 5, and that b is missing. States share these facts until
// one of them changes them.

import (
	"maps"
	"slices"
)

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

// lacksProperty reports whether it is known that the object does not have the property.
func (st *state) lacksProperty(name string) bool {
	x := st.fields.named[name]
	return x != nil && x.lacks
}

// hasProperty reports whether it is known that the object has the property. Neither may be known.
func (st *state) hasProperty(name string) bool {
	x := st.fields.named[name]
	return x != nil && x.has
}
