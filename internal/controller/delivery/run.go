package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resolutionv1beta1 "sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/apply"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/config"
	"sluice.dev/internal/sourceurl"
)

// A round decides what is due for a delivery: nothing yet, a look at objects that were not ready, the correction of drift, or a new
// fetch. The decision comes from the status alone, so any process can make it. For example, a delivery that was blocked is not judged
// again before its interval is over, unless its spec or the annotation changes.

// run is one look at a delivery. It changes the status of d, which the caller writes.
type run struct {
	*Controller

	d   *v1alpha1.Delivery
	now time.Time
	// events are sent after the status is written.
	events []event
	// stuck: the reason of Ready does not say so, but its cause needs an action of a person.
	stuck bool
}

func (r *run) checkInterval() time.Duration { return durationOr(r.d.Spec.Interval, defaultInterval) }
func (r *run) applyTimeout() time.Duration  { return durationOr(r.d.Spec.Timeout, defaultTimeout) }
func (r *run) askedToken() string           { return r.d.Annotations[v1alpha1.AnnotationReconcile] }

func durationOr(d *metav1.Duration, standard time.Duration) time.Duration {
	if d == nil || d.Duration <= 0 {
		return standard
	}
	return d.Duration
}

// accountName is the name of the ServiceAccount.
func (r *run) accountName() string {
	return cmp.Or(r.d.Spec.ServiceAccountName, "default")
}

// ended are the reasons of the condition Ready that need no work before the next interval, unless something changes.
var ended = []string{
	v1alpha1.ReasonDelivered, v1alpha1.ReasonBlocked, v1alpha1.ReasonInvalidConfiguration, v1alpha1.ReasonInvalidSource,
	v1alpha1.ReasonTooManyDeletions, v1alpha1.ReasonObjectsRefused, v1alpha1.ReasonWaiting, v1alpha1.ReasonNotReady,
}

// deliverDue does the due work and returns when to check again, 0 for not before something changes.
//
// Before the interval is over, only what was not ready, or is blocked, is looked at again. The order of the steps is that of their
// cost: the configuration and the dependencies are checked before anything is fetched.
func (r *run) deliverDue(ctx context.Context) time.Duration {
	st := &r.d.Status
	if r.d.Spec.Suspend {
		st.ObservedGeneration = r.d.Generation
		r.setCondition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend is true: nothing is fetched or applied")
		return 0
	}
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionSuspended)
	ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.ObservedGeneration == r.d.Generation && st.Asked == r.askedToken() && slices.Contains(ended, ready.Reason) && st.CheckedTime != nil {
		if left := st.CheckedTime.Add(r.checkInterval()).Sub(r.now); left > 0 && !r.sourceMoved(ctx) {
			switch ready.Reason {
			case v1alpha1.ReasonWaiting, v1alpha1.ReasonNotReady:
				return min(r.checkReady(ctx, nil), left)
			case v1alpha1.ReasonBlocked:
				if cfg, err := r.readConfiguration(); err == nil {
					return min(r.checkRunning(ctx, cfg), left)
				}
			}
			return left
		}
	}
	st.ObservedGeneration = r.d.Generation
	cfg, err := r.readConfiguration()
	if err != nil {
		return r.endWithProblem(v1alpha1.ReasonInvalidConfiguration, err.Error())
	}
	resolver, spec, err := requestFor(&r.d.Spec.Source)
	if err != nil {
		r.setCondition(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonInvalidSource, err.Error())
		return r.endWithProblem(v1alpha1.ReasonInvalidSource, err.Error())
	}
	if reason, message := waitsFor(r.d, r.cachedDelivery); reason != "" {
		r.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
		return r.checkInterval()
	}
	if again := r.mayImpersonate(ctx); again > 0 {
		return again
	}
	fetch := func() (*fetched, time.Duration) { return r.fetchSource(ctx, resolver, spec) }
	if r.d.Spec.Source.Flux != nil {
		fetch = func() (*fetched, time.Duration) { return r.fetchFlux(ctx) }
	}
	got, again := fetch()
	if got == nil {
		r.correctMeanwhile(ctx, cfg)
		return again
	}
	return r.checkAndApply(ctx, cfg, got)
}

// readConfiguration reads spec.preflights as kapp's configuration.
//
// A spec that names no preflights has the standard one alone, CRDUpgradeSafety. One with an empty list has none.
func (r *run) readConfiguration() (*config.Config, error) {
	if r.d.Spec.Preflights == nil {
		return &config.Config{}, nil
	}
	text, err := preflightRules(r.d.Spec.Preflights)
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.Parse("spec.preflights", text, ruleIDs())
	if err == nil {
		return cfg, nil
	}
	var parts []string
	for _, e := range splitErrors(err) {
		// The text is one generated line, so its positions mean nothing.
		if c, ok := errors.AsType[*config.Error](e); ok {
			parts = append(parts, c.Msg)
			continue
		}
		parts = append(parts, e.Error())
	}
	return nil, fmt.Errorf("spec.preflights: %s", strings.Join(parts, "; "))
}

// splitErrors splits joined errors.
func splitErrors(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range j.Unwrap() {
			out = append(out, splitErrors(e)...)
		}
		return out
	}
	return []error{err}
}

