package feature

// Which definitions are valid, and need a change all the same? Those of features that stay at a stage for too long,
// have a default without effect, or were removed while the schema still has their field. For example, an alpha feature
// of four minor releases ago is to be promoted or removed.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"sluice.dev/api/v1alpha1"
)

// Codes of findings of [Model.Lint], and of features that use again what was another's.
const (
	// CodeTombstone: a name or field of a removed feature is used again.
	CodeTombstone Code = "tombstone"
	// CodeOverdue: a feature stays at a stage for too long.
	CodeOverdue Code = "overdue"
	// CodeOverruled: the default of a stage has no effect.
	CodeOverruled Code = "default-overruled"
	// CodeNoReports: a feature needs processes, and reports count from no namespace.
	CodeNoReports Code = "no-reports"
)

// term is the time that a feature may stay at a stage: until both the days and the minor releases have passed.
type term struct {
	stage    v1alpha1.Stage
	locked   bool
	days     int
	releases uint64
	what     string // to do with the feature then
}

// terms are time limits. Beta is Kubernetes' own limit (the longer of nine months and three releases, deprecation policy, rule 4b). A
// gate without effect is kept as long as Kubernetes keeps a stable API after its deprecation.
var terms = []term{
	{v1alpha1.Alpha, false, 365, 4, "promote it, or remove it (sluice features promote %s)"},
	{v1alpha1.Beta, false, 274, 3, "promote it, or remove it (sluice features promote %s)"},
	{v1alpha1.Beta, true, 274, 3, "let it become stable, or remove it (sluice features promote %s)"},
	{v1alpha1.Stable, false, 365, 3, "lock it to its default (sluice features promote %s --lock)"},
	{v1alpha1.Stable, true, 365, 3, "remove the gate, and leave its entry with stage Removed (sluice features remove %s)"},
	{v1alpha1.Deprecated, false, 274, 3, "remove it (sluice features remove %s)"},
	{v1alpha1.Deprecated, true, 274, 3, "remove it (sluice features remove %s)"},
}

// Lint returns warnings about features of a model that have no errors but need a change, on a given day:
//
//   - features past their time: at a stage for longer than the terms of this package, without a planned next stage, or with one
//     whose day is over and whose release has not come;
//   - defaults without effect, because the level decides about the feature;
//   - features that need processes, of a component whose reports count from no namespace;
//   - fields that a schema still has, or has again, although their feature was removed while it was off.
//
// Ages come from the dates of stages and from minor releases. If both are known, both count; if neither is, there is no warning.
// The zero day stands for none.
func (m *Model) Lint(day time.Time) Findings {
	l := &findings{}
	for _, f := range m.features {
		if f.Entry < 0 {
			continue
		}
		m.lintOverdue(l, f, day)
		m.lintOverruled(l, f)
		if len(f.Spec.RequiredProcesses) > 0 && len(m.component.Namespaces) == 0 && m.component.ConfigMap == nil && f.Stage != v1alpha1.Removed {
			l.addWarning(CodeNoReports, f.Spec.Gate, "spec.requiredProcesses", "%s is never on: reports of processes count from the namespaces of component %q, which names none and has no ConfigMap: set its spec.namespaces",
				f.Spec.Gate, m.name)
		}
		if !f.wasWithdrawn() {
			continue
		}
		seen := map[int]bool{}
		for i := range f.Targets {
			if t := &f.Targets[i]; t.Schema != nil && !t.Narrowed() && !seen[t.Part] {
				seen[t.Part] = true
				l.addWarning(CodeTombstone, f.Spec.Gate, fmt.Sprintf("spec.parts[%d].field", t.Part), "version %s: the schema has %s, although %s was removed in %s: take it out, and do not use the name again",
					t.Version, t.Path, f.Spec.Gate, stageSince(f))
			}
		}
	}
	return l.sortedList()
}

// lintOverruled reports an explicit default that the level overrides.
func (m *Model) lintOverruled(l *findings, f *Feature) {
	said, at := f.declaredDefault()
	byLevel := levelRank(f.Level) <= levelRank(m.component.DefaultLevel)
	lifted := f.Level == v1alpha1.LevelBeta && f.IsLifted()
	if at < 0 || !f.FollowsLevel || !f.Free() || said == (byLevel || lifted) {
		return
	}
	way := fmt.Sprintf("level %s opens it", m.component.DefaultLevel)
	if said {
		way = fmt.Sprintf("level %s, the default, does not open what is %s", m.component.DefaultLevel, strings.ToLower(string(f.Level)))
	}
	l.addWarning(CodeOverruled, f.Spec.Gate, fmt.Sprintf("spec.stages[%d].default", at), "default: %t has no effect, because %s follows the level, and %s: leave it out, or set followsLevel: false",
		said, f.Spec.Gate, way)
}

