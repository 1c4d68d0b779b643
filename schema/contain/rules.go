package contain

import (
	"fmt"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

func (t *translator) rules(n *schema.Node, p place) []piece {
	var out []piece
	h := p.node.Hash()
	for i := range n.Rules {
		r := &n.Rules[i]
		if strings.Contains(r.Rule, "oldSelf") {
			continue
		}
		out = append(out, piece{keyword: "x-kubernetes-validations", detail: r.Rule, before: r.Rule, rule: r, index: i,
			formula: logic.Opaque{ID: fmt.Sprintf("%s@%x", r.Rule, h)}})
	}
	return out
}

func (t *translator) nestedRules(n *schema.Node, p place) []logic.Formula { return nil }

func (w *walker) compareTransitions(o, n place) {}

// Members implements [logic.Strings] with a few candidates.
func (l *library) Members(match, avoid []string, length logic.Length, n int) ([]string, bool) {
	var out []string
	base := []string{"a", "b", "abc", "example", "1", "0", "1Gi", "10", "A", "a-b", "example.com", "https://example.com", "", "!", "a b", "1s", "1h"}
	for _, s := range base {
		ok := true
		for _, m := range match {
			ok = ok && l.MatchPattern(m, s)
		}
		for _, m := range avoid {
			ok = ok && !l.MatchPattern(m, s)
		}
		if ok && int64(len(s)) >= length.Min && int64(len(s)) <= length.Max {
			out = append(out, s)
		}
	}
	if length.Min > 20 && len(match) == 0 {
		out = append(out, strings.Repeat("a", int(length.Min)))
	}
	return out, false
}
