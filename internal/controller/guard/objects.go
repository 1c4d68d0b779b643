package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// Are objects of a CRD stored? The deletion of a CRD deletes them, so the answer decides whether the deletion is refused. It comes
// from a list of the objects and not from the conditions of the CRD, which other clients can write. A wrong "none" would lose data,
// and a wrong "some" only needs the annotation.

// servedAfter bounds the time that the API server needs to serve a CRD that was just established. Its controllers need the same time
// to correct conditions that another client has written.
const servedAfter = 2 * time.Second

// Objects asks the cluster whether objects of a CRD are stored, and who owns their fields. It reads metadata only.
type Objects struct {
	Client metadata.Interface
	// Namespace is that of the guard, for messages; empty for sluice-system.
	Namespace string
	// Discovery reports whether a CRD is served, if the guard may not list its objects.
	Discovery discovery.ServerResourcesInterfaceWithContext
}

// stored is the number of stored objects: none, or at least one. exact is true if the count is not just a lower bound.
type stored struct {
	count int64
	exact bool
	// example is one of them, as namespace/name or name.
	example string
}

// unread is the reason why the objects could not be counted.
type unread struct{ text string }

func (u unread) Error() string { return u.text }

// countObjects asks the API server. An error of type unread says why there is no answer and what to do.
//
// The conditions of the CRD are no answer, because every client that can write its status can write them. The guard believes that a
// CRD was never served, and so has no objects, only if the whole status and the API server agree.
func (o Objects) countObjects(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition) (stored, error) {
	resource := servedResource(live)
	if resource.Version == "" {
		return stored{}, unread{"the CRD serves no version, so its objects cannot be counted; serve one again, or see how many there are in a backup"}
	}
	list, err := o.listOne(ctx, resource)
	switch {
	case neverServed(live) && ctx.Err() == nil && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !o.isServed(ctx, resource)):
		// There can be no stored objects.
		return stored{exact: true}, nil
	case !wasServed(live) && apierrors.IsNotFound(err):
		return stored{}, unread{"the names of the CRD were accepted, so it was served, but somebody has taken away the conditions of its status by which it is: " +
			"its objects are stored all the same; set the condition NamesAccepted to True again to have them served"}
	case apierrors.IsForbidden(err):
		return stored{}, o.mayNotList(resource)
	case err != nil && ctx.Err() != nil:
		return stored{}, unread{"counting the stored objects took too long"}
	case err != nil:
		return stored{}, unread{"the stored objects cannot be listed: " + err.Error()}
	case len(list.Items) == 0:
		return stored{exact: true}, nil
	}
	s := stored{count: int64(len(list.Items)), exact: list.Continue == "", example: objectName(&list.Items[0])}
	if rest := list.RemainingItemCount; rest != nil {
		s.count, s.exact = s.count+*rest, true
	}
	return s, nil
}

