// Package requester is the client side of ResolutionRequest, for reconcilers that need a resource which lives elsewhere.
//
// It promises that nothing blocks: [Requester.Submit] makes a request or finds the one that is there, and returns the
// resource when it has come. It promises that the owner of a request gets what it has asked for: an object of the right
// name with another owner or another spec is an error, and content that contradicts its digest is too. It does not decide
// whether the content is what it should be: see the refSource.
//
//	resource, err := r.Submit(ctx, requester.OwnedBy(run, gvk), "git", spec)
//	switch {
//	case errors.Is(err, requester.ErrInProgress):
//		return nil // the watch handler queues the owner when the request has ended
//	case err != nil:
//		return err
//	}
package requester

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
	listers "sluice.dev/client/listers/resolution/v1beta1"
	clientv1beta1 "sluice.dev/client/versioned/typed/resolution/v1beta1"
)

// ErrInProgress says that the request has not ended yet.
var ErrInProgress = errors.New("the resource is being resolved")

// FailedError says that the request has failed, for good: asking again needs another request, which [Requester.Again]
// makes in place of this one.
type FailedError struct {
	// Namespace and Name are those of the request.
	Namespace, Name string
	// Reason is the condition's, ResolutionFailed or ResolutionTimedOut; Exact is in one word what was wrong, empty if
	// the resolver does not say.
	Reason, Exact string
	Message       string

	uid types.UID
}

// Error implements error.
func (e *FailedError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// ConflictError says that an object of the request's name is there which is not the request.
type ConflictError struct {
	Namespace, Name string
	// Why says what is different.
	Why string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("the ResolutionRequest %s/%s is not what was asked for: %s; delete it to ask again", e.Namespace, e.Name, e.Why)
}

// Owner is who asks.
type Owner struct {
	Namespace, Name string
	// Reference is what the request's metadata gets; its Controller is set by Submit.
	Reference metav1.OwnerReference
}

// OwnedBy returns the owner that an object is. The object must be in a namespace.
func OwnedBy(o metav1.Object, gvk schema.GroupVersionKind) Owner {
	return Owner{Namespace: o.GetNamespace(), Name: o.GetName(), Reference: metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: o.GetName(), UID: o.GetUID(),
	}}
}

// Requester makes requests.
type Requester struct {
	// Client is required.
	Client clientv1beta1.ResolutionRequestsGetter
	// Lister is the cache of an informer; nil reads from the API server.
	Lister listers.ResolutionRequestLister
	// Shared lets owners of a namespace share a request with equal resolver, parameters and URL: each becomes one of its
	// owners, none of them its controller, so the resolver does not know on whose behalf it works, and the request goes
	// when the last of them has gone. Otherwise a request is that of one owner, which controls it.
	Shared bool
	// Annotations are put on the requests that are made, for example sluice.dev/look-after.
	Annotations map[string]string
	// Store reads content that is too large for a request; nil: such content is a *[DataError].
	Store Store
	// MaxBytes is how much content is taken that is compressed or in the store; 0 stands for [DefaultMaxBytes].
	MaxBytes int64
}

// Submit asks for what the spec says, as the owner. It returns the resource, or [ErrInProgress] until the request has
// ended, or a *[FailedError], *[ConflictError] or *[DataError], or an error of the API server or the store. A request that is
// being deleted, or that an owner of the same name has left behind, is in progress: the owner asks anew when it has gone.
func (r *Requester) Submit(ctx context.Context, owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) (*Resource, error) {
	name, err := r.name(owner, resolver, spec)
	if err != nil {
		return nil, err
	}
	requests := r.Client.ResolutionRequests(owner.Namespace)
	found, err := r.get(ctx, owner.Namespace, name)
	if apierrors.IsNotFound(err) {
		_, err = requests.Create(ctx, r.build(owner, name, resolver, spec), metav1.CreateOptions{})
		switch {
		case err == nil:
			return nil, ErrInProgress
		case !apierrors.IsAlreadyExists(err):
			return nil, err
		}
		// The cache is behind.
		found, err = requests.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	if err := r.check(found, owner, resolver, spec); err != nil {
		return nil, err
	}
	for tries := 0; r.Shared && !owns(found, owner.Reference.UID); tries++ {
		err := r.join(ctx, found, owner)
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) || tries == maxJoins {
			return nil, err
		}
		// The cache is behind, or another owner was faster.
		if found, err = requests.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		if err := r.check(found, owner, resolver, spec); err != nil {
			return nil, err
		}
	}
	return r.Outcome(ctx, found)
}

// Again is Submit for an owner that does not take a *[FailedError] or *[DataError] for an answer: a request that has
// ended so is deleted and another one made, which is in progress then; any other is left as it is. It reads from the API
// server, so that a cache which is behind does not make it ask twice. How often to ask, and how long to wait before, is for
// the caller to decide. It needs the right to delete requests. With Shared all owners of the request ask anew, each when its
// watch handler has told it.
func (r *Requester) Again(ctx context.Context, owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) (*Resource, error) {
	fresh := *r
	fresh.Lister = nil
	out, err := fresh.Submit(ctx, owner, resolver, spec)
	var failed *FailedError
	var bad *DataError
	var uid types.UID
	switch {
	case errors.As(err, &failed):
		uid = failed.uid
	case errors.As(err, &bad):
		uid = bad.uid
	default:
		return out, err
	}
	name, err := r.name(owner, resolver, spec)
	if err != nil {
		return nil, err
	}
	err = r.Client.ResolutionRequests(owner.Namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	// A conflict: it is another one by now.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return nil, err
	}
	if out, err = fresh.Submit(ctx, owner, resolver, spec); errors.As(err, &failed) && failed.uid == uid || errors.As(err, &bad) && bad.uid == uid {
		// Something keeps it; the watch handler tells when it has gone.
		return nil, ErrInProgress
	}
	return out, err
}

