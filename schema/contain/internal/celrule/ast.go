package celrule

// What does a rule consist of? The parser of cel-go gives a tree; this file copies it into expressions that can be rewritten. For example,
// has(self.a) is the call has with the selection self.a as its argument.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// exprKind says what an expression is.
type exprKind uint8

const (
	literal exprKind = iota // val
	ident                   // name
	sel                     // args[0].name
	call                    // name(args...), or args[0].name(args[1:]...) where member
	list                    // [args...]
	mapping                 // {args[0]: args[1], ...}
)

// expr is a parsed expression, immutable. Macros are calls: has(a.b) is the call has with one sel as argument,
// a.all(x, p) is the member call all with a, x and p. Operators are calls with the names of
// github.com/google/cel-go/common/operators.
type expr struct {
	kind   exprKind
	name   string
	member bool
	args   []*expr
	val    any // of a literal: nil, bool, int64, uint64, float64, string or []byte
	// optional says which elements of a list or which keys of a mapping are marked with a question mark.
	optional []bool
	src      ast.Expr // the source expression; nil if the translation made the expression
}

var errTooMany = errors.New("expression has too many parts")

type converter struct{ nodes int }

// convertExpr copies the tree of the parser.
func (c *converter) convertExpr(e ast.Expr) (*expr, error) {
	if c.nodes++; c.nodes > maxNodes {
		return nil, errTooMany
	}
	x, err := c.convertKind(e)
	if err == nil {
		x.src = e
	}
	return x, err
}

// convertKind copies an expression of one kind. Comprehensions cannot occur, because the parser expands no macros,
// and messages have no type in a CRD: both are an error, so that the rule is opaque.
func (c *converter) convertKind(e ast.Expr) (*expr, error) {
	switch e.Kind() {
	case ast.LiteralKind:
		return convertLiteral(e)
	case ast.IdentKind:
		return &expr{kind: ident, name: e.AsIdent()}, nil
	case ast.SelectKind:
		s := e.AsSelect()
		op, err := c.convertExpr(s.Operand())
		if err != nil {
			return nil, err
		}
		return &expr{kind: sel, name: s.FieldName(), args: []*expr{op}}, nil
	case ast.CallKind:
		return c.convertCall(e.AsCall())
	case ast.ListKind:
		return c.convertList(e.AsList())
	case ast.MapKind:
		return c.convertMap(e.AsMap())
	case ast.UnspecifiedExprKind, ast.ComprehensionKind: // the parser makes none if macros are off
	case ast.StructKind: // name{...}: no type of a CRD has a name
	}
	return nil, fmt.Errorf("expression of an unknown kind %d", e.Kind())
}

// convertList copies a list. Which elements are optional, as in [?a], is noted only if some are.
func (c *converter) convertList(l ast.ListExpr) (*expr, error) {
	args, err := c.convertAll(l.Elements())
	if err != nil {
		return nil, err
	}
	out := &expr{kind: list, args: args}
	for _, i := range l.OptionalIndices() {
		if out.optional == nil {
			out.optional = make([]bool, len(args))
		}
		if int(i) < len(args) {
			out.optional[i] = true
		}
	}
	return out, nil
}

// convertMap copies a map: the key and the value of each entry in turn, and for each entry whether it is optional.
func (c *converter) convertMap(m ast.MapExpr) (*expr, error) {
	out := &expr{kind: mapping}
	for _, en := range m.Entries() {
		me := en.AsMapEntry()
		kv, err := c.convertAll([]ast.Expr{me.Key(), me.Value()})
		if err != nil {
			return nil, err
		}
		out.args = append(out.args, kv...)
		out.optional = append(out.optional, me.IsOptional())
	}
	return out, nil
}

