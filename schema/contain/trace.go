package contain

// Why is a demand no gap? For example, the trace of a comparison says that the same demand stands in the old schema.

import (
	"fmt"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
)

// Event is a step of a comparison, for [Options.Trace].
type Event struct {
	// Path leads to the place that the step is about.
	Path Path
	// Keyword and Detail are those of a [Gap], or of a demand of the new schema that is proven.
	Keyword, Detail string
	// Text is the question or the result, in the words of docs/containment.md.
	Text string
	// Object is the candidate that Text is about, nil if there is none.
	Object map[string]any
	// Below is true if the step decides all places below its path as well.
	Below bool
}

// argument names why a demand of the new schema is no gap, in the words of docs/containment.md.
type argument string

const (
	equalSubtree   argument = "both schemas say the same from here on"
	equalKeyword   argument = "the old schema has the same keyword with the same meaning"
	impliedHere    argument = "no value that the old schema accepts here breaks it"
	impliedByWhole argument = "the old schema of the whole object implies it"
	subtreeByWhole argument = "the old schema of the whole object implies all of the new schema from here on"
	ruleByForm     argument = "the texts of old rules imply it"
	updateImplied  argument = "the old schema and its rules about updates imply it"
)

// traceStep reports a step that is not part of a proof.
func (o *Options) traceStep(g *Gap, object map[string]any, format string, args ...any) {
	if o.Trace != nil {
		o.Trace(Event{Path: g.Path, Keyword: g.Keyword, Detail: g.Detail, Text: fmt.Sprintf(format, args...), Object: object})
	}
}

// traceProven reports a demand of the new schema that is proven.
func (o *Options) traceProven(path Path, keyword, detail string, why argument) {
	if o.Trace != nil {
		o.Trace(Event{Path: path, Keyword: keyword, Detail: detail, Text: "proven: " + string(why), Below: why == equalSubtree || why == subtreeByWhole})
	}
}

// traceProven reports a demand at the walk's place that is proven.
func (w *walker) traceProven(keyword, detail string, why argument) {
	if w.opts.Trace != nil {
		w.opts.traceProven(w.publicPath(), keyword, detail, why)
	}
}

// traceImplied reports a suspect that the whole of the old schema proves.
func (s *search) traceImplied(p *pending) {
	switch {
	case p.gap.Detail == ListsLetThrough:
	case p.deeper:
		s.opts.traceProven(p.gap.Path, p.gap.Keyword, p.where, subtreeByWhole)
	case p.gap.Harm == RefusedTransition:
		s.opts.traceProven(p.gap.Path, p.gap.Keyword, p.where, updateImplied)
	default:
		s.opts.traceProven(p.gap.Path, p.gap.Keyword, p.where, impliedByWhole)
	}
}

// traceSearch reports the end of a search in the whole object.
func (s *search) traceSearch(p *pending, r logic.Result, done int64) {
	if s.opts.Trace == nil {
		return
	}
	found := "candidates: " + fmt.Sprint(len(r.Models))
	switch {
	case r.None:
		found = "no object"
	case len(r.Models) == 0:
		found = "gave up: " + r.Reason
	}
	s.opts.traceStep(&p.gap, nil, "searched the whole object, %d units of work: %s", done, found)
}

// traceCandidate reports the verdict of the API server's code about a candidate.
func (s *search) traceCandidate(p *pending, obj map[string]any, w *Witness, why string) {
	switch {
	case s.opts.Trace == nil:
	case w == nil:
		s.opts.traceStep(&p.gap, obj, "candidate is no witness: %s", orDefault(why, "the new schema does to it what the old one does"))
	case len(w.Masked) > 0:
		s.opts.traceStep(&p.gap, obj, "candidate breaks the rule, but the API server refuses it before it evaluates the rule: %s", w.Errors[0])
	case len(w.Errors) > 0:
		s.opts.traceStep(&p.gap, obj, "candidate is a witness: the new schema refuses it: %s", w.Errors[0])
	default:
		s.opts.traceStep(&p.gap, obj, "candidate is a witness: the new schema drops or fills in %s", orDefault(strings.Join(w.PrunedPaths, ", "), "other values"))
	}
}

// traceVerdict reports the verdict about a suspect.
func (s *search) traceVerdict(p *pending) {
	switch {
	case s.opts.Trace == nil:
	case p.gap.Verdict == Unknown:
		s.opts.traceStep(&p.gap, nil, "unknown: %s", p.gap.Reason)
	case p.gap.Harm == RefusedTransition:
		s.opts.traceStep(&p.gap, p.gap.Witness.Object, "not contained: the new schema refuses an update to this object: %s", p.gap.Witness.Errors[0])
	default:
		s.opts.traceStep(&p.gap, nil, "not contained")
	}
}
