package ui

// How do the pages know the cluster without asking it for each click? A follower lists a kind once and watches it
// from then on, in the background, from the first page that needs it until the server ends. It keeps a summary of
// each object. A user who may not list all namespaces sees one, and the page says so.

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/resolve"
	"sluice.dev/internal/controller/guard"
)

// world is what the pages know of the cluster.
type world struct {
	ctx    context.Context // of the server; it ends what watches
	client dynamic.Interface
	name   string // of the cluster
	lacks  error  // why there is no cluster

	requests   *follower[resolve.Summary]
	deliveries *follower[*v1alpha1.Delivery]
	refusals   *follower[guardEvent]
	components *follower[struct{}]
	gates      *follower[struct{}]
	reports    *follower[struct{}]
}

// guardEvent is an event of the guard about a CRD. First and Last are when the same event was seen, Count how
// often.
type guardEvent struct {
	CRD, Reason, Message string
	First, Last          time.Time
	Count                int32
}

// newWorld prepares what the pages follow. It does not contact the cluster. Without a usable kubeconfig, lacks
// says why, and pages that need no cluster still work.
func newWorld(o Options) *world {
	w := &world{}
	namespace := metav1.NamespaceDefault
	config, ns, err := o.Flags.Connect()
	if err == nil {
		w.name, namespace = config.Host, ns
		config.QPS, config.Burst = -1, -1 // the API server itself limits the requests of a user
		w.client, err = dynamic.NewForConfig(config)
	}
	w.lacks = err
	resolution, own := v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion
	w.requests = follow(w, resolution.WithResource("resolutionrequests"), namespace, metav1.ListOptions{}, func(r *v1beta1.ResolutionRequest) (resolve.Summary, bool) {
		return resolve.Summarize(r), true
	})
	w.deliveries = follow(w, own.WithResource("deliveries"), namespace, metav1.ListOptions{}, func(d *v1alpha1.Delivery) (*v1alpha1.Delivery, bool) {
		d.ManagedFields = nil
		return d, true
	})
	// Events about objects without a namespace are in the namespace default.
	w.refusals = follow(w, corev1.SchemeGroupVersion.WithResource("events"), metav1.NamespaceDefault,
		metav1.ListOptions{FieldSelector: "involvedObject.kind=CustomResourceDefinition"}, func(e *corev1.Event) (guardEvent, bool) {
			g := guardEvent{e.InvolvedObject.Name, e.Reason, e.Message, e.FirstTimestamp.Time, e.LastTimestamp.Time, max(e.Count, 1)}
			return g, e.Reason == guard.EventRefused || e.Reason == guard.EventBypassed
		})
	w.refusals.only = metav1.NamespaceDefault
	nothing := func(*metav1.PartialObjectMetadata) (struct{}, bool) { return struct{}{}, true }
	w.components = follow(w, own.WithResource("components"), "", metav1.ListOptions{}, nothing)
	w.gates = follow(w, own.WithResource("features"), "", metav1.ListOptions{}, nothing)
	w.reports = follow(w, own.WithResource("featurereports"), namespace, metav1.ListOptions{}, nothing)
	return w
}

// host names the cluster; empty without one.
func (w *world) host() string {
	if w.lacks != nil {
		return ""
	}
	return w.name
}

// topicVersion is a number for what a page follows. It is another one when that has changed, and each staleTime,
// for not all of it is watched. The script of a page asks for it each second, and draws the page anew if it
// has changed.
func (w *world) topicVersion(topic string, now time.Time) int64 {
	n := now.Unix() / int64(staleTime.Seconds())
	switch topic {
	case "requests":
		n += w.requests.version()
	case "upgrades":
		n += w.deliveries.version() + w.refusals.version()
	case "features":
		n += w.components.version() + w.gates.version() + w.reports.version()
	}
	return n
}

// follower keeps a summary of each object of a resource. It begins when a page asks first, and lists the resource in pages, so that whole objects,
// which may have a megabyte, do not pile up.
type follower[T any] struct {
	world     *world
	resource  schema.GroupVersionResource
	namespace string // where to list if all namespaces may not be listed
	only      string // lists this namespace only; empty for all
	options   metav1.ListOptions
	read      func(*unstructured.Unstructured) (T, bool, error)
	start     sync.Once
	known     chan struct{} // closed by tellKnown when the first list is complete, or has failed
	tellKnown func()

	mu       sync.Mutex
	changes  int64
	items    map[string]T
	scope    string // the namespace that is listed; empty for all
	complete bool
	err      error
}

// Pages of a list have so many objects at first, and more if these are small.
const (
	firstPage = 100
	largePage = 500
	smallData = 4 << 10 // bytes of the content of an object
)

// retryTime is how long a follower waits after an error.
const retryTime = 3 * time.Second

// follow returns a follower of a resource. summarize makes an item of an object, and reports false for objects
// that are left out. namespace is listed if all may not be.
func follow[T, O any](w *world, resource schema.GroupVersionResource, namespace string, o metav1.ListOptions, summarize func(*O) (T, bool)) *follower[T] {
	known := make(chan struct{})
	tellKnown := sync.OnceFunc(func() { close(known) })
	return &follower[T]{world: w, resource: resource, namespace: namespace, options: o, items: map[string]T{}, known: known, tellKnown: tellKnown, read: func(u *unstructured.Unstructured) (T, bool, error) {
		var object O
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object); err != nil {
			var none T
			return none, false, err
		}
		t, ok := summarize(&object)
		return t, ok, nil
	}}
}

