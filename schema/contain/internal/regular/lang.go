package regular

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	kindNone kind = iota
	kindAll
	kindRegex  // source, key, prog
	kindLength // first, last
	kindNot    // kids[0]
	kindAnd    // kids
)

// Lang is a set of strings. It is immutable and may be used by several goroutines at once.
// A nil *Lang is the empty set.
//
// A Lang is only a description; Empty and its like build the automata that they
// need, as far as they need them.
type Lang struct {
	kind        kind
	source      string // the pattern, for messages
	key         string // equal for regexes that are known to be equal
	prog        *program
	first, last int64 // last < 0: unbounded
	kids        []*Lang
	// size is the number of nodes below and including this one, counted as often as
	// they are reached, up to maxSize.
	size int
}

// maxSize bounds the size of what is decided. For larger sets, every answer is Unknown.
const maxSize = 10_000

var (
	none = &Lang{kind: kindNone, size: 1}
	all  = &Lang{kind: kindAll, size: 1}
)

// LengthBetween returns the set of strings that have at least least and at most most
// runes. A negative most means no upper bound, a negative least means 0. Its cost does not
// depend on how large the numbers are.
func LengthBetween(least, most int64) *Lang {
	least = max(0, least)
	switch {
	case most >= 0 && least > most:
		return none
	case least == 0 && most < 0:
		return all
	}
	return &Lang{kind: kindLength, first: least, last: most, size: 1}
}

// Complement returns the set of strings that are not in a.
func Complement(a *Lang) *Lang {
	switch a = a.orNone(); a.kind {
	case kindNone:
		return all
	case kindAll:
		return none
	case kindNot:
		return a.kids[0]
	case kindRegex, kindLength, kindAnd:
	}
	return &Lang{kind: kindNot, kids: []*Lang{a}, size: sizeOf(a)}
}

// Intersect returns the set of strings that are in all of the given sets: all strings
// when none are given.
func Intersect(sets ...*Lang) *Lang {
	kids := make([]*Lang, 0, len(sets))
	for _, l := range sets {
		switch l = l.orNone(); l.kind {
		case kindNone:
			return none
		case kindAll:
		case kindAnd:
			kids = append(kids, l.kids...)
		case kindRegex, kindLength, kindNot:
			kids = append(kids, l)
		}
	}
	switch len(kids) {
	case 0:
		return all
	case 1:
		return kids[0]
	}
	return &Lang{kind: kindAnd, kids: kids, size: sizeOf(kids...)}
}

func sizeOf(kids ...*Lang) int {
	n := 1
	for _, l := range kids {
		n = min(n+l.size, maxSize+1)
	}
	return n
}

func (l *Lang) orNone() *Lang {
	if l == nil {
		return none
	}
	return l
}

// Match reports whether s is in the set, exactly and without a budget: its time is at
// most proportional to the length of s times the size of the patterns. Bytes that are no valid UTF-8
// count as U+FFFD, as in regexp.
func (l *Lang) Match(s string) bool {
	m := meter{limit: Spent{States: maxInt, Steps: maxInt}}
	return l.orNone().match(s, &m, map[*Lang]bool{})
}

const maxInt = int(^uint(0) >> 1)

// match is Match with a meter; the result means nothing once the meter is over. The memo has the results of shared parts.
func (l *Lang) match(s string, m *meter, memo map[*Lang]bool) bool {
	m.step(1)
	switch l.kind {
	case kindNone:
		return false
	case kindAll:
		return true
	case kindLength:
		m.step(len(s) / 8)
		n := int64(utf8.RuneCountInString(s))
		return n >= l.first && (l.last < 0 || n <= l.last)
	case kindRegex, kindNot, kindAnd:
	}
	if known, ok := memo[l]; ok {
		return known
	}
	var in bool
	switch l.kind {
	case kindRegex:
		in = l.prog.match(s, m)
	case kindNot:
		in = !l.kids[0].match(s, m, memo)
	case kindAnd:
		in = !slices.ContainsFunc(l.kids, func(k *Lang) bool { return !k.match(s, m, memo) })
	case kindNone, kindAll, kindLength:
	}
	memo[l] = in
	return in
}

// String describes the set for a message, in a few hundred bytes at most.
func (l *Lang) String() string {
	var b strings.Builder
	l.orNone().describe(&b, 3)
	return b.String()
}

// Bounds of a description: of a quoted string in bytes, and of a list in members.
const (
	maxQuoted = 60
	maxListed = 4
)

func (l *Lang) describe(b *strings.Builder, depth int) {
	switch l.kind {
	case kindNone:
		b.WriteString("none")
	case kindAll:
		b.WriteString("all")
	case kindRegex:
		b.WriteString(quote(l.source))
	case kindLength:
		if l.last < 0 {
			fmt.Fprintf(b, "length %d..", l.first)
		} else {
			fmt.Fprintf(b, "length %d..%d", l.first, l.last)
		}
	case kindNot:
		b.WriteString("not ")
		l.kids[0].describe(b, max(0, depth-1))
	case kindAnd:
		if depth == 0 {
			b.WriteString("(…)")
			return
		}
		b.WriteString("(")
		for i, k := range l.kids[:min(len(l.kids), maxListed)] {
			if i > 0 {
				b.WriteString(" and ")
			}
			k.describe(b, depth-1)
		}
		if len(l.kids) > maxListed {
			fmt.Fprintf(b, " and … (%d)", len(l.kids))
		}
		b.WriteString(")")
	}
}

// quote returns s in quotes, cut to maxQuoted bytes.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return fmt.Sprintf("%q", s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q…", s[:cut])
}
