package compat

// What do readers meet that they have never seen? Wider schemas harm no stored object, but clients that know only the old schema. For
// example, a new enum value in the status, or null.

import (
	"context"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
)

// widening is a place at which new objects can hold what no old object could.
type widening struct {
	twin
	rule, keyword, message string
	before, after          any
}

// wideningsBetween lists what readers of the old schema have never seen.
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
	}
	return out
}

// refusesNull reports whether a field that may be null now has an enum without null: the API server dropped null from requests, and refuses
// it now.
func (w *widening) refusesNull() bool {
	return w.keyword == "nullable" && len(w.path) > 0 && w.path[len(w.path)-1].Kind == contain.Field &&
		len(w.new.Enum) > 0 && !slices.Contains(w.new.Enum, any(nil))
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

// withOldKeywords returns the new schema with the old keywords put back at the widenings.
func withOldKeywords(old, new *props, ws []widening) *props {
	var changes edit
	for _, w := range ws {
		if o := propsAt(old, w.path); o != nil {
			e := changes.editAt(w.path)
			e.keywords, e.old = append(e.keywords, w.keyword), o
		}
	}
	return changes.appliedTo(new)
}

// readersSurprised returns what old readers have never seen. Each place is put to the proof alone: the new schema against
// itself with the old keyword put back there. An object that the one accepts and the other does not is one that the old
// schema refuses too, because it has that keyword at that place.
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
		nullRefused := w.refusesNull()
		if i < 0 && !nullRefused {
			continue // something else keeps such values out
		}
		f := report.Finding{Rule: w.rule, Version: p.to.Name, Path: w.path.String(), Message: w.message, Before: valueText(w.before), After: valueText(w.after)}
		steps, _, _ := descendSchema(p.to.schemaNode(), w.path)
		f.SchemaPath = append(append(p.to.documentTokens("schema", "openAPIV3Schema"), steps...), w.keyword)
		if nullRefused {
			f.Outcome, f.Level = report.Violation, report.WritersRefused
			f.Message = "null was dropped from requests, and the enum refuses it now"
			out = append(out, f)
			continue
		}
		f.Outcome, f.Reason = report.Note, gaps[i].Reason // would only be warned of if it were shown
		if g := &gaps[i]; g.Verdict == contain.NotContained {
			f.Outcome, f.Witness = report.Violation, witnessOf(g)
			f.Witness.Reversed = true // it is the new CRD that accepts it
		}
		out = append(out, f)
	}
	return out
}

// edit is a change to revert at a place and below it.
type edit struct {
	keywords []string
	old      *props
	below    map[contain.Step]*edit
}

// editAt returns the edit at the path below e.
func (e *edit) editAt(path contain.Path) *edit {
	for _, s := range path {
		if e.below == nil {
			e.below = map[contain.Step]*edit{}
		}
		if e.below[s] == nil {
			e.below[s] = &edit{}
		}
		e = e.below[s]
	}
	return e
}

// appliedTo returns p with the keywords set to what old has. What is not touched is shared.
func (e *edit) appliedTo(p *props) *props {
	if p == nil {
		return p
	}
	out := *p
	for _, keyword := range e.keywords {
		switch keyword {
		case "enum":
			out.Enum = e.old.Enum
		case "type":
			out.Type, out.XIntOrString, out.Nullable = e.old.Type, e.old.XIntOrString, e.old.Nullable
		case "nullable":
			out.Nullable = e.old.Nullable
		}
	}
	fields := false
	for s, below := range e.below {
		switch s.Kind {
		case contain.Field:
			if !fields {
				fields, out.Properties = true, maps.Clone(p.Properties)
			}
			child := p.Properties[s.Name]
			out.Properties[s.Name] = *below.appliedTo(&child)
		case contain.AnyKey:
			out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{
				Allows: p.AdditionalProperties.Allows, Schema: below.appliedTo(p.AdditionalProperties.Schema),
			}
		case contain.AnyItem:
			out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: below.appliedTo(p.Items.Schema)}
		}
	}
	return &out
}
