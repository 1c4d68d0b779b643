package gate

import (
	"k8s.io/component-base/featuregate"

	"sluice.dev/feature"
)

// warnOfFlips logs a warning for each feature that gates behaviour only, is off, and is announced to be on by default, or is
// so already: its users are to know before it happens, and after (TEP-0033).
func (g *Gates) warnOfFlips() {
	for _, s := range g.state.Load().effective.All() {
		at, done, ok := s.Feature.Flip()
		if !ok || s.Open || len(s.Feature.Spec.Parts) > 0 {
			continue
		}
		text := "this feature is off; it will be on by default"
		if done {
			text = "this feature is off; it is on by default"
		}
		g.log.Info("warning: "+text, "component", g.declaration.Name, "feature", s.Feature.Spec.Gate, "since", feature.Since(&at), "why", s.Reason)
	}
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
