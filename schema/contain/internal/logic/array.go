package logic

// Which list satisfies all that is known? The search makes an item for each statement about some item, and pads the list to its least length
// with items that all statements about all items allow. For example, for "some item is over 5, and the items differ" of two items it makes 6
// and another one.
//
// It does not try all ways to spread the demands over the items. So a failure is a proof only if there is room for
// one item, or no demand at all; otherwise the search says that it gave up.

import (
	"fmt"
	"maps"
	"slices"
)

// manyItems bounds the distinct items of which each has a search of its own, mostItems those of longer lists.
const manyItems, mostItems = 300, 1200

// solveArray searches lists. Each statement about some item may be about an item of its own. If there is room for one item only, it has to
// satisfy all of them, and the search is exhaustive; with more room it is not.
func (s *Solver) solveArray(st *state, want, depth int) ([]any, bool) {
	lo, hi := st.numItems.Min, st.numItems.Max
	var distinct []UniqueBy
	duplicates := false
	for _, u := range st.unique {
		if u.Neg {
			duplicates = true
		} else {
			distinct = append(distinct, u.By)
		}
	}
	s.why = st.why | st.said[kindIndex(Array)]
	defer func() { s.why = st.why | st.said[kindIndex(Array)] }()
	some := st.someItems
	complete := true
	// More demands than items: all of them have to be met by the same item.
	if int64(len(some)) > hi {
		if hi == 0 {
			return nil, true
		}
		complete = hi == 1 // the search is only exhaustive if one item satisfies all demands
		all := make(And, len(some))
		for i, f := range some {
			all[i] = f.f
		}
		some = []fact{{all, st.sum}}
	}
	if duplicates && hi < 2 {
		return nil, true
	}
	if len(some) == 0 && lo == 0 && !duplicates {
		out := s.keepUnrefused(st, []any{[]any{}}, want)
		if len(out) < want && hi > 0 {
			more, _ := s.makeArrays(st, []fact{{f: True}}, lo, hi, distinct, duplicates, want-len(out), depth)
			out = append(out, more...)
		}
		return out, hi == 0
	}
	out, none := s.makeArrays(st, some, lo, hi, distinct, duplicates, want, depth)
	return out, none && complete
}

// makeArrays makes arrays with an item for each of some, padded to lo.
func (s *Solver) makeArrays(st *state, some []fact, lo, hi int64, distinct []UniqueBy, duplicates bool, want, depth int) ([]any, bool) {
	var heads [][]any // alternatives for the items of some
	for _, f := range some {
		found, none := s.solveFacts(append(slices.Clip(st.items), f), searchWidth(want), depth+1)
		if len(found) == 0 {
			return nil, none
		}
		heads = append(heads, found)
	}
	base := make([]any, 0, len(heads)+2)
	for _, h := range heads {
		base = append(base, firstApart(h, base, distinct))
	}
	if duplicates {
		twin, none := s.addTwins(st, base, distinct, depth)
		if twin == nil {
			return nil, none
		}
		base = twin
		if int64(len(base)) > hi {
			s.recordReason("items that must be equal and more that must differ do not fit")
			return nil, false
		}
	}
	base, none := s.padItems(st, base, lo, distinct, depth)
	if base == nil {
		return nil, none
	}
	candidates := []any{base}
	for i, h := range heads {
		for _, alternative := range h[1:] {
			v := slices.Clone(base)
			v[i] = alternative
			candidates = append(candidates, v)
		}
	}
	out := s.keepUnrefused(st, candidates, want)
	if len(out) == 0 {
		s.recordReason("no array found whose items fit together")
	}
	return out, false
}

// firstApart returns the first candidate that differs from all others, and the first of all if none does: the whole
// list is judged later.
func firstApart(candidates, others []any, distinct []UniqueBy) any {
	for _, c := range candidates {
		if !collidesWith(c, others, distinct) {
			return c
		}
	}
	return candidates[0]
}

// collidesWith reports whether v equals one of the others in one of the ways in which items must differ.
func collidesWith(v any, others []any, distinct []UniqueBy) bool {
	for _, by := range distinct {
		names := by.keyNames()
		for _, o := range others {
			if by.equalItems(names, v, o) {
				return true
			}
		}
	}
	return false
}

