package certify

import (
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// seesSame reports whether CEL sees the same in all of a value that o accepts and n does not prune.
func seesSame(o, n *node, keeps bool) bool {
	if o == nil || n == nil {
		return o == n
	}
	if !sameKind(o, n) {
		return false
	}
	keeps = keeps || deref(n.XPreserveUnknownFields)
	return seesSameFields(o, n, keeps) && seesSame(o.item, n.item, keeps) && seesSame(o.extra, n.extra, false) &&
		sameForNull(o.item, n.item) && sameForNull(o.extra, n.extra)
}

// seesSameFields is seesSame for the declared fields of an object.
func seesSameFields(o, n *node, keeps bool) bool {
	before, after := o.inCEL(), n.inCEL()
	for name, a := range before {
		b := after[name]
		switch {
		case b == nil && !keeps && n.AdditionalProperties == nil: // it is pruned
		case b == nil || !sameDefault(a, b) && !alwaysWritten(o, name) || !seesSame(a, b, false):
			return false
		}
	}
	for name, b := range after {
		if before[name] == nil && (hasDefault(b) || keeps || o.AdditionalProperties != nil) {
			return false
		}
	}
	return true
}

// inCEL are the fields that CEL knows. An embedded resource has those of every object, whatever its schema says of them
// (WithTypeAndObjectMeta in k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model).
func (n *node) inCEL() map[string]*node {
	if !n.XEmbeddedResource {
		return n.kids
	}
	out := maps.Clone(n.kids)
	known := func(declared *node, typeName string) *node {
		k := &node{props: props{Type: typeName}, kids: map[string]*node{}}
		if declared != nil {
			k.def = declared.def
		}
		return k
	}
	out["apiVersion"], out["kind"] = known(n.kids["apiVersion"], "string"), known(n.kids["kind"], "string")
	declared, meta := n.kids["metadata"], known(n.kids["metadata"], "object")
	for _, name := range []string{"name", "generateName"} {
		var of *node
		if declared != nil {
			of = declared.kids[name]
		}
		meta.kids[name] = known(of, "string")
	}
	out["metadata"] = meta
	return out
}

// alwaysWritten reports whether every object that o accepts has the field before defaults are filled in.
func alwaysWritten(o *node, name string) bool {
	return slices.Contains(o.Required, name) && o.kids[name] != nil && !hasDefault(o.kids[name])
}

// sameKind reports whether CEL takes values of both for the same type. A null that n alone allows is in no value of o.
func sameKind(o, n *node) bool {
	nullable := func(s *node) bool { return s.Nullable && (!n.Nullable || o.Nullable || o.Type == "") }
	kind := func(s *node) []any {
		return []any{
			s.Type, seenFormat(s), s.XIntOrString, s.XEmbeddedResource, deref(s.XPreserveUnknownFields), deref(s.XListType) == "set", deref(s.XListType) == "map",
			s.extra != nil, s.extra == nil && s.AdditionalProperties != nil, nullable(s),
		}
	}
	return reflect.DeepEqual(kind(o), kind(n)) && slices.Equal(o.XListMapKeys, n.XListMapKeys)
}

// seenFormat is the format of a string that has another type in CEL (k8s.io/apiserver/pkg/cel/common, SchemaDeclType).
func seenFormat(s *node) string {
	if s.Type == "string" && slices.Contains([]string{"byte", "duration", "date", "date-time"}, s.Format) {
		return s.Format
	}
	return ""
}

// sameForNull reports whether the same defaults replace items or values of keys. Such a default only replaces null, and if o refuses
// null, there is none.
func sameForNull(o, n *node) bool {
	return o == nil || !o.Nullable && (o.Type != "" || o.XIntOrString) || sameDefault(o, n)
}

// look says which parts of a value a rule reads: whether it exists and its type, its fields, items and values of keys, or all of it.
type look struct {
	all  bool
	kids map[string]*look
	each *look // items, or values of keys
}

func (l *look) kid(name string) *look {
	if l.kids[name] == nil {
		if l.kids == nil {
			l.kids = map[string]*look{}
		}
		l.kids[name] = &look{}
	}
	return l.kids[name]
}

func (l *look) any() *look {
	if l.each == nil {
		l.each = &look{}
	}
	return l.each
}

// sameIn reports whether all the parts are the same in a value that o accepts and n does not prune.
func (l *look) sameIn(o, n *node, keeps bool) bool {
	switch {
	case l == nil || o == nil && n == nil:
		return true
	case o == nil || n == nil || !sameKind(o, n):
		return false
	case l.all:
		return seesSame(o, n, keeps)
	}
	before, after := o.inCEL(), n.inCEL()
	for name, below := range l.kids {
		a, b := before[name], after[name]
		if a == nil && b == nil { // a key, if anything
			a, b = o.extra, n.extra
		} else if !sameDefault(a, b) && !alwaysWritten(o, name) {
			return false
		}
		if !below.sameIn(a, b, false) {
			return false
		}
	}
	return l.each == nil || l.each.sameIn(o.item, n.item, keeps || deref(n.XPreserveUnknownFields)) && l.each.sameIn(o.extra, n.extra, false) &&
		sameForNull(o.item, n.item) && sameForNull(o.extra, n.extra)
}

// lookedAt reads a rule. A part that it does not understand counts as reading everything.
func lookedAt(rule string) *look {
	root := &look{}
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true)) // without macros: they are calls
	if err != nil {
		return &look{all: true}
	}
	tree, errs := p.Parse(common.NewTextSource(rule))
	if len(errs.GetErrors()) > 0 {
		return &look{all: true}
	}
	used(reads(tree.Expr(), map[string][]*look{"self": {root}, "oldSelf": {root}}))
	return root
}

