// Package installation finds what Sluice has in a cluster and removes it, in an order that never leaves a kind whose writes
// are refused: webhooks and bindings of admission policies go before what they call or read.
//
// It takes for Sluice's own what carries Sluice's labels under a name of Sluice. Settings, and objects that others put into
// Sluice's namespace, stay, and are reported.
package installation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
)

// DefaultNamespace is where Sluice runs unless its manifests were made for another namespace.
const DefaultNamespace = "sluice-system"

const (
	partOf    = "app.kubernetes.io/part-of=sluice"
	managedBy = "app.kubernetes.io/managed-by=sluice-features"
	component = "app.kubernetes.io/component"
	// credentials is the ClusterRole that users bind in their namespaces.
	credentials = "sluice-resolver-credentials" //nolint:gosec // the name of a ClusterRole
)

// groups are the API groups of Sluice's own kinds. Beside Tekton, resolution.tekton.dev has no CRD of Sluice.
var groups = []string{"sluice.dev", "resolution.tekton.dev"}

// Object names an object in a cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Reason says why it stays; empty for what is removed.
	Reason string `json:"reason,omitempty"`

	resource schema.GroupVersionResource
	uid      string
}

// String returns "KIND NAMESPACE/NAME".
func (o Object) String() string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// Step is what goes at one time. The objects of a step are gone before the next step begins.
type Step struct {
	// Title says what the objects are, in the plural.
	Title   string   `json:"title"`
	Objects []Object `json:"objects"`
}

// Stored counts the objects of one of Sluice's kinds.
type Stored struct {
	// CRD is the name of the CustomResourceDefinition.
	CRD   string `json:"crd"`
	Count int    `json:"count"`
}

// Plan is what a removal does.
type Plan struct {
	Steps []Step `json:"steps"`
	// Stored are the objects of kinds that have any.
	Stored []Stored `json:"stored,omitempty"`
	// Left stays, with a reason each.
	Left []Object `json:"left,omitempty"`
}

// Empty tells that there is nothing to remove.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return len(s.Objects) > 0 })
}

// removesObject tells whether an object that has no namespace goes.
func (p *Plan) removesObject(kind, name string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		return slices.ContainsFunc(s.Objects, func(o Object) bool { return o.Kind == kind && o.Name == name })
	})
}

// Options change a removal. With the zero value kinds that have objects stay, with their CRDs.
type Options struct {
	// DeleteObjects removes the objects of Sluice's kinds too: deliveries, features and requests. What a delivery has
	// delivered stays.
	DeleteObjects bool
	// DeleteNamespace removes the namespace whatever else is in it.
	DeleteNamespace bool
}

// Cluster is a cluster in which Sluice may be installed.
type Cluster struct {
	namespace string
	objects   metadata.Interface
	kube      kubernetes.Interface
	discovery discovery.DiscoveryInterface
	mapper    meta.RESTMapper
}

// New returns the cluster of a configuration, with Sluice in a namespace. It asks the API server what it serves.
func New(config *rest.Config, namespace string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 300 // as kubectl has them
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	served, err := restmapper.GetAPIGroupResources(d)
	if err != nil {
		return nil, fmt.Errorf("cannot ask the API server what it serves: %w", err)
	}
	return &Cluster{namespace: namespace, objects: objects, kube: kube, discovery: d, mapper: restmapper.NewDiscoveryRESTMapper(served)}, nil
}

// stage is a row of the table of what is removed together.
type stage struct {
	title string
	kinds []schema.GroupKind
	// only keeps some of the objects; nil keeps all.
	only func(*metav1.PartialObjectMetadata) bool
}

func groupKinds(group string, names ...string) []schema.GroupKind {
	var out []schema.GroupKind
	for _, n := range names {
		out = append(out, schema.GroupKind{Group: group, Kind: n})
	}
	return out
}

const (
	admission  = "admissionregistration.k8s.io"
	titleKinds = "kinds"
)

// stages is the order. The controller of features makes its policies again, so that it goes first; nothing that the API server
// calls goes before the API server has been told not to call it.
var stages = []stage{
	{"controllers that write admission policies", groupKinds("apps", "Deployment"), func(o *metav1.PartialObjectMetadata) bool { return o.Labels[component] == "features" }},
	{"webhooks", groupKinds(admission, "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"), nil},
	{"bindings of admission policies", groupKinds(admission, "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"), nil},
	{"admission policies", groupKinds(admission, "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"), nil},
	{titleKinds, groupKinds("apiextensions.k8s.io", "CustomResourceDefinition"), nil},
	{
		"programs", slices.Concat(groupKinds("apps", "Deployment"), groupKinds("", "Service"), groupKinds("policy", "PodDisruptionBudget"), groupKinds("networking.k8s.io", "NetworkPolicy"),
			groupKinds("cert-manager.io", "Certificate", "Issuer")),
		func(o *metav1.PartialObjectMetadata) bool { return o.Labels[component] != "features" },
	},
	{"access rights", slices.Concat(
		groupKinds("rbac.authorization.k8s.io", "RoleBinding", "ClusterRoleBinding", "Role", "ClusterRole"), groupKinds("", "ServiceAccount")), nil},
}

