// Package rules finds out what happens to the validation rules of a CRD when a field that they mention is gone. It promises an
// answer for every rule, in bounded time. It does not decide what follows from the answer; package feature does. It is a package of
// its own because it needs the parser of CEL, which programs that only use features do not need.
package rules

import (
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Define is [feature.Define] with a check of validation rules: a part whose loss would break one is an error.
func Define(c *v1alpha1.Component, features []v1alpha1.Feature, o feature.Options) (*feature.Model, feature.Findings) {
	o.RuleWithout = Without
	return feature.Define(c, features, o)
}

// Without returns the fate of a validation rule of an object when the field at the path is gone. It understands has(), &&, ||, !,
// ?: and the macros for lists and maps; everything else that depends on the field is open. No CRD has a rule that cannot be parsed.
// A transition rule is about old objects as much as about new ones, and these are separate.
func Without(rule string, path feature.Path) feature.Fate {
	if len(rule) > 50_000 {
		return feature.Apart
	}
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.EnableOptionalSyntax(true), parser.MaxRecursionDepth(250))
	if err != nil {
		return feature.Apart
	}
	parsed, issues := p.Parse(common.NewTextSource(rule))
	if len(issues.GetErrors()) > 0 {
		return feature.Apart
	}
	e := &losing{rule: parsed, path: path, vars: map[string]int{"self": 0}}
	return e.fateOfConjuncts(parsed.Expr())
}

// losing evaluates a rule without the field at path.
type losing struct {
	rule *ast.AST
	path feature.Path
	// vars has the step of the path for each variable.
	vars map[string]int
	left int // the number of visited expressions
}

// fateOfConjuncts judges each part of a conjunction by itself, including all() of a list: a part that does not mention the field is
// unchanged.
func (e *losing) fateOfConjuncts(x ast.Expr) feature.Fate {
	if x.Kind() == ast.CallKind && x.AsCall().FunctionName() == operators.LogicalAnd {
		args := x.AsCall().Args()
		return max(e.fateOfConjuncts(args[0]), e.fateOfConjuncts(args[1]))
	}
	if x.Kind() == ast.ComprehensionKind {
		return e.fateOfMacro(x.AsComprehension(), e.fateOfConjuncts)
	}
	return e.mustBeTrue(x)
}

// stepOf returns the step of the path that an expression stands for: the number of steps that lead there, or -1 if it is not on the path.
func (e *losing) stepOf(x ast.Expr) int {
	switch x.Kind() { //nolint:exhaustive // the others lead nowhere
	case ast.IdentKind:
		if n, ok := e.vars[x.AsIdent()]; ok {
			return n
		}
	case ast.SelectKind:
		s := x.AsSelect()
		return e.nextStep(e.stepOf(s.Operand()), s.FieldName())
	case ast.CallKind:
		c := x.AsCall()
		if args := c.Args(); c.FunctionName() == operators.Index && args[1].Kind() == ast.LiteralKind {
			if name, ok := args[1].AsLiteral().(types.String); ok {
				return e.nextStep(e.stepOf(args[0]), string(name))
			}
		}
	}
	return -1
}

// nextStep is the step behind step n if a field of that name leads on along the path, -1 otherwise.
func (e *losing) nextStep(n int, name string) int {
	// The API server writes names that are no identifiers in CEL with underscores around (k8s.io/apiserver/pkg/cel, Escape).
	if n < 0 || n >= len(e.path) || e.path[n].Kind != feature.Field || e.path[n].Name != name {
		return -1
	}
	return n + 1
}

// fateOf returns the fate of an expression that must be true, or false. Reading a lost field is an error, which violates the rule; a test for the
// field is false.
func (e *losing) fateOf(x ast.Expr, want bool) feature.Fate {
	if e.left++; e.left > 10_000 {
		return feature.Open
	}
	switch x.Kind() { //nolint:exhaustive // the others are lists and the like, whose parts are looked at below
	case ast.LiteralKind, ast.IdentKind:
		return feature.Apart
	case ast.SelectKind:
		switch {
		case e.stepOf(x) != len(e.path):
			return e.mustBeTrue(x.AsSelect().Operand())
		case isHas(x) && !want:
			return feature.Holds
		}
		return feature.Violated
	case ast.CallKind:
		return e.fateOfCall(x.AsCall(), e.stepOf(x), want)
	case ast.ComprehensionKind:
		return e.fateOfMacro(x.AsComprehension(), e.mustBeTrue)
	}
	out := feature.Apart
	for _, part := range ast.NavigateExpr(e.rule, x).Children() {
		if e.mustBeTrue(part) != feature.Apart {
			out = feature.Open
		}
	}
	return out
}

