package life

import (
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/report"
)

// ranks orders the stages.
var ranks = []v1alpha1.Stage{"", v1alpha1.Alpha, v1alpha1.Beta, v1alpha1.Stable, v1alpha1.Deprecated, v1alpha1.Removed}

func stageRank(s v1alpha1.Stage) int { return slices.Index(ranks, s) }

// Rules are the law. A rule is one literal; the fixtures of its test show what it lets pass and what it does not.
func Rules() []Rule {
	return append([]Rule{
		{
			ID: "stage-moved-back", Level: report.ClientsBroken,
			Why:  "Users rely on the promise of a stage. A feature that goes back breaks it.",
			Help: "Deprecate the feature, and begin another one with a new name.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.oldAt >= 0 && p.is != nil && stageRank(p.isStage) < stageRank(p.wasStage) {
						l.tell(p.gate, "stages", "%s was %s in %s and is %s now", p.gate, lower(p.wasStage), l.old.Release, orPlanned(p.isStage))
					}
				})
			},
		},
		{
			ID: "history-changed", Level: report.MeaningChanged,
			Why:  "Windows are computed from the history. What has been released cannot be changed any more.",
			Help: "Leave entries of releases that there have been as they were; add a new one.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					for i := range p.oldAt + 1 {
						if i >= len(p.next.Stages) || !sameEntry(&p.old.Stages[i], &p.next.Stages[i]) {
							l.tell(p.gate, "stages", "the entry %s (%s) of %s had begun in %s, and was changed or taken away", lower(p.old.Stages[i].Stage), begins(&p.old.Stages[i]), p.gate, l.old.Release)
							return
						}
					}
				})
			},
		},
		{
			ID: "feature-vanished", Level: report.ClientsBroken,
			Why:  "A gate that is gone without a word makes processes refuse to start where it is still set, and its name could be used again.",
			Help: "Keep the entry with a stage Removed.",
			check: func(l *law) {
				for i := range l.old.Features {
					gate := l.old.Features[i].Gate
					if f := l.old.Model.Feature(gate); f != nil && f.Entry >= 0 && f.Stage != v1alpha1.Removed && l.next.spec(gate) == nil {
						if other := l.sameParts(&l.old.Features[i]); other != "" {
							continue // told by feature-renamed
						}
						l.tell(gate, "", "%s was %s in %s, and features.yaml has it no more", gate, lower(f.Stage), l.old.Release)
					}
				}
			},
		},
		{
			ID: "feature-renamed", Level: report.ClientsBroken,
			Why:  "Settings name the gate. Under a new name they are unknown, and the feature falls back to its default.",
			Help: "Keep the name. If it must change, remove the old feature as the policy demands.",
			check: func(l *law) {
				for i := range l.old.Features {
					f := &l.old.Features[i]
					if l.next.spec(f.Gate) == nil {
						if other := l.sameParts(f); other != "" {
							l.tell(other, "gate", "%s was called %s in %s", other, f.Gate, l.old.Release)
						}
					}
				}
			},
		},
		{
			ID: "tombstone-gone", Level: report.ClientsBroken,
			Why:  "The entry of a removed feature keeps its name from being used again, and tells those who still set it.",
			Help: "Put the entry with stage Removed back.",
			check: func(l *law) {
				for i := range l.old.Features {
					gate := l.old.Features[i].Gate
					if f := l.old.Model.Feature(gate); f != nil && f.Stage == v1alpha1.Removed && l.next.spec(gate) == nil {
						l.tell(gate, "", "the entry of %s, which was removed, is gone", gate)
					}
				}
			},
		},
		{
			ID: "removed-feature-revived", Level: report.ClientsBroken,
			Why:  "A name that has had another meaning misleads everybody who still has it in settings or objects.",
			Help: "Choose a new name.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.wasStage == v1alpha1.Removed && p.oldAt >= 0 && p.is != nil && p.isStage != v1alpha1.Removed {
						l.tell(p.gate, "stages", "%s was removed, and is %s now", p.gate, orPlanned(p.isStage))
					}
				})
			},
		},
		{
			ID: "removed-too-early", Level: report.ClientsBroken,
			Why:  "Users need time to leave a feature. How much, the policy says by stage.",
			Help: "Announce the end (stage Deprecated, or announced: {Removed: RELEASE}), and remove after the window.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					i := slices.IndexFunc(p.next.Stages, func(s v1alpha1.FeatureStage) bool { return s.Stage == v1alpha1.Removed })
					if i <= 0 || p.wasStage == v1alpha1.Removed || p.isStage != v1alpha1.Removed {
						return
					}
					from := p.entry.Announced["Removed"]
					stage := p.next.Stages[i-1].Stage
					if stage == v1alpha1.Deprecated {
						from = p.next.Stages[i-1].Release
						stage = v1alpha1.Stable
						if i > 1 {
							stage = p.next.Stages[i-2].Stage
						}
					}
					// A gate of what stays for good goes after the feature has been locked: nobody loses it.
					if stage == v1alpha1.Stable && p.next.Stages[i-1].LockToDefault && from == "" {
						from = p.next.Stages[i-1].Release
						if n := l.minors(from, p.next.Stages[i].Release); n >= 2 {
							return
						}
					}
					if why := l.tooEarly(stage, from, p.next.Stages[i].Release); why != "" {
						l.tell(p.gate, "stages", "%s is removed in %s: %s", p.gate, p.next.Stages[i].Release, why)
					}
				})
			},
		},
		{
			ID: "default-changed-too-early", Level: report.MeaningChanged,
			Why:  "A default that flips changes what users get who said nothing.",
			Help: "Announce it (announced: {Default: RELEASE}), and flip after the window.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.oldAt < 0 || p.is == nil || p.wasDefault == p.isDefault || p.wasStage == v1alpha1.Alpha || p.isStage == v1alpha1.Removed || l.enumInTwoReleases(p) {
						return
					}
					// A promotion to stable turns on what users were told would come.
					if p.isStage != p.wasStage && p.isDefault {
						return
					}
					if why := l.tooEarly(p.wasStage, p.entry.Announced["Default"], p.next.Stages[p.nextAt].Release); why != "" {
						l.tell(p.gate, "stages", "the default of %s changes in %s: %s", p.gate, p.next.Stages[p.nextAt].Release, why)
					}
				})
			},
		},
		{
			ID: "announcement-backdated", Level: report.MeaningChanged,
			Why:  "An announcement counts from the release that carried it.",
			Help: "Give the release that is prepared now.",
			check: func(l *law) {
				if l.old.File == nil {
					return
				}
				l.pairs(func(p *pair) {
					before, _ := l.old.File.entry(p.gate)
					for _, what := range sortedKeys(p.entry.Announced) {
						if release := p.entry.Announced[what]; !newer(release, l.old.Release) && (before == nil || before.Announced[what] != release) {
							l.tell(p.gate, "announced", "features.yaml of %s did not announce %s of %s, which is said of %s now", l.old.Release, what, p.gate, release)
						}
					}
				})
			},
		},
		{
			ID: "beta-skipped", Level: report.MeaningChanged,
			Why:  "Beta is where a feature is tried by many before nothing can be changed any more.",
			Help: "Promote it to beta first.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.wasStage == v1alpha1.Alpha && p.isStage == v1alpha1.Stable {
						l.tell(p.gate, "stages", "%s goes from alpha to stable", p.gate)
					}
				})
			},
		},
		{
			ID: "born-too-stable", Level: report.MeaningChanged,
			Why:  "A feature that begins as stable can never be changed.",
			Help: "Begin with alpha, or with beta for a new value of an enum.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.oldAt < 0 && p.is != nil && p.nextAt >= 0 && (p.isStage == v1alpha1.Stable || p.isStage == v1alpha1.Deprecated) {
						l.tell(p.gate, "stages", "%s begins as %s", p.gate, lower(p.isStage))
					}
				})
			},
		},
		{
			ID: "lock-opened", Level: report.MeaningChanged,
			Why:  "Code for the other value may be gone once a gate is locked.",
			Help: "Leave it locked.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.was != nil && p.oldAt >= 0 && p.was.Locked && p.is != nil && !p.is.Locked && p.wasDefault == p.isDefault {
						l.tell(p.gate, "stages", "%s was locked in %s, and is not any more", p.gate, l.old.Release)
					}
				})
			},
		},
		{
			ID: "locked-against-users", Level: report.ClientsBroken,
			Why:  "A lock takes the choice away from those who had set the other value; a beta feature may still be turned off.",
			Help: "Let it become stable, and lock it a release later.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.was != nil && p.oldAt >= 0 && !p.was.Locked && p.is != nil && p.is.Locked && p.wasStage != v1alpha1.Stable && p.isStage != v1alpha1.Removed {
						l.tell(p.gate, "stages", "%s was %s and is locked now, in one release", p.gate, lower(p.wasStage))
					}
				})
			},
		},
		{
			ID: "key-changed", Level: report.MeaningChanged,
			Why:  "Settings of users stand under the old key, which means nothing any more.",
			Help: "Keep key and inverted as they were.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if p.was != nil && p.is != nil && p.oldAt >= 0 && (p.was.Spec.Key != p.is.Spec.Key || p.was.Spec.Inverted != p.is.Spec.Inverted) {
						l.tell(p.gate, "key", "the key of %s was %s and is %s now, or means the opposite", p.gate, p.was.Spec.Key, p.is.Spec.Key)
					}
				})
			},
		},
		{
			ID: "promoted-undocumented", Level: report.MeaningChanged,
			Why:  "Beta and stable features are used by people who were not there when they were made.",
			Help: "Say in documentation where the feature is documented.",
			check: func(l *law) {
				l.promotions(func(p *pair) {
					if p.entry.Documentation == "" {
						l.tell(p.gate, "documentation", "%s becomes %s without documentation", p.gate, lower(p.isStage))
					}
				})
			},
		},
		{
			ID: "promoted-untested", Level: report.MeaningChanged,
			Why:  "Both values are in use: those who turn a feature off get what is not tested.",
			Help: "Name the tests in tests.enabled and tests.disabled.",
			check: func(l *law) {
				l.promotions(func(p *pair) {
					if len(p.entry.Tests.On) == 0 || len(p.entry.Tests.Off) == 0 {
						l.tell(p.gate, "tests", "%s becomes %s without tests for on and off", p.gate, lower(p.isStage))
					}
				})
			},
		},
		{
			ID: "single-reader-unsafe", Level: report.ReadersSurprised,
			Why:  "During an upgrade, and after going back, older releases of the one process that reads a value meet it.",
			Help: "Turn it on by default two minor releases after safeSince.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					if len(p.entry.ReadBy) == 1 && p.is != nil && p.nextAt >= 0 && p.isDefault && !p.wasDefault && l.minors(p.entry.SafeSince, l.next.Release) < 2 {
						l.tell(p.gate, "safeSince", "only %s reads what %s gates, and it is on by default in %s; releases before have to be safe for two minor releases (safeSince: %q)", p.entry.ReadBy[0], p.gate, l.next.Release, p.entry.SafeSince)
					}
				})
			},
		},
		{
			ID: "gate-overdue", Level: report.Cosmetic, Warn: true,
			Why:  "A gate that stays for ever is a promise that nobody means.",
			Help: "Promote the feature, or remove it.",
			check: func(l *law) {
				for _, x := range l.next.Model.Lint(l.day) {
					if x.Code == feature.CodeOverdue {
						l.tell(x.Gate, strings.TrimPrefix(x.Where, "spec."), "%s", x.Message)
					}
				}
			},
		},
		{
			ID: "release-moved-back", Level: report.MeaningChanged,
			Why:  "Stages are told by release: of an older one features fall back.",
			Help: "Give the release that is prepared.",
			check: func(l *law) {
				if newer(l.old.Release, l.next.Release) && len(l.next.Features) > 0 {
					l.tell(l.next.Features[0].Gate, "", "the release was %s and is %s now", l.old.Release, l.next.Release)
				}
			},
		},
		{
			ID: "release-not-recorded", Level: report.Cosmetic, Warn: true,
			Why:  "Windows are computed from the days of releases.",
			Help: "Add the release with its day to releases.",
			check: func(l *law) {
				l.pairs(func(p *pair) {
					for i := range p.next.Stages[:p.nextAt+1] {
						s := &p.next.Stages[i]
						if _, ok := l.dayOf(s.Release); s.Release != "" && s.Date == "" && !ok {
							l.tell(p.gate, "stages", "the day of %s, in which %s became %s, is not recorded", s.Release, p.gate, lower(s.Stage))
						}
					}
				})
			},
		},
	}, partRules()...)
}

