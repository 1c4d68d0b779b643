package feature

// Can a part of an API be gated? First the part is read by itself, then it is checked against the schema of each
// version that has it. For example, a required field cannot be gated as a whole, since nobody could write an object
// while the feature is closed. One of its values can, if another value is left.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/schema"
)

// checkPart reads a part, and checks it without a schema.
func (d *definer) checkPart(f *Feature, i int, where string) (t Target, ok bool) {
	gate, p := f.Spec.Gate, &f.Spec.Parts[i]
	t = Target{Group: p.Group, Resource: p.Resource, Part: i, WholeVersion: p.WholeVersion}
	if p.Resource == "" {
		d.addError(CodePart, gate, where+".resource", "the resource is missing")
	}
	for j, v := range p.Versions {
		if v == "" || slices.Contains(p.Versions[:j], v) {
			d.addError(CodeDuplicate, gate, fmt.Sprintf("%s.versions[%d]", where, j), "%q is empty or stands there twice", clipWord(v))
		}
	}
	if p.WholeVersion {
		d.checkWholeVersion(f, p, where)
		return t, p.Resource != "" && len(p.Versions) > 0
	}
	path, err := ParsePath(p.Field)
	if err != nil {
		d.addError(CodePath, gate, where+".field", "%s", err)
		return t, false
	}
	// Controllers have to be able to write these, whatever is off.
	if slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, path[0].Name) {
		d.addError(CodePath, gate, where+".field", "%s cannot be gated: writes of metadata and status never fail because of a gate", path[0].Name)
		return t, false
	}
	t.Path, ok = path, p.Resource != ""
	if p.MaxItems < 0 {
		d.addError(CodePart, gate, where+".maxItems", "%d is less than 1", p.MaxItems)
	}
	narrowed := 0
	if p.Values != nil {
		narrowed++
		t.Values = d.readValues(gate, where+".values", p.Values)
	}
	if p.Pattern != "" {
		narrowed++
		re, good := d.compilePattern(gate, where+".pattern", p.Pattern)
		if good {
			t.Pattern, t.pattern = re, newPattern(re)
		}
		ok = ok && good
	}
	if p.Match != nil {
		narrowed++
		t.Match = d.readMatch(gate, where+".match", p.Match)
	}
	if p.Beyond != nil {
		narrowed++
		bounds, good := d.readBounds(gate, where+".beyond", p.Beyond)
		t.Beyond, ok = bounds, ok && good
	}
	if narrowed > 1 {
		d.addError(CodePart, gate, where, "only one of values, pattern, match and beyond can be given")
	}
	return t, ok
}

// checkWholeVersion checks a part that is a whole version: it names its versions, and nothing within them.
func (d *definer) checkWholeVersion(f *Feature, p *v1alpha1.Part, where string) {
	gate := f.Spec.Gate
	if p.Field != "" || p.Values != nil || p.Pattern != "" || p.Match != nil || p.Beyond != nil || p.MaxItems != 0 {
		d.addError(CodePart, gate, where, "a whole version has no field, values, pattern, match, beyond or maxItems")
	}
	if len(p.Versions) == 0 {
		d.addError(CodePart, gate, where+".versions", "versions is missing")
	}
	if f.Spec.WhenDisabled == v1alpha1.Drop {
		d.addError(CodeNoDrop, gate, where, "a whole version cannot be dropped: use Reject or Warn")
	}
}

// readValues returns a copy of gated values. Too many, none or one that stands there twice are errors, and are returned
// all the same.
func (d *definer) readValues(gate, where string, values []string) []string {
	if len(values) == 0 || len(values) > maxValues {
		d.addError(CodeTooMany, gate, where, "there are %d values; between 1 and %d are allowed", len(values), maxValues)
	}
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			d.addError(CodeDuplicate, gate, fmt.Sprintf("%s[%d]", where, i), "%q stands there twice", clipWord(v))
		}
	}
	return slices.Clone(values)
}

// readMatch reads the conditions of a part. A condition whose path cannot be read is left out, with an error. Paths of
// conditions go through fields only, so that a condition has one value or none.
func (d *definer) readMatch(gate, where string, match []v1alpha1.Match) []Condition {
	if len(match) == 0 || len(match) > maxValues {
		d.addError(CodeTooMany, gate, where, "there are %d conditions; between 1 and %d are allowed", len(match), maxValues)
	}
	out := make([]Condition, 0, len(match))
	for i, m := range match {
		at := fmt.Sprintf("%s[%d]", where, i)
		path, err := ParsePath(m.Field)
		if err != nil {
			d.addError(CodePath, gate, at+".field", "%s", err)
			continue
		}
		if slices.ContainsFunc(path, func(s Step) bool { return s.Kind != Field }) {
			d.addError(CodePath, gate, at+".field", "%s: a condition has no [*]", path)
		}
		c := Condition{Path: path}
		if m.Values != nil {
			c.Values = d.readValues(gate, at+".values", m.Values)
		}
		if m.Pattern != "" {
			if re, good := d.compilePattern(gate, at+".pattern", m.Pattern); good {
				c.Pattern, c.pattern = re, newPattern(re)
			}
		}
		if m.Values != nil && m.Pattern != "" {
			d.addError(CodePart, gate, at, "only one of values and pattern can be given")
		}
		out = append(out, c)
	}
	return out
}

