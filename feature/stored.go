package feature

// Was a use there before? The ratchet allows what the stored object has at the same place. For example, the item of a
// list of type map is found by its keys, wherever it stands now; items without identity stand for each other. Facts
// about the stored object are kept while one request is judged, so that the work stays linear.

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"sluice.dev/api/v1alpha1"
)

// stored is the stored object with facts about it, so that no list is searched twice.
type stored struct {
	root map[string]any
	// items finds items of a list by their identity: their indices. Lists are known by the address of their first item.
	items map[*any]map[string][]int
	// uses holds what a gate finds beneath a list whose items have no identity.
	uses map[listGate]*usesIn
	// features has for a feature whether the object uses it anywhere.
	features map[*Feature]bool
}

type listGate struct {
	list *any
	gate *gate
}

// usesIn are the uses of a gate beneath a list.
type usesIn struct {
	any    bool
	values map[string]bool // in canonical form; nil if the values do not matter
}

// hasUseAt reports whether the stored object has a use of the gate at the place where the new one has v, so that v is allowed.
func (s *stored) hasUseAt(g *gate, trail []place, v any) bool {
	found := false
	s.visitAt(s.root, g, trail, func(old any) bool {
		found = g.ratchetAllows(old, v)
		return !found
	}, func(list []any, rest Path) {
		found = found || s.usesOf(list, g, rest).allowsValue(g, v)
	})
	return found
}

// usedBy reports whether the stored object uses a feature anywhere, by its parts in the version of the request.
func (s *stored) usedBy(f *Feature, r *Request) bool {
	used, known := s.features[f]
	if !known {
		used = slices.ContainsFunc(f.Targets, func(t Target) bool {
			return t.Group == r.Group && t.Resource == r.Resource && (t.Version == r.Version || t.Version == "") && !t.WholeVersion && t.usedIn(s.root, t.Path)
		})
		if s.features == nil {
			s.features = map[*Feature]bool{}
		}
		s.features[f] = used
	}
	return used
}

// valueAt returns what is stored at the place, if there is one such place with something in it.
func (s *stored) valueAt(g *gate, trail []place) (v any, ok bool) {
	s.visitAt(s.root, g, trail, func(old any) bool {
		v, ok = old, old != nil
		return !ok
	}, func([]any, Path) {})
	return v, ok
}

// ratchetAllows reports whether old, at the same place, allows v.
func (g *gate) ratchetAllows(old, v any) bool {
	if !g.target.countsAsUse(old) {
		return false
	}
	if g.needsEqual() {
		return equalValues(old, v)
	}
	return true
}

// needsEqual reports whether only an equal value passes: each enum value is a use of its own.
func (g *gate) needsEqual() bool {
	return g.state.Feature.Spec.Ratchet == v1alpha1.Unchanged || g.target.Values != nil && g.state.Feature.Spec.Ratchet != v1alpha1.InObject
}

// allowsValue reports whether uses beneath a list allow a new one there.
func (u *usesIn) allowsValue(g *gate, v any) bool {
	if !g.needsEqual() {
		return u.any
	}
	return u.any && u.values[string(appendCanonical(nil, v))]
}

// visitAt follows the trail through the stored object. It calls do for each value that is there, as long as do returns true. There may be
// several values if a list has a key twice. If the items of a list have no identity, it calls beneath instead, with the rest of the
// path, including the step into the list.
func (s *stored) visitAt(v any, g *gate, trail []place, do func(any) bool, beneath func(list []any, rest Path)) bool {
	steps := g.target.Path[len(g.target.Path)-len(trail):]
	for i, p := range trail {
		switch p.kind {
		case Field, Entries, Each:
			object, ok := v.(map[string]any)
			if !ok {
				return true
			}
			if v, ok = object[p.name]; !ok {
				return true
			}
		case Items:
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				return true
			}
			if !steps[i].isKeyed() {
				beneath(list, steps[i:])
				return true
			}
			return s.atItem(list, steps[i], g, trail[i:], do, beneath)
		}
	}
	return do(v)
}

// atItem continues with the items that have the identity of the new one: usually the one at the same index.
func (s *stored) atItem(list []any, step Step, g *gate, trail []place, do func(any) bool, beneath func([]any, Path)) bool {
	p, guess := trail[0], -1
	if p.index < len(list) && step.sameIdentity(list[p.index], p.item) {
		guess = p.index
		if !s.visitAt(list[guess], g, trail[1:], do, beneath) {
			return false
		}
	}
	for _, i := range s.indexItems(list, step)[step.identityOf(p.item)] {
		if i != guess && !s.visitAt(list[i], g, trail[1:], do, beneath) {
			return false
		}
	}
	return true
}

