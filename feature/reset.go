package feature

// What does a dropped value become if the part names a value to reset it to? For example, mode: turbo becomes mode:
// safe. The value must suit the schema, and must not be gated itself, or it would be dropped again.

import (
	"fmt"
	"slices"
	"strconv"

	"sluice.dev/api/v1alpha1"
)

// readReset reads the value that replaces a dropped value of a target.
func (d *definer) readReset(f *Feature, t *Target, where string) {
	p := &f.Spec.Parts[t.Part]
	if p.ResetTo == nil || t.WholeVersion {
		return
	}
	gate, n, text := f.Spec.Gate, t.Schema, *p.ResetTo
	where += ".resetTo"
	wrong := func(format string, args ...any) { d.addError(CodePart, gate, where, format, args...) }
	switch {
	case f.Spec.WhenDisabled != v1alpha1.Drop:
		wrong("it needs whenDisabled: Drop")
		return
	case t.Values == nil && t.Pattern == nil && t.Beyond == nil:
		wrong("it needs values, pattern or beyond: without them the value would be gated itself")
		return
	case t.Path[len(t.Path)-1].Set:
		wrong("%s is a set, which could have the value twice then", t.Path[:len(t.Path)-1])
		return
	}
	kind := ""
	if n != nil {
		kind = n.Type
		if n.Enum != nil && !slices.ContainsFunc(n.Enum, func(v any) bool { return scalarIs(v, []string{text}, nil) }) {
			d.addError(CodeUnknownValue, gate, where, "the field has no value %q", clipWord(text))
			return
		}
	}
	// Without a schema the text tells the type, as it does in YAML: 1 is a number.
	v := parseScalar(text)
	_, isText := v.(string)
	_, isBool := v.(bool)
	_, isWhole := v.(int64)
	switch {
	case kind == "string":
		v = text
	case kind == "boolean" && !isBool, kind == "integer" && !isWhole, kind == "number" && (isText || isBool), kind == "object", kind == "array":
		wrong("the field is of type %s, and %q is not", kind, clipWord(text))
		return
	}
	if t.countsAsUse(v) {
		wrong("%q is gated itself", clipWord(text))
		return
	}
	t.Reset = v
}

// resetsInto refuses a resetTo value that another feature gates.
func (d *definer) resetsInto() {
	for _, f := range d.model.features {
		for i := range f.Targets {
			t := &f.Targets[i]
			if t.Reset == nil {
				continue
			}
			for _, o := range d.model.features {
				if slices.ContainsFunc(o.Targets, func(x Target) bool {
					return o != f && x.Group == t.Group && x.Resource == t.Resource && x.Version == t.Version && x.Path.equalPath(t.Path) && x.countsAsUse(t.Reset)
				}) {
					d.addError(CodeContradiction, f.Spec.Gate, fmt.Sprintf("spec.parts[%d].resetTo", t.Part), "%s gates %q", o.Spec.Gate, clipWord(*f.Spec.Parts[t.Part].ResetTo))
				}
			}
		}
	}
}

// parseScalar reads the JSON text of a number or boolean; everything else is a string.
func parseScalar(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && strconv.FormatFloat(x, 'g', -1, 64) == text && x-x == 0 {
		return x
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// Becomes describes the value that replaces a dropped one; empty if it is removed.
func (t *Target) Becomes() string {
	if t.Reset == nil {
		return ""
	}
	text, _ := scalarText(t.Reset)
	if _, ok := t.Reset.(string); ok {
		text = strconv.Quote(clipWord(text))
	}
	return ", becomes " + text
}
