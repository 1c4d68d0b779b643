// Package featuretest turns features on and off in tests.
//
//	gates := featuretest.New(t, Features, gate.Options{}, featuretest.Values{"FastPath": true}) // of the test's own
//	featuretest.Set(t, gates, "Cache", false)                                                    // until the test ends
//	featuretest.Run(t, gates, featuretest.All(gates), func(t *testing.T) { ... })
//	featuretest.RunParallel(t, Features, gate.Options{}, featuretest.All, func(t *testing.T, gates *gate.Gates) { ... })
//
// It promises:
//   - a test that asks for a feature that it has not set fails, if its gates come from [New] or it is run by [Run] or
//     [RunParallel]. So no test changes its meaning when a default flips;
//   - it reverts the settings of a test when the test ends;
//   - tests that set features of the same gates at the same time fail with a clear error.
//
// Settings of a test take precedence over flags, environment, files and ConfigMap. Processes that a feature requires count as
// having it on.
//
// A test asks for a feature when it calls Enabled or State, or reads a report. It also asks through the states, an evaluator or the
// gate of component-base that the gates have returned, or a copy of these. An evaluator asks for the features that the object uses.
// Asking for a feature that is on asks for the features that it requires as well. The package does not notice metrics, and values
// that were read before it began to watch.
package featuretest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/component-base/featuregate"

	"sluice.dev/feature/gate"
	"sluice.dev/feature/matrix"
)

// Values sets features on or off.
type Values map[featuregate.Feature]bool

// String writes values as --feature-gates takes them, sorted.
func (v Values) String() string {
	entries := make([]string, 0, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		entries = append(entries, fmt.Sprintf("%s=%t", name, v[name]))
	}
	return strings.Join(entries, ",")
}

// New returns gates for one test, with the given features set. Asking for another one fails the test. Options.Gate must be nil:
// others could read and set it unnoticed.
func New(t testing.TB, d gate.Declaration, o gate.Options, values Values) *gate.Gates {
	t.Helper()
	if o.Gate != nil {
		t.Fatalf("featuretest: Options.Gate has to be nil: each test has its own gates")
	}
	g, err := gate.New(d, o)
	if err != nil {
		t.Fatalf("featuretest: %v", err)
	}
	holderOf(g).mine = t
	t.Cleanup(func() { holders.Delete(g) })
	NoDefaults(t, g)
	if len(values) > 0 {
		setFeatures(t, g, &Case{Values: values})
	}
	return g
}

// Set turns a feature on or off until the test ends. It fails the test in three cases: another running test, of which this one is not a
// part, has set features of the same gates; the test is parallel and the gates are not its own; or the feature cannot have this value,
// and the message says why. Set the features that it requires first.
func Set(t testing.TB, g *gate.Gates, name featuregate.Feature, value bool) {
	t.Helper()
	setFeatures(t, g, &Case{Values: Values{name: value}})
}

// NoDefaults fails the test if it asks for a feature that no test has set, or that was not declared, until it ends. A feature that
// cannot be set, or that can only have one value, need not be set. Tests that run at the same time need gates of their own: it fails a
// parallel test if the gates are not.
func NoDefaults(t testing.TB, g *gate.Gates) {
	t.Helper()
	h := holderOf(g)
	h.failIfShared(t)
	var mu sync.Mutex
	told := map[featuregate.Feature]bool{}
	stop := g.Observe(func(name featuregate.Feature) {
		m := g.Model()
		f := m.Feature(string(name))
		if f != nil && (h.isSet(name) || !matrix.Choosable(m, f)) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case told == nil || told[name]: // told is nil when the test has ended
		case f == nil:
			t.Errorf("featuretest: the test asks for feature %s, which was not declared", name)
		default:
			t.Errorf("featuretest: the test asks for feature %s and has not set it: it would change its meaning with the default", name)
		}
		if told != nil {
			told[name] = true
		}
	})
	t.Cleanup(func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		told = nil
	})
}

