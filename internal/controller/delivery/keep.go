package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resolutionv1beta1 "sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/config"
	"sluice.dev/internal/input"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
	"sluice.dev/requester"
)

// While a later revision is blocked, the running objects are kept as delivered: once a round, the controller corrects drift. It
// knows the delivered objects from the memory of the process. Otherwise it requests the source at the applied commit or digest. If
// that fails, the condition Applied says so. While the source is unavailable, or is not a list of objects, only the memory of the
// process helps, and the condition Ready says whether it does.

// stopped begins the message of the condition Applied while a later revision is blocked.
const stopped = "a later revision is not applied: the preflights stop it"

// checkRunning checks the running objects, if a check is due, and returns when to check again.
//
// It is due once in a round: KeptTime has the last check, and CheckedTime the last round. If the process does not remember the
// content, it asks for exactly the revision that was applied.
func (r *run) checkRunning(process context.Context, cfg *config.Config) time.Duration {
	st := &r.d.Status
	if st.Applied == nil {
		r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonBlocked, "the preflights stop the first revision")
		return r.checkInterval()
	}
	if st.KeptTime != nil && st.CheckedTime != nil && !st.KeptTime.Before(st.CheckedTime) {
		return r.checkInterval()
	}
	done := func(problem string) time.Duration {
		message := stopped + "; " + st.Applied.Revision + " stays"
		if problem != "" {
			message += ", but its drift is not corrected: " + problem
		}
		r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonBlocked, message)
		st.KeptTime = metaTime(r.now)
		return r.checkInterval()
	}
	if c := r.findCondition(v1alpha1.ConditionApplied); c == nil || c.Reason != v1alpha1.ReasonBlocked {
		r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonBlocked, stopped+"; "+st.Applied.Revision+" stays")
	}
	ctx, cancel := context.WithTimeoutCause(process, r.applyTimeout(), errTimeout)
	defer cancel()
	data, known := r.contents.contentOf(r.d.UID, st.Applied.Digest)
	if !known {
		resolver, spec, err := pinnedRequest(&r.d.Spec.Source, st.Applied)
		if err != nil {
			return done(err.Error())
		}
		resource, err := r.fetchSeparately(ctx, resolver, spec)
		if errors.Is(err, requester.ErrInProgress) {
			return lookAgain
		}
		if err != nil {
			return done(err.Error())
		}
		data = resource.Data
		if contentDigest(data) != st.Applied.Digest {
			return done("its source has other content now")
		}
		r.contents.putContent(r.d.UID, st.Applied.Digest, data)
	}
	changed, err := r.restoreObjects(ctx, cfg, data)
	switch {
	case process.Err() != nil:
		return r.checkInterval()
	case isWaiting(err):
		return r.keepWaits(err)
	case err != nil:
		_, message := applyReason(ctx, err, r.accountName())
		return done(message)
	case changed != "":
		r.recordRestored(changed)
	}
	return done("")
}

// keepWaits records what the correction of drift waits for, and returns when to continue. The pause grows up to the interval.
func (r *run) keepWaits(err error) time.Duration {
	r.setCondition(v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonBlocked,
		stopped+"; "+r.d.Status.Applied.Revision+" stays, and the correction of its drift waits: "+err.Error())
	return r.retryPause(keyOf(r.d), r.checkInterval())
}

// recordRestored records that drift was corrected.
//
// changed is what was done, such as "1 updated". The event names the revision that runs, not the later one that is stopped.
func (r *run) recordRestored(changed string) {
	st := &r.d.Status
	r.events = append(r.events, event{corev1.EventTypeNormal, v1alpha1.ReasonDriftCorrected, "corrected the changes of others to " + st.Applied.Revision + ": " + changed})
	r.Metrics.applies.WithLabelValues("applied").Inc()
	st.AppliedTime = metaTime(r.now)
}

