package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// This file judges an update by the same comparison as sluice check. Any client can cause it, within the time-out of an admission
// webhook. So its work, its memory and its time are bounded, and it runs only while there is room. What could not be compared in time
// is undecided, and not safe.

const ruleChanged = "schema-changed"

var (
	errBusy = errors.New("the guard is busy with other changes; try again")
	errSlow = errors.New("there was not enough time; the webhook's timeoutSeconds may go up to 30")
)

// judgeUpdate judges an update. It returns nil for one that needs no check.
//
// An error means that the request makes no sense. A spec of too many JSON objects is not decoded, and undecided. The change of an
// update that could not be compared for lack of time is marked as hurried.
func (g *Guard) judgeUpdate(ctx context.Context, req *admissionv1.AdmissionRequest) (*change, error) {
	oldSpec, err := specOf(req.OldObject.Raw)
	if err != nil {
		return nil, err
	}
	newSpec, err := specOf(req.Object.Raw)
	if err != nil {
		return nil, err
	}
	if leftAlone(oldSpec, newSpec) {
		return nil, nil
	}
	head, err := headOf(req.Object.Raw)
	if err != nil {
		return nil, err
	}
	c := &change{crd: head, done: func() {}}
	if max(objectsIn(oldSpec), objectsIn(newSpec)) > maxObjects {
		err = fmt.Errorf("it is made of more than %d JSON objects", maxObjects)
		c.setUndecided(err)
		return c, nil
	}
	result, err := g.compareInSlot(ctx, req, c)
	if err != nil {
		c.hurried = errors.Is(err, errBusy) || errors.Is(err, errSlow)
		c.setUndecided(err)
		return c, nil
	}
	g.askOwners(ctx, req, &result)
	c.crds = []report.CRD{result}
	return c, nil
}

// ownersTime bounds how long the objects are asked which versions their owners are noted in.
const ownersTime = 2 * time.Second

// askOwners has the stored objects answer the notes of [compat.OwnersRule], of which the schemas alone know nothing. Where no object
// names the removed version the note goes, and where some do it becomes a violation. If not all objects could be read, the note says
// why.
func (g *Guard) askOwners(ctx context.Context, req *admissionv1.AdmissionRequest, result *report.CRD) {
	if !slices.ContainsFunc(result.Findings, isOwnersNote) {
		return
	}
	var live apiextensionsv1.CustomResourceDefinition
	if json.Unmarshal(req.OldObject.Raw, &live) != nil { // it was read before
		return
	}
	short, cancel := context.WithTimeout(ctx, ownersTime)
	defer cancel()
	var left []report.Finding
	for _, f := range result.Findings {
		if isOwnersNote(f) {
			n, err := g.Objects.countOwnedIn(short, &live, live.Spec.Group+"/"+f.Version)
			switch {
			case n.Affected > 0:
				f.Outcome, f.Level, f.Objects, f.Reason = report.Violation, report.ClientsBroken, &n, ""
				f.Severity, _ = f.Level.Default()
				if err != nil {
					f.Reason = err.Error()
				}
				harm, why := "would be refused by", "which is gone"
				if f.After == compat.OwnersConverted {
					harm, why = "would need the new webhook for", "which it has to convert"
				}
				f.Message = fmt.Sprintf("%d of %s %s every server-side apply, because metadata.managedFields names version %s, %s; rewrite that first with: sluice migrate %s",
					n.Affected, brief.Count(n.Checked, "stored object"), harm, f.Version, why, live.Name)
				result.Verdict = report.Unsafe
			case err == nil:
				continue
			default:
				f.Reason = err.Error()
			}
		}
		left = append(left, f)
	}
	result.Findings = left
}

// isOwnersNote reports whether f asks for the stored objects.
func isOwnersNote(f report.Finding) bool {
	return f.Rule == compat.OwnersRule && f.Outcome == report.Note
}

// setUndecided adds a finding that the update could not be compared, with the reason.
func (c *change) setUndecided(why error) {
	f := undecidedFinding(ruleChanged, c.crd.Name, "the change could not be compared", why.Error())
	c.crds = []report.CRD{{Name: c.crd.Name, Findings: []report.Finding{f}}}
	if c.digest == nil {
		c.digest = func(context.Context) (string, error) { return "", why }
	}
}

