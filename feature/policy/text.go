package policy

// How is something written in CEL? Literals, fields and conditions, with the least parentheses. For example, memberOf("object", "my-field")
// is object['my-field'].

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/feature"
)

// celString writes a CEL literal of a string.
func celString(s string) string {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' {
			return strconv.QuoteToASCII(s)
		}
	}
	return "'" + s + "'"
}

// celStrings writes a CEL list of strings.
func celStrings[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = celString(string(s))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// reserved are words that CEL takes for something else behind a dot.
var reserved = []string{"in", "true", "false", "null"}

// identifier is the form of names in CEL.
var identifier = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*\z`)

// isIdentifier reports whether a name can stand behind a dot.
func isIdentifier(s string) bool { return identifier.MatchString(s) && !slices.Contains(reserved, s) }

// memberOf is the value of a field, and has the test for it; the operand is a map. The type check of the API server refuses to look a name
// up in an object of the schema; of a dyn it does not know the type.
func memberOf(of, name string) string {
	if isIdentifier(name) {
		return of + "." + name
	}
	return "dyn(" + of + ")[" + celString(name) + "]"
}

func hasField(of, name string) string {
	if isIdentifier(name) {
		return "has(" + of + "." + name + ")"
	}
	return celString(name) + " in dyn(" + of + ")"
}

func isMap(v string) string  { return "type(" + v + ") == map" }
func isList(v string) string { return "type(" + v + ") == list" }

// joinAnd joins conditions; those that are always true are left out.
func joinAnd(conditions ...string) string {
	conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" || c == "true" })
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " && ")
}

// joinNested joins conditions with &&. A condition that ends with a comma opens a macro, which contains all conditions behind it.
func joinNested(conditions ...string) string {
	var out strings.Builder
	ends := 0
	for i, c := range conditions {
		if i > 0 && !strings.HasSuffix(conditions[i-1], ", ") {
			out.WriteString(" && ")
		}
		if strings.HasSuffix(c, ", ") {
			ends++
		}
		out.WriteString(c)
	}
	return out.String() + strings.Repeat(")", ends)
}

// joinOr joins conditions in parentheses.
func joinOr(conditions ...string) string {
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
		for _, n := range feature.NumberTexts(s) {
			if _, err := strconv.ParseInt(n, 10, 64); err == nil {
				ints = append(ints, n)
				break
			}
			if !strings.ContainsAny(n, ".e") {
				n += ".0"
			}
			doubles = append(doubles, n)
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
		quoted[i] = celString(s)
	}
	out := []string{list(quoted)}
	for _, more := range [][]string{ints, doubles, bools} {
		if more != nil {
			out = append(out, list(more))
		}
	}
	return joinOr(out...)
}

// matchesPattern reports whether there is a match of a pattern in a string. Looking for a text that every match has in it costs a
// fraction of running the pattern.
func matchesPattern(v, pattern string) string {
	conditions := []string{"type(" + v + ") == string"}
	if s := feature.LiteralIn(pattern); s != "" {
		conditions = append(conditions, v+".contains("+celString(s)+")")
	}
	return joinAnd(append(conditions, v+".matches("+celString(pattern)+")")...)
}

// celLiteral writes a string, number or boolean.
func celLiteral(v any) string {
	switch v := v.(type) {
	case string:
		return celString(v)
	case float64:
		return "double(" + celString(strconv.FormatFloat(v, 'g', -1, 64)) + ")"
	}
	return fmt.Sprint(v)
}

// outsideBounds reports whether a value is outside of bounds, as [feature.Bounds] say.
func outsideBounds(v string, b *feature.Bounds) string {
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
		ways = append(ways, "!("+matchesPattern(v, b.Pattern)+")")
	}
	return joinAnd(isSet(v), joinOr(ways...))
}

// scalarText writes a scalar so that no other scalar has the same text; what is no scalar has one text.
func scalarText(v string) string {
	return "(type(" + v + ") == string ? 's' + " + v + " : type(" + v + ") == int || type(" + v + ") == double ? string(" + v + ") : " +
		v + " == true ? 't' : " + v + " == false ? 'f' : '?')"
}

// pathSegment writes a key as a part of a path.
func pathSegment(key string) string {
	return "(" + key + ".size() <= 80 && " + key + ".matches('^[\\\\w-]+$') ? '.' + " + key + " : '[' + strings.quote(" + key + ".size() > 80 ? " + key + ".substring(0, 80) : " + key + ") + ']')"
}

// pathText is the place of a value, as text and expressions in turn.
type pathText struct {
	parts   []string // CEL expressions
	text    string   // a literal behind them
	pointer bool
}

func (p *pathText) withText(text string) *pathText {
	return &pathText{p.parts, p.text + text, p.pointer}
}

// withExpr adds the text of an expression x, between two texts.
func (p *pathText) withExpr(before, x, after string) *pathText {
	parts := slices.Clip(p.parts)
	if p.text+before != "" {
		parts = append(parts, celString(p.text+before))
	}
	return &pathText{append(parts, x), after, p.pointer}
}

// withField adds a field. A stand-in for a name is written like a plain one, because only identifiers are
// replaced by it.
func (p *pathText) withField(name string) *pathText {
	if p.pointer {
		return p.withText("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	text := feature.Path{{Name: name}}.String()
	if name == fieldStandIn {
		text = name
	}
	if (p.text != "" || p.parts != nil) && text[0] != '[' {
		text = "." + text
	}
	return p.withText(text)
}

func (p *pathText) withIndex(i string) *pathText {
	if p.pointer {
		return p.withExpr("/", "string("+i+")", "")
	}
	return p.withExpr("[", "string("+i+")", "]")
}

func (p *pathText) withKey(k string) *pathText {
	if p.pointer {
		return p.withExpr("/", k+".replace('~', '~0').replace('/', '~1')", "")
	}
	return p.withExpr("", pathSegment(k), "")
}

// withIndexOrKey is the index of an item or the key of an entry.
func (p *pathText) withIndexOrKey(x string) *pathText {
	if p.pointer {
		return p.withExpr("/", "(type("+x+") == string ? "+x+".replace('~', '~0').replace('/', '~1') : string("+x+"))", "")
	}
	return p.withExpr("", "(type("+x+") == string ? "+pathSegment(x)+" : '[' + string("+x+") + ']')", "")
}

// asExpression is the CEL expression of the whole path.
func (p *pathText) asExpression() string {
	parts := p.parts
	if p.text != "" {
		parts = append(slices.Clip(parts), celString(p.text))
	}
	return strings.Join(parts, " + ")
}
