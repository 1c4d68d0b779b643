package feature

import (
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/schema"
)

// fate is what becomes of a rule when a field is gone.
type fate uint8

const (
	apart    fate = iota // the rule does not speak of the field
	holds                // it holds without the field
	open                 // it may hold or not
	violated             // it cannot hold without the field
)

// checkLoss refuses parts whose loss would break what the schema demands elsewhere. Nothing is lost by a warning, and a
// refused value can be another one.
func (d *definer) checkLoss(f *Feature, t *Target, root *schema.Node, where string) {
	drop := f.Spec.WhenDisabled == v1alpha1.Drop
	whole := t.Values == nil && t.Pattern == nil && t.Match == nil
	if f.Spec.WhenDisabled == v1alpha1.Warn || !drop && !whole {
		return
	}
	broken := func(at Path, format string, args ...any) {
		place := "the object"
		if len(at) > 0 {
			place = at.String()
		}
		d.err(CodeBreaksRule, f.Spec.Gate, where+".field", "version %s: without %s, %s "+format, append([]any{t.Version, t.Path, place}, args...)...)
	}
	n := root
	for i := range len(t.Path) {
		if i > 0 {
			_, n, _ = resolvePath(root, t.Path[:i])
		}
		if n == nil {
			return
		}
		rest := t.Path[i:]
		for _, r := range n.Rules {
			switch what := ruleWithout(r.Rule, rest); {
			case what == violated:
				broken(t.Path[:i], "breaks the rule %q", clipText(r.Rule))
			case what == open && drop:
				broken(t.Path[:i], "may break the rule %q; it can be refused, but not dropped", clipText(r.Rule))
			}
		}
		if len(rest) > 1 {
			continue
		}
		if rest[0].Kind != Field {
			if drop && (positive(n.MinItems) || positive(n.MinProperties)) {
				broken(t.Path[:i], "may have too few entries; they can be refused, but not dropped")
			}
			continue
		}
		if drop && positive(n.MinProperties) {
			broken(t.Path[:i], "may have too few fields; it can be refused, but not dropped")
		}
		switch what := junctorsWithout(n, rest[0].Name, 0); {
		case what == violated:
			broken(t.Path[:i], "is not valid, by its allOf, anyOf or oneOf")
		case what == open && drop:
			broken(t.Path[:i], "may not be valid, by its anyOf or oneOf; it can be refused, but not dropped")
		}
	}
}

func positive(n *int64) bool { return n != nil && *n > 0 }

// junctorsWithout says what becomes of the junctors of an object that has lost a field.
func junctorsWithout(n *schema.Node, name string, depth int) fate {
	out := apart
	if depth > maxSteps {
		return out
	}
	branch := func(b *schema.Node) fate {
		if b.IsRequired(name) {
			return violated
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
		fates := make([]fate, len(list))
		for i, b := range list {
			fates[i] = branch(b)
		}
		switch least, most := slices.Min(fates), slices.Max(fates); {
		case least == violated:
			out = violated
		case most >= open:
			out = max(out, open)
		}
	}
	return out
}

// ruleWithout says what becomes of a validation rule of an object when what the path leads to from there is gone. It looks
// at has(), &&, ||, !, ?: and the macros that go through lists and maps; whatever else depends on the field is open. A
// rule that cannot be parsed stands in no CRD, and a transition rule is about old objects as much as about new ones: they
// are apart.
func ruleWithout(rule string, path Path) fate {
	if len(rule) > 50_000 {
		return apart
	}
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.EnableOptionalSyntax(true), parser.MaxRecursionDepth(250))
	if err != nil {
		return apart
	}
	parsed, issues := p.Parse(common.NewTextSource(rule))
	if len(issues.GetErrors()) > 0 {
		return apart
	}
	e := &losing{path: path, vars: map[string]int{"self": 0}}
	return e.conjuncts(parsed.Expr())
}

// losing evaluates a rule without the field at path.
type losing struct {
	path Path
	// vars says of variables at which step of the path they stand.
	vars map[string]int
	left int // how many expressions have been looked at
}

// conjuncts takes each part of a conjunction by itself, all() of a list among them: one that does not speak of the field is
// as it was.
func (e *losing) conjuncts(x ast.Expr) fate {
	if x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.LogicalAnd {
		args := x.AsCall().Args()
		return max(e.conjuncts(args[0]), e.conjuncts(args[1]))
	}
	if x.Kind() == ast.ComprehensionKind {
		return e.comprehension(x.AsComprehension(), e.conjuncts)
	}
	return e.eval(x)
}

// at returns the step of the path at which an expression stands: how many steps lead there. It is -1 for what is not on
// the path.
func (e *losing) at(x ast.Expr) int {
	switch x.Kind() { //nolint:exhaustive // the others lead nowhere
	case ast.IdentKind:
		if n, ok := e.vars[x.AsIdent()]; ok {
			return n
		}
	case ast.SelectKind:
		s := x.AsSelect()
		return e.step(e.at(s.Operand()), s.FieldName())
	case ast.CallKind:
		c := x.AsCall()
		if args := c.Args(); c.FunctionName() == operators.Index && args[1].Kind() == ast.LiteralKind {
			if name, ok := args[1].AsLiteral().(types.String); ok {
				return e.step(e.at(args[0]), string(name))
			}
		}
	}
	return -1
}

func (e *losing) step(n int, name string) int {
	// The API server writes names that are no identifiers in CEL with underscores around (k8s.io/apiserver/pkg/cel, Escape).
	if n < 0 || n >= len(e.path) || e.path[n].Kind != Field || e.path[n].Name != name {
		return -1
	}
	return n + 1
}