// used marks the values as used as a whole.
func used(values []*look) {
	for _, v := range values {
		v.all = true
	}
}

// each are the items, or values of keys, of the values.
func each(values []*look) (out []*look) {
	for _, v := range values {
		out = append(out, v.any())
	}
	return out
}

func field(values []*look, name string) (out []*look) {
	if plain, ok := apiservercel.Unescape(name); ok {
		name = plain
	}
	for _, v := range values {
		out = append(out, v.kid(name))
	}
	return out
}

// reads marks the parts that an expression reads, and returns the parts of self and oldSelf that its value may be.
func reads(e ast.Expr, vars map[string][]*look) []*look {
	switch e.Kind() {
	case ast.IdentKind:
		return vars[e.AsIdent()]
	case ast.SelectKind:
		return field(reads(e.AsSelect().Operand(), vars), e.AsSelect().FieldName())
	case ast.CallKind:
		return call(e.AsCall(), vars)
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			used(reads(x, vars))
		}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			used(reads(x.AsMapEntry().Key(), vars))
			used(reads(x.AsMapEntry().Value(), vars))
		}
	case ast.LiteralKind, ast.UnspecifiedExprKind:
	case ast.StructKind, ast.ComprehensionKind: // rules construct no objects, and macros are parsed as calls
		for _, values := range vars {
			used(values)
		}
	}
	return nil
}

// passing are functions whose value is one of theirs.
var passing = []string{"value", "or", "orValue", "of", "ofNonZeroValue"}

func call(c ast.CallExpr, vars map[string][]*look) []*look {
	args, target := c.Args(), []*look(nil)
	if c.IsMemberFunction() {
		target = reads(c.Target(), vars)
	}
	switch name := c.FunctionName(); {
	case name == "has" && len(args) == 1:
		reads(args[0], vars)
		return nil
	case name == "size" || name == "hasValue": // the target was looked at
		readAll(args, vars)
		return nil
	case name == "_?._" && len(args) == 2 && args[1].Kind() == ast.LiteralKind:
		text, _ := args[1].AsLiteral().(types.String)
		return field(reads(args[0], vars), string(text))
	case (name == "_[_]" || name == "_[?_]") && len(args) == 2:
		return index(args, vars)
	case name == "_?_:_" && len(args) == 3:
		used(reads(args[0], vars))
		return append(slices.Clip(reads(args[1], vars)), reads(args[2], vars)...)
	case slices.Contains(passing, name):
		return append(slices.Clip(target), readAll(args, vars)...)
	case slices.Contains(macros, name) && len(args) > 1 && args[0].Kind() == ast.IdentKind:
		return macro(name, target, args, vars)
	}
	used(target)
	used(readAll(args, vars))
	return nil
}

func readAll(args []ast.Expr, vars map[string][]*look) (out []*look) {
	for _, a := range args {
		out = append(out, reads(a, vars)...)
	}
	return out
}

func index(args []ast.Expr, vars map[string][]*look) []*look {
	reads(args[1], vars) // a number or text
	of := reads(args[0], vars)
	if text, ok := args[1].AsLiteral().(types.String); ok {
		return append(each(of), field(of, string(text))...)
	}
	return each(of)
}

// macros are calls whose first arguments name what the last ones speak of.
var macros = []string{"all", "exists", "exists_one", "existsOne", "map", "filter", "optMap", "optFlatMap", "transformList", "transformMap", "transformMapEntry", "sortBy"}

// macro marks the parts that a comprehension reads.
func macro(name string, over []*look, args []ast.Expr, vars map[string][]*look) []*look {
	inner, of := maps.Clone(vars), over
	if name != "optMap" && name != "optFlatMap" {
		of = each(over)
	}
	for i, a := range args[:len(args)-1] {
		if a.Kind() != ast.IdentKind {
			break
		}
		inner[a.AsIdent()] = of
		if i > 0 { // it may be no name, but a value
			inner[a.AsIdent()] = append(slices.Clip(of), vars[a.AsIdent()]...)
		}
	}
	for _, a := range args[1:] {
		used(reads(a, inner))
	}
	if name == "filter" || name == "sortBy" {
		return over
	}
	return nil
}
