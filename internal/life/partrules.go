package life

// Which changes of the API itself does the law forbid? Those that leave stored objects without a value or a
// meaning, and those that open a part to everybody at once. For example, a new required field in v1 refuses
// every client that does not know it.

import (
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/compat"
	"sluice.dev/feature"
	"sluice.dev/report"
)

var (
	stableVersion = regexp.MustCompile(`^v[0-9]+$`)
	alphaVersion  = regexp.MustCompile(`^v[0-9]+alpha[0-9]+$`)
	betaVersion   = regexp.MustCompile(`^v[0-9]+beta[0-9]+$`)
)

// partRules are the rules about the API itself.
func partRules() []Rule {
	return []Rule{
		{
			ID: "field-dropped", Level: report.DataLost,
			Why:   "If a field disappears from the schema, the next write of a stored object drops its value.",
			Help:  "Remove the feature first, as the policy demands, with `{stage: Removed, release: v1.5.0}`. Remove the field a release later.",
			check: (*law).fieldDropped,
		},
		{
			ID: "field-incompatible", Level: report.ObjectsStuck,
			Why:   "Stored objects have the field. Their values must stay valid at every stage.",
			Help:  "Keep the field, and add a second one for the new form: `bannerText: {type: string}`.",
			check: (*law).fieldIncompatible,
		},
		{
			ID: "alpha-version-broken", Level: report.ObjectsStuck,
			Why:   "Clients and stored objects of an alpha version expect the schema that belongs to its number.",
			Help:  "Add a version with the next number: `name: v1alpha2`.",
			check: (*law).alphaVersionBroken,
		},
		{
			ID: "beta-version-alone", Level: report.ClientsBroken,
			Why:   "Clients move from one beta version to the next while the CRD serves both.",
			Help:  "Serve both versions for at least one minor release: `{name: v1beta1, served: true, deprecated: true}`.",
			check: (*law).betaVersionAlone,
		},
		{
			ID: "tombstone-reused", Level: report.DataLost,
			Why:   "Objects and clients may still use the removed field. They would read the new field with the old meaning.",
			Help:  "Choose a new name for the field: `bannerText`.",
			check: (*law).tombstoneReused,
		},
		{
			ID: "gate-dropped", Level: report.MeaningChanged,
			Why:   "If a field loses its gate before it is stable, everybody can use it at once.",
			Help:  "Keep the marker until the feature is stable or removed: `// +sluice:feature=Banner`.",
			check: (*law).gateDropped,
		},
		{
			ID: "part-added-late", Level: report.MeaningChanged,
			Why:   "A field that joins a beta or stable feature is open from its first day, without a trial.",
			Help:  "Give the field its own feature: `{gate: BannerColor, stages: [{stage: Alpha, release: v1.5.0}]}`.",
			check: (*law).partAddedLate,
		},
		{
			ID: "new-field-required", Level: report.WritersRefused,
			Why:   "The API server refuses writers that do not send the field, and stored objects do not have it.",
			Help:  "Make the field optional: `// +optional`.",
			check: (*law).newFieldRequired,
		},
		{
			ID: "new-field-not-gated", Level: report.MeaningChanged,
			Why:   "A stable version keeps every field for ever. A gate lets users try the field first.",
			Help:  "Mark the field with a feature at stage alpha: `// +sluice:feature=Banner`.",
			check: (*law).newFieldNotGated,
		},
		{
			ID: "new-value-not-gated", Level: report.ReadersSurprised,
			Why:   "Newer releases accept objects with a value that older releases do not know.",
			Help:  "Gate the value in two releases: closed first with `{stage: Beta, default: false, lockToDefault: true}`, then open.",
			check: (*law).newValueNotGated,
		},
		{
			ID: "new-value-at-once", Level: report.ReadersSurprised,
			Why:   "After a rollback by one release, the cluster must still understand its stored objects. So the first release only reads the value.",
			Help:  "Start with `{stage: Beta, default: false, lockToDefault: true}`, or with alpha.",
			check: (*law).newValueAtOnce,
		},
		{
			ID: "unknown-values-undocumented", Level: report.ReadersSurprised,
			Why:   "If others implement an API, they must know from the first release how to handle values that come later.",
			Help:  "Describe it: `unknownValues: they are shown as text`.",
			check: (*law).unknownValuesUndocumented,
		},
	}
}