// hasKnownName tells whether the name is one that the manifests give: anybody can set their label.
//
// Without this check a removal would delete the objects of somebody who has copied a manifest with its labels.
func (c *Cluster) hasKnownName(o *metav1.PartialObjectMetadata, kind string) bool {
	if kind == "CustomResourceDefinition" {
		_, group, _ := strings.Cut(o.Name, ".")
		return slices.Contains(groups, group)
	}
	return o.Namespace == c.namespace || strings.HasPrefix(o.Name, "sluice-") || strings.HasSuffix(o.Name, ".sluice.dev")
}

// Plan finds what a removal would do. It changes nothing.
//
// A CRD whose objects stay, stays with them, and so does what is not Sluice's in the namespace. The error means that something could
// not be listed: then nothing is known to be safe.
func (c *Cluster) Plan(ctx context.Context, o Options) (*Plan, error) {
	p := &Plan{}
	for _, s := range stages {
		step := Step{Title: s.title, Objects: []Object{}}
		for _, k := range s.kinds {
			found, err := c.listObjects(ctx, k, s.only)
			if err != nil {
				return nil, err
			}
			for _, f := range found {
				if f.Kind == "CustomResourceDefinition" && f.Reason == "" {
					if f.Reason, err = c.keepsKind(ctx, p, f.Name, o); err != nil {
						return nil, err
					}
				}
				if f.Reason != "" {
					p.Left = append(p.Left, f)
				} else {
					step.Objects = append(step.Objects, f)
				}
			}
		}
		p.Steps = append(p.Steps, step)
	}
	if err := c.planNamespace(ctx, p, o); err != nil {
		return nil, err
	}
	return p, c.planBindings(ctx, p)
}

// keepsKind counts the objects of a kind, and says why the CRD stays if it does.
//
// It also counts the objects for the plan. A kind that was never served has none.
func (c *Cluster) keepsKind(ctx context.Context, p *Plan, crd string, o Options) (string, error) {
	plural, group, _ := strings.Cut(crd, ".")
	resource, err := c.mapper.ResourceFor(schema.GroupVersionResource{Group: group, Resource: plural})
	if meta.IsNoMatchError(err) {
		return "", nil // it was never served, so that nothing is stored
	}
	if err != nil {
		return "", err
	}
	n := 0
	err = c.eachObject(ctx, resource, metav1.ListOptions{}, func(*metav1.PartialObjectMetadata) { n++ })
	if isAnswer(err) && !o.DeleteObjects {
		return "its objects cannot be listed, so it stays: " + err.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot count the objects of %s: %w", crd, err)
	}
	if n == 0 {
		return "", nil
	}
	p.Stored = append(p.Stored, Stored{crd, n})
	if o.DeleteObjects {
		return "", nil
	}
	return fmt.Sprintf("it has objects (%d); --delete-objects removes them, too", n), nil
}

