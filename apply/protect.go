package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"sluice.dev/internal/cluster"
)

// Deleting a namespace or a CRD deletes the objects in it. Sluice looks for objects that are not the app's before it deletes
// anything, and again just before it deletes the namespace or the CRD.

// ErrProtected means that a deletion would delete objects that are not the app's. The call has deleted nothing.
var ErrProtected = errors.New("nothing was deleted")

// immortal lists the namespaces that the API server never deletes (k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle,
// immortalNamespaces).
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// taken counts the objects that are deleted with another one.
type taken struct {
	count    int
	examples []string
}

func (t *taken) addExample(id ID) {
	const most = 3
	if t.count++; t.count <= most {
		t.examples = append(t.examples, id.String())
	}
}

func (t *taken) String() string {
	text := strings.Join(t.examples, ", ")
	if n := t.count - len(t.examples); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// protectRemovals decides about the namespaces and CRDs among the removals. Objects that this user cannot read are in [Plan.Err].
func (a *Applier) protectRemovals(ctx context.Context, p *Plan) error {
	return forEachIndex(ctx, len(p.Removals), cap(a.client.slots), func(ctx context.Context, i int) error {
		r := &p.Removals[i]
		err := a.protectOne(ctx, p, r)
		if apierrors.IsForbidden(err) {
			r.unread, err = &Error{ID: r.ID, Err: err}, nil
		}
		if err != nil {
			return &Error{ID: r.ID, Err: err}
		}
		return nil
	})
}

// protectOne decides about one removal, and counts the objects that are deleted with it.
func (a *Applier) protectOne(ctx context.Context, p *Plan, r *Removal) error {
	if r.Action != Delete {
		return nil
	}
	r.Takes = ""
	switch {
	case isNamespace(r.ID) && slices.Contains(immortal, r.Name):
		r.Action, r.Reason = Forget, "Kubernetes lets nobody delete it"
	case isNamespace(r.ID) && r.Found && !p.request.AllowDeleteNamespaces:
		r.Action, r.Reason = Forget, "it was there before the app; --allow-delete-namespaces deletes it"
	case isNamespace(r.ID):
		others, err := a.othersIn(ctx, p, r.Name)
		if err != nil && p.request.AllowDeleteNamespaces {
			r.Takes = "its objects cannot be listed"
			return nil
		}
		if err != nil {
			r.keepProtected("its other objects cannot be listed, so it stays; --allow-delete-namespaces deletes it anyway: " + err.Error())
			return nil //nolint:nilerr // it is the reason
		}
		if others.count == 0 {
			return nil
		}
		r.Takes = fmt.Sprintf("%d objects that are not the app's: %s", others.count, &others)
		if !p.request.AllowDeleteNamespaces {
			r.keepProtected("it has " + r.Takes + "; --allow-delete-namespaces deletes it and them")
		}
	case r.isCRD():
		return a.protectCRD(ctx, p, r)
	}
	return nil
}

// protectCRD decides about the removal of a CRD, and counts its objects that are not the app's.
func (a *Applier) protectCRD(ctx context.Context, p *Plan, r *Removal) error {
	stored, err := a.storedBeside(ctx, p, r)
	switch {
	case err != nil && p.request.AllowDeleteCRDs:
		r.Takes = "its stored objects cannot be listed"
		return nil
	case isOfOneKind(ctx, err) && !apierrors.IsForbidden(err):
		r.keepProtected("its stored objects cannot be listed, so it stays; --allow-delete-crds deletes it and them: " + err.Error())
		return nil
	case err != nil || stored.count == 0:
		return err
	}
	r.Takes = fmt.Sprintf("%d stored objects: %s", stored.count, &stored)
	if !p.request.AllowDeleteCRDs {
		r.keepProtected(fmt.Sprintf("it has stored objects, %d of them: %s; --allow-delete-crds deletes it and them", stored.count, &stored))
	}
	return nil
}

// keepProtected keeps an object whose deletion would delete other objects.
func (r *Removal) keepProtected(reason string) { r.Action, r.Reason, r.protected = Keep, reason, true }

// storedBeside counts the stored objects of a CRD that are no removals themselves.
func (a *Applier) storedBeside(ctx context.Context, p *Plan, r *Removal) (taken, error) {
	crd, err := a.client.reads.CRD(ctx, r.Name)
	if err != nil || crd == nil {
		return taken{}, err
	}
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		return taken{}, nil // the CRD never served anything, so it has no stored objects
	}
	version := cluster.ListedVersion(crd)
	if version == "" {
		return taken{1, []string{"it serves no version, so they cannot be listed"}}, nil
	}
	going := map[string]bool{}
	for i := range p.Removals {
		if o := &p.Removals[i]; o.Group == crd.Spec.Group && o.Kind == crd.Spec.Names.Kind && o.Action == Delete && o.live != nil {
			going[o.live.uid] = true
		}
	}
	var out taken
	err = a.client.hurried().listMetadata(ctx, listPath(crd.Spec.Group, version, crd.Spec.Names.Plural, ""), "", func(m *metav1.PartialObjectMetadata) {
		if !going[string(m.UID)] {
			out.addExample(ID{crd.Spec.Group, crd.Spec.Names.Kind, m.Namespace, m.Name})
		}
	})
	if apierrors.IsNotFound(err) {
		return taken{}, nil // already gone
	}
	return out, err
}