// resolvePath follows a path through a schema. It returns the path with kinds and keys, and the schema of its end, nil if the schema
// does not describe it; or an error text.
func resolvePath(root *schema.Node, p Path) (Path, *schema.Node, string) {
	out := slices.Clone(p)
	n := root
	for i := range out {
		s := &out[i]
		// Below what the schema does not describe, each step is taken as it is.
		if n == nil {
			continue
		}
		if s.Kind == Field {
			next := n.Property(s.Name)
			switch {
			case next != nil:
			case n.Additional != nil:
				next = n.Additional
			// Fields of any name may stand here, and nothing is known about them.
			case n.PreserveUnknown || n.Embedded || n.AdditionalBool != nil && *n.AdditionalBool:
			default:
				names := make([]string, len(n.Properties))
				for j, q := range n.Properties {
					names[j] = q.Name
				}
				return nil, nil, fmt.Sprintf("%s has no field %q%s", out[:i].placeText(), clipWord(s.Name), nameHint(s.Name, names))
			}
			n = next
			continue
		}
		switch {
		case n.Items != nil:
			s.Kind = Items
			if n.ListType == "map" {
				s.Keys = slices.Clone(n.ListMapKeys)
			}
			s.Set = n.ListType == "set"
			s.Most = atLeastOne(n.MaxItems)
			n = n.Items
		case n.Additional != nil:
			s.Kind = Entries
			s.Most = atLeastOne(n.MaxProperties)
			n = n.Additional
		case n.AdditionalBool != nil && *n.AdditionalBool:
			s.Kind = Entries
			n = nil
		case n.PreserveUnknown || n.Type == "array":
			n = nil
		default:
			return nil, nil, fmt.Sprintf("%s is no array and no map, so that [*] finds nothing in it", out[:i].placeText())
		}
	}
	return out, n, ""
}

// atLeastOne returns a bound of the schema for products of bounds: 0 for none, and 1 for a list that has to be
// empty.
func atLeastOne(n *int64) int64 {
	if n == nil {
		return 0
	}
	return max(*n, 1)
}

// itemBound is the highest number of items that a target can be in, by its part and by the schema; 0 means any number.
func (t *Target) itemBound(declared int32) int {
	all := int64(1)
	for _, s := range t.Path {
		switch {
		case s.Kind == Field:
		case s.Most == 0 || all > math.MaxInt32:
			return int(declared)
		default:
			all *= s.Most
		}
	}
	if declared > 0 {
		all = min(all, int64(declared))
	}
	return int(min(all, math.MaxInt32))
}

// checkTarget checks a target against the schema of its version.
func (d *definer) checkTarget(f *Feature, t *Target, root *schema.Node, where string) {
	gate := f.Spec.Gate
	d.checkValues(gate, where, t)
	for i, c := range t.Match {
		at := fmt.Sprintf("%s.match[%d]", where, i)
		if t.Schema == nil {
			continue
		}
		_, n, problem := resolvePath(t.Schema, c.Path)
		if problem != "" {
			d.addError(CodeUnknownField, gate, at+".field", "version %s: in %s: %s", t.Version, t.Path, problem)
			continue
		}
		d.checkScalars(gate, at, n, c.Values, c.Pattern != nil)
	}
	d.checkParents(f, t, root, where)
	d.checkDefaults(f, t, root, where)
	d.checkLoss(f, t, root, where)
	d.checkUnknown(f, t, where)
}

// checkValues checks values and pattern against the schema of the field.
func (d *definer) checkValues(gate, where string, t *Target) {
	d.checkScalars(gate, where, t.Schema, t.Values, t.Pattern != nil)
	if t.Beyond != nil {
		d.checkBounds(gate, where+".beyond", t.Schema, t.Beyond)
	}
	if t.Match != nil && t.Schema != nil && t.Schema.Type != "object" && !t.Schema.PreserveUnknown {
		d.addError(CodePart, gate, where+".match", "version %s: %s is no object", t.Version, t.Path)
	}
}

