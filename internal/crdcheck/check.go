package crdcheck

// What becomes of a comparison of many CRDs, and of the objects in a cluster? Compare runs the comparisons of
// package compat on all processors. Tell adds to the result of a CRD what a scan of its stored objects found: each
// count becomes a finding with a number, examples, and the level of its rule.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
	"sluice.dev/report"
)

// Options are those of a comparison.
type Options = compat.Options

// Ask returns what asks the API server of a cluster, for the Server of [Options]. A refusal by another webhook is
// a [compat.AdmissionError], because it says nothing about the CRD itself.
func Ask(c *cluster.Cluster) func(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
	return func(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error) {
		errs, err := c.DryRun(ctx, live, next)
		if denied, ok := errors.AsType[*cluster.Denied](err); ok {
			err = &compat.AdmissionError{Says: denied.Says}
		}
		return errs, err
	}
}

// Pair is a CRD as it is and as it is to be; either may be nil. Without Old it is a new CRD, without New one that
// is removed; both are judged, too.
type Pair struct {
	Old, New *apiextensionsv1.CustomResourceDefinition
}

// Compare compares the pairs on all processors, without objects. done, where not nil, is called with the number of pairs
// that are finished; calls may be concurrent. Results are in the order of the pairs. If ctx is done, Compare returns at once, whatever a
// comparison is busy with.
func Compare(ctx context.Context, pairs []Pair, o Options, done func(int64)) ([]report.CRD, error) {
	out := make([]report.CRD, len(pairs))
	errs := make([]error, len(pairs))
	var finished atomic.Int64
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	finishedAll := make(chan struct{})
	go func() {
		defer close(finishedAll)
		for i := range pairs {
			group.Go(func() error {
				if ctx.Err() == nil {
					out[i], errs[i] = comparePair(ctx, pairs[i], o)
				}
				if done != nil && ctx.Err() == nil {
					done(finished.Add(1))
				}
				return nil
			})
		}
		_ = group.Wait() // errs has the errors, in order
	}()
	select {
	case <-ctx.Done():
	case <-finishedAll:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, errors.Join(errs...)
}

// comparePair turns a panic into an error. Compare runs it in goroutines of its own, where no caller can recover.
// The error has the stack, for a report about the mistake.
func comparePair(ctx context.Context, p Pair, o Options) (out report.CRD, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a mistake in sluice: %v\n%s", r, debug.Stack())
		}
	}()
	return compat.Check(ctx, p.Old, p.New, o)
}

// maxExamples is how many objects are named in a finding.
const maxExamples = 10

