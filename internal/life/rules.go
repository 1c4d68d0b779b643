package life

// Which changes of features does the law forbid? Each rule is one literal with its reason and its remedy, and
// a method of its name. For example, stage-moved-back refuses a beta feature that becomes alpha again.

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/report"
)

// ranks orders the stages.
var ranks = []v1alpha1.Stage{"", v1alpha1.Alpha, v1alpha1.Beta, v1alpha1.Stable, v1alpha1.Deprecated, v1alpha1.Removed}

// stageRank orders stages: 0 for none, 1 for Alpha and so on; -1 for a word that is no stage.
func stageRank(s v1alpha1.Stage) int { return slices.Index(ranks, s) }

// Doc finds the documentation of a rule.
func Doc(id string) (report.RuleDoc, bool) {
	rules := Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return report.RuleDoc{}, false
	}
	return report.RuleDoc{ID: id, Title: id, Why: rules[i].Why, Help: rules[i].Help}, true
}

// Rules are the law. A rule is one literal; the fixtures of its test show changes that it allows and changes that it refuses.
func Rules() []Rule {
	return append([]Rule{
		{
			ID: "stage-moved-back", Level: report.ClientsBroken,
			Why:   "Users rely on the promise of a stage. A feature that moves back breaks it.",
			Help:  "Deprecate the feature, and start a new one with another name: `{stage: Deprecated, release: v1.5.0}`.",
			check: eachPair((*law).stageMovedBack),
		},
		{
			ID: "history-changed", Level: report.MeaningChanged,
			Why:   "Sluice computes windows from the history. After a release, its entries must stay as they are.",
			Help:  "Restore the entries of released stages, and append a new entry: `{stage: Beta, release: v1.5.0}`.",
			check: eachPair((*law).historyChanged),
		},
		{
			ID: "feature-vanished", Level: report.ClientsBroken,
			Why:   "If a gate disappears without an entry, processes that still set it refuse to start, and another feature could reuse its name.",
			Help:  "Keep the entry, and end it with `{stage: Removed, release: v1.5.0}`.",
			check: (*law).featureVanished,
		},
		{
			ID: "feature-renamed", Level: report.ClientsBroken,
			Why:   "Settings name the gate. Under a new name they are unknown, and the feature falls back to its default.",
			Help:  "Keep the name. If it must change, remove the old feature as the policy demands: `{stage: Removed, release: v1.5.0}`.",
			check: (*law).featureRenamed,
		},
		{
			ID: "tombstone-gone", Level: report.ClientsBroken,
			Why:   "The entry of a removed feature reserves its name, and explains the removal to users who still set it.",
			Help:  "Restore the entry with its last stage: `{stage: Removed, release: v1.4.0}`.",
			check: (*law).tombstoneGone,
		},
		{
			ID: "removed-feature-revived", Level: report.ClientsBroken,
			Why:   "Old settings and objects may still use the name with its old meaning.",
			Help:  "Choose a new name: `gate: BannerText`.",
			check: eachPair((*law).removedFeatureRevived),
		},
		{
			ID: "removed-too-early", Level: report.ClientsBroken,
			Why:   "Users need time to stop using a feature. The policy sets that time for each stage.",
			Help:  "Announce the end with `{stage: Deprecated, release: v1.5.0}` or `announced: {Removed: v1.5.0}`, and remove the feature after the window.",
			check: eachPair((*law).removedTooEarly),
		},
		{
			ID: "default-changed-too-early", Level: report.MeaningChanged,
			Why:   "A new default changes the behaviour for users who set nothing.",
			Help:  "Announce the change with `announced: {Default: v1.5.0}`, and change the default after the window.",
			check: eachPair((*law).defaultChangedTooEarly),
		},
		{
			ID: "announcement-backdated", Level: report.MeaningChanged,
			Why:   "An announcement counts from the release that contained it.",
			Help:  "Name the release that you prepare now: `announced: {Removed: v1.5.0}`.",
			check: (*law).announcementBackdated,
		},
		{
			ID: "beta-skipped", Level: report.MeaningChanged,
			Why:   "In beta, many users try a feature while it can still change. After that it cannot.",
			Help:  "Promote the feature to beta first: `{stage: Beta, release: v1.5.0}`.",
			check: eachPair((*law).betaSkipped),
		},
		{
			ID: "born-too-stable", Level: report.MeaningChanged,
			Why:   "A feature that starts as stable can never change.",
			Help:  "Start with `{stage: Alpha, release: v1.5.0}`, or with beta for a new enum value.",
			check: eachPair((*law).bornTooStable),
		},
		{
			ID: "lock-opened", Level: report.MeaningChanged,
			Why:   "Once a gate is locked, the code for the other value may be gone.",
			Help:  "Keep `lockToDefault: true`.",
			check: eachPair((*law).lockOpened),
		},
		{
			ID: "locked-against-users", Level: report.ClientsBroken,
			Why:   "A lock takes the choice away from users who set the other value. They may still turn a beta feature off.",
			Help:  "Promote to stable first, and lock a release later: `{stage: Stable, release: v1.6.0, lockToDefault: true}`.",
			check: eachPair((*law).lockedAgainstUsers),
		},
		{
			ID: "key-changed", Level: report.MeaningChanged,
			Why:   "Users have settings under the old key. Nothing reads them any more.",
			Help:  "Keep `key` and `inverted` as they were.",
			check: eachPair((*law).keyChanged),
		},
		{
			ID: "promoted-undocumented", Level: report.MeaningChanged,
			Why:   "Users of beta and stable features did not see how they were developed. They need a page to read.",
			Help:  "Name the page: `documentation: docs/banner.md`.",
			check: eachPair((*law).promotedUndocumented),
		},
		{
			ID: "promoted-untested", Level: report.MeaningChanged,
			Why:   "Users run both values. Without a test for off, users who turn the feature off run untested code.",
			Help:  "Name the tests: `tests: {enabled: [TestBanner], disabled: [TestNoBanner]}`.",
			check: eachPair((*law).promotedUntested),
		},
		{
			ID: "single-reader-unsafe", Level: report.ReadersSurprised,
			Why:   "During an upgrade and after a rollback, older releases of the only process that reads a value meet the value.",
			Help:  "Turn it on by default two minor releases after the one in `safeSince: v1.0.0`.",
			check: eachPair((*law).singleReaderUnsafe),
		},
		{
			ID: "gate-overdue", Level: report.Cosmetic, Warn: true, alone: true,
			Why:   "A gate that stays for ever promises a decision that nobody makes.",
			Help:  "Promote the feature, or remove it: `{stage: Removed, release: v1.5.0}`.",
			check: (*law).gateOverdue,
		},
		{
			ID: "release-moved-back", Level: report.MeaningChanged,
			Why:   "Sluice looks up stages by release. With an older release, features fall back to an earlier stage.",
			Help:  "Name the release that you prepare: `release: v1.5.0`.",
			check: (*law).releaseMovedBack,
		},
		{
			ID: "release-not-recorded", Level: report.Cosmetic, Warn: true, alone: true,
			Why:   "Sluice computes windows from the dates of releases.",
			Help:  "Add the release with its date: `{release: v1.4.0, date: 2026-05-01}`.",
			check: eachPair((*law).releaseNotRecorded),
		},
	}, partRules()...)
}

