package featuretest_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
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

// TestRelyingOnADefaultFails goes through the ways in which a test may ask for a feature: each fails it while the feature is not set,
// and none once it is.
func TestRelyingOnADefaultFails(t *testing.T) {
	d := declaration(2, v1alpha1.FeatureSpec{Gate: "Needy", Requires: []string{"Base"}},
		v1alpha1.FeatureSpec{Gate: "Base", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Stable, Release: "v1.0.0"}}},
		v1alpha1.FeatureSpec{Gate: "Part", Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "widgets", Field: "spec.mode"}}})
	uses := &feature.Request{Group: "demo.dev", Version: "v1", Resource: "widgets", Object: map[string]any{"spec": map[string]any{"mode": "fast"}}}
	for _, tt := range []struct {
		name string
		ask  func(t testing.TB, g *gate.Gates)
		says string
		set  featuretest.Values
	}{
		{"Enabled", func(_ testing.TB, g *gate.Gates) { g.Enabled("F001") }, "F001", featuretest.Values{"F001": true}},
		{"State", func(_ testing.TB, g *gate.Gates) { g.State("F001") }, "F001", featuretest.Values{"F001": false}},
		{"States", func(_ testing.TB, g *gate.Gates) { g.States().State("F001") }, "F001", featuretest.Values{"F001": true}},
		{"FeatureGate", func(_ testing.TB, g *gate.Gates) { g.FeatureGate().Enabled("F001") }, "F001", featuretest.Values{"F001": true}},
		{"a copy", func(_ testing.TB, g *gate.Gates) { g.FeatureGate().DeepCopy().Enabled("F001") }, "F001", featuretest.Values{"F001": true}},
		{"Evaluator", func(_ testing.TB, g *gate.Gates) { g.Evaluator().Evaluate(uses) }, "Part", featuretest.Values{"Part": true}},
		{"what is required", func(t testing.TB, g *gate.Gates) {
			featuretest.Set(t, g, "Needy", true)
			g.Enabled("Needy")
		}, "Base", featuretest.Values{"Base": true}},
		{"another goroutine", func(_ testing.TB, g *gate.Gates) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				g.Enabled("F001")
			}()
			<-done
		}, "F001", featuretest.Values{"F001": true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, set := range []featuretest.Values{nil, tt.set} {
				r := &trial{name: "Test"}
				r.run(func(t testing.TB) { tt.ask(t, featuretest.New(t, d, gate.Options{}, set)) })
				r.clean()
				if set == nil && !r.failed("asks for feature "+tt.says+" ") {
					t.Errorf("not set: errors %q", r.errors)
				}
				if set != nil && r.errors != nil {
					t.Errorf("set: errors %q", r.errors)
				}
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		for name, ask := range map[string]func(g *gate.Gates){"States": func(g *gate.Gates) { g.States().All() }, "Report": func(g *gate.Gates) { g.Report() }} {
			r := &trial{name: "Test"}
			r.run(func(t testing.TB) { ask(featuretest.New(t, d, gate.Options{}, featuretest.Values{"F001": true})) })
			r.clean()
			if len(r.errors) != 4 {
				t.Errorf("%s: errors %q", name, r.errors)
			}
		}
	})
	t.Run("what was not declared", func(t *testing.T) {
		r := &trial{name: "Test"}
		r.run(func(t testing.TB) { featuretest.New(t, d, gate.Options{}, nil).Enabled("F00") })
		r.clean()
		if !r.failed("F00, which was not declared") {
			t.Errorf("errors %q", r.errors)
		}
	})
	t.Run("after the end of the test", func(t *testing.T) {
		r := &trial{name: "Test"}
		var g *gate.Gates
		r.run(func(t testing.TB) { g = featuretest.New(t, d, gate.Options{}, nil) })
		r.clean()
		g.Enabled("F001")
		if r.errors != nil {
			t.Errorf("errors %q", r.errors)
		}
	})
}

func TestWhatCanHaveOneValueOnlyNeedNotBeSet(t *testing.T) {
	d := related()
	d.Spec.DefaultLevel = v1alpha1.LevelStable
	d.Features = append(d.Features, v1alpha1.FeatureSpec{
		Gate: "Stuck", ImpliedByLevel: true, Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "widgets", Field: "spec.x"}},
		Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Stable, Release: "v1.0.0"}},
	})
	featuretest.RunParallel(t, d, gate.Options{}, featuretest.All, func(t *testing.T, g *gate.Gates) {
		for name, want := range map[featuregate.Feature]bool{"On": true, "Off": false, "Never": false, "Stuck": true} {
			if g.Enabled(name) != want {
				t.Errorf("%s is %t", name, !want)
			}
		}
	})
}

// TestOptionsGateIsRefused: a gate that others have as well cannot be watched, and leaks.
func TestOptionsGateIsRefused(t *testing.T) {
	r := &trial{name: "Test"}
	r.run(func(t testing.TB) {
		featuretest.New(t, declaration(1), gate.Options{Gate: featuregate.NewVersionedFeatureGate(version.MajorMinor(1, 2))}, nil)
	})
	if r.clean(); !r.failed("Options.Gate") {
		t.Errorf("errors %q", r.errors)
	}
}

