package life

// What becomes of a validation rule if a field is left out of the schema? Tests for the field become false,
// and what constants then decide goes. For example, !has(self.banner) || self.banner != '' becomes true, and
// the rule goes. If the rest still reads the field, the field cannot be left out.

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/feature"
)

// jsonPathTail are filters and indices of a JSONPath.
var jsonPathTail = regexp.MustCompile(`\[[^\]]*\]`)

// quotedName is a field of a JSONPath in brackets.
var quotedName = regexp.MustCompile(`\['([^'\]]+)'\]`)

// plainScalar is the text of a scalar in the form that parts use.
func plainScalar(raw string) string {
	var s string
	if json.Unmarshal([]byte(raw), &s) == nil {
		return s
	}
	return raw
}

// quoteJSON writes a string as JSON.
func quoteJSON(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return `""` // a string can always be written
	}
	return string(data)
}

// rewriter takes a field out of a rule, or values of it: an expression that tests for the field, or for one of the values, becomes false.
type rewriter struct {
	field   feature.Path // from self
	values  []string     // nil for the field itself
	make    celast.ExprFactory
	vars    map[string]feature.Path
	changed bool
}

// withoutField returns the rule for objects without the field at path, which starts at self; "true" if the rule then has no effect. The
// problem says why the rule needs the field.
func withoutField(rule string, path feature.Path) (out, problem string) {
	r := &rewriter{field: path, make: celast.NewExprFactory(), vars: map[string]feature.Path{"self": {}, "oldSelf": {}}}
	return r.rewriteRule(rule)
}

// withoutValues is withoutField for values of the field that no new object has. A stored one may have them, so that oldSelf stays.
func withoutValues(rule string, path feature.Path, values []string) (out, problem string) {
	r := &rewriter{field: path, values: values, make: celast.NewExprFactory(), vars: map[string]feature.Path{"self": {}}}
	return r.rewriteRule(rule)
}

// rewriteRule rewrites one rule. Macros are not expanded, because the result is written as text again:
// has(self.a) stays has(self.a).
func (r *rewriter) rewriteRule(rule string) (out, problem string) {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.ClearMacros())
	if err != nil {
		return rule, err.Error()
	}
	parsed, issues := env.Parse(rule)
	if issues.Err() != nil {
		return rule, "" // the API server's own validation reports it
	}
	e := r.rewriteExpr(parsed.NativeRep().Expr())
	// A rule that reads a value stays, since stored objects may have it. One that reads a field which the schema lacks does not compile.
	if r.values == nil && r.refersToField(e) {
		return rule, "needs it: write has(...) in front, or gate the rule too"
	}
	if !r.changed {
		return rule, ""
	}
	if value, ok := boolLiteralOf(e); ok && !value {
		return rule, "is never true without it"
	}
	text, err := parser.Unparse(e, parsed.NativeRep().SourceInfo())
	if err != nil {
		return rule, fmt.Sprintf("cannot be written without it: %s", err)
	}
	return text, ""
}

// boolLiteralOf returns the value of true and false; ok is false for other expressions.
func boolLiteralOf(e celast.Expr) (value, ok bool) {
	if e.Kind() != celast.LiteralKind {
		return false, false
	}
	b, ok := e.AsLiteral().(types.Bool)
	return bool(b), ok
}

// newBool is a literal in the place of an expression, with the ID of that.
func (r *rewriter) newBool(e celast.Expr, v bool) celast.Expr {
	return r.make.NewLiteral(e.ID(), types.Bool(v))
}

// pathOf returns the fields that lead to the value of an expression.
func (r *rewriter) pathOf(e celast.Expr) (feature.Path, bool) {
	switch e.Kind() { //nolint:exhaustive // the others are no fields
	case celast.IdentKind:
		p, ok := r.vars[e.AsIdent()]
		return p, ok
	case celast.SelectKind:
		p, ok := r.pathOf(e.AsSelect().Operand())
		return append(slices.Clip(p), feature.Step{Name: e.AsSelect().FieldName()}), ok
	case celast.CallKind:
		c := e.AsCall()
		if c.FunctionName() == operators.Index && len(c.Args()) == 2 {
			p, ok := r.pathOf(c.Args()[0])
			return append(slices.Clip(p), feature.Step{Kind: feature.Each}), ok
		}
	}
	return nil, false
}

// isBelowField reports whether a path leads to the field, or into it.
func (r *rewriter) isBelowField(p feature.Path) bool {
	if len(p) < len(r.field) {
		return false
	}
	for i, want := range r.field {
		got := p[i]
		if (got.Kind == feature.Field) != (want.Kind == feature.Field) {
			return false
		}
		if escaped, ok := apiservercel.Escape(want.Name); want.Kind == feature.Field && got.Name != want.Name && (!ok || got.Name != escaped) {
			return false
		}
	}
	return true
}

// macros bind a variable to the items or keys that they visit.
var macros = []string{"all", "exists", "exists_one", "existsOne", "filter", "map", "transformList", "transformMap", "transformMapEntry"}

func isMacro(c celast.CallExpr) bool {
	return c.IsMemberFunction() && slices.Contains(macros, c.FunctionName()) && len(c.Args()) >= 2 && c.Args()[0].Kind() == celast.IdentKind
}