// eachPair makes a check of what a rule says of one feature. Each method below is the check of the rule of its name.
func eachPair(check func(l *law, p *pair)) func(*law) {
	return func(l *law) {
		l.eachPair(func(p *pair) { check(l, p) })
	}
}

// stageMovedBack passes features that had not begun in the base: plans may change.
func (l *law) stageMovedBack(p *pair) {
	if p.oldAt >= 0 && p.is != nil && stageRank(p.isStage) < stageRank(p.wasStage) {
		l.addFinding(p.gate, "stages", "%s was %s in %s and is now %s", p.gate, lowerStage(p.wasStage), l.old.Release, orPlanned(p.isStage))
	}
}

// historyChanged compares the entries that had begun in the base. Later ones are plans, which may change.
func (l *law) historyChanged(p *pair) {
	for i := range p.oldAt + 1 {
		if i >= len(p.next.Stages) || !equality.Semantic.DeepEqual(&p.old.Stages[i], &p.next.Stages[i]) {
			l.addFinding(p.gate, "stages", "the entry %s (%s) of %s began in %s, and was changed or removed", lowerStage(p.old.Stages[i].Stage), feature.Since(&p.old.Stages[i]), p.gate, l.old.Release)
			return
		}
	}
}

// eachGone calls f for each feature that had begun in the base, and that features.yaml no longer has.
func (l *law) eachGone(f func(spec *v1alpha1.FeatureSpec, was *feature.Feature)) {
	for i := range l.old.Features {
		spec := &l.old.Features[i]
		if was := l.old.Model.Feature(spec.Gate); was != nil && was.Entry >= 0 && l.next.specOf(spec.Gate) == nil {
			f(spec, was)
		}
	}
}