// correctMeanwhile corrects drift, once in an interval, while the source is unavailable.
//
// A failure of an earlier generation does not count, because the spec may ask for other objects by now.
func (r *run) correctMeanwhile(ctx context.Context, cfg *config.Config) {
	c := r.findCondition(v1alpha1.ConditionResolved)
	if c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != r.d.Generation {
		return
	}
	due := !slices.ContainsFunc([]*metav1.Time{r.d.Status.CheckedTime, r.d.Status.KeptTime}, func(last *metav1.Time) bool {
		return last != nil && r.now.Sub(last.Time) < r.checkInterval()
	})
	r.correctFromMemory(ctx, cfg, due)
}

// correctFromMemory corrects drift from the memory of the process, if that is due. If it cannot, it adds the reason to the message of
// Ready.
func (r *run) correctFromMemory(process context.Context, cfg *config.Config, due bool) {
	st := &r.d.Status
	if st.Applied == nil {
		return
	}
	data, known := r.contents.contentOf(r.d.UID, st.Applied.Digest)
	problem := "this process does not remember what was delivered"
	if known && due {
		ctx, cancel := context.WithTimeoutCause(process, r.applyTimeout(), errTimeout)
		defer cancel()
		changed, err := r.restoreObjects(ctx, cfg, data)
		problem = ""
		switch {
		case process.Err() != nil:
			return
		case isWaiting(err):
			problem = err.Error()
		case err != nil:
			_, problem = applyReason(ctx, err, r.accountName())
		case changed != "":
			r.recordRestored(changed)
		}
		r.contents.setProblem(r.d.UID, problem)
		st.KeptTime = metaTime(r.now)
	} else if known {
		problem = r.contents.problemOf(r.d.UID)
	}
	if c := r.findCondition(v1alpha1.ConditionReady); c != nil && c.Status == metav1.ConditionFalse {
		// The message may be that of the round before.
		said, _, _ := strings.Cut(c.Message, notPutRight)
		if problem != "" {
			said = brief.Clip(said, maxMessage/2) + notPutRight + problem
		}
		r.setCondition(c.Type, c.Status, c.Reason, said)
	}
}

// notPutRight begins the part of the message of Ready about drift.
const notPutRight = "; drift of delivered objects is not corrected: "

// fetchSeparately fetches the source by a separate request, and deletes the request after reading it. Its content cannot change, so a
// request that is left over from another round can be used as well.
func (r *run) fetchSeparately(ctx context.Context, resolver string, spec resolutionv1beta1.ResolutionRequestSpec) (*requester.Resource, error) {
	owner := requester.OwnedBy(r.d, v1alpha1.SchemeGroupVersion.WithKind(kind))
	name, err := requester.Name(resolver, r.d.Namespace+"/"+r.d.Name, spec)
	if err != nil {
		return nil, err
	}
	q, err := r.Client.ResolutionV1beta1().ResolutionRequests(r.d.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	missing := err != nil
	resource, err := r.requester.Submit(ctx, owner, resolver, spec)
	if errors.Is(err, requester.ErrInProgress) {
		return nil, err
	}
	if missing {
		return nil, requester.ErrInProgress // it has ended between the two calls: the event of that is on its way
	}
	if e := r.deleteRequest(ctx, name, q.UID); e != nil {
		return nil, errors.Join(err, e)
	}
	return resource, err
}

// pinnedRequest returns the request for the applied revision. It does not follow the branch or tag of the source.
func pinnedRequest(s *v1alpha1.DeliverySource, applied *v1alpha1.Revision) (resolver string, spec resolutionv1beta1.ResolutionRequestSpec, err error) {
	if resolver, spec, err = requestFor(s); err != nil {
		return "", spec, err
	}
	spec.Params = slices.Clone(spec.Params)
	set := func(value func(old string) string, names ...string) {
		i := slices.IndexFunc(spec.Params, func(p resolutionv1beta1.Param) bool { return slices.Contains(names, p.Name) })
		if i < 0 {
			spec.Params = append(spec.Params, resolutionv1beta1.Param{Name: names[0]})
			i = len(spec.Params) - 1
		}
		spec.Params[i].Value = resolutionv1beta1.StringValue(value(spec.Params[i].Value.StringVal))
	}
	algorithm, digest, _ := strings.Cut(applied.Revision, ":")
	switch {
	case resolver == "git" && algorithm == "sha1":
		set(func(string) string { return digest }, "revision")
	case (resolver == "bundles" || resolver == "bundle") && algorithm == "sha256" && applied.Revision != applied.Digest:
		set(func(image string) string {
			image, _, _ = strings.Cut(image, "@")
			if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
				image = image[:i]
			}
			return image + "@" + applied.Revision
		}, "bundle", "image_url")
	case s.Flux != nil:
		return "", spec, errors.New("a source of Flux cannot be asked for a revision that has gone")
	default:
		return "", spec, fmt.Errorf("the resolver %s cannot be asked for a revision that has gone", resolver)
	}
	return resolver, spec, nil
}