// bindVariables runs f with the variables of a macro bound. If a macro has two variables, the second is the item. The single variable of a macro
// over a map is the key.
func (r *rewriter) bindVariables(c celast.CallExpr, f func()) {
	over, ok := r.pathOf(c.Target())
	item := append(slices.Clip(over), feature.Step{Kind: feature.Each})
	// The variable may hide one outside, so the map is replaced and not changed.
	old := r.vars
	r.vars = maps.Clone(old)
	for i, a := range c.Args()[:len(c.Args())-1] {
		if a.Kind() == celast.IdentKind {
			delete(r.vars, a.AsIdent())
			if last := i == len(c.Args())-2 || c.Args()[i+1].Kind() != celast.IdentKind; ok && last {
				r.vars[a.AsIdent()] = item
			}
		}
	}
	f()
	r.vars = old
}

// rewriteExpr rewrites an expression from its parts up. Only calls are rewritten: has(), operators and macros
// are calls here. A test in the literal of a list or map stays, and [rewriter.refersToField] finds it.
func (r *rewriter) rewriteExpr(e celast.Expr) celast.Expr {
	if e.Kind() != celast.CallKind {
		return e
	}
	c := e.AsCall()
	name := c.FunctionName()
	if name == "has" && len(c.Args()) == 1 {
		if p, ok := r.pathOf(c.Args()[0]); ok && r.values == nil && r.isBelowField(p) {
			r.changed = true
			return r.newBool(e, false)
		}
		return e
	}
	args := make([]celast.Expr, len(c.Args()))
	each := func() {
		for i, a := range c.Args() {
			args[i] = r.rewriteExpr(a)
		}
	}
	if isMacro(c) {
		r.bindVariables(c, each)
		last := args[len(args)-1]
		if value, ok := boolLiteralOf(last); ok && len(args) == 2 && (name == "all" && value || name == "exists" && !value) {
			return r.newBool(e, value)
		}
		return r.make.NewMemberCall(e.ID(), name, r.rewriteExpr(c.Target()), args...)
	}
	each()
	if folded := r.foldConstants(e, name, args); folded != nil {
		return folded
	}
	if c.IsMemberFunction() {
		return r.make.NewMemberCall(e.ID(), name, r.rewriteExpr(c.Target()), args...)
	}
	return r.make.NewCall(e.ID(), name, args...)
}

// foldConstants evaluates the parts that constants decide.
func (r *rewriter) foldConstants(e celast.Expr, name string, args []celast.Expr) celast.Expr {
	value := make([]bool, len(args))
	known := make([]bool, len(args))
	for i, a := range args {
		value[i], known[i] = boolLiteralOf(a)
	}
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
		decides := name == operators.LogicalOr
		for i := range args {
			if known[i] && value[i] == decides {
				return r.newBool(e, decides)
			}
			// The other side decides.
			if known[i] {
				return args[1-i]
			}
		}
	case operators.LogicalNot:
		if known[0] {
			return r.newBool(e, !value[0])
		}
	case operators.Conditional:
		if known[1] && known[2] && value[1] == value[2] {
			return args[1]
		}
		if known[0] && value[0] {
			return args[1]
		}
		if known[0] {
			return args[2]
		}
	case operators.Equals, operators.NotEquals:
		if r.comparesWithValue(args) {
			r.changed = true
			return r.newBool(e, name == operators.NotEquals)
		}
		if known[0] && known[1] {
			return r.newBool(e, (value[0] == value[1]) == (name == operators.Equals))
		}
	}
	return nil
}

// comparesWithValue reports whether the sides of a comparison are the field and one of the values.
func (r *rewriter) comparesWithValue(sides []celast.Expr) bool {
	for i, literal := range sides {
		p, ok := r.pathOf(sides[1-i])
		if !ok || literal.Kind() != celast.LiteralKind || len(p) != len(r.field) || !r.isBelowField(p) {
			continue
		}
		if text, isText := literal.AsLiteral().Value().(string); isText && slices.Contains(r.values, text) {
			return true
		}
	}
	return false
}

// refersToField reports whether an expression still reads the field.
func (r *rewriter) refersToField(e celast.Expr) (found bool) {
	if p, ok := r.pathOf(e); ok && r.isBelowField(p) {
		return true
	}
	var c celast.CallExpr
	if e.Kind() == celast.CallKind {
		c = e.AsCall()
	}
	switch {
	case c == nil:
	case isMacro(c):
		r.bindVariables(c, func() { found = slices.ContainsFunc(c.Args(), r.refersToField) })
		return found || r.refersToField(c.Target())
	case strings.HasSuffix(c.FunctionName(), "?._") && len(c.Args()) == 2 && c.Args()[1].Kind() == celast.LiteralKind: // self.?field
		if p, ok := r.pathOf(c.Args()[0]); ok {
			name, _ := c.Args()[1].AsLiteral().Value().(string)
			found = r.isBelowField(append(slices.Clip(p), feature.Step{Name: name}))
		}
	}
	below := celast.NavigateExpr(celast.NewAST(e, nil), e).Children()
	return found || slices.ContainsFunc(below, func(x celast.NavigableExpr) bool { return r.refersToField(x) })
}
