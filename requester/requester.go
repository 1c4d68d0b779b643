// Package requester is the client side of ResolutionRequest, for reconcilers that need a resource from elsewhere.
//
// It promises that nothing blocks: [Requester.Submit] creates a request or finds the existing one, and returns the resource when it
// is there. It promises that the owner of a request gets the resource that it asked for. If an object has the right name and
// another owner or spec, that is an error. If content contradicts its digest, that is an error too. The package does not decide
// whether the content is trustworthy: see the refSource.
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
	"cmp"
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

// ErrInProgress means that the request has not ended yet.
var ErrInProgress = errors.New("the resource is being resolved")

// FailedError means that the request has failed permanently. Another attempt needs another request; [Requester.Again] replaces this
// one.
type FailedError struct {
	// Namespace and Name identify the request.
	Namespace, Name string
	// Reason is the reason of the condition, ResolutionFailed or ResolutionTimedOut. Exact is the precise cause in one word, empty
	// if the resolver gives none.
	Reason, Exact string
	Message       string

	uid types.UID
}

// Error implements error.
func (e *FailedError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// ConflictError means that another object has the name of the request.
type ConflictError struct {
	Namespace, Name string
	// Why says how it differs from the request.
	Why string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("the ResolutionRequest %s/%s is not what was asked for: %s; delete it to ask again", e.Namespace, e.Name, e.Why)
}

// Owner is the object that asks.
type Owner struct {
	Namespace, Name string
	// Reference becomes an owner reference of the request. Submit sets its Controller.
	Reference metav1.OwnerReference
}

// OwnedBy returns an object as an owner. The object must be in a namespace.
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
	// Shared lets owners of a namespace share a request with equal resolver, parameters and URL. Each becomes an owner of the
	// request, and none its controller. So the resolver does not know the owner it works for. The request is deleted with the last
	// owner. Otherwise a request has one owner, which controls it.
	Shared bool
	// Annotations are set on new requests, for example sluice.dev/look-after.
	Annotations map[string]string
	// Store reads content that is too large for a request. If it is nil, such content is a *[DataError].
	Store Store
	// MaxBytes bounds content that is compressed or in the store, in bytes; 0 stands for [DefaultMaxBytes].
	MaxBytes int64
}

// Submit requests the resource of the spec for the owner. It returns the resource, or [ErrInProgress] until the request has ended.
// Otherwise the error is a *[FailedError], *[ConflictError] or *[DataError], or an error of the API server or the store. A request
// that is being deleted, or belonged to an earlier owner of the same name, counts as in progress: the owner asks again when it is
// gone.
func (r *Requester) Submit(ctx context.Context, owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) (*Resource, error) {
	name, err := r.requestName(owner, resolver, spec)
	if err != nil {
		return nil, err
	}
	requests := r.Client.ResolutionRequests(owner.Namespace)
	found, err := r.findRequest(ctx, owner.Namespace, name)
	if apierrors.IsNotFound(err) {
		_, err = requests.Create(ctx, r.newRequest(owner, name, resolver, spec), metav1.CreateOptions{})
		switch {
		case err == nil:
			return nil, ErrInProgress
		case !apierrors.IsAlreadyExists(err):
			return nil, err
		}
		// The cache is out of date.
		found, err = requests.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	if err := r.checkRequest(found, owner, resolver, spec); err != nil {
		return nil, err
	}
	for tries := 0; r.Shared && !isOwnedBy(found, owner.Reference.UID); tries++ {
		err := r.addOwner(ctx, found, owner)
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) || tries == maxJoins {
			return nil, err
		}
		// The cache is out of date, or another owner was faster.
		if found, err = requests.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		if err := r.checkRequest(found, owner, resolver, spec); err != nil {
			return nil, err
		}
	}
	return r.Outcome(ctx, found)
}

