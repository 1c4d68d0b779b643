package regular

import (
	"cmp"
	"slices"
	"unicode"
	"unicode/utf8"
)

// preferred lists the printable ASCII runes from the most to the least readable in a
// witness.
const preferred = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" +
	`-._/:@,=+*#%&!?;~^()<>[]{}|$'"` + "`\\ "

// favourites are tried first beyond ASCII: readers know them, and most fonts have them.
var favourites = [...]rune{'é', 'ß', 'ñ', 'λ', 'ж', 'א', 'あ', '中', '한', '😀'}

// Costs of a rune in a witness, lower is better.
const (
	costLower   = 0
	costDigit   = 1
	costUpper   = 2
	costPunct   = 3
	costSpace   = 5
	costKnown   = 7 // one of favourites
	costLetter  = 8
	costPrint   = 12
	costControl = 30
)

// asciiRank[r] is the place of r in preferred, from 0, or -1.
var asciiRank = func() (rank [utf8.RuneSelf]int16) {
	for r := range rank {
		rank[r] = -1
	}
	for i, r := range preferred {
		rank[r] = int16(i)
	}
	return rank
}()

// cost returns how much r reduces the readability of a witness.
func cost(r rune) int32 {
	switch {
	case 'a' <= r && r <= 'z':
		return costLower
	case '0' <= r && r <= '9':
		return costDigit
	case 'A' <= r && r <= 'Z':
		return costUpper
	case r == ' ':
		return costSpace
	case ' ' < r && r < 0x7f:
		return costPunct
	case r >= utf8.RuneSelf && slices.Contains(favourites[:], r):
		return costKnown
	case r >= utf8.RuneSelf && unicode.IsLetter(r):
		return costLetter
	case r >= utf8.RuneSelf && unicode.IsPrint(r):
		return costPrint
	default:
		return costControl
	}
}

// order is the order of runes by readability: by cost, then as in preferred, then by
// code point.
func order(a, b rune) int {
	if c := cmp.Compare(cost(a), cost(b)); c != 0 {
		return c
	}
	if a < utf8.RuneSelf && b < utf8.RuneSelf {
		if c := cmp.Compare(asciiRank[a], asciiRank[b]); c != 0 {
			return c
		}
	}
	return cmp.Compare(a, b)
}

// leastCost returns a lower bound of the cost of the runes from first on.
func leastCost(first rune) int32 {
	switch {
	case first < utf8.RuneSelf:
		return costLower
	case first <= slices.Max(favourites[:]):
		return costKnown
	default:
		return costLetter
	}
}

// scan bounds the runes of an interval beyond ASCII that are searched for a readable one.
const scan = 64

// best returns a very readable rune of [first, last], found with little effort, and whether there is any: surrogates do not count.
func best(first, last rune) (rune, bool) {
	if first >= surrogateMin && first <= surrogateMax {
		first = surrogateMax + 1
	}
	if last >= surrogateMin && last <= surrogateMax {
		last = surrogateMin - 1
	}
	if first > last {
		return 0, false
	}
	found := first
	for r := first; r <= last && r < utf8.RuneSelf; r++ {
		if order(r, found) < 0 {
			found = r
		}
	}
	if cost(found) <= costSpace {
		return found, true
	}
	if last < utf8.RuneSelf {
		return found, true
	}
	for _, r := range favourites {
		if first <= r && r <= last {
			return r, true
		}
	}
	for r := max(first, utf8.RuneSelf); r <= last && r < first+scan; r++ {
		if utf8.ValidRune(r) && order(r, found) < 0 {
			found = r
		}
	}
	return found, true
}

const (
	surrogateMin = 0xd800
	surrogateMax = 0xdfff
)
