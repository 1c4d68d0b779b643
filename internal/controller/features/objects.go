package features

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/feature/policy"
)

// Four kinds of objects enforce features: policies and their bindings, validating and mutating. They have the same shape in different
// Go types. [view] gives the parts that this package needs of each, so that comparing, writing and deleting are written once.

const (
	// ManagedByLabel is on all objects that the controller has made, with the value [Manager]. The controller deletes no others.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// Manager is the field manager of the controller.
	Manager = "sluice-features"
)

// objects reads and writes the objects that enforce features.
type objects struct {
	rest rest.Interface // of admissionregistration.k8s.io/v1
}

// object is an object of the API with its metadata.
type object interface {
	runtime.Object
	metav1.Object
}

// asObject is what a cache or a client returned, as an object; nil for anything else.
func asObject(o any) object {
	out, _ := o.(object)
	return out
}

// withManagerLabel is a copy with the label of the controller.
func withManagerLabel(o runtime.Object) object {
	out := asObject(o.DeepCopyObject())
	labels := maps.Clone(out.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedByLabel] = Manager
	out.SetLabels(labels)
	setDefaults(out)
	return out
}

// view is what can be said about each of the four kinds of objects that enforce features. What it points to belongs to the object.
type view struct {
	kind, resource string
	// spec is the part that is compared.
	spec any
	// failure and matches are those of a policy.
	failure **admissionregistrationv1.FailurePolicyType
	matches *admissionregistrationv1.MatchResources
	// limits and params are those of a binding.
	limits *admissionregistrationv1.MatchResources
	params *admissionregistrationv1.ParamRef
}

// viewOf returns the view of an object, the zero value for one of another kind.
func viewOf(o runtime.Object) view {
	switch o := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return view{kind: "ValidatingAdmissionPolicy", resource: validatingPolicies, spec: &o.Spec, failure: &o.Spec.FailurePolicy, matches: o.Spec.MatchConstraints}
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return view{kind: "MutatingAdmissionPolicy", resource: mutatingPolicies, spec: &o.Spec, failure: &o.Spec.FailurePolicy, matches: o.Spec.MatchConstraints}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return view{kind: "ValidatingAdmissionPolicyBinding", resource: validatingBindings, spec: &o.Spec, limits: o.Spec.MatchResources, params: o.Spec.ParamRef}
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return view{kind: "MutatingAdmissionPolicyBinding", resource: mutatingBindings, spec: &o.Spec, limits: o.Spec.MatchResources, params: o.Spec.ParamRef}
	}
	return view{}
}

// setDefaults fills in the defaults of the API server (pkg/apis/admissionregistration/v1/defaults.go), so that stored and wanted
// objects can be compared.
func setDefaults(o runtime.Object) {
	v := viewOf(o)
	if v.failure != nil && *v.failure == nil {
		*v.failure = new(admissionregistrationv1.Fail)
	}
	m := cmp.Or(v.matches, v.limits)
	if m == nil {
		return
	}
	m.MatchPolicy = cmp.Or(m.MatchPolicy, new(admissionregistrationv1.Equivalent))
	m.NamespaceSelector = cmp.Or(m.NamespaceSelector, &metav1.LabelSelector{})
	m.ObjectSelector = cmp.Or(m.ObjectSelector, &metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				rules[i].Scope = new(admissionregistrationv1.AllScopes)
			}
		}
	}
}

// sameAsWanted reports whether the stored object has the wanted spec, and the wanted labels and annotations.
//
// Further labels and annotations are allowed, as other tools set them. An object that is being deleted is never as it is wanted.
func sameAsWanted(want, have object) bool {
	if have.GetDeletionTimestamp() != nil {
		return false
	}
	within := func(want, have map[string]string) bool {
		for k, v := range want {
			if got, ok := have[k]; !ok || got != v {
				return false
			}
		}
		return true
	}
	return within(want.GetLabels(), have.GetLabels()) && within(want.GetAnnotations(), have.GetAnnotations()) &&
		equality.Semantic.DeepEqual(viewOf(want).spec, viewOf(have).spec)
}

// resourceOf is the resource of an object.
func resourceOf(o runtime.Object) string { return viewOf(o).resource }

// applyObject writes an object and returns the stored one. If others have added fields, which server-side apply does not remove, it
// replaces the whole object.
func (s *objects) applyObject(ctx context.Context, want object) (object, error) {
	data, err := json.Marshal(want) // it claims no missing fields, and the API server lets nobody apply a status here
	if err != nil {
		return nil, err
	}
	stored, err := s.rest.Patch(types.ApplyPatchType).Resource(resourceOf(want)).Name(want.GetName()).
		VersionedParams(&metav1.PatchOptions{FieldManager: Manager, Force: new(true)}, metav1.ParameterCodec).Body(data).Do(ctx).Get()
	have := asObject(stored)
	if err != nil || sameAsWanted(want, have) {
		return have, err
	}
	whole := asObject(want.DeepCopyObject())
	whole.SetResourceVersion(have.GetResourceVersion())
	whole.SetUID(have.GetUID())
	stored, err = s.rest.Put().Resource(resourceOf(want)).Name(want.GetName()).
		VersionedParams(&metav1.UpdateOptions{FieldManager: Manager}, metav1.ParameterCodec).Body(whole).Do(ctx).Get()
	return asObject(stored), err
}

// deleteObject deletes an object that was read as have.
func (s *objects) deleteObject(ctx context.Context, have object) error {
	uid := have.GetUID()
	err := s.rest.Delete().Resource(resourceOf(have)).Name(have.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another client was faster
	}
	return err
}

// removalOrder puts bindings before policies, so that no policy is in force in part.
func removalOrder(list []object) {
	rank := func(o object) int {
		return slices.Index([]string{validatingBindings, mutatingBindings, validatingPolicies, mutatingPolicies}, resourceOf(o))
	}
	slices.SortStableFunc(list, func(a, b object) int { return rank(a) - rank(b) })
}

// anchorObjects are a policy and a binding of each kind that match nothing, for as long as the cluster lives: an API server that
// has lost its last policy with a ConfigMap as parameter does not watch ConfigMaps again for the next one until it is
// restarted (kubernetes/kubernetes issue 130887). They belong to no component and are never deleted.
func anchorObjects(namespace string, s server) []object {
	const name = "sluice-features-anchor"
	m := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "sluice", ManagedByLabel: Manager}}
	anchors := policy.Anchors(m, &admissionregistrationv1.ParamRef{Name: name, Namespace: namespace, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction)})
	var out []object
	if s.validating {
		out = append(out, &anchors.Validating[0], &anchors.ValidatingBindings[0])
	}
	if s.mutating {
		out = append(out, &anchors.Mutating[0], &anchors.MutatingBindings[0])
	}
	return out
}

// nameOf names an object for people. Watched objects do not have their kind.
func nameOf(o object) string { return viewOf(o).kind + " " + o.GetName() }
