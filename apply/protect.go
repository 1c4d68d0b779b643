package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
)

// A namespace and a CRD take along what is in them. What is not the app's is looked for before anything is deleted, and once more when
// their turn comes.

// ErrProtected says that a deletion would take along what is not the app's. Nothing was deleted.
var ErrProtected = errors.New("nothing was deleted")

// immortal are the namespaces that the API server lets nobody delete
// (k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle, immortalNamespaces).
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// taken counts objects that go with another one.
type taken struct {
	count    int
	examples []string
}

func (t *taken) add(id ID) {
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

// protect decides about the namespaces and CRDs that are to be deleted. What may not be read, [Plan.Err] tells.
func (a *Applier) protect(ctx context.Context, p *Plan) error {
	return each(ctx, len(p.Removals), cap(a.client.slots), func(ctx context.Context, i int) error {
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

// protectOne decides about a removal, and notes what it takes along.
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
			r.Takes = "what is in it cannot be listed"
			return nil
		}
		if err != nil {
			r.protect("what else is in it cannot be told, so it stays; --allow-delete-namespaces deletes it all the same: " + err.Error())
			return nil //nolint:nilerr // it is the reason
		}
		if others.count == 0 {
			return nil
		}
		r.Takes = fmt.Sprintf("%d objects that are not the app's: %s", others.count, &others)
		if !p.request.AllowDeleteNamespaces {
			r.protect("it has " + r.Takes + "; --allow-delete-namespaces deletes it and them")
		}
	case r.isCRD():
		stored, err := a.storedBeside(ctx, p, r)
		switch {
		case err != nil && p.request.AllowDeleteCRDs:
			r.Takes = "its stored objects cannot be listed"
			return nil
		case err != nil || stored.count == 0:
			return err
		}
		r.Takes = fmt.Sprintf("%d stored objects: %s", stored.count, &stored)
		if !p.request.AllowDeleteCRDs {
			r.protect(fmt.Sprintf("it has stored objects, %d of them: %s; --allow-delete-crds deletes it and them", stored.count, &stored))
		}
	}
	return nil
}

// protect keeps an object whose deletion would delete other objects.
func (r *Removal) protect(reason string) { r.Action, r.Reason, r.protected = Keep, reason, true }

// storedBeside counts the stored objects of a CRD that do not go as removals of their own.
func (a *Applier) storedBeside(ctx context.Context, p *Plan, r *Removal) (taken, error) {
	crd, err := a.client.reads.CRD(ctx, r.Name)
	if err != nil || crd == nil {
		return taken{}, err
	}
	version, established := storageVersion(crd)
	if !established {
		return taken{}, nil // it never served anything, so nobody stored anything
	}
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
	err = a.client.metadata(ctx, listPath(crd.Spec.Group, version, crd.Spec.Names.Plural, ""), "", func(m *metav1.PartialObjectMetadata) {
		if !going[string(m.UID)] {
			out.add(ID{crd.Spec.Group, crd.Spec.Names.Kind, m.Namespace, m.Name})
		}
	})
	if isConversion(err) {
		return taken{1, []string{"the webhook that converts them does not answer"}}, nil
	}
	if apierrors.IsNotFound(err) {
		return taken{}, nil // it is gone by now
	}
	return out, err
}

// storageVersion gives the version in which the objects of a CRD are best listed: that in which they are stored, if it is served, or
// another one; empty where none is served. established is false where the CRD never was.
func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) (version string, established bool) {
	for _, v := range crd.Spec.Versions {
		if v.Served && (v.Storage || version == "") {
			version = v.Name
		}
	}
	return version, slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// isConversion tells whether a list failed because of the webhook that converts its objects: there are some, then
// (k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go).
func isConversion(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError && strings.Contains(status.Status().Message, "conversion webhook for ")
}

// othersIn counts what is in a namespace and is to stay, as far as anybody knows: what is neither the app's, nor belongs to another
// object that goes by an ownerReference, nor is made by Kubernetes in each namespace.
func (a *Applier) othersIn(ctx context.Context, p *Plan, namespace string) (taken, error) {
	kinds, err := a.kinds()
	if err != nil {
		return taken{}, err
	}
	owners := a.ownersOf(p, kinds)
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k servedKind) bool { return !k.namespaced })
	var out taken
	var mu sync.Mutex
	err = each(ctx, len(kinds), cap(a.client.slots), func(ctx context.Context, i int) error {
		k := kinds[i]
		err := a.client.metadata(ctx, listPath(k.group, k.version, k.resource, namespace), "", func(m *metav1.PartialObjectMetadata) {
			id := ID{k.group, k.kind, m.Namespace, m.Name}
			if p.isOurs(id, m) || slices.Contains(everywhere, ID{k.group, k.kind, "", m.Name}) || len(m.OwnerReferences) > 0 && !owners.stay(ctx, m.OwnerReferences) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out.add(id)
		})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return nil // it was removed a moment ago
		}
		if isConversion(err) {
			mu.Lock()
			defer mu.Unlock()
			out.add(ID{k.group, k.kind, namespace, "(the webhook that converts it does not answer)"})
			return nil
		}
		return err
	})
	slices.Sort(out.examples)
	return out, err
}