// sourceName is the source for people.
func sourceName(s *v1alpha1.DeliverySource) string {
	if s.Flux != nil {
		return s.Flux.Kind + " " + s.Flux.Name
	}
	return cmp.Or(s.URL, s.Resolver)
}

// requestFor returns the content of a ResolutionRequest for the source; none for a source of Flux.
func requestFor(s *v1alpha1.DeliverySource) (resolver string, spec resolutionv1beta1.ResolutionRequestSpec, err error) {
	if s.Flux != nil {
		if s.URL != "" || s.Resolver != "" || fluxResources[s.Flux.Kind] == "" {
			return "", spec, errors.New("spec.source.flux stands alone, and names a GitRepository, an OCIRepository or a Bucket")
		}
		return "", spec, nil
	}
	if s.URL == "" {
		if s.Resolver == "" {
			return "", spec, errors.New("spec.source needs a url, a resolver or flux")
		}
		return s.Resolver, resolutionv1beta1.ResolutionRequestSpec{Params: s.Params}, nil
	}
	if s.Resolver != "" {
		return "", spec, errors.New("spec.source has a url and a resolver: one of the two is needed")
	}
	resolver, params, err := sourceurl.Parse(s.URL)
	if err != nil {
		return "", spec, fmt.Errorf("spec.source.url: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		spec.Params = append(spec.Params, resolutionv1beta1.Param{Name: name, Value: resolutionv1beta1.StringValue(params[name])})
	}
	return resolver, spec, nil
}

// mayImpersonate asks whether the controller may act as the ServiceAccount, and returns when to ask again if not.
//
// Without this question, each request of the round would be refused, and the status would blame the account.
func (r *run) mayImpersonate(ctx context.Context) time.Duration {
	ns, account := r.d.Namespace, r.accountName()
	review, err := r.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "impersonate", Resource: "serviceaccounts", Namespace: ns, Name: account,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return r.retryAfter(ctx, keyOf(r.d), "cannot ask whether the ServiceAccount may be impersonated", err)
	}
	if review.Status.Allowed {
		return 0
	}
	r.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImpersonationRefused, fmt.Sprintf(
		"sluice may not act as the ServiceAccount %s/%s; allow it by: kubectl create rolebinding sluice-delivery -n %s --clusterrole=sluice-delivery-impersonate --serviceaccount=%s:sluice-delivery",
		ns, account, ns, cmp.Or(r.Namespace, "sluice-system")))
	return r.retryPause(keyOf(r.d), r.checkInterval())
}

// endWithProblem ends a round with a problem that stops the delivery until something changes.
func (r *run) endWithProblem(reason, message string) time.Duration {
	r.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	return r.endRound()
}

// endRound ends a round.
//
// The token of the annotation and the time go into the status. By them, any process knows that nothing is due before the interval is
// over. Earlier failures are forgotten.
func (r *run) endRound() time.Duration {
	r.d.Status.Asked = r.askedToken()
	r.d.Status.CheckedTime = metaTime(r.now)
	r.failures.Forget(keyOf(r.d))
	return r.checkInterval()
}

// checkReady reports whether the applied objects are ready, and returns when to check again. The applier may be nil.
func (r *run) checkReady(ctx context.Context, a *apply.Applier) time.Duration {
	var err error
	if a == nil {
		if a, err = r.newApplier(); err != nil {
			return r.retryAfter(ctx, keyOf(r.d), "cannot look at objects", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.applyTimeout())
	defer cancel()
	inventory, err := a.App(ctx, r.d.Namespace, r.d.Name)
	if err != nil {
		return r.retryAfter(ctx, keyOf(r.d), "cannot read an inventory", err)
	}
	states, err := a.Status(ctx, inventory)
	if err != nil {
		return r.retryAfter(ctx, keyOf(r.d), "cannot look at objects", err)
	}
	waiting, failed := []string(nil), false
	for _, s := range states {
		// If the cluster no longer serves a kind, only the inventory has its objects: a source with such an object is not applied.
		if s.Status == "Current" || s.Message == apply.Unserved {
			continue
		}
		failed = failed || s.Status == "Failed"
		waiting = append(waiting, fmt.Sprintf("%s is %s%s", s.ID, s.Status, brief.InParentheses(s.Message)))
	}
	revision := ""
	if r.d.Status.Applied != nil {
		revision = r.d.Status.Applied.Revision
	}
	const most = 3
	switch n := len(waiting); {
	case n == 0:
		r.setCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonDelivered, revision+" is delivered")
		return r.checkInterval()
	case failed || r.d.Status.AppliedTime == nil || r.now.Sub(r.d.Status.AppliedTime.Time) >= r.applyTimeout():
		r.setCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotReady,
			fmt.Sprintf("%s is applied; %s not ready: %s", revision, brief.Count(n, "object"), strings.Join(waiting[:min(n, most)], "; ")))
		return 30 * time.Second
	default:
		r.setCondition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonWaiting,
			fmt.Sprintf("%s is applied; waiting for %s: %s", revision, brief.Count(n, "object"), strings.Join(waiting[:min(n, most)], "; ")))
		return 2 * time.Second
	}
}
