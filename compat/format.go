package compat

// How is a value written in a finding? Short, on one line, and so that a string differs from a number. For example, an enum of 40 values is
// cut after some, with the number of the others.

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

// valueText writes a value for before and after: texts as they are unless they are empty, the rest as JSON. nil is empty.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if v != "" {
			return brief.Clip(v, maxValue)
		}
	}
	return brief.Clip(compactJSON(v), maxValue)
}

// inlineJSON writes a value for a sentence: as JSON, short.
func inlineJSON(v any) string { return brief.Clip(compactJSON(v), maxInline) }

// compactJSON writes a value as JSON in one line, without escapes for HTML. Whole floats lose their fraction: values
// that come from a schema are floats for the decoder only. It is empty for what is no JSON, which no CRD can hold.
func compactJSON(v any) string {
	if f, ok := v.(float64); ok {
		return formatFloat(f)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // values come from JSON
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// formatFloat writes a float: without exponent where that is short, and as an integer where it is one.
// JSON knows one kind of number, and a schema of integers holds floats only because of its decoder.
func formatFloat(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// listValues writes values one after the other, and counts those that do not fit.
// At least one value is written, however long it is; each is clipped by itself.
func listValues[T any](vs []T) string {
	var b strings.Builder
	for i, v := range vs {
		if i > 0 && b.Len() > maxInline {
			return b.String() + " and " + strconv.Itoa(len(vs)-i) + " more"
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(inlineJSON(v))
	}
	return b.String()
}

// valuesMissingFrom returns the values of a that are not in b.
// Values are compared as the API server does, so that 1 and 1.0 are one value. The order of a stays.
func valuesMissingFrom(a, b []any) []any {
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

// schemaGist describes a schema in a few words of JSON.
// It stands for the value before of a field that is gone, so that a reader sees what clients wrote there. Nested
// fields are left out.
func schemaGist(n *schema.Node) string {
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
	return brief.Clip(compactJSON(m), maxInline)
}
