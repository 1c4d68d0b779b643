package compat

// What do readers meet that they have never seen? Wider schemas harm no stored object, but clients that know only the old schema. For
// example, a new enum value in the status, or null.

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// widening is a place at which new objects can hold what no old object could.
// rule, keyword and message are those of the finding that it becomes if the prover confirms it.
type widening struct {
	twin
	rule, keyword, message string
	before, after          any
}

// wideningsBetween lists what readers of the old schema have never seen.
// Changes inside of junctors are left out: a reader decodes by types and enums of the fields themselves.
func wideningsBetween(old, new *schema.Node) []widening {
	var out []widening
	for t := range differingTwins(old, new) {
		o, n := t.old, t.new
		add := func(rule, keyword, message string, before, after any) {
			t.path = slices.Clone(t.path)
			out = append(out, widening{t, rule, keyword, message, before, after})
		}
		if len(o.Enum) > 0 && len(n.Enum) == 0 {
			add("enum-removed", "enum", "the enum is gone, which allowed only "+listValues(o.Enum), o.Enum, nil)
		} else if added := valuesMissingFrom(n.Enum, o.Enum); len(o.Enum) > 0 && len(added) > 0 {
			add("enum-value-added", "enum", pluralNoun(len(added), "value")+" "+listValues(added)+" added to the enum", o.Enum, n.Enum)
		}
		if isWiderType(o, n) {
			add("type-widened", "type", "type widened from "+typeName(o)+" to "+typeName(n), typeName(o), typeName(n))
		}
		if n.Nullable && !o.Nullable && !isWiderType(o, n) {
			add("nullable-added", "nullable", "null is allowed", false, true)
		}
		if last := len(t.path) - 1; last >= 0 && t.path[last].Kind == contain.AnyKey && !n.Nullable && n.HasDefault && !o.Nullable && !o.HasDefault {
			add("default-added", "default", "a default replaces null", nil, n.Default)
		}
	}
	return out
}

// mayRefuseNull reports whether a field or a value that keeps null now, or gets a default in its place, has an enum, or is in an object that counts its fields or
// has junctors or rules, which may ask for the field. The API server dropped null from requests, and may refuse it now.
// So far the API server dropped the null before it validated. Now it keeps it: an enum lacks null, null counts
// as a property, and rules see it.
func (w *widening) mayRefuseNull(to *props) bool {
	last := len(w.path) - 1
	if w.keyword != "nullable" && w.keyword != "default" || last < 0 || w.path[last].Kind == contain.AnyItem {
		return false
	}
	for i := range len(w.path) + 1 {
		if p := propsAt(to, w.path[:i]); p == nil || hasJunctors(p) || slices.ContainsFunc(p.XValidations, w.ruleMayRead) || i == last && p.MaxProperties != nil {
			return p != nil
		}
	}
	return len(w.new.Enum) > 0
}

func hasJunctors(p *props) bool {
	return len(p.AllOf) > 0 || len(p.AnyOf) > 0 || len(p.OneOf) > 0 || p.Not != nil
}

// ruleMayRead reports whether a rule above the place may read the value: it has the name of the field, or of the map.
func (w *widening) ruleMayRead(r apiextensionsv1.ValidationRule) bool {
	for _, s := range slices.Backward(w.path) {
		if s.Kind == contain.Field {
			return strings.Contains(r.Rule, s.Name) || strings.Contains(r.Rule, "self[") || readsAllOfSelf.MatchString(r.Rule)
		}
	}
	return true
}

// readsAllOfSelf is true of rules such as self == oldSelf and self.all(k, true).
var readsAllOfSelf = regexp.MustCompile(`\bself\s*([^.\s\w]|\.\s*(all|exists|exists_one|map|filter|size)\b|$)`)

// withNullHere is [withNullAt] without what rules above the place may say of the null.
func (w *widening) withNullHere(p *props) *props {
	for i := range w.path {
		at := w.path[:i]
		if above := propsAt(p, at); above != nil && slices.ContainsFunc(above.XValidations, w.ruleMayRead) {
			p = withChildAt(p, at, func(s *props) { s.XValidations = slices.DeleteFunc(slices.Clone(s.XValidations), w.ruleMayRead) })
		}
	}
	return withNullAt(p, w.path)
}

// withNullAt returns the schema of objects of p with null at the path, where p drops it. They may have one field more than p allows, and what the
// junctors of p say of the field is left open.
// The text at the place has a least length of one and a greatest of none, so null is the only value that it accepts.
func withNullAt(p *props, path contain.Path) *props {
	if len(path) == 0 {
		least, most := int64(1), int64(0) // no text, so that only null is left
		return &props{Type: "string", Nullable: true, MinLength: &least, MaxLength: &most}
	}
	out := *rewriteChildren(p, func(child *props, at contain.Step) *props {
		if at == path[0] {
			return withNullAt(child, path[1:])
		}
		return child
	})
	out.AllOf, out.AnyOf, out.OneOf, out.Not = nil, nil, nil, nil
	switch {
	case len(path) > 1:
	case path[0].Kind == contain.Field:
		out.Required = append(slices.Clone(p.Required), path[0].Name)
		for _, bound := range []**int64{&out.MinProperties, &out.MaxProperties} {
			if *bound != nil {
				*bound = new(**bound + 1)
			}
		}
	default:
		out = *withValues(&out, p.AdditionalProperties.Schema)
	}
	return &out
}

