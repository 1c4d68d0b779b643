package feature

// Who is to be told that a part is not stable, although it may be used? The component's tellUse names stages; a new use
// at one of them gets a warning from the API server, whether the feature is open or closed.

import (
	"fmt"
	"slices"
	"strconv"

	"sluice.dev/api/v1alpha1"
)

// Teller finds new uses that the API server warns about, of open and of closed features, at one of the stages in the component's
// tellUse.
type Teller struct{ evaluator *Evaluator }

// TellerFor returns a teller of the targets for which take returns true; nil if no target needs warnings.
func (m *Model) TellerFor(take func(*Feature, *Target) bool) *Teller {
	e := &Evaluator{states: m.Resolve(nil, Runtime{}), programs: map[resourceVersion]*program{}, tells: true}
	e.compilePrograms(func(s *State, t *Target) bool {
		return slices.Contains(m.Spec().TellUse, s.Feature.Stage) && take(s.Feature, t)
	})
	if len(e.programs) == 0 {
		return nil
	}
	return &Teller{e}
}

// Tell lists the new uses in a request, by the feature's ratchet: stored uses do not count. Opting in makes no difference. A nil Teller
// lists none.
func (t *Teller) Tell(r *Request) Violations {
	if t == nil || r.Object == nil || r.Subresource != "" {
		return Violations{}
	}
	p := t.evaluator.programFor(r.Group, r.Version, r.Resource)
	if p == nil {
		return Violations{}
	}
	asked := *r
	asked.OptedIn = nil
	w := &walker{evaluator: t.evaluator, request: &asked}
	w.checkVersion(p, r.Object)
	if p.checks && p.check.hasUse(r.Object) {
		w.checkUses(&p.check, r.Object)
	}
	return w.decision.Warned
}

// Told returns the warning for a new use of a part of the feature: alpha, as feature "X" of component "demo" is; it may change or
// go in any release.
func (f *Feature) Told() string {
	fate := "it may change or go in any release"
	if f.Stage == v1alpha1.Deprecated {
		fate = "it will go"
	}
	return fmt.Sprintf("%s, as feature %q of component %q is; %s", f.StageName(), f.Spec.Gate, f.Spec.Component, fate)
}

// Told is the place of a use and its warning, for uses that a [Teller] has found.
func (v *Violation) Told() string {
	return v.Path + ": " + v.Target.Subject(strconv.Quote(v.Value)) + v.State.Feature.Told()
}

// Told returns the warnings for all uses that a [Teller] has found; beyond 100 the rest is counted.
func (v *Violations) Told() []string {
	out := make([]string, 0, len(v.List)+1)
	for i := range v.List {
		out = append(out, v.List[i].Told())
	}
	if more := v.Count - len(v.List); more > 0 {
		out = append(out, fmt.Sprintf("and %d more uses of parts that may change or be removed", more))
	}
	return out
}