// Tell adds what a scan found to the result of the CRD, and its counts to the findings that it bears out. A scan
// that could not judge at all makes an undecided finding, which fails. Findings of the schemas about managedFields
// give way to what the objects show.
func Tell(out *report.CRD, s cluster.Scan) {
	if s.Note != "" {
		out.Findings = append(out.Findings, report.Finding{
			Rule: ruleObjectsUnread, Outcome: report.Undecided, Severity: report.Fail, CRD: out.Name, Version: s.Version,
			Message: "the stored objects could not be judged", Reason: s.Note,
		})
		if out.Verdict != report.Unsafe {
			out.Verdict = report.IsUndecided
		}
		return
	}
	out.Objects = &report.ObjectScan{
		Version: s.Version, Checked: s.Checked, Refused: max(s.Refused, s.Strict), Pruned: s.Dropped, Changed: s.Defaulted, Unappliable: s.NoApply, Unjudged: s.Unjudged,
	}
	if s.Unjudged > 0 {
		tellUnjudged(out, &s)
	}
	add := func(rule string, level report.Level, n int64, message string, has func(cluster.Fate) (bool, string)) {
		if n == 0 {
			return
		}
		f := report.Finding{
			Rule: rule, Level: level, Outcome: report.Violation, CRD: out.Name, Version: s.Target,
			Objects: &report.Objects{Checked: s.Checked, Affected: n},
		}
		f.Severity, _ = level.Default()
		why := ""
		for _, fate := range s.Fates {
			ok, text := has(fate)
			if ok && why == "" {
				why = text
			}
			if ok && len(f.Objects.Examples) < maxExamples {
				f.Objects.Examples = append(f.Objects.Examples, fate.Name)
			}
		}
		f.Message = fmt.Sprintf("%d of %s %s", n, brief.Count(s.Checked, "stored object"), message)
		f.After = why
		out.Findings = append(out.Findings, f)
		if s, _ := level.Default(); s == report.Fail {
			out.Verdict = report.Unsafe
		}
	}
	add(ruleObjectsRefused, report.ObjectsStuck, s.Refused, "would be refused by any update", func(f cluster.Fate) (bool, string) {
		return len(f.Refused) > 0, strings.Join(f.Refused, "; ")
	})
	add(ruleObjectsRefused, report.ObjectsStuck, s.StatusRefused, "would be refused by every write of their status, which the API server does not ratchet before Kubernetes 1.33",
		func(f cluster.Fate) (bool, string) { return f.StatusRefused != "", f.StatusRefused })
	add(ruleObjectsUnappliable, report.ObjectsStuck, s.Unappliable, "would be refused by every server-side apply, whatever it applies", func(f cluster.Fate) (bool, string) {
		return f.Unappliable != "", f.Unappliable
	})
	add(ruleObjectsRatcheted, report.ObjectsRatcheted, s.Tolerated,
		"would be refused by an update that touches the field", func(f cluster.Fate) (bool, string) {
			return len(f.Strict) > 0 && len(f.Refused) == 0 && f.Unappliable == "" && f.StatusRefused == "", strings.Join(f.Strict, "; ")
		})
	add(ruleObjectsRatcheted, report.ObjectsRatcheted, s.Repeats, "would be refused by an apply of the same manifest, and when it is created again, because a list holds an item twice",
		func(f cluster.Fate) (bool, string) { return f.Repeats != "", f.Repeats })
	// The objects answer what the schemas alone can only warn of.
	ownersHarm := "would be refused by every server-side apply, because metadata.managedFields names a version that is removed"
	if slices.ContainsFunc(out.Findings, func(f report.Finding) bool { return f.Rule == compat.OwnersRule && f.After == compat.OwnersConverted }) {
		ownersHarm = "would need the new webhook for every server-side apply, because metadata.managedFields names a version that it has to convert"
	}
	out.Findings = slices.DeleteFunc(out.Findings, func(f report.Finding) bool { return f.Rule == compat.OwnersRule })
	add(compat.OwnersRule, report.ClientsBroken, s.OwnersGone, ownersHarm+"; sluice migrate "+out.Name+" rewrites that",
		func(f cluster.Fate) (bool, string) { return f.OwnersGone != "", f.OwnersGone })
	add(ruleObjectsPruned, report.DataLost, s.Dropped, "would lose data", func(f cluster.Fate) (bool, string) {
		return len(f.Dropped) > 0, "loses " + strings.Join(f.Dropped, ", ")
	})
}

// tellUnjudged adds a finding about objects that could not be judged. It names ten of them, and the reason of the
// first.
func tellUnjudged(out *report.CRD, s *cluster.Scan) {
	f := report.Finding{
		Rule: ruleObjectsUnread, Outcome: report.Undecided, Severity: report.Fail, CRD: out.Name, Version: s.Target,
		Message: fmt.Sprintf("%d of %s could not be judged", s.Unjudged, brief.Count(s.Checked, "stored object")),
		Objects: &report.Objects{Checked: s.Checked, Affected: s.Unjudged},
	}
	for _, fate := range s.Fates {
		if fate.Unjudged != "" && len(f.Objects.Examples) < maxExamples {
			f.Reason = cmp.Or(f.Reason, fate.Unjudged)
			f.Objects.Examples = append(f.Objects.Examples, fate.Name)
		}
	}
	out.Findings = append(out.Findings, f)
}