// TestParallelPartsWithOppositeGates has many parts run at the same time, each of which must see its own features all the time.
func TestParallelPartsWithOppositeGates(t *testing.T) {
	d := related()
	var running, most atomic.Int32
	t.Run("parts", func(t *testing.T) {
		for i := range 16 {
			on := i%2 == 0
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				g := featuretest.New(t, d, gate.Options{}, featuretest.Values{"A": on, "B": on, "D": !on})
				if err := g.Begin(); err != nil {
					t.Fatal(err)
				}
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				upstream := g.FeatureGate()
				for range 500 {
					if g.Enabled("A") != on || g.Enabled("B") != on || g.Enabled("D") == on || upstream.Enabled("A") != on || upstream.Enabled("D") == on {
						t.Fatal("a feature is as another part has set it")
					}
					runtime.Gosched()
				}
			})
		}
	})
	t.Logf("%d at a time", most.Load())
}

func TestRunParallel(t *testing.T) {
	d := related()
	var mu sync.Mutex
	names := map[string]int{}
	t.Run("all", func(t *testing.T) {
		featuretest.RunParallel(t, d, gate.Options{}, featuretest.All, func(t *testing.T, g *gate.Gates) {
			t.Parallel()
			mu.Lock()
			names[t.Name()]++
			mu.Unlock()
			if g.Enabled("B") && !g.Enabled("A") {
				t.Error("a requirement is not met")
			}
		})
	})
	if want := len(featuretest.All(newGates(t, d))); len(names) != want {
		t.Errorf("%d parts ran, want %d: %v", len(names), want, names)
	}
}

// TestNamesOfCases: names tell what is on, and are those of one case only.
func TestNamesOfCases(t *testing.T) {
	show := func(d gate.Declaration) (out []string) {
		for _, c := range featuretest.Pairs(newGates(t, d)) {
			out = append(out, c.Name)
		}
		return out
	}
	want := []string{"pairs/1 all", "pairs/2 F000", "pairs/3 F001", "pairs/4 none"}
	if diff := cmp.Diff(want, show(declaration(2))); diff != "" {
		t.Error(diff)
	}
	for _, n := range []int{2, 7, 20, 100} {
		seen := map[string]bool{}
		for _, c := range featuretest.All(newGates(t, declaration(n))) {
			if seen[c.Name] || strings.ContainsAny(c.Name, "#\"\\") {
				t.Errorf("%d features: the name %s", n, c.Name)
			}
			seen[c.Name] = true
		}
	}
	v := featuretest.Values{"B": false, "A": true}
	if got := v.String(); got != "A=true,B=false" {
		t.Errorf("values %s", got)
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
	fourth := &trial{name: "TestE", parallel: true}
	fourth.run(func(t testing.TB) { featuretest.NoDefaults(t, g) })
	if !fourth.failed("parallel", "featuretest.New") {
		t.Errorf("a parallel test that watches: %q", fourth.errors)
	}
	fourth.clean()

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

// TestCasesWithWhatIsImplied: each case can be set, so that a feature is on in it wherever one that implies it is.
func TestCasesWithWhatIsImplied(t *testing.T) {
	stable := []v1alpha1.FeatureStage{{Stage: v1alpha1.Stable, Release: "v1.0.0", LockToDefault: true}}
	g := newGates(t, declaration(0, v1alpha1.FeatureSpec{Gate: "A"}, v1alpha1.FeatureSpec{Gate: "B", ImpliedBy: []string{"A"}},
		v1alpha1.FeatureSpec{Gate: "C", Requires: []string{"B"}}, v1alpha1.FeatureSpec{Gate: "On", Stages: stable}, v1alpha1.FeatureSpec{Gate: "Stuck", ImpliedBy: []string{"On"}}))
	cases := slices.Concat(featuretest.All(g), featuretest.EachAlone(g), featuretest.Pairs(g))
	seen, ran := map[string]bool{}, 0
	featuretest.Run(t, g, cases, func(t *testing.T) {
		way := ""
		for _, name := range slices.Sorted(maps.Keys(cases[ran].Values)) {
			on := cases[ran].Values[name]
			if g.Enabled(name) != on {
				t.Errorf("%s is %t", name, !on)
			}
			way += fmt.Sprintf("%s=%t ", name, on)
		}
		seen[way] = true
		ran++
	})
	for _, want := range []string{"A=false B=false C=false ", "A=false B=true C=true ", "A=true B=true C=false ", "A=true B=true C=true "} {
		if !seen[want] {
			t.Errorf("there is no case %s", want)
		}
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
		{name: "twenty", d: declaration(20), most: 8},
		{name: "two hundred", d: declaration(200), most: 11},
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

// TestRunSetsTheLevel of a case for code that reads it, and none in a component whose convention has none.
func TestRunSetsTheLevel(t *testing.T) {
	d := declaration(1, v1alpha1.FeatureSpec{Gate: "Field", FollowsLevel: new(true)})
	g := newGates(t, d)
	got := map[string]v1alpha1.Level{}
	featuretest.Run(t, g, featuretest.All(g), func(t *testing.T) {
		got[t.Name()] = g.States().Level()
		featuretest.Set(t, g, "F000", true) // the level stays
		if again := g.States().Level(); again != got[t.Name()] {
			t.Errorf("the level is %s, and was %s", again, got[t.Name()])
		}
	})
	if got[t.Name()+"/level_alpha"] != v1alpha1.LevelAlpha || got[t.Name()+"/all_off"] != v1alpha1.LevelStable {
		t.Errorf("%v", got)
	}
	kubernetes := declaration(1)
	kubernetes.Spec.Convention = v1alpha1.ConventionKubernetes
	ran := 0
	featuretest.RunParallel(t, kubernetes, gate.Options{}, featuretest.All, func(*testing.T, *gate.Gates) { ran++ })
	if ran != 2 {
		t.Errorf("%d cases", ran)
	}
}
