package logic

// Which object satisfies all that is known? The search chooses the names first: those that are demanded, those for statements about some other
// property, and more to reach a least number. Then it solves each property by itself. For example, for "has a, and some key begins with x" it
// takes a and x.

import (
	"fmt"
	"maps"
	"slices"
)

// member is a property that the object must have, with the known facts about its value.
type member struct {
	name   string
	values []any
}

// solveObject searches objects. If a statement leaves open which property makes it true, a failure is no proof, because another property might
// have done.
func (s *Solver) solveObject(st *state, want, depth int) ([]any, bool) {
	names, extra, found, none := s.chooseNames(st, depth)
	if !found {
		s.why = st.sum
		return nil, none
	}
	if int64(len(names)) > st.numProps.Max {
		s.recordReason("too many properties are demanded")
		s.why = st.sum
		return nil, !st.choosesNames()
	}
	members, found, none := s.solveMembers(st, names, extra, want, depth)
	if !found {
		return nil, none
	}
	members, none = s.padObject(st, members, depth)
	if int64(len(members)) < st.numProps.Min {
		s.why = st.sum
		return nil, none
	}
	return s.assembleObjects(st, members, want), false
}

// choosesNames reports whether statements leave open which property makes them true. Then the failure of one choice is no proof.
func (st *state) choosesNames() bool { return len(st.someRests) > 0 || len(st.someKeys) > 0 }

