package compat

// Which objects does an update reach that no creation does? A rule with optionalOldSelf may ask more of a new object than of an update. For
// example, oldSelf.hasValue() || !has(self.b) keeps b out of new objects, and the next update may set it.

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// These expressions read the rule as text and not as CEL. A rule that uses the optional value
// in another way keeps it, as optional.of(oldSelf).
var (
	hasOldValue = regexp.MustCompile(`\boldSelf\s*\.\s*hasValue\(\s*\)`)
	oldValue    = regexp.MustCompile(`\boldSelf\s*\.\s*value\(\s*\)`)
	anyOld      = regexp.MustCompile(`\boldSelf\b`)
	// otherUseOfOld is what is left of oldSelf as an optional value.
	otherUseOfOld = regexp.MustCompile(`\boldSelf\s*(\.\s*(or|orValue|optMap|optFlatMap|hasValue|value)\b|\.\?|\[\s*\?)|\boptional\.`)
)

// ruleOfUpdates returns what a rule with optionalOldSelf says where there is an old value, in words that the prover knows if they suffice.
func ruleOfUpdates(r apiextensionsv1.ValidationRule) apiextensionsv1.ValidationRule {
	if r.OptionalOldSelf == nil || !*r.OptionalOldSelf {
		return r
	}
	r.OptionalOldSelf = nil
	if strings.Contains(r.MessageExpression, "oldSelf") {
		r.MessageExpression = ""
	}
	plain := oldValue.ReplaceAllString(hasOldValue.ReplaceAllString(r.Rule, "true"), "oldSelf")
	if otherUseOfOld.MatchString(plain) {
		plain = anyOld.ReplaceAllString(r.Rule, "optional.of(oldSelf)")
	}
	r.Rule = plain
	return r
}

// withRulesOfUpdates returns p with what its rules say of an update; p itself if they say the same of a creation.
func withRulesOfUpdates(p *props) *props {
	optional := func(s *props) bool {
		return slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.OptionalOldSelf != nil && *r.OptionalOldSelf })
	}
	const in = schema.InStructure | schema.InJunctors
	for s := range schema.Walk(p, in) {
		if optional(s) {
			return schema.Rewrite(p, in, func(s *props) {
				if optional(s) {
					s.XValidations = slices.Clone(s.XValidations)
					for i, r := range s.XValidations {
						s.XValidations[i] = ruleOfUpdates(r)
					}
				}
			})
		}
	}
	return p
}

// updatedOnly are the gaps of objects that an update of an object of from reaches, and no creation. known are those of created objects.
func (c *comparison) updatedOnly(ctx context.Context, from, to *part, known []contain.Gap) (out []contain.Gap) {
	updated := c.afterStep(from, step{kind: stepUpdate})
	now := c.afterStep(to, step{kind: stepUpdate})
	if updated == from || updated.buildSchema() != nil || now.buildSchema() != nil {
		return nil
	}
	have := gapKeys(known)
	for _, g := range c.askProver(ctx, updated, now) {
		if g.Keyword == "x-kubernetes-validations" && g.Rule >= 0 {
			own := propsAt(to.props, g.Path).XValidations[g.Rule].Rule
			g.After, g.Detail = own, own
		}
		if have.hasGap(&g) {
			continue
		}
		if g.Verdict == contain.NotContained {
			w := *g.Witness
			state := w.Old
			if state == nil {
				state = w.Object
			}
			base, _ := c.updateTo(ctx, from, state, g.Path)
			switch {
			case base == nil:
				g.Verdict, g.Witness, g.Reason = contain.Unknown, nil, "a creation of such an object is refused, and no update to one was found"
			case w.Old == nil:
				w.Old, g.Witness = base, &w
			}
		}
		out = append(out, g)
	}
	return out
}

// mostUpdates bounds the updates that are tried on the way to an object.
const mostUpdates = 100