// servedResource is the resource in which the objects of a CRD are listed: in the storage version if it is served. The version is
// empty if the CRD serves none.
func servedResource(live *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionResource {
	r := schema.GroupVersionResource{Group: live.Spec.Group, Resource: live.Spec.Names.Plural}
	for _, v := range live.Spec.Versions {
		if v.Served && (v.Storage || r.Version == "") {
			r.Version = v.Name
		}
	}
	return r
}

// mayNotList says that a permission is missing, and how to give it.
func (o Objects) mayNotList(resource schema.GroupVersionResource) unread {
	return unread{fmt.Sprintf("the guard may not list %[1]s.%[2]s; allow it with: kubectl create clusterrole sluice-crd-guard-%[1]s.%[2]s --verb=list --resource=%[1]s.%[2]s && "+
		"kubectl create clusterrolebinding sluice-crd-guard-%[1]s.%[2]s --clusterrole=sluice-crd-guard-%[1]s.%[2]s --serviceaccount=%[3]s:sluice-crd-guard", resource.Resource, resource.Group, cmp.Or(o.Namespace, "sluice-system"))}
}

// pageSize is how many objects one request of [Objects.countOwnedIn] lists.
const pageSize = 500

// countOwnedIn counts the objects whose metadata.managedFields name an apiVersion, with examples. If err is set, some objects were not
// looked at; the count is that of the others.
func (o Objects) countOwnedIn(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition, apiVersion string) (n report.Objects, err error) {
	resource := servedResource(live)
	for page := (metav1.ListOptions{Limit: pageSize}); ; {
		list, err := o.Client.Resource(resource).List(ctx, page)
		switch {
		case apierrors.IsForbidden(err):
			return n, o.mayNotList(resource)
		case err != nil && ctx.Err() != nil:
			return n, fmt.Errorf("there was time for %s only", brief.Count(n.Checked, "stored object"))
		case err != nil:
			return n, fmt.Errorf("the stored objects cannot be listed: %w", err)
		}
		for i := range list.Items {
			n.Checked++
			if !isOwnedIn(&list.Items[i], apiVersion) {
				continue
			}
			if n.Affected++; len(n.Examples) < 3 {
				n.Examples = append(n.Examples, objectName(&list.Items[i]))
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return n, nil
		}
	}
}

// isOwnedIn reports whether a server-side apply would have to convert fields that managedFields note in an apiVersion. The API server
// never converts an entry without fields.
func isOwnedIn(obj *metav1.PartialObjectMetadata, apiVersion string) bool {
	return slices.ContainsFunc(obj.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.APIVersion == apiVersion && e.FieldsV1 != nil && e.FieldsV1.GetRawString() != "{}" && e.FieldsV1.GetRawString() != ""
	})
}

// objectName is namespace/name, or the name of an object without a namespace.
func objectName(obj *metav1.PartialObjectMetadata) string {
	if obj.Namespace == "" {
		return obj.Name
	}
	return obj.Namespace + "/" + obj.Name
}

// listOne lists one object. A CRD that was just created may not be served yet, although its conditions say so. If a client has changed
// the conditions, the CRD may be served again in a moment.
func (o Objects) listOne(ctx context.Context, resource schema.GroupVersionResource) (list *metav1.PartialObjectMetadataList, err error) {
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, servedAfter, true, func(context.Context) (bool, error) { // the last answer counts, so it may take longer
		list, err = o.Client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		return !apierrors.IsNotFound(err), nil
	})
	return list, err
}

// isServed reports whether the API server serves the resource, or begins to in a moment. If that cannot be found out, the resource
// counts as served.
func (o Objects) isServed(ctx context.Context, resource schema.GroupVersionResource) bool {
	is := true
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, servedAfter, true, func(context.Context) (bool, error) { // the last answer counts, so it may take longer
		list, err := o.Discovery.ServerResourcesForGroupVersionWithContext(ctx, resource.GroupVersion().String())
		is = err != nil && !apierrors.IsNotFound(err) || err == nil &&
			slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource })
		return is, nil
	})
	return is || ctx.Err() != nil
}

// wasServed reports whether the conditions of the CRD say that it is served, or was. Controllers never remove the condition
// Established (naming_controller.go and establishing_controller.go of apiextensions-apiserver). If another client has removed it,
// accepted names are enough for its objects to be served (customresource_handler.go). Without its finalizer, a deletion would leave
// them stored and unreachable.
func wasServed(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) || apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted)
}

// neverServed reports whether the status says that the CRD was never served. Controllers accept names and set the condition in one
// write, and skip a CRD whose names are accepted (naming_controller.go). So accepted names without the condition were written by
// another client. If the names are missing too, the controllers correct both.
func neverServed(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return !wasServed(crd) && !equality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames)
}

// String describes the number of objects.
func (s stored) String() string {
	switch {
	case s.count == 1 && s.exact:
		return "1 object is stored"
	case s.exact:
		return fmt.Sprintf("%d objects are stored", s.count)
	}
	return "objects are stored"
}