// chooseNames returns the names of the properties that an object needs, sorted, and what SomeRest demands of them besides. If it finds none,
// it reports whether that is a proof.
func (s *Solver) chooseNames(st *state, depth int) (names []string, extra map[string][]fact, found, none bool) {
	names, extra = slices.Clone(st.fields.had), map[string][]fact{}
	for _, sr := range st.someRests {
		// With two such statements, another choice for the first one might leave room for the second.
		if found, none := s.placeSomeRest(st, names, extra, sr, depth); !found {
			return nil, nil, false, none && len(st.someRests) == 1
		}
	}
	for name := range extra {
		if !st.hasProperty(name) {
			names = append(names, name)
		}
	}
	for _, f := range st.someKeys {
		name, found, none := s.placeSomeKey(st, names, f, depth)
		if !found {
			return nil, nil, false, none && len(st.someKeys) == 1
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, extra, true, false
}

// solveMembers returns values for the properties. If one has none, it reports whether that is a proof, and s.why has what it rests on.
func (s *Solver) solveMembers(st *state, names []string, extra map[string][]fact, want, depth int) (members []member, found, none bool) {
	for _, name := range names {
		if !s.keyAllowed(st, name) {
			s.why = st.sum
			return nil, false, st.hasProperty(name) || !st.choosesNames()
		}
		values, none := s.solveFacts(append(slices.Clip(st.childFacts(name)), extra[name]...), searchWidth(want), depth+1)
		switch {
		case len(values) > 0:
			members = append(members, member{name, values})
		case st.hasProperty(name) && len(extra[name]) == 0:
			s.why |= st.why | st.fields.named[name].hasWhy
			return nil, false, none
		default:
			return nil, false, false // another choice might do
		}
	}
	return members, true, false
}

// entriesCopied is the number of entries of an object that a unit of work pays to copy.
const entriesCopied = 8

// assembleObjects makes objects of the members: the first value of each, then each alternative alone. It makes one at a time: an object may
// have as many members as a request has room for, and as many alternatives as members.
func (s *Solver) assembleObjects(st *state, members []member, want int) []any {
	base := make(map[string]any, len(members))
	for _, m := range members {
		base[m.name] = m.values[0]
	}
	var out []any
	// Children satisfy the facts of st about them, so only facts about the object as a whole have to be checked.
	keep := func(v map[string]any) {
		if s.wholeHolds(st, v) {
			out = append(out, v)
		}
	}
	keep(base)
	made := 1
	for round := 1; made < want; round++ {
		before := made
		for _, m := range members {
			if round >= len(m.values) {
				continue
			}
			if len(out) >= want || !s.chargeStep(int64(len(members)/entriesCopied+1)) {
				break
			}
			v := maps.Clone(base)
			v[m.name] = m.values[round]
			keep(v)
			made++
		}
		if made == before {
			break
		}
	}
	if len(out) == 0 {
		s.recordReason("no object found whose properties fit together")
	}
	return out
}

// wholeHolds reports whether an object satisfies the facts about it as a whole. Those about single properties were satisfied when their values
// were searched.
func (s *Solver) wholeHolds(st *state, v any) bool {
	for _, f := range st.all {
		switch f.(type) {
		case Prop, Rest:
			continue
		}
		if s.evalFormula(f, v) == No {
			return false
		}
	}
	return true
}

// keyAllowed reports whether no fact about all keys certainly refuses the name.
func (s *Solver) keyAllowed(st *state, name string) bool {
	for _, f := range st.allKeys {
		if s.evalFormula(f, name) == No {
			return false
		}
	}
	return true
}

// placeSomeRest chooses the property that makes sr true and records it in extra. The first result is false if there is none; the second
// reports whether that is a proof.
func (s *Solver) placeSomeRest(st *state, names []string, extra map[string][]fact, sr SomeRest, depth int) (found, none bool) {
	complete := true
	try := func(name string) bool {
		if inSorted(sr.Except, name) || st.lacksProperty(name) || !s.keyAllowed(st, name) {
			return false
		}
		demand := fact{sr.F, st.sum}
		found, none := s.solveFacts(append(slices.Clip(st.childFacts(name)), append(slices.Clip(extra[name]), demand)...), 1, depth+1)
		if len(found) == 0 {
			complete = complete && none
			return false
		}
		extra[name] = append(extra[name], demand)
		return true
	}
	if slices.ContainsFunc(names, try) {
		return true, false
	}
	fresh, none := s.freshKeys(st, sr.Except, extra, nil, 1)
	complete = complete && (none || len(fresh) > 0)
	if slices.ContainsFunc(fresh, try) {
		return true, false
	}
	if slices.ContainsFunc(st.mentionedNames(), try) {
		return true, false
	}
	return false, complete
}

// placeSomeKey chooses a key that satisfies f. The second result is false if there is none; the third reports whether that is a proof:
// no field that is named elsewhere can have such a name, and there is no other such name, or none whose value is possible.
func (s *Solver) placeSomeKey(st *state, names []string, f Formula, depth int) (name string, found, none bool) {
	for _, name := range names {
		if s.evalFormula(f, name) != No {
			return name, true, false
		}
	}
	complete := len(st.someRests) == 0 // they have chosen some of names
	possible := func(name string) bool {
		found, none := s.solveFacts(st.childFacts(name), 1, depth+1)
		complete = complete && (len(found) > 0 || none)
		return len(found) > 0
	}
	for _, name := range st.mentionedNames() {
		if !st.lacksProperty(name) && s.evalFormula(f, name) != No && s.keyAllowed(st, name) && possible(name) {
			return name, true, false
		}
	}
	fresh, noKey := s.freshKeys(st, nil, nil, f, 4)
	for _, name := range fresh { // a fact about the value of one fresh key is a fact about all
		if possible(name) {
			return name, true, false
		}
	}
	s.recordReason("no property name found")
	return "", false, complete && (noKey || len(fresh) > 0)
}

// freshKeys returns property names that st does not mention, that are not in except or taken, and that satisfy the key formulas. The
// second result is true if it is proven that there are none, in use or not.
func (s *Solver) freshKeys(st *state, except []string, taken map[string][]fact, f Formula, n int) ([]string, bool) {
	used := map[string]bool{}
	for _, name := range slices.Concat(except, st.mentionedNames(), st.fields.names, slices.Collect(maps.Keys(taken))) {
		used[name] = true
	}
	if len(st.allKeys) == 0 && f == nil {
		return plainKeys(used, n), false
	}
	fs := []fact{{Kinds(String), st.sum}}
	for _, g := range st.allKeys {
		fs = append(fs, fact{g, st.sum})
	}
	if f != nil {
		fs = append(fs, fact{f, st.sum})
	}
	allowed := slices.Clip(fs)
	if len(used) > 0 {
		fs = append(fs, fact{Enum{Values: stringValues(slices.Sorted(maps.Keys(used))), Neg: true}, st.sum})
	}
	found, none := s.solveFacts(fs, n, 1)
	if none = none && len(found) == 0; none && len(used) > 0 { // it was a choice to use all the keys, so this is no proof
		found, none := s.solveFacts(allowed, 1, 1)
		return nil, none && len(found) == 0
	}
	var out []string
	for _, v := range found {
		if name, ok := v.(string); ok {
			out = append(out, name)
		}
	}
	return out, none
}

// plainKeys returns n names that are not used: single letters, then numbered ones.
func plainKeys(used map[string]bool, n int) (out []string) {
	for i := 0; len(out) < n; i++ {
		name := fmt.Sprintf("key%d", i)
		if i < 8 {
			name = string(rune('a' + i))
		}
		if !used[name] {
			out = append(out, name)
		}
	}
	return out
}

// manyKeys bounds the properties that are generated.
const manyKeys = 20_000

// padObject adds optional properties until NumProps is satisfied.
func (s *Solver) padObject(st *state, members []member, depth int) ([]member, bool) {
	if int64(len(members)) >= st.numProps.Min {
		return members, false
	}
	have := map[string][]fact{}
	for _, m := range members {
		have[m.name] = nil
	}
	complete := true
	for _, name := range st.mentionedNames() {
		if int64(len(members)) >= st.numProps.Min {
			return members, false
		}
		if _, ok := have[name]; ok || st.lacksProperty(name) || !s.keyAllowed(st, name) {
			continue
		}
		found, none := s.solveFacts(st.childFacts(name), 1, depth+1)
		if len(found) == 0 {
			complete = complete && none
			continue
		}
		have[name] = nil
		members = append(members, member{name, found})
	}
	return s.padFresh(st, members, have, complete, depth)
}

// padFresh adds properties that no formula mentions. The mentioned ones are in have, or cannot be added: complete reports whether that
// is proved.
func (s *Solver) padFresh(st *state, members []member, have map[string][]fact, complete bool, depth int) ([]member, bool) {
	for int64(len(members)) < st.numProps.Min {
		missing := st.numProps.Min - int64(len(members))
		if missing > manyKeys || missing > manyItems && len(st.allKeys) > 0 {
			s.recordReason("an object of many properties")
			return members, false
		}
		fresh, noKey := s.freshKeys(st, nil, have, nil, int(missing))
		if len(fresh) == 0 {
			return members, complete && noKey
		}
		found, none := s.solveFacts(st.childFacts(fresh[0]), 1, depth+1)
		if len(found) == 0 {
			if !none {
				s.recordReason("not enough properties found")
			}
			return members, complete && none
		}
		for _, name := range fresh {
			if int64(len(members)) < st.numProps.Min {
				have[name] = nil
				members = append(members, member{name, found})
			}
		}
	}
	return members, false
}
