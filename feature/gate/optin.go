package gate

// Which namespaces and users have opted in to a feature that is off? The admission policies let a namespace with a
// label, or a user with a right, use it. The program has to treat their objects as if the feature were on. For example, it
// reconciles a field that only some namespaces may set.

import (
	"context"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/component-base/featuregate"

	"sluice.dev/feature"
)

// Namespaces returns the labels of a namespace; none if there is no such namespace.
type Namespaces func(ctx context.Context, namespace string) (labels map[string]string, err error)

// optIn is how gates find out who has opted in.
type optIn struct {
	mu       sync.Mutex
	labels   Namespaces
	notified observers[string]
	failing  bool // the last question was not answered, which was logged
}

// Access says for whom a feature is on. One that was not declared is disabled.
func (g *Gates) Access(name featuregate.Feature) feature.Access {
	return g.state.Load().watched.Access(string(name))
}

// EnabledIn reports whether a feature is on in a namespace: for everybody, or because the namespace has opted in by its label. A
// namespace whose labels cannot be read has not opted in; that is logged.
func (g *Gates) EnabledIn(ctx context.Context, name featuregate.Feature, namespace string) bool {
	return g.enabledFor(ctx, name, namespace, nil)
}

// EnabledFor reports whether a feature is on for an object. It is on if it is on for all users, if the object's namespace has opted in,
// or, with opt-in by RBAC, if the object uses a part of the feature. The API server has admitted stored uses, and their users are not
// known later. So they count as opting in, even if they were stored while the feature was on for all users. The object is nil, or one
// of a resource that the feature gates, typed or unstructured.
func (g *Gates) EnabledFor(ctx context.Context, name featuregate.Feature, object metav1.Object) bool {
	if object == nil {
		return g.Enabled(name)
	}
	return g.enabledFor(ctx, name, object.GetNamespace(), object)
}

// enabledFor asks for the labels of the namespace, and for the content of the object, only if the answer
// depends on them. The object is nil if only the namespace is asked about.
func (g *Gates) enabledFor(ctx context.Context, name featuregate.Feature, namespace string, object metav1.Object) bool {
	if g.Enabled(name) {
		return true
	}
	st := g.state.Load()
	f, o := st.model.Feature(string(name)), st.model.Spec().OptIn
	if f == nil || o == nil {
		return false
	}
	var labels func() map[string]string
	if o.NamespaceLabel && namespace != "" {
		labels = sync.OnceValue(func() map[string]string { return g.namespaceLabels(ctx, namespace) })
	}
	var content func() map[string]any
	if o.RBAC && object != nil {
		content = sync.OnceValue(func() map[string]any { return g.objectContent(object) })
	}
	return st.watched.OpenFor(string(name), func(gate string) bool {
		if labels != nil && feature.OptedIn(labels(), st.model.Component(), gate) {
			return true
		}
		// A user who was allowed to use the feature was allowed to use the required ones.
		return content != nil && f.UsedBy(content())
	})
}

// namespaceLabels asks for those of a namespace.
func (g *Gates) namespaceLabels(ctx context.Context, namespace string) map[string]string {
	g.optIn.mu.Lock()
	ask := g.optIn.labels
	g.optIn.mu.Unlock()
	if ask == nil {
		return nil
	}
	labels, err := ask(ctx, namespace)
	g.optIn.mu.Lock()
	told := g.optIn.failing
	g.optIn.failing = err != nil
	g.optIn.mu.Unlock()
	if err != nil && !told {
		g.log.Error(err, "the labels of a namespace cannot be read; it counts as one that has not opted in", "component", g.declaration.Name, "namespace", namespace)
	}
	return labels
}

// objectContent is an object as decoded JSON.
func (g *Gates) objectContent(object metav1.Object) map[string]any {
	if u, ok := object.(runtime.Unstructured); ok {
		return u.UnstructuredContent()
	}
	var out map[string]any
	data, err := json.Marshal(object)
	if err == nil {
		err = utiljson.Unmarshal(data, &out)
	}
	if err != nil {
		g.log.Error(err, "an object cannot be read; it counts as one that uses no feature", "component", g.declaration.Name, "namespace", object.GetNamespace(), "name", object.GetName())
	}
	return out
}

// SetNamespaces sets the function that returns the labels of namespaces; with nil, the default, no namespace has opted in. Package
// feature/process sets it if the component lets namespaces opt in.
func (g *Gates) SetNamespaces(labels Namespaces) {
	g.optIn.mu.Lock()
	defer g.optIn.mu.Unlock()
	g.optIn.labels = labels
}

// OnNamespaceChange calls do with the name of a namespace that has opted in or out, until stop is called.
func (g *Gates) OnNamespaceChange(do func(namespace string)) (stop func()) {
	return g.optIn.notified.addObserver(do)
}

// NamespaceChanged calls the observers of OnNamespaceChange: a namespace has opted in or out.
func (g *Gates) NamespaceChanged(namespace string) { g.optIn.notified.notifyAll(namespace) }
