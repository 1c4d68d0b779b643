package celrule

// What does a rule about updates say? It becomes a rule about an object with the old and the new state. For example, self.a == oldSelf.a
// becomes self.after.a == self.before.a.

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/schema"
)

// The properties of the object that represents an update: the written value and the stored one.
const (
	After  = "after"
	Before = "before"
)

// PairOf returns the schema of the objects that stand for updates, of a stored value of before to a value of after, to be the Spine of a
// rule made by [Rule.OfPair]. Root is as in [Scope]. It has no nulls, because a rule is not evaluated if one of both values is null.
func PairOf(after, before *schema.Node, root bool) *schema.Node {
	if root {
		after, before = withMeta(after), withMeta(before)
	}
	return &schema.Node{
		Type:       "object",
		Properties: []schema.Property{{Name: After, Node: after}, {Name: Before, Node: before}},
		Required:   []string{After, Before},
	}
}

// OfPair returns the rule as one about the object that represents an update. If both sides have a value, the result is true if and only
// if the rule allows the update. The path leads through properties from the updated value to the value that has the rule. If one side
// has no value there, or null, the rule is not evaluated, and the result is true (has() is false for null). The second result is false
// if the rule cannot be written in this way.
//
// With optionalOldSelf there is a value in oldSelf whenever there is an old one (validationActivationWithOldSelf in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel).
func (r *Rule) OfPair(optionalOldSelf bool, path ...string) (*Rule, bool) {
	values := [2]*expr{}
	var missing []*expr
	for i, side := range []string{After, Before} {
		x := selectionOf(&expr{kind: ident, name: self}, side)
		for _, name := range path {
			escaped, ok := apiservercel.Escape(name)
			if !ok {
				return nil, false
			}
			x = selectionOf(x, escaped)
			missing = append(missing, &expr{kind: call, name: operators.LogicalNot, args: []*expr{
				{kind: call, name: "has", args: []*expr{x}},
			}})
		}
		values[i] = x
	}
	if optionalOldSelf {
		values[1] = someOf(values[1])
	}
	root, ok := r.root.replaceNames(map[string]*expr{self: values[0], oldSelf: values[1]})
	if !ok {
		return nil, false
	}
	for _, m := range slices.Backward(missing) {
		root = &expr{kind: call, name: operators.LogicalOr, args: []*expr{m, root}}
	}
	return newRule(root), true
}

// Unchanged returns the rule for an update that leaves the value unchanged; false if it cannot be written in this way.
func (r *Rule) Unchanged(optionalOldSelf bool) (*Rule, bool) {
	old := &expr{kind: ident, name: self}
	if optionalOldSelf {
		old = someOf(old)
	}
	root, ok := r.root.replaceNames(map[string]*expr{oldSelf: old})
	if !ok {
		return nil, false
	}
	return newRule(root), true
}

// Freezes reports whether the rule, without optionalOldSelf, is true only if self == oldSelf is.
func (r *Rule) Freezes() bool {
	return slices.ContainsFunc(junctionParts(signed{r.root, false}, operators.LogicalAnd, operators.LogicalOr, nil), func(s signed) bool {
		return !s.neg && s.e.saysUnchanged()
	})
}

// saysUnchanged reports whether e is self == oldSelf.
func (e *expr) saysUnchanged() bool {
	if e.kind != call || e.name != operators.Equals || e.args[0].kind != ident || e.args[1].kind != ident {
		return false
	}
	a, b := e.args[0].name, e.args[1].name
	return a == self && b == oldSelf || a == oldSelf && b == self
}

// AllowsUnchanged reports whether the rule, without optionalOldSelf, is self == oldSelf of values of the node that CEL reads
// without an error and that equal themselves.
func (r *Rule) AllowsUnchanged(n *schema.Node) bool { return r.root.saysUnchanged() && equalsItself(n) }

// SameWhereEqual reports whether the rule sees the same in two values of the node that are equal in CEL, with any defaults: everything
// that it reads is deeply equal then. The result is also valid for equality of the objects around the node, if [ToldApart] is true of
// them.
func (r *Rule) SameWhereEqual(n *schema.Node) bool {
	fields, ok := r.root.appendStateFields(nil)
	if !ok || n == nil || n.Type != "object" || n.Additional != nil {
		return sameWhereEqual(n)
	}
	return ToldApart(n) && !slices.ContainsFunc(fields, func(escaped string) bool {
		name, ok := apiservercel.Unescape(escaped)
		return !ok || !sameWhereEqual(n.Property(name))
	})
}

// appendStateFields appends the names of the fields of self and oldSelf that e selects; false if e uses self or oldSelf in another way.
func (e *expr) appendStateFields(names []string) ([]string, bool) {
	if e.kind == ident {
		return names, e.name != self && e.name != oldSelf
	}
	if e.kind == sel && e.args[0].kind == ident && (e.args[0].name == self || e.args[0].name == oldSelf) {
		return append(names, e.name), true
	}
	for _, a := range e.args {
		var ok bool
		if names, ok = a.appendStateFields(names); !ok {
			return nil, false
		}
	}
	return names, true
}

func selectionOf(x *expr, name string) *expr { return &expr{kind: sel, name: name, args: []*expr{x}} }

func someOf(x *expr) *expr {
	return &expr{kind: call, name: "of", member: true, args: []*expr{{kind: ident, name: "optional"}, x}}
}

// replaceNames replaces free names by expressions. It returns false if a name is written as .name, or if a macro would bind a name in a new
// expression.
func (e *expr) replaceNames(by map[string]*expr) (*expr, bool) {
	if e.kind == ident {
		if x, ok := by[e.name]; ok {
			return x, true
		}
		return e, len(e.name) == 0 || e.name[0] != '.'
	}
	if len(e.args) == 0 {
		return e, true
	}
	n := e.binders()
	out := *e
	out.args = slices.Clone(e.args)
	for i, a := range e.args {
		if i >= 1 && i <= n {
			if a.kind != ident || a.name == self || a.name == oldSelf || a.name == "optional" {
				return nil, false
			}
			continue
		}
		x, ok := a.replaceNames(by)
		if !ok {
			return nil, false
		}
		out.args[i] = x
	}
	return &out, true
}