// restoreObjects changes the running objects back to the delivered state, and returns a description of the changes. It deletes
// nothing, because others may depend on the drift. It creates nothing that was not delivered, and does only what the preflights allow.
//
// The preflights judge the applied revision, so what stopped the later one does not matter here. data is the content that was
// applied. An object that the present spec would make and the inventory does not have ends it: the spec has changed since.
func (r *run) restoreObjects(ctx context.Context, cfg *config.Config, data []byte) (changed string, err error) {
	name := sourceName(&r.d.Spec.Source)
	set, err := input.DecodeObjects(ctx, name, data)
	if err != nil {
		return "", err
	}
	objects, brought, err := objectsOf(set)
	if err != nil {
		return "", err
	}
	a, unlock, err := r.resumedApplier(ctx)
	defer unlock()
	if err != nil {
		return "", err
	}
	inventory, err := a.App(ctx, r.d.Namespace, r.d.Name)
	if err != nil {
		return "", err
	}
	// An apply of the same revision may have been interrupted: continue it.
	if inventory.State != apply.Applied && !equality.Semantic.DeepEqual(inventory.Next, inventory.Sources) {
		return "", errors.New("a later apply was interrupted, and some of it may be there")
	}
	request := apply.Request{Objects: objects, Rules: brought.ApplyRules(), App: r.d.Name, AppNamespace: r.d.Namespace, Force: r.d.Spec.Force, TakeOver: r.takeOver(), Sources: inventory.Sources, Patience: patience}
	plan, err := a.Plan(ctx, request)
	if err != nil {
		return "", err
	}
	for i := range plan.Items {
		if id := plan.Items[i].ID; !slices.ContainsFunc(inventory.Objects, func(e apply.Entry) bool { return e.ID == id }) {
			return "", fmt.Errorf("the spec has changed since, and %s would be another object", id)
		}
	}
	ran, err := a.Preflight(ctx, plan, cfg.Enabled)
	if err != nil {
		return "", err
	}
	if found := preflight.Report(cfg, ran, "cluster", name+" "+r.d.Status.Applied.Revision, nil, r.now); found.Failing() > 0 {
		return "", fmt.Errorf("the preflights stop that too, with %d findings", found.Summary().Fail)
	}
	stop, err := r.recordDrift(ctx, a, request, plan)
	if stop || apierrors.IsConflict(err) {
		return "", err
	}
	if plan, err = r.applyPlan(ctx, a, request, plan); err != nil {
		return "", err
	}
	r.recordNoDrift()
	if plan.Count(apply.Create)+plan.Count(apply.Update) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d created, %d updated, %d unchanged", plan.Count(apply.Create), plan.Count(apply.Update), plan.Count(apply.Unchanged)), nil
}

// sameFeatures reports whether the preflight FeatureGates has the same findings as when the delivery was blocked. If the settings have
// changed since, the delivery is judged again.
//
// Only this preflight is run, because everything else that the decision depends on is in [v1alpha1.Decided].
func (r *run) sameFeatures(ctx context.Context, a *apply.Applier, plan *apply.Plan) (bool, error) {
	ran, err := a.Preflight(ctx, plan, func(name string) bool { return name == apply.FeatureGates })
	if err != nil {
		return false, err
	}
	return findingsDigest(ran.Found[apply.FeatureGates]) == r.d.Status.Decided.Features, nil
}

// findingsDigest identifies findings; empty if there are none.
func findingsDigest(found []report.CRD) string {
	if len(found) == 0 {
		return ""
	}
	text, err := json.Marshal(found)
	if err != nil {
		return "" // findings can always be written as JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
