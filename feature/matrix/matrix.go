// Package matrix chooses the combinations of features that tests run with: all off, the defaults, each level, all on, each feature
// alone, and pairs.
//
// A case sets every feature that can be set: neither locked, nor beyond maxLevel, nor yet to come. Each case honours what features
// require. The same model always gives the same cases. The package does not set features; featuretest and the settings do.
package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Case is one combination.
type Case struct {
	// Name says which it is, for the name of a test.
	Name string `json:"name"`
	// Level is the level of the settings, for code that reads it; empty for a component whose convention has none.
	Level v1alpha1.Level `json:"level,omitempty"`
	// Values are the features by gate, and whether they are on.
	Values map[string]bool `json:"values"`
}

// Gates are the values in the form of --feature-gates, sorted.
func (c *Case) Gates() string {
	var list []string
	for gate, on := range c.Values {
		list = append(list, fmt.Sprintf("%s=%t", gate, on))
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// Settings are the case as the data of the component's ConfigMap.
func (c *Case) Settings(spec *v1alpha1.ComponentSpec) map[string]string {
	out := map[string]string{spec.GatesKey: c.Gates()}
	if c.Level != "" {
		out[spec.LevelKey] = string(c.Level)
	}
	return out
}

// Kind is a way of choosing cases.
type Kind struct {
	Name  string
	Cases func(*feature.Model) []Case
}

// Kinds are all ways of choosing cases, in the order of [All].
func Kinds() []Kind {
	return []Kind{{"off", Off}, {"defaults", Defaults}, {"levels", Levels}, {"on", On}, {"alone", Alone}, {"pairs", Pairs}}
}

// All are the cases of some kinds, of all if none is named. It contains each combination once, under its first name. Kinds that do not
// exist have no cases.
func All(m *feature.Model, kinds ...string) (out []Case) {
	for _, k := range Kinds() {
		if len(kinds) > 0 && !slices.Contains(kinds, k.Name) {
			continue
		}
		for _, c := range k.Cases(m) {
			if !slices.ContainsFunc(out, func(o Case) bool { return o.Level == c.Level && maps.Equal(o.Values, c.Values) }) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Off is one case: every feature off.
func Off(m *feature.Model) []Case { return newChoices(m).constantCase("all off", off) }

// On is one case: every feature on.
func On(m *feature.Model) []Case { return newChoices(m).constantCase("all on", on) }

// Defaults is one case: the features that are on if nothing is set, and all required processes agree.
func Defaults(m *feature.Model) []Case { return []Case{newChoices(m).resolvedCase(m, "defaults", nil)} }

// Levels has a case for each level up to the component's maxLevel: the features that are on if only the level is set.
func Levels(m *feature.Model) (out []Case) {
	c := newChoices(m)
	for _, level := range []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha} {
		settings, findings := m.ParseSettings(map[string]string{m.Spec().LevelKey: string(level)})
		if findings.Err() == nil {
			out = append(out, c.resolvedCase(m, "level "+string(level), settings))
		}
	}
	return out
}

// Alone has a case for each feature, in which it is on and all others are off but those that it requires.
func Alone(m *feature.Model) (out []Case) {
	c := newChoices(m)
	for i, name := range c.names {
		row := c.newRow()
		row.setChoice(i, on)
		row.fillOpen(off)
		label := name
		if with := c.requiredNames(i); with != nil {
			label += " with " + strings.Join(with, " and ")
		}
		out = append(out, Case{label, c.level, row.valuesByName()})
	}
	return out
}

// choice is the choice for a feature.
type choice byte

const (
	open choice = iota
	off
	on
)

// choices are the features that can be set, with their requirements. A feature turns on the features that it implies, and needs those
// that it requires: here, both count as requirements.
type choices struct {
	names    []string // sorted as the model has them
	requires [][]int  // all that each requires, of those that can be set
	needed   [][]int  // all that require each
	// level is stable, at which only the choices open features; empty for a component whose convention has no levels.
	level v1alpha1.Level
}

// newChoices collects the features that can be set, and what each requires of the others, directly or not. A
// feature that implies another one cannot be on without it, so the implied one counts as required.
func newChoices(m *feature.Model) *choices {
	c := &choices{}
	if m.Spec().Convention.HasLevel() {
		c.level = v1alpha1.LevelStable
	}
	index := map[string]int{}
	for _, f := range m.Features() {
		if Choosable(m, f) {
			index[f.Spec.Gate] = len(c.names)
			c.names = append(c.names, f.Spec.Gate)
		}
	}
	implies := map[string][]string{}
	for _, f := range m.Features() {
		for _, gate := range f.Spec.ImpliedBy {
			implies[gate] = append(implies[gate], f.Spec.Gate)
		}
	}
	c.requires, c.needed = make([][]int, len(c.names)), make([][]int, len(c.names))
	for i, name := range c.names {
		seen := map[int]bool{}
		var add func(gate string)
		add = func(gate string) {
			for _, r := range slices.Concat(m.Feature(gate).Spec.Requires, implies[gate]) {
				if k, ok := index[r]; ok && !seen[k] {
					seen[k] = true
					add(r)
				}
			}
		}
		add(name)
		for _, k := range slices.Sorted(maps.Keys(seen)) {
			c.requires[i] = append(c.requires[i], k)
			c.needed[k] = append(c.needed[k], i)
		}
	}
	return c
}

// Choosable reports whether a feature can be turned on and off.
func Choosable(m *feature.Model, f *feature.Feature) bool {
	return f.Free() && !alwaysOpen(m, f) && !neverOpen(m, f, map[string]bool{})
}

// alwaysOpen reports whether every level opens the feature, whatever its key says, or one that is on for good implies it.
func alwaysOpen(m *feature.Model, f *feature.Feature) bool {
	everyLevel := f.Level == v1alpha1.LevelStable || f.Level == v1alpha1.LevelBeta && f.IsLifted()
	return f.Spec.ImpliedByLevel && everyLevel || slices.ContainsFunc(f.Spec.ImpliedBy, func(gate string) bool {
		o := m.Feature(gate)
		return o != nil && (o.Locked && o.Default || o.Free() && alwaysOpen(m, o))
	})
}

// neverOpen reports whether the feature requires one that is off for good.
func neverOpen(m *feature.Model, f *feature.Feature, seen map[string]bool) bool {
	for _, gate := range f.Spec.Requires {
		r := m.Feature(gate)
		if r == nil {
			return true
		}
		if seen[gate] {
			continue
		}
		seen[gate] = true
		if !r.Free() && (!r.Locked || !r.Default) || neverOpen(m, r, seen) {
			return true
		}
	}
	return false
}

// constantCase is the case in which every feature that can be set has one value.
func (c *choices) constantCase(name string, v choice) []Case {
	row := c.newRow()
	row.fillOpen(v)
	return []Case{{name, c.level, row.valuesByName()}}
}

// resolvedCase returns the case in which the settings decide which features are on.
func (c *choices) resolvedCase(m *feature.Model, name string, settings *feature.Settings) Case {
	states := m.Resolve(settings, feature.Runtime{AssumeProcesses: true})
	out := Case{name, c.level, map[string]bool{}}
	if out.Level != "" {
		out.Level = states.Level()
	}
	for _, gate := range c.names {
		s, _ := states.State(gate)
		out.Values[gate] = s.Open
	}
	return out
}

// requiredNames names what a feature requires.
func (c *choices) requiredNames(i int) (out []string) {
	for _, k := range c.requires[i] {
		out = append(out, c.names[k])
	}
	return out
}

func (c *choices) newRow() *row { return &row{c, make([]choice, len(c.names))} }

// row is an unfinished combination. Open features can be chosen freely, and a choice sets its requirements as well.
type row struct {
	choices *choices
	at      []choice
}

// setChoice turns a feature on with all that it requires, or off with all that require it.
func (r *row) setChoice(i int, v choice) {
	r.at[i] = v
	along := r.choices.requires[i]
	if v == off {
		along = r.choices.needed[i]
	}
	for _, k := range along {
		r.at[k] = v
	}
}

// fillOpen gives a value to the features that have none. It may set more than one at a time, because of what
// they require.
func (r *row) fillOpen(v choice) {
	for i := range r.at {
		if r.at[i] == open {
			r.setChoice(i, v)
		}
	}
}

func (r *row) valuesByName() map[string]bool {
	out := map[string]bool{}
	for i, name := range r.choices.names {
		out[name] = r.at[i] == on
	}
	return out
}

// labelOf lists the features that are on if they are few, or those that are off if they are few, and otherwise their number.
func (c *choices) labelOf(at []choice) string {
	const few = 5
	var is, not []string
	for i, name := range c.names {
		if at[i] == on {
			is = append(is, name)
		} else {
			not = append(not, name)
		}
	}
	switch {
	case len(is) == 0:
		return "none"
	case len(not) == 0:
		return "all"
	case len(is) <= few:
		return strings.Join(is, " and ")
	case len(not) <= few:
		return "all but " + strings.Join(not, " and ")
	}
	return fmt.Sprintf("%d of %d", len(is), len(c.names))
}
