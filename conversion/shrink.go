package conversion

// What is the smallest object that shows it? Parts of it are left out, as long as the rest is valid and shows the same.

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// maxShrunk bounds the findings whose objects are made smaller, and maxTries the attempts for each.
	maxShrunk = 50
	maxTries  = 200
)

// shrinkAll makes the objects of the first findings smaller.
func (c *checker) shrinkAll(ctx context.Context) {
	for _, key := range c.order[:min(len(c.order), maxShrunk)] {
		if s := c.found[key]; s.rule != ruleProtocol && s.rule != ruleBatch && s.rule != ruleRandom && s.rule != ruleSlow {
			c.shrink(ctx, s)
		}
	}
}

// shrink leaves out parts of the object of a sighting.
func (c *checker) shrink(ctx context.Context, s *sighting) {
	request, tries := asRequest(s.object), 0
	// After each part that could go the list of parts begins anew, with the largest.
	for smaller := true; smaller; {
		smaller = false
		for _, part := range partsOf(request, nil) {
			if tries++; tries > maxTries || ctx.Err() != nil {
				return
			}
			candidate := runtime.DeepCopyJSON(request)
			if _, ok := removePart(candidate, part); ok && c.stillShows(ctx, s, candidate) {
				request, smaller = candidate, true
				break
			}
		}
	}
}

// stillShows reports whether a request shows the same as a sighting, which then gets its object.
func (c *checker) stillShows(ctx context.Context, s *sighting, request map[string]any) bool {
	if s.from.create(ctx, request) == nil {
		return false
	}
	t, err := c.travel(ctx, s.from, s.to, c.asStored(ctx, s.from, request, 0))
	if err != nil {
		return false
	}
	for _, o := range t.found {
		if o.key() == s.key() {
			o.object = request
			s.observation = o
			return true
		}
	}
	return false
}

// partsOf lists the paths of the parts that an object can do without, larger ones first.
func partsOf(v any, at []any) (out [][]any) {
	var children [][]any
	add := func(step, child any) {
		path := append(slices.Clip(at), step)
		if len(path) == 1 && (step == "apiVersion" || step == "kind" || step == "metadata") {
			if step == "metadata" {
				children = append(children, partsOf(child, path)...)
			}
			return
		}
		if len(path) == 2 && at[0] == "metadata" && (step == "name" || step == "namespace") {
			return
		}
		out = append(out, path)
		children = append(children, partsOf(child, path)...)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			add(key, v[key])
		}
	case []any:
		for i := range v {
			add(i, v[i])
		}
	}
	return append(out, children...)
}

// removePart removes the part at the path from a value, and returns what is left. It reports whether there was such a part.
func removePart(v any, at []any) (left any, removed bool) {
	switch v := v.(type) {
	case map[string]any:
		key, _ := at[0].(string)
		child, ok := v[key]
		switch {
		case !ok:
			return v, false
		case len(at) == 1:
			delete(v, key)
			return v, true
		}
		v[key], removed = removePart(child, at[1:])
		return v, removed
	case []any:
		n, _ := at[0].(int)
		switch {
		case n >= len(v):
			return v, false
		case len(at) == 1:
			return slices.Delete(v, n, n+1), true
		}
		v[n], removed = removePart(v[n], at[1:])
		return v, removed
	}
	return v, false
}
