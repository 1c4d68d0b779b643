package features

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/flowcontrol"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Whether a user or a namespace has opted in to a feature is known at the time of the request only, and the API server has the
// answer: the labels of the namespace, and a SubjectAccessReview for the user. The answers are kept for some seconds. A right that
// was withdrawn works so much longer.

const (
	// maxAnswers bounds the cached answers of the API server. answersFor is the time to live of answers about opting in: a granted or
	// withdrawn right takes effect after that time at most.
	maxAnswers, answersFor = 10_000, 3 * time.Second
	// goneFor is the time to live of the answer whether a component exists; askGone is the time limit of the question.
	goneFor, askGone = time.Second, 2 * time.Second
	// goneEvery bounds the questions about components in a second, goneMost those in a burst. Any client that reaches the port can
	// invent names, and each name causes a question.
	goneEvery, goneMost = 20, 50
)

// recentAnswers are the recent answers of the API server. One user often sends several requests for features of one component.
func (h *Webhook) recentAnswers() *cache.LRUExpireCache {
	h.once.Do(func() {
		h.remembered = cache.NewLRUExpireCacheWithClock(maxAnswers, h.Clock)
		h.questions = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(goneEvery, goneMost, h.Clock)
	})
	return h.remembered
}

// Kinds of answers, so that their keys are different.
type (
	reviewed  [sha256.Size]byte // bool, by the sum of the question
	labelled  string            // map[string]string, by namespace
	missingly string            // bool, by component
)

// componentGone reports whether a component does not exist, so that it gates nothing. If that is not known, or there were too many
// questions, it returns false. It runs in a turn of the intake, so there is one open question for a name at a time, and as many as
// there are turns for all names.
func (h *Webhook) componentGone(ctx context.Context, component string) bool {
	h.mu.RLock()
	api := h.api
	h.mu.RUnlock()
	if api == nil || len(validation.IsDNS1123Subdomain(component)) > 0 {
		return false
	}
	if gone, ok := h.recentAnswers().Get(missingly(component)); ok {
		return gone == any(true)
	}
	answer, _, _ := h.asking.Do(component, func() (any, error) {
		if gone, ok := h.recentAnswers().Get(missingly(component)); ok {
			return gone, nil
		}
		if !h.questions.TryAccept() {
			return false, nil
		}
		// The first caller may have given up while another one waits for the answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askGone)
		defer cancel()
		c := &v1alpha1.Component{}
		err := api.rest.Get().Resource(componentsResource).Name(component).MaxRetries(0).Do(ctx).Into(c)
		gone := apierrors.IsNotFound(err) || err == nil && c.DeletionTimestamp != nil
		if gone || err == nil {
			h.recentAnswers().Add(missingly(component), gone, goneFor)
		}
		return gone, nil
	})
	return answer == any(true)
}

// optedIn reports whether the namespace or the user has opted in to a feature. If the API server does not answer, it returns false.
func (h *Webhook) optedIn(ctx context.Context, j *judge, req *admissionv1.AdmissionRequest) func(gate string) bool {
	o := j.model.Spec().OptIn
	if o == nil || !o.NamespaceLabel && !o.RBAC {
		return nil
	}
	labels := sync.OnceValue(func() map[string]string { return h.namespaceLabels(ctx, req.Namespace) })
	return func(gate string) bool {
		if o.NamespaceLabel && feature.OptedIn(labels(), j.model.Component(), gate) {
			return true
		}
		return o.RBAC && h.mayUse(ctx, req, feature.ObjectName(j.model.Component(), gate))
	}
}

// namespaceLabels are the labels of a namespace; none if they cannot be read.
func (h *Webhook) namespaceLabels(ctx context.Context, namespace string) map[string]string {
	if namespace == "" {
		return nil
	}
	if v, ok := h.recentAnswers().Get(labelled(namespace)); ok {
		l, _ := v.(map[string]string)
		return l
	}
	ns, err := h.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		h.Log.Warn("the labels of a namespace cannot be read", "namespace", namespace, "error", err)
		return nil
	}
	h.recentAnswers().Add(labelled(namespace), ns.Labels, answersFor)
	return ns.Labels
}

// mayUse asks whether the user may use a feature.
//
// An error counts as no: the feature is closed, and the user can try again. The key of the answer is a digest, because groups and
// extra fields may be long.
func (h *Webhook) mayUse(ctx context.Context, req *admissionv1.AdmissionRequest, name string) bool {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range req.UserInfo.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: req.UserInfo.Username, Groups: req.UserInfo.Groups, UID: req.UserInfo.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: req.Namespace, Verb: feature.OptInVerb, Group: v1alpha1.GroupName, Resource: featuresResource, Name: name,
		},
	}
	question, err := json.Marshal(spec) // JSON sorts the keys of maps
	if err != nil {
		return false // it can always be written as JSON
	}
	key := reviewed(sha256.Sum256(question))
	if v, ok := h.recentAnswers().Get(key); ok {
		return v == any(true)
	}
	review, err := h.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		h.Log.Warn("whether a user may use a feature cannot be asked", "feature", name, "error", err)
		return false
	}
	h.recentAnswers().Add(key, review.Status.Allowed, answersFor)
	return review.Status.Allowed
}
