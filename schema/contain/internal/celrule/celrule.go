// Package celrule translates rules of x-kubernetes-validations, written in CEL, into formulas of package logic.
//
// It promises that the formula of a rule is exact on every value that the schema at the rule's place accepts: true where the rule
// evaluates to true without an error after defaulting, false where it is false or fails. It relies on the types, nullability, formats,
// enums and required properties of the schema. For values that the schema refuses, the formula may be true or false, which does not
// matter for a proof. A part that cannot be expressed becomes an opaque part. Two opaque parts have the same ID only if they have the
// same meaning on equal values. The package does not check types, and promises nothing for a rule that the API server would not
// compile. It does not know the cost limits of the API server.
package celrule

import (
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/parser"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// ErrTooLarge is returned by [Parse] for an expression beyond its limits.
var ErrTooLarge = errors.New("rule is too large")

// theParser parses without macros, so that has(), all() and the like stay calls.
var theParser = sync.OnceValues(func() (*parser.Parser, error) {
	return parser.NewParser(
		parser.EnableOptionalSyntax(true),
		parser.MaxRecursionDepth(maxDepth),
		parser.ErrorRecoveryLimit(1),
		parser.ErrorReportingLimit(1),
		parser.ExpressionSizeCodePointLimit(MaxSize),
	)
})

// Parse parses a rule. It does not check types or names. The error is [ErrTooLarge] or says what is wrong with the
// syntax.
func Parse(text string) (*Rule, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxSize)
	}
	p, err := theParser()
	if err != nil {
		return nil, err
	}
	tree, errs := p.Parse(common.NewTextSource(text))
	if e := errs.GetErrors(); len(e) > 0 {
		return nil, fmt.Errorf("syntax error: %s", e[0].Message)
	}
	c := &converter{}
	root, err := c.convertExpr(tree.Expr())
	if errors.Is(err, errTooMany) {
		return nil, fmt.Errorf("%w: more than %d parts", ErrTooLarge, maxNodes)
	}
	if err != nil {
		return nil, err
	}
	return newRule(root), nil
}

// Canonical returns a normal form. Two rules with the same normal form that both compile evaluate to the same result on the same value;
// an error counts as a result. canon.go says what is normalised, and why that is sound.
func (r *Rule) Canonical() string { return r.canon() }

// UsesOldSelf reports whether the rule mentions oldSelf. As upstream does, it also counts a variable of a macro with that name
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, compileRule).
func (r *Rule) UsesOldSelf() bool { return r.old }

// Transition reports whether the rule restricts only updates, for the given value of optionalOldSelf: it mentions oldSelf, and is not
// evaluated without an old value.
func (r *Rule) Transition(optionalOldSelf bool) bool { return r.old && !optionalOldSelf }

// Names returns the names that the rule mentions: fields that it selects or tests with has(), and all string literals, each as written
// and unescaped (k8s.io/apiserver/pkg/cel, Unescape). The caller must not change the map.
func (r *Rule) Names() map[string]bool { return r.names() }

// namesOf collects the names for [Rule.Names]. A literal counts as well, because self['a'] and 'a' in self read the
// field a.
func namesOf(root *expr) map[string]bool {
	out := map[string]bool{}
	add := func(s string) {
		out[s] = true
		if u, ok := apiservercel.Unescape(s); ok {
			out[u] = true
		}
	}
	root.walkParts(func(e *expr) {
		if e.kind == sel {
			add(e.name)
		}
		if s, ok := e.val.(string); ok && e.kind == literal {
			add(s)
		}
	})
	return out
}

// newRule makes the rule of an expression. What few callers need, such as the normal form, is made at its first use,
// and once for all goroutines.
func newRule(root *expr) *Rule {
	r := &Rule{root: root}
	r.canon = sync.OnceValue(func() string { return canonicalText(root) })
	r.names = sync.OnceValue(func() map[string]bool { return namesOf(root) })
	r.said = sync.OnceValue(func() [][]atom { return saidBy(root) })
	r.old = root.mentionsName(oldSelf)
	return r
}
