package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/config"
	"sluice.dev/internal/input"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

// This file applies what was fetched: it checks the source, runs the preflights, writes the objects as the ServiceAccount of the
// delivery, and ends the round with the conditions that say what happened. Each way a round can end has one function. For example, a
// source that the preflights stop ends in endBlocked, which also keeps the running objects as they were delivered.

func ruleIDs() []string { return preflight.Rules() }

// preflightRules writes the preflights of a spec as a configuration of kapp's.
//
// The order of the spec stays. A preflight without a configuration has the defaults that it has in kapp.
func preflightRules(list []v1alpha1.Preflight) ([]byte, error) {
	type rule struct {
		Name   string          `json:"name"`
		Config json.RawMessage `json:"config,omitempty"`
	}
	rules := make([]rule, len(list))
	for i, p := range list {
		rules[i].Name = p.Name
		if p.Config != nil && len(p.Config.Raw) > 0 {
			rules[i].Config = p.Config.Raw
		}
	}
	return json.Marshal(map[string]any{"apiVersion": "kapp.k14s.io/v1alpha1", "kind": "Config", "preflightRules": rules})
}

// impersonatedConfig is the configuration that acts as the ServiceAccount.
//
// The API server judges each request by the rights of that account. So a delivery can do no more than the people who may use the
// account.
func (r *run) impersonatedConfig() *rest.Config {
	c := rest.CopyConfig(r.Config)
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + r.d.Namespace + ":" + r.accountName()}
	return c
}

// newApplier returns an applier that acts as the ServiceAccount. It names this process as the holder of locks, so that others can say
// whom they wait for. It does not contact the cluster.
func (r *run) newApplier() (*apply.Applier, error) {
	namespace := cmp.Or(r.d.Spec.TargetNamespace, r.d.Namespace)
	holder := "Delivery " + keyOf(r.d).String()
	if host, err := os.Hostname(); err == nil {
		holder += " on " + host
	}
	return apply.New(r.impersonatedConfig(), apply.Options{Namespace: namespace, Now: r.Clock.Now, Holder: holder, Locks: &r.locks})
}

// resumedApplier returns an applier that holds the lock of the delivery's app if its last run is not complete. The caller must always
// call unlock.
func (r *run) resumedApplier(ctx context.Context) (a *apply.Applier, unlock func(), err error) {
	if a, err = r.newApplier(); err != nil {
		return nil, func() {}, err
	}
	return a.Resume(ctx, r.d.Namespace, r.d.Name)
}

// checkAndApply checks and applies the fetched objects, and returns when to check again.
//
// What was blocked before is not judged again as long as source, spec and annotation are the same, with one exception: the features
// that are off may have changed. process outlives the time-out of the round, and is for what has to be done after it.
func (r *run) checkAndApply(process context.Context, cfg *config.Config, got *fetched) time.Duration {
	ctx, cancel := context.WithTimeoutCause(process, r.applyTimeout(), errTimeout)
	defer cancel()
	st := &r.d.Status
	decision := &v1alpha1.Decided{Digest: got.revision.Digest, Generation: r.d.Generation, Asked: r.askedToken()}
	c := r.findCondition(v1alpha1.ConditionPreflightsPassed)
	decided := c != nil && c.Reason == v1alpha1.ReasonBlocked && sameSubject(st.Decided, decision)
	if decided && !cfg.Enabled(apply.FeatureGates) {
		return r.endBlocked(process, cfg, got)
	}
	set, objects, brought, err := decodeFetched(ctx, got)
	if err != nil && ctx.Err() != nil {
		return r.endFailed(ctx, got, err) // the error is not about the source
	}
	if err != nil {
		return r.endRefused(process, cfg, got, v1alpha1.ReasonInvalidSource, err.Error())
	}
	if !decided {
		if again, ended := r.migrateFirst(ctx, process, cfg, got, set); ended {
			return again
		}
	}
	a, unlock, err := r.resumedApplier(ctx)
	defer unlock()
	if err != nil {
		return r.endFailed(ctx, got, err)
	}
	request := apply.Request{
		Objects: objects, App: r.d.Name, AppNamespace: r.d.Namespace, Prune: r.d.Spec.Prune, Force: r.d.Spec.Force, Patience: patience,
		Rules: brought.ApplyRules(), NotDone: brought.NotDone(), TakeOver: r.takeOver(),
		Sources: []apply.Source{{Name: got.name, URI: got.revision.URI, Digest: got.digests, EntryPoint: got.revision.EntryPoint}},
	}
	plan, err := a.Plan(ctx, request)
	if err != nil {
		return r.endFailed(ctx, got, err)
	}
	r.tellLost(plan)
	stopped := false
	if decided {
		stopped, err = r.sameFeatures(ctx, a, plan)
	}
	if !stopped && err == nil {
		stopped, err = r.runPreflights(ctx, cfg, a, plan, set, got, decision)
	}
	if err != nil {
		return r.endFailed(ctx, got, err)
	}
	if stopped {
		return r.endBlocked(process, cfg, got)
	}
	over, err := r.tooMany(plan)
	if err != nil {
		return r.endFailed(ctx, got, err)
	}
	if over != "" {
		return r.endRefused(process, cfg, got, v1alpha1.ReasonTooManyDeletions, over)
	}
	return r.carryOut(ctx, process, a, request, plan, got)
}