// withValues returns a map of the values of p with as many of another schema besides as p asks for, at most 1,000.
func withValues(p, value *props) *props {
	out, least := *p, int64(1)
	out.Properties = map[string]props{}
	for ; p.MinProperties != nil && least <= min(*p.MinProperties, 1000); least++ {
		name := fmt.Sprintf("k%d", least)
		out.Properties[name], out.Required = *value, append(out.Required, name)
	}
	out.MinProperties, out.MaxProperties = &least, nil
	return &out
}

// addNullRefused looks for an object with a null that the old CRD dropped from requests, and that the new one refuses, by the API server's code. It
// adds to the finding that there is one, or that this is undecided, and returns false if there is none.
// A rule about updates is asked for apart, because no creation meets it.
func (c *comparison) addNullRefused(ctx context.Context, p pair, w *widening, f *report.Finding) bool {
	if !w.mayRefuseNull(p.to.props) {
		return false
	}
	nulled := p.from.withSchema(w.withNullHere(p.from.props))
	if nulled.buildSchema() != nil {
		return false // cannot be: it is a part of a schema that passed
	}
	o := c.containOptions(p.from)
	o.Only = func(g *contain.Gap) bool { return g.Harm == contain.Refused }
	for _, g := range contain.Decide(ctx, nulled.side, p.to.side, o).Gaps {
		switch {
		case g.Witness == nil && g.OddAlone:
		case g.Witness == nil:
			f.Outcome, f.Reason, f.Message = report.Undecided, g.Reason, Undetermined+": null was dropped from requests, and may be refused now"
		case c.refusesForNull(ctx, p, g.Witness.Object):
			f.Outcome, f.Level, f.Witness, f.Reason = report.Violation, report.WritersRefused, witnessOf(&g), ""
			f.Message = "null was dropped from requests, and is refused now"
			return true
		}
	}
	if hasTransitions(p.to.props) {
		for _, obj := range c.simpleObjects(ctx, nulled, w.path) {
			if g := c.updateRefusedForNull(ctx, p, obj); g != nil {
				f.Outcome, f.Level, f.Witness, f.Reason = report.Violation, report.WritersRefused, witnessOf(g), ""
				f.Message = "null was dropped from updates, and is refused now"
				return true
			}
		}
	}
	return f.Outcome != ""
}

// updateRefusedForNull returns the update of an object to the same one with null, which the old version takes and the new one refuses; nil if that
// takes it as well.
// The same update without the null has to pass under the new CRD, or else the null is not the reason.
func (c *comparison) updateRefusedForNull(ctx context.Context, p pair, obj map[string]any) *contain.Gap {
	made, taken := c.takenRequest(ctx, p.from, obj)
	if !taken {
		return nil
	}
	stored, _ := schema.AsStored(made).(map[string]any)
	before, err := c.updateObject(ctx, p.from, p.from, stored, obj, true)
	if err != nil || before.Refused() {
		return nil
	}
	now, err := c.updateObject(ctx, p.to, p.to, stored, obj, true)
	if err != nil || !now.Refused() {
		return nil
	}
	if alone, err := c.updateObject(ctx, p.to, p.to, stored, stored, true); err != nil || alone.Refused() {
		return nil
	}
	w := &contain.Witness{Object: obj, Old: stored}
	for _, e := range now.Errors {
		w.Errors = append(w.Errors, e.Error())
	}
	return &contain.Gap{Harm: contain.Refused, Witness: w, Rule: -1}
}

// refusesForNull reports whether the old version takes a request, and the new one refuses it, but takes what the old one makes of it without
// null.
func (c *comparison) refusesForNull(ctx context.Context, p pair, obj map[string]any) bool {
	before, taken := c.takenRequest(ctx, p.from, obj)
	if !taken {
		return false
	}
	_, takenNow := c.takenRequest(ctx, p.to, obj)
	_, withoutNull := c.takenRequest(ctx, p.to, before)
	return !takenNow && withoutNull
}

// takenRequest returns what is stored of a request for an object, and whether a version takes it with all its fields but null.
func (c *comparison) takenRequest(ctx context.Context, p *part, obj map[string]any) (map[string]any, bool) {
	v, err := c.validatorOf(p)
	if err != nil {
		return nil, false
	}
	res, err := v.CreateWithStatus(ctx, obj)
	return res.Stored, err == nil && !res.Refused() && len(res.Pruned) == 0
}

