package featuretest_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

func declaration(n int, more ...v1alpha1.FeatureSpec) gate.Declaration {
	d := gate.Declaration{Name: "demo", Spec: v1alpha1.ComponentSpec{Release: "v1.2.0"}}
	for i := range n {
		d.Features = append(d.Features, v1alpha1.FeatureSpec{Gate: fmt.Sprintf("F%03d", i)})
	}
	d.Features = append(d.Features, more...)
	for i := range d.Features {
		if d.Features[i].Stages == nil {
			d.Features[i].Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
		}
	}
	return d
}

// trial stands in for a test that is to fail.
type trial struct {
	testing.TB

	name     string
	parallel bool
	errors   []string
	cleanups []func()
}

func (t *trial) Helper()          {}
func (t *trial) Name() string     { return t.name }
func (t *trial) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *trial) Setenv(string, string) {
	if t.parallel {
		panic("testing: t.Setenv in a parallel test")
	}
}

func (t *trial) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// run runs a test to its end; clean ends it.
func (t *trial) run(test func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(t)
	}()
	<-done
}

func (t *trial) clean() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

func (t *trial) failed(words ...string) bool {
	return len(t.errors) == 1 && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(t.errors[0], w) })
}

func newGates(t *testing.T, d gate.Declaration) *gate.Gates {
	t.Helper()
	g, err := gate.New(d, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWhatATestSetsIsTakenBack(t *testing.T) {
	g := newGates(t, declaration(2, v1alpha1.FeatureSpec{Gate: "Waits", RequiredProcesses: []string{"webhook"}}, v1alpha1.FeatureSpec{Gate: "Restart", NeedsRestart: true}))
	g.Set(gate.ConfigMap, map[string]string{"f000": "true"}, "")
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	show := func() string {
		var out []string
		for _, s := range g.States().All() {
			if s.Open {
				out = append(out, s.Feature.Spec.Gate)
			}
		}
		return strings.Join(out, " ")
	}
	t.Run("outer", func(t *testing.T) {
		featuretest.Set(t, g, "F001", true)
		featuretest.Set(t, g, "Waits", true)
		featuretest.Set(t, g, "Restart", true)
		t.Run("inner", func(t *testing.T) {
			featuretest.Set(t, g, "F000", false)
			featuretest.Set(t, g, "F001", false)
			if got := show(); got != "Restart Waits" {
				t.Errorf("inside: %s", got)
			}
		})
		if got := show(); got != "F000 F001 Restart Waits" {
			t.Errorf("between: %s", got)
		}
	})
	if got := show(); got != "F000" {
		t.Errorf("afterwards: %s", got)
	}
}

func TestMisuseFailsTheTest(t *testing.T) {
	d := declaration(2,
		v1alpha1.FeatureSpec{Gate: "Needy", Requires: []string{"F000"}},
		v1alpha1.FeatureSpec{Gate: "Locked", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Stable, Release: "v1.0.0", LockToDefault: true}}})
	for _, tt := range []struct {
		name  string
		test  func(t testing.TB, g *gate.Gates)
		words []string
	}{
		{"a locked feature", func(t testing.TB, g *gate.Gates) { featuretest.Set(t, g, "Locked", false) }, []string{"Locked", "for good"}},
		{"an unknown one", func(t testing.TB, g *gate.Gates) { featuretest.Set(t, g, "F00", true) }, []string{`did you mean "F000"`}},
		{"without what it requires", func(t testing.TB, g *gate.Gates) { featuretest.Set(t, g, "Needy", true) }, []string{"requires F000"}},
		{"a default", func(t testing.TB, g *gate.Gates) {
			featuretest.NoDefaults(t, g)
			featuretest.Set(t, g, "F000", true)
			for range 3 {
				g.Enabled("F000")
				g.Enabled("F001")
				g.Enabled("Locked")
			}
		}, []string{"F001", "has not set it"}},
	} {
		g := newGates(t, d)
		r := &trial{name: "Test"}
		r.run(func(t testing.TB) { tt.test(t, g) })
		r.clean()
		if !r.failed(tt.words...) {
			t.Errorf("%s: errors %q", tt.name, r.errors)
		}
		// Nothing is left of it.
		r = &trial{name: "TestOther"}
		r.run(func(t testing.TB) {
			g.Enabled("F001")
			featuretest.Set(t, g, "F001", true)
		})
		if r.clean(); r.errors != nil {
			t.Errorf("%s: the next test: %q", tt.name, r.errors)
		}
	}
}

