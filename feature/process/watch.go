package process

// How does a process hear of changes? It watches the ConfigMap with its settings, and the reports of other
// processes if a feature needs them. If it may not read any more, the last state stays, and its report says
// so.

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/gate"
)

// watchSettings follows the ConfigMap until ctx ends.
func (p *Process) watchSettings(ctx context.Context, ref *v1alpha1.ConfigMapReference) {
	client, selector := p.kube.CoreV1().ConfigMaps(ref.Namespace), fields.OneTermEqualSelector("metadata.name", ref.Name).String()
	// heard records whether the settings can be read: without the right, there are no events about changes.
	heard := func(err error) {
		switch {
		case err == nil:
			p.setUnreadable(nil)
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			p.setUnreadable(fmt.Errorf("ConfigMap %s/%s cannot be watched: %w", ref.Namespace, ref.Name, err))
		}
	}
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			out, err := client.List(ctx, o)
			if err != nil {
				heard(err) // the rights may allow list and not watch
			}
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			out, err := client.Watch(ctx, o)
			heard(err)
			return out, err
		},
	}
	informer := cache.NewSharedInformer(list, &corev1.ConfigMap{}, 0)
	gone := func() {
		p.gates.Set(gate.ConfigMap, nil, "")
		p.requestReport()
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		// It may have been deleted between Begin and now.
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && len(informer.GetStore().ListKeys()) == 0 {
			gone()
		}
	})
	p.followInformer(ctx, informer, "the ConfigMap with the settings of features cannot be watched; the last ones stay", cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if cm, ok := o.(*corev1.ConfigMap); ok {
				p.takeSettings(cm)
			}
		},
		UpdateFunc: func(_, o any) {
			if cm, ok := o.(*corev1.ConfigMap); ok {
				p.takeSettings(cm)
			}
		},
		DeleteFunc: func(any) { gone() },
	})
}

// setUnreadable records why the settings cannot be read; nil if they can.
func (p *Process) setUnreadable(err error) {
	p.mu.Lock()
	before := p.settings
	p.settings = err
	p.mu.Unlock()
	if err == nil && before == nil {
		return
	}
	p.gates.Fail(gate.ConfigMap, err)
	p.requestReport()
}

// watchReports follows what the component's processes in a namespace report until ctx ends.
func (p *Process) watchReports(ctx context.Context, namespace string) {
	informer := dynamicinformer.NewFilteredDynamicInformer(p.dynamic, reports, namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = ComponentLabel + "=" + p.gates.Model().Component()
	})
	add := func(o any) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return
		}
		var r v1alpha1.FeatureReport
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
			p.options.Logger.Error(err, "a report of features cannot be read", "name", u.GetName())
			return
		}
		p.mu.Lock()
		p.follower.Put(&r, p.options.Clock.Now())
		p.mu.Unlock()
		p.weighReports()
	}
	p.followInformer(ctx, informer.Informer(), "what other processes report cannot be watched", cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, o any) { add(o) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if u, ok := o.(*unstructured.Unstructured); ok {
				p.mu.Lock()
				p.follower.Delete(u.GetNamespace(), u.GetName())
				p.mu.Unlock()
				p.weighReports()
			}
		},
	})
}

// followInformer runs an informer until ctx ends. An error is logged once, until it is another.
func (p *Process) followInformer(ctx context.Context, informer cache.SharedInformer, problem string, h cache.ResourceEventHandler) {
	var mu sync.Mutex
	last := ""
	// Registration and handler fail only on an informer that has run.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		mu.Lock()
		defer mu.Unlock()
		if text := err.Error(); text != last && !apierrors.IsResourceExpired(err) && !errors.Is(err, context.Canceled) {
			p.options.Logger.Error(err, problem)
			last = text
		}
	})
	_, _ = informer.AddEventHandler(h)
	informer.RunWithContext(ctx)
}