// carryOut writes a plan that may be written, and returns when to check again. What is applied already is only checked for drift.
func (r *run) carryOut(ctx, process context.Context, a *apply.Applier, request apply.Request, plan *apply.Plan, got *fetched) time.Duration {
	if r.isApplied(got.revision.Digest) {
		stop, err := r.recordDrift(ctx, a, request, plan)
		if apierrors.IsConflict(err) {
			return firstRetry // the delivery was changed in the meantime
		}
		if stop {
			return r.endDelivered(process, a, got)
		}
	}
	plan, err := r.applyPlan(ctx, a, request, plan)
	if ctx.Err() == nil && r.mayWait(plan, err) {
		return r.endWaiting(got, err)
	}
	if err != nil {
		return r.endFailed(ctx, got, err)
	}
	return r.endApplied(process, a, plan, got)
}

// decodeFetched reads the objects that were fetched, and the configuration that comes with them.
//
// An error is about the source, unless ctx has ended. brought has the rules for the order and the readiness of objects.
func decodeFetched(ctx context.Context, got *fetched) (set *input.Set, objects []apply.Object, brought *config.Config, err error) {
	if set, err = input.DecodeObjects(ctx, got.name, got.data); err == nil {
		objects, brought, err = objectsOf(set)
	}
	return set, objects, brought, err
}

// endRefused ends a round whose source is not applied.
//
// The conditions Applied and Ready get the reason. What was applied before stays, and its drift is corrected from the memory of the
// process.
func (r *run) endRefused(process context.Context, cfg *config.Config, got *fetched, reason, message string) time.Duration {
	r.d.Status.Request = got.request
	r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionFalse, reason, message)
	again := r.endWithProblem(reason, message)
	r.correctFromMemory(process, cfg, true)
	return again
}

// tellLost adds an event if the inventory of the app was lost. The plan makes a new one from the source, which cannot have objects
// that the source no longer has.
func (r *run) tellLost(plan *apply.Plan) {
	if plan.Lost() {
		r.events = append(r.events, event{corev1.EventTypeWarning, v1alpha1.ReasonInventoryLost, "the inventory was lost and is created again; objects that the source no longer has may be left over: sluice adopt " + r.d.Name + " -n " + r.d.Namespace + " finds and records them"})
	}
}

// mayWait reports whether the next round goes on with a plan whose objects are not ready.
//
// The time counts from the start that the inventory has, so another process does not begin it anew.
func (r *run) mayWait(plan *apply.Plan, err error) bool {
	return isWaiting(err) && !isLocked(err) && r.now.Sub(plan.Started()) < r.applyTimeout()
}