// Again is Submit for an owner that wants another attempt after a *[FailedError] or *[DataError]. It deletes a request that has
// ended so and creates another one, which is in progress then. It leaves other requests as they are. It reads from the API server,
// so that an outdated cache cannot cause a second attempt. The caller decides how often to try and how long to wait. The caller
// needs the right to delete requests. With Shared, each owner of the request asks again when its watch handler has queued it.
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
	name, err := r.requestName(owner, resolver, spec)
	if err != nil {
		return nil, err
	}
	err = r.Client.ResolutionRequests(owner.Namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	// A conflict: it is another object by now.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return nil, err
	}
	if out, err = fresh.Submit(ctx, owner, resolver, spec); errors.As(err, &failed) && failed.uid == uid || errors.As(err, &bad) && bad.uid == uid {
		// A finalizer keeps it. The watch handler queues the owner when it is gone.
		return nil, ErrInProgress
	}
	return out, err
}

// requestName returns the name of the owner's request.
func (r *Requester) requestName(owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) (string, error) {
	if owner.Namespace == "" || owner.Reference.UID == "" {
		return "", errors.New("the owner of a request needs a namespace and a UID")
	}
	base := owner.Namespace + "/" + owner.Name
	if r.Shared {
		base = owner.Namespace
	}
	return Name(resolver, base, spec)
}

// maxJoins bounds the attempts to join a shared request.
const maxJoins = 10

// findRequest reads a request from the cache, or from the API server if there is none.
func (r *Requester) findRequest(ctx context.Context, namespace, name string) (*v1beta1.ResolutionRequest, error) {
	if r.Lister != nil {
		return r.Lister.ResolutionRequests(namespace).Get(name)
	}
	return r.Client.ResolutionRequests(namespace).Get(ctx, name, metav1.GetOptions{})
}

// newRequest returns the object to create. A shared request has no controller: an object can have only one, and the garbage collector
// deletes it with its last owner all the same.
func (r *Requester) newRequest(owner Owner, name, resolver string, spec v1beta1.ResolutionRequestSpec) *v1beta1.ResolutionRequest {
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

// checkRequest makes sure that the object is the request. The name is no proof, because it is a hash that others can compute too.
func (r *Requester) checkRequest(found *v1beta1.ResolutionRequest, owner Owner, resolver string, spec v1beta1.ResolutionRequestSpec) error {
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
	if !r.Shared && !isOwnedBy(found, owner.Reference.UID) {
		if leftBehind(found, owner.Reference) {
			return ErrInProgress
		}
		return conflict("it belongs to another owner")
	}
	return nil
}

func isOwnedBy(r *v1beta1.ResolutionRequest, uid types.UID) bool {
	return slices.ContainsFunc(r.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// leftBehind reports whether the request belongs to an earlier owner of the same name. The garbage collector deletes it.
func leftBehind(r *v1beta1.ResolutionRequest, owner metav1.OwnerReference) bool {
	before := metav1.GetControllerOf(r)
	if before == nil || len(r.OwnerReferences) != 1 || before.Kind != owner.Kind || before.Name != owner.Name {
		return false
	}
	one, err := schema.ParseGroupVersion(before.APIVersion)
	other, otherErr := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && otherErr == nil && one.Group == other.Group
}

// sameSpec compares two specs; the order of parameters does not matter.
func sameSpec(a, b v1beta1.ResolutionRequestSpec) bool {
	if a.URL != b.URL || len(a.Params) != len(b.Params) {
		return false
	}
	values := func(s v1beta1.ResolutionRequestSpec) map[string]v1beta1.ParamValue {
		m := map[string]v1beta1.ParamValue{}
		for _, p := range s.Params {
			p.Value.Type = cmp.Or(p.Value.Type, v1beta1.ParamTypeString)
			m[p.Name] = p.Value
		}
		return m
	}
	// Empty and nil arrays and objects are the same on the wire.
	return equality.Semantic.DeepEqual(values(a), values(b))
}

// addOwner adds the owner to a shared request.
func (r *Requester) addOwner(ctx context.Context, found *v1beta1.ResolutionRequest, owner Owner) error {
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

// Outcome returns the result of a request, as Submit does: the resource, [ErrInProgress], a *[FailedError] or a *[DataError], or
// another error if the store cannot be read now. It needs neither Client nor Lister.
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
	return r.readResource(ctx, q)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