// promotions are features that reach beta or stable.
func (l *law) promotions(f func(p *pair)) {
	l.pairs(func(p *pair) {
		if p.is != nil && p.nextAt >= 0 && (p.isStage == v1alpha1.Beta || p.isStage == v1alpha1.Stable) && stageRank(p.isStage) > stageRank(p.wasStage) {
			f(p)
		}
	})
}

// sameParts returns the new feature that has the parts of an old one, or nothing.
func (l *law) sameParts(old *v1alpha1.FeatureSpec) string {
	for i := range l.next.Features {
		f := &l.next.Features[i]
		if len(old.Parts) > 0 && len(f.Parts) == len(old.Parts) && l.old.spec(f.Gate) == nil && partKey(&f.Parts[0]) == partKey(&old.Parts[0]) {
			return f.Gate
		}
	}
	return ""
}

func partKey(p *v1alpha1.Part) string {
	return strings.Join([]string{p.Group, p.Resource, p.Field, strings.Join(p.Values, ","), p.Pattern}, "|")
}

func sameEntry(a, b *v1alpha1.FeatureStage) bool {
	same := a.Default == nil && b.Default == nil || a.Default != nil && b.Default != nil && *a.Default == *b.Default
	return same && a.Stage == b.Stage && a.Release == b.Release && a.Date == b.Date && a.LockToDefault == b.LockToDefault
}

func lower(s v1alpha1.Stage) string { return strings.ToLower(string(s)) }

func orPlanned(s v1alpha1.Stage) string {
	if s == "" {
		return "only planned"
	}
	return lower(s)
}
