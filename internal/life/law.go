package life

// May a component change its features like that? The law has rules, such as that a beta feature is not removed
// within nine months of its announcement, and a policy says which windows and rules hold. Two states of the
// component are compared.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// Rule is one rule of the law: a change of a feature that is not allowed.
type Rule struct {
	// ID is kebab-case; it is never used again.
	ID string
	// Why says whom the rule protects, Help what to do instead.
	Why, Help string
	Level     report.Level
	// Warn is set if the finding is a warning.
	Warn bool

	// alone is set if the rule looks at the new state only.
	alone bool
	check func(l *law)
}

// Policy is a set of windows.
type Policy struct {
	Name    string
	Windows map[v1alpha1.Stage]Window
	// Off are rules that the policy does not have.
	Off []string
	// GateAfterFlip is how many minor releases after the flip of its default a feature can lose its gate; 0 if it has to be locked first.
	GateAfterFlip int
}

// Policies are the policies that features.yaml can name, besides custom.
func Policies() []Policy {
	return []Policy{
		// The deprecation policy of Kubernetes, rules 4a to 4c: the longer of months and releases. It allows removing alpha features at once;
		// here, that needs an announcement.
		{Name: "kubernetes", Windows: map[v1alpha1.Stage]Window{v1alpha1.Alpha: {Releases: 1}, v1alpha1.Beta: {9, 3}, v1alpha1.Stable: {12, 3}}},
		// TEP-0033 and Tekton's API compatibility policy. The incompatible change is the flip of the default; the flag can go in the next release.
		{Name: "tekton", Windows: map[v1alpha1.Stage]Window{v1alpha1.Alpha: {Releases: 1}, v1alpha1.Beta: {Months: 9}, v1alpha1.Stable: {Months: 12}}, Off: []string{"beta-skipped"}, GateAfterFlip: 1},
		// cert-manager has gates of processes, without months.
		{Name: "cert-manager", Windows: map[v1alpha1.Stage]Window{v1alpha1.Alpha: {Releases: 1}, v1alpha1.Beta: {Releases: 1}, v1alpha1.Stable: {12, 2}}, Off: []string{"beta-skipped"}},
	}
}

// State is a component at one time: its features with their parts, and its CRDs.
type State struct {
	// Name is the name that the user gave.
	Name     string
	Release  string
	Features []v1alpha1.FeatureSpec
	CRDs     []*apiextensionsv1.CustomResourceDefinition
	Model    *feature.Model
	// File is features.yaml; nil for a cluster.
	File *File
}

// State returns the present state of a project.
func (p *Project) State() *State {
	return &State{
		Name: p.Name(), Release: p.File.Spec.Release, Features: p.Declaration.Features, CRDs: p.CRDs, Model: p.Model, File: p.File,
	}
}

// specOf returns the definition of a feature with all its parts, nil if there is none.
func (s *State) specOf(gate string) *v1alpha1.FeatureSpec {
	for i := range s.Features {
		if s.Features[i].Gate == gate {
			return &s.Features[i]
		}
	}
	return nil
}