func pluralNoun(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// typeName names the type of a node for people.
func typeName(n *schema.Node) string {
	switch {
	case n == nil:
		return ""
	case n.IntOrString:
		return "int-or-string"
	case n.Type == "":
		return "any"
	}
	return n.Type
}

// isWiderType reports whether the type of n takes all that of o takes, and more.
// Any type is wider than each other one, number than integer, and int-or-string than integer and string.
func isWiderType(o, n *schema.Node) bool {
	from, to := typeName(o), typeName(n)
	switch {
	case from == to || from == "any":
		return false
	case to == "any":
		return true
	}
	return from == "integer" && to == "number" || (from == "integer" || from == "string") && to == "int-or-string"
}

// readersRule makes a rule of the widenings that go by its name.
// The prover is asked once for all rules of this kind.
func readersRule(rule string) func(context.Context, *comparison) []report.Finding {
	return func(ctx context.Context, c *comparison) []report.Finding {
		found := c.surprises.answerOf(func() (all []report.Finding) {
			for _, p := range c.servedPairs() {
				all = append(all, c.readersSurprised(ctx, p)...)
			}
			return all
		})
		return slices.DeleteFunc(slices.Clone(found), func(f report.Finding) bool { return f.Rule != rule })
	}
}

// withOldKeywords returns the new schema with the old keywords put back at the widenings. What is not touched is shared.
// Only these keywords come from the old schema. All else is that of the new one, so an object that is refused is
// refused for the keyword.
func withOldKeywords(old, new *props, ws []widening) *props {
	at := map[string][]string{}
	for _, w := range ws {
		at[w.path.String()] = append(at[w.path.String()], w.keyword)
	}
	var revert func(o, n *props, path contain.Path) *props
	revert = func(o, n *props, path contain.Path) *props {
		if o == nil || len(path) > schema.MaxDepth {
			return n
		}
		out := rewriteChildren(n, func(child *props, s contain.Step) *props {
			return revert(propsAt(o, contain.Path{s}), child, append(slices.Clip(path), s))
		})
		if keywords := at[path.String()]; keywords != nil {
			out = withKeywordsOf(o, out, keywords)
		}
		return out
	}
	return revert(old, new, nil)
}

// withKeywordsOf returns p with what o says by some keywords.
// type brings nullable with it, because the type of a null is no other.
func withKeywordsOf(o, p *props, keywords []string) *props {
	out := *p
	for _, keyword := range keywords {
		switch keyword {
		case "enum":
			out.Enum = o.Enum
		case "type":
			out.Type, out.XIntOrString, out.Nullable = o.Type, o.XIntOrString, o.Nullable
		case "nullable":
			out.Nullable = o.Nullable
		}
	}
	return &out
}

// readersSurprised returns what old readers have never seen. Each place is put to the proof alone: the new schema against
// itself with the old keyword put back there. An object that the one accepts and the other does not is one that the old
// schema refuses too, because it has that keyword at that place.
// Whatever else keeps such values out, for example a rule or the scale subresource, is on both sides of the proof.
// Then there is no gap and no finding.
func (c *comparison) readersSurprised(ctx context.Context, p pair) []report.Finding {
	if p.from.props == nil || p.to.props == nil || p.from.buildSchema() != nil || p.to.buildSchema() != nil {
		return nil
	}
	ws := wideningsBetween(p.from.schemaNode(), p.to.schemaNode())
	if len(ws) == 0 {
		return nil
	}
	to := c.afterStep(p.to, step{kind: stepScale})
	side, err := contain.NewSide(withOldKeywords(p.from.props, to.props, ws))
	if err != nil || to.buildSchema() != nil {
		return nil // cannot be: it is made of two schemas that passed
	}
	o := c.containOptions(p.to)
	o.Only = func(g *contain.Gap) bool { return slices.Contains([]string{"enum", "type", "nullable"}, g.Keyword) }
	gaps := contain.Decide(ctx, to.side, side, o).Gaps
	at := map[string]int{} // the number of the first gap about a keyword at a place
	for i := range gaps {
		if key := gaps[i].Path.String() + " " + gaps[i].Keyword; at[key] == 0 {
			at[key] = i + 1
		}
	}
	var out []report.Finding
	for _, w := range ws {
		i := at[w.path.String()+" "+w.keyword] - 1
		if j := at[w.path.String()+" type"] - 1; w.keyword == "nullable" && (i < 0 || j >= 0 && j < i) {
			i = j // a null that an item was not allowed to be is a matter of its type
		}
		f := report.Finding{Rule: w.rule, Version: p.to.Name, Path: w.path.String(), Message: w.message, Before: valueText(w.before), After: valueText(w.after)}
		f.SchemaPath = p.to.schemaTokens(w.path, w.keyword)
		switch told := c.addNullRefused(ctx, p, &w, &f); {
		case told:
		case i < 0:
			continue // something else keeps such values out
		case gaps[i].Verdict == contain.NotContained:
			f.Outcome, f.Witness = report.Violation, witnessOf(&gaps[i])
			f.Witness.Reversed = true // it is the new CRD that accepts it
		default:
			f.Outcome, f.Reason = report.Note, gaps[i].Reason // would only be warned of if it were shown
		}
		out = append(out, f)
	}
	return out
}
