package policy

// Which values are inside and outside of bounds? Sample objects for measuring need both. For example, 11 is outside of {maximum: 10}.

import (
	"strings"

	"sluice.dev/feature"
)

// mostSampled is how long sample strings and lists are at most.
const mostSampled = 10_000

// valueOutside makes a value outside of bounds.
func valueOutside(b *feature.Bounds) any {
	switch {
	case b.Maximum != nil:
		return *b.Maximum + 1
	case b.Minimum != nil:
		return *b.Minimum - 1
	case b.MaxItems != nil:
		return make([]any, min(*b.MaxItems+1, mostSampled))
	case b.MaxLength != nil:
		return strings.Repeat("\x01", int(min(*b.MaxLength+1, mostSampled)))
	}
	return strings.Repeat("\x01", sampleText)
}

// valueWithin makes a value within bounds.
func valueWithin(b *feature.Bounds) any {
	switch {
	case b.Values != nil:
		return b.Values[len(b.Values)-1]
	case b.Pattern != "":
		return feature.LiteralIn(b.Pattern) + strings.Repeat("x", sampleText)
	case b.Maximum != nil:
		return *b.Maximum
	case b.Minimum != nil:
		return *b.Minimum
	case b.MaxItems != nil:
		return []any{}
	}
	return ""
}
