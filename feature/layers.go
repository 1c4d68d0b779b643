package feature

// What is in force if several places have settings? A process has flags, an environment, a file and a ConfigMap. For
// each gate the first place counts that mentions it, and the table of precedence decides between a gate and a level.
// For example, a flag A=true wins over a: "false" in the ConfigMap, and leaves b: "true" there in force.

import (
	"cmp"
	"maps"
	"slices"
)

// ParseLayers reads settings from several places, each in the form of [Model.ParseSettings], the one with the highest precedence
// first. A level counts if no earlier place sets one. A setting of a gate counts if no earlier place mentions that gate. Between a
// gate and AllAlpha, AllBeta or the level, the table of precedence decides, from whichever places they come.
//
// The findings are by place, in the order of the places. If a feature is on while one that it requires is off, the finding is at
// the place that turns it on.
func (m *Model) ParseLayers(layers ...map[string]string) (*Settings, []Findings) {
	merged := &Settings{gates: map[string]says{}}
	parsers := make([]*settingsParser, len(layers))
	from := map[string]*settingsParser{}
	for i, data := range layers {
		p := m.parseData(data)
		parsers[i] = p
		merged.level = cmp.Or(merged.level, p.settings.level)
		for gate, s := range p.settings.gates {
			if _, ok := merged.gates[gate]; !ok {
				merged.gates[gate], from[gate] = s, p
			}
		}
	}
	m.findUnmet(merged, func(gate, other string) { from[gate].reportNeeds(gate, other) })
	out := make([]Findings, len(layers))
	for i, p := range parsers {
		out[i] = p.sortedList()
	}
	return merged, out
}

// Pin returns settings with which some features stay as they are in the given states, because processes apply a change of them only
// at the next start. Locks, maxLevel, requirements and required processes still count. The settings may be nil; Pin does not change
// them.
func (s *Settings) Pin(states *States, gates ...string) *Settings {
	out := &Settings{pins: map[string]bool{}}
	if s != nil {
		out.level, out.gates = s.level, s.gates
		maps.Copy(out.pins, s.pins)
	}
	for _, gate := range gates {
		if st := states.byGate[gate]; st != nil {
			out.pins[gate] = st.own
		}
	}
	return out
}

// pinnedValue returns the value that a feature had when it was pinned, without the features that it requires.
func (s *Settings) pinnedValue(gate string) (own, ok bool) {
	if s == nil {
		return false, false
	}
	own, ok = s.pins[gate]
	return own, ok
}

// Restart returns the gates of features whose changes need a restart of processes: those that say so, and those that they require
// or that imply them, sorted.
func (m *Model) Restart() []string {
	found := map[string]bool{}
	var add func(f *Feature)
	add = func(f *Feature) {
		if f == nil || found[f.Spec.Gate] {
			return
		}
		found[f.Spec.Gate] = true
		for _, gate := range slices.Concat(f.Spec.Requires, f.Spec.ImpliedBy) {
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
