package compat

// Can a client still set a label? It changes nothing else, so nothing should refuse it. But a rule about
// updates may see another old value than before: for example, self.mode == oldSelf.mode where the new version
// fills in mode and the old value lacks it.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// suspectLabels returns the rules about updates of a new version that may refuse to set a label. The API server converts the old value to
// that version and does not fill in its defaults, so the old value can lack what the new one has.
// A rule stays suspect if the prover shows neither that it allows all updates with these old values,
// nor that it allows those that only set a label. The rules of [withLabelRules] describe the latter to the prover.
func (c *comparison) suspectLabels(to *part) []contain.Gap {
	var readings []contain.Reading
	var held []*props
	for _, from := range c.writtenVersions() {
		home := c.readingVersion(from)
		if home == nil || home.buildSchema() != nil || from.buildSchema() != nil || !c.work.Charge(unitsToCross) {
			continue
		}
		stored := c.readBy(from, home).props
		asked := c.readBy(to, to).props // filledBy gives no default to a field that stored requires
		filled, err := contain.NewSide(filledBy(asked, to.props, []*props{stored}, 0))
		if err != nil {
			continue // cannot be: it is a part of a schema that passed
		}
		read, err := contain.NewSide(filledBy(asked, home.props, []*props{stored}, 0))
		if err == nil && filled.Node.Hash() != read.Node.Hash() {
			readings, held = append(readings, contain.Reading{Old: read, New: filled}), append(held, stored)
		}
	}
	if len(readings) == 0 {
		return nil
	}
	known, err := contain.NewSide(withLabelRules(to.props, held, 0))
	if err != nil {
		return nil // cannot be, as above
	}
	open := gapKeys(contain.DecideOldValues(known, to.side, nil, c.containOptions(to)))
	out := contain.DecideOldValues(to.side, to.side, readings, c.containOptions(to))
	out = slices.DeleteFunc(out, func(g contain.Gap) bool { return !open.hasGap(&g) })
	for i := range out {
		out[i].Reason = "the rule compares with an old value that lacks the defaults of " + to.Name + ", and no object was found that it refuses"
	}
	return out
}

// identifier matches names of fields that a rule can write as they are.
var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// withLabelRules replaces the rules of p by rules that are true of each update which only sets a label: a field has its old value, or its default
// if there was none. The schemas held describe the stored objects.
func withLabelRules(p *props, held []*props, depth int) *props {
	out := *p
	out.XValidations = nil
	if len(p.Properties) == 0 || depth > schema.MaxDepth {
		return &out
	}
	out.Properties = make(map[string]props, len(p.Properties))
	for name, child := range p.Properties {
		if depth == 0 && (name == "status" || slices.Contains(ofEveryObject, name)) { // labels are in metadata; the status stays without defaults
			out.Properties[name] = *withoutRules(&child)
			continue
		}
		below := schemasAt(held, contain.Step{Kind: contain.Field, Name: name})
		out.Properties[name] = *withLabelRules(&child, below, depth+1)
		if identifier.MatchString(name) && !dropsNulls(&child, below, 0) {
			out.XValidations = append(out.XValidations, apiextensionsv1.ValidationRule{Rule: labelRuleOf(name, &child)})
		}
	}
	slices.SortFunc(out.XValidations, func(a, b apiextensionsv1.ValidationRule) int { return strings.Compare(a.Rule, b.Rule) })
	return &out
}

// dropsNulls reports whether p, or something in it, drops a null that one of the schemas keeps.
func dropsNulls(p *props, held []*props, depth int) bool {
	if p == nil || depth > schema.MaxDepth {
		return false
	}
	if !p.Nullable && slices.ContainsFunc(held, func(s *props) bool { return s.Nullable || keepsUnknownFields(s) }) {
		return true
	}
	for at, child := range childSchemas(p) {
		if dropsNulls(child, schemasAt(held, at), depth+1) {
			return true
		}
	}
	return false
}

// labelRuleOf is the rule about one field.
// For a scalar default the rule says which value fills the gap: has(self.a) && (has(oldSelf.a) ? self.a == oldSelf.a
// : self.a == 3). Where that cannot be written in CEL, as for objects with defaults inside, a weaker rule is true as
// well.
func labelRuleOf(name string, p *props) string {
	a, b := "self."+name, "oldSelf."+name
	inner := *p
	inner.Default = nil
	switch {
	case fillsBelow(&inner):
		return fmt.Sprintf("!has(%s) || has(%s)", b, a)
	case !fillsIn(p):
		return fmt.Sprintf("has(%s) == has(%s) && (!has(%s) || %s == %s)", a, b, a, a, b)
	case slices.Contains([]string{"string", "integer", "boolean"}, p.Type) && p.Format == "" && !strings.Contains(string(p.Default.Raw), "."):
		return fmt.Sprintf("has(%s) && (has(%s) ? %s == %s : %s == %s)", a, b, a, b, a, p.Default.Raw)
	}
	return fmt.Sprintf("has(%s) && (!has(%s) || %s == %s)", a, b, a, b)
}

// withoutRules returns p without validation rules.
func withoutRules(p *props) *props {
	return schema.Rewrite(p, schema.InStructure, func(s *props) { s.XValidations = nil })
}
