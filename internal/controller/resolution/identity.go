package resolution

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/resolve"
)

// On whose behalf is a request made? A request carries no identity, and its parameters are the requester's words. But the run that
// controls it has a ServiceAccount, which is read from the API. For example, a request that TaskRun build in namespace a controls is
// made for system:serviceaccount:a:SERVICEACCOUNT of that run.

// runs lists the kinds that have a ServiceAccount, with the version and the path of the account: the runs of Tekton Pipelines,
// where older versions have another path, and deliveries.
var runs = map[schema.GroupKind]struct {
	version, resource string
	path              []string
}{
	{Group: "tekton.dev", Kind: "TaskRun"}:     {"v1", "taskruns", []string{"spec", "serviceAccountName"}},
	{Group: "tekton.dev", Kind: "PipelineRun"}: {"v1", "pipelineruns", []string{"spec", "taskRunTemplate", "serviceAccountName"}},
	{Group: "sluice.dev", Kind: "Delivery"}:    {"v1alpha1", "deliveries", []string{"spec", "serviceAccountName"}},
}

// Owner returns the identity on whose behalf a request is made: the ServiceAccount of the run or delivery that controls it, as read
// from the API. It is empty if nothing controls the request, or if the controlling object has no ServiceAccount.
type Owner struct{ Dynamic dynamic.Interface }

// Identity is for [Adapter].Identity.
func (o Owner) Identity(ctx context.Context, r *v1beta1.ResolutionRequest) (string, error) {
	ref := metav1.GetControllerOf(r)
	if ref == nil {
		return "", nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", resolve.Errorf(resolve.ReasonInvalid, "the controller of the request has the odd apiVersion %q", ref.APIVersion)
	}
	kind, ok := runs[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
	if !ok {
		return "", nil
	}
	gvr := schema.GroupVersionResource{Group: gv.Group, Version: kind.version, Resource: kind.resource}
	run, err := o.Dynamic.Resource(gvr).Namespace(r.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || (err == nil && run.GetUID() != ref.UID):
		return "", resolve.Errorf(resolve.ReasonDenied, "the %s %q that asks does not exist", ref.Kind, ref.Name)
	case apierrors.IsForbidden(err):
		return "", resolve.Errorf(resolve.ReasonDenied, "the resolver may not read %s.%s, so it cannot know who asks", kind.resource, gv.Group)
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		e := resolve.Transientf("the %s %q that asks cannot be read now", ref.Kind, ref.Name)
		e.Err = err
		return "", e
	}
	name, _, err := unstructured.NestedString(run.Object, kind.path...)
	if err != nil {
		return "", resolve.Errorf(resolve.ReasonInvalid, "the %s %q has an odd ServiceAccount", ref.Kind, ref.Name)
	}
	return fmt.Sprintf("system:serviceaccount:%s:%s", r.Namespace, cmp.Or(name, "default")), nil
}
