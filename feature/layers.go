package feature

import (
	"maps"
	"slices"
)

// ParseLayers reads settings that come from several places, each in the form of [Model.ParseSettings], the one that wins
// first. A level counts if no place before it gives one; what a place says of a gate counts if none before it says anything of
// that gate. Between a gate and AllAlpha, AllBeta or the level the table of precedence decides, wherever they come from.
//
// There are findings for each place, in the order of the places. That a feature is on while one that it requires is off is
// told of the place that turns it on.
func (m *Model) ParseLayers(layers ...map[string]string) (*Settings, []Findings) {
	merged := &Settings{gates: map[string]says{}}
	parsers := make([]*settingsParser, len(layers))
	from := map[string]*settingsParser{}
	for i, data := range layers {
		p := m.parse(data)
		parsers[i] = p
		if merged.level == "" {
			merged.level = p.settings.level
		}
		for gate, s := range p.settings.gates {
			if _, ok := merged.gates[gate]; !ok {
				merged.gates[gate], from[gate] = s, p
			}
		}
	}
	m.unmet(merged, func(gate, other string) { from[gate].needs(gate, other) })
	out := make([]Findings, len(layers))
	for i, p := range parsers {
		out[i] = p.sorted()
	}
	return merged, out
}

// pin is what a feature was when it was pinned, but for what it requires.
type pin struct{ own, ownLifted bool }

// Pin returns settings with which some features stay as they are in the given states, whatever is set: processes take a change
// of theirs in when they start the next time. Locked features, maxLevel, requirements and required processes have their say
// all the same. The settings may be nil; they are not changed.
func (s *Settings) Pin(states *States, gates ...string) *Settings {
	out := &Settings{pins: map[string]pin{}}
	if s != nil {
		out.level, out.gates = s.level, s.gates
		maps.Copy(out.pins, s.pins)
	}
	for _, gate := range gates {
		if st := states.byGate[gate]; st != nil {
			out.pins[gate] = pin{st.own, st.ownLifted}
		}
	}
	return out
}

// pinned returns what a feature is pinned to.
func (s *Settings) pinned(gate string) (pin, bool) {
	if s == nil {
		return pin{}, false
	}
	p, ok := s.pins[gate]
	return p, ok
}

// Restart returns the gates of features whose change processes take in when they start: those that say so, and what those
// require, sorted.
func (m *Model) Restart() []string {
	found := map[string]bool{}
	var add func(f *Feature)
	add = func(f *Feature) {
		if f == nil || found[f.Spec.Gate] {
			return
		}
		found[f.Spec.Gate] = true
		for _, gate := range f.Spec.Requires {
			add(m.byGate[gate])
		}
	}
	for _, f := range m.features {
		if f.Spec.NeedsRestart {
			add(f)
		}
	}
	return slices.Sorted(maps.Keys(found))
}