// convertAll copies several expressions in their order.
func (c *converter) convertAll(es []ast.Expr) ([]*expr, error) {
	out := make([]*expr, len(es))
	for i, e := range es {
		x, err := c.convertExpr(e)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

// convertCall copies a call. The target of a member call becomes the first argument, so that a.f(b) and f(a, b)
// differ in one flag only.
func (c *converter) convertCall(f ast.CallExpr) (*expr, error) {
	out := &expr{kind: call, name: f.FunctionName(), member: f.IsMemberFunction()}
	es := f.Args()
	if out.member {
		es = append([]ast.Expr{f.Target()}, es...)
	}
	args, err := c.convertAll(es)
	if err != nil {
		return nil, err
	}
	out.args = args
	return withoutSets(out), nil
}

// maxSetItems bounds the constants of a set that become comparisons.
const maxSetItems = 32

// withoutSets writes sets.contains and sets.intersects with a list of constants by the operator in: sets.contains(self.l, ['a', 'b']) is
// 'a' in self.l && 'b' in self.l (github.com/google/cel-go/ext, sets.go). Other calls stay as they are.
func withoutSets(e *expr) *expr {
	if !e.member || len(e.args) != 3 || e.args[0].kind != ident || e.args[0].name != "sets" || e.name != "contains" && e.name != "intersects" {
		return e
	}
	of, consts := e.args[1], e.args[2]
	if e.name == "intersects" && !consts.isConstList() {
		of, consts = consts, of
	}
	switch {
	case consts.isConstList():
	case of.isConstList() && e.name == "contains":
		x := &expr{kind: ident, name: "x"}
		return &expr{kind: call, name: "all", member: true, args: []*expr{consts, x, {kind: call, name: operators.In, args: []*expr{x, of}}}}
	default:
		return e
	}
	parts := make([]*expr, len(consts.args))
	for i, c := range consts.args {
		parts[i] = &expr{kind: call, name: operators.In, args: []*expr{c, of}}
	}
	if e.name == "intersects" {
		return joinedBy(operators.LogicalOr, parts)
	}
	return joinedBy(operators.LogicalAnd, parts)
}

// joinedBy joins expressions, at least one, by an operator of two operands.
func joinedBy(op string, parts []*expr) *expr {
	out := parts[0]
	for _, e := range parts[1:] {
		out = &expr{kind: call, name: op, args: []*expr{out, e}}
	}
	return out
}

// isConstList reports whether e is a list of some literals that are all there.
func (e *expr) isConstList() bool {
	return e.kind == list && len(e.optional) == 0 && len(e.args) > 0 && len(e.args) <= maxSetItems &&
		!slices.ContainsFunc(e.args, func(a *expr) bool { return !a.isConst() })
}

// convertLiteral reads the value of a literal. An int, a uint and a double stay different types, because CEL does not
// convert them.
func convertLiteral(e ast.Expr) (*expr, error) {
	switch v := e.AsLiteral().(type) {
	case types.Null:
		return &expr{kind: literal}, nil
	case types.Bool:
		return &expr{kind: literal, val: bool(v)}, nil
	case types.Int:
		return &expr{kind: literal, val: int64(v)}, nil
	case types.Uint:
		return &expr{kind: literal, val: uint64(v)}, nil
	case types.Double:
		return &expr{kind: literal, val: float64(v)}, nil
	case types.String:
		return &expr{kind: literal, val: string(v)}, nil
	case types.Bytes:
		return &expr{kind: literal, val: []byte(v)}, nil
	}
	return nil, errors.New("literal of an unknown type")
}

// binders tells how many of the first arguments after the range are variables that a macro binds, 0 for other calls.
func (e *expr) binders() int {
	if e.kind != call || !e.member {
		return 0
	}
	n := len(e.args) - 1
	switch e.name {
	case "all", "exists", "exists_one", "existsOne":
		if n == 2 || n == 3 {
			return n - 1
		}
	case "filter", "optMap", "optFlatMap", "sortBy":
		if n == 2 {
			return 1
		}
	case "map":
		if n == 2 || n == 3 {
			return 1
		}
	case "transformList", "transformMap", "transformMapEntry":
		if n == 3 || n == 4 {
			return 2
		}
	}
	return 0
}

// isHas reports whether e is the macro has.
func (e *expr) isHas() bool {
	return e.kind == call && !e.member && e.name == "has" && len(e.args) == 1 && e.args[0].kind == sel
}

// walkParts calls f for every part of e, the parts before the whole.
func (e *expr) walkParts(f func(*expr)) {
	for _, a := range e.args {
		a.walkParts(f)
	}
	f(e)
}

// anyPart reports whether f is true of some part of e, or of e.
func (e *expr) anyPart(f func(*expr) bool) bool {
	return f(e) || slices.ContainsFunc(e.args, func(a *expr) bool { return a.anyPart(f) })
}

// mentionsName reports whether e uses the name, other than as a name that a macro binds.
func (e *expr) mentionsName(name string) bool {
	if e.kind == ident {
		return e.name == name || e.name == "."+name
	}
	n := e.binders()
	for i, a := range e.args {
		if (i == 0 || i > n) && a.mentionsName(name) {
			return true
		}
	}
	return false
}

// isConst reports whether e is a literal of a scalar type.
func (e *expr) isConst() bool { return e.kind == literal }

// binding says what a name that a macro binds stands for. It hides the bindings of the same name above it.
type binding[T any] struct {
	name string
	to   T
	up   *binding[T]
}

// lookUp returns what a name stands for, or false if nothing binds it.
func (b *binding[T]) lookUp(name string) (to T, ok bool) {
	for ; b != nil; b = b.up {
		if b.name == name {
			return b.to, true
		}
	}
	return to, false
}