// fieldDropped passes a field that is gone with its version, and one whose feature was removed after its
// announcement.
func (l *law) fieldDropped() {
	l.eachTarget(l.old, func(f *feature.Feature, t *feature.Target) {
		now := l.next.Model.Feature(f.Spec.Gate)
		if t.WholeVersion || f.Entry < 0 || schemaAt(l.old, t) == nil || !l.next.servesVersion(t) || schemaAt(l.next, t) != nil || now != nil && now.Stage == v1alpha1.Removed && l.wasEndAnnounced(f.Spec.Gate) {
			return
		}
		l.addFinding(f.Spec.Gate, "", "version %s: %s was removed before its feature %s was removed as the policy demands", t.Version, t.Path, f.Spec.Gate)
	})
}

// fieldIncompatible passes alpha versions, for which [law.alphaVersionBroken] is.
func (l *law) fieldIncompatible() {
	l.eachBreakage(func(gate string, x *report.Finding) {
		if gate != "" && !alphaVersion.MatchString(x.Version) {
			l.addFinding(gate, "", "version %s: the change of %s breaks stored objects: %s", x.Version, x.Path, x.Message)
		}
	})
}

// alphaVersionBroken counts fields with a gate and without: v1alpha1 promises the same objects as long as it
// is called so.
func (l *law) alphaVersionBroken() {
	l.eachBreakage(func(_ string, x *report.Finding) {
		if alphaVersion.MatchString(x.Version) {
			l.tellCRD(x.CRD, x.Version, x.Path, "the change of %s breaks stored objects, and the version keeps its number: %s", x.Path, x.Message)
		}
	})
}

// betaVersionAlone looks for a served version that clients of a beta version could have moved to before it
// went.
func (l *law) betaVersionAlone() {
	for _, old := range l.old.CRDs {
		next := l.next.crdNamed(old.Name)
		if next == nil {
			continue
		}
		for _, v := range servedVersions(old) {
			// Over more than one minor release, another version may have been served beside it.
			if l.countMinors(l.old.Release, l.next.Release) < 2 && betaVersion.MatchString(v) && !slices.Contains(servedVersions(next), v) && !slices.ContainsFunc(servedVersions(old), func(o string) bool {
				return o != v && slices.Contains(servedVersions(next), o) && !alphaVersion.MatchString(o)
			}) {
				l.tellCRD(old.Name, v, "", "%s is no longer served, and %s served no other version that still is", v, l.old.Release)
			}
		}
	}
}

// tombstoneReused passes a feature that was on when it was removed: its field had graduated, and stays.
func (l *law) tombstoneReused() {
	l.eachTarget(l.next, func(f *feature.Feature, t *feature.Target) {
		if old := l.old.Model.Feature(f.Spec.Gate); old != nil && old.Stage == v1alpha1.Removed && !f.Default && t.Schema != nil && schemaAt(l.old, t) == nil && l.old.servesVersion(t) {
			l.addFinding(f.Spec.Gate, "", "version %s: %s is back, although its feature %s was removed", t.Version, t.Path, f.Spec.Gate)
		}
	})
}

// gateDropped passes features that are stable, deprecated or removed by now: what they gated may be open to
// everybody.
func (l *law) gateDropped() {
	l.eachTarget(l.old, func(f *feature.Feature, t *feature.Target) {
		now := l.next.Model.Feature(f.Spec.Gate)
		if now == nil || f.Entry < 0 || schemaAt(l.next, t) == nil && !t.WholeVersion || now.Stage == v1alpha1.Stable || now.Stage == v1alpha1.Removed || now.Stage == v1alpha1.Deprecated || t.WholeVersion && !l.next.servesVersion(t) {
			return
		}
		if !slices.ContainsFunc(now.Targets, func(o feature.Target) bool { return sameTarget(&o, t) }) {
			l.addFinding(f.Spec.Gate, "", "version %s: %s no longer gates %s, and is only %s", t.Version, f.Spec.Gate, orVersion(t), orPlanned(now.Stage))
		}
	})
}

