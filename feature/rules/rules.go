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
	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Define is [feature.Define] with a check of validation rules: a part whose loss would break one is an error.
func Define(c *v1alpha1.Component, features []v1alpha1.Feature, o feature.Options) (*feature.Model, feature.Findings) {
	o.RuleWithout = Without
	return feature.Define(c, features, o)
}

// Without returns the fate of a validation rule of an object when the field at the path is gone. It understands has(), hasValue(),
// &&, ||, !, ?: and the macros for lists and maps; everything else that depends on the field is open. No CRD has a rule that cannot be
// parsed, or that is longer than the 100,000 characters that CEL's parser takes.
// A transition rule is about old objects as much as about new ones, and these are separate.
func Without(rule string, path feature.Path) feature.Fate {
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.EnableOptionalSyntax(true), parser.MaxRecursionDepth(250))
	if err != nil {
		return feature.Apart
	}
	parsed, issues := p.Parse(common.NewTextSource(rule))
	if len(issues.GetErrors()) > 0 {
		return feature.Apart
	}
	e := &losing{rule: parsed, path: path, vars: map[string]int{"self": 0}}
	return e.fateIfTrue(parsed.Expr())
}

// losing evaluates a rule without the field at path.
type losing struct {
	rule *ast.AST
	path feature.Path
	// vars has the step of the path for each variable.
	vars map[string]int
	left int // the number of visited expressions
}

// fateIfTrue is [losing.fateOf] for what was true before the loss, so that a part which does not depend on the field is still true: each part of
// a conjunction is judged by itself, and of a disjunction each part may be the one that was true.
func (e *losing) fateIfTrue(x ast.Expr) feature.Fate {
	switch x.Kind() { //nolint:exhaustive // of the others no part is true by itself
	case ast.ComprehensionKind:
		return e.fateOfMacro(x.AsComprehension(), true, e.fateIfTrue)
	case ast.CallKind:
		var parts []ast.Expr
		switch c := x.AsCall(); {
		case c.FunctionName() == operators.LogicalAnd:
			return max(e.fateIfTrue(c.Args()[0]), e.fateIfTrue(c.Args()[1]))
		case c.FunctionName() == operators.LogicalOr:
			parts = c.Args()
		case c.FunctionName() == operators.Conditional && e.mustBeTrue(c.Args()[0]) == feature.Apart:
			parts = c.Args()[1:]
		default:
			return e.mustBeTrue(x)
		}
		if fate := max(e.fateIfTrue(parts[0]), e.fateIfTrue(parts[1])); fate <= feature.Holds {
			return fate
		}
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
		// The API server writes names that are no identifiers of CEL in another form (k8s.io/apiserver/pkg/cel, Escape).
		name, ok := apiservercel.Unescape(s.FieldName())
		if !ok {
			return -1
		}
		return e.nextStep(e.stepOf(s.Operand()), name)
	case ast.CallKind:
		c := x.AsCall()
		if args := c.Args(); isLookup(c) && args[1].Kind() == ast.LiteralKind {
			if name, ok := args[1].AsLiteral().(types.String); ok {
				return e.nextStep(e.stepOf(args[0]), string(name))
			}
		}
	}
	return -1
}

// nextStep is the step behind step n if a field of that name leads on along the path, -1 otherwise.
func (e *losing) nextStep(n int, name string) int {
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
		case x.AsSelect().IsTestOnly():
			return fateOfPresence(want)
		case isOptional(x.AsSelect().Operand()):
			return feature.Open // no error, but an optional value without one
		}
		return feature.Violated
	case ast.CallKind:
		return e.fateOfCall(x.AsCall(), e.stepOf(x), want)
	case ast.ComprehensionKind:
		return e.fateOfMacro(x.AsComprehension(), want, nil)
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
		return e.fateOfConditional(args[0], args[1], args[2], want)
	}
	switch {
	case at == len(e.path) && isOptionalLookup(c):
		return feature.Open
	case at == len(e.path):
		return feature.Violated
	case c.FunctionName() == "hasValue" && c.IsMemberFunction() && e.stepOf(c.Target()) == len(e.path):
		return fateOfPresence(want)
	}
	return e.fateOfArguments(c)
}

