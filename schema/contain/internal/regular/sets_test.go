package regular

import "regexp"

// All returns the set of all strings.
func All() *Lang { return all }

// None returns the empty set.
func None() *Lang { return none }

// Union returns the set of strings that are in one or more of the given sets: the
// empty set when none are given.
func Union(sets ...*Lang) *Lang {
	out := make([]*Lang, 0, len(sets))
	for _, l := range sets {
		out = append(out, Complement(l))
	}
	return Complement(Intersect(out...))
}

// Contained decides whether every string of a is in b. A witness is a string of a that is not
// in b, chosen as for Empty.
func Contained(a, b *Lang, budget Budget) Answer {
	return find(Intersect(a, Complement(b)), budget)
}

// Equal decides whether a and b contain the same strings. A witness is a string that is in
// one of them only, chosen as for Empty.
func Equal(a, b *Lang, budget Budget) Answer {
	return find(Union(Intersect(a, Complement(b)), Intersect(b, Complement(a))), budget)
}

// Prefix returns the set of strings that begin with s. It fails as Compile does, which
// for a text in valid UTF-8 of reasonable length is never.
func Prefix(s string) (*Lang, error) { return Compile(`\A` + regexp.QuoteMeta(s)) }

// Suffix returns the set of strings that end with s. It fails as Prefix does.
func Suffix(s string) (*Lang, error) { return Compile(regexp.QuoteMeta(s) + `\z`) }

// Containing returns the set of strings in which s occurs. It fails as Prefix does.
func Containing(s string) (*Lang, error) { return Compile(regexp.QuoteMeta(s)) }