// partAddedLate passes a field that was there before, without a gate, and parts in new versions.
func (l *law) partAddedLate() {
	l.eachTarget(l.next, func(f *feature.Feature, t *feature.Target) {
		old := l.old.Model.Feature(f.Spec.Gate)
		if old == nil || old.Entry < 0 || old.Stage != v1alpha1.Beta && old.Stage != v1alpha1.Stable || schemaAt(l.old, t) != nil && t.Values == nil || !l.old.servesVersion(t) {
			return
		}
		if !slices.ContainsFunc(old.Targets, func(o feature.Target) bool { return sameTarget(&o, t) }) {
			l.addFinding(f.Spec.Gate, "", "version %s: %s is new, but its feature %s was already %s", t.Version, orVersion(t), f.Spec.Gate, lowerStage(old.Stage))
		}
	})
}

// newFieldRequired counts gated fields too: once the feature is open, writers that do not send the field are
// refused.
func (l *law) newFieldRequired() {
	l.newFields(func(crd, version string, path feature.Path, parent, _ *apiextensionsv1.JSONSchemaProps) {
		if slices.Contains(parent.Required, path[len(path)-1].Name) {
			l.tellCRD(crd, version, path.String(), "%s is new in a stable version, and required", path)
		}
	})
}

// newFieldNotGated passes the status, which controllers write.
func (l *law) newFieldNotGated() {
	l.newFields(func(crd, version string, path feature.Path, _, _ *apiextensionsv1.JSONSchemaProps) {
		if path[0].Name != "status" && !l.isGated(crd, version, path, "") {
			l.tellCRD(crd, version, path.String(), "%s is new in a stable version, and no feature gates it", path)
		}
	})
}

// newValueNotGated counts values that join an enum which was there before.
func (l *law) newValueNotGated() {
	l.newValues(func(crd, version string, path feature.Path, value string) {
		if !l.isGated(crd, version, path, value) {
			l.tellCRD(crd, version, path.String(), "the value %s of %s is new in a stable version, and no feature gates it", value, path)
		}
	})
}

// newValueAtOnce looks at values that a feature gates; the others are [law.newValueNotGated]'s.
func (l *law) newValueAtOnce() {
	l.newValues(func(crd, version string, path feature.Path, value string) {
		l.eachTarget(l.next, func(f *feature.Feature, t *feature.Target) {
			if t.Resource+"."+t.Group != crd || t.Version != version || !slices.Contains(t.Values, value) || t.Path.String() != path.String() {
				return
			}
			if known, atOnce := l.opensAtOnce(f); atOnce {
				l.addFinding(f.Spec.Gate, "stages", "the value %s of %s is new in %s, and open by default in the same release", value, path, known)
			}
		})
	})
}

// unknownValuesUndocumented looks at new enums that a feature gates, since only such a feature has an entry to
// write it into.
func (l *law) unknownValuesUndocumented() {
	l.newFields(func(crd, version string, path feature.Path, _, s *apiextensionsv1.JSONSchemaProps) {
		if len(s.Enum) == 0 {
			return
		}
		for i := range l.next.File.Features {
			e := &l.next.File.Features[i]
			if f := l.next.Model.Feature(e.Gate); f != nil && e.UnknownValues == "" && slices.ContainsFunc(f.Targets, func(t feature.Target) bool {
				return t.Resource+"."+t.Group == crd && t.Version == version && t.Path.String() == path.String()
			}) {
				l.addFinding(e.Gate, "unknownValues", "%s is a new enum, and %s does not say how readers handle unknown values", path, e.Gate)
			}
		}
	})
}

// opensAtOnce reports whether a feature opens what is new since the base in the same release, by its history. known is the release in which
// it came: the first one of the feature, or the first one after the base if the feature is older.
func (l *law) opensAtOnce(f *feature.Feature) (known string, atOnce bool) {
	if f.Entry < 0 || !f.DefaultsInEffect()[f.Entry] {
		return "", false
	}
	known = l.firstAfterBase()
	var opened moment // none: it was open at the base
	l.eachPair(func(p *pair) {
		if p.gate != f.Spec.Gate {
			return
		}
		for _, s := range p.steps {
			if s.from.stage == "" {
				known = s.to.begins
			}
			if s.to.on && !s.from.on {
				opened = s.to
			}
		}
	})
	return known, opened.begins == "" || opened.begins == known || opened.release != "" && l.countMinors(known, opened.release) < 1
}

// firstAfterBase is the first recorded release after that of the base, or the one in preparation.
func (l *law) firstAfterBase() string {
	first := l.next.Release
	for _, r := range l.next.File.Releases {
		if isNewerRelease(r.Release, l.old.Release) && isNewerRelease(first, r.Release) {
			first = r.Release
		}
	}
	return first
}