// indexItems returns the indices of the items of a list by identity. The list must not be empty.
func (s *stored) indexItems(list []any, step Step) map[string][]int {
	first := &list[0]
	if m := s.items[first]; m != nil {
		return m
	}
	m := make(map[string][]int, len(list))
	for i, v := range list {
		id := step.identityOf(v)
		m[id] = append(m[id], i)
	}
	if s.items == nil {
		s.items = map[*any]map[string][]int{}
	}
	s.items[first] = m
	return m
}

// identityOf returns the identity of an item in a list. A missing key is an identity like any other, so that an unchanged item always
// finds itself.
func (s Step) identityOf(item any) string {
	if s.Set {
		return string(appendCanonical(nil, item))
	}
	object, ok := item.(map[string]any)
	if !ok {
		return "none"
	}
	if len(s.Keys) == 1 {
		if k, ok := object[s.Keys[0]].(string); ok {
			return "s" + k
		}
	}
	b := []byte{'k'}
	for _, k := range s.Keys {
		b = appendCanonical(b, object[k])
	}
	return string(b)
}

// sameIdentity reports whether two items have the same identity.
func (s Step) sameIdentity(a, b any) bool {
	if s.Set {
		return equalValues(a, b)
	}
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		return ok == ok2
	}
	for _, k := range s.Keys {
		if !equalValues(x[k], y[k]) {
			return false
		}
	}
	return true
}

// usesOf returns the uses of a gate beneath a list.
func (s *stored) usesOf(list []any, g *gate, rest Path) *usesIn {
	key := listGate{&list[0], g}
	if u := s.uses[key]; u != nil {
		return u
	}
	u := &usesIn{}
	if g.needsEqual() {
		u.values = map[string]bool{}
	}
	visitPath(list, rest, func(v any) bool {
		if !g.target.countsAsUse(v) {
			return true
		}
		u.any = true
		if u.values == nil {
			return false
		}
		u.values[string(appendCanonical(nil, v))] = true
		return true
	})
	if s.uses == nil {
		s.uses = map[listGate]*usesIn{}
	}
	s.uses[key] = u
	return u
}

// maxNesting bounds the depth of values that are compared; deeper ones equal nothing. JSON in the API server is at most 10,000
// deep.
const maxNesting = 10_000

// equalValues reports whether two values are the same; 1 and 1.0 are, and null is the same as a field that is not there.
func equalValues(a, b any) bool { return equalAt(a, b, maxNesting, false) }

// equalToNull is equal, except that null is a value of its own: stored objects have null if a schema says nullable.
func equalToNull(a, b any) bool { return equalAt(a, b, maxNesting, true) }

func equalAt(a, b any, depth int, null bool) bool {
	if depth == 0 {
		return false
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && equalFields(a, b, depth, null)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(x, y any) bool { return equalAt(x, y, depth-1, null) })
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case nil:
		return b == nil
	}
	x, ok := numberOf(a)
	y, ok2 := numberOf(b)
	return ok && ok2 && x == y
}

func equalFields(a, b map[string]any, depth int, null bool) bool {
	n := 0
	for k, v := range a {
		if v == nil && !null {
			continue
		}
		n++
		other, there := b[k]
		if null && !there || !equalAt(v, other, depth-1, null) {
			return false
		}
	}
	for _, v := range b {
		if v != nil || null {
			n--
		}
	}
	return n == 0
}

// numberOf returns an integral number as itself, and another as its bits and true.
func numberOf(v any) (n struct {
	n      int64
	broken bool
}, ok bool,
) {
	switch v := v.(type) {
	case int64:
		n.n = v
		return n, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			n.n = int64(v)
			return n, true
		}
		n.n, n.broken = int64(math.Float64bits(v)), true //nolint:gosec // the bits, not the number
		return n, true
	}
	return n, false
}

// appendCanonical appends bytes that are the same for two values if and only if the values are equal.
func appendCanonical(b []byte, v any) []byte { return canonicalAt(b, v, maxNesting) }

func canonicalAt(b []byte, v any, depth int) []byte {
	if depth == 0 {
		return append(b, '!')
	}
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if v[k] != nil {
				b = canonicalAt(appendText(b, k), v[k], depth-1)
			}
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, x := range v {
			b = canonicalAt(b, x, depth-1)
		}
		return append(b, ']')
	case string:
		return appendText(append(b, 's'), v)
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case nil:
		return append(b, '0')
	}
	n, ok := numberOf(v)
	switch {
	case !ok:
		return append(b, '?')
	case n.broken:
		b = append(b, 'b')
	default:
		b = append(b, 'n')
	}
	return append(strconv.AppendInt(b, n.n, 10), ';')
}

// appendText writes a string so that no other written string begins with it.
func appendText(b []byte, s string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(s)), 10), ':'), s...)
}
