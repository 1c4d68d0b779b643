package contain

// What does a rule of the schema demand of a created value? For example, self.a > 1 becomes a piece of its node.

import (
	"errors"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// unitsToParse is the work of parsing a rule, and of each byte of it.
const (
	unitsToParse     = 20
	unitsToParseByte = 2
)

var errSpent = errors.New(TooMuch)

// parseRule returns the parsed form of a rule. Once the budget is spent, it parses no more rules.
func (l *library) parseRule(text string) (*celrule.Rule, error) {
	p, ok := l.rules[text]
	if !ok {
		if !l.work.Charge(unitsToParse + int64(len(text))*unitsToParseByte) {
			return nil, errSpent
		}
		p.rule, p.err = celrule.Parse(text)
		l.rules[text] = p
	}
	return p.rule, p.err
}

// rulePieces returns the demands of the node's validation rules on a created value. compareTransitions handles rules about updates.
func (t *translator) rulePieces(n *schema.Node, p place) []piece {
	if p.dark {
		return nil
	}
	var out []piece
	for i := range n.Rules {
		r := &n.Rules[i]
		if f := t.ruleFormula(r, p); f != nil {
			out = append(out, piece{keyword: keywordRules, detail: r.Rule, before: r.Rule, rule: r, index: i, formula: f})
		}
	}
	return out
}

// unitsToTranslate is the work of translating one byte of a rule.
const unitsToTranslate = 5

const keywordRules = "x-kubernetes-validations"

// ruleFormula translates one rule at the place; nil if it says nothing about creation.
func (t *translator) ruleFormula(r *schema.Rule, p place) logic.Formula {
	parsed, err := t.opts.sharedLibrary().parseRule(r.Rule)
	if err == nil && !t.opts.Work.Charge(int64(len(r.Rule))*unitsToTranslate) {
		err = errSpent
	}
	if err != nil {
		h := p.node.Hash()
		return logic.Opaque{ID: "the rule " + r.Rule + ", which was not parsed, at " + string(h[:])}
	}
	if parsed.Transition(hasOptionalOldSelf(r)) {
		return nil
	}
	return celrule.Translate(parsed, t.opts.scopeOf(p, hasOptionalOldSelf(r)))
}

// scopeOf is the place p as a rule there sees it; optionalOldSelf is that of the rule.
func (o *Options) scopeOf(p place, optionalOldSelf bool) celrule.Scope {
	return celrule.Scope{Spine: p.node, Root: p.hasMeta(), OptionalOldSelf: optionalOldSelf, Checker: o.solverStrings(), Work: o.Work}
}

func hasOptionalOldSelf(r *schema.Rule) bool { return r.OptionalOldSelf != nil && *r.OptionalOldSelf }

// nestedRules translates the rules of a branch of allOf; the API server does not evaluate rules in other branches
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, validator).
func (t *translator) nestedRules(n *schema.Node, p place, inAllOf bool) []logic.Formula {
	if !inAllOf || p.kind != declared {
		return nil
	}
	var out []logic.Formula
	for _, x := range t.rulePieces(n, p) {
		out = append(out, logic.Or{logic.Kinds(logic.Null), x.formula})
	}
	return out
}

// refusalTextOf is the text in the refusal of a rule (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel, validator), empty if an
// expression makes it.
func refusalTextOf(r *schema.Rule) string {
	switch {
	case r.MessageExpression != "":
		return ""
	case strings.TrimSpace(r.Message) != "":
		return strings.TrimSpace(r.Message)
	}
	return strings.TrimSpace(r.Rule)
}
