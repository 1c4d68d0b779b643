package compat

import (
	"reflect"
	"slices"

	"sluice.dev/schema/contain"
)

// tightened claims gaps of a keyword that bounds values; verb says which way it went.
func tightened(keyword, verb string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		switch {
		case !c.is(keyword):
			return "", false
		case c.Before == nil:
			return keyword + " " + inline(c.After) + " was added", true
		case reflect.DeepEqual(c.Before, c.After):
			return keyword + " " + inline(c.After) + " became stricter", true
		}
		return keyword + " " + verb + " from " + inline(c.Before) + " to " + inline(c.After), true
	}
}

// added claims gaps of a keyword that the old schema did not have at that place, changed those that it had.
func added(keyword string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		if !c.is(keyword) || c.Before != nil {
			return "", false
		}
		return keyword + " " + inline(c.After) + " was added", true
	}
}

func changed(keyword string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		if !c.is(keyword) || c.Before == nil {
			return "", false
		}
		return keyword + " changed from " + inline(c.Before) + " to " + inline(c.After), true
	}
}

// junctor claims gaps of a junctor.
func junctor(keyword, message string) func(*change) (string, bool) {
	return func(c *change) (string, bool) {
		return message, c.is(keyword)
	}
}

// name is the last field of the path, quoted.
func (c *change) name() string {
	for _, s := range slices.Backward(c.Path) {
		if s.Kind == contain.Field {
			return quote(s.Name)
		}
	}
	return "the object"
}

// types are the names of the old and the new type, for people; nil and empty are any.
func (c *change) types() (from, to string) {
	name := func(v any) string {
		if s, ok := v.(string); ok && s != "" {
			return s
		}
		return "any"
	}
	return name(c.Before), name(c.After)
}
