// Package brief makes texts fit for messages: short, on one line, with counts as people read them, with the name that was probably
// meant. It does not know the subject of a message.
package brief

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// Cut returns the first n bytes of s at most, without the part of a character at the end. Invalid UTF-8 stays.
func Cut(s string, n int) string {
	n = max(n, 0)
	if len(s) <= n {
		return s
	}
	for end := n; end > n-utf8.UTFMax && end >= 0; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:n]
}

// Clip shortens s to n bytes at most. An ellipsis, which is three of them, stands for what is left out. The result is
// valid UTF-8, as the Kubernetes API demands of every string.
func Clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "?")
	}
	return strings.ToValidUTF8(Cut(s, n-len(ellipsis)), "?") + ellipsis
}

// OneLine puts the lines of s on one, with "; " between them, or a space after a line that ends in punctuation. A run of
// spaces is one; control and format characters and invalid UTF-8 are left out.
func OneLine(s string) string {
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(strings.ToValidUTF8(s, ""), func(r rune) bool { return strings.ContainsRune("\n\r\u2028\u2029", r) }) {
		line = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
			switch {
			case unicode.IsSpace(r):
				return ' '
			case unicode.IsPrint(r):
				return r
			}
			return -1
		}, line)), " ")
		if line == "" {
			continue
		}
		if b.Len() > 0 {
			if !strings.HasSuffix(b.String(), ":") && !strings.HasSuffix(b.String(), ";") && !strings.HasSuffix(b.String(), ",") {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}

// First joins the texts of the first items of a list, most of them, by ", " or "; ", and says how many more there
// are. An empty list gives an empty text.
func First[T any](list []T, most int, sep string, text func(T) string) string {
	var parts []string
	for _, item := range list[:min(len(list), most)] {
		parts = append(parts, text(item))
	}
	out := strings.Join(parts, sep)
	if n := len(list) - most; n > 0 {
		out += strings.TrimPrefix(sep, ",") + "and " + strconv.Itoa(n) + " more"
	}
	return out
}

// FirstNames names the first of many, separated by commas, and says how many more there are.
func FirstNames(names []string, most int) string {
	return First(names, most, ", ", func(name string) string { return name })
}

// Count writes n with the noun in its number: "1 place", "1,204 places".
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}

// Number writes n with its thousands separated by commas.
func Number[N int | int64](n N) string {
	s, sign := strconv.FormatInt(int64(n), 10), ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// InParentheses is a text as an addition to a sentence, with a space before it; empty for none.
func InParentheses(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// Hint suggests the name that is most like s, ready to follow it in a message; empty where none is alike. For
// example: (did you mean "enable"?), with a space before it.
func Hint(s string, names []string) string {
	found := Nearest(s, names)
	if found == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", found)
}

// Nearest returns the name that is most like s, empty where none is alike. Of names that are equally like it the first is
// taken; neither s nor a name of more than 100 bytes is like another.
func Nearest(s string, names []string) string {
	best, found := 1+min(3, len(s)/2), ""
	for _, n := range names {
		if d := editDistance(strings.ToLower(s), strings.ToLower(n)); d < best {
			best, found = d, n
		}
	}
	return found
}

// editDistance is the number of edits that turn a into b: a character inserted, deleted or replaced, or two neighbors swapped
// (optimal string alignment).
func editDistance(a, b string) int {
	const longest = 100
	if len(a) > longest || len(b) > longest {
		return longest
	}
	last, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			replaced := row[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(next[j]+1, row[j+1]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], last[j-1]+1)
			}
		}
		last, row, next = row, next, last
	}
	return row[len(b)]
}
