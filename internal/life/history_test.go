package life

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/rules"
	"sluice.dev/report"
)

// lives is a component over some releases: v1.0.0, v1.1.0 and so on, half a year after each other.
type lives struct {
	releases int
	features []Entry
	valued   []bool // the feature gates a value of an enum, not a field
	// announced are the releases that announce a change of the default, the oldest first; a later one takes the place of an earlier one.
	announced [][]string
}

const releasesOfLives = 6

func releaseOf(i int) string { return fmt.Sprintf("v1.%d.0", i) }

// dayOfRelease is the day of a release.
func dayOfRelease(i int) time.Time {
	return time.Date(2020, time.Month(1+6*i), 1, 0, 0, 0, 0, time.UTC)
}

// randomLives draws histories of features that package feature accepts. They are legal, or not.
func randomLives(r *rand.Rand) *lives {
	l := &lives{releases: releasesOfLives}
	order := []v1alpha1.Stage{v1alpha1.Alpha, v1alpha1.Beta, v1alpha1.Stable, v1alpha1.Deprecated, v1alpha1.Removed}
	for n := range 3 {
		e := Entry{UnknownValues: "x", Documentation: "https://example.com/x", Tests: Tests{On: []string{"A"}, Off: []string{"B"}}}
		e.Gate = string(rune('A' + n))
		l.valued = append(l.valued, n == 2)
		at := 0
		if r.IntN(3) == 0 {
			at = 1 + r.IntN(2)
		}
		was, announced := false, []string(nil)
		for release := r.IntN(3); release < releasesOfLives && len(e.Stages) < 5; release += 1 + r.IntN(2) {
			s := v1alpha1.FeatureStage{Stage: order[at], Release: releaseOf(release), LockToDefault: r.IntN(5) == 0}
			switch s.Stage {
			case v1alpha1.Beta:
				s.Default = new(r.IntN(2) == 0)
			case v1alpha1.Stable, v1alpha1.Alpha, v1alpha1.Deprecated, v1alpha1.Removed:
			}
			if s.Stage == v1alpha1.Alpha && n == 2 {
				s = v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: s.Release, Default: new(r.IntN(4) == 0), LockToDefault: true}
				at = 1
			}
			so := feature.Feature{Spec: v1alpha1.FeatureSpec{Stages: append(slices.Clone(e.Stages), s)}}
			now := so.Defaults()[len(e.Stages)]
			if now != was && r.IntN(2) == 0 {
				announced = append(announced, releaseOf(max(0, release-r.IntN(3))))
			}
			was = now
			e.Stages = append(e.Stages, s)
			if s.Stage == v1alpha1.Removed {
				if r.IntN(3) > 0 {
					e.Announced = map[string]string{"Removed": releaseOf(max(0, release-r.IntN(3)))}
				}
				break
			}
			if at += r.IntN(2); r.IntN(8) == 0 {
				at++
			}
			at = min(at, len(order)-1)
		}
		slices.Sort(announced)
		l.announced = append(l.announced, announced)
		path := "spec." + strings.ToLower(e.Gate)
		part := v1alpha1.Part{Group: "example.com", Resource: "things", Field: path}
		if l.valued[n] {
			part.Field, part.Values = "spec.mode", []string{e.Gate}
		}
		e.Parts = []v1alpha1.Part{part}
		l.features = append(l.features, e)
	}
	return l
}