// featureVanished passes features that another one has the parts of: they were renamed.
func (l *law) featureVanished() {
	l.eachGone(func(spec *v1alpha1.FeatureSpec, was *feature.Feature) {
		if was.Stage != v1alpha1.Removed && l.sameParts(spec) == "" { // feature-renamed reports the others
			l.addFinding(spec.Gate, "", "%s was %s in %s, and features.yaml no longer has it", spec.Gate, lowerStage(was.Stage), l.old.Release)
		}
	})
}

// featureRenamed takes a feature for another one's new name if the base does not have it and it gates the same
// parts.
func (l *law) featureRenamed() {
	l.eachGone(func(spec *v1alpha1.FeatureSpec, _ *feature.Feature) {
		if other := l.sameParts(spec); other != "" {
			l.addFinding(other, "gate", "%s was called %s in %s", other, spec.Gate, l.old.Release)
		}
	})
}

// tombstoneGone is about entries of removed features, which [law.featureVanished] passes.
func (l *law) tombstoneGone() {
	l.eachGone(func(spec *v1alpha1.FeatureSpec, was *feature.Feature) {
		if was.Stage == v1alpha1.Removed {
			l.addFinding(spec.Gate, "", "the entry of %s, which was removed, is gone", spec.Gate)
		}
	})
}

// removedFeatureRevived is about gates. Fields that come back are [law.tombstoneReused]'s.
func (l *law) removedFeatureRevived(p *pair) {
	if p.wasStage == v1alpha1.Removed && p.oldAt >= 0 && p.is != nil && p.isStage != v1alpha1.Removed {
		l.addFinding(p.gate, "stages", "%s was removed, and is now %s", p.gate, orPlanned(p.isStage))
	}
}