func (e *losing) mustBeTrue(x ast.Expr) feature.Fate { return e.fateOf(x, true) }

// fateOfCall is [losing.fateOf] for a call. at is the step of the path that the call itself stands for, which
// it does as an index such as self['f'].
func (e *losing) fateOfCall(c ast.CallExpr, at int, want bool) feature.Fate {
	args := c.Args()
	switch name := c.FunctionName(); name {
	case operators.LogicalAnd, operators.LogicalOr:
		a, b := e.fateOf(args[0], want), e.fateOf(args[1], want)
		// Of a disjunction that must be true, and of a conjunction that must be false, one is enough.
		enough, both := feature.Violated, feature.Holds
		if (name == operators.LogicalOr) == want {
			enough, both = both, enough
		}
		switch {
		case a == enough || b == enough:
			return enough
		case a == both && b == both:
			return both
		}
		return joinFates(a, b)
	case operators.LogicalNot:
		return e.fateOf(args[0], !want)
	case operators.Conditional:
		return e.fateOfConditional(args[0], args[1], args[2])
	}
	if at == len(e.path) {
		return feature.Violated
	}
	out := feature.Apart
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	for _, a := range args {
		switch e.mustBeTrue(a) {
		case feature.Violated:
			if !isHas(a) {
				return feature.Violated // reading a lost field is an error in any case
			}
			out = feature.Open
		case feature.Holds, feature.Open:
			out = feature.Open
		case feature.Apart:
		}
	}
	return out
}

// fateOfConditional judges c ? yes : no, which has to be true. If the loss decides the condition, one branch
// alone counts.
func (e *losing) fateOfConditional(c, yes, no ast.Expr) feature.Fate {
	switch e.mustBeTrue(c) {
	case feature.Holds:
		return e.mustBeTrue(yes)
	case feature.Violated:
		if e.fateOf(c, false) == feature.Violated { // an error, not false
			return feature.Violated
		}
		return e.mustBeTrue(no)
	case feature.Apart, feature.Open:
	}
	return joinFates(joinFates(e.mustBeTrue(c), e.mustBeTrue(yes)), e.mustBeTrue(no))
}

// joinFates joins what is neither clearly one nor the other.
func joinFates(a, b feature.Fate) feature.Fate {
	if a == feature.Apart && b == feature.Apart {
		return feature.Apart
	}
	return feature.Open
}

func isHas(x ast.Expr) bool { return x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly() }

// fateOfMacro judges a macro over a list or map that may be on the path: the effect of one item on the result, with the others
// unchanged. Only for all() is the result more than Open: judge returns the fate of its predicate.
func (e *losing) fateOfMacro(c ast.ComprehensionExpr, judge func(ast.Expr) feature.Fate) feature.Fate {
	n := e.stepOf(c.IterRange())
	out := e.mustBeTrue(c.IterRange())
	if n < 0 || n >= len(e.path) || e.path[n].Kind == feature.Field {
		if e.mustBeTrue(c.LoopStep()) != feature.Apart || out != feature.Apart {
			return joinFates(feature.Open, out)
		}
		return feature.Apart
	}
	name := c.IterVar()
	if c.HasIterVar2() {
		name = c.IterVar2()
	}
	before, had := e.vars[name]
	e.vars[name] = n + 1
	if e.path[n].Kind == feature.Entries && !c.HasIterVar2() {
		delete(e.vars, name) // the variable is the key
	}
	predicate := allOf(c)
	isAll := predicate != nil
	if !isAll {
		predicate, judge = c.LoopStep(), e.mustBeTrue
	}
	step := judge(predicate)
	delete(e.vars, name)
	if had {
		e.vars[name] = before
	}
	if isAll || step == feature.Apart {
		return max(step, out)
	}
	return feature.Open
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
