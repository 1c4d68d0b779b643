package celrule

// Which parts of a schema does a rule touch, and are they of the same shape in another schema? For example, self.a.b == 1 touches a and b,
// but not what else a has.

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/schema"
)

// The shape of a schema is everything that can influence the CEL value of a JSON value: two nodes of the same shape give the same CEL
// value for the same JSON value.

// writeJSON writes a decoded JSON value so that different values differ, 1 and 1.0 included.
func writeJSON(v any) string { return shortDigest(hex.EncodeToString(schema.AppendValue(nil, v))) }

// ownShape writes the shape of the node without its children.
func ownShape(n *schema.Node) string {
	var b strings.Builder
	switch {
	case n.IntOrString:
		b.WriteString("int-or-string")
	case isMap(n):
		b.WriteString("map")
	default:
		b.WriteString(n.Type)
	}
	if celTypeOfFormat(n) != "" {
		b.WriteString(" " + n.Format)
	}
	if n.Nullable {
		b.WriteString(" nullable")
	}
	if n.PreserveUnknown {
		b.WriteString(" preserve")
	}
	if n.Embedded {
		b.WriteString(" embedded")
	}
	if n.ListType != "" && n.ListType != "atomic" {
		b.WriteString(" " + n.ListType + "[" + strings.Join(n.ListMapKeys, ",") + "]")
	}
	return b.String()
}

// defaultShape writes the default of a node, empty if there is none. It belongs to the shape of the parent: it counts
// where the value is missing.
func defaultShape(n *schema.Node) string {
	if !n.HasDefault {
		return ""
	}
	return " default=" + writeJSON(n.Default)
}

// wholeShape returns the shape of the node with everything below.
func (t *translator) wholeShape(n *schema.Node) string {
	if n == nil {
		return "-"
	}
	if len(n.Properties) == 0 && n.Items == nil && n.Additional == nil {
		return ownShape(n)
	}
	if s, ok := t.shapes[n]; ok {
		return s
	}
	s := shortDigest(t.writeWhole(n, 0))
	if t.shapes == nil {
		t.shapes = map[*schema.Node]string{}
	}
	t.shapes[n] = s
	return s
}

// shortDigest is s, or a digest of a long s: the names of opaque parts hold whole schemas, and are compared often.
func shortDigest(s string) string {
	if len(s) <= 80 {
		return s
	}
	h := sha256.Sum256([]byte(s))
	return "#" + hex.EncodeToString(h[:12])
}

// writeWhole writes the shape of a node with all below, and the defaults that are filled in there.
func (t *translator) writeWhole(n *schema.Node, depth int) string {
	n = t.seenAsChild(n)
	if depth > schema.MaxDepth {
		return "deep"
	}
	var b strings.Builder
	b.WriteString(ownShape(n))
	for _, p := range n.Properties {
		b.WriteString(" ." + writeConst(p.Name) + "(" + t.writeWhole(p.Node, depth+1) + defaultShape(p.Node) + ")")
	}
	if n.Items != nil {
		b.WriteString(" [" + t.writeWhole(n.Items, depth+1) + defaultShape(n.Items) + "]")
	}
	if n.Additional != nil {
		b.WriteString(" {" + t.writeWhole(n.Additional, depth+1) + defaultShape(n.Additional) + "}")
	}
	return b.String()
}

// touch is a node that an expression may read.
type touch struct {
	node  *schema.Node
	kids  map[string]*touch
	items *touch // of a list or a map
	whole bool
}

// shapeText writes the shape of what was touched: of a node used as a whole all of it, of others the node itself and
// the parts that were touched, sorted by name.
func (x *touch) shapeText(t *translator) string {
	if x.whole {
		return t.wholeShape(x.node)
	}
	var b strings.Builder
	b.WriteString("(" + ownShape(x.node))
	names := make([]string, 0, len(x.kids))
	for n := range x.kids {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		b.WriteString(" ." + writeConst(n) + x.kids[n].shapeText(t) + defaultShape(x.kids[n].node))
	}
	if x.items != nil {
		b.WriteString(" []" + x.items.shapeText(t) + defaultShape(x.items.node))
	}
	return b.String() + ")"
}

// toucher finds the parts of the schema that an expression may read.
type toucher struct {
	t     *translator
	roots map[string]*touch
}

// markWhole marks all parts of the value of e.
func (u *toucher) markWhole(e *expr, vars *touchVars) {
	for _, x := range u.visitExpr(e, vars) {
		x.whole = true
	}
}