// eval says what becomes of an expression that is to be true. An error, which the loss of a field is where it is read,
// violates the rule.
func (e *losing) eval(x ast.Expr) fate {
	if e.left++; e.left > 10_000 {
		return open
	}
	switch x.Kind() { //nolint:exhaustive // the others are lists and the like, whose parts are looked at below
	case ast.LiteralKind, ast.IdentKind:
		return apart
	case ast.SelectKind:
		s := x.AsSelect()
		if n := e.at(x); n == len(e.path) {
			return violated
		}
		return e.eval(s.Operand())
	case ast.CallKind:
		return e.call(x.AsCall(), e.at(x))
	case ast.ComprehensionKind:
		return e.comprehension(x.AsComprehension(), e.eval)
	}
	out := apart
	for _, part := range parts(x) {
		if e.eval(part) != apart {
			out = open
		}
	}
	return out
}

func (e *losing) call(c ast.CallExpr, at int) fate {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		a, b := e.eval(args[0]), e.eval(args[1])
		if a == holds && b == holds || a == violated || b == violated {
			return max(a, b)
		}
		return either(a, b)
	case operators.LogicalOr:
		a, b := e.eval(args[0]), e.eval(args[1])
		switch {
		case a == holds || b == holds:
			return holds
		case a == violated && b == violated:
			return violated
		}
		return either(a, b)
	case operators.LogicalNot:
		return e.not(args[0])
	case operators.Conditional:
		switch e.eval(args[0]) {
		case holds:
			return e.eval(args[1])
		case violated:
			if e.not(args[0]) == violated { // an error, not false
				return violated
			}
			return e.eval(args[2])
		case apart, open:
		}
		return either(either(e.eval(args[0]), e.eval(args[1])), e.eval(args[2]))
	}
	if at == len(e.path) {
		return violated
	}
	out := apart
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	for _, a := range args {
		switch e.eval(a) {
		case violated:
			if !isHas(a) {
				return violated // reading what is gone is an error, whatever is done with it
			}
			out = open
		case holds, open:
			out = open
		case apart:
		}
	}
	return out
}

// either joins what is neither clearly one nor the other.
func either(a, b fate) fate {
	if a == apart && b == apart {
		return apart
	}
	return open
}

func isHas(x ast.Expr) bool { return x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly() }

// not says what becomes of an expression that is to be false. A test for the field is; reading it is an error either way.
func (e *losing) not(x ast.Expr) fate {
	switch {
	case isHas(x):
		if e.at(x) == len(e.path) {
			return holds
		}
		return e.eval(x.AsSelect().Operand())
	case x.Kind() == ast.CallKind:
		c := x.AsCall()
		args := c.Args()
		switch c.FunctionName() {
		case operators.LogicalNot:
			return e.eval(args[0])
		case operators.LogicalAnd:
			a, b := e.not(args[0]), e.not(args[1])
			switch {
			case a == holds || b == holds:
				return holds
			case a == violated && b == violated:
				return violated
			}
			return either(a, b)
		case operators.LogicalOr:
			a, b := e.not(args[0]), e.not(args[1])
			if a == holds && b == holds || a == violated || b == violated {
				return max(a, b)
			}
			return either(a, b)
		}
		return e.call(c, e.at(x))
	}
	return e.eval(x)
}

// comprehension goes through a list or map that may be on the path: what one item of it makes of the result, the others
// being as they were. Only all() is told more of than that it depends: what becomes of its predicate is up to judge.
func (e *losing) comprehension(c ast.ComprehensionExpr, judge func(ast.Expr) fate) fate {
	n := e.at(c.IterRange())
	out := e.eval(c.IterRange())
	if n < 0 || n >= len(e.path) || e.path[n].Kind == Field {
		if e.eval(c.LoopStep()) != apart || out != apart {
			return either(open, out)
		}
		return apart
	}
	name := c.IterVar()
	if c.HasIterVar2() {
		name = c.IterVar2()
	}
	before, had := e.vars[name]
	e.vars[name] = n + 1
	if e.path[n].Kind == Entries && !c.HasIterVar2() {
		delete(e.vars, name) // the variable is the key
	}
	predicate := allOf(c)
	isAll := predicate != nil
	if !isAll {
		predicate, judge = c.LoopStep(), e.eval
	}
	step := judge(predicate)
	delete(e.vars, name)
	if had {
		e.vars[name] = before
	}
	if isAll || step == apart {
		return max(step, out)
	}
	return open
}

// allOf returns the predicate of an all(), which expands to a loop from true over the result so far and the predicate; nil
// for other macros.
func allOf(c ast.ComprehensionExpr) ast.Expr {
	init, step := c.AccuInit(), c.LoopStep()
	if init.Kind() != ast.LiteralKind || init.AsLiteral() != types.True || step.Kind() != ast.CallKind {
		return nil
	}
	if call := step.AsCall(); call.FunctionName() == operators.LogicalAnd && len(call.Args()) == 2 {
		return call.Args()[1]
	}
	return nil
}

func parts(x ast.Expr) []ast.Expr {
	switch x.Kind() { //nolint:exhaustive // the others are looked at by eval
	case ast.ListKind:
		return x.AsList().Elements()
	case ast.MapKind:
		var out []ast.Expr
		for _, m := range x.AsMap().Entries() {
			out = append(out, m.AsMapEntry().Key(), m.AsMapEntry().Value())
		}
		return out
	case ast.StructKind:
		var out []ast.Expr
		for _, f := range x.AsStruct().Fields() {
			out = append(out, f.AsStructField().Value())
		}
		return out
	}
	return nil
}
