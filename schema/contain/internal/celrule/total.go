package celrule

// Is a rule never an error? For example, !has(self.a) || self.a > 1 is none, because has() guards the selection.

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/operators"

	"sluice.dev/schema"
)

// totality finds out, without a translation, that the evaluation of an expression is never an error for values of the schema in the form
// that storage has. It knows little: fields that are there, comparisons, quantifiers.
type totality struct {
	t *translator
	// nodes are the schemas of the bound names.
	nodes map[string]*schema.Node
	// there are the fields that are known to be there, as texts of the selections.
	there map[string]bool
}

// neverFails reports whether it is certain that the evaluation of the rule is no error.
func (t *translator) neverFails(r *Rule) bool {
	return readsWell(t.nodes[0]) && (&totality{t: t, nodes: map[string]*schema.Node{self: t.nodes[0]}}).total(r.root)
}

// total reports whether e is never an error.
func (x *totality) total(e *expr) bool {
	switch {
	case e.kind == literal:
		return true
	case e.kind == ident, e.kind == sel:
		return x.node(e) != nil
	case e.kind == list && e.optional == nil:
		return x.allTotal(e.args)
	case e.kind != call:
		return false
	case e.isHas():
		return readsWell(x.declared(e.args[0]))
	case e.binders() == 1:
		return x.quantifier(e)
	}
	return x.totalOperator(e)
}

// totalOperator is total for a call. The operators of logic say which fields are there where they evaluate an operand.
func (x *totality) totalOperator(e *expr) bool {
	switch e.name {
	case operators.LogicalAnd:
		return x.total(e.args[0]) && x.knowing(e.args[0], true).total(e.args[1])
	case operators.LogicalOr:
		return x.total(e.args[0]) && x.knowing(e.args[0], false).total(e.args[1])
	case operators.Conditional:
		return x.total(e.args[0]) && x.knowing(e.args[0], true).total(e.args[1]) && x.knowing(e.args[0], false).total(e.args[2])
	case operators.LogicalNot:
		return x.total(e.args[0])
	}
	return x.totalFunction(e)
}

// totalFunction is total for a call that evaluates all its arguments.
func (x *totality) totalFunction(e *expr) bool {
	switch e.name {
	case operators.Equals, operators.NotEquals:
		return x.allTotal(e.args) && !slices.ContainsFunc(e.args, x.compound)
	case operators.In:
		list := x.node(e.args[1])
		return x.allTotal(e.args) && !x.compound(e.args[0]) && (list == nil || list.Type == "object" || scalar(list.Items))
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, "contains", "startsWith", "endsWith", "size",
		"isURL", "isIP", "isCIDR", "isQuantity":
		return x.allTotal(e.args) && !slices.ContainsFunc(e.args, x.dyn)
	case "matches":
		return compiles(e.args[len(e.args)-1]) && x.allTotal(e.args) && !slices.ContainsFunc(e.args, x.dyn)
	}
	return x.converted(e) || methods[e.name] && !slices.ContainsFunc(e.args[:min(2, len(e.args))], func(a *expr) bool { return !x.converted(a) })
}

// compiles reports whether e is a constant that is a regular expression.
func compiles(e *expr) bool {
	pattern, ok := e.val.(string)
	_, err := regexp.Compile(pattern)
	return ok && err == nil
}

// methods are never an error for values that come of a conversion.
var methods = map[string]bool{
	"isInteger": true, "isGreaterThan": true, "isLessThan": true, "compareTo": true, "sign": true, "asApproximateFloat": true,
	"isUnspecified": true, "isLoopback": true, "isGlobalUnicast": true, "isLinkLocalUnicast": true, "isLinkLocalMulticast": true, "family": true,
	"prefixLength": true, "getHost": true, "getHostname": true, "getPort": true, "getEscapedPath": true, "getScheme": true,
}

// converted reports whether e is a string that is certainly converted: quantity(x) where isQuantity(x) is known, or of a constant.
func (x *totality) converted(e *expr) bool {
	is, ok := conversions[e.name]
	if !ok || e.kind != call || len(e.args) != 1 {
		return false
	}
	if s, ok := e.args[0].val.(string); ok && e.args[0].kind == literal {
		b, known := x.t.isA(is, strV(s))
		return known && b.t.op == opTrue
	}
	return x.there[is+" "+selection(e.args[0])] && x.total(e.args[0])
}

