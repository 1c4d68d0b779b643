package logic

import (
	"fmt"
	"maps"
	"slices"
)

// member is a property that the object must have, with what is known of its value.
type member struct {
	name   string
	values []any
}

func (s *Solver) solveObject(st *state, want, depth int) ([]any, bool) {
	names := slices.Clone(st.has)
	extra := map[string][]Formula{} // what SomeRest demands of a property besides
	complete := true
	for _, sr := range st.someRests {
		_, found, none := s.placeSomeRest(st, names, extra, sr, depth)
		if !found {
			return nil, none && len(st.someRests) == 1
		}
		complete = complete && none
	}
	for name := range extra {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, f := range st.someKeys {
		name, found, none := s.placeSomeKey(st, names, f, depth)
		if !found {
			return nil, none && len(st.someKeys) == 1
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if int64(len(names)) > st.numProps.Max {
		s.fail("too many properties are demanded")
		return nil, len(st.someRests) == 0 && len(st.someKeys) == 0
	}
	var members []member
	for _, name := range names {
		if !s.keyAllowed(st, name) {
			return nil, len(st.someRests) == 0 && len(st.someKeys) == 0
		}
		found, none := s.solve(append(st.child(name), extra[name]...), width(want), depth+1)
		if len(found) == 0 {
			return nil, none && (slices.Contains(st.has, name) && len(extra[name]) == 0 || complete)
		}
		members = append(members, member{name, found})
	}
	members, none := s.padObject(st, members, depth)
	if int64(len(members)) < st.numProps.Min {
		return nil, none
	}
	return s.assemble(st, members, want), false
}

// assemble makes objects of the members: the first value of each, then each alternative alone.
func (s *Solver) assemble(st *state, members []member, want int) []any {
	base := make(map[string]any, len(members))
	for _, m := range members {
		base[m.name] = m.values[0]
	}
	candidates := []any{base}
	for round := 1; len(candidates) < want; round++ {
		more := false
		for _, m := range members {
			if round < len(m.values) {
				more = true
				v := maps.Clone(base)
				v[m.name] = m.values[round]
				candidates = append(candidates, v)
			}
		}
		if !more {
			break
		}
	}
	// Children were solved under what st says of them, so only what speaks of the object as a whole is left to check.
	var out []any
	for _, c := range candidates {
		if s.wholeHolds(st, c) {
			if out = append(out, c); len(out) >= want {
				break
			}
		}
	}
	if len(out) == 0 {
		s.fail("no object found whose properties fit together")
	}
	return out
}

func (s *Solver) wholeHolds(st *state, v any) bool {
	for _, f := range st.all {
		switch f.(type) {
		case Prop, Rest:
			continue
		}
		if Eval(f, v, s.Strings) == No {
			return false
		}
	}
	return true
}

// child collects what st says of the property name.
func (st *state) child(name string) []Formula {
	var out []Formula
	for _, p := range st.props {
		if p.Name == name {
			out = append(out, p.F)
		}
	}
	for _, r := range st.rests {
		if _, ok := slices.BinarySearch(r.Except, name); !ok {
			out = append(out, r.F)
		}
	}
	return out
}

func (s *Solver) keyAllowed(st *state, name string) bool {
	for _, f := range st.allKeys {
		if Eval(f, name, s.Strings) == No {
			return false
		}
	}
	return true
}

// placeSomeRest chooses the property that makes sr true and notes it in extra. The second result is
// false if there is none; the third tells whether that is a proof.
func (s *Solver) placeSomeRest(st *state, names []string, extra map[string][]Formula, sr SomeRest, depth int) (name string, found, none bool) {
	complete := true
	try := func(name string) bool {
		if _, ok := slices.BinarySearch(sr.Except, name); ok || slices.Contains(st.lacks, name) || !s.keyAllowed(st, name) {
			return false
		}
		found, none := s.solve(append(st.child(name), append(slices.Clip(extra[name]), sr.F)...), 1, depth+1)
		if len(found) == 0 {
			complete = complete && none
			return false
		}
		extra[name] = append(extra[name], sr.F)
		return true
	}
	for _, name := range names {
		if try(name) {
			return name, true, false
		}
	}
	fresh, none := s.freshKeys(st, sr.Except, extra, nil, 1)
	complete = complete && (none || len(fresh) > 0)
	for _, name := range fresh { // what holds for one fresh key holds for all
		if try(name) {
			return name, true, false
		}
	}
	for _, name := range st.mentioned() {
		if try(name) {
			return name, true, false
		}
	}
	return "", false, complete
}

func (s *Solver) placeSomeKey(st *state, names []string, f Formula, depth int) (name string, found, none bool) {
	for _, name := range names {
		if Eval(f, name, s.Strings) != No {
			return name, true, false
		}
	}
	for _, name := range st.mentioned() {
		if slices.Contains(st.lacks, name) || Eval(f, name, s.Strings) == No || !s.keyAllowed(st, name) {
			continue
		}
		if found, _ := s.solve(st.child(name), 1, depth+1); len(found) > 0 {
			return name, true, false
		}
	}
	fresh, none := s.freshKeys(st, nil, nil, f, 4)
	for _, name := range fresh {
		if found, _ := s.solve(st.child(name), 1, depth+1); len(found) > 0 {
			return name, true, false
		}
	}
	s.fail("no property name found")
	return "", false, none && len(st.mentioned()) == 0
}

// mentioned returns the names that st speaks of, sorted.
func (st *state) mentioned() []string {
	var out []string
	for _, p := range st.props {
		out = append(out, p.Name)
	}
	for _, r := range st.rests {
		out = append(out, r.Except...)
	}
	for _, r := range st.someRests {
		out = append(out, r.Except...)
	}
	return NamesExcept(out...)
}

// freshKeys returns property names that st does not mention, that are not in except or taken, and that are as the key
// formulas say. The second result is true where it is proven that there are none.
func (s *Solver) freshKeys(st *state, except []string, taken map[string][]Formula, f Formula, n int) ([]string, bool) {
	used := map[string]bool{}
	for _, group := range [][]string{except, st.mentioned(), st.has, st.lacks} {
		for _, n := range group {
			used[n] = true
		}
	}
	for n := range taken {
		used[n] = true
	}
	if len(st.allKeys) == 0 && f == nil {
		var out []string
		for i := 0; len(out) < n; i++ {
			name := fmt.Sprintf("key%d", i)
			if i < 8 {
				name = string(rune('a' + i))
			}
			if !used[name] {
				out = append(out, name)
			}
		}
		return out, false
	}
	fs := append(slices.Clone(st.allKeys), Kinds(String))
	if f != nil {
		fs = append(fs, f)
	}
	allowed := fs
	for _, n := range slices.Sorted(maps.Keys(used)) {
		fs = append(slices.Clip(fs), Enum{Values: []any{n}, Neg: true})
	}
	found, none := s.solve(fs, n, 1)
	if none && len(used) > 0 { // that all keys are in use is a choice, and no proof
		_, none = s.solve(allowed, 1, 1)
	}
	var out []string
	for _, v := range found {
		if name, ok := v.(string); ok {
			out = append(out, name)
		}
	}
	return out, none
}

// manyKeys is how many properties are made up at most.
const manyKeys = 20_000

// padObject adds optional properties until there are as many as NumProps wants.
func (s *Solver) padObject(st *state, members []member, depth int) ([]member, bool) {
	if int64(len(members)) >= st.numProps.Min {
		return members, false
	}
	have := map[string][]Formula{}
	for _, m := range members {
		have[m.name] = nil
	}
	complete := true
	for _, name := range st.mentioned() {
		if int64(len(members)) >= st.numProps.Min {
			return members, false
		}
		if _, ok := have[name]; ok || slices.Contains(st.lacks, name) || !s.keyAllowed(st, name) {
			continue
		}
		found, none := s.solve(st.child(name), 1, depth+1)
		if len(found) == 0 {
			complete = complete && none
			continue
		}
		have[name] = nil
		members = append(members, member{name, found})
	}
	for int64(len(members)) < st.numProps.Min {
		missing := st.numProps.Min - int64(len(members))
		if missing > manyKeys || missing > manyItems && len(st.allKeys) > 0 {
			s.fail("an object of many properties")
			return members, false
		}
		fresh, noKey := s.freshKeys(st, nil, have, nil, int(missing))
		if len(fresh) == 0 {
			return members, complete && noKey
		}
		found, none := s.solve(st.child(fresh[0]), 1, depth+1)
		if len(found) == 0 {
			if !none {
				s.fail("not enough properties found")
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
