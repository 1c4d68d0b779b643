package policy

import (
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/feature"
)

// quote writes a CEL literal of a string.
func quote(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' {
			return strconv.QuoteToASCII(s)
		}
	}
	return "'" + s + "'"
}

// quotes writes a CEL list of strings.
func quotes(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// reserved are words that CEL takes for something else behind a dot.
var reserved = []string{"in", "true", "false", "null"}

// isIdentifier reports whether a name can stand behind a dot.
func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && !slices.Contains(reserved, s)
}

// member is the value of a field, and has the test for it; the operand is a map.
func member(of, name string) string {
	if isIdentifier(name) {
		return of + "." + name
	}
	return of + "[" + quote(name) + "]"
}

func has(of, name string) string {
	if isIdentifier(name) {
		return "has(" + of + "." + name + ")"
	}
	return quote(name) + " in " + of
}

func isMap(v string) string  { return "type(" + v + ") == map" }
func isList(v string) string { return "type(" + v + ") == list" }

// and joins conditions; those that are always true are left out.
func and(conditions ...string) string {
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" || c == "true" })
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " && ")
}

// or joins conditions in parentheses.
func or(conditions ...string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	return "(" + strings.Join(conditions, " || ") + ")"
}

// isOneOf reports whether a value is one of some scalars, which are given as text: as strings, and as the numbers and booleans
// that are written so.
func isOneOf(v string, values []string) string {
	var ints, doubles, bools []string
	for _, s := range values {
		if s == "true" || s == "false" {
			bools = append(bools, s)
			continue
		}
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
			ints = append(ints, s)
			continue
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && strconv.FormatFloat(f, 'g', -1, 64) == s {
			if !strings.ContainsAny(s, ".e") {
				s += ".0"
			}
			doubles = append(doubles, s)
		}
	}
	list := func(values []string) string {
		if len(values) == 1 {
			return v + " == " + values[0]
		}
		return v + " in [" + strings.Join(values, ", ") + "]"
	}
	quoted := make([]string, len(values))
	for i, s := range values {
		quoted[i] = quote(s)
	}
	out := []string{list(quoted)}
	for _, more := range [][]string{ints, doubles, bools} {
		if more != nil {
			out = append(out, list(more))
		}
	}
	return or(out...)
}

// matches reports whether there is a match of a pattern in a string. Looking for a text that every match has in it costs a
// fraction of running the pattern.
func matches(v, pattern string) string {
	conditions := []string{"type(" + v + ") == string"}
	if s := literalOf(pattern); s != "" {
		conditions = append(conditions, v+".contains("+quote(s)+")")
	}
	return and(append(conditions, v+".matches("+quote(pattern)+")")...)
}

// literal writes a string, number or boolean.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case float64:
		return "double(" + quote(strconv.FormatFloat(v, 'g', -1, 64)) + ")"
	}
	return fmt.Sprint(v)
}

// outside reports whether a value is outside of bounds, as [feature.Bounds] say.
func outside(v string, b *feature.Bounds) string {
	var ways []string
	number := "(type(" + v + ") == int || type(" + v + ") == double) && " + v
	for _, x := range []struct {
		text  string
		bound *int64
	}{
		{number + " < ", b.Minimum},
		{number + " > ", b.Maximum},
		{"type(" + v + ") == string && " + v + ".size() > ", b.MaxLength},
		{"(" + isList(v) + " || " + isMap(v) + ") && " + v + ".size() > ", b.MaxItems},
	} {
		if x.bound != nil {
			ways = append(ways, x.text+strconv.FormatInt(*x.bound, 10))
		}
	}
	if b.Values != nil {
		ways = append(ways, "!("+isOneOf(v, b.Values)+")")
	}
	if b.Pattern != "" {
		ways = append(ways, "!("+matches(v, b.Pattern)+")")
	}
	return and(isSet(v), or(ways...))
}

// literalOf returns a text that every match of a pattern has in it, or nothing.
func literalOf(pattern string) string {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	tree = tree.Simplify()
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	longest := ""
	for _, p := range parts {
		if p.Op == syntax.OpLiteral && p.Flags&syntax.FoldCase == 0 && len(string(p.Rune)) > len(longest) {
			longest = string(p.Rune)
		}
	}
	return longest
}

// scalarText writes a scalar so that no other scalar has the same text; what is no scalar has one text.
func scalarText(v string) string {
	return "(type(" + v + ") == string ? 's' + " + v + " : type(" + v + ") == int || type(" + v + ") == double ? string(" + v + ") : " +
		v + " == true ? 't' : " + v + " == false ? 'f' : '?')"
}

// segment writes a key as a part of a path.
func segment(key string) string {
	return "(" + key + ".size() <= 80 && " + key + ".matches('^[\\\\w-]+$') ? '.' + " + key + " : '[' + strings.quote(" + key + ".size() > 80 ? " + key + ".substring(0, 80) : " + key + ") + ']')"
}

// pathText is the place of a value, as text and expressions in turn.
type pathText struct {
	parts   []string // CEL expressions
	text    string   // a literal behind them
	pointer bool
}

func (p *pathText) with(text string) *pathText {
	return &pathText{p.parts, p.text + text, p.pointer}
}

func (p *pathText) expr(before, x, after string) *pathText {
	parts := slices.Clip(p.parts)
	if p.text+before != "" {
		parts = append(parts, quote(p.text+before))
	}
	return &pathText{append(parts, x), after, p.pointer}
}

func (p *pathText) name(name string) *pathText {
	if p.pointer {
		return p.with("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	text := feature.Path{{Name: name}}.String()
	if (p.text != "" || p.parts != nil) && text[0] != '[' {
		text = "." + text
	}
	return p.with(text)
}

func (p *pathText) index(i string) *pathText {
	if p.pointer {
		return p.expr("/", "string("+i+")", "")
	}
	return p.expr("[", "string("+i+")", "]")
}

func (p *pathText) key(k string) *pathText {
	if p.pointer {
		return p.expr("/", k+".replace('~', '~0').replace('/', '~1')", "")
	}
	return p.expr("", segment(k), "")
}

// either is the index of an item or the key of an entry.
func (p *pathText) either(x string) *pathText {
	if p.pointer {
		return p.expr("/", "(type("+x+") == string ? "+x+".replace('~', '~0').replace('/', '~1') : string("+x+"))", "")
	}
	return p.expr("", "(type("+x+") == string ? "+segment(x)+" : '[' + string("+x+") + ']')", "")
}

func (p *pathText) expression() string {
	parts := p.parts
	if p.text != "" {
		parts = append(slices.Clip(parts), quote(p.text))
	}
	return strings.Join(parts, " + ")
}