func (x *totality) allTotal(es []*expr) bool {
	return !slices.ContainsFunc(es, func(e *expr) bool { return !x.total(e) })
}

// dyn reports whether the type of e is known only at run time, so that an operator may not fit.
func (x *totality) dyn(e *expr) bool {
	n := x.node(e)
	return n != nil && n.IntOrString
}

// compound reports whether e is an object or a list, whose parts a comparison reads.
func (x *totality) compound(e *expr) bool {
	n := x.node(e)
	return n != nil && !scalar(n)
}

func scalar(n *schema.Node) bool { return readsWell(n) && n.Type != "object" && n.Type != "array" }

// quantifier is total for a macro with one variable whose body is.
func (x *totality) quantifier(e *expr) bool {
	if !slices.Contains([]string{"all", "exists", "exists_one", "existsOne", "filter"}, e.name) {
		return false
	}
	var item *schema.Node
	switch n := x.node(e.args[0]); {
	case n == nil:
		return false
	case n.Type == "array":
		item = x.t.seenAsChild(n.Items)
	case isMap(n):
		item = &schema.Node{Type: "string"}
	}
	if !readsWell(item) {
		return false
	}
	name := e.args[1].name
	inner := &totality{t: x.t, nodes: maps.Clone(x.nodes), there: maps.Clone(x.there)}
	inner.nodes[name] = item
	// The variable hides what is known of another one of that name, be it a.b or "isURL a.b".
	maps.DeleteFunc(inner.there, func(text string, _ bool) bool {
		text = text[strings.LastIndexByte(text, ' ')+1:]
		return text == name || strings.HasPrefix(text, name+".")
	})
	return inner.total(e.args[2])
}

// node returns the schema of the value of a name, of a field that is there, or of a list that is filtered; nil for others.
func (x *totality) node(e *expr) *schema.Node {
	switch {
	case e.kind == ident:
		return x.nodes[e.name]
	case e.kind == call && e.binders() == 1 && e.name == "filter" && x.quantifier(e):
		return x.node(e.args[0])
	case e.kind != sel:
		return nil
	}
	n := x.declared(e)
	if !readsWell(n) {
		return nil
	}
	above := x.node(e.args[0])
	_, key, _ := childNode(above, e.name)
	isThere := x.there[selection(e)]
	if isMap(above) {
		isThere = isThere && !n.Nullable
	} else {
		isThere = isThere || !n.Nullable && (n.HasDefault || above.IsRequired(key))
	}
	if !isThere {
		return nil
	}
	return n
}

// declared returns the schema of the field that e selects.
func (x *totality) declared(e *expr) *schema.Node {
	above := x.node(e.args[0])
	if above == nil {
		return nil
	}
	n, _, err := childNode(above, e.name)
	if err != nil {
		return nil
	}
	return x.t.seenAsChild(n)
}

// readsWell reports whether CEL reads every stored value of the schema, and none of them is null: a format may accept strings that CEL
// does not read, and lists.
func readsWell(n *schema.Node) bool {
	switch {
	case n == nil || n.PreserveUnknown:
		return false
	case n.IntOrString:
		return true
	}
	switch n.Type {
	case "string":
		return n.Format == ""
	case "boolean", "integer", "number", "object":
		return true
	case "array":
		return n.Items != nil && !n.Items.Nullable
	}
	return false
}

// knowing adds what e says if it is true or, with is unset, false: of has(a.b) that a.b is there, of isURL(a.b) that url(a.b) is no error.
func (x *totality) knowing(e *expr, is bool) *totality {
	out := &totality{t: x.t, nodes: x.nodes, there: maps.Clone(x.there)}
	if out.there == nil {
		out.there = map[string]bool{}
	}
	for _, s := range heldParts(e, is) {
		if s.neg || s.e.kind != call || len(s.e.args) != 1 {
			continue
		}
		switch text := selection(s.e.args[0]); {
		case text == "":
		case s.e.isHas():
			out.there[text] = true
		case slices.Contains([]string{"isURL", "isIP", "isCIDR", "isQuantity"}, s.e.name):
			out.there[s.e.name+" "+text] = true
		}
	}
	return out
}

// selection writes the selection of a field of a name: a.b.c. It is empty for other expressions.
func selection(e *expr) string {
	if e.kind == ident {
		return e.name
	}
	if e.kind != sel {
		return ""
	}
	up := selection(e.args[0])
	if up == "" {
		return ""
	}
	return up + "." + e.name
}
