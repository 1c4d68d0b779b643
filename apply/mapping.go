package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// By which path does the server serve a kind, and does it serve the kind at all? The mapper asks for one group and version at a time,
// since a source names few of them. A kind that only a CRD of the source defines has a mapping too, which is pending until the CRD is
// served.

// ErrNoKind means that neither the cluster nor the source defines a kind.
var ErrNoKind = errors.New("the cluster does not serve this kind")

// mapping says how to reach the objects of a kind.
type mapping struct {
	resource   string
	namespaced bool
	// pending: the cluster does not serve the version yet, but a CRD of the source does. before is the version in which the cluster
	// serves the kind until then; empty if it does not.
	pending bool
	before  string
}

// objectPath is the path of an object.
func (m mapping) objectPath(o *Object) string {
	return listPath(o.Group, o.Version, m.resource, o.Namespace) + "/" + o.Name
}

// mapper asks the server for the resources of each group and version, once for each.
type mapper struct {
	client *client

	mu    sync.Mutex
	known map[schema.GroupVersion]map[string]mapping
}

func newMapper(c *client) *mapper {
	return &mapper{client: c, known: map[schema.GroupVersion]map[string]mapping{}}
}

// loadVersions asks for all of the versions, concurrently.
func (m *mapper) loadVersions(ctx context.Context, versions []schema.GroupVersion) error {
	return forEachIndex(ctx, len(versions), cap(m.client.slots), func(ctx context.Context, i int) error {
		_, err := m.kindsServedIn(ctx, versions[i])
		return err
	})
}

// forgetGroup drops what is known about a group, so that the next call asks the server.
func (m *mapper) forgetGroup(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for gv := range m.known {
		if gv.Group == group {
			delete(m.known, gv)
		}
	}
}

// kindsServedIn returns the kinds of a group and version; none if the server does not know it.
func (m *mapper) kindsServedIn(ctx context.Context, gv schema.GroupVersion) (map[string]mapping, error) {
	m.mu.Lock()
	found, ok := m.known[gv]
	m.mu.Unlock()
	if ok {
		return found, nil
	}
	path := strings.TrimSuffix(listPath(gv.Group, gv.Version, "", ""), "/")
	var list metav1.APIResourceList // empty if the server does not know the version
	if err := m.client.getJSON(ctx, path, nil, &list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("what the cluster serves in %s: %w", gv, err)
	}
	found = map[string]mapping{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "get") {
			found[r.Kind] = mapping{resource: r.Name, namespaced: r.Namespaced}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[gv] = found
	return found, nil
}

// findMapping returns the mapping of a kind. defined are the kinds that CRDs of the source define. The error wraps [ErrNoKind] if
// neither the cluster nor the source has the kind.
func (m *mapper) findMapping(ctx context.Context, gvk schema.GroupVersionKind, defined map[schema.GroupVersionKind]mapping) (mapping, error) {
	found, err := m.kindsServedIn(ctx, gvk.GroupVersion())
	if err != nil {
		return mapping{}, err
	}
	if r, ok := found[gvk.Kind]; ok {
		return r, nil
	}
	if r, ok := defined[gvk]; ok {
		return r, nil
	}
	return mapping{}, fmt.Errorf("%w: %s of %s", ErrNoKind, gvk.Kind, gvk.GroupVersion())
}

// servedBefore returns a version in which the server serves the kind of a pending mapping; empty if there is none. groups caches
// the versions of groups.
func (m *mapper) servedBefore(ctx context.Context, gvk schema.GroupVersionKind, pending mapping, groups map[string][]string) (string, error) {
	versions, asked := groups[gvk.Group]
	if !asked {
		var err error
		if versions, err = m.versionsServed(ctx, gvk.Group); err != nil {
			return "", err
		}
		groups[gvk.Group] = versions
	}
	for _, v := range versions {
		found, err := m.kindsServedIn(ctx, schema.GroupVersion{Group: gvk.Group, Version: v})
		if err != nil {
			return "", err
		}
		if r, ok := found[gvk.Kind]; ok && r.resource == pending.resource && r.namespaced == pending.namespaced {
			return v, nil
		}
	}
	return "", nil
}

// definedBy returns the kinds that the CRDs among the objects define, and the CRDs by their names.
func definedBy(objects []Object) (map[schema.GroupVersionKind]mapping, map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	kinds := map[schema.GroupVersionKind]mapping{}
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for o := range eachOf(objects) {
		if !o.isCRD() {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(o.json, crd); err != nil {
			return nil, nil, &Error{File: o.File, Line: o.Line, ID: o.ID, Err: err}
		}
		crds[o.Name] = crd
		for _, v := range crd.Spec.Versions {
			if v.Served {
				gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
				kinds[gvk] = mapping{resource: crd.Spec.Names.Plural, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, pending: true}
			}
		}
	}
	return kinds, crds, nil
}

// forEachIndex calls f for 0..n-1, on up to the given number of goroutines, until one fails or ctx ends. It returns the error of the
// lowest number that failed.
func forEachIndex(ctx context.Context, n, at int, f func(ctx context.Context, i int) error) error {
	errs := make([]error, n)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(max(at, 1))
	for i := range n {
		group.Go(func() error {
			if inner.Err() != nil {
				return context.Cause(inner)
			}
			err := callWithRecover(inner, i, f)
			if cause := context.Cause(inner); cause != nil && ctx.Err() == nil && errors.Is(err, cause) {
				err = context.Canceled // that of another number, which has ended this one
			}
			errs[i] = err
			return err
		})
	}
	first := group.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return first
}

// callWithRecover calls f and turns a panic into an error: one object must not end a process that delivers many apps.
func callWithRecover(ctx context.Context, i int, f func(ctx context.Context, i int) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a mistake in sluice: %v\n%s", r, debug.Stack())
		}
	}()
	return f(ctx, i)
}

// versionsServed returns the versions of a group that the server serves, the preferred one first. It returns none for the core group,
// which has only one.
func (m *mapper) versionsServed(ctx context.Context, group string) ([]string, error) {
	if group == "" {
		return nil, nil
	}
	var list metav1.APIGroup
	err := m.client.getJSON(ctx, "/apis/"+group, nil, &list)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("versions of %s: %w", group, err)
	}
	out := []string{list.PreferredVersion.Version}
	for _, v := range list.Versions {
		if v.Version != list.PreferredVersion.Version {
			out = append(out, v.Version)
		}
	}
	return out, nil
}