// takeOver names the apps whose objects the delivery takes.
func (r *run) takeOver() []string {
	var out []string
	for _, ref := range r.d.Spec.TakeOver {
		out = append(out, referenceKey(r.d, ref).String())
	}
	return out
}

// applyPlan applies a plan. If others have changed objects that the delivery has applied before, another plan reverts these changes.
//
// The returned plan is the one that was applied. Fields of others that the delivery has never applied stay a conflict, which is the
// error.
func (r *run) applyPlan(ctx context.Context, a *apply.Applier, request apply.Request, plan *apply.Plan) (*apply.Plan, error) {
	err := a.Apply(ctx, plan)
	conflict, ok := errors.AsType[*apply.ConflictError](err)
	if !ok || !r.isDrift(ctx, a, plan, conflict) {
		return plan, err
	}
	request.Force = true
	if plan, err = a.Plan(ctx, request); err != nil {
		return nil, err
	}
	return plan, a.Apply(ctx, plan)
}

// endBlocked ends a round that the preflights stop, after a check of the running objects.
func (r *run) endBlocked(ctx context.Context, cfg *config.Config, got *fetched) time.Duration {
	r.d.Status.Request = got.request
	again := r.endWithProblem(v1alpha1.ReasonBlocked, r.findCondition(v1alpha1.ConditionPreflightsPassed).Message)
	return min(r.checkRunning(ctx, cfg), again)
}

var errTimeout = errors.New("spec.timeout is over")

// objectsOf returns the objects of a source, and the configuration that comes with it. Preflights are for the spec to choose.
func objectsOf(set *input.Set) ([]apply.Object, *config.Config, error) {
	list, configs := preflight.Configs(set)
	if len(list) == 0 {
		return nil, nil, errors.New("there is no object in the source")
	}
	cfg, _, err := config.Load(config.Options{Documents: configs, Rules: ruleIDs()})
	if err != nil {
		return nil, nil, err
	}
	out := make([]apply.Object, len(list))
	for i, o := range list {
		if out[i], err = apply.NewObject(o.File, o.Line, o.JSON); err != nil {
			return nil, nil, err
		}
	}
	return out, cfg, nil
}

// runPreflights runs the preflights and reports whether they stop the plan.
//
// Its decision goes into the status, so that the same source is not judged, and told of, again. Stored objects that could not be read
// make it an error and no decision, because the next try may read them.
func (r *run) runPreflights(ctx context.Context, cfg *config.Config, a *apply.Applier, plan *apply.Plan, set *input.Set, got *fetched, decision *v1alpha1.Decided) (bool, error) {
	ran, err := a.Preflight(ctx, plan, cfg.Enabled)
	if err != nil {
		return false, err
	}
	documents := map[string]input.Document{}
	for _, d := range set.Documents {
		documents[d.CRD.Name] = d
	}
	found := preflight.Report(cfg, ran, "cluster", got.name+" "+got.revision.Revision, documents, r.now)
	s := found.Summary()
	st := &r.d.Status
	warned := warningsOf(st.Report)
	if told := s.Fail + s.Warn + s.Notes; told > 0 {
		st.Report = summarizeReport(found)
		if st.Report.ConfigMap, err = r.publishReport(ctx, found); err != nil {
			r.Log.Info("cannot keep a report", "namespace", r.d.Namespace, "name", r.d.Name, "error", err)
		}
	} else if !sameSubject(st.Decided, decision) || st.Decided.Features != "" {
		st.Report = nil
	}
	if sameSubject(st.Decided, decision) {
		st.Report = withWarnings(st.Report, warned)
	}
	if ran.Unread != nil && found.Failing() > 0 {
		// The next try may read them.
		return false, &apply.PreflightError{Name: apply.CRDUpgradeSafety, Err: fmt.Errorf("%w; failMode open in spec.preflights applies the change unchecked", ran.Unread)}
	}
	decision.Features = findingsDigest(ran.Found[apply.FeatureGates])
	st.Decided = decision
	if found.Failing() == 0 {
		r.setCondition(v1alpha1.ConditionPreflightsPassed, metav1.ConditionTrue, v1alpha1.ReasonPassed, passedMessage(ran.Ran, s))
		return false, nil
	}
	r.setCondition(v1alpha1.ConditionPreflightsPassed, metav1.ConditionFalse, v1alpha1.ReasonBlocked, blockedMessage(got.revision.Revision, st.Report, s))
	r.Metrics.applies.WithLabelValues("blocked").Inc()
	return true, nil
}