// addTwins adds items so that, for each negated Unique of st and for no other one, two items are equal.
func (s *Solver) addTwins(st *state, base []any, distinct []UniqueBy, depth int) ([]any, bool) {
	if len(base) == 0 {
		found, none := s.solveFacts(st.items, 1, depth+1)
		if len(found) == 0 {
			return nil, none
		}
		base = append(base, found[0])
	}
	first := base[0]
	candidates := []any{first}
	// The twin has to be equal to the first item in one way and different in the others, so it is searched for by its
	// keys.
	if len(distinct) > 0 {
		var same And
		for _, u := range st.unique {
			if u.Neg {
				same = append(same, equalKeys(u.By, first))
			}
		}
		fs := append(slices.Clip(st.items), fact{same, st.sum})
		for _, by := range distinct {
			fs = append(fs, fact{Not(equalKeys(by, first)), st.sum})
		}
		found, _ := s.solveFacts(fs, 6, depth+1)
		candidates = found
	}
	for _, c := range candidates {
		if !collidesWith(c, base, distinct) {
			return append(base, c), false
		}
	}
	s.recordReason("no two items found that are equal in one way and differ in another")
	return nil, false
}

// exactlyEqual is true of values that are deeply equal to v.
func exactlyEqual(v any) Formula {
	switch v := v.(type) {
	case nil:
		return Kinds(Null)
	case int64:
		return And{Kinds(Int), IntRange{v, v}}
	case float64:
		return And{Kinds(Float), FloatRange{Lo: v, Hi: v}}
	}
	return And{Kinds(KindOf(v)), Enum{Values: []any{v}}}
}

// equalKeys is true of items whose keys are deeply equal to those of v.
func equalKeys(by UniqueBy, v any) Formula {
	names := by.keyNames()
	if names == nil {
		return exactlyEqual(v)
	}
	m, _ := v.(map[string]any)
	var out And
	for _, n := range names {
		if x, ok := m[n]; ok { // null has no keys
			out = append(out, Kinds(Object), Has{n}, Prop{n, exactlyEqual(x)})
		} else {
			out = append(out, Lacks{n})
		}
	}
	return out
}

// padItems appends items until there are lo.
func (s *Solver) padItems(st *state, base []any, lo int64, distinct []UniqueBy, depth int) ([]any, bool) {
	if int64(len(base)) >= lo {
		return base, false
	}
	if len(distinct) == 0 {
		found, none := s.solveFacts(st.items, 1, depth+1)
		if len(found) == 0 {
			return nil, none
		}
		for int64(len(base)) < lo {
			base = append(base, found[0])
		}
		return base, false
	}
	// One search for each item would take too long.
	if lo > manyItems {
		if base = s.padWithVariants(st, base, lo, distinct, depth); base == nil {
			s.recordReason("a list of many distinct items")
		}
		return base, false
	}
	for int64(len(base)) < lo {
		fs := slices.Clone(st.items)
		for _, by := range distinct {
			for _, o := range base {
				fs = append(fs, fact{Not(equalKeys(by, o)), st.sum})
			}
		}
		found, none := s.solveFacts(fs, 1, depth+1)
		if len(found) == 0 {
			s.recordReason("not enough distinct items found")
			// If every item equals one of base, and those differ, there are no other distinct items.
			return nil, none && len(distinct) == 1 && allDistinct(base, distinct)
		}
		base = append(base, found[0])
	}
	return base, false
}

// padWithVariants appends items that differ from one item in a text or a number of their keys until there are lo, as long as all that is said of
// items may be true of them; nil if that is not enough.
func (s *Solver) padWithVariants(st *state, base []any, lo int64, distinct []UniqueBy, depth int) []any {
	found, _ := s.solveFacts(st.items, 1, depth+1)
	if len(found) == 0 || lo > mostItems {
		return nil
	}
	for n := 0; int64(len(base)) < lo; n++ {
		if n > 2*mostItems || s.workSpent() {
			return nil
		}
		for _, v := range variantsOf(found[0], distinct[0].keyNames(), n) {
			said := func(f fact) bool { return s.evalFormula(f.f, v) == No }
			if !slices.ContainsFunc(st.items, said) && !collidesWith(v, base, distinct) {
				base = append(base, v)
				break
			}
		}
	}
	return base
}

// variantsOf are values like v, in which the first key, or v itself if there are no keys, is another text or number for each n.
func variantsOf(v any, keys []string, n int) (out []any) {
	switch v := v.(type) {
	case int64:
		return []any{v + int64(n), v - int64(n)}
	case float64:
		return []any{v + float64(n)}
	case string:
		text := ""
		for i := n; i >= 0; i = i/26 - 1 {
			text = string(rune('a'+i%26)) + text
		}
		rs := []rune(v)
		return []any{text, v + text, string(rs[:max(0, len(rs)-len(text))]) + text, fmt.Sprintf("%0*d", len(rs), n)}
	case map[string]any:
		for _, key := range keys {
			for _, value := range variantsOf(v[key], nil, n) {
				item := maps.Clone(v)
				item[key] = value
				out = append(out, item)
			}
			if out != nil {
				break
			}
		}
	}
	return out
}

// allDistinct reports whether the items are distinct.
func allDistinct(items []any, distinct []UniqueBy) bool {
	for i, v := range items {
		if collidesWith(v, items[:i], distinct) {
			return false
		}
	}
	return true
}
