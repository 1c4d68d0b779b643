package compat

// Which rule tells a gap that the prover found? The first rule whose keyword it is claims it. For example, a gap at maximum is claimed by
// maximum-decreased, or by maximum-added if the old schema had none.

import (
	"reflect"
	"slices"

	"sluice.dev/schema/contain"
)

// claimTightened claims gaps of a keyword that bounds values; verb says which way it went.
func claimTightened(keyword, verb string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		switch {
		case !c.isRefusedBy(keyword):
			return "", false
		case c.Before == nil:
			return keyword + " " + inlineJSON(c.After) + " was added", true
		case reflect.DeepEqual(c.Before, c.After):
			return keyword + " " + inlineJSON(c.After) + " became stricter", true
		}
		return keyword + " " + verb + " from " + inlineJSON(c.Before) + " to " + inlineJSON(c.After), true
	}
}

// claimAdded claims gaps of a keyword that the old schema did not have at that place, changed those that it had.
func claimAdded(keyword string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		if !c.isRefusedBy(keyword) || c.Before != nil {
			return "", false
		}
		return keyword + " " + inlineJSON(c.After) + " was added", true
	}
}

func claimChanged(keyword string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		if !c.isRefusedBy(keyword) || c.Before == nil {
			return "", false
		}
		return keyword + " changed from " + inlineJSON(c.Before) + " to " + inlineJSON(c.After), true
	}
}

// claimJunctor claims gaps of a junctor.
func claimJunctor(keyword, message string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		return message, c.isRefusedBy(keyword)
	}
}

// lastFieldName is the last field of the path, quoted.
func (c *change) lastFieldName() string {
	for _, s := range slices.Backward(c.Path) {
		if s.Kind == contain.Field {
			return compactJSON(s.Name)
		}
	}
	return "the object"
}

// typeNames are the names of the old and the new type, for people; nil and empty are any.
func (c *change) typeNames() (from, to string) {
	name := func(v any) string {
		if s, ok := v.(string); ok && s != "" {
			return s
		}
		return "any"
	}
	return name(c.Before), name(c.After)
}