// passedMessage describes why the preflights let the source pass.
func passedMessage(ran []string, s report.Summary) string {
	if len(ran) == 0 {
		return "no preflight is on"
	}
	out := strings.Join(ran, ", ") + " passed"
	if s.Warn > 0 {
		out += fmt.Sprintf(" with %d warnings", s.Warn)
	}
	return out
}

// isDrift reports whether all fields in conflict are of objects that the delivery has applied, and were changed since by a client that
// does not apply them from a manifest. The controller takes those back; other fields belong to another owner. During an apply, the
// inventory also lists objects that are not applied yet. Then the object itself shows whether it was applied.
func (r *run) isDrift(ctx context.Context, a *apply.Applier, plan *apply.Plan, e *apply.ConflictError) bool {
	inventory, err := a.App(ctx, r.d.Namespace, r.d.Name)
	if err != nil || inventory.State == apply.Deleting {
		return false
	}
	ours := map[apply.ID]bool{}
	for i := range inventory.Objects {
		ours[inventory.Objects[i].ID] = true
	}
	for _, c := range e.Conflicts {
		if !c.Update || !ours[c.ID] || inventory.State != apply.Applied && !plan.Has(c.ID) {
			return false
		}
	}
	return true
}

// endApplied ends a round that has applied the fetched objects.
//
// The event is Applied for content that is new, and DriftCorrected for a change without a new content or spec. Rounds that change
// nothing send none.
func (r *run) endApplied(ctx context.Context, a *apply.Applier, plan *apply.Plan, got *fetched) time.Duration {
	st := &r.d.Status
	counts := fmt.Sprintf("%d created, %d updated, %d deleted, %d unchanged",
		plan.Count(apply.Create), plan.Count(apply.Update)+plan.Count(apply.Replace), plan.Count(apply.Delete), plan.Count(apply.Unchanged))
	changed := plan.Changes() > 0
	if note := plan.UntriedNote(); note != "" {
		counts += "; " + note
	}
	before := r.findCondition(v1alpha1.ConditionApplied)
	goesOn := before != nil && before.Reason == v1alpha1.ReasonApplying // writes of an earlier round count as well
	outcome := "unchanged"
	// If only the revision of the source has changed, the inventory is written, but no running object changes.
	switch {
	case st.Applied == nil || st.Applied.Digest != got.revision.Digest:
		r.events = append(r.events, event{corev1.EventTypeNormal, v1alpha1.ReasonApplied, "applied " + got.revision.Revision + ": " + counts})
	case changed && !goesOn && before != nil && before.ObservedGeneration == r.d.Generation:
		r.events = append(r.events, event{corev1.EventTypeNormal, v1alpha1.ReasonDriftCorrected, "corrected the changes of others: " + counts})
	}
	if changed || goesOn || st.AppliedTime == nil {
		outcome = "applied"
		st.Report = withWarnings(st.Report, deliveryWarnings(plan.Warnings()))
		st.AppliedTime = metaTime(r.now)
	}
	r.Metrics.applies.WithLabelValues(outcome).Inc()
	st.Applied = got.revision
	r.contents.putContent(r.d.UID, got.revision.Digest, got.data)
	st.Inventory = &v1alpha1.InventoryReference{Name: apply.InventoryName(r.d.Name), Objects: objectCount(len(plan.Items) + plan.Kept())}
	r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionTrue, v1alpha1.ReasonApplied, strings.Join(append([]string{"applied " + got.revision.Revision}, plan.Notes()...), "; "))
	r.recordNoDrift()
	return r.endDelivered(ctx, a, got)
}