// planNamespace adds the namespace, or what keeps it.
//
// Other objects in the namespace keep it, unless the options say otherwise. A namespace that does not exist is no error.
func (c *Cluster) planNamespace(ctx context.Context, p *Plan, o Options) error {
	namespace, err := c.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, c.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	own, others, err := c.inNamespace(ctx, p)
	if err != nil {
		return err
	}
	it := objectOf(namespace, "Namespace", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if len(own) > 0 {
		p.Steps = append(p.Steps, Step{"what the programs keep in " + c.namespace, own})
	}
	if len(others) > 0 && !o.DeleteNamespace {
		for i := range others {
			others[i].Reason = "it is not part of the installation; --delete-namespace removes it, too"
		}
		it.Reason = fmt.Sprintf("it holds objects that are not part of the installation (%d)", len(others))
		p.Left = append(p.Left, append(others, it)...)
		return nil
	}
	p.Steps = append(p.Steps, Step{"the namespace", []Object{it}})
	return nil
}

// planBindings finds what users have bound to the ClusterRole that goes.
//
// The bindings stay in the plan as left, with what they are worth then. A user may want them again after the next installation.
func (c *Cluster) planBindings(ctx context.Context, p *Plan) error {
	bindings, err := c.credentialBindings(ctx)
	if err != nil {
		return err
	}
	for _, b := range bindings {
		if b.labels["app.kubernetes.io/part-of"] != "sluice" {
			b.Reason = "a user has made it; it gives nothing without the ClusterRole " + credentials + ", and the same again if Sluice is installed again"
			p.Left = append(p.Left, b.Object)
		}
	}
	return nil
}

// listObjects returns Sluice's objects of a kind, sorted. A kind that the API server does not serve has none.
//
// An object with Sluice's label and another name is in the result with a reason to stay.
func (c *Cluster) listObjects(ctx context.Context, k schema.GroupKind, only func(*metav1.PartialObjectMetadata) bool) ([]Object, error) {
	m, err := c.mapper.RESTMapping(k)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Object
	// What the role features has made has the names of components; a few of these objects have both labels.
	for _, selector := range []string{managedBy, partOf} {
		err := c.eachObject(ctx, m.Resource, metav1.ListOptions{LabelSelector: selector}, func(o *metav1.PartialObjectMetadata) {
			if only != nil && !only(o) {
				return
			}
			f := objectOf(o, k.Kind, m.Resource)
			if selector == partOf && !c.hasKnownName(o, k.Kind) {
				f.Reason = "it carries Sluice's label, but no name of Sluice"
			}
			if !slices.ContainsFunc(out, func(x Object) bool { return x.uid == f.uid }) {
				out = append(out, f)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", m.Resource.GroupResource(), err)
		}
	}
	sortObjects(out)
	return out, nil
}

func sortObjects(list []Object) {
	slices.SortFunc(list, func(a, b Object) int { return cmp.Compare(a.String(), b.String()) })
}

// eachObject lists in pages.
func (c *Cluster) eachObject(ctx context.Context, resource schema.GroupVersionResource, o metav1.ListOptions, visit func(*metav1.PartialObjectMetadata)) error {
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.objects.Resource(resource).List(ctx, o)
	}
	err := pager.New(list).EachListItem(ctx, o, func(o runtime.Object) error {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			visit(m)
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil // the kind has gone meanwhile
	}
	return err
}

func objectOf(o *metav1.PartialObjectMetadata, kind string, resource schema.GroupVersionResource) Object {
	return Object{Kind: kind, Namespace: o.Namespace, Name: o.Name, resource: resource, uid: string(o.UID)}
}

// inNamespace sorts what is in Sluice's namespace into what Sluice's programs have made there, and what others have. What is removed
// by an earlier step of the plan and what Kubernetes puts into each namespace is neither.
//
// Kinds that cannot be listed count as others, with a word in place of a name: they may have objects, and deleting the namespace
// would delete these too.
func (c *Cluster) inNamespace(ctx context.Context, p *Plan) (own, others []Object, err error) {
	lists, err := discovery.ServerPreferredNamespacedResources(c.discovery)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && (lists == nil || !errors.As(err, &partial)) {
		return nil, nil, err
	}
	// An aggregated API that is down may have objects there.
	if partial != nil {
		for gv := range partial.Groups {
			others = append(others, Object{Kind: "objects of " + gv.String() + ", which does not answer,", Namespace: c.namespace})
		}
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") || isTransientKind(r.Kind) || p.removesObject("CustomResourceDefinition", r.Name+"."+gv.Group) {
				continue
			}
			page, err := c.objects.Resource(gv.WithResource(r.Name)).Namespace(c.namespace).List(ctx, metav1.ListOptions{Limit: 500})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if isAnswer(err) { // it may have objects there, and the other kinds can be listed
				others = append(others, Object{Kind: "objects of " + gv.WithResource(r.Name).GroupResource().String() + ", which cannot be listed,", Namespace: c.namespace})
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("cannot list %s in %s: %w", r.Name, c.namespace, err)
			}
			for i := range page.Items {
				o := &page.Items[i]
				switch it := objectOf(o, r.Kind, gv.WithResource(r.Name)); {
				case needsNoStep(r.Kind, o):
				case madeByPrograms(r.Kind, o):
					own = append(own, it)
				default:
					others = append(others, it)
				}
			}
		}
	}
	sortObjects(own)
	sortObjects(others)
	return own, others, nil
}

// isAnswer reports whether an error is an answer of the API server: it works, but not for this kind or this user.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// isTransientKind tells of kinds whose objects Kubernetes makes and removes by itself.
func isTransientKind(kind string) bool {
	return slices.Contains([]string{"Event", "EndpointSlice", "Endpoints", "PodMetrics"}, kind)
}

// hasController tells of objects that a controller of Kubernetes has made for another one, which is counted itself.
func hasController(kind string, o *metav1.PartialObjectMetadata) bool {
	return slices.Contains([]string{"ReplicaSet", "Pod", "ControllerRevision"}, kind) && metav1.GetControllerOf(o) != nil
}

// needsNoStep reports whether an object needs no step of its own: Kubernetes makes or removes it, or an earlier step does.
func needsNoStep(kind string, o *metav1.PartialObjectMetadata) bool {
	return inEveryNamespace(kind, o.Name) || hasController(kind, o) || o.Labels["app.kubernetes.io/part-of"] == "sluice" || o.DeletionTimestamp != nil
}

// inEveryNamespace reports whether Kubernetes puts the object into each namespace.
func inEveryNamespace(kind, name string) bool {
	return kind == "ServiceAccount" && name == "default" || kind == "ConfigMap" && name == "kube-root-ca.crt"
}

// madeByPrograms reports whether Sluice's programs make the object: certificates, Leases, and the schemas of resolvers.
func madeByPrograms(kind string, o *metav1.PartialObjectMetadata) bool {
	switch kind {
	case "Secret":
		return strings.HasPrefix(o.Name, "sluice-") && strings.HasSuffix(o.Name, "-tls")
	case "Lease":
		return o.Labels["sluice.dev/member"] == "true"
	case "ConfigMap":
		return strings.HasPrefix(o.Name, "resolver-schema-")
	}
	return false
}
