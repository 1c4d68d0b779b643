package process

// Which namespaces have opted in? A watch of their labels knows, and tells the gates of changes. Only the
// labels of the component are kept: a cluster may have thousands of namespaces, and each process of the
// component watches them.

import (
	"context"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/feature"
)

// namespaces knows which namespaces have opted in to features of the component.
type namespaces struct {
	process  *Process
	prefix   string // of the labels
	informer cache.SharedIndexInformer
	refused  sync.Once
}

var namespaceResource = corev1.SchemeGroupVersion.WithResource("namespaces")

// optInByNamespace makes the gates ask which namespaces have opted in, if the component allows that.
func (p *Process) optInByNamespace() {
	m := p.gates.Model()
	if o := m.Spec().OptIn; o == nil || !o.NamespaceLabel {
		return
	}
	n := &namespaces{process: p, prefix: feature.OptInLabel(m.Component(), "")}
	n.informer = metadatainformer.NewFilteredMetadataInformer(p.metadata, namespaceResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	p.namespaces = n
	p.gates.SetNamespaces(n.labelsOf)
}

// labelsOf are those of a namespace that opt in. Before namespaces are watched, or if they cannot be, it asks the API server.
func (n *namespaces) labelsOf(ctx context.Context, namespace string) (map[string]string, error) {
	if n.informer.HasSynced() {
		o, ok, err := n.informer.GetStore().GetByKey(namespace)
		m, isMeta := o.(*metav1.PartialObjectMetadata)
		if err != nil || !ok || !isMeta {
			return nil, err
		}
		return m.Labels, nil
	}
	m, err := n.process.metadata.Resource(namespaceResource).Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m.Labels, nil
}

// watchNamespaces tells the gates which namespaces opt in and out, until ctx ends.
func (n *namespaces) watchNamespaces(ctx context.Context) {
	log := n.process.options.Logger
	// Annotations and managed fields are most of a namespace, and nobody asks for them here.
	err := n.informer.SetTransform(func(o any) (any, error) {
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			m.ManagedFields, m.Annotations = nil, nil
			maps.DeleteFunc(m.Labels, func(label, _ string) bool { return !strings.HasPrefix(label, n.prefix) })
		}
		return o, nil
	})
	if err == nil {
		err = n.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				n.refused.Do(func() {
					log.Error(err, "namespaces may not be watched: the API server is asked each time whether one has opted in to features, and changes of it are not told")
				})
			}
		})
	}
	if err == nil {
		tell := func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if m, ok := o.(*metav1.PartialObjectMetadata); ok && len(m.Labels) > 0 {
				n.process.gates.NamespaceChanged(m.Name)
			}
		}
		_, err = n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(a, b any) {
			x, okX := a.(*metav1.PartialObjectMetadata)
			y, okY := b.(*metav1.PartialObjectMetadata)
			if okX && okY && !maps.Equal(x.Labels, y.Labels) {
				n.process.gates.NamespaceChanged(y.Name)
			}
		}})
	}
	if err != nil {
		log.Error(err, "namespaces are not watched")
		return
	}
	n.informer.RunWithContext(ctx)
}
