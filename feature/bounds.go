package feature

// Which values does a bound gate? Those outside of it. For example, {maximum: 10} gates 11, and leaves 10 and every
// string free; {values: [fast, safe]} gates each value of any type but these two.

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/schema"
)

// Bounds are bounds within which a target gates no value: a value outside of any of them is a use. Bounds of numbers, strings, and
// arrays and maps do not apply to other types. With Values and Pattern, every other value of any type is a use.
type Bounds struct {
	v1alpha1.Bounds

	pattern *pattern
}

// isOutside reports whether a value, which is not null, is outside of the bounds.
func (b *Bounds) isOutside(v any) bool {
	return b.exceedsLimits(v) || b.Values != nil && !scalarIs(v, b.Values, nil) || b.pattern != nil && !scalarIs(v, nil, b.pattern)
}

// exceedsLimits reports whether a number, a length or a number of items is outside of the bounds.
func (b *Bounds) exceedsLimits(v any) bool {
	more := func(n int, bound *int64) bool { return bound != nil && int64(n) > *bound }
	switch v := v.(type) {
	case int64:
		return b.Minimum != nil && v < *b.Minimum || b.Maximum != nil && v > *b.Maximum
	case float64:
		return b.Minimum != nil && v < float64(*b.Minimum) || b.Maximum != nil && v > float64(*b.Maximum)
	case string:
		return b.MaxLength != nil && more(utf8.RuneCountInString(v), b.MaxLength)
	case []any:
		return more(len(v), b.MaxItems)
	case map[string]any:
		return more(len(v), b.MaxItems)
	}
	return false
}

// BoundsText lists bounds with "or" between them.
func BoundsText(b *v1alpha1.Bounds) string {
	var out []string
	for _, x := range []struct {
		name  string
		bound *int64
	}{{"minimum", b.Minimum}, {"maximum", b.Maximum}, {"maxLength", b.MaxLength}, {"maxItems", b.MaxItems}} {
		if x.bound != nil {
			out = append(out, x.name+" "+strconv.FormatInt(*x.bound, 10))
		}
	}
	if b.Values != nil {
		words := make([]string, 0, len(b.Values))
		for _, v := range b.Values {
			words = append(words, strconv.Quote(clipWord(v)))
		}
		if len(words) > 5 {
			words = append(words[:5], "…")
		}
		out = append(out, "values "+strings.Join(words, ", "))
	}
	if b.Pattern != "" {
		out = append(out, "pattern "+strconv.Quote(clipWord(b.Pattern)))
	}
	return strings.Join(out, " or ")
}

// equalBounds reports whether two bounds are equal; either may be nil.
func (b *Bounds) equalBounds(o *Bounds) bool {
	return b == o || b != nil && o != nil && reflect.DeepEqual(b.Bounds, o.Bounds)
}

// readBounds reads the bounds of a part.
func (d *definer) readBounds(gate, where string, p *v1alpha1.Bounds) (*Bounds, bool) {
	b := &Bounds{Bounds: *p.DeepCopy()}
	if reflect.ValueOf(*p).IsZero() {
		d.addError(CodePart, gate, where, "which bounds, is missing: minimum, maximum, maxLength, maxItems, values or pattern")
		return nil, false
	}
	if p.Minimum != nil && p.Maximum != nil && *p.Minimum > *p.Maximum {
		d.addError(CodePart, gate, where+".minimum", "%d is greater than maximum, which is %d", *p.Minimum, *p.Maximum)
	}
	for _, x := range []struct {
		name  string
		bound *int64
	}{{"maxLength", p.MaxLength}, {"maxItems", p.MaxItems}} {
		if x.bound != nil && *x.bound < 0 {
			d.addError(CodePart, gate, where+"."+x.name, "%d is less than 0", *x.bound)
		}
	}
	if p.Values != nil {
		d.readValues(gate, where+".values", p.Values)
	}
	if p.Pattern != "" {
		re, ok := d.compilePattern(gate, where+".pattern", p.Pattern)
		if !ok {
			return nil, false
		}
		b.pattern = newPattern(re)
	}
	return b, true
}

// checkBounds checks bounds against the schema of the field: a bound that does not apply to its values would gate nothing.
func (d *definer) checkBounds(gate, where string, n *schema.Node, b *Bounds) {
	d.checkScalars(gate, where, n, b.Values, b.Pattern != "")
	if n == nil || n.PreserveUnknown && n.Type == "" {
		return
	}
	for _, x := range []struct {
		name  string
		bound *int64
		types []string
	}{
		{"minimum", b.Minimum, []string{"integer", "number"}},
		{"maximum", b.Maximum, []string{"integer", "number"}},
		{"maxLength", b.MaxLength, []string{"string"}},
		{"maxItems", b.MaxItems, []string{"array", "object"}},
	} {
		kind := n.Type
		if n.IntOrString {
			kind = "int-or-string"
		}
		if x.bound != nil && !slices.Contains(x.types, kind) {
			d.addError(CodePart, gate, fmt.Sprintf("%s.%s", where, x.name), "the field is of type %s; %s is a bound of type %s", kind, x.name, strings.Join(x.types, " and "))
		}
	}
}