// touchVars say for which nodes names stand.
type touchVars = binding[[]*touch]

// visitExpr returns the nodes whose values e may be, and marks the nodes on the way.
func (u *toucher) visitExpr(e *expr, vars *touchVars) []*touch {
	switch e.kind {
	case ident:
		if at, ok := vars.lookUp(e.name); ok {
			return at
		}
		if r := u.roots[e.name]; r != nil {
			return []*touch{r}
		}
		return nil
	case sel:
		return u.childrenNamed(u.visitExpr(e.args[0], vars), e.name)
	case call:
		return u.visitCall(e, vars)
	case literal, list, mapping:
	}
	for _, a := range e.args {
		u.markWhole(a, vars)
	}
	return nil
}

// visitCall marks what a call reads. A call that is not listed may read all of its arguments.
func (u *toucher) visitCall(e *expr, vars *touchVars) []*touch {
	switch e.name {
	case operators.Conditional:
		u.markWhole(e.args[0], vars)
		return u.visitBoth(e.args[1], e.args[2], vars)
	case operators.OptSelect, operators.Index, operators.OptIndex:
		return u.visitPart(e, vars)
	case "has":
		if e.isHas() {
			u.visitExpr(e.args[0], vars)
			return nil
		}
	case "size", "hasValue":
		if len(e.args) == 1 {
			u.visitExpr(e.args[0], vars)
			return nil
		}
	case "value":
		if len(e.args) == 1 {
			return u.visitExpr(e.args[0], vars)
		}
	case "or", "orValue":
		if len(e.args) == 2 {
			return u.visitBoth(e.args[0], e.args[1], vars)
		}
	}
	if e.binders() > 0 {
		return u.visitMacro(e, vars)
	}
	for _, a := range e.args {
		u.markWhole(a, vars)
	}
	return nil
}

// visitPart visits a.?b, a[b] and a[?b].
func (u *toucher) visitPart(e *expr, vars *touchVars) []*touch {
	u.markWhole(e.args[1], vars)
	at := u.visitExpr(e.args[0], vars)
	if name, ok := e.args[1].val.(string); ok {
		return u.childrenNamed(at, name)
	}
	return u.elementsOf(at)
}

// visitBoth visits two expressions of which one gives the value.
func (u *toucher) visitBoth(a, b *expr, vars *touchVars) []*touch {
	return append(slices.Clone(u.visitExpr(a, vars)), u.visitExpr(b, vars)...)
}

// visitMacro visits the body of a macro with its variables bound to the elements of the range, or to the value itself
// for optMap. Each variable may be any element: keys are marked with the values. Only filter gives values of the
// schema, those of its range.
func (u *toucher) visitMacro(e *expr, vars *touchVars) []*touch {
	n := e.binders()
	at := u.visitExpr(e.args[0], vars)
	elems := at
	if e.name != "optMap" && e.name != "optFlatMap" {
		elems = u.elementsOf(at)
	}
	inner := vars
	for _, v := range e.args[1 : n+1] {
		inner = &touchVars{v.name, elems, inner}
	}
	// What the body gives may be any part of what it reads, so all of that counts.
	for _, b := range e.args[n+1:] {
		u.markWhole(b, inner)
	}
	if e.name == "filter" {
		return at
	}
	return nil
}

// childrenNamed returns the nodes below at the name.
func (u *toucher) childrenNamed(at []*touch, name string) []*touch {
	var out []*touch
	for _, x := range at {
		if isMap(x.node) {
			out = append(out, u.elementsOf([]*touch{x})...)
			continue
		}
		key, ok := apiservercel.Unescape(name)
		c := x.node.Property(key)
		if !ok || c == nil {
			x.whole = true
			continue
		}
		if x.kids == nil {
			x.kids = map[string]*touch{}
		}
		if x.kids[key] == nil {
			x.kids[key] = &touch{node: u.t.seenAsChild(c)}
		}
		out = append(out, x.kids[key])
	}
	return out
}

// elementsOf returns the nodes of the items of lists, and of the values of maps.
func (u *toucher) elementsOf(at []*touch) []*touch {
	var out []*touch
	for _, x := range at {
		c := x.node.Items
		if x.node.Type == "object" {
			c = x.node.Additional
		}
		if c == nil {
			x.whole = true
			continue
		}
		if x.items == nil {
			x.items = &touch{node: u.t.seenAsChild(c)}
		}
		out = append(out, x.items)
	}
	return out
}
