package gate

// How does the gate of k8s.io/component-base agree with ours? Our features are registered there with their
// history, and each change is written into it. Libraries that only know that gate, and its metric, then see
// the same state.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// registerUpstream adds the features to the gate of k8s.io/component-base.
func (g *Gates) registerUpstream() error {
	if g.upstream == nil {
		emulated := majorMinor(g.model.Spec().Release)
		if emulated == nil {
			emulated = version.MajorMinor(1, 0)
		}
		g.upstream, g.own = featuregate.NewVersionedFeatureGate(emulated), true
	}
	for _, f := range g.model.Features() {
		name := featuregate.Feature(f.Spec.Gate)
		if specs := versionedSpecs(f); specs != nil && g.upstream.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{name: specs}) == nil {
			continue
		}
		// A history that component-base has no form for: stages by date, or one that is unlocked again.
		if f.Entry < 0 {
			continue
		}
		if err := g.upstream.Add(map[featuregate.Feature]featuregate.FeatureSpec{name: featureSpec(f.Stage, f.Default, f.Locked)}); err != nil {
			return fmt.Errorf("the features of %s: %w", g.declaration.Name, err)
		}
	}
	return nil
}

// featureSpec is a stage as component-base has it.
func featureSpec(s v1alpha1.Stage, on, locked bool) featuregate.FeatureSpec {
	out := featuregate.FeatureSpec{Default: on, LockToDefault: locked}
	switch s {
	case v1alpha1.Alpha:
		out.PreRelease = featuregate.Alpha
	case v1alpha1.Beta:
		out.PreRelease = featuregate.Beta
	case v1alpha1.Stable:
		out.PreRelease = featuregate.GA
	case v1alpha1.Deprecated, v1alpha1.Removed:
		out.PreRelease = featuregate.Deprecated
	}
	return out
}

// versionedSpecs writes the history of a feature as component-base has it; nil if it has no form for it.
func versionedSpecs(f *feature.Feature) featuregate.VersionedSpecs {
	var out featuregate.VersionedSpecs
	on := f.Defaults()
	for i := range f.Spec.Stages {
		s := &f.Spec.Stages[i]
		v := majorMinor(s.Release)
		if v == nil {
			return nil
		}
		next := featureSpec(s.Stage, on[i], s.LockToDefault || s.Stage == v1alpha1.Removed)
		next.Version = v
		if out == nil && next.LockToDefault && !next.Default {
			continue // not to be had yet: to component-base it is not there
		}
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.Default == next.Default && last.LockToDefault == next.LockToDefault && last.PreRelease == next.PreRelease {
				continue
			}
			if last.Version.EqualTo(v) { // a stage of a patch release
				*last = next
				continue
			}
		}
		out = append(out, next)
	}
	return out
}

// majorMinor reads a release; nil if it is not valid.
func majorMinor(release string) *version.Version {
	v, err := semver.NewVersion(release)
	if err != nil || v.Major() > 1<<20 || v.Minor() > 1<<20 {
		return nil
	}
	return version.MajorMinor(uint(v.Major()), uint(v.Minor()))
}

// syncUpstream makes the gate of component-base agree with the state. That gate keeps a wrong value in the way of later ones, and leaves
// gates on when AllAlpha is withdrawn. So follow never sets these, but only the differences from its defaults.
func (g *Gates) syncUpstream(st *state) {
	known := g.upstream.GetAll()
	set := map[string]bool{}
	for name, open := range st.open {
		at, ok := known[name]
		switch {
		case !ok || at.LockToDefault:
		case at.Default != open:
			set[string(name)] = open
		case g.upstream.ExplicitlySet(name):
			if err := g.upstream.ResetFeatureValueToDefault(name); err != nil {
				g.log.Error(err, "a feature gate cannot be reset", "feature", name)
			}
		}
	}
	if err := g.upstream.SetFromMap(set); err != nil {
		g.log.Error(err, "feature gates cannot be set")
	}
	if g.begun {
		g.upstream.AddMetrics()
	}
}

// setEmulation sets the emulation version. What is set is forgotten first: at another version it may not be allowed. It is set
// again by what follows.
func (g *Gates) setEmulation(v *version.Version) error {
	for _, f := range g.model.Features() {
		if name := featuregate.Feature(f.Spec.Gate); g.upstream.ExplicitlySet(name) {
			if err := g.upstream.ResetFeatureValueToDefault(name); err != nil {
				return err
			}
		}
	}
	return g.upstream.SetEmulationVersion(v)
}

// overriddenDefaults are the defaults that were overridden in the gate of component-base, in the form of --feature-gates. As there, AllAlpha and
// AllBeta win over them.
func (g *Gates) overriddenDefaults(given *feature.Settings) string {
	var out []string
	for _, gate := range slices.Sorted(maps.Keys(g.overridden)) {
		f := g.model.Feature(gate)
		if f == nil || !f.Free() {
			continue
		}
		if _, set := given.Gate(f.GateOfStage()); !set {
			out = append(out, fmt.Sprintf("%s=%t", gate, g.upstream.GetAll()[featuregate.Feature(gate)].Default))
		}
	}
	return strings.Join(out, ",")
}

// overrideDefault overrides the default of a feature in the gate of component-base by do, and then here.
func (g *Gates) overrideDefault(name featuregate.Feature, do func() error) (err error) {
	g.applyChange(func() {
		if err = do(); err == nil {
			g.overridden = maps.Clone(g.overridden)
			if g.overridden == nil {
				g.overridden = map[string]bool{}
			}
			g.overridden[string(name)] = true
		}
	})
	return err
}

// newestOf is the newest release with a version, such as v1.2.3 for 1.2, that begins a stage, or else the first one: component-base knows no
// patch releases.
func (g *Gates) newestOf(v *version.Version) string {
	newest := semver.New(uint64(v.Major()), uint64(v.Minor()), 0, "", "")
	for _, f := range g.model.Features() {
		for i := range f.Spec.Stages {
			if r, err := semver.NewVersion(f.Spec.Stages[i].Release); err == nil && r.Major() == newest.Major() && r.Minor() == newest.Minor() && r.GreaterThan(newest) {
				newest = r
			}
		}
	}
	return "v" + newest.String()
}
