package celrule

// What does a rule see of a value? For example, it sees the default of a missing property, and a string of the format duration as a
// duration.

import (
	"slices"

	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// TimeText matches the strings of the format date-time that CEL can read: validation ignores case, accepts any character before a
// fraction and any two digits in an offset, and ignores the text after a second t (IsDateTime and ParseDateTime in
// k8s.io/kube-openapi/pkg/validation/strfmt).
const TimeText = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-4]):([0-5][0-9]|60))$`

// readable has a pattern of the strings that CEL can read, for each format that gives strings another type and for which validation
// accepts more. Any other string is an error if a rule uses it. For byte, validation accepts the alphabet with + and /, and CEL reads
// the one with - and _ (UnmarshalText of Base64 there).
var readable = map[string]string{"date-time": TimeText, "byte": `^[^+/]*$`}

// mayHoldNull reports whether a null counts as a value here: rules are not evaluated on null, and a nullable property with null is absent.
func (p place) mayHoldNull() bool {
	if n := len(p.path); n > 0 {
		return !p.path[n-1].nullable
	}
	return p.scope != 0
}

// loadPlace returns the values at a place, with guards that say that the place is present.
func (t *translator) loadPlace(at place, n *schema.Node) (value, error) {
	n = t.seenAsChild(n)
	r := ref{at, n}
	kind := func(k logic.Kind) *cond { return leafCond(at, logic.Kinds(k)) }
	var out value
	// Where null is a value of its own, everything else needs a guard against it.
	if n.Nullable && at.mayHoldNull() {
		out = out.addBranch(kind(logic.Null), nullV{})
	}
	there := leafCond(at, logic.True)
	if out != nil {
		there = kind(logic.NonNull)
	}
	if n.IntOrString {
		s := strAt{ref: r, hi: -1, dyn: true}
		// Both kinds have a branch; an operator that fits only one of them is an error for the other.
		i := newNum(intAt{r})
		i.dyn = true
		return out.addBranch(kind(logic.String), s).addBranch(kind(logic.Int), i), nil
	}
	switch n.Type {
	case "object":
		return out.addBranch(there, refV{r}), nil
	case "array":
		if n.Items == nil {
			return nil, errUnsupported
		}
		return out.addBranch(there, refV{r}), nil
	case "string":
		if n.Format != "" { // if it is checked, validation accepts a list, which is an error in CEL
			there = kind(logic.String)
		}
		if p := readable[n.Format]; p != "" {
			there = leafCond(at, logic.And{logic.Kinds(logic.String), logic.Pattern{Expr: p}})
		}
		return out.addBranch(there, t.stringAt(r)), nil
	case "boolean":
		return out.addBranch(there, boolV{
			leafCond(at, logic.Enum{Values: []any{true}}), leafCond(at, logic.Enum{Values: []any{false}}),
		}), nil
	case "integer": // a float without fraction is valid, and an error in CEL
		return out.addBranch(kind(logic.Int), newNum(intAt{r})), nil
	case "number":
		i := newNum(intAt{r}).applyStep(numOp{toDouble, "double"}, false)
		return out.addBranch(kind(logic.Int), i).addBranch(kind(logic.Float), newNum(floatAt{r})), nil
	}
	return nil, errUnsupported
}

// stringAt is the string at a place in the type that its format gives it.
func (t *translator) stringAt(r ref) sval {
	switch typ := celTypeOfFormat(r.node); typ {
	case "":
		return strAt{ref: r, hi: -1}
	case durationType:
		d := newNum(durationIn{ref: r, t: t, formatted: true})
		d.typ = typ
		return d
	default:
		return termV{text: mark, refs: []ref{r}, typ: typ}
	}
}

// child is the value of an object at a name.
type child struct {
	present value // with guards that it exists
	absent  *cond // it does not exist: the rest is an error
}

// propertyOf looks up a property of an object, by its name in CEL, or a key of a map.
func (t *translator) propertyOf(v sval, name string) (child, error) {
	switch v := v.(type) {
	case refV:
		return t.propertyAt(v.ref, name)
	case constV:
		n := v.node
		m, ok := v.val.(map[string]any)
		if !ok {
			return child{}, errUnsupported
		}
		cn, key, err := childNode(n, name)
		if err != nil {
			return child{}, err
		}
		x, ok := m[key]
		if !ok || x == nil && !isMap(n) {
			return child{absent: yes}, nil
		}
		cv, ok, err := t.constantValue(x, cn)
		if err != nil || !ok {
			return child{absent: no}, err
		}
		return child{singleBranch(cv), no}, nil
	}
	return child{}, errUnsupported
}

// propertyAt looks up a property at a place. It is absent where the object lacks it or, for a nullable one, has null there. If it has a
// default, it is the default where the object lacks it.
func (t *translator) propertyAt(r ref, name string) (child, error) {
	cn, key, err := childNode(r.node, name)
	if err != nil {
		return child{}, err
	}
	lacks := leafCond(r.at, logic.Lacks{Name: key})
	if isMap(r.node) {
		vs, err := t.loadPlace(r.at.withStep(step{name: key}), cn)
		return child{vs, lacks}, err
	}
	vs, err := t.loadPlace(r.at.withStep(step{name: key, nullable: cn.Nullable}), cn)
	if err != nil {
		return child{}, err
	}
	null := no
	if cn.Nullable {
		null = nullAt(r.at, key)
	}
	// Without a default the property is absent where the object lacks it or, if it is nullable, has null.
	if !cn.HasDefault {
		return child{vs, orConds(lacks, null)}, nil
	}
	dv, ok, err := t.constantValue(schema.WithDefaults(cn, cn.Default), t.seenAsChild(cn))
	if err != nil {
		return child{}, err
	}
	if ok {
		vs = slices.Clone(vs).addBranch(lacks, dv)
	}
	return child{vs, null}, nil
}

// constantValue converts a JSON value as upstream does (k8s.io/apiserver/pkg/cel/common, UnstructuredToVal); not ok if that is an error.
func (t *translator) constantValue(x any, n *schema.Node) (sval, bool, error) {
	n = t.seenAsChild(n)
	if x == nil {
		return nullV{}, n.Nullable, nil
	}
	whole := n.IntOrString || n.Type == "integer"
	switch x := x.(type) {
	case string:
		return t.constantText(x, n)
	case int64:
		if whole {
			return intV(x), true, nil
		}
		return dblV(x), true, unsupportedUnless(n.Type == "number")
	case float64: // CEL reads no integer that is a float
		return dblV(x), !whole, unsupportedUnless(whole || n.Type == "number")
	case bool:
		if n.Type == "boolean" {
			return boolConst(x), true, nil
		}
	case []any:
		if n.Type == "array" && n.Items != nil {
			return constV{x, n}, true, nil
		}
	case map[string]any:
		if n.Type == "object" {
			return constV{x, n}, true, nil
		}
	}
	return nil, false, errUnsupported
}

// constantText converts a string, which the format may give another type.
func (t *translator) constantText(x string, n *schema.Node) (sval, bool, error) {
	if n.IntOrString || n.Type == "string" && celTypeOfFormat(n) == "" {
		return strV(x), true, nil
	}
	typ := celTypeOfFormat(n)
	if typ == durationType {
		d, err := strfmt.ParseDuration(x)
		return durV(d), err == nil, nil
	}
	if p := readable[n.Format]; p != "" && !t.s.Checker.MatchPattern(p, x) {
		return nil, false, nil
	}
	if typ != "" {
		return termV{text: operatorText("const", writeConst(x), n.Format), typ: typ, partial: true}, true, nil
	}
	return nil, false, errUnsupported
}

// newTranslator binds self to the value at the place of the rule. For optionalOldSelf, it also binds oldSelf, to none.
func newTranslator(s Scope) *translator {
	t := &translator{s: s}
	n := s.Spine
	if s.Root || n.Embedded {
		n = withMeta(n)
	}
	t.nodes = []*schema.Node{n}
	t.ranges = []rangeOf{{}}
	v, err := t.loadPlace(place{}, n)
	if err == nil {
		t.top = &variable{name: self, val: v}
	}
	// On creation there is no old value, so oldSelf is an empty optional.
	if s.OptionalOldSelf {
		t.top = &variable{name: oldSelf, val: singleBranch(optV{}), scope: fixed, up: t.top}
	}
	return t
}

// selectField selects from one value; if optional is set, the result is an optional one.
func (t *translator) selectField(s sval, name string, optional bool) (value, error) {
	switch s := s.(type) {
	case nullV:
		if optional {
			return singleBranch(optV{}), nil // neither list nor map
		}
		return nil, nil
	case optV:
		if s.v == nil {
			return singleBranch(s), nil
		}
		return t.selectField(s.v, name, true)
	case mapV:
		if optional {
			return singleBranch(optV{}), nil
		}
		return nil, nil
	case refV, constV:
		c, err := t.propertyOf(s, name)
		if err != nil {
			return nil, err
		}
		if !optional {
			return c.present, nil
		}
		out := make(value, 0, len(c.present)+1)
		for _, b := range c.present {
			out = out.addBranch(b.g, optV{b.v})
		}
		return out.addBranch(c.absent, optV{}), nil
	}
	return nil, errUnsupported
}

// whenPresent says when the child is present, with any value.
func (c child) whenPresent() *cond {
	parts := make([]*cond, len(c.present))
	for i, b := range c.present {
		parts[i] = b.g
	}
	return orConds(parts...)
}
