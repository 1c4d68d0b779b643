package features

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// The settings of each component are in a ConfigMap that its Component names, in any namespace. The role may read only these, so each
// is watched by its name, as long as a component names it.

// configMap is the known state of a ConfigMap.
type configMap struct {
	// known reports whether it has been read, or is known to be missing.
	known bool
	// exists, data and version are those of the ConfigMap; data as [feature.SettingsOf] has it.
	exists  bool
	data    map[string]string
	version string
	// immutable is set if only a deletion can change the settings, and held names the finalizers that a deletion waits for.
	immutable bool
	held      []string
	// err says why it cannot be read; the other fields keep the last read state.
	err error
}

// configMaps watches single ConfigMaps, so that no right to list others is needed.
type configMaps struct {
	kube kubernetes.Interface
	// changed is called, with no lock held, when the known state of a ConfigMap may have changed.
	changed func(v1alpha1.ConfigMapReference)

	mu      sync.Mutex
	watches map[v1alpha1.ConfigMapReference]*configMapWatch
	wg      sync.WaitGroup
}

type configMapWatch struct {
	users map[string]bool
	stop  context.CancelFunc
	state configMap
}

// watchedState returns the known state of a ConfigMap, and watches it for that user until [configMaps.keepOnly] ends that.
//
// The first call for a ConfigMap starts the watch and returns a state that is not known; changed is called when it is.
func (c *configMaps) watchedState(ctx context.Context, user string, ref v1alpha1.ConfigMapReference) configMap {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[ref]
	if w == nil {
		watching, stop := context.WithCancel(ctx)
		w = &configMapWatch{users: map[string]bool{}, stop: stop}
		if c.watches == nil {
			c.watches = map[v1alpha1.ConfigMapReference]*configMapWatch{}
		}
		c.watches[ref] = w
		c.wg.Go(func() { c.watchConfigMap(watching, ref, w) })
	}
	w.users[user] = true
	return w.state
}

// keepOnly ends the watches of a user except that of ref; nil ends all.
func (c *configMaps) keepOnly(user string, ref *v1alpha1.ConfigMapReference) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, w := range c.watches {
		if ref != nil && other == *ref || !w.users[user] {
			continue
		}
		delete(w.users, user)
		if len(w.users) == 0 {
			w.stop()
			delete(c.watches, other)
		}
	}
}

// usersOf lists the users of the watch on a ConfigMap.
func (c *configMaps) usersOf(ref v1alpha1.ConfigMapReference) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.watches[ref]; w != nil {
		for user := range w.users {
			out = append(out, user)
		}
	}
	return out
}

// waitForWatches waits until all watches have ended.
func (c *configMaps) waitForWatches() { c.wg.Wait() }

// watchConfigMap watches one ConfigMap until ctx ends and keeps w.state current. It notes an error only if the right to read is
// missing: after other errors the informer tries again, and the state that was read last holds.
func (c *configMaps) watchConfigMap(ctx context.Context, ref v1alpha1.ConfigMapReference, w *configMapWatch) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithNamespace(ref.Namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	change := func(to func(now configMap) configMap) {
		c.mu.Lock()
		w.state = to(w.state)
		c.mu.Unlock()
		c.changed(ref)
	}
	note := func(s configMap) { change(func(configMap) configMap { return s }) }
	put := func(o any) {
		if cm, ok := o.(*corev1.ConfigMap); ok {
			s := configMap{known: true, exists: true, data: maps.Clone(feature.SettingsOf(cm.Data, cm.BinaryData)), version: cm.ResourceVersion}
			if s.immutable = cm.Immutable != nil && *cm.Immutable; cm.DeletionTimestamp != nil {
				s.held = slices.Clone(cm.Finalizers)
			}
			note(s)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, o any) { put(o) },
		DeleteFunc: func(any) { note(configMap{known: true}) },
	})
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
				return // it will come back
			}
			change(func(now configMap) configMap {
				now.err = err
				return now
			})
		})
	}
	if err != nil {
		note(configMap{err: err})
		return
	}
	c.wg.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) || len(informer.GetStore().ListKeys()) > 0 {
			return
		}
		change(func(now configMap) configMap {
			if !now.known { // otherwise it was created in the meantime
				return configMap{known: true}
			}
			return now
		})
	})
	informer.RunWithContext(ctx)
}