// fateOfArguments is the fate of a call that depends on its arguments in an unknown way.
func (e *losing) fateOfArguments(c ast.CallExpr) feature.Fate {
	args := c.Args()
	out := feature.Apart
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	for _, a := range args {
		switch is := e.mustBeTrue(a); {
		case is == feature.Violated && e.fateOf(a, false) == feature.Violated: // an error
			return feature.Violated
		case is != feature.Apart, comparesWholes[c.FunctionName()] && e.holdsPath(a):
			out = feature.Open
		}
	}
	return out
}

// fateOfPresence is that of a test whether there is a value.
func fateOfPresence(want bool) feature.Fate {
	if want {
		return feature.Violated
	}
	return feature.Holds
}

// comparesWholes are the operators whose result depends on all that is in their operands.
var comparesWholes = map[string]bool{operators.Equals: true, operators.NotEquals: true, operators.In: true}

// holdsPath reports whether the expression is an object or list around the lost field.
func (e *losing) holdsPath(x ast.Expr) bool {
	n := e.stepOf(x)
	return n >= 0 && n < len(e.path)
}

// isLookup reports whether a call reads a part of its first argument, which the second one names: a[b], a[?b] or a.?b.
func isLookup(c ast.CallExpr) bool { return c.FunctionName() == operators.Index || isOptionalLookup(c) }

func isOptionalLookup(c ast.CallExpr) bool {
	return c.FunctionName() == operators.OptSelect || c.FunctionName() == operators.OptIndex
}

// isOptional reports whether the expression has an optional value: a.?b, and what is read from that, such as a.?b.c.
func isOptional(x ast.Expr) bool {
	switch x.Kind() { //nolint:exhaustive // no others
	case ast.SelectKind:
		return isOptional(x.AsSelect().Operand())
	case ast.CallKind:
		c := x.AsCall()
		return isOptionalLookup(c) || isLookup(c) && isOptional(c.Args()[0])
	}
	return false
}

// fateOfConditional is [losing.fateOf] for c ? yes : no. If the loss decides c, another branch may count than before, so that what does
// not depend on the field may have another value nevertheless.
func (e *losing) fateOfConditional(c, yes, no ast.Expr, want bool) feature.Fate {
	taken := yes
	is, isNot := e.mustBeTrue(c), feature.Open
	if is == feature.Violated {
		isNot = e.fateOf(c, false)
	}
	switch {
	case isNot == feature.Violated: // an error
		return feature.Violated
	case isNot == feature.Holds:
		taken = no
	case is != feature.Holds:
		return joinFates(joinFates(is, e.fateOf(yes, want)), e.fateOf(no, want))
	}
	switch fate := e.fateOf(taken, want); {
	case fate != feature.Apart:
		return fate
	case taken.Kind() == ast.LiteralKind && taken.AsLiteral() == types.Bool(want):
		return feature.Holds
	case taken.Kind() == ast.LiteralKind && taken.AsLiteral() == types.Bool(!want):
		return feature.Violated
	}
	return feature.Open
}

// joinFates joins what is neither clearly one nor the other.
func joinFates(a, b feature.Fate) feature.Fate {
	if a == feature.Apart && b == feature.Apart {
		return feature.Apart
	}
	return feature.Open
}

// fateOfMacro judges a macro over a list or map that may be on the path: the effect of one item on the result, with the others unchanged. More
// than Open it is only for all(). ifTrue returns the fate of a predicate that was true for each item; nil if it may have been false for some.
func (e *losing) fateOfMacro(c ast.ComprehensionExpr, want bool, ifTrue func(ast.Expr) feature.Fate) feature.Fate {
	n := e.stepOf(c.IterRange())
	out := e.mustBeTrue(c.IterRange())
	if n < 0 || n >= len(e.path) || e.path[n].Kind == feature.Field {
		return joinFates(out, e.mustBeTrue(c.LoopStep()))
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
	defer func() {
		delete(e.vars, name)
		if had {
			e.vars[name] = before
		}
	}()
	predicate := allOf(c)
	if predicate == nil {
		return joinFates(out, e.mustBeTrue(c.LoopStep()))
	}
	if ifTrue != nil {
		return max(ifTrue(predicate), out)
	}
	// One item for which the predicate is false decides.
	fate, decides := e.fateOf(predicate, want), feature.Violated
	if !want {
		decides = feature.Holds
	}
	if fate == decides && out == feature.Apart {
		return fate
	}
	return joinFates(fate, out)
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
