package celrule

// What does a rule see of a value? For example, it sees the default of a missing property, and a string of the format duration as a
// duration.

import (
	"slices"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// Scope is the place of a rule.
type Scope struct {
	// Spine is the structural node with the rule. For a rule inside allOf it is the node outside, whose types count.
	Spine *schema.Node
	// Root says that the node is the root of a custom resource or of an embedded one: there only apiVersion, kind and
	// metadata with name and generateName are visible besides what the schema declares.
	Root bool
	// OptionalOldSelf says that the rule has optionalOldSelf: true. Then the translation is for a creation, with oldSelf as
	// optional.none().
	OptionalOldSelf bool
	// Checker decides patterns for values that come from defaults.
	Checker logic.Checker
	// Work is charged for the translation. Once it is spent, the rest becomes opaque.
	Work *logic.Work
}

// isMap reports whether an object node is a map: has additionalProperties with a schema, and no properties.
func isMap(n *schema.Node) bool {
	return n.Type == "object" && len(n.Properties) == 0 && n.Additional != nil && !n.Embedded
}

// celTypeOfFormat returns the format that gives a string another type in CEL, or nothing
// (k8s.io/apiserver/pkg/cel/common, SchemaDeclType).
func celTypeOfFormat(n *schema.Node) string {
	if n.Type == "string" && !n.IntOrString {
		switch n.Format {
		case "byte":
			return "bytes"
		case "duration":
			return durationType
		case "date", "date-time":
			return "google.protobuf.Timestamp"
		}
	}
	return ""
}

// TimeText matches the strings of the format date-time that CEL can read: validation ignores case, accepts any character before a
// fraction and any two digits in an offset, and ignores the text after a second t (IsDateTime and ParseDateTime in
// k8s.io/kube-openapi/pkg/validation/strfmt).
const TimeText = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-4]):([0-5][0-9]|60))$`

// readable has a pattern of the strings that CEL can read, for each format that gives strings another type and for which validation
// accepts more. Any other string is an error if a rule uses it. For byte, validation accepts the alphabet with + and /, and CEL reads
// the one with - and _ (UnmarshalText of Base64 there).
var readable = map[string]string{"date-time": TimeText, "byte": `^[^+/]*$`}

// withMeta returns the node as CEL sees the root of a resource: with apiVersion, kind and the two visible fields of
// metadata (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model, WithTypeAndObjectMeta).
func withMeta(n *schema.Node) *schema.Node {
	str := func(c *schema.Node) bool { return c != nil && c.Type == "string" }
	meta := n.Property("metadata")
	if str(n.Property("kind")) && str(n.Property("apiVersion")) && meta != nil && meta.Type == "object" &&
		str(meta.Property("name")) && str(meta.Property("generateName")) {
		return n
	}
	// Whatever the schema says of these fields, CEL has these types. What it fills in counts.
	known := func(declared *schema.Node, typeName string) *schema.Node {
		out := &schema.Node{Type: typeName}
		if declared != nil {
			out.Default, out.HasDefault = declared.Default, declared.HasDefault
		}
		return out
	}
	seenMeta := known(meta, "object")
	for _, name := range []string{"generateName", "name"} {
		seenMeta.Properties = append(seenMeta.Properties, schema.Property{Name: name, Node: known(meta.Property(name), "string")})
	}
	out := &schema.Node{
		Type: n.Type, Nullable: n.Nullable, PreserveUnknown: n.PreserveUnknown, Embedded: n.Embedded,
		Default: n.Default, HasDefault: n.HasDefault, Additional: n.Additional, AdditionalBool: n.AdditionalBool,
		MapType: n.MapType,
		Properties: []schema.Property{
			{Name: "apiVersion", Node: known(n.Property("apiVersion"), "string")},
			{Name: "kind", Node: known(n.Property("kind"), "string")},
			{Name: "metadata", Node: seenMeta},
		},
	}
	for _, p := range n.Properties {
		if p.Name != "apiVersion" && p.Name != "kind" && p.Name != "metadata" {
			out.Properties = append(out.Properties, p)
		}
	}
	slices.SortFunc(out.Properties, func(a, b schema.Property) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// seenAsChild returns the node as CEL sees it as a child.
func (t *translator) seenAsChild(n *schema.Node) *schema.Node {
	if n == nil || !n.Embedded {
		return n
	}
	m := t.metas[n]
	if m == nil {
		m = withMeta(n)
		if t.metas == nil {
			t.metas = map[*schema.Node]*schema.Node{}
		}
		t.metas[n] = m
	}
	return m
}

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
	if n.Nullable && at.mayHoldNull() {
		out = out.addBranch(kind(logic.Null), nullV{})
	}
	there := leafCond(at, logic.True)
	if out != nil {
		there = kind(logic.NonNull)
	}
	if n.IntOrString {
		s := strAt{ref: r, hi: -1, dyn: true}
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

// childNode returns the schema of a child and its name in JSON.
func childNode(n *schema.Node, name string) (*schema.Node, string, error) {
	if n.Type != "object" {
		return nil, "", errUnsupported
	}
	if isMap(n) {
		return n.Additional, name, nil
	}
	if n.Additional != nil { // with properties as well: upstream's views of it contradict each other
		return nil, "", errUnsupported
	}
	key, ok := apiservercel.Unescape(name)
	if !ok {
		return nil, "", errUnsupported
	}
	c := n.Property(key)
	if c == nil {
		return nil, "", errUnsupported
	}
	return c, key, nil
}

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

func boolConst(b bool) boolV {
	if b {
		return boolV{yes, no}
	}
	return boolV{no, yes}
}