// holder has the state of gates that tests set.
type holder struct {
	mu     sync.Mutex
	mine   testing.TB // the test that made them, if one did
	owners []testing.TB
	cases  []Case // of each owner, what those before it set included
}

// holders are those of all gates that tests have touched.
var holders sync.Map // *gate.Gates to *holder

// holderOf returns the state of gates. Tests share it through the gates, which they may have in a variable of
// their package.
func holderOf(g *gate.Gates) *holder {
	h, _ := holders.LoadOrStore(g, &holder{})
	out, _ := h.(*holder)
	return out
}

// isSet reports whether the test that has set features last, or one around it, has set this one.
func (h *holder) isSet(name featuregate.Feature) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.cases) == 0 {
		return false
	}
	_, ok := h.cases[len(h.cases)-1].Values[name]
	return ok
}

// failIfShared fails a parallel test whose gates are not its own.
func (h *holder) failIfShared(t testing.TB) {
	t.Helper()
	if (h.mine == nil || !isPartOf(t, h.mine)) && isParallel(t) {
		t.Fatalf("featuretest: a parallel test uses gates that it shares: it needs gates of its own (featuretest.New)")
	}
}

// isPartOf reports whether t is owner, or a part of it.
func isPartOf(t, owner testing.TB) bool {
	return t.Name() == owner.Name() || strings.HasPrefix(t.Name(), owner.Name()+"/")
}

// pushCase notes that a test sets features, and returns them with those that the tests around it have set. before is how many
// cases there were. It fails the test if others may not be set at the same time.
func (h *holder) pushCase(t testing.TB, c *Case) (next Case, before int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock() // also if a test is failed, which ends its goroutine
	if n := len(h.owners); n > 0 && !isPartOf(t, h.owners[n-1]) {
		t.Fatalf("featuretest: %s has set features of the same gates and has not ended: tests that run at the same time need gates of their own (featuretest.New)", h.owners[n-1].Name())
	}
	h.failIfShared(t)
	next, before = Case{Level: c.Level, Values: Values{}}, len(h.cases)
	if before > 0 {
		next.Level = cmp.Or(c.Level, h.cases[before-1].Level)
		maps.Copy(next.Values, h.cases[before-1].Values)
	}
	maps.Copy(next.Values, c.Values)
	h.owners, h.cases = append(h.owners, t), append(h.cases, next)
	return next, before
}

// setFeatures sets features, and the level if the case has one.
func setFeatures(t testing.TB, g *gate.Gates, c *Case) {
	t.Helper()
	h := holderOf(g)
	next, before := h.pushCase(t, c)
	t.Cleanup(func() {
		h.mu.Lock()
		h.owners, h.cases = slices.Delete(h.owners, before, len(h.owners)), slices.Delete(h.cases, before, len(h.cases))
		var back map[string]string
		if before > 0 {
			back = h.cases[before-1].settingsData(g)
		}
		h.mu.Unlock()
		g.Set(gate.Test, back, "")
	})
	var problems []string
	for _, p := range g.Set(gate.Test, next.settingsData(g), "") {
		problems = append(problems, p.Message)
	}
	// Settings without an error may still have no effect, such as on a feature that requires one which is off.
	if problems == nil {
		for name, want := range c.Values {
			if s, ok := g.State(name); !ok || s.Open != want {
				problems = append(problems, fmt.Sprintf("%s cannot be set to %t: %s", name, want, s.Reason))
			}
		}
	}
	if problems != nil {
		slices.Sort(problems)
		t.Fatalf("featuretest: %s", strings.Join(problems, "; "))
	}
}

// isParallel reports whether a test is parallel, or part of one that is, and keeps it from becoming so: testing refuses to set
// the environment of such a test.
func isParallel(t testing.TB) (parallel bool) {
	defer func() { parallel = recover() != nil }()
	t.Setenv("SLUICE_FEATURETEST", t.Name())
	return false
}
