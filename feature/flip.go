package feature

// When does a feature turn on by itself? The history of its stages has the answer, for the past and for what is
// planned. For example, {stage: Alpha, release: v1.0.0} and {stage: Beta, release: v1.2.0, default: true} flip in
// v1.2.0.

import (
	"sluice.dev/api/v1alpha1"
)

// Flip returns the entry of the feature's stages that turns the default from off to on: the one in force, if done is true, or the
// next one that is planned. ok is false if there is neither, and for a feature whose first stage has not begun.
func (f *Feature) Flip() (at v1alpha1.FeatureStage, done, ok bool) {
	if f.Entry < 0 {
		return v1alpha1.FeatureStage{}, false, false
	}
	on := defaultsByStage(f.Spec.Stages)
	if on[f.Entry] {
		for i := f.Entry; i > 0; i-- {
			if on[i] && !on[i-1] {
				return f.Spec.Stages[i], true, true
			}
		}
		return v1alpha1.FeatureStage{}, false, false
	}
	for i := f.Entry + 1; i < len(on); i++ {
		if on[i] {
			return f.Spec.Stages[i], false, true
		}
	}
	return v1alpha1.FeatureStage{}, false, false
}

// declaredDefault returns the default that the stages declare for the present one, and the entry that declares it: at Deprecated and Removed,
// that may be one before. The entry is -1 if none does.
func (f *Feature) declaredDefault() (on bool, entry int) {
	for i := f.Entry; i >= 0; i-- {
		s := &f.Spec.Stages[i]
		if s.Default != nil {
			return *s.Default, i
		}
		if s.Stage != v1alpha1.Deprecated && s.Stage != v1alpha1.Removed {
			break
		}
	}
	return false, -1
}

// Defaults returns, for each entry of the feature's stages, whether it is on by default then.
func (f *Feature) Defaults() []bool { return defaultsByStage(f.Spec.Stages) }

// DefaultsInEffect returns, for each entry of the feature's stages, whether it is on then by itself while nothing is set: where it follows the
// level, the component's default level decides, and not the default of the entry. The features that it requires or that imply it do not count.
func (f *Feature) DefaultsInEffect() []bool {
	r := &resolver{states: &States{model: f.model, level: f.model.levelBy(nil)}}
	out := f.Defaults()
	level := v1alpha1.LevelAlpha
	for i := range f.Spec.Stages {
		s := &f.Spec.Stages[i]
		if s.Stage != v1alpha1.Deprecated {
			level = levelOf(s.Stage)
		}
		at := *f
		at.Entry, at.Stage, at.Default, at.Locked, at.Level = i, s.Stage, out[i], isLockedAt(s), level
		at.FollowsLevel = at.followsAtStage()
		out[i] = r.ownVerdict(&at).open
	}
	return out
}

// isLockedAt reports whether settings cannot change the default of a stage.
func isLockedAt(s *v1alpha1.FeatureStage) bool {
	return s.LockToDefault || s.Stage == v1alpha1.Removed
}

// defaultsByStage returns the default of each stage.
func defaultsByStage(stages []v1alpha1.FeatureStage) []bool {
	out := make([]bool, len(stages))
	before := false
	for i := range stages {
		out[i] = defaultAt(&stages[i], before)
		before = out[i]
	}
	return out
}

// defaultAt returns the default of a stage; before is that of the stage before it.
func defaultAt(s *v1alpha1.FeatureStage, before bool) bool {
	switch {
	case s.Default != nil:
		return *s.Default
	case s.Stage == v1alpha1.Deprecated || s.Stage == v1alpha1.Removed:
		return before
	}
	return s.Stage == v1alpha1.Stable
}