// name is that of the owner's request.
func (r *Requester) name(owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) (string, error) {
	if owner.Namespace == "" || owner.Reference.UID == "" {
		return "", errors.New("the owner of a request needs a namespace and a UID")
	}
	base := owner.Namespace + "/" + owner.Name
	if r.Shared {
		base = owner.Namespace
	}
	return Name(resolver, base, spec)
}

// maxJoins is how often joining a shared request is tried again.
const maxJoins = 10

func (r *Requester) get(ctx context.Context, namespace, name string) (*v1beta1.ResolutionRequest, error) {
	if r.Lister != nil {
		return r.Lister.ResolutionRequests(namespace).Get(name)
	}
	return r.Client.ResolutionRequests(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (r *Requester) build(owner Owner, name, resolver string, spec v1beta1.ResolutionRequestSpec) *v1beta1.ResolutionRequest {
	ref := owner.Reference
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	if !r.Shared {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return &v1beta1.ResolutionRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "ResolutionRequest"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.Namespace, Name: name, Labels: map[string]string{resolution.LabelType: resolver},
			OwnerReferences: []metav1.OwnerReference{ref}, Annotations: maps.Clone(r.Annotations),
		},
		Spec: *spec.DeepCopy(),
	}
}

// check makes sure that the object is the request: names are hashes that others can compute too.
func (r *Requester) check(found *v1beta1.ResolutionRequest, owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) error {
	conflict := func(why string) error {
		return &ConflictError{Namespace: found.Namespace, Name: found.Name, Why: why}
	}
	if found.DeletionTimestamp != nil {
		return ErrInProgress
	}
	if got, err := resolution.Resolver(found.Labels); err != nil || got != resolution.Canonical(resolver) {
		return conflict("it is for another resolver")
	}
	if !sameSpec(found.Spec, spec) {
		return conflict("it asks for something else")
	}
	if !r.Shared && !owns(found, owner.Reference.UID) {
		if leftBehind(found, owner.Reference) {
			return ErrInProgress
		}
		return conflict("it belongs to another owner")
	}
	return nil
}

func owns(r *v1beta1.ResolutionRequest, uid types.UID) bool {
	return slices.ContainsFunc(r.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// leftBehind tells whether the request is that of an owner of the same name that was there before: the garbage collector
// deletes it.
func leftBehind(r *v1beta1.ResolutionRequest, owner metav1.OwnerReference) bool {
	before := metav1.GetControllerOf(r)
	if before == nil || len(r.OwnerReferences) != 1 || before.Kind != owner.Kind || before.Name != owner.Name {
		return false
	}
	one, err := schema.ParseGroupVersion(before.APIVersion)
	other, otherErr := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && otherErr == nil && one.Group == other.Group
}

// sameSpec compares without regard to the order of parameters.
func sameSpec(a, b v1beta1.ResolutionRequestSpec) bool {
	if a.URL != b.URL || len(a.Params) != len(b.Params) {
		return false
	}
	values := func(s v1beta1.ResolutionRequestSpec) map[string]v1beta1.ParamValue {
		m := map[string]v1beta1.ParamValue{}
		for _, p := range s.Params {
			if p.Value.Type == "" {
				p.Value.Type = v1beta1.ParamTypeString
			}
			m[p.Name] = p.Value
		}
		return m
	}
	// Empty and nil arrays and objects are the same on the wire.
	return equality.Semantic.DeepEqual(values(a), values(b))
}

// join adds the owner to a shared request.
func (r *Requester) join(ctx context.Context, found *v1beta1.ResolutionRequest, owner Owner) error {
	ref := owner.Reference
	ref.Controller, ref.BlockOwnerDeletion = nil, nil
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": found.UID, "resourceVersion": found.ResourceVersion,
		"ownerReferences": append(slices.Clone(found.OwnerReferences), ref),
	}})
	if err != nil {
		return err
	}
	_, err = r.Client.ResolutionRequests(found.Namespace).Patch(ctx, found.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Outcome returns what has become of a request, as Submit does for the request of an owner: the resource,
// [ErrInProgress], a *[FailedError] or a *[DataError], or another error where the store cannot be read for now. It needs
// neither Client nor Lister.
func (r *Requester) Outcome(ctx context.Context, q *v1beta1.ResolutionRequest) (*Resource, error) {
	c := q.Status.Succeeded()
	if c == nil || !q.Status.Finished() {
		return nil, ErrInProgress
	}
	if c.Status == metav1.ConditionFalse {
		return nil, &FailedError{
			Namespace: q.Namespace, Name: q.Name, Reason: c.Reason, Message: c.Message,
			Exact: q.Status.Annotations[resolution.AnnotationReason], uid: q.UID,
		}
	}
	return r.read(ctx, q)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
