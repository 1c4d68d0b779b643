package compat

// How does a comparison go, from two CRDs to findings? [Check] validates the new CRD as the API server does, compares the versions, and has
// each rule say what a difference means. For example, what the API server refuses is reported first, because nothing of it would be
// installed.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// KubeVersions returns the oldest and the newest Kubernetes version whose rules are known. The newest is that of the linked
// libraries.
func KubeVersions() (oldest, newest *version.Version) { return upstream.Oldest, upstream.Newest }

// ErrNothing is the error of [Check] for two nil CRDs.
var ErrNothing = errors.New("there is no CRD to check")

// ErrDifferentCRDs is the error of [Check] for CRDs of different names.
// A CRD with another name is another API, so there is no step from one to the other.
var ErrDifferentCRDs = errors.New("these are two different CRDs")

// Check compares old with new. One of them may be nil: the CRD was added, or removed. Check changes neither; both may share parts.
//
// The findings are in the order of [report.Report.Sort]. Their severities are the defaults of their levels, Fail for undecided
// changes, and Warn for notes. Check fills in SchemaPath and leaves positions empty. The verdict is removed without new. Otherwise it is
// unsafe if a violation is at a level that fails by default, undecided if a change is undecided, new without old, unchanged if both CRDs
// mean the same in every keyword, and safe for all else.
//
// If parts could not be compared, because a schema is too large or the context was done, an undecided finding says so. The error is
// [ErrNothing] or [ErrDifferentCRDs].
func Check(ctx context.Context, old, new *apiextensionsv1.CustomResourceDefinition, o Options) (report.CRD, error) {
	if old == nil && new == nil {
		return report.CRD{}, ErrNothing
	}
	if old != nil && new != nil && old.Name != new.Name {
		return report.CRD{}, fmt.Errorf("%w: %s and %s", ErrDifferentCRDs, old.Name, new.Name)
	}
	c := newComparison(old, new, o)
	out := report.CRD{Name: c.crdName(), Verdict: report.IsUnchanged}
	if c.onlyTextsDiffer() && c.frameAccepted(ctx) {
		c.traceEqual()
		return out, nil
	}
	c.applyRules(ctx)
	c.tellSpent()
	sorted := report.Report{CRDs: []report.CRD{{Name: out.Name, Findings: c.findings}}}
	sorted.Sort()
	out.Findings = sorted.CRDs[0].Findings
	out.Verdict = c.verdictOf(out.Findings)
	return out, nil
}

// tellSpent adds a finding where the budget was spent and no other one says so: what is told may not be all.
func (c *comparison) tellSpent() {
	if c.work.Spent() && !slices.ContainsFunc(c.findings, func(f report.Finding) bool { return f.Outcome == report.Undecided }) {
		c.addFinding(report.Finding{Rule: "schema-changed", Outcome: report.Undecided, Message: Undetermined + ": not everything was compared", Reason: contain.TooMuch})
	}
}

// verdictOf is the verdict on both CRDs, given all findings.
// A violation that fails by default settles it. An undecided change counts for less than that and for more than all
// else, whatever the order of the findings.
func (c *comparison) verdictOf(findings []report.Finding) report.Verdict {
	v := report.Safe
	switch {
	case c.new == nil:
		return report.IsRemoved
	case c.old == nil:
		v = report.IsNew
	case len(findings) == 0 && c.sameHashes():
		v = report.IsUnchanged
	}
	for i := range findings {
		switch f := &findings[i]; f.Outcome {
		case report.Violation:
			if s, _ := f.Level.Default(); s == report.Fail {
				return report.Unsafe
			}
		case report.Undecided:
			v = report.IsUndecided
		case report.Note:
		}
	}
	return v
}

// startAhead starts f at once. The returned function waits for the result of f. If f panics, each call of that function panics too, so that
// the caller can recover.
func startAhead[T any](f func() T) func() T {
	once := sync.OnceValue(f)
	go func() {
		defer func() { _ = recover() }() // OnceValue panics again
		once()
	}()
	return once
}

// applyRules applies all rules.
// Findings of schemas come first and those of whole CRDs after them; [Check] sorts all of them.
func (c *comparison) applyRules(ctx context.Context) {
	c.refusal = startAhead(func() *refusal { return c.validateByServer(ctx) }) // takes as long as the comparison of schemas
	for _, p := range c.pairs {
		c.compareSchemas(ctx, p)
	}
	for i := range c.rules {
		r := &c.rules[i]
		if r.whole == nil {
			continue
		}
		for _, f := range r.whole(ctx, c) {
			f.Rule = r.ID
			if f.Outcome == "" {
				f.Outcome = report.Violation
			}
			if f.Outcome == report.Violation {
				f.Level = cmp.Or(f.Level, r.Level)
			}
			c.addFinding(f)
		}
	}
}

// addFinding completes a finding and keeps it.
// Severities are the defaults of the levels here. The caller overrides them by its configuration.
func (c *comparison) addFinding(f report.Finding) {
	f.CRD = c.crdName()
	switch f.Outcome {
	case report.Violation:
		f.Severity, _ = f.Level.Default()
	case report.Undecided:
		f.Level, f.Severity = "", report.Fail
	case report.Note:
		f.Level, f.Severity = "", report.Warn
	}
	c.findings = append(c.findings, f)
}
