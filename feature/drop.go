package feature

// What is left of an object whose closed parts are dropped? For example, {timeout: 1h, name: a} becomes {name: a}. If
// the stored object has another timeout at that place, that one comes back: a write must not remove what it may not
// change. With resetTo the value becomes the one that the definition names.

import (
	"maps"
	"slices"
)

// change says what happened to a value.
type change uint8

const (
	kept change = iota
	changed
	removed
)

// dropUses removes the parts of v that are not allowed, or restores the stored ones. It copies values that change.
func (w *walker) dropUses(n *node, v any) (any, change) {
	if v == nil {
		return v, kept
	}
	var refuses *gate
	var reset any
	// Each closed gate is recorded. What becomes of the value is the same for all of them: [definer.findContradictions] sees to that.
	for _, g := range n.gates {
		if g.target.countsAsUse(v) && !w.allowsUse(g, v) {
			w.recordUse(g, v)
			refuses = g
			if g.target.Reset != nil {
				reset = g.target.Reset
			}
		}
	}
	if reset != nil {
		return reset, changed
	}
	if refuses != nil {
		if w.request.Old != nil {
			if old, ok := w.storedObject().valueAt(refuses, w.trail); ok {
				return old, changed
			}
		}
		return nil, removed
	}
	switch v := v.(type) {
	case map[string]any:
		return w.dropFields(n, v)
	case []any:
		return w.dropItems(n, v)
	}
	return v, kept
}

// dropFields drops within the fields of an object or the entries of a map. The result is v itself if nothing in it has
// changed.
func (w *walker) dropFields(n *node, v map[string]any) (map[string]any, change) {
	out, done := v, kept
	for c, next := range n.childrenOf(v) {
		x, what := w.dropChild(next, c)
		if what == kept {
			continue
		}
		if done == kept {
			out, done = maps.Clone(v), changed
		}
		if what == removed {
			delete(out, c.name)
		} else {
			out[c.name] = x
		}
	}
	return out, done
}

// dropItems drops within the items of a list, whose indices move up behind a removed one. The places of violations keep
// the indices that the client sent.
func (w *walker) dropItems(n *node, v []any) ([]any, change) {
	out, done := v, kept
	gone := 0
	for c, next := range n.childrenOf(v) {
		x, what := w.dropChild(next, c)
		if what != kept && done == kept {
			out, done = slices.Clone(v), changed
		}
		switch {
		case what == removed:
			gone++
			continue
		case what == changed:
			out[c.index-gone] = x
		case gone > 0:
			out[c.index-gone] = c.value
		}
	}
	return out[:len(out)-gone], done
}

func (w *walker) dropChild(n *node, c child) (any, change) {
	w.trail = append(w.trail, c.place)
	x, what := w.dropUses(n, c.value)
	w.trail = w.trail[:len(w.trail)-1]
	return x, what
}
