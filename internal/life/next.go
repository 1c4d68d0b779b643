package life

// Where may a feature of a cluster go next? Each later stage is tried in the next minor release, and the law
// says what stands against it. For example, a beta feature of last month may become stable, and may not be
// removed.

import (
	"context"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/report"
)

// NextStage is a stage that a feature may reach in the next minor release of its component.
type NextStage struct {
	Stage v1alpha1.Stage
	// Release is the next minor release, such as v1.4.0.
	Release string
	// Against says why the policy kubernetes forbids the step on that day; empty if it allows it.
	Against string
}

// NextStages returns the stages after the present one, in order. The history of the feature alone decides: what features.yaml says besides, such
// as another policy, is not known of a cluster. It is empty if the component has no release, or if the feature is wrong or removed.
func NextStages(ctx context.Context, component *v1alpha1.Component, spec *v1alpha1.FeatureSpec, now v1alpha1.Stage, day time.Time) []NextStage {
	release, err := semver.NewVersion(component.Spec.Release)
	if err != nil || now == "" || now == v1alpha1.Removed {
		return nil
	}
	next := release.IncMinor()
	// What it gates, requires and is called does not count.
	plain := v1alpha1.FeatureSpec{Component: component.Name, Gate: spec.Gate}
	file := &File{Component: component.Name, Spec: component.Spec, Rules: map[string]string{}}
	for _, id := range []string{"promoted-undocumented", "promoted-untested", "gate-overdue", "release-not-recorded"} {
		file.Rules[id] = "ignore"
	}
	for _, s := range spec.Stages {
		if v, err := semver.NewVersion(s.Release); err == nil && !v.GreaterThan(release) {
			plain.Stages = append(plain.Stages, s)
			if s.Date != "" {
				file.Releases = append(file.Releases, Release{Release: s.Release, Date: s.Date})
			}
		}
	}
	old, err := stateOfOne(file, plain, component.Spec.Release, day)
	if err != nil || len(plain.Stages) == 0 {
		return nil
	}
	var out []NextStage
	for _, stage := range []v1alpha1.Stage{v1alpha1.Beta, v1alpha1.Stable, v1alpha1.Deprecated, v1alpha1.Removed} {
		if stageRank(stage) <= stageRank(now) {
			continue
		}
		one := plain
		one.Stages = append(slices.Clone(plain.Stages), v1alpha1.FeatureStage{Stage: stage, Release: next.String()})
		step := NextStage{Stage: stage, Release: "v" + next.String()}
		if s, err := stateOfOne(file, one, next.String(), day); err != nil {
			step.Against = err.Error()
		} else if r, err := Verify(ctx, old, s, day); err != nil {
			step.Against = err.Error()
		} else {
			step.Against = firstFailure(r)
		}
		out = append(out, step)
	}
	return out
}

// stateOfOne is the state of a component that has one feature.
func stateOfOne(file *File, spec v1alpha1.FeatureSpec, release string, day time.Time) (*State, error) {
	f := *file
	f.Spec.Release = release
	f.Features = []Entry{{FeatureSpec: spec}}
	component := &v1alpha1.Component{Spec: f.Spec}
	component.Name = f.Component
	one := v1alpha1.Feature{Spec: spec}
	one.Name = feature.ObjectName(spec.Component, spec.Gate)
	s, err := NewBase(f.Component, component, []v1alpha1.Feature{one}, nil, day)
	if err != nil {
		return nil, err
	}
	s.File = &f
	return s, nil
}

// firstFailure is the message of the first finding of a report that fails; empty if there is none.
func firstFailure(r *report.Report) string {
	for _, c := range r.CRDs {
		for _, f := range c.Findings {
			if f.Severity == report.Fail {
				return f.Message
			}
		}
	}
	return ""
}