// everywhere is what Kubernetes makes in each namespace.
var everywhere = []ID{{Kind: "ConfigMap", Name: "kube-root-ca.crt"}, {Kind: "ServiceAccount", Name: "default"}}

// isDerived tells whether objects of a kind only say something of others.
func isDerived(group, kind string) bool {
	return kind == "Event" || group == "" && kind == "Endpoints"
}

// isOurs tells whether an object in a namespace is the app's, and nothing says that it stays. A copy that somebody else has made carries
// the annotation as well.
func (p *Plan) isOurs(id ID, m *metav1.PartialObjectMetadata) bool {
	v := p.inventory
	if m.Namespace == v.Namespace && (id.Group == "" && id.Kind == "ConfigMap" && isInventory(m.Name, v.App) || id.Kind == "Lease" && m.Name == InventoryName(v.App)) {
		return true
	}
	return m.Annotations[AnnotationApp] == v.owner() && (v.entry(id) != nil || appliedHere(m)) && !marksIn(m).kept
}

// owners tells what becomes of the owners of objects in a namespace that is to be deleted. Those in the namespace go with it, and so do
// objects of the plan and what belongs to these.
type owners struct {
	client *client
	// kinds are those without namespaces.
	kinds map[schema.GroupKind]servedKind

	mu    sync.Mutex
	stays map[types.UID]bool
}

func (a *Applier) ownersOf(p *Plan, kinds []servedKind) *owners {
	o := &owners{client: a.client, kinds: map[schema.GroupKind]servedKind{}, stays: map[types.UID]bool{}}
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

// stay tells whether one of the owners stays. One that cannot be read stays.
func (o *owners) stay(ctx context.Context, refs []metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return o.stay1(ctx, ref) })
}

func (o *owners) stay1(ctx context.Context, ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	k, ok := o.kinds[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
	if err != nil || !ok {
		return false
	}
	o.mu.Lock()
	stays, known := o.stays[ref.UID]
	if !known {
		o.stays[ref.UID] = true // should it own itself in the end
	}
	o.mu.Unlock()
	if known {
		return stays
	}
	obj, err := o.client.get(ctx, listPath(k.group, k.version, k.resource, "")+"/"+ref.Name)
	stays = err != nil
	if err == nil && obj != nil {
		u := unstructured.Unstructured{Object: obj}
		// One of another UID is another object: the garbage collector takes what belonged to the one before.
		stays = u.GetUID() == ref.UID && (len(u.GetOwnerReferences()) == 0 || o.stay(ctx, u.GetOwnerReferences()))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stays[ref.UID] = stays
	return stays
}

// marksIn is what annotations and labels of other tools say.
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

// kinds gives the kinds of which objects can be listed and deleted, each in the version that the server prefers. What cannot be deleted
// is no object of its own, such as the metrics of a Pod. Where some groups do not answer, it gives those of the others beside the error.
func (a *Applier) kinds() ([]servedKind, error) {
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

// metadata lists the metadata of the objects at a path that a selector of labels selects, of all where it is empty.
func (c *client) metadata(ctx context.Context, path, selector string, item func(m *metav1.PartialObjectMetadata)) error {
	for token := ""; ; {
		q := url.Values{"limit": {fmt.Sprint(listSize)}}
		if token != "" {
			q.Set("continue", token)
		}
		if selector != "" {
			q.Set("labelSelector", selector)
		}
		b, err := c.do(ctx, request{verb: http.MethodGet, path: path, query: q, accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal(b, &list); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i := range list.Items {
			item(&list.Items[i])
		}
		if token = list.Continue; token == "" {
			return nil
		}
	}
}

// turn is when a removal is deleted. Custom resources come first, while the controllers that take their finalizers away and the webhooks
// that convert and judge them run, and then their CRDs, which may take more of them along. Admission configuration goes before what
// answers it, workloads before what they start from, and namespaces at last.
func (r *Removal) turn() int {
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

// builtInGroups are those of the API server that client-go has no types for.
var builtInGroups = []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}
