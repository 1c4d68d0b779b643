package policy

// Which parts differ only in names? They share one expression over a table of the names, because the API server's checker takes time with
// the square of an expression's length, and every policy is in its memory. For example, 50 gated fields of spec are 50 rows such as
// ['timeout', 'TaskTimeout', 'task-timeout'] and one test.

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/feature"
)

// Stand-ins for the names in the expression of a part. No name that is replaced has such a character.
const (
	fieldStandIn = "\x01" // the field at the end of the path
	gateStandIn  = "\x02"
	keyStandIn   = "\x03" // the key in the settings
)

var standIns = []string{fieldStandIn, gateStandIn, keyStandIn}

// partNames are the field, the gate and the key of a part; empty stands for none.
type partNames [3]string

// namesOf returns the names of a part of a feature; ok is false if no stand-in can replace them.
func namesOf(f *feature.Feature, field string) (names partNames, ok bool) {
	names = partNames{field, f.Spec.Gate, f.Spec.Key}
	for i, name := range names {
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
			return names, false
		}
		if slices.Contains(names[:i], name) {
			names[i] = "" // one stand-in is enough for both
		}
	}
	return names, true
}

// withStandIns replaces names within the literals of an expression. For each expression [fillIn] gives back what it was.
func (n partNames) withStandIns(expression string) string {
	order := []int{0, 1, 2}
	slices.SortStableFunc(order, func(a, b int) int { return len(n[b]) - len(n[a]) })
	var pairs []string
	for _, i := range order {
		if n[i] != "" {
			pairs = append(pairs, n[i], standIns[i])
		}
	}
	names := strings.NewReplacer(pairs...)
	return rewriteLiterals(expression, func(text string) string {
		if with := names.Replace(text); with != text {
			return celString(with)
		}
		return ""
	})
}

// fillIn writes the expressions of the names for their stand-ins.
func fillIn(expression string, by partNames) string {
	return rewriteLiterals(expression, func(text string) string {
		var parts []string
		for text != "" {
			at := strings.IndexFunc(text, func(r rune) bool { return slices.Contains(standIns, string(r)) })
			switch {
			case at == 0:
				parts, text = append(parts, by[slices.Index(standIns, text[:1])]), text[1:]
			case at > 0:
				parts, text = append(parts, celString(text[:at])), text[at:]
			case parts == nil:
				return ""
			default:
				parts, text = append(parts, celString(text)), ""
			}
		}
		if len(parts) < 2 {
			return strings.Join(parts, "")
		}
		return "(" + strings.Join(parts, " + ") + ")"
	})
}

// literal is the literal of a string in an expression, in single or double quotes.
var literal = regexp.MustCompile(`(?s)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"`)

// rewriteLiterals replaces the literals of strings in an expression by what a function makes of their text; empty leaves them.
func rewriteLiterals(expression string, by func(text string) string) string {
	return literal.ReplaceAllStringFunc(expression, func(literal string) string {
		text := literal[1 : len(literal)-1]
		if literal[0] == '"' {
			var err error
			if text, err = strconv.Unquote(literal); err != nil {
				return literal
			}
		} else if strings.Contains(text, `\`) {
			return literal // a pattern; it has no name in it
		}
		return cmp.Or(by(text), literal)
	})
}

// nameTable has the names of parts for one expression with stand-ins.
type nameTable struct {
	columns []int // those of [partNames] that the expression needs
	rows    []string
	size    int
}

// newNameTable makes an empty table for some expressions.
func newNameTable(expressions ...string) *nameTable {
	t := &nameTable{}
	all := strings.Join(expressions, " ")
	for i, s := range standIns {
		if strings.Contains(all, s) || strings.Contains(all, strings.Trim(strconv.QuoteToASCII(s), `"`)) {
			t.columns = append(t.columns, i)
		}
	}
	return t
}

// addRow adds the names of a part. A table with one column has texts as rows, others have lists.
func (t *nameTable) addRow(n partNames) {
	cells := make([]string, len(t.columns))
	for i, c := range t.columns {
		cells[i] = celString(n[c])
	}
	row := strings.Join(cells, ", ")
	if len(cells) != 1 {
		row = "[" + row + "]"
	}
	t.rows, t.size = append(t.rows, row), t.size+len(row)+2
}

// literal is the list of rows.
func (t *nameTable) literal() string { return "[" + strings.Join(t.rows, ", ") + "]" }

// cells are the expressions of the names in a row.
func (t *nameTable) cells(row string) (out partNames) {
	for i, c := range t.columns {
		if out[c] = row; len(t.columns) > 1 {
			out[c] = row + "[" + strconv.Itoa(i) + "]"
		}
	}
	return out
}

// mostTable is how many bytes a table and its expression may have together, so that a variable stays within 2 KB.
const mostTable = 1800
