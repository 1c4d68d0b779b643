package contain

// Which object shows a harm? For example, for a maximum that is lowered to 5 the search finds an object with 6, and lets the validators
// confirm it.

import (
	"slices"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
)

// search turns suspects into gaps: it looks for objects that show the harm, and confirms them.
type search struct {
	*walker
	oldRoot        place
	sides          [2]Side // old and new
	oldCut, newCut *upstream.Projector
	bareCut        *upstream.Projector // of the new schema's rules and types alone; nil until it is needed
	plain          logic.Formula       // the values that the new schema accepts without its rules; nil until it is needed
}

// pending is a suspect that is not decided yet.
type pending struct {
	*suspect
	models []any
	reason string
	done   bool
	// mixed is a witness that other changes refuse as well.
	mixed *Witness
	// worst is the witness that fares worst so far.
	worst *Witness
	// spared is set if it is proven that no stored object is harmed.
	spared bool
	// stopped is set if the context was done.
	stopped bool
	// deeper is set if it is proven that the type does not differ, and the search covers the places below it that the walk skipped.
	deeper bool
}

// firstModels is the number of first candidates from a suspect. Of a field that may be lost, the first one mostly shows it.
const firstModels = 12

// firstModels is the number of candidates that the first search for a suspect looks for. One value that is pruned
// shows the same as twelve.
func (p *pending) firstModels() int {
	if p.gap.Harm == Pruned {
		return 1
	}
	return firstModels
}

// findCandidates looks for candidates, or a proof that there are none: first among simple objects with values in their usual form, then among all
// objects. oddAlone is true if it is proven that no candidate has all values in their usual form.
func (s *search) findCandidates(p *pending) (r logic.Result, oddAlone bool) {
	if r = s.solveFor(p, s.simpleEnvelope(), false); !r.None {
		if len(r.Models) == 0 { // that odd values are all that there is need not be proven to show one
			if odd := s.solveFor(p, s.simpleEnvelope(), true); len(odd.Models) > 0 {
				return odd, false
			}
		}
		return r, false
	}
	all := s.solveFor(p, s.anyEnvelope(), true) // the remaining ones may be odd, or have more metadata
	if all.None || !s.old.hasOdd(s.oldRoot.node, 0) {
		return all, false
	}
	if r = s.solveFor(p, s.anyEnvelope(), false); !r.None {
		return r, false
	}
	if r = s.solveFor(p, s.simpleEnvelope(), true); !r.None {
		r.Models = append(s.oddStrings(p), r.Models...)
		return r, true
	}
	return all, true
}

// oddStrings are candidates with an odd string where a list would do as well, such as 2020-01-01t00:00:00z: somebody may write that.
func (s *search) oddStrings(p *pending) []any {
	if !s.old.letsListsThrough(p.old) {
		return nil
	}
	return s.solveBriefly(1, s.formulasIn(s.simpleEnvelope(), true, p, logic.Kinds(logic.AnyKind&^logic.Array))...)
}

// solveFor looks for candidates in an envelope, with odd values if odd is set.
func (s *search) solveFor(p *pending, envelope logic.Formula, odd bool) logic.Result {
	return s.solver.Solve(p.firstModels(), s.formulasIn(envelope, odd, p)...)
}

// formulasFor says what simple candidates have to be, once it is known whether only odd ones can be candidates.
func (s *search) formulasFor(p *pending, more ...logic.Formula) []logic.Formula {
	return s.formulasIn(s.simpleEnvelope(), p.gap.OddAlone, p, more...)
}

// formulasIn says what candidates in an envelope have to be. If odd is not set, all their values have their usual form.
func (s *search) formulasIn(envelope logic.Formula, odd bool, p *pending, more ...logic.Formula) []logic.Formula {
	fs := []logic.Formula{s.old.acceptedAt(s.oldRoot), envelope, atPath(p.path, append(logic.And{p.local}, more...))}
	if !odd {
		fs = append(fs, s.old.writtenAt(s.oldRoot))
	}
	return fs
}

// setWitness decides the suspect by a witness; a later, worse witness may take its place.
func (p *pending) setWitness(w *Witness) {
	p.gap.Verdict, p.gap.Witness, p.done = NotContained, w, true
}

// anyEnvelope is true of every valid object of the resource.
func (s *search) anyEnvelope() logic.Formula {
	return s.envelope(logic.And{logic.Kinds(logic.Object), logic.Has{Name: "name"}, logic.Prop{Name: "name", F: objectName}})
}

// simpleEnvelope is true of the simple objects of the resource, from which candidates are taken.
func (s *search) simpleEnvelope() logic.Formula {
	meta := logic.And{logic.Kinds(logic.Object), logic.Has{Name: "name"}, logic.Prop{Name: "name", F: logic.Or{oneValue("example"), objectName}}}
	fields := []string{"name"}
	if s.opts.Namespaced {
		meta = append(meta, logic.Has{Name: "namespace"}, logic.Prop{Name: "namespace", F: oneValue("default")})
		fields = append(fields, "namespace")
	}
	return s.envelope(append(meta, logic.Rest{Except: fields, F: logic.False}))
}

// envelope is true of objects of the resource with such metadata.
func (s *search) envelope(metadata logic.Formula) logic.Formula {
	return logic.And{
		logic.Kinds(logic.Object),
		logic.Has{Name: "apiVersion"},
		logic.Prop{Name: "apiVersion", F: oneValue(s.opts.apiVersion())},
		logic.Has{Name: "kind"},
		logic.Prop{Name: "kind", F: oneValue(s.opts.kindOrDefault())},
		logic.Has{Name: "metadata"},
		logic.Prop{Name: "metadata", F: metadata},
	}
}

// oneValue is true of the values that equal v in the API server's sense (see [logic.Same]).
func oneValue(v any) logic.Formula { return logic.Enum{Values: []any{v}} }

// objectName is true of names of objects (NameIsDNSSubdomain in k8s.io/apimachinery/pkg/api/validation).
var objectName = logic.And{
	logic.Kinds(logic.String),
	logic.Length{Min: 1, Max: 253},
	logic.Pattern{Expr: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`},
}

// solveBriefly returns up to n models, with a small budget.
func (s *search) solveBriefly(n int, fs ...logic.Formula) []any {
	small := s.solver
	small.Budget /= 10
	return small.Solve(n, fs...).Models
}

// provesNone reports whether it is proven that no object, with any metadata, satisfies fs.
func (s *search) provesNone(fs []logic.Formula) bool {
	fs = slices.Clone(fs)
	fs[1] = s.anyEnvelope()
	return s.solver.Solve(1, fs...).None
}