// compareInSlot decodes and compares when there is room. It releases the room when both the comparison and the change are finished: a
// comparison that does not notice the end of its time keeps the room.
func (g *Guard) compareInSlot(ctx context.Context, req *admissionv1.AdmissionRequest, c *change) (report.CRD, error) {
	compareCtx, cancel := shorterContext(ctx, g.Clock, compareShare)
	defer cancel()
	ctx, cancelWait := shorterContext(ctx, g.Clock, waitShare)
	defer cancelWait()
	select {
	case g.Slots <- struct{}{}:
	case <-ctx.Done():
		return report.CRD{}, errBusy
	}
	compared, answered := make(chan struct{}), make(chan struct{})
	c.done = func() { close(answered) }
	go func() {
		<-compared
		<-answered
		<-g.Slots
	}()

	var old, next apiextensionsv1.CustomResourceDefinition
	if err := errors.Join(json.Unmarshal(req.OldObject.Raw, &old), json.Unmarshal(req.Object.Raw, &next)); err != nil {
		close(compared)
		return report.CRD{}, fmt.Errorf("the CRD cannot be read: %w", err)
	}
	c.digest = func(ctx context.Context) (string, error) {
		return callWithin(ctx, g, func() (string, error) { return compat.SpecDigest(&next) })
	}
	result, err := callWithin(ctx, g, func() (report.CRD, error) {
		defer close(compared)
		// The request has the live object, with the versions in which objects are stored. The API server has validated the new one
		// (rest.BeforeUpdate in k8s.io/apiserver).
		result, err := compat.Check(compareCtx, &old, &next, compat.Options{KubeVersion: g.Settings.kubeVersion(), Budget: Budget, Accepted: true})
		if err == nil && result.Verdict == report.IsUnchanged && sameSpecs(&old, &next) {
			// The API server sees a difference, and this program does not: it does not know the field.
			result.Findings = append(result.Findings, undecidedFinding(ruleChanged, next.Name,
				"the spec has a field that this version of sluice does not know, and it changed", "a newer version of sluice may know it"))
		}
		return result, err
	})
	c.hurried = compareCtx.Err() != nil
	return result, err
}

// Budget bounds the work of the comparison of one CRD, in units of [compat.Options]. It is smaller than that of a user's own check,
// because any client can send many CRDs at a time.
const Budget = compat.DefaultBudget / 4

// callWithin calls f and waits for it until ctx is done; a panic in f is an error.
func callWithin[T any](ctx context.Context, g *Guard, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if r := recover(); r != nil {
				g.Log.Error("a comparison panicked", "panic", r, "stack", string(debug.Stack()))
				o.err = errors.New("the guard failed: this is a mistake in it, and its log has more")
			}
			ended <- o
		}()
		o.value, o.err = f()
	}()
	select {
	case o := <-ended:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, errSlow
	}
}

// undecidedFinding is a finding of the guard's own.
func undecidedFinding(rule, crd, message, reason string) report.Finding {
	return report.Finding{Rule: rule, Outcome: report.Undecided, Severity: report.Fail, CRD: crd, Message: message, Reason: reason}
}

// sameSpecs reports whether the fields that this program knows are equal.
func sameSpecs(old, next *apiextensionsv1.CustomResourceDefinition) bool {
	a, errA := json.Marshal(&old.Spec)
	b, errB := json.Marshal(&next.Spec)
	return errA == nil && errB == nil && string(a) == string(b)
}

// Parts of the time, in percent.
const (
	// waitShare is the share of the time for judging; the rest is for the steps after it.
	waitShare = 85
	// compareShare is the share of the time that a comparison gets. It then needs some time to report its findings, and these are
	// worth more than a message that the time was too short.
	compareShare = 60
)

// shorterContext keeps some of the time for the steps after it.
func shorterContext(ctx context.Context, c clock.PassiveClock, percent time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(end.Sub(c.Now())*percent/100, time.Millisecond))
}
