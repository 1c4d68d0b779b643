package featuretest

// With which combinations of features does a test run? Package matrix chooses them; here each becomes a part
// of the test, with its gates set.

import (
	"testing"

	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/matrix"
)

// Case is a choice for all features that can be set: neither locked, nor beyond maxLevel, nor yet to come.
type Case struct {
	// Name identifies the case in the name of a test.
	Name string
	// Level is the level of the settings, for code that reads it ([feature.States.Level]). Empty stands for stable, and for no level in a
	// component whose convention has none.
	Level  v1alpha1.Level
	Values Values
}

// settingsData are the settings of a case.
func (c *Case) settingsData(g *gate.Gates) map[string]string {
	m := matrix.Case{Level: c.Level, Values: map[string]bool{}}
	for name, on := range c.Values {
		m.Values[string(name)] = on
	}
	return m.Settings(g.Model().Spec())
}

// Run runs a test once for each case, as parts of t, one after the other, with all features set as the case says. A part that asks for
// a feature that the case does not name fails. A part that fails prints the case in the form of --feature-gates.
func Run(t *testing.T, g *gate.Gates, cases []Case, test func(t *testing.T)) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			c.beginCase(t, g)
			test(t)
		})
	}
}

// RunParallel runs a test once for each case as Run does, but gives each its own gates, so that the parts may be parallel
// ([testing.T.Parallel]). cases makes the cases from such gates; [All] is an example.
func RunParallel(t *testing.T, d gate.Declaration, o gate.Options, cases func(*gate.Gates) []Case, test func(t *testing.T, g *gate.Gates)) {
	t.Helper()
	for _, c := range cases(New(t, d, o, nil)) {
		t.Run(c.Name, func(t *testing.T) {
			g := New(t, d, o, nil)
			c.beginCase(t, g)
			test(t, g)
		})
	}
}

// beginCase sets the features of the case.
func (c *Case) beginCase(t *testing.T, g *gate.Gates) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("featuretest: --feature-gates=%s", c.Values)
		}
	})
	NoDefaults(t, g)
	all := *c
	if all.Level == "" && g.Model().Spec().Convention.HasLevel() {
		all.Level = v1alpha1.LevelStable // only the values open features
	}
	setFeatures(t, g, &all)
}

// All are all cases of the other functions, each choice once.
func All(g *gate.Gates) []Case { return toCases(matrix.All(g.Model())) }

// AllOff is one case: every feature off.
func AllOff(g *gate.Gates) []Case { return casesOf(g, matrix.Off) }

// AllOn is one case: every feature on.
func AllOn(g *gate.Gates) []Case { return casesOf(g, matrix.On) }

// Defaults is one case: the features that are on if nothing is set, and all required processes agree.
func Defaults(g *gate.Gates) []Case { return casesOf(g, matrix.Defaults) }

// Levels has a case for each level: the features that are on if only the level is set.
func Levels(g *gate.Gates) []Case { return casesOf(g, matrix.Levels) }

// EachAlone has a case for each feature, in which it is on and all others are off but those that it requires.
func EachAlone(g *gate.Gates) []Case { return casesOf(g, matrix.Alone) }

// Pairs returns cases in which each two features come together in all possible ways, on and off. A fault that needs two features
// shows in one of them. Fewer than two features have no case; 20 features have 8 cases, 200 have 11 if none requires another. Equal
// features give equal cases.
func Pairs(g *gate.Gates) []Case { return casesOf(g, matrix.Pairs) }

func casesOf(g *gate.Gates, choose func(*feature.Model) []matrix.Case) []Case {
	return toCases(choose(g.Model()))
}

// toCases changes the type of the names, which package matrix keeps free of component-base.
func toCases(chosen []matrix.Case) (out []Case) {
	for _, c := range chosen {
		values := Values{}
		for name, on := range c.Values {
			values[featuregate.Feature(name)] = on
		}
		out = append(out, Case{c.Name, c.Level, values})
	}
	return out
}
