package compat

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// objectYAML writes an object as YAML, exactly: what kubectl reads from it is the same value, but for integral floats,
// which stay recognisable as 1.0. Keys are sorted, but apiVersion, kind, metadata, spec and status come first, in that
// order, and in metadata name and namespace.
func objectYAML(obj map[string]any) string {
	var b strings.Builder
	y := yamlWriter{&b}
	if len(obj) == 0 {
		return "{}\n"
	}
	y.object(obj, 0, "apiVersion", "kind", "metadata", "spec", "status")
	return b.String()
}

type yamlWriter struct{ b *strings.Builder }

func (y yamlWriter) object(obj map[string]any, indent int, first ...string) {
	keys := slices.Sorted(maps.Keys(obj))
	slices.SortStableFunc(keys, func(a, b string) int { return rank(first, a) - rank(first, b) })
	for i, k := range keys {
		if i > 0 {
			y.margin(indent)
		}
		if key := scalar(k); len(key) > maxSimpleKey {
			y.b.WriteString("? " + key + "\n")
			y.margin(indent)
		} else {
			y.b.WriteString(key)
		}
		y.b.WriteByte(':')
		if indent == 0 && k == "metadata" {
			y.value(obj[k], indent, "name", "namespace")
		} else {
			y.value(obj[k], indent)
		}
	}
}

// maxSimpleKey bounds a key before a colon; YAML allows 1,024 characters.
const maxSimpleKey = 1000

func rank(first []string, key string) int {
	if i := slices.Index(first, key); i >= 0 {
		return i
	}
	return len(first)
}

// value writes the value of a key that stands at the indent, up to and with the end of the line.
func (y yamlWriter) value(v any, indent int, first ...string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			y.b.WriteByte('\n')
			y.margin(indent + 2)
			y.object(v, indent+2, first...)
			return
		}
	case []any:
		if len(v) > 0 {
			y.b.WriteByte('\n')
			y.margin(indent)
			y.list(v, indent)
			return
		}
	}
	y.b.WriteByte(' ')
	y.b.WriteString(scalar(v))
	y.b.WriteByte('\n')
}

func (y yamlWriter) list(vs []any, indent int) {
	for i, v := range vs {
		if i > 0 {
			y.margin(indent)
		}
		y.b.WriteString("- ")
		switch v := v.(type) {
		case map[string]any:
			if len(v) > 0 {
				y.object(v, indent+2)
				continue
			}
		case []any:
			if len(v) > 0 {
				y.list(v, indent+2)
				continue
			}
		}
		y.b.WriteString(scalar(v))
		y.b.WriteByte('\n')
	}
}

func (y yamlWriter) margin(n int) {
	for range n {
		y.b.WriteByte(' ')
	}
}

func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return float(v)
	case string:
		return yamlString(v)
	case map[string]any:
		return "{}"
	case []any:
		return "[]"
	}
	return compact(v)
}

// float writes a float so that it cannot be taken for an integer.
func float(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".") { // 1e+21: YAML wants a point
		mantissa, exponent, _ := strings.Cut(s, "e")
		s = mantissa + ".0e" + exponent
	}
	return s
}

// plainString matches what YAML 1.1 and 1.2 both read as a string without quotes, generously left narrow.
var plainString = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*( [A-Za-z0-9_./()-]+)*$`)

// notStrings are plain words that YAML 1.1 reads as something else.
var notStrings = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}

func yamlString(s string) string {
	if plainString.MatchString(s) && !slices.Contains(notStrings, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteString(`\uFFFD`) // no JSON decoder lets such bytes through
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xFFFF:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	}
	b.WriteByte('"')
	return b.String()
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", width-len(s)) + s
}