// crdNamed returns a CRD by its name, such as books.example.dev; nil if there is none.
func (s *State) crdNamed(name string) *apiextensionsv1.CustomResourceDefinition {
	for _, c := range s.CRDs {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// severities are the values under rules in features.yaml.
var severities = map[string]report.Severity{"fail": report.Fail, "warn": report.Warn, "ignore": report.Off}

// law compares two states.
type law struct {
	ctx       context.Context
	old, next *State
	day       time.Time
	windows   map[v1alpha1.Stage]Window
	afterFlip int // see Policy
	rule      *Rule
	severity  report.Severity
	found     []report.Finding
	compared  []report.Finding // of compat; nil before it is asked
}

// Verify compares a component with its earlier state, by the policy of its features.yaml; nil stands for nothing to compare with, and then
// only the rules about the new state count. Findings are grouped by feature and by CRD, as the printers of package report expect them. The
// day is that of the release in preparation. The error says what is wrong in features.yaml.
func Verify(ctx context.Context, old, next *State, day time.Time) (*report.Report, error) {
	f := next.File
	nothing := old == nil
	if nothing {
		// An empty state stands for the missing one, so that rules about the new state alone need no case for it.
		old = &State{Model: &feature.Model{}}
	}
	l := &law{ctx: ctx, old: old, next: next, day: day, windows: map[v1alpha1.Stage]Window{}}
	off, err := l.readPolicy(f)
	if err != nil {
		return nil, err
	}
	l.applyRules(off, nothing)
	return l.reportFound(), nil
}

// applyRules checks the rules that are on; nothing says that there is no earlier state, and off are the rules that the policy does not have.
func (l *law) applyRules(off []string, nothing bool) {
	rules := Rules()
	for i := range rules {
		l.rule = &rules[i]
		l.severity = report.Fail
		if l.rule.Warn {
			l.severity = report.Warn
		}
		if slices.Contains(off, l.rule.ID) {
			l.severity = report.Off
		}
		if s, ok := l.next.File.Rules[l.rule.ID]; ok {
			l.severity = severities[s]
		}
		if l.severity != report.Off && (l.rule.alone || !nothing) {
			l.rule.check(l)
		}
	}
}

// reportFound makes the report of the findings: features first, each even without a finding, then CRDs.
func (l *law) reportFound() *report.Report {
	r := &report.Report{Old: l.old.Name, New: l.next.Name, Mode: "error", FailMode: "closed"}
	put := func(name string) *report.CRD {
		for i := range r.CRDs {
			if r.CRDs[i].Name == name {
				return &r.CRDs[i]
			}
		}
		r.CRDs = append(r.CRDs, report.CRD{Name: name, Verdict: report.Safe})
		return &r.CRDs[len(r.CRDs)-1]
	}
	for i := range l.next.Features {
		gate := l.next.Features[i].Gate
		if c := put(feature.ObjectName(l.next.File.Component, gate)); l.old.Model.Feature(gate) == nil {
			c.Verdict = report.IsNew
		}
	}
	for _, x := range l.found {
		c := put(x.CRD)
		c.Findings = append(c.Findings, x)
		if x.Severity == report.Fail {
			c.Verdict = report.Unsafe
		}
	}
	switch crds := len(r.CRDs) - len(l.next.Features); {
	case crds == 0:
		r.Noun = "feature"
	case len(l.next.Features) > 0:
		r.Noun = "features and CRD" // there are at least two, so that an s follows
	}
	r.Sort()
	return r
}

// readPolicy reads policy, windows, rules and releases.
func (l *law) readPolicy(f *File) (off []string, err error) {
	var wrong Problems
	bad := func(where, format string, args ...any) {
		file, line := f.placeOf(where)
		wrong.addProblem(file, line, format, args...)
	}
	name := cmp.Or(f.Policy, "kubernetes")
	var names []string
	for _, p := range Policies() {
		names = append(names, p.Name)
		if p.Name == name {
			maps.Copy(l.windows, p.Windows)
			off, l.afterFlip = p.Off, p.GateAfterFlip
		}
	}
	names = append(names, "custom")
	if !slices.Contains(names, name) {
		bad("policy", "there is no policy %q%s; the policies are %s", name, brief.Hint(name, names), strings.Join(names, ", "))
	}
	stages := []string{string(v1alpha1.Alpha), string(v1alpha1.Beta), string(v1alpha1.Stable)}
	// Windows of the file replace those of the policy, one by one.
	for s, w := range f.Windows {
		if !slices.Contains(stages, string(s)) {
			bad("windows."+string(s), "there is no window for %q%s; the stages are %s", s, brief.Hint(string(s), stages), strings.Join(stages, ", "))
		}
		l.windows[s] = w
	}
	var ids []string
	for _, r := range Rules() {
		ids = append(ids, r.ID)
	}
	for id, s := range f.Rules {
		if !slices.Contains(ids, id) {
			bad("rules."+id, "there is no rule %q%s", id, brief.Hint(id, ids))
		}
		if severities[s] == "" {
			bad("rules."+id, "the severity is %q; it is fail, warn or ignore", s)
		}
	}
	for i, r := range f.Releases {
		where := fmt.Sprintf("releases[%d]", i)
		if _, err := semver.NewVersion(r.Release); err != nil {
			bad(where+".release", "%q is no version such as v1.2.0", r.Release)
		}
		if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
			bad(where+".date", "%q is no day such as 2026-01-31", r.Date)
		}
	}
	return off, wrong.asError()
}

// addFinding adds a finding about a feature.
func (l *law) addFinding(gate, where, format string, args ...any) {
	i := slices.IndexFunc(l.next.File.Features, func(e Entry) bool { return e.Gate == gate })
	place := "features"
	if i >= 0 {
		place = strings.TrimSuffix(fmt.Sprintf("features[%d].%s", i, where), ".")
	}
	l.noteFinding(place, report.Finding{CRD: feature.ObjectName(l.next.File.Component, gate), Path: cmp.Or(where, "definition"), Message: fmt.Sprintf(format, args...)})
}

// tellCRD adds a finding about a CRD.
func (l *law) tellCRD(crd, version, path, format string, args ...any) {
	l.noteFinding("source", report.Finding{CRD: crd, Version: version, Path: path, Message: fmt.Sprintf(format, args...)})
}

// noteFinding adds a finding of the present rule at a place in features.yaml.
func (l *law) noteFinding(place string, x report.Finding) {
	x.Rule, x.Level, x.Outcome, x.Severity = l.rule.ID, l.rule.Level, report.Violation, l.severity
	if file, line := l.next.File.placeOf(place); file != "" {
		x.Position = &report.Position{File: file, Line: line}
	}
	l.found = append(l.found, x)
}

// pair is a feature on both sides. entry is its entry in features.yaml.
type pair struct {
	gate      string
	old, next *v1alpha1.FeatureSpec
	was, is   *feature.Feature // nil if package feature found errors
	entry     *Entry
	oldAt     int // the index of the stage that had begun, -1 for none
	nextAt    int
	wasStage  v1alpha1.Stage
	isStage   v1alpha1.Stage
	steps     []step // since the base, the oldest first
}

// step is a step in the history of a feature: from one entry to the next.
type step struct{ from, to moment }

// moment is a feature as of an entry; the zero value stands for the time before its first entry.
type moment struct {
	stage      v1alpha1.Stage
	on, locked bool // on: in effect while nothing is set
	release    string
	begins     string // the release, or the day
}

// stepsOf returns the steps of a feature since the base, by the history in features.yaml, so that it does not matter how many releases lie
// between. An entry that is older than the base, and that the base does not have, is a claim of today: it is passed over.
func (l *law) stepsOf(p *pair) (out []step) {
	var from moment
	defaults := p.is.DefaultsInEffect()
	for i := range p.next.Stages[:p.nextAt+1] {
		s := &p.next.Stages[i]
		now := moment{s.Stage, defaults[i], s.LockToDefault || s.Stage == v1alpha1.Removed, s.Release, feature.Since(s)}
		if i > p.oldAt {
			if i < p.nextAt && isNewerRelease(l.old.Release, s.Release) {
				continue
			}
			out = append(out, step{from, now})
		}
		from = now
		if i == p.oldAt {
			from.on = p.was.DefaultsInEffect()[i]
		}
	}
	if now := from; out == nil && p.nextAt >= 0 && now.on != defaults[p.nextAt] {
		// The component or the definition changed what is in effect, without a new entry.
		now.on, now.release, now.begins = defaults[p.nextAt], l.next.Release, l.next.Release
		out = append(out, step{from, now})
	}
	return out
}

// eachPair calls f for each feature that both sides have and that had begun, and for new features, with old nil.
func (l *law) eachPair(f func(p *pair)) {
	for i := range l.next.Features {
		p := pair{next: &l.next.Features[i], oldAt: -1, nextAt: -1}
		p.gate = p.next.Gate
		p.entry, _ = l.next.File.entryOf(p.gate)
		if p.old = l.old.specOf(p.gate); p.old != nil {
			if p.was = l.old.Model.Feature(p.gate); p.was != nil {
				p.oldAt, p.wasStage = p.was.Entry, p.was.Stage
			}
		}
		if p.is = l.next.Model.Feature(p.gate); p.is != nil {
			p.nextAt, p.isStage = p.is.Entry, p.is.Stage
			p.steps = l.stepsOf(&p)
		}
		if p.entry != nil {
			f(&p)
		}
	}
}

// dayOf returns the recorded day of a release. For the release in preparation it returns today.
func (l *law) dayOf(release string) (time.Time, bool) {
	if day, ok := l.next.File.dayOfRelease(release); ok {
		t, err := time.Parse(time.DateOnly, day)
		return t, err == nil
	}
	if sameRelease(release, l.next.Release) {
		return l.day, !l.day.IsZero()
	}
	return time.Time{}, false
}

// tooEarly says why release to is too early for a change at a stage, if release from announced the change; empty if it is not.
func (l *law) tooEarly(stage v1alpha1.Stage, from, to string) string {
	w := l.windows[stage]
	// The policy wants no announcement at this stage.
	if w == (Window{}) {
		return ""
	}
	name := strings.ToLower(string(stage))
	if from == "" {
		return fmt.Sprintf("it was never announced; what is %s has to be announced %s before", name, w)
	}
	if w.Releases > 0 {
		n := l.countMinors(from, to)
		if n < w.Releases {
			return fmt.Sprintf("it was announced in %s, %s before; what is %s takes %s", from, brief.Count(n, "minor release"), name, w)
		}
	}
	if w.Months > 0 {
		a, okA := l.dayOf(from)
		b, okB := l.dayOf(to)
		switch {
		case !okA || !okB:
			return fmt.Sprintf("releases does not record the date of %s or %s, so the window (%s) cannot be computed", from, to, w)
		case b.Before(a.AddDate(0, w.Months, 0)):
			return fmt.Sprintf("it was announced in %s on %s; what is %s takes %s, until %s", from, a.Format(time.DateOnly), name, w, a.AddDate(0, w.Months, 0).Format(time.DateOnly))
		}
	}
	return ""
}

// countMinors counts the minor releases after one, up to another.
func (l *law) countMinors(from, to string) int {
	a, errA := semver.NewVersion(from)
	b, errB := semver.NewVersion(to)
	if errA != nil || errB != nil {
		return 0
	}
	seen := map[string]bool{}
	add := func(v *semver.Version) {
		if isLaterMinor(v, a) && !isLaterMinor(v, b) {
			seen[fmt.Sprintf("%d.%d", v.Major(), v.Minor())] = true
		}
	}
	for _, r := range l.next.File.Releases {
		if v, err := semver.NewVersion(r.Release); err == nil {
			add(v)
		}
	}
	add(b)
	return len(seen)
}

// isLaterMinor reports whether a is of a later minor release than b.
func isLaterMinor(a, b *semver.Version) bool {
	return a.Major() > b.Major() || a.Major() == b.Major() && a.Minor() > b.Minor()
}

// sameRelease reports whether two releases are the same version: v1.2.0 and 1.2 are. Texts that are no
// versions are never the same.
func sameRelease(a, b string) bool {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	return errX == nil && errY == nil && x.Equal(y)
}

// String is the window in words.
func (w Window) String() string {
	var parts []string
	if w.Months > 0 {
		parts = append(parts, brief.Count(w.Months, "month"))
	}
	if w.Releases > 0 {
		parts = append(parts, brief.Count(w.Releases, "minor release"))
	}
	return strings.Join(parts, " and ")
}
