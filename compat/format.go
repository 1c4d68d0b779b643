package compat

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"sluice.dev/internal/brief"
	"sluice.dev/schema"
)

// Limits on quoted texts, in bytes.
const (
	maxInline = 120   // in a message
	maxValue  = 1_000 // as before and after
	maxEffect = 2_000
)

// text writes a value for before and after: texts as they are unless they are empty, the rest as JSON. nil is empty.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if v != "" {
			return brief.Clip(v, maxValue)
		}
	}
	return brief.Clip(compact(v), maxValue)
}

// inline writes a value for a sentence: as JSON, short.
func inline(v any) string { return brief.Clip(compact(v), maxInline) }

func compact(v any) string {
	switch v := v.(type) {
	case float64:
		return number(v)
	case string:
		return quote(v)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // values come from JSON
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// number writes a float: without exponent where that is short, and as an integer where it is one.
func number(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// list writes values one after the other, and counts those that do not fit.
func list[T any](vs []T) string {
	var b strings.Builder
	for i, v := range vs {
		if i > 0 && b.Len() > maxInline {
			return b.String() + " and " + strconv.Itoa(len(vs)-i) + " more"
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(inline(v))
	}
	return b.String()
}

// minus returns the values of a that are not in b.
func minus(a, b []any) []any {
	have := make(map[string]bool, len(b))
	for _, y := range b {
		have[string(schema.AppendValue(nil, y))] = true
	}
	var out []any
	for _, x := range a {
		if !have[string(schema.AppendValue(nil, x))] {
			out = append(out, x)
		}
	}
	return out
}

// gist describes a schema in a few words of JSON.
func gist(n *schema.Node) string {
	if n == nil {
		return ""
	}
	m := map[string]any{}
	if n.Type != "" {
		m["type"] = n.Type
	}
	if n.Format != "" {
		m["format"] = n.Format
	}
	if n.IntOrString {
		m["x-kubernetes-int-or-string"] = true
	}
	if n.PreserveUnknown {
		m["x-kubernetes-preserve-unknown-fields"] = true
	}
	if len(n.Enum) > 0 {
		m["enum"] = n.Enum
	}
	return brief.Clip(compact(m), maxInline)
}