// othersIn counts the objects in a namespace that should stay. It leaves out objects of the app, objects whose owner is deleted
// too, and objects that Kubernetes creates in each namespace.
func (a *Applier) othersIn(ctx context.Context, p *Plan, namespace string) (taken, error) {
	kinds, err := a.deletableKinds()
	if err != nil {
		return taken{}, err
	}
	owners := a.ownersOf(p, kinds)
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k servedKind) bool { return !k.namespaced })
	client := a.client.hurried()
	var out taken
	var mu sync.Mutex
	err = forEachIndex(ctx, len(kinds), cap(a.client.slots), func(ctx context.Context, i int) error {
		k := kinds[i]
		err := client.listMetadata(ctx, listPath(k.group, k.version, k.resource, namespace), "", func(m *metav1.PartialObjectMetadata) {
			id := ID{k.group, k.kind, m.Namespace, m.Name}
			if p.isOurs(id, m) || slices.Contains(everywhere, ID{k.group, k.kind, "", m.Name}) || len(m.OwnerReferences) > 0 && !owners.anyOwnerStays(ctx, m.OwnerReferences) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out.addExample(id)
		})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return nil // it was removed a moment ago
		}
		if isOfOneKind(ctx, err) && !apierrors.IsForbidden(err) {
			mu.Lock()
			defer mu.Unlock()
			out.addExample(ID{k.group, k.kind, namespace, "(cannot be listed: " + err.Error() + ")"})
			return nil
		}
		return err
	})
	slices.Sort(out.examples)
	return out, err
}

// everywhere lists the objects that Kubernetes creates in each namespace.
var everywhere = []ID{{Kind: "ConfigMap", Name: "kube-root-ca.crt"}, {Kind: "ServiceAccount", Name: "default"}}

// isDerived reports whether objects of a kind only describe other objects.
func isDerived(group, kind string) bool {
	return kind == "Event" || group == "" && kind == "Endpoints"
}

// isOurs reports whether an object in a namespace belongs to the app and nothing keeps it. The annotation alone is not enough,
// because copies that others have made carry it as well.
func (p *Plan) isOurs(id ID, m *metav1.PartialObjectMetadata) bool {
	v := p.inventory
	if m.Namespace == v.Namespace && (id.Group == "" && id.Kind == "ConfigMap" && isInventory(m.Name, v.App) || id.Kind == "Lease" && m.Name == InventoryName(v.App)) {
		return true
	}
	return m.Annotations[AnnotationApp] == v.ownerMark() && (v.entryOf(id) != nil || appliedHere(m)) && !marksIn(m).kept
}