// lintOverdue reports a feature that stays at its stage for too long.
func (m *Model) lintOverdue(l *findings, f *Feature, day time.Time) {
	gate, stage := f.Spec.Gate, &f.Spec.Stages[f.Entry]
	where := fmt.Sprintf("spec.stages[%d]", f.Entry)
	if next := f.Entry + 1; next < len(f.Spec.Stages) {
		planned := &f.Spec.Stages[next]
		if on, ok := dayOf(planned); ok && !day.IsZero() && !day.Before(on) && planned.Release != "" {
			l.addWarning(CodeOverdue, gate, fmt.Sprintf("spec.stages[%d].date", next), "%s was to be %s on %s, with %s, which is not installed: move the day, or release it",
				gate, planned.Stage, planned.Date, planned.Release)
		}
		return
	}
	i := slices.IndexFunc(terms, func(t term) bool { return t.stage == f.Stage && t.locked == f.Locked })
	if i < 0 {
		return
	}
	t := terms[i]
	var ages []string
	// An earlier entry may have begun the stage, and this one only changed the default.
	first := f.Entry
	for first > 0 && f.Spec.Stages[first-1].Stage == stage.Stage && f.Spec.Stages[first-1].LockToDefault == stage.LockToDefault {
		first--
	}
	begin := &f.Spec.Stages[first]
	if on, ok := dayOf(begin); ok && !day.IsZero() {
		days := int(day.Sub(on).Hours() / 24)
		if days <= t.days {
			return
		}
		ages = append(ages, fmt.Sprintf("for %d days", days))
	}
	if n, ok := releasesSince(begin.Release, m.component.Release); ok {
		if n <= t.releases {
			return
		}
		ages = append(ages, fmt.Sprintf("for %d minor releases", n))
	}
	if ages == nil {
		return
	}
	l.addWarning(CodeOverdue, gate, where, "%s has been %s %s, since %s, and nothing is planned: %s", gate, stageName(f), strings.Join(ages, " and "), Since(begin), fmt.Sprintf(t.what, gate))
}

func stageName(f *Feature) string {
	if f.Locked {
		return string(f.Stage) + " and locked"
	}
	return string(f.Stage)
}

// dayOf returns the day of a stage; ok is false if it has none.
func dayOf(s *v1alpha1.FeatureStage) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, s.Date)
	return t, err == nil
}

// releasesSince counts minor releases; those of different major releases cannot be counted.
func releasesSince(before, now string) (uint64, bool) {
	a, err := semver.NewVersion(before)
	if err != nil {
		return 0, false
	}
	b, err := semver.NewVersion(now)
	if err != nil || a.Major() != b.Major() || b.Minor() < a.Minor() {
		return 0, false
	}
	return b.Minor() - a.Minor(), true
}

// wasWithdrawn reports whether the feature was removed while it was off, so that its parts are not in use.
func (f *Feature) wasWithdrawn() bool { return f.Stage == v1alpha1.Removed && !f.Default }

// GateGone reports whether only the gate was removed: the feature had graduated, is on for good, and its parts stay.
func (f *Feature) GateGone() bool { return f.Stage == v1alpha1.Removed && f.Default }

// grave is a part of a withdrawn feature.
type grave struct {
	part *v1alpha1.Part
	path Path
	f    *Feature
}

// matchesPart reports whether a part is the withdrawn one again.
func (g *grave) matchesPart(p *v1alpha1.Part) bool {
	path, err := ParsePath(p.Field)
	switch {
	case p.WholeVersion || g.part.WholeVersion:
		return p.WholeVersion == g.part.WholeVersion && haveCommon(p.Versions, g.part.Versions)
	case err != nil || !path.equalPath(g.path) || !haveCommon(p.Versions, g.part.Versions) && len(p.Versions) > 0 && len(g.part.Versions) > 0:
		return false
	}
	// Other values of the field are different parts.
	return g.part.Pattern == "" && g.part.Match == nil && g.part.Beyond == nil && (g.part.Values == nil || haveCommon(p.Values, g.part.Values))
}

// checkTombstones refuses features that gate the same part as a withdrawn feature: stored values would get a new meaning.
func (d *definer) checkTombstones() {
	graves := map[groupResource][]grave{}
	for _, f := range d.model.features {
		if !f.wasWithdrawn() {
			continue
		}
		for i := range f.Spec.Parts {
			p := &f.Spec.Parts[i]
			path, err := ParsePath(p.Field)
			if err != nil && !p.WholeVersion {
				continue
			}
			key := groupResource{p.Group, p.Resource}
			graves[key] = append(graves[key], grave{p, path, f})
		}
	}
	for _, f := range d.model.features {
		if f.wasWithdrawn() {
			continue
		}
		for i := range f.Spec.Parts {
			p := &f.Spec.Parts[i]
			for _, g := range graves[groupResource{p.Group, p.Resource}] {
				if d.isFull() {
					return
				}
				if g.matchesPart(p) {
					d.addError(CodeTombstone, f.Spec.Gate, fmt.Sprintf("spec.parts[%d]", i), "%s gated this, and was removed in %s: do not use the name of a removed part again", g.f.Spec.Gate, stageSince(g.f))
				}
			}
		}
	}
}

// haveCommon reports whether two lists have something in common.
func haveCommon(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