// updateTo looks for updates that lead from an object that p accepts on creation to another one, which may take several values at a path on the
// way. It returns the object before the last update, and what that stores; nil if it finds none.
func (c *comparison) updateTo(ctx context.Context, p *part, obj map[string]any, at contain.Path) (before, stored map[string]any) {
	prepared := p.judge != nil
	v, err := c.validatorOf(p)
	if err != nil {
		return nil, nil
	}
	costs := v.Costs()
	work := costs.Exact * int64(1+len(compactJSON(obj))/16)
	if !prepared && !c.work.Charge(costs.Prepare+costs.Rules) {
		return nil, nil
	}
	var reached []map[string]any
	for _, first := range append(append(c.simpleObjects(ctx, p, nil), c.simpleObjects(ctx, p, at)...), withoutOneField(obj, 3)...) {
		if !c.work.Charge(work) {
			return nil, nil
		}
		if made, err := v.CreateWithStatus(ctx, first); err == nil && !made.Refused() {
			old, _ := schema.AsStored(made.Stored).(map[string]any)
			reached = append(reached, old)
		}
	}
	// The search is breadth first: reached grows while the loop goes on, and each state between is used once. An
	// update of the status is a request of its own, so one step of the search may be two requests.
	left, between := mostUpdates, otherStates(p, obj, at)
	for i := 0; i < len(reached) && left > 0; i++ {
		if !c.work.Charge(work) {
			return nil, nil
		}
		if made := writeUpdate(ctx, v, hasStatus(p), obj, reached[i]); made != nil {
			before = runtime.DeepCopyJSON(reached[i])
			unstructured.RemoveNestedField(before, "metadata", "generation")
			return before, made
		}
		left--
		for k, state := range between {
			if state == nil || left == 0 || !c.work.Charge(work) {
				continue
			}
			left--
			if made := writeUpdate(ctx, v, hasStatus(p), state, reached[i]); made != nil {
				reached, between[k] = append(reached, made), nil
			}
		}
	}
	return nil, nil
}

// writeUpdate returns what is stored of an update of an object, and of its status if status is set; nil if it is refused.
func writeUpdate(ctx context.Context, v *upstream.Validator, status bool, obj, old map[string]any) map[string]any {
	next, err := v.Update(ctx, obj, old, v.Ratchets())
	if err == nil && !next.Refused() && status {
		kept, _ := schema.AsStored(next.Stored).(map[string]any)
		next, err = v.UpdateStatus(ctx, obj, kept, v.Ratchets())
	}
	if err != nil || next.Refused() {
		return nil
	}
	made, _ := schema.AsStored(next.Stored).(map[string]any)
	return made
}

// otherStates are copies of an object with each other value that the enum of p allows at a path.
// Only enums are tried: they list the other states, such as the phases of an object.
func otherStates(p *part, obj map[string]any, at contain.Path) (out []map[string]any) {
	node := propsAt(p.props, at)
	if node == nil || len(at) == 0 {
		return nil
	}
	for _, raw := range node.Enum {
		var value any
		if json.Unmarshal(raw.Raw, &value) != nil {
			continue
		}
		state := runtime.DeepCopyJSON(obj)
		if holder, ok := contain.ValueAt(state, at[:len(at)-1]); ok {
			if fields, ok := holder.(map[string]any); ok && at[len(at)-1].Kind == contain.Field {
				fields[at[len(at)-1].Name] = value
				out = append(out, state)
			}
		}
	}
	return out
}

// simpleObjects returns an object that p accepts on creation and that has a value at a path; none if none is found.
// The prover is asked for an object that a schema refuses which demands the impossible at the path. So its witness
// has whatever p asks for, and nothing else.
func (c *comparison) simpleObjects(ctx context.Context, p *part, at contain.Path) []map[string]any {
	const none = "sluice.dev/none" // a field and a value that no object has
	asking := withRequired(p.props, []string{none})
	if len(at) > 0 {
		asking = withChildAt(p.props, at, func(s *props) { s.Enum = []apiextensionsv1.JSON{{Raw: []byte(strconv.Quote(none))}} })
	}
	side, err := contain.NewSide(asking)
	if err != nil || p.buildSchema() != nil {
		return nil
	}
	o := c.containOptions(p)
	o.Only = func(g *contain.Gap) bool { return g.Keyword == "required" && g.Detail == none || g.Keyword == "enum" }
	for _, g := range contain.Decide(ctx, p.side, side, o).Gaps {
		if g.Witness != nil {
			return []map[string]any{g.Witness.Object}
		}
	}
	return nil
}

// withChildAt returns p with a change to the schema at a path.
// A path that p does not declare leaves p as it is. Nothing that p shares with other schemas is changed.
func withChildAt(p *props, at contain.Path, change func(*props)) *props {
	if len(at) == 0 {
		out := *p
		change(&out)
		return &out
	}
	return rewriteChildren(p, func(child *props, s contain.Step) *props {
		if s == at[0] {
			return withChildAt(child, at[1:], change)
		}
		return child
	})
}

// withoutOneField returns copies of an object, each without one of its fields, down to some depth. They have their type and metadata.
// For {spec: {a: 1, b: 2}} these are {}, {spec: {b: 2}} and {spec: {a: 1}}. They are the states from which one update
// leads to the object.
func withoutOneField(obj map[string]any, depth int) (out []map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue
		}
		less := maps.Clone(obj)
		delete(less, name)
		out = append(out, less)
		if below, ok := obj[name].(map[string]any); ok && depth > 0 {
			for _, b := range withoutOneField(below, depth-1) {
				changed := maps.Clone(obj)
				changed[name] = b
				out = append(out, changed)
			}
		}
	}
	return out
}