// owners finds out whether the owners of objects stay when a namespace is deleted. Owners in the namespace are deleted with it. So
// are removals of the plan, and objects that belong to them.
type owners struct {
	client *client
	// kinds are the kinds without namespaces.
	kinds map[schema.GroupKind]servedKind

	mu    sync.Mutex
	stays map[types.UID]bool
}

func (a *Applier) ownersOf(p *Plan, kinds []servedKind) *owners {
	o := &owners{client: a.client.hurried(), kinds: map[schema.GroupKind]servedKind{}, stays: map[types.UID]bool{}}
	for _, k := range kinds {
		if !k.namespaced {
			o.kinds[schema.GroupKind{Group: k.group, Kind: k.kind}] = k
		}
	}
	for i := range p.Removals {
		if r := &p.Removals[i]; r.Action == Delete && r.live != nil {
			o.stays[types.UID(r.live.uid)] = false
		}
	}
	return o
}

// anyOwnerStays reports whether one of the owners stays. An owner that cannot be read counts as staying.
func (o *owners) anyOwnerStays(ctx context.Context, refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return o.ownerStays(ctx, ref) })
}

func (o *owners) ownerStays(ctx context.Context, ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	k, ok := o.kinds[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
	if err != nil || !ok {
		return false
	}
	o.mu.Lock()
	stays, known := o.stays[ref.UID]
	if !known {
		o.stays[ref.UID] = true // in case it is, in the end, its own owner
	}
	o.mu.Unlock()
	if known {
		return stays
	}
	obj, err := o.client.fetchObject(ctx, listPath(k.group, k.version, k.resource, "")+"/"+ref.Name)
	stays = err != nil
	if err == nil && obj != nil {
		u := unstructured.Unstructured{Object: obj}
		// An owner with another UID is another object: the garbage collector deletes the objects of the earlier one.
		stays = u.GetUID() == ref.UID && (len(u.GetOwnerReferences()) == 0 || o.anyOwnerStays(ctx, u.GetOwnerReferences()))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stays[ref.UID] = stays
	return stays
}

// marksIn returns the meaning of the annotations and labels of other tools.
func marksIn(m *metav1.PartialObjectMetadata) marks {
	texts := func(list map[string]string) map[string]any {
		out := map[string]any{}
		for k, v := range list {
			out[k] = v
		}
		return out
	}
	return marksOf(map[string]any{"metadata": map[string]any{"labels": texts(m.Labels), "annotations": texts(m.Annotations)}})
}

// servedKind is a kind that the server serves.
type servedKind struct {
	group, version, resource, kind string
	namespaced                     bool
}

// deletableKinds returns the kinds whose objects can be listed and deleted, each in the version that the server prefers. Kinds that cannot
// be deleted have no objects of their own, such as the metrics of Pods. If some groups do not answer, kinds returns an error and
// the kinds of the other groups.
func (a *Applier) deletableKinds() ([]servedKind, error) {
	client, err := discovery.NewDiscoveryClientForConfig(a.client.config)
	if err != nil {
		return nil, err
	}
	lists, failed := discovery.ServerPreferredResources(client)
	var out []servedKind
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !isDerived(gv.Group, r.Kind) {
				out = append(out, servedKind{gv.Group, gv.Version, r.Name, r.Kind, r.Namespaced})
			}
		}
	}
	return out, failed
}

// deletionTurn is the position of a removal in the deletion. Custom resources come first: the controllers that remove their finalizers, and
// the webhooks that convert and judge them, must still run. Their CRDs follow. Admission configuration goes before the webhooks
// that it calls, workloads go before the objects that they start from, and namespaces are last.
func (r *Removal) deletionTurn() int {
	switch builtIn := r.Group == "" || slices.Contains(builtInGroups, r.Group) || scheme.Scheme.IsGroupRegistered(r.Group); {
	case isNamespace(r.ID):
		return 5
	case r.isCRD():
		return 1
	case !builtIn:
		return 0
	case r.Stage == StageAdmission:
		return 2
	case r.Stage == StageObjects:
		return 3
	}
	return 4
}

// builtInGroups are groups of the API server that client-go has no types for.
var builtInGroups = []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
