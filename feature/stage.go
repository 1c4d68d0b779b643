package feature

// Which stage has a feature reached at a release or on a day? The last entry of its history that has begun. For
// example, with entries for v1.0.0 and v1.2.0 a component at v1.1.3 is at the first of them. Before the first entry the
// feature does not exist yet.

import (
	"fmt"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"

	"sluice.dev/api/v1alpha1"
)

var (
	levels = []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha}
	stages = []v1alpha1.Stage{v1alpha1.Alpha, v1alpha1.Beta, v1alpha1.Stable, v1alpha1.Deprecated, v1alpha1.Removed}
)

// levelRank orders levels, the narrowest first.
func levelRank(l v1alpha1.Level) int { return slices.Index(levels, l) }

// levelOf returns the level that opens a stage.
func levelOf(s v1alpha1.Stage) v1alpha1.Level {
	switch s {
	case v1alpha1.Alpha:
		return v1alpha1.LevelAlpha
	case v1alpha1.Beta:
		return v1alpha1.LevelBeta
	case v1alpha1.Stable, v1alpha1.Deprecated, v1alpha1.Removed:
	}
	return v1alpha1.LevelStable
}

// checkStages checks the history of a feature and finds its present stage.
func (d *definer) checkStages(f *Feature) {
	gate := f.Spec.Gate
	if len(f.Spec.Stages) == 0 {
		d.addError(CodeStages, gate, "spec.stages", "there is no stage")
		return
	}
	if len(f.Spec.Stages) > maxValues {
		d.addError(CodeTooMany, gate, "spec.stages", "%d stages are allowed", maxValues)
		return
	}
	level, before := v1alpha1.LevelAlpha, false
	var lastRelease *semver.Version
	var lastDate time.Time
	lastStage := -1
	for i := range f.Spec.Stages {
		s := &f.Spec.Stages[i]
		where := fmt.Sprintf("spec.stages[%d]", i)
		n := slices.Index(stages, s.Stage)
		switch {
		case n < 0:
			d.addError(CodeStages, gate, where+".stage", "%q is no stage%s; the stages are Alpha, Beta, Stable, Deprecated, Removed", clipWord(string(s.Stage)), nameHint(string(s.Stage), stages))
		case n < lastStage:
			d.addError(CodeStages, gate, where+".stage", "%s does not come after %s", s.Stage, stages[lastStage])
		case n == lastStage && s.Stage == v1alpha1.Removed:
			d.addError(CodeStages, gate, where+".stage", "a feature is removed once")
		}
		lastStage = max(lastStage, n)
		begun, known := d.hasBegun(gate, where, s, &lastRelease, &lastDate)
		value, locked := d.defaultOf(gate, where, s, before)
		before = value
		if s.Stage != v1alpha1.Deprecated {
			level = levelOf(s.Stage)
		}
		if known && begun {
			f.Entry, f.Stage, f.Default, f.Locked, f.Level = i, s.Stage, value, locked, level
		}
	}
	if f.Entry < 0 {
		// Before its first stage, a feature does not exist.
		f.Locked, f.Level = true, v1alpha1.LevelAlpha
	}
}

// defaultOf returns the default of a stage, and whether it is locked.
func (d *definer) defaultOf(gate, where string, s *v1alpha1.FeatureStage, before bool) (value, locked bool) {
	locked = isLockedAt(s)
	value = defaultAt(s, before)
	if s.Default == nil {
		return value, locked
	}
	switch {
	case s.Stage == v1alpha1.Alpha && *s.Default:
		d.addError(CodeStageDefault, gate, where+".default", "an alpha feature is off by default")
	case s.Stage == v1alpha1.Stable && !*s.Default:
		d.addError(CodeStageDefault, gate, where+".default", "a stable feature is on by default")
	case s.Stage == v1alpha1.Removed && *s.Default != before:
		d.addError(CodeStageDefault, gate, where+".default", "removing a feature does not change whether it is on; that takes a stage before")
	}
	return value, locked
}

// hasBegun reports whether a stage has begun; known is false if its release and date cannot be read.
func (d *definer) hasBegun(gate, where string, s *v1alpha1.FeatureStage, lastRelease **semver.Version, lastDate *time.Time) (begun, known bool) {
	if s.Release == "" && s.Date == "" {
		d.addError(CodeStages, gate, where, "release or date is missing")
		return false, false
	}
	known = true
	var release *semver.Version
	if s.Release != "" {
		v, err := semver.NewVersion(s.Release)
		if err != nil {
			d.addError(CodeRelease, gate, where+".release", "%q is no version such as v1.2.0", clipWord(s.Release))
			known = false
		} else if *lastRelease != nil && !v.GreaterThan(*lastRelease) {
			d.addError(CodeStages, gate, where+".release", "%s does not come after %s", s.Release, (*lastRelease).Original())
		}
		if v != nil {
			release, *lastRelease = v, v
		}
	}
	var date time.Time
	if s.Date != "" {
		t, err := time.Parse(time.DateOnly, s.Date)
		if err != nil {
			d.addError(CodeRelease, gate, where+".date", "%q is no day such as 2026-01-31", clipWord(s.Date))
			known = false
		} else {
			if t.Before(*lastDate) {
				d.addError(CodeStages, gate, where+".date", "%s comes before %s", s.Date, lastDate.Format(time.DateOnly))
			}
			date, *lastDate = t, t
		}
	}
	// If both have a release, that decides. Otherwise the day does, and without a day everything has begun.
	if installed, err := semver.NewVersion(d.model.component.Release); err == nil && release != nil {
		return !release.GreaterThan(installed), known
	}
	if !date.IsZero() && !d.options.Date.IsZero() {
		return !date.After(d.options.Date), known
	}
	return true, known
}
