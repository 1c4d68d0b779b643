package contain

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// ProofStep says why a keyword of the new schema refuses no value that the old one accepts at a place.
type ProofStep struct {
	Path Path
	// Keyword is its JSON name; properties stands for pruning, schema for the whole schema from here on.
	Keyword string
	// Detail is the property of required, the text of a rule, the index of a branch of allOf.
	Detail string
	// Updates is set if the step proves that a rule restricts no update.
	Updates bool
	Lemma   Lemma
}

// Lemma names an argument of a proof.
type Lemma string

// The lemmas. docs/containment.md has the argument for each.
const (
	equalSubtree    Lemma = "equal-subtree"
	equalKeyword    Lemma = "equal"
	impliedHere     Lemma = "implied-here"
	impliedByWhole  Lemma = "implied-by-whole"
	subtreeByWhole  Lemma = "subtree-implied-by-whole"
	subtreeByRules  Lemma = "subtree-implied-with-rules"
	withRules       Lemma = "implied-with-rules"
	ruleSameMeaning Lemma = "rule-same-meaning"
	ruleImplied     Lemma = "rule-implied"
	ruleByForm      Lemma = "rule-implied-by-form"
	updateImplied   Lemma = "update-rule-implied"
)

// ProofOfEqual is the proof for two schemas that differ only in texts for people.
func ProofOfEqual() []ProofStep { return []ProofStep{{Keyword: "schema", Lemma: equalSubtree}} }

// recorder writes down the steps of a proof. A nil one writes nothing.
type recorder struct {
	opts  *Options
	steps []ProofStep
	// bare translates the old schema without its rules. Proofs that need no rules have lemmas of their own.
	bare   *translator
	solver logic.Solver
}

func newRecorder(o *Options) *recorder {
	if !o.Prove && o.Trace == nil {
		return nil
	}
	r := &recorder{opts: o, bare: newTranslator(o)}
	r.bare.ruleless = true
	r.solver = logic.Solver{Strings: o.strings(), Budget: orDefault(o.Budget, DefaultBudget)}
	return r
}

func (r *recorder) add(s ProofStep) {
	if r != nil {
		r.opts.traceStep(&s)
		r.steps = append(r.steps, s)
	}
}

// step writes down a step at the walk's place.
func (w *walker) step(keyword, detail string, l Lemma) {
	if w.proof != nil {
		w.proof.add(ProofStep{Path: w.publicPath(), Keyword: keyword, Detail: detail, Lemma: l})
	}
}

// update writes down a step about a rule about updates.
func (w *walker) update(r *schema.Rule, l Lemma) {
	if w.proof != nil {
		w.proof.add(ProofStep{Path: w.publicPath(), Keyword: keywordRules, Detail: r.Rule, Updates: true, Lemma: l})
	}
}

// pieceStep writes down why a piece is no gap. l is the lemma, unless the piece is a rule that the old node has too.
func (w *walker) pieceStep(o, n place, x piece, l Lemma) {
	same := func() bool {
		parsed, err := w.opts.library().parse(x.rule.Rule)
		return err == nil && hasRule(o, x.rule) && w.seesSame(o, n, parsed)
	}
	switch {
	case w.proof == nil:
	case x.rule != nil && l == impliedHere:
		w.step(x.keyword, x.detail, ruleImplied)
	case x.rule != nil && same():
		w.step(x.keyword, x.detail, equalKeyword)
	case x.rule != nil && l == equalKeyword:
		w.step(x.keyword, x.detail, ruleSameMeaning)
	case l == impliedHere:
		w.step(x.keyword, x.where(), w.proof.without(impliedHere, withRules, w.proof.bare.accepts(o), logic.Not(x.formula)))
	default:
		w.step(x.keyword, x.where(), l)
	}
}

// seesSame reports whether the rule sees the same values in both nodes.
func (w *walker) seesSame(o, n place, parsed *celrule.Rule) bool {
	return o.hasMeta() == n.hasMeta() && parsed.SeesSame(o.node, n.node, n.hasMeta(), o.keep || o.whole || n.keep || n.whole)
}

// hasRule reports whether the old node has the rule word for word.
func hasRule(o place, r *schema.Rule) bool {
	return o.kind == declared && !o.dark && slices.ContainsFunc(o.node.Rules, func(q schema.Rule) bool { return q.Rule == r.Rule && optional(&q) == optional(r) })
}

// without returns l if the formulas without the rules of the old schema have no model, and otherwise ruled, the lemma that relies on
// rules.
func (r *recorder) without(l, ruled Lemma, fs ...logic.Formula) Lemma {
	if r.solver.Solve(1, fs...).None {
		return l
	}
	return ruled
}

// whole writes down that a suspect was proven with the whole of the old schema.
func (s *search) whole(p *pending) {
	if s.proof == nil || p.gap.Detail == ListsLetThrough {
		return
	}
	step := ProofStep{Path: p.gap.Path, Keyword: p.gap.Keyword, Detail: p.where, Updates: p.gap.Harm == RefusedTransition}
	implied := func(l, ruled Lemma) Lemma {
		return s.proof.without(l, ruled, s.proof.bare.accepts(s.oldRoot), s.anyEnvelope(), at(p.path, p.local))
	}
	switch {
	case p.deeper:
		step.Lemma = implied(subtreeByWhole, subtreeByRules)
	case step.Updates:
		step.Lemma = updateImplied
	case p.gap.Keyword == keywordRules:
		step.Lemma = ruleImplied
	default:
		step.Lemma = implied(impliedByWhole, withRules)
	}
	s.proof.add(step)
}
