package features

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/skew"
)

// This file watches what both roles need. A change reaches its caller as the name of a component. So nothing else has to know which
// kinds of objects matter for a plan.

// Roles of sluice serve.
const (
	// Role runs the controller.
	Role = "features"
	// WebhookRole answers the API server.
	WebhookRole = "feature-webhook"
)

// Cluster is how a role reaches the cluster. All fields are required.
type Cluster struct {
	Config *rest.Config
	Kube   kubernetes.Interface
	CRDs   apiextensions.Interface
	// Namespace is Sluice's own.
	Namespace string
	Log       *slog.Logger
	Clock     clock.WithTicker
}

// Indices of features.
const (
	byComponent = "component"
	byResource  = "resource"
)

// world is the view of a cluster that both roles have: components, their features, the CRDs of gated resources, and settings.
type world struct {
	Cluster

	api                        *client
	components, features, crds cache.SharedIndexInformer
	reports                    cache.SharedIndexInformer
	settings                   *configMaps

	reported sync.Mutex
	follower skew.Follower // of reports
	builtIns *builtIns
	// changed is called with the name of a component about which something has changed.
	changed func(component string)
}

// openWorld makes a world; nothing runs before startInformers.
func (c Cluster) openWorld(changed func(component string)) (*world, error) {
	w := &world{Cluster: c, changed: changed, builtIns: &builtIns{discovery: c.Kube.Discovery(), clock: c.Clock}}
	w.settings = &configMaps{kube: c.Kube, changed: func(ref v1alpha1.ConfigMapReference) {
		for _, user := range w.settings.usersOf(ref) {
			changed(user)
		}
	}}
	var err error
	if w.api, err = newClient(c.Config); err != nil {
		return nil, err
	}
	w.components = w.api.newInformer(componentsResource, &v1alpha1.Component{}, nil)
	w.features = w.api.newInformer(featuresResource, &v1alpha1.Feature{}, cache.Indexers{byComponent: indexComponent, byResource: indexResource})
	w.reports = w.api.newInformer(reportsResource, &v1alpha1.FeatureReport{}, nil)
	objects, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	w.crds = metadatainformer.NewFilteredMetadataInformer(objects, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
		metav1.NamespaceAll, 0, nil, nil).Informer()
	if err := w.crds.SetTransform(slimMetadata); err != nil {
		return nil, err
	}
	return w, errors.Join(w.addHandlers(), w.listenToReports())
}

// slimMetadata drops unused parts from the cache: only the names and generations of CRDs are left, of which there may be ten thousand.
func slimMetadata(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.Annotations, m.Labels = nil, nil, nil
	}
	return o, nil
}

func indexComponent(o any) ([]string, error) {
	if f, ok := o.(*v1alpha1.Feature); ok {
		return []string{f.Spec.Component}, nil
	}
	return nil, nil
}

// indexResource gives the resources that a feature gates, in the form of crdName, so that a change of a CRD finds the features to
// look at.
func indexResource(o any) (out []string, _ error) {
	f, ok := o.(*v1alpha1.Feature)
	if !ok {
		return nil, nil
	}
	for i := range f.Spec.Parts {
		if name := crdName(f.Spec.Parts[i].Group, f.Spec.Parts[i].Resource); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// crdName is the name of the CRD of a resource.
func crdName(group, resource string) string { return resource + "." + group }

// addHandlers calls changed for changes.
func (w *world) addHandlers() error {
	component := func(o any) {
		if c, ok := lastObject(o).(*v1alpha1.Component); ok {
			w.changed(c.Name)
		}
	}
	of := func(o any) {
		if f, ok := lastObject(o).(*v1alpha1.Feature); ok {
			w.changed(f.Spec.Component)
		}
	}
	crd := func(o any) {
		m, ok := lastObject(o).(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		list, err := w.features.GetIndexer().ByIndex(byResource, m.Name)
		if err != nil {
			return // there is no such index, which a test would have told
		}
		for _, f := range list {
			of(f)
		}
	}
	for _, h := range []struct {
		informer cache.SharedIndexInformer
		tell     func(any)
		same     func(a, b any) bool
	}{
		{w.components, component, sameGeneration},
		{w.features, of, func(a, b any) bool {
			x, okX := a.(*v1alpha1.Feature)
			y, okY := b.(*v1alpha1.Feature)
			return okX && okY && sameGeneration(a, b) && equality.Semantic.DeepEqual(x.Status.InUse, y.Status.InUse)
		}},
		{w.crds, crd, sameGeneration},
	} {
		_, err := h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: h.tell, DeleteFunc: h.tell,
			UpdateFunc: func(a, b any) {
				// A write of a status, for example by this process, needs no check. The exception is a recorded count, because the
				// component's status has the number of features in use.
				if !h.same(a, b) {
					h.tell(b)
				}
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sameGeneration reports whether an update left the spec of an object as it was.
func sameGeneration(a, b any) bool {
	x, y := asObject(a), asObject(b)
	return x != nil && y != nil && x.GetUID() == y.GetUID() && x.GetGeneration() == y.GetGeneration()
}

// lastObject is the object of an event.
func lastObject(o any) any {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return o
}

// startInformers watches until ctx is done; it reports whether it has seen all existing objects before that.
func (w *world) startInformers(ctx context.Context, wg *sync.WaitGroup) bool {
	for _, i := range []cache.SharedIndexInformer{w.components, w.features, w.crds, w.reports} {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	wg.Go(func() { w.keepContact(ctx) })
	return cache.WaitForCacheSync(ctx.Done(), w.components.HasSynced, w.features.HasSynced, w.crds.HasSynced, w.reports.HasSynced)
}

// componentCopy returns a copy of a component for the caller, or nil.
func (w *world) componentCopy(name string) *v1alpha1.Component {
	o, ok, err := w.components.GetStore().GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	c, ok := o.(*v1alpha1.Component)
	if !ok {
		return nil
	}
	c = c.DeepCopy()
	c.APIVersion, c.Kind = v1alpha1.SchemeGroupVersion.String(), componentKind
	return c
}

// featuresOf returns the features of a component, sorted by name, for the caller alone.
func (w *world) featuresOf(component string) []v1alpha1.Feature {
	list, err := w.features.GetIndexer().ByIndex(byComponent, component)
	if err != nil {
		return nil // there is no such index, which a test would have told
	}
	out := make([]v1alpha1.Feature, 0, len(list))
	for _, o := range list {
		if f, ok := o.(*v1alpha1.Feature); ok {
			f = f.DeepCopy()
			f.APIVersion, f.Kind = v1alpha1.SchemeGroupVersion.String(), featureKind
			out = append(out, *f)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.Feature) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// today is the day that chooses among stages, and how long it lasts.
func (w *world) today() (day time.Time, left time.Duration) {
	now := w.Clock.Now().UTC()
	day = now.Truncate(24 * time.Hour)
	return day, day.Add(24*time.Hour + time.Second).Sub(now)
}

const reportsResource = "featurereports"

func (w *world) reportsOf(component string) []v1alpha1.FeatureReport {
	w.reported.Lock()
	defer w.reported.Unlock()
	return w.follower.Of(component, w.Clock.Now())
}