// eachTarget calls f for each part of each feature of a side.
func (l *law) eachTarget(s *State, f func(*feature.Feature, *feature.Target)) {
	for _, x := range s.Model.Features() {
		for i := range x.Targets {
			f(x, &x.Targets[i])
		}
	}
}

// schemaAt returns the schema that a target leads to, nil if there is none.
func schemaAt(s *State, t *feature.Target) (found *apiextensionsv1.JSONSchemaProps) {
	crd := s.crdNamed(t.Resource + "." + t.Group)
	if crd == nil {
		return nil
	}
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Name == t.Version && v.Schema != nil {
			withSchemaAt(v.Schema.OpenAPIV3Schema, t.Path, func(p *apiextensionsv1.JSONSchemaProps) { found = p })
		}
	}
	return found
}

// servesVersion reports whether the version of a target is served.
func (s *State) servesVersion(t *feature.Target) bool {
	crd := s.crdNamed(t.Resource + "." + t.Group)
	return crd != nil && slices.Contains(servedVersions(crd), t.Version)
}

// servedVersions lists the names of the versions that a CRD serves, in its order.
func servedVersions(crd *apiextensionsv1.CustomResourceDefinition) (out []string) {
	for _, v := range crd.Spec.Versions {
		if v.Served {
			out = append(out, v.Name)
		}
	}
	return out
}

// wasEndAnnounced reports whether the end of a feature came after its announcement, or came before the release in preparation: then the rules
// about the end have judged it.
func (l *law) wasEndAnnounced(gate string) bool {
	e, _ := l.next.File.entryOf(gate)
	if e == nil {
		return false
	}
	i := slices.IndexFunc(e.Stages, func(s v1alpha1.FeatureStage) bool { return s.Stage == v1alpha1.Removed })
	if i <= 0 {
		return false
	}
	end, from := feature.Since(&e.Stages[i]), e.Announced["Removed"]
	return e.Stages[i-1].Stage == v1alpha1.Deprecated || from != "" && isNewerRelease(end, from) || isNewerRelease(l.next.Release, end) || sameRelease(end, l.old.Release)
}

// sameTarget reports whether two targets gate the same, in the same version. Patterns and bounds may differ.
func sameTarget(a, b *feature.Target) bool {
	return a.Group == b.Group && a.Resource == b.Resource && a.Version == b.Version && a.WholeVersion == b.WholeVersion && a.Path.String() == b.Path.String() && slices.Equal(a.Values, b.Values)
}

// orVersion names what a target gates.
func orVersion(t *feature.Target) string {
	if t.WholeVersion {
		return "the version " + t.Version
	}
	if t.Values != nil {
		return t.Path.String() + ": " + strings.Join(t.Values, ", ")
	}
	return t.Path.String()
}

// harmful are the levels of the findings of compat that are about stored objects and writers.
var harmful = []report.Level{report.RefusedByAPIServer, report.ObjectsStuck, report.ObjectsRatcheted, report.WritersRefused}

// eachBreakage calls f for each harmful finding of compat in fields that stay, with the gate of the field. It leaves out fields and versions
// of features in development, because no object has them.
func (l *law) eachBreakage(f func(gate string, x *report.Finding)) {
	if l.compared == nil {
		l.compared = l.compareCRDs()
	}
	for i := range l.compared {
		x := &l.compared[i]
		if x.Outcome != report.Violation || !slices.Contains(harmful, x.Level) {
			continue
		}
		if gate, planned := l.gateOf(x); !planned {
			f(gate, x)
		}
	}
}

// compareCRDs asks compat about each CRD that both sides have.
func (l *law) compareCRDs() []report.Finding {
	out := []report.Finding{}
	for _, old := range l.old.CRDs {
		next := l.next.crdNamed(old.Name)
		if next == nil {
			continue
		}
		result, err := compat.Check(l.ctx, old, next, compat.Options{})
		if err != nil {
			continue // one of them is always there
		}
		for _, x := range result.Findings {
			x.CRD = old.Name
			out = append(out, x)
		}
	}
	return out
}

