package feature

// Can an object be valid without a part? If a feature is closed, objects lose the part, or are refused with it, and
// then the demands of the schema elsewhere must still hold. For example, with the rule has(self.a) || has(self.b) the
// field a cannot be dropped.

import (
	"slices"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/schema"
)

// Fate is the fate of a rule when a field is gone.
type Fate uint8

// The fates, the worst last.
const (
	Apart    Fate = iota // the rule does not mention the field
	Holds                // it holds without the field
	Open                 // it may hold or not
	Violated             // it cannot hold without the field
)

// checkLoss refuses parts whose loss would break demands of the schema elsewhere. A warning loses nothing, and a client can replace a
// refused value by another one.
func (d *definer) checkLoss(f *Feature, t *Target, root *schema.Node, where string) {
	drop := f.Spec.WhenDisabled == v1alpha1.Drop
	whole := !t.Narrowed()
	if f.Spec.WhenDisabled == v1alpha1.Warn || !drop && !whole || t.Reset != nil {
		return
	}
	broken := func(at Path, format string, args ...any) {
		d.addError(CodeBreaksRule, f.Spec.Gate, where+".field", "version %s: without %s, %s "+format, append([]any{t.Version, t.Path, at.placeText()}, args...)...)
	}
	for i := range t.Path {
		_, n, _ := resolvePath(root, t.Path[:i])
		if n == nil {
			return
		}
		rest := t.Path[i:]
		// A rule may read the part from any object around it.
		for _, r := range n.Rules {
			if d.options.RuleWithout == nil {
				break
			}
			switch what := d.options.RuleWithout(r.Rule, rest); {
			case what == Violated:
				broken(t.Path[:i], "breaks the rule %q", clipText(r.Rule))
			case what == Open && drop:
				broken(t.Path[:i], "may break the rule %q; it can be refused, but not dropped", clipText(r.Rule))
			}
		}
		if len(rest) > 1 {
			continue
		}
		if why := lossIn(n, rest[0], drop); why != "" {
			broken(t.Path[:i], "%s", why)
		}
	}
}

// lossIn says what is wrong with a value that has lost a part; empty if nothing is. Only parts that are dropped are lost in a write that
// is accepted.
func lossIn(n *schema.Node, part Step, drop bool) string {
	if part.Kind != Field {
		if drop && (isPositive(n.MinItems) || isPositive(n.MinProperties)) {
			return "may have too few entries; they can be refused, but not dropped"
		}
		return ""
	}
	what := junctorsWithout(n, part.Name, 0)
	switch {
	case what == Violated:
		return "is not valid, by its allOf, anyOf or oneOf"
	case drop && isPositive(n.MinProperties):
		return "may have too few fields; it can be refused, but not dropped"
	case drop && what == Open:
		return "may not be valid, by its anyOf or oneOf; it can be refused, but not dropped"
	}
	return ""
}

func isPositive(n *int64) bool { return n != nil && *n > 0 }

// junctorsWithout returns the fate of the junctors of an object that has lost a field.
func junctorsWithout(n *schema.Node, name string, depth int) Fate {
	out := Apart
	if depth > maxSteps {
		return out
	}
	branch := func(b *schema.Node) Fate {
		if b.IsRequired(name) {
			return Violated
		}
		return junctorsWithout(b, name, depth+1)
	}
	for _, b := range n.AllOf {
		out = max(out, branch(b))
	}
	for _, list := range [][]*schema.Node{n.AnyOf, n.OneOf} {
		if len(list) == 0 {
			continue
		}
		fates := make([]Fate, len(list))
		for i, b := range list {
			fates[i] = branch(b)
		}
		// If each branch needs the field, none can hold without it. If only some do, it depends on the object.
		switch least, most := slices.Min(fates), slices.Max(fates); {
		case least == Violated:
			out = Violated
		case most >= Open:
			out = max(out, Open)
		}
	}
	return out
}
