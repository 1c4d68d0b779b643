package compat

// Which rule tells a gap that the prover found? The first rule whose keyword it is claims it. For example, a gap at maximum is claimed by
// maximum-decreased, or by maximum-added if the old schema had none.

import (
	"reflect"
	"slices"

	"sluice.dev/schema/contain"
)

// claimTightened claims gaps of a keyword that bounds values; verb says which way it went.
// Of the old value nil means that the keyword is new. Equal values mean that the keyword is as before and something
// around it is not, such as a type that makes the same bound mean more.
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

// claimChanged is the counterpart of [claimAdded]: both split the gaps of one keyword, so that each has a rule of its
// own, with a way out of its own.
func claimChanged(keyword string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		if !c.isRefusedBy(keyword) || c.Before == nil {
			return "", false
		}
		return keyword + " changed from " + inlineJSON(c.Before) + " to " + inlineJSON(c.After), true
	}
}

// claimJunctor claims gaps of a junctor.
// The parts of a junctor are not compared one by one. So there is no before and after, and the message is the same
// for all gaps.
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
