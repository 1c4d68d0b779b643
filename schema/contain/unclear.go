package contain

// Why is a gap unknown, and what would help? For example, the text names the part of a rule that is not understood.
//
// The text goes into a finding, so it says what somebody can do: simplify the named part, or look at the stored
// objects.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// explainUnknown says why a gap is unknown, which parts of rules are the obstacle, and what would help.
func (s *search) explainUnknown(p *pending) string {
	reason := orDefault(p.reason, "no candidate could be confirmed")
	if reason == TooMuch || reason == logic.Spent || p.stopped || s.opts.Work.Spent() {
		return reason
	}
	var parts []string
	if n := placeAtPath(s.sides[1].rootPlace(), p.gap.Path); p.gap.Rule >= 0 && n.kind == declared {
		parts = append(parts, s.unclearParts(n, &n.node.Rules[p.gap.Rule], p.gap.Path)...)
	}
	for i, o := 0, s.oldRoot; ; i++ {
		if o.kind == declared {
			for k := range o.node.Rules {
				parts = append(parts, s.unclearParts(o, &o.node.Rules[k], p.gap.Path[:i])...)
			}
		}
		if i == len(p.gap.Path) {
			break
		}
		o = placeAtPath(o, p.gap.Path[i:i+1])
	}
	const objects = "the stored objects of a cluster (sluice check NEW) show whether it matters there"
	if len(parts) == 0 {
		return reason + "; " + objects
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	return reason + "; the search does not see through " + strings.Join(parts[:min(len(parts), maxParts)], ", nor through ") +
		"; a rule in which these are comparisons of single fields can be decided, and " + objects
}

// maxParts bounds the parts of rules that are named.
const maxParts = 3

// unclearParts names the parts of a rule that the search does not understand.
func (s *search) unclearParts(p place, r *schema.Rule, path Path) []string {
	parsed, err := s.opts.sharedLibrary().parseRule(r.Rule)
	if err != nil || parsed.Transition(hasOptionalOldSelf(r)) {
		return nil
	}
	parts := celrule.Unclear(parsed, s.opts.scopeOf(p, hasOptionalOldSelf(r)))
	for i, text := range parts {
		parts[i] = fmt.Sprintf("%s in the rule %q at %s", text, refusalTextOf(r), orDefault(path.String(), "the object"))
	}
	return parts
}