// removedTooEarly measures from the entry Deprecated, or from the announcement in features.yaml. The stage
// before decides how long the window is. A gate alone may go sooner, by the policy or after two minor releases
// with a lock, because the feature stays.
func (l *law) removedTooEarly(p *pair) {
	i := slices.IndexFunc(p.next.Stages, func(s v1alpha1.FeatureStage) bool { return s.Stage == v1alpha1.Removed })
	if i <= 0 || p.wasStage == v1alpha1.Removed || p.isStage != v1alpha1.Removed {
		return
	}
	what := p.gate
	if p.is.GateGone() {
		what = "the gate of " + p.gate
		if flip, done, ok := p.is.Flip(); ok && done && l.afterFlip > 0 && l.countMinors(flip.Release, p.next.Stages[i].Release) >= l.afterFlip {
			return
		}
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
	// A locked stable feature can lose its gate: nobody loses the feature.
	if stage == v1alpha1.Stable && p.next.Stages[i-1].LockToDefault && from == "" {
		from = p.next.Stages[i-1].Release
		if n := l.countMinors(from, p.next.Stages[i].Release); n >= 2 {
			return
		}
	}
	if why := l.tooEarly(stage, from, p.next.Stages[i].Release); why != "" {
		l.addFinding(p.gate, "stages", "%s is removed in %s: %s", what, p.next.Stages[i].Release, why)
	}
}

// defaultChangedTooEarly passes alpha features, promotions that turn a feature on, and the second release of a
// value of an enum, whose first one announced it.
func (l *law) defaultChangedTooEarly(p *pair) {
	for _, s := range p.steps {
		// Users expect that a promotion to stable turns a feature on.
		promoted := s.to.stage != s.from.stage && s.to.on
		if s.from.on == s.to.on || s.from.stage == "" || s.from.stage == v1alpha1.Alpha || s.to.stage == v1alpha1.Removed || promoted || enumInTwoReleases(p.next, &s) {
			continue
		}
		announced := p.entry.Announced["Default"]
		if isNewerRelease(announced, s.to.release) {
			continue // it announces a later change, and the one before it is not recorded any more
		}
		if why := l.tooEarly(s.from.stage, announced, s.to.release); why != "" {
			l.addFinding(p.gate, "stages", "the default of %s changes in %s: %s", p.gate, s.to.release, why)
		}
	}
}

// announcementBackdated needs the earlier features.yaml, which a cluster does not have.
func (l *law) announcementBackdated() {
	if l.old.File == nil {
		return
	}
	l.eachPair(func(p *pair) {
		before, _ := l.old.File.entryOf(p.gate)
		for _, what := range sortedKeys(p.entry.Announced) {
			// The release in preparation can announce until it is released.
			if release := p.entry.Announced[what]; !isNewerRelease(release, l.old.Release) && !sameRelease(release, l.next.Release) && (before == nil || before.Announced[what] != release) {
				l.addFinding(p.gate, "announced", "features.yaml of %s did not announce %s of %s, but now says that %s did", l.old.Release, what, p.gate, release)
			}
		}
	})
}

// betaSkipped goes by the history, so that a beta release between the base and now counts.
func (l *law) betaSkipped(p *pair) {
	for _, s := range p.steps {
		if s.from.stage == v1alpha1.Alpha && s.to.stage == v1alpha1.Stable {
			l.addFinding(p.gate, "stages", "%s goes from alpha to stable in %s", p.gate, s.to.begins)
		}
	}
}

// bornTooStable counts features that begin as deprecated too: they were never there to be tried.
func (l *law) bornTooStable(p *pair) {
	for _, s := range p.steps {
		if s.from.stage == "" && (s.to.stage == v1alpha1.Stable || s.to.stage == v1alpha1.Deprecated) {
			l.addFinding(p.gate, "stages", "%s begins as %s in %s", p.gate, lowerStage(s.to.stage), s.to.begins)
		}
	}
}

// lockOpened passes a lock that goes together with its default, as for a value of an enum in its second
// release.
func (l *law) lockOpened(p *pair) {
	for _, s := range p.steps {
		if s.from.locked && !s.to.locked && s.from.on == s.to.on {
			l.addFinding(p.gate, "stages", "%s was locked since %s, and no longer is in %s", p.gate, s.from.begins, s.to.begins)
		}
	}
}

// lockedAgainstUsers passes stable features, whose users had a stage to get ready, and removals, which have
// rules of their own.
func (l *law) lockedAgainstUsers(p *pair) {
	for _, s := range p.steps {
		if s.from.stage != "" && !s.from.locked && s.to.locked && s.from.stage != v1alpha1.Stable && s.to.stage != v1alpha1.Removed {
			l.addFinding(p.gate, "stages", "%s is locked in %s, and was %s and not locked before", p.gate, s.to.begins, lowerStage(s.from.stage))
		}
	}
}

// keyChanged compares keys with their defaults filled in, so that writing out the default key changes nothing.
func (l *law) keyChanged(p *pair) {
	if p.was != nil && p.is != nil && p.oldAt >= 0 && (p.was.Spec.Key != p.is.Spec.Key || p.was.Spec.Inverted != p.is.Spec.Inverted) {
		l.addFinding(p.gate, "key", "the key of %s was %s and is now %s, or means the opposite", p.gate, p.was.Spec.Key, p.is.Spec.Key)
	}
}

// promotedUndocumented also reports a page that is named and is no file of the project.
func (l *law) promotedUndocumented(p *pair) {
	l.promoted(p, "documentation", "documentation", func(e *Entry) bool { return e.Documentation != "" })
	if page := p.entry.Documentation; (p.isStage == v1alpha1.Beta || p.isStage == v1alpha1.Stable) && !l.next.File.hasPage(page) {
		l.addFinding(p.gate, "documentation", "%s is %s, and its page %s does not exist", p.gate, lowerStage(p.isStage), page)
	}
}

// promotedUntested wants tests of both values, because users run both.
func (l *law) promotedUntested(p *pair) {
	l.promoted(p, "tests", "tests for on and off", func(e *Entry) bool { return len(e.Tests.On) > 0 && len(e.Tests.Off) > 0 })
}

// promoted checks that a feature has something when it reaches beta or stable, and does not lose it while it is at these stages.
func (l *law) promoted(p *pair, where, what string, has func(*Entry) bool) {
	if has(p.entry) || p.isStage != v1alpha1.Beta && p.isStage != v1alpha1.Stable {
		return
	}
	for _, s := range p.steps {
		if (s.to.stage == v1alpha1.Beta || s.to.stage == v1alpha1.Stable) && stageRank(s.to.stage) > stageRank(s.from.stage) {
			l.addFinding(p.gate, where, "%s becomes %s without %s", p.gate, lowerStage(s.to.stage), what)
			return
		}
	}
	if l.old.File == nil {
		return
	}
	if before, _ := l.old.File.entryOf(p.gate); before != nil && has(before) {
		l.addFinding(p.gate, where, "%s is %s, and has lost its %s", p.gate, lowerStage(p.isStage), what)
	}
}

// singleReaderUnsafe says nothing if several processes read a value, or if nobody says who does.
func (l *law) singleReaderUnsafe(p *pair) {
	for _, s := range p.steps {
		if len(p.entry.ReadBy) == 1 && s.to.on && !s.from.on && l.countMinors(p.entry.SafeSince, cmp.Or(s.to.release, l.next.Release)) < 2 {
			l.addFinding(p.gate, "safeSince", "%[2]s is on by default in %[3]s, and only %[1]s reads the values that it gates; two minor releases before it have to be safe (safeSince: %[4]q)", p.entry.ReadBy[0], p.gate, s.to.begins, p.entry.SafeSince)
		}
	}
}

// gateOverdue leaves to package feature how long a stage may last.
func (l *law) gateOverdue() {
	for _, x := range l.next.Model.Lint(l.day) {
		if x.Code == feature.CodeOverdue {
			l.addFinding(x.Gate, strings.TrimPrefix(x.Where, "spec."), "%s", x.Message)
		}
	}
}

// releaseMovedBack is reported at the first feature.
func (l *law) releaseMovedBack() {
	if isNewerRelease(l.old.Release, l.next.Release) && len(l.next.Features) > 0 {
		l.addFinding(l.next.Features[0].Gate, "", "the release was %s and is now %s", l.old.Release, l.next.Release)
	}
}

// releaseNotRecorded passes stages with a day of their own, and the release in preparation, whose day is
// today.
func (l *law) releaseNotRecorded(p *pair) {
	for i := range p.next.Stages[:p.nextAt+1] {
		s := &p.next.Stages[i]
		if _, ok := l.dayOf(s.Release); s.Release != "" && s.Date == "" && !ok {
			l.addFinding(p.gate, "stages", "releases does not record the date of %s, in which %s became %s", s.Release, p.gate, lowerStage(s.Stage))
		}
	}
}

// sameParts returns the new feature that has the parts of an old one, or nothing.
func (l *law) sameParts(old *v1alpha1.FeatureSpec) string {
	for i := range l.next.Features {
		f := &l.next.Features[i]
		if len(old.Parts) > 0 && len(f.Parts) == len(old.Parts) && l.old.specOf(f.Gate) == nil && partKey(&f.Parts[0]) == partKey(&old.Parts[0]) {
			return f.Gate
		}
	}
	return ""
}

// partKey is the same for parts that gate the same, in any version.
func partKey(p *v1alpha1.Part) string {
	return strings.Join([]string{p.Group, p.Resource, p.Field, strings.Join(p.Values, ","), p.Pattern, boundsOf(p)}, "|")
}

// lowerStage is a stage as sentences have it.
func lowerStage(s v1alpha1.Stage) string { return strings.ToLower(string(s)) }

// orPlanned is [lowerStage] for a stage that may not have begun.
func orPlanned(s v1alpha1.Stage) string {
	if s == "" {
		return "only planned"
	}
	return lowerStage(s)
}