// version is another number after each change.
func (f *follower[T]) version() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// snapshot is what a follower knows.
type snapshot[T any] struct {
	Items []T
	// Scope is the namespace that was listed because others are forbidden; empty if all were.
	Scope string
	// Complete is false while the first list goes on.
	Complete bool
	Err      error
}

// statusText says for people why there are no items, or why they may be old or not all; it is empty if they are those of the cluster.
func (s *snapshot[T]) statusText(roles string) string {
	switch {
	case s.Err != nil && len(s.Items) > 0:
		return explain(s.Err, roles) + " (what is shown was read before)"
	case s.Err == nil && !s.Complete:
		return fmt.Sprintf("Reading, %s so far …", brief.Number(len(s.Items)))
	}
	return explain(s.Err, roles)
}

// all returns what is known, in no order. The first call waits a moment for the list. It never fails: what went
// wrong is in the snapshot.
func (f *follower[T]) all(ctx context.Context) snapshot[T] {
	if f.world.lacks != nil {
		return snapshot[T]{Err: f.world.lacks}
	}
	first := false
	f.start.Do(func() {
		first = true
		f.scope = f.only
		go f.run(f.world.ctx) // it outlives the request
	})
	if first { // a short list is there by then, and the page need not be drawn twice
		select {
		case <-f.known:
		case <-ctx.Done():
		case <-time.After(700 * time.Millisecond):
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := snapshot[T]{Items: make([]T, 0, len(f.items)), Complete: f.complete, Err: f.err}
	if f.scope != f.only {
		s.Scope = f.scope
	}
	for _, item := range f.items {
		s.Items = append(s.Items, item)
	}
	return s
}

// run lists and watches until ctx is done. After an error it begins again with a list, a few seconds later.
// Without the right to list all namespaces, it goes on with one at once.
func (f *follower[T]) run(ctx context.Context) {
	for ctx.Err() == nil {
		version, err := f.list(ctx)
		if apierrors.IsForbidden(err) && f.scope == "" && f.namespace != "" {
			f.mu.Lock()
			f.scope = f.namespace
			f.mu.Unlock()
			continue
		}
		if err == nil {
			err = f.watch(ctx, version)
		}
		if err != nil {
			f.fail(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryTime):
		}
	}
}

// fail notes why the list is not current. The same error again is no change, or open pages would be drawn again
// every few seconds.
func (f *follower[T]) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || f.err.Error() != err.Error() {
		f.err = err
		f.changes++
	}
	f.tellKnown()
}

// resourceClient reads the resource in the namespace that is listed, or in all.
func (f *follower[T]) resourceClient() dynamic.ResourceInterface {
	if f.scope == "" {
		return f.world.client.Resource(f.resource)
	}
	return f.world.client.Resource(f.resource).Namespace(f.scope)
}

// list reads all objects. The first list shows each page as it comes; a later one replaces what is known when it
// is complete. Items are summaries, so a page of whole objects is garbage before the next one is read.
func (f *follower[T]) list(ctx context.Context) (version string, err error) {
	items := map[string]T{}
	o := f.options
	o.Limit = firstPage
	for {
		page, err := f.resourceClient().List(ctx, o)
		if err != nil {
			return "", err
		}
		data := 0
		for i := range page.Items {
			u := &page.Items[i]
			content, _, _ := unstructured.NestedString(u.Object, "status", "data")
			data += len(content)
			if item, ok, err := f.read(u); err == nil && ok {
				items[keyOf(u)] = item
			}
		}
		// Small objects come in larger pages, so that many of them take fewer requests.
		if data < smallData*len(page.Items) {
			o.Limit = largePage
		}
		done := page.GetContinue() == ""
		f.mu.Lock()
		if done || !f.complete {
			maps.Copy(f.items, items)
			f.changes++
		}
		if done {
			f.items, f.complete, f.err = items, true, nil
			f.tellKnown()
		}
		f.mu.Unlock()
		if done {
			return page.GetResourceVersion(), nil
		}
		o.Continue = page.GetContinue()
	}
}

func keyOf(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }

// watch follows changes until the server ends the watch; then the caller lists again. An error means that the
// watch is refused or broken; a version that is too old is none.
func (f *follower[T]) watch(ctx context.Context, version string) error {
	for {
		o := f.options
		o.ResourceVersion, o.AllowWatchBookmarks = version, true
		w, err := f.resourceClient().Watch(ctx, o)
		if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			return nil
		}
		if err != nil {
			return err
		}
		version, err = f.readChanges(w, version)
		w.Stop()
		if err != nil {
			if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
				return nil
			}
			return err
		}
		select { // a server may end each watch at once
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// readChanges applies the changes of a watch until it ends, and returns the resource version of the last one.
// Objects that are left out, or cannot be read, count as deleted.
func (f *follower[T]) readChanges(w watch.Interface, version string) (string, error) {
	for e := range w.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			return version, apierrors.FromObject(e.Object)
		}
		version = u.GetResourceVersion()
		if e.Type == watch.Bookmark {
			continue
		}
		item, keep, err := f.read(u)
		f.mu.Lock()
		if e.Type == watch.Deleted || !keep || err != nil {
			delete(f.items, keyOf(u))
		} else {
			f.items[keyOf(u)] = item
		}
		f.changes++
		f.err = nil
		f.mu.Unlock()
	}
	return version, nil
}

// explain says for people why a list is not there, and what to do.
func explain(err error, roles string) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("The cluster does not know this kind. Install it: sluice manifests --roles=%s", roles)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("You may not list and watch this: %v", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("The cluster does not accept your credentials: %v", err)
	}
	return err.Error()
}
