package brief

import (
	"fmt"
	"strings"
)

// Hint suggests the name that is most like s, ready to follow it in a message; empty where none is alike.
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
