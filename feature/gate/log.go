package gate

// What does an operator read in the log? Changes of features, mistakes in settings once, and early notice of a
// default that flips.

import (
	"fmt"

	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// warnOfFlip logs a warning if a feature that gates behaviour only is off, and its default turns on later or is on already: its users are to
// know before it happens, and after (TEP-0033). By Tekton's convention such a flag is there to be turned on one day, also if no release is named,
// unless it is deprecated.
func (g *Gates) warnOfFlip(s *feature.State) {
	f := s.Feature
	at, done, ok := f.Flip()
	if s.Open || len(f.Spec.Parts) > 0 || !ok && (g.declaration.Spec.Convention != v1alpha1.ConventionTekton || !f.Free() || f.Stage == v1alpha1.Deprecated) {
		return
	}
	gate, off, on := f.Spec.Gate, fmt.Sprintf("%s: \"%t\"", f.Spec.Key, f.Spec.Inverted), fmt.Sprintf("%s: \"%t\"", f.Spec.Key, !f.Spec.Inverted)
	text := fmt.Sprintf("%s is off, and may be on by default in a later release: set %s to try it now, or %s to keep it off", gate, on, off)
	switch {
	case done:
		text = fmt.Sprintf("%s is off, although it is on by default since %s: a later release may remove the gate, and then it is always on", gate, feature.Since(&at))
	case !ok && f.Default:
		text = fmt.Sprintf("%s is off, although it is on by default: a later release may remove the gate, and then it is always on", gate)
	case ok:
		text = fmt.Sprintf("%s is off, and will be on by default from %s on: set %s to try it now, or %s to keep it off", gate, feature.Since(&at), on, off)
	}
	g.log.Info("warning: "+text, "component", g.declaration.Name, "feature", gate, "why", s.Reason)
}

// logChanges logs the changed features, and returns them.
func (g *Gates) logChanges(before, now *state) (changed []featuregate.Feature) {
	g.logProblems(now)
	for _, s := range now.effective.All() {
		gate := s.Feature.Spec.Gate
		// For those who have opted in, a feature that is allowed is another one than a feature that is disabled.
		if access := now.effective.Access(gate); access != before.effective.Access(gate) {
			changed = append(changed, featuregate.Feature(gate))
			g.log.Info("feature changed", "component", g.declaration.Name, "feature", gate, "enabled", s.Open, "access", access, "why", s.Reason)
			g.warnOfFlip(&s)
		}
		was, _ := before.settings.State(gate)
		will, _ := now.settings.State(gate)
		if ready, _ := now.ready.State(gate); will.Open != ready.Open && was.Open != will.Open {
			g.log.Info("this setting takes a restart of the process", "component", g.declaration.Name, "feature", gate, "enabled", ready.Open, "then", will.Open)
		}
	}
	return changed
}

// logProblems logs problems that are new, and warnings once.
func (g *Gates) logProblems(now *state) {
	const most = 1000
	still := map[string]bool{}
	for _, p := range now.problems {
		key := p.String()
		if !g.told[key] {
			text := "a setting of features is wrong"
			switch {
			case p.Stays:
				text += "; the earlier settings of the source stay"
			case p.refused:
				text += "; nothing of the source is taken"
			}
			g.log.Error(nil, text, "component", g.declaration.Name, "source", p.Source.String(), "problem", p.Message)
		}
		still[key] = true
	}
	g.told = still
	for _, p := range now.warnings {
		if key := p.String(); !g.warned[key] && len(g.warned) < most {
			g.warned[key] = true
			g.log.Info("warning: "+p.Message, "component", g.declaration.Name, "source", p.Source.String())
		}
	}
}
