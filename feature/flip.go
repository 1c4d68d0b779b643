package feature

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

// Defaults returns, for each entry of the feature's stages, whether it is on by default then.
func (f *Feature) Defaults() []bool { return defaultsByStage(f.Spec.Stages) }

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
