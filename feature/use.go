package feature

// Is a value a use? For most targets each value that is not null is. For example, a target with values: [fast] has a
// use only if the field is fast, and one with beyond: {maximum: 10} if the number is greater.

import (
	"math"
	"regexp"
	"slices"
	"strconv"
)

// countsAsUse reports whether a value that the path has led to is a use.
func (t *Target) countsAsUse(v any) bool {
	if v == nil {
		return false
	}
	switch {
	case t.Values != nil || t.Pattern != nil:
		return scalarIs(v, t.Values, t.pattern)
	case t.Match != nil:
		for i := range t.Match {
			if !t.Match[i].holdsFor(v) {
				return false
			}
		}
	case t.Beyond != nil:
		return t.Beyond.isOutside(v)
	}
	return true
}

// UsedBy reports whether an object uses a part of the feature that is not a whole version. The object has to be of a resource that the
// feature gates.
func (f *Feature) UsedBy(object map[string]any) bool {
	return slices.ContainsFunc(f.Targets, func(t Target) bool { return !t.WholeVersion && t.usedIn(object, t.Path) })
}

// usedIn reports whether there is a use beneath a value at the end of the first steps of the path.
func (t *Target) usedIn(v any, rest Path) bool {
	return !visitPath(v, rest, func(v any) bool { return !t.countsAsUse(v) })
}

// visitPath calls do for each value that a path leads to, as long as do returns true; it reports whether it has.
func visitPath(v any, rest Path, do func(any) bool) bool {
	if len(rest) == 0 {
		return do(v)
	}
	switch v := v.(type) {
	case map[string]any:
		switch rest[0].Kind {
		case Field:
			if next, ok := v[rest[0].Name]; ok {
				return visitPath(next, rest[1:], do)
			}
		case Entries, Each:
			for _, next := range v {
				if !visitPath(next, rest[1:], do) {
					return false
				}
			}
		case Items:
		}
	case []any:
		if k := rest[0].Kind; k == Items || k == Each {
			for _, next := range v {
				if !visitPath(next, rest[1:], do) {
					return false
				}
			}
		}
	}
	return true
}

// holdsFor reports whether the condition holds for an object.
func (c *Condition) holdsFor(v any) bool {
	for _, s := range c.Path {
		object, ok := v.(map[string]any)
		if !ok {
			return false
		}
		v = object[s.Name]
	}
	if c.Values == nil && c.Pattern == nil {
		return v != nil
	}
	return scalarIs(v, c.Values, c.pattern)
}

// scalarIs reports whether v is one of the values, or a string that has the pattern in it.
func scalarIs(v any, values []string, p *pattern) bool {
	if values != nil {
		s, ok := scalarText(v)
		return ok && (slices.Contains(values, s) || isNumber(v) && slices.ContainsFunc(values, func(text string) bool { return slices.Contains(NumberTexts(text), s) }))
	}
	s, ok := v.(string)
	return ok && p.matchesIn(s)
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// jsonNumber is a number of JSON (RFC 8259).
var jsonNumber = regexp.MustCompile(`\A-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\z`)

// NumberTexts returns the texts, as strconv writes them, of the integer and of the floating-point number that a JSON number stands for: both for
// 2.0 and 2e0, of which the API server stores 2. It returns nil if the text is no number, or none that the API server can store.
func NumberTexts(text string) []string {
	if !jsonNumber.MatchString(text) {
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	fraction := strconv.FormatFloat(f, 'g', -1, 64)
	whole, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && int64(f) != whole: // no floating-point number is the same
		return []string{strconv.FormatInt(whole, 10)}
	case err != nil && (f != math.Trunc(f) || math.Abs(f) >= 1<<63):
		return []string{fraction}
	}
	return slices.Compact([]string{fraction, strconv.FormatInt(int64(f), 10)})
}

// scalarText returns a string as it is, and the JSON text of a number or boolean.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}
