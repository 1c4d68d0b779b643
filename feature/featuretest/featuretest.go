// Package featuretest turns features on and off in tests.
//
//	gates := featuretest.New(t, Features, nil)               // gates of the test's own: any number of tests in parallel
//	featuretest.Set(t, gates, "FastPath", true)              // for this test; taken back when it ends
//	featuretest.Run(t, gates, featuretest.All(gates), func(t *testing.T) { ... })
//
// It promises that a test which asks for a feature that it has not set fails, if its gates come from [New] or are run by
// [Run], so that no test changes its meaning when a default flips; that what a test sets is taken back when it ends; and that
// tests which set features of the same gates at the same time fail with a clear error. What a test sets wins over flags,
// environment, files and ConfigMap; processes that a feature requires count as having it on.
package featuretest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/component-base/featuregate"

	"sluice.dev/feature/gate"
)

// Values says which features are on.
type Values map[featuregate.Feature]bool

// New makes gates for one test, with the features that are given set. Asking for another fails the test.
func New(t testing.TB, d gate.Declaration, o gate.Options, values Values) *gate.Gates {
	t.Helper()
	g, err := gate.New(d, o)
	if err != nil {
		t.Fatalf("featuretest: %v", err)
	}
	holderOf(g).mine = t
	t.Cleanup(func() { holders.Delete(g) })
	NoDefaults(t, g)
	if len(values) > 0 {
		set(t, g, values, false)
	}
	return g
}

// Set turns a feature on or off until the test ends. It fails the test if another test, but for one of which this is a part,
// has set features of the same gates and has not ended, if the test is parallel while the gates are not its own, or if the
// feature cannot be set so: then it says why. What the feature requires is to be set before.
func Set(t testing.TB, g *gate.Gates, name featuregate.Feature, value bool) {
	t.Helper()
	set(t, g, Values{name: value}, false)
}

// NoDefaults fails the test if it asks for a feature that no test has set, until it ends.
func NoDefaults(t testing.TB, g *gate.Gates) {
	t.Helper()
	h := holderOf(g)
	var mu sync.Mutex
	told := map[featuregate.Feature]bool{}
	stop := g.Observe(func(name featuregate.Feature) {
		if h.isSet(name) || !free(g, name) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !told[name] {
			told[name] = true
			t.Errorf("featuretest: the test asks for feature %s and has not set it: it would change its meaning with the default", name)
		}
	})
	t.Cleanup(stop)
}

// free tells whether a feature can be set at all.
func free(g *gate.Gates, name featuregate.Feature) bool {
	s, ok := g.State(name)
	return ok && s.Feature.Free()
}

// holder is what is known of gates that tests set.
type holder struct {
	mu     sync.Mutex
	mine   testing.TB // the test that made them, if one did
	owners []testing.TB
	values []Values // of each owner, those before it included
}

// holders are those of all gates that tests have touched.
var holders sync.Map // *gate.Gates to *holder

func holderOf(g *gate.Gates) *holder {
	h, _ := holders.LoadOrStore(g, &holder{})
	out, _ := h.(*holder)
	return out
}

func (h *holder) isSet(name featuregate.Feature) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.values) == 0 {
		return false
	}
	_, ok := h.values[len(h.values)-1][name]
	return ok
}

// part tells whether t is owner, or a part of it.
func part(t, owner testing.TB) bool {
	return t.Name() == owner.Name() || strings.HasPrefix(t.Name(), owner.Name()+"/")
}

// set sets features; all tells that they are all that can be set.
func set(t testing.TB, g *gate.Gates, values Values, all bool) {
	t.Helper()
	h := holderOf(g)
	h.mu.Lock()
	locked := true
	defer func() {
		if locked {
			h.mu.Unlock()
		}
	}()
	if n := len(h.owners); n > 0 && !part(t, h.owners[n-1]) {
		t.Fatalf("featuretest: %s has set features of the same gates and has not ended: tests that run at the same time need gates of their own (featuretest.New)", h.owners[n-1].Name())
	}
	if (h.mine == nil || !part(t, h.mine)) && isParallel(t) {
		t.Fatalf("featuretest: a parallel test sets features of gates that it shares: it needs gates of its own (featuretest.New)")
	}
	next := Values{}
	if n := len(h.values); n > 0 {
		maps.Copy(next, h.values[n-1])
	}
	maps.Copy(next, values)
	before := len(h.values)
	h.owners, h.values = append(h.owners, t), append(h.values, next)
	h.mu.Unlock()
	locked = false
	t.Cleanup(func() {
		h.mu.Lock()
		h.owners, h.values = slices.Delete(h.owners, before, len(h.owners)), slices.Delete(h.values, before, len(h.values))
		var back Values
		if before > 0 {
			back = h.values[before-1]
		}
		h.mu.Unlock()
		g.Set(gate.Test, data(g, back, false), "")
	})
	var problems []string
	for _, p := range g.Set(gate.Test, data(g, next, all), "") {
		problems = append(problems, p.Message)
	}
	for name, want := range values {
		if s, ok := g.State(name); problems == nil && (!ok || s.Open != want) {
			problems = append(problems, fmt.Sprintf("%s cannot be set to %t: %s", name, want, s.Reason))
		}
	}
	if problems != nil {
		slices.Sort(problems)
		t.Fatalf("featuretest: %s", strings.Join(problems, "; "))
	}
}

// isParallel tells whether a test is parallel, or part of one that is, and keeps it from becoming so: testing refuses to set
// the environment of such a test.
func isParallel(t testing.TB) (parallel bool) {
	defer func() { parallel = recover() != nil }()
	t.Setenv("SLUICE_FEATURETEST", t.Name())
	return false
}

// data writes values as settings; nil for none. Where all are set the level has no say.
func data(g *gate.Gates, values Values, all bool) map[string]string {
	if values == nil {
		return nil
	}
	spec := g.Model().Spec()
	entries := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		entries = append(entries, fmt.Sprintf("%s=%t", name, values[name]))
	}
	out := map[string]string{spec.GatesKey: strings.Join(entries, ",")}
	if all {
		out[spec.LevelKey] = "stable"
	}
	return out
}