func TestParallelMisuseIsDetected(t *testing.T) {
	g := newGates(t, declaration(2))
	first, second, third := &trial{name: "TestA"}, &trial{name: "TestB"}, &trial{name: "TestC", parallel: true}
	first.run(func(t testing.TB) { featuretest.Set(t, g, "F000", true) })
	second.run(func(t testing.TB) { featuretest.Set(t, g, "F001", true) })
	if !second.failed("TestA", "gates of their own") {
		t.Errorf("two at a time: %q", second.errors)
	}
	second.clean()
	if !g.Enabled("F000") {
		t.Error("the first test has lost its feature")
	}
	first.clean()
	third.run(func(t testing.TB) { featuretest.Set(t, g, "F000", true) })
	if !third.failed("parallel", "featuretest.New") {
		t.Errorf("a parallel test: %q", third.errors)
	}
	third.clean()

	// With gates of its own it may.
	own := &trial{name: "TestD", parallel: true}
	own.run(func(t testing.TB) {
		g := featuretest.New(t, declaration(2), gate.Options{}, featuretest.Values{"F000": true})
		featuretest.Set(t, g, "F001", true)
		if !g.Enabled("F000") || !g.Enabled("F001") {
			t.Errorf("not on")
		}
	})
	if own.clean(); own.errors != nil {
		t.Errorf("gates of its own: %q", own.errors)
	}
}

func TestNewFailsATestThatReliesOnADefault(t *testing.T) {
	r := &trial{name: "Test"}
	r.run(func(t testing.TB) { featuretest.New(t, declaration(2), gate.Options{}, nil).Enabled("F001") })
	if r.clean(); !r.failed("F001") {
		t.Errorf("errors %q", r.errors)
	}
}

// related has features of all kinds.
func related() gate.Declaration {
	stable := []v1alpha1.FeatureStage{{Stage: v1alpha1.Stable, Release: "v1.0.0", LockToDefault: true}}
	no := false
	off := []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v1.0.0", Default: &no, LockToDefault: true}}
	return declaration(0,
		v1alpha1.FeatureSpec{Gate: "A"}, v1alpha1.FeatureSpec{Gate: "B", Requires: []string{"A"}}, v1alpha1.FeatureSpec{Gate: "C", Requires: []string{"B", "On"}},
		v1alpha1.FeatureSpec{Gate: "D", ImpliedByLevel: true}, v1alpha1.FeatureSpec{Gate: "On", Stages: stable}, v1alpha1.FeatureSpec{Gate: "Off", Stages: off},
		v1alpha1.FeatureSpec{Gate: "Never", Requires: []string{"Off"}}, v1alpha1.FeatureSpec{Gate: "E", RequiredProcesses: []string{"x"}})
}

func TestCases(t *testing.T) {
	d := related()
	d.Spec.DefaultLevel = v1alpha1.LevelAlpha
	g := newGates(t, d)
	show := func(cases []featuretest.Case) (out []string) {
		for _, c := range cases {
			var on []string
			for _, name := range slices.Sorted(maps.Keys(c.Values)) {
				if c.Values[name] {
					on = append(on, string(name))
				}
			}
			out = append(out, c.Name+": "+strings.Join(on, " "))
		}
		return out
	}
	want := []string{"all off: ", "all on: A B C D E", "A: A", "B with A: A B", "C with A and B: A B C", "D: D", "E: E"}
	if diff := cmp.Diff(want, show(slices.Concat(featuretest.AllOff(g), featuretest.AllOn(g), featuretest.EachAlone(g)))); diff != "" {
		t.Error(diff)
	}
	ran := 0
	cases := featuretest.All(g)
	featuretest.Run(t, g, cases, func(t *testing.T) {
		for name, on := range cases[ran].Values {
			if g.Enabled(name) != on {
				t.Errorf("%s is %t", name, !on)
			}
		}
		ran++
	})
	if ran != len(cases) || ran < 7 {
		t.Errorf("%d of %d cases ran", ran, len(cases))
	}
}

func TestPairsCoverAllPairs(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    gate.Declaration
		most int
		not  map[string]bool // ways that requirements rule out
	}{
		{name: "none", d: declaration(0), most: 0},
		{name: "one", d: declaration(1), most: 0},
		{name: "two", d: declaration(2), most: 4},
		{name: "twenty", d: declaration(20), most: 12},
		{name: "two hundred", d: declaration(200), most: 24},
		{name: "related", d: related(), most: 8, not: map[string]bool{
			"A=false B=true": true, "A=false C=true": true, "B=false C=true": true,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGates(t, tt.d)
			cases := featuretest.Pairs(g)
			if len(cases) > tt.most {
				t.Errorf("%d cases, want %d at most", len(cases), tt.most)
			}
			t.Logf("%d cases", len(cases))
			seen := map[string]bool{}
			var names []featuregate.Feature
			for _, c := range cases {
				names = slices.Sorted(maps.Keys(c.Values))
				for i, a := range names {
					for _, b := range names[i+1:] {
						seen[fmt.Sprintf("%s=%t %s=%t", a, c.Values[a], b, c.Values[b])] = true
					}
				}
			}
			n := len(names)
			if want := n*(n-1)/2*4 - len(tt.not); len(seen) != want {
				t.Errorf("%d ways, want %d", len(seen), want)
			}
			for way := range tt.not {
				if seen[way] {
					t.Errorf("%s is against a requirement", way)
				}
			}
			if diff := cmp.Diff(cases, featuretest.Pairs(g)); diff != "" {
				t.Errorf("another time they are different: %s", diff)
			}
		})
	}
}