// gateOf returns the feature that gated the place of a finding, empty for none, and whether one in development did.
func (l *law) gateOf(x *report.Finding) (gate string, planned bool) {
	path := strings.TrimPrefix(x.Path, ".")
	l.eachTarget(l.old, func(g *feature.Feature, t *feature.Target) {
		at := t.Path.String()
		below := t.WholeVersion || path == at || strings.HasPrefix(path, at+".") || strings.HasPrefix(path, at+"[")
		switch {
		case t.Resource+"."+t.Group != x.CRD || t.Version != x.Version || !below:
		case g.Entry < 0:
			planned = planned || !t.Narrowed()
		case !t.WholeVersion:
			gate = g.Spec.Gate
		}
	})
	return gate, planned
}

// newFields calls f for each new field of a stable version that was served before, but not for the fields below it.
func (l *law) newFields(f func(crd, version string, path feature.Path, parent, s *apiextensionsv1.JSONSchemaProps)) {
	l.eachStableSchema(func(crd, version string, old, next *apiextensionsv1.JSONSchemaProps) {
		walkSchema(next, nil, func(path feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
			if len(path) == 0 || path[len(path)-1].Kind != feature.Field {
				return true
			}
			there := false
			withSchemaAt(old, path, func(*apiextensionsv1.JSONSchemaProps) { there = true })
			if there {
				return true
			}
			withSchemaAt(next, path[:len(path)-1], func(parent *apiextensionsv1.JSONSchemaProps) {
				if _, own := parent.Properties[path[len(path)-1].Name]; own { // not one of a condition
					f(crd, version, path, parent, s)
				}
			})
			return false
		})
	})
}

// newValues calls f for each new value of an existing enum in a stable version.
func (l *law) newValues(f func(crd, version string, path feature.Path, value string)) {
	l.eachStableSchema(func(crd, version string, old, next *apiextensionsv1.JSONSchemaProps) {
		walkSchema(next, nil, func(path feature.Path, s *apiextensionsv1.JSONSchemaProps) bool {
			withSchemaAt(old, path, func(before *apiextensionsv1.JSONSchemaProps) {
				for _, v := range s.Enum {
					if len(before.Enum) > 0 && !slices.ContainsFunc(before.Enum, func(o apiextensionsv1.JSON) bool { return string(o.Raw) == string(v.Raw) }) {
						f(crd, version, path, plainScalar(string(v.Raw)))
					}
				}
			})
			return true
		})
	})
}

// eachStableSchema calls f for the schemas of each stable version that both sides serve.
func (l *law) eachStableSchema(f func(crd, version string, old, next *apiextensionsv1.JSONSchemaProps)) {
	for _, c := range l.next.CRDs {
		before := l.old.crdNamed(c.Name)
		if before == nil {
			continue
		}
		for _, v := range c.Spec.Versions {
			i := slices.IndexFunc(before.Spec.Versions, func(o apiextensionsv1.CustomResourceDefinitionVersion) bool { return o.Name == v.Name })
			if i >= 0 && stableVersion.MatchString(v.Name) && v.Served && v.Schema != nil && before.Spec.Versions[i].Schema != nil {
				f(c.Name, v.Name, before.Spec.Versions[i].Schema.OpenAPIV3Schema, v.Schema.OpenAPIV3Schema)
			}
		}
	}
}

// isGated reports whether a feature that was not removed before gates a field, a field around it, or a value of it.
func (l *law) isGated(crd, version string, path feature.Path, value string) bool {
	for _, f := range l.next.Model.Features() {
		if old := l.old.Model.Feature(f.Spec.Gate); f.Stage == v1alpha1.Removed && old != nil && old.Stage == v1alpha1.Removed {
			continue
		}
		for i := range f.Targets {
			t := &f.Targets[i]
			if t.Resource+"."+t.Group != crd || t.Version != version {
				continue
			}
			at := t.Path.String()
			whole := t.Values == nil && t.Pattern == nil && t.Match == nil
			if t.WholeVersion || whole && (path.String() == at || strings.HasPrefix(path.String(), at+".")) || value != "" && at == path.String() && slices.Contains(t.Values, value) {
				return true
			}
		}
	}
	return false
}

// enumInTwoReleases reports whether a step opens a value of an enum that a locked beta entry had announced.
func enumInTwoReleases(f *v1alpha1.FeatureSpec, s *step) bool {
	return s.from.locked && !s.from.on && slices.ContainsFunc(f.Parts, func(x v1alpha1.Part) bool { return x.Values != nil })
}

// isNewerRelease reports whether a release comes after another.
func isNewerRelease(a, b string) bool {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	return errX == nil && errY == nil && x.GreaterThan(y)
}
