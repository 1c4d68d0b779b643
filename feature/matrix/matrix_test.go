package matrix

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// modelOf has n features that can be set; requires names what feature i requires.
func modelOf(t *testing.T, n int, requires func(i int) []int) *feature.Model {
	t.Helper()
	var c v1alpha1.Component
	c.Name, c.Spec.Release = "demo", "v1.2.0"
	name := func(i int) string { return fmt.Sprintf("F%03d", i) }
	var list []v1alpha1.Feature
	for i := range n {
		var f v1alpha1.Feature
		f.Name = feature.ObjectName("demo", name(i))
		f.Spec = v1alpha1.FeatureSpec{Component: "demo", Gate: name(i), FollowsLevel: new(true), Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}}
		if i%3 == 0 {
			f.Spec.Stages = append(f.Spec.Stages, v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.1.0"})
		}
		if requires != nil {
			for _, k := range requires(i) {
				f.Spec.Requires = append(f.Spec.Requires, name(k))
			}
		}
		list = append(list, f)
	}
	m, findings := feature.Define(&c, list, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// ways are all ways in which two features come together in cases.
func ways(cases []Case) map[string]bool {
	seen := map[string]bool{}
	for _, c := range cases {
		names := slices.Sorted(maps.Keys(c.Values))
		for i, a := range names {
			for _, b := range names[i+1:] {
				seen[fmt.Sprintf("%s=%t %s=%t", a, c.Values[a], b, c.Values[b])] = true
			}
		}
	}
	return seen
}

// legal are all combinations that honour what features require, by brute force.
func legal(m *feature.Model) (out []Case) {
	features := m.Features()
	for bits := range 1 << len(features) {
		c := Case{Values: map[string]bool{}}
		for i, f := range features {
			c.Values[f.Spec.Gate] = bits>>i&1 == 1
		}
		if honours(m, &c) {
			out = append(out, c)
		}
	}
	return out
}

func honours(m *feature.Model, c *Case) bool {
	for _, f := range m.Features() {
		for _, r := range f.Spec.Requires {
			if c.Values[f.Spec.Gate] && !c.Values[r] {
				return false
			}
		}
	}
	return true
}

// TestPairsCoverEveryLegalPair compares the pairs of random graphs of requirements with those of all legal combinations.
func TestPairsCoverEveryLegalPair(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(9)
		m := modelOf(t, n, func(i int) (out []int) {
			for k := range i {
				if r.IntN(2*n) < 3 && (i%3 != 0 || k%3 == 0) { // beta does not require alpha
					out = append(out, k)
				}
			}
			return out
		})
		cases := Pairs(m)
		got, want := ways(cases), ways(legal(m))
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: %d ways, %d are legal", seed, len(got), len(want))
		}
		for _, c := range All(m) {
			if !honours(m, &c) {
				t.Fatalf("seed %d: the case %s is against a requirement", seed, c.Name)
			}
		}
		for i := range cases {
			if len(ways(slices.Delete(slices.Clone(cases), i, i+1))) == len(got) {
				t.Errorf("seed %d: nobody needs the case %s", seed, cases[i].Name)
			}
		}
	}
}

// TestFewest compares the formula with the known sizes of binary covering arrays of strength 2.
func TestFewest(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 4, 3: 4, 4: 5, 5: 6, 10: 6, 11: 7, 15: 7, 16: 8, 20: 8, 35: 8, 36: 9, 56: 9, 57: 10, 100: 10, 126: 10, 127: 11, 210: 11, 211: 12} {
		if got := Fewest(n); got != want {
			t.Errorf("%d features take %d cases, not %d", n, got, want)
		}
	}
}

// TestNoFewerCasesCoverAllPairs of features that require nothing, and holds the table of the page against what is chosen.
func TestNoFewerCasesCoverAllPairs(t *testing.T) {
	page, err := os.ReadFile("../../docs/features-life.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 3, 4, 5, 10, 11, 20, 35, 36, 100, 200} {
		cases := Pairs(modelOf(t, n, nil))
		if len(cases) != Fewest(n) || len(ways(cases)) != n*(n-1)*2 {
			t.Errorf("%d features: %d cases with %d ways, want %d with %d", n, len(cases), len(ways(cases)), Fewest(n), n*(n-1)*2)
		}
	}
	for _, n := range []int{10, 20, 100} {
		free, tree := modelOf(t, n, nil), modelOf(t, n, halves)
		row := fmt.Sprintf("| %d | %d | %d | %d |\n", n, len(Pairs(free)), Fewest(n), len(Pairs(tree)))
		if !strings.Contains(string(page), row) {
			t.Errorf("the page does not have the row %s", row)
		}
	}
}

// halves has each third feature require the one of half its number that is as far as it.
func halves(i int) []int {
	if i%3 != 0 || i == 0 {
		return nil
	}
	return []int{i / 2 / 3 * 3}
}

func TestCasesOfDefaultsAndLevels(t *testing.T) {
	m := modelOf(t, 4, nil) // F000 and F003 are beta
	show := func(cases []Case) (out []string) {
		for _, c := range cases {
			text := c.Name + ":"
			for _, name := range slices.Sorted(maps.Keys(c.Values)) {
				if c.Values[name] {
					text += " " + name
				}
			}
			out = append(out, text)
		}
		return out
	}
	want := []string{"defaults:", "level stable:", "level beta: F000 F003", "level alpha: F000 F001 F002 F003"}
	if got := show(slices.Concat(Defaults(m), Levels(m))); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// Each combination comes once.
	want = []string{"all off:", "level beta: F000 F003", "level alpha: F000 F001 F002 F003", "all on: F000 F001 F002 F003"}
	if got := show(All(m, "off", "defaults", "levels", "on")); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestCodeThatReadsTheLevelIsTested with each level: a level is a case of its own, even if it opens the same features as another case.
func TestCodeThatReadsTheLevelIsTested(t *testing.T) {
	m := modelOf(t, 4, nil)
	var got []string
	for _, c := range All(m, "on", "levels") {
		got = append(got, c.Name+": "+c.Settings(m.Spec())["enable-api-fields"])
	}
	if want := []string{"level stable: stable", "level beta: beta", "level alpha: alpha", "all on: stable"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// The convention of Kubernetes has no level, and its key is unknown.
	c := v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.2.0", Convention: v1alpha1.ConventionKubernetes}}
	c.Name = "demo"
	f := v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{Component: "demo", Gate: "One", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}}}
	f.Name = "demo.one"
	m, findings := feature.Define(&c, []v1alpha1.Feature{f}, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range All(m) {
		if _, findings := m.ParseSettings(c.Settings(m.Spec())); findings.Err() != nil {
			t.Errorf("%s: %v", c.Name, findings)
		}
	}
}