// at is the state of the component as of a release: entries and announcements up to it, the fields of features that have begun and were
// not removed in an earlier release, and the values of those that have begun.
func (l *lives) at(t *testing.T, release int) *State {
	t.Helper()
	f := &File{Component: "things", Policy: "custom", Windows: map[v1alpha1.Stage]Window{v1alpha1.Alpha: {Releases: 1}, v1alpha1.Beta: {Releases: 1}, v1alpha1.Stable: {Releases: 2}}}
	f.Spec.Release = releaseOf(release)
	for i := range release + 1 {
		f.Releases = append(f.Releases, Release{releaseOf(i), dayOfRelease(i).Format(time.DateOnly)})
	}
	fields, modes := "other: {type: string}", "X"
	var objects []v1alpha1.Feature
	var specs []v1alpha1.FeatureSpec
	for i, e := range l.features {
		e.Stages = slices.DeleteFunc(slices.Clone(e.Stages), func(s v1alpha1.FeatureStage) bool { return isNewerRelease(s.Release, f.Spec.Release) })
		if len(e.Stages) == 0 {
			continue
		}
		e.Announced = maps.Clone(e.Announced)
		maps.DeleteFunc(e.Announced, func(_, r string) bool { return isNewerRelease(r, f.Spec.Release) })
		for _, r := range l.announced[i] {
			if !isNewerRelease(r, f.Spec.Release) {
				if e.Announced == nil {
					e.Announced = map[string]string{}
				}
				e.Announced["Default"] = r
			}
		}
		last := e.Stages[len(e.Stages)-1]
		switch {
		case l.valued[i]:
			modes += ", " + e.Gate
		case last.Stage != v1alpha1.Removed || !isNewerRelease(f.Spec.Release, last.Release):
			fields += ", " + strings.ToLower(e.Gate) + ": {type: string}"
		}
		f.Features = append(f.Features, e)
		spec := e.FeatureSpec
		spec.Component = f.Component
		specs = append(specs, spec)
		o := v1alpha1.Feature{Spec: spec}
		o.Name = feature.ObjectName(f.Component, e.Gate)
		objects = append(objects, o)
	}
	crd := crdOf(t, fmt.Sprintf(livesCRD, fields, modes))
	resource, err := feature.ResourceOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	component := &v1alpha1.Component{Spec: f.Spec}
	component.Name = f.Component
	model, findings := rules.Define(component, objects, feature.Options{Resources: []feature.Resource{resource}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return &State{Name: f.Spec.Release, Release: f.Spec.Release, Features: specs, CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}, Model: model, File: f}
}

const livesCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s, mode: {type: string, enum: [%s]}}}}}}}
`

// byHistory are the rules that the history alone can break.
var byHistory = []string{"beta-skipped", "born-too-stable", "default-changed-too-early", "lock-opened", "locked-against-users", "removed-too-early"}

// TestSeveralReleasesAtOnceAreJudgedAsOneByOne: if each single step passes, several together pass. A single step that the history breaks is
// found in each comparison that spans it, with the same words. No other step of the history is blamed.
func TestSeveralReleasesAtOnceAreJudgedAsOneByOne(t *testing.T) {
	legal, hidden := 0, map[string]int{}
	for seed := range uint64(100) {
		l := randomLives(rand.New(rand.NewPCG(seed, 11)))
		var states []*State
		for i := range l.releases {
			states = append(states, l.at(t, i))
		}
		judge := func(i, j int) (failed []string) {
			t.Helper()
			r, err := Verify(t.Context(), states[i], states[j], dayOfRelease(j))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.CRDs {
				for _, x := range c.Findings {
					if x.Severity == report.Fail {
						failed = append(failed, x.Rule+": "+x.Message)
					}
				}
			}
			return failed
		}
		var single [][]string
		for i := range l.releases - 1 {
			single = append(single, judge(i, i+1))
		}
		for i := range l.releases {
			for j := i + 2; j < l.releases; j++ {
				steps := slices.Concat(single[i:j]...)
				together := judge(i, j)
				if len(steps) == 0 {
					legal++
				}
				for _, x := range together {
					if len(steps) == 0 || isByHistory(x) && !slices.Contains(steps, x) {
						t.Errorf("seed %d, from %s to %s, but in no single step: %s\n%s", seed, releaseOf(i), releaseOf(j), x, tell(l))
					}
				}
				for _, x := range steps {
					if isByHistory(x) {
						rule, _, _ := strings.Cut(x, ":")
						hidden[rule]++
						if !slices.Contains(together, x) && !l.announcesAgain(x, j) {
							t.Errorf("seed %d, hidden from %s to %s: %s\n%s", seed, releaseOf(i), releaseOf(j), x, tell(l))
						}
					}
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, rule := range byHistory {
		if hidden[rule] < 10 {
			t.Errorf("%s is broken %d times only", rule, hidden[rule])
		}
	}
	if legal < 100 {
		t.Errorf("there are %d spans of legal steps only", legal)
	}
}

// announcesAgain reports whether a change of a default is followed, up to a release, by the announcement of another one: it is the only one
// that features.yaml has then.
func (l *lives) announcesAgain(x string, until int) bool {
	for i, e := range l.features {
		for _, s := range e.Stages {
			if strings.Contains(x, fmt.Sprintf("the default of %s changes in %s: ", e.Gate, s.Release)) {
				return slices.ContainsFunc(l.announced[i], func(r string) bool { return isNewerRelease(r, s.Release) && !isNewerRelease(r, releaseOf(until)) })
			}
		}
	}
	return false
}

func isByHistory(x string) bool {
	rule, _, _ := strings.Cut(x, ":")
	return slices.Contains(byHistory, rule)
}

func tell(l *lives) (out string) {
	for _, e := range l.features {
		out += fmt.Sprintf("%s, announced %v %v:", e.Gate, e.Announced, l.announced)
		for _, s := range e.Stages {
			value := ""
			if s.Default != nil {
				value = fmt.Sprint(*s.Default)
			}
			out += fmt.Sprintf(" %s %s %s %t,", s.Stage, s.Release, value, s.LockToDefault)
		}
		out += "\n"
	}
	return out
}