// endDelivered ends a round in which the fetched objects are applied, by this round or before.
func (r *run) endDelivered(ctx context.Context, a *apply.Applier, got *fetched) time.Duration {
	r.d.Status.Request = got.request
	again := r.endRound()
	if r.d.Spec.Wait != nil && !*r.d.Spec.Wait {
		r.setCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonDelivered, got.revision.Revision+" is delivered")
		return again
	}
	return min(r.checkReady(ctx, a), again)
}

// endFailed says why nothing, or not everything, was applied, and returns when to try again. The fetched content is used again until
// it is as old as the interval.
func (r *run) endFailed(ctx context.Context, got *fetched, err error) time.Duration {
	again := r.retryPause(keyOf(r.d), r.checkInterval())
	if isLocked(err) {
		return r.endWaiting(got, err)
	}
	if errors.Is(err, apply.ErrChanged) || errors.Is(err, apply.ErrConcurrent) {
		return again // sluice apply, or another process, holds the lock: nothing is wrong yet
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTimeout) {
		return again // this process ends
	}
	r.Metrics.applies.WithLabelValues("failed").Inc()
	reason, message := applyReason(ctx, err, r.accountName())
	if r.now.Sub(got.ended) >= r.checkInterval() {
		r.d.Status.Request = got.request
	}
	if reason == v1alpha1.ReasonPreflightFailed {
		r.setCondition(v1alpha1.ConditionPreflightsPassed, metav1.ConditionUnknown, reason, message)
	}
	r.stuck = reason == v1alpha1.ReasonApplyFailed && isRefusedAsInvalid(err)
	r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionFalse, reason, message)
	r.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	return again
}

// isLocked reports whether another run is changing the app.
func isLocked(err error) bool {
	_, locked := errors.AsType[*apply.LockedError](err)
	return locked
}

// isWaiting reports whether an error only says that others have to do something first.
func isWaiting(err error) bool {
	return err != nil && !slices.ContainsFunc(splitErrors(err), func(e error) bool { return !errors.Is(e, apply.ErrWaiting) })
}

// endWaiting releases the worker while the apply waits for others, and returns when to continue.
//
// The conditions become Unknown, and no event is sent. The pause grows with each round, up to [lastWait].
func (r *run) endWaiting(got *fetched, err error) time.Duration {
	if r.now.Sub(got.ended) >= r.checkInterval() {
		r.d.Status.Request = got.request
	}
	message := "applying " + got.revision.Revision + ": " + err.Error()
	r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionUnknown, v1alpha1.ReasonApplying, message)
	r.setCondition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonApplying, message)
	return min(r.retryPause(keyOf(r.d), r.checkInterval()), lastWait)
}

// applyReason returns reason and message for an error of an apply.
//
// The order of the cases matters: an error that came with the end of the time is a time-out, whatever it says. Flags of sluice apply
// in the message become fields of the spec.
func applyReason(ctx context.Context, err error, account string) (reason, message string) {
	message = strings.ReplaceAll(err.Error(), "--force-conflicts", "spec.force: true")
	message = strings.ReplaceAll(message, "--take-over", "spec.takeOver")
	_, isConflict := errors.AsType[*apply.ConflictError](err)
	_, isPreflight := errors.AsType[*apply.PreflightError](err)
	switch {
	case errors.Is(context.Cause(ctx), errTimeout), isWaiting(err):
		return v1alpha1.ReasonTimedOut, "spec.timeout is over: " + message
	case isConflict:
		return v1alpha1.ReasonFieldConflict, message
	case errors.Is(err, apply.ErrOtherApp):
		return v1alpha1.ReasonOtherApp, message
	case errors.Is(err, apply.ErrNoKind):
		return v1alpha1.ReasonUnknownKind, message
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return v1alpha1.ReasonNamespaceTerminating, "a namespace is being deleted: " + message
	case apierrors.IsForbidden(err):
		return v1alpha1.ReasonForbidden, fmt.Sprintf("refused to the ServiceAccount %s: %s", account, message)
	case isPreflight:
		return v1alpha1.ReasonPreflightFailed, message
	}
	return v1alpha1.ReasonApplyFailed, message
}
