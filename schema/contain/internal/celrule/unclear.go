package celrule

// Which part of a rule stops a proof? For example, of self.a > 1 && self.b.trim() == self.c it is the second comparison.

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

// maxUnclear is the number of parts that [Unclear] names.
const maxUnclear = 3

// Unclear returns the smallest parts of the rule, as written, that [Translate] does not understand; none if it understands the whole
// rule.
func Unclear(r *Rule, s Scope) []string {
	if s.Spine == nil {
		return nil
	}
	t := newTranslator(s)
	b, err := t.evalBoolean(r.root, t.top)
	if len(t.unclear) == 0 && (err != nil || b.t.size > maxCond || len(t.asides) > 0) {
		t.unclear = append(t.unclear, r.root)
	}
	var texts []string
	for _, e := range t.unclear {
		if e.src == nil {
			continue
		}
		if text, err := parser.Unparse(e.src, ast.NewSourceInfo(nil)); err == nil {
			texts = append(texts, strings.Join(strings.Fields(text), " "))
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	var out []string
	for _, text := range texts {
		if len(out) < maxUnclear && !slices.ContainsFunc(out, func(smaller string) bool { return strings.Contains(text, smaller) }) {
			out = append(out, text)
		}
	}
	return out
}
