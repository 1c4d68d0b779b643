package feature

// How is a place in objects named? spec.tasks[*].timeout leads to the timeout of every task. The schema tells later
// whether [*] goes into a list or a map, and by what an item is known.

import (
	"fmt"
	"strconv"
	"strings"
)

// maxSteps bounds the length of a path.
const maxSteps = 64

// StepKind is the target of a step of a path.
type StepKind uint8

const (
	// Field is a field of an object, or one key of a map.
	Field StepKind = iota
	// Items are all items of an array.
	Items
	// Entries are all values of a map.
	Entries
	// Each is one of the last two. Without a schema, it is not known which.
	Each
)

// Step is one step of a path.
type Step struct {
	Kind StepKind
	// Name is that of the field.
	Name string
	// Keys are the names of the fields that identify an item of a list of type map.
	Keys []string
	// Set means that the value of an item of the list identifies it.
	Set bool
	// Most bounds the items or entries by the schema; 0 is unbounded.
	Most int64
}

// isKeyed reports whether the value at the step has an identity of its own.
func (s Step) isKeyed() bool { return s.Kind == Field || s.Kind == Entries || s.Set || len(s.Keys) > 0 }

// Path leads from the root of an object to values in it.
type Path []Step

// ParsePath parses a path: names separated by dots, [*] for all items of an array or values of a map, ["a.b"] for a name with
// characters other than ASCII letters, digits, - and _ (as a JSON or Go string). A leading dot is allowed. All [*] are of kind
// [Each]. The error names the position in the path.
func ParsePath(s string) (Path, error) {
	var p Path
	rest := strings.TrimPrefix(s, ".")
	fail := func(what string) (Path, error) {
		return nil, fmt.Errorf("%q: %s at character %d", clipWord(s), what, len(s)-len(rest)+1)
	}
	if rest == "" {
		return fail("a name is missing")
	}
	// wantName is set at the beginning and behind a dot, where the text must not end.
	for wantName := true; rest != "" || wantName; {
		if len(p) == maxSteps {
			return fail(fmt.Sprintf("a path may have %d steps", maxSteps))
		}
		switch {
		case rest != "" && rest[0] == '[':
			if strings.HasPrefix(rest, "[*]") {
				if wantName {
					return fail("a name is missing")
				}
				p, rest = append(p, Step{Kind: Each}), rest[3:]
				break
			}
			quoted, err := strconv.QuotedPrefix(rest[1:])
			if err != nil || quoted[0] != '"' {
				return fail(`[*] or ["name"] is expected`)
			}
			name, err := strconv.Unquote(quoted)
			if err != nil || name == "" {
				return fail("this is no name")
			}
			if !strings.HasPrefix(rest[1+len(quoted):], "]") {
				return fail("] is missing behind the name")
			}
			p, rest = append(p, Step{Name: name}), rest[len(quoted)+2:]
		case wantName:
			n := len(rest) - len(strings.TrimLeft(rest, nameBytes))
			if n == 0 {
				return fail("a name is missing")
			}
			p, rest = append(p, Step{Name: rest[:n]}), rest[n:]
		default:
			return fail("a dot or [ is expected")
		}
		wantName = strings.HasPrefix(rest, ".")
		if wantName {
			rest = rest[1:]
		}
	}
	return p, nil
}

// nameBytes are the characters of names that are written without quotes.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// String writes the path so that [ParsePath] reads it.
func (p Path) String() string {
	var b []byte
	for _, s := range p {
		if s.Kind != Field {
			b = append(b, "[*]"...)
			continue
		}
		b = appendName(b, s.Name)
	}
	return string(b)
}

// placeText is the path in a message.
func (p Path) placeText() string {
	if len(p) == 0 {
		return "the object"
	}
	return p.String()
}

// appendName appends a field or key to the text of a path: behind a dot, or in brackets and quotes if it has other
// characters than letters, digits, - and _.
func appendName(b []byte, name string) []byte {
	if name == "" || strings.Trim(name, nameBytes) != "" {
		return append(strconv.AppendQuoteToASCII(append(b, '['), name), ']')
	}
	if len(b) > 0 {
		b = append(b, '.')
	}
	return append(b, name...)
}

// equalPath reports whether two paths lead to the same values; it ignores how items are identified.
func (p Path) equalPath(o Path) bool {
	if len(p) != len(o) {
		return false
	}
	for i := range p {
		if p[i].Name != o[i].Name || (p[i].Kind == Field) != (o[i].Kind == Field) {
			return false
		}
	}
	return true
}