// checkScalars checks that the values, or strings with a pattern, can stand in a field with a schema n. Otherwise
// nothing would ever be gated, which is more likely a slip than meant. Without a schema everything is accepted.
func (d *definer) checkScalars(gate, where string, n *schema.Node, values []string, pattern bool) {
	if n == nil || n.PreserveUnknown && n.Type == "" {
		return
	}
	if pattern && n.Type != "string" && !n.IntOrString {
		d.addError(CodePart, gate, where+".pattern", "the field is of type %s; a pattern is looked for in strings", n.Type)
	}
	if values == nil {
		return
	}
	if n.Type == "object" || n.Type == "array" {
		d.addError(CodePart, gate, where+".values", "the field is of type %s; values are those of strings, numbers and booleans", n.Type)
		return
	}
	if i := slices.IndexFunc(values, func(v string) bool { return !isOfType(n, v) }); i >= 0 {
		d.addError(CodeUnknownValue, gate, fmt.Sprintf("%s.values[%d]", where, i), "the field is of type %s, and %q is no such value", n.Type, clipWord(values[i]))
		return
	}
	if n.Enum == nil {
		return
	}
	var names []string
	for _, v := range n.Enum {
		if s, ok := scalarText(v); ok {
			names = append(names, s)
		}
	}
	for i, v := range values {
		if !slices.ContainsFunc(n.Enum, func(e any) bool { return scalarIs(e, []string{v}, nil) }) {
			d.addError(CodeUnknownValue, gate, fmt.Sprintf("%s.values[%d]", where, i), "the field has no value %q%s; it has %s", clipWord(v), nameHint(v, names), clipWord(strings.Join(names, ", ")))
		}
	}
}

// isOfType reports whether a text can stand for a value of a scalar.
func isOfType(n *schema.Node, text string) bool {
	switch {
	case n.IntOrString:
		return true
	case n.Type == "integer":
		return slices.ContainsFunc(NumberTexts(text), func(s string) bool { _, err := strconv.ParseInt(s, 10, 64); return err == nil })
	case n.Type == "number":
		return NumberTexts(text) != nil
	case n.Type == "boolean":
		return text == "true" || text == "false"
	}
	return true
}

// checkParents checks the demands of the objects and lists around the target.
func (d *definer) checkParents(f *Feature, t *Target, root *schema.Node, where string) {
	gate := f.Spec.Gate
	_, parent, _ := resolvePath(root, t.Path[:len(t.Path)-1])
	if parent == nil {
		return
	}
	last := t.Path[len(t.Path)-1]
	whole := !t.Narrowed()
	drop := f.Spec.WhenDisabled == v1alpha1.Drop
	if last.Kind == Field && parent.IsRequired(last.Name) {
		switch {
		case whole:
			d.addError(CodeRequired, gate, where+".field", "version %s: %s is required: no object could be written while the feature is closed", t.Version, t.Path)
		case drop && t.Reset == nil:
			d.addError(CodeNoDrop, gate, where+".field", "version %s: %s is required: its values cannot be dropped, but reset to another (resetTo)", t.Version, t.Path)
		case t.Schema != nil && t.Schema.Enum != nil && !slices.ContainsFunc(t.Schema.Enum, func(v any) bool {
			return !scalarIs(v, t.Values, nil)
		}) && t.Values != nil:
			d.addError(CodeRequired, gate, where+".values", "version %s: %s is required, and no value of it would be left", t.Version, t.Path)
		}
	}
	if n := len(t.Path); n > 1 && slices.Contains(t.Path[n-2].Keys, last.Name) && last.Kind == Field {
		switch {
		case whole:
			d.addError(CodeListKey, gate, where+".field", "version %s: %s identifies the items of its list", t.Version, t.Path)
		case drop: // values can be gated: an item with another one is another item
			d.addError(CodeListKey, gate, where+".field", "version %s: %s identifies the items of its list, so that its values cannot be dropped: use Reject or Warn", t.Version, t.Path)
		}
	}
}

// checkDefaults refuses parts that the schema's defaults use: an object without the field would be refused, and a dropped part would
// come back.
func (d *definer) checkDefaults(f *Feature, t *Target, root *schema.Node, where string) {
	for i := range len(t.Path) + 1 {
		_, n, _ := resolvePath(root, t.Path[:i])
		if n == nil || !n.HasDefault || !t.usedIn(schema.WithDefaults(n, n.Default), t.Path[i:]) {
			continue
		}
		d.addError(CodeHasDefault, f.Spec.Gate, where+".field", "version %s: the default of %s uses the part, and the API server would set it in each object: remove the default", t.Version, t.Path[:i].placeText())
	}
}

// checkUnknown has the checks that need no schema.
func (d *definer) checkUnknown(f *Feature, t *Target, where string) {
	if f.Spec.WhenDisabled != v1alpha1.Drop || t.WholeVersion || t.Reset != nil || f.Spec.Ratchet != v1alpha1.Unchanged && !t.Narrowed() {
		return
	}
	// A dropped value may have replaced a stored one, which then has to be restored. So its place must be known.
	for i, s := range t.Path {
		if s.Kind != Items && s.Kind != Each || s.isKeyed() {
			continue
		}
		d.addError(CodeNoDrop, f.Spec.Gate, where+".field", "the items of %s have no identity (%s), so that a stored value could not be put back: use Reject, or a plain field with ratchet InUse", t.Path[:i], noIdentityReason(t))
		return
	}
}

// noIdentityReason says why items of a list on the way to a target cannot be told apart.
func noIdentityReason(t *Target) string {
	if t.Schema == nil {
		return "no schema is known"
	}
	return "its x-kubernetes-list-type is neither map nor set"
}
