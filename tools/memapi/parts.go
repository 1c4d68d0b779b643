package memapi

// What else does a client need? Patches, field managers, selectors, watches and discovery, each as far as
// controllers use it.

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// toMap turns a value into maps and lists, with int64 for integers as the API server has them. With a
// test it reports what cannot be turned; without one it panics, because the value came from JSON.
func toMap(t testing.TB, v any) map[string]any {
	text, err := json.Marshal(v)
	var out map[string]any
	if err == nil {
		err = utiljson.Unmarshal(text, &out) // integers as int64
	}
	if err != nil {
		if t == nil {
			panic(err) //nolint:forbidigo // it came as JSON
		}
		t.Error(err)
	}
	return out
}

// cloneObject returns a deep copy; nil for nil. Objects in the store are never changed: each reader and writer has a copy.
func cloneObject(obj map[string]any) map[string]any {
	if obj == nil {
		return nil
	}
	return toMap(nil, obj)
}

// patchedObject is the object that an update or a patch asks for.
// A strategic merge patch is treated as a merge patch, so that it replaces lists.
func patchedObject(contentType string, c *Call, old map[string]any, body []byte) (map[string]any, error) {
	if c.Verb == "update" {
		return cloneObject(c.Body), nil
	}
	text, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(contentType, "application/json-patch") {
		p, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, err
		}
		if text, err = p.Apply(text); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", schema.GroupResource{Resource: c.Resource}, c.Name, err.Error(), 0, true)
		}
	} else {
		merge, err := json.Marshal(c.Body)
		if err != nil {
			return nil, err
		}
		if text, err = jsonpatch.MergePatch(text, merge); err != nil {
			return nil, err
		}
	}
	var out map[string]any
	err = utiljson.Unmarshal(text, &out)
	return out, err
}

// fieldManager is the API server's own code, with types as they appear.
type fieldManager struct{ *managedfields.FieldManager }

// newFieldManager makes the manager of a kind. The types are deduced from the objects, as for a CRD without a
// schema, so that lists have one owner.
func newFieldManager(k Kind, subresource string) fieldManager {
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	m, err := managedfields.NewDefaultCRDFieldManager(managedfields.NewDeducedTypeConverter(), asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), subresource, nil)
	if err != nil {
		panic(err) //nolint:forbidigo // it fails for no kind
	}
	return fieldManager{m}
}

// withTypeMeta is a copy of an object with its version and kind, which clients may leave out. nil becomes
// an object with nothing else.
func withTypeMeta(k Kind, obj map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: cloneObject(obj)}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion(k.apiVersion())
	u.SetKind(k.Kind)
	return u
}

// updateFields gives the manager the fields in which next differs from old.
func (m fieldManager) updateFields(k Kind, old, next map[string]any, manager string) (map[string]any, error) {
	out, err := m.Update(withTypeMeta(k, old), withTypeMeta(k, next), manager)
	return contentOf(out), err
}

// applyFields merges what a manager applies into the live object. A conflict with another manager is an
// error unless force is set. If nothing changes, the field manager returns nil, and then the live object
// is the result.
func (m fieldManager) applyFields(k Kind, live map[string]any, c *Call, force bool) (map[string]any, error) {
	u := withTypeMeta(k, c.Body)
	if k.Namespaced {
		u.SetNamespace(c.Namespace)
	}
	out, err := m.Apply(withTypeMeta(k, live), u, c.Manager, force)
	if out == nil && err == nil {
		return cloneObject(live), nil // nothing changes
	}
	return contentOf(out), err
}

func contentOf(o runtime.Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok && u != nil {
		return u.Object
	}
	return nil
}

// asIs is the conversion, defaulting and creation of objects that have one version.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return errors.New("no conversion") }

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (asIs) Default(runtime.Object) {}

func (asIs) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// partialForm returns the form of objects that a client accepts.
// Informers of metadata ask for PartialObjectMetadata. In other cases objects are converted by their
// apiVersion alone, as under the conversion strategy None.
func partialForm(accept string) func(Kind, map[string]any) map[string]any {
	if !strings.Contains(accept, "as=PartialObjectMetadata") {
		return func(k Kind, obj map[string]any) map[string]any {
			if obj["apiVersion"] == k.apiVersion() {
				return obj
			}
			out := cloneObject(obj)
			out["apiVersion"] = k.apiVersion()
			return out
		}
	}
	return func(_ Kind, obj map[string]any) map[string]any {
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": obj["metadata"]}
	}
}

// matchesSelectors reports whether a list or watch is about an object.
// A selector that cannot be parsed matches nothing. Fields are the name and the namespace alone.
func matchesSelectors(r *http.Request, c *Call, obj map[string]any) bool {
	if obj == nil {
		return false
	}
	u := &unstructured.Unstructured{Object: obj}
	if c.Namespace != "" && u.GetNamespace() != c.Namespace {
		return false
	}
	q := r.URL.Query()
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil || !byLabel.Matches(labels.Set(u.GetLabels())) {
		return false
	}
	byField, err := fields.ParseSelector(q.Get("fieldSelector"))
	return err == nil && byField.Matches(fields.Set{"metadata.name": u.GetName(), "metadata.namespace": u.GetNamespace()})
}

// watchStream returns a stream of events.
// The first events are the objects of now if the client asks for no version. After that the goroutine
// sleeps until the log grows. It ends with the context of the request, or when the client closes the
// stream.
func (s *Server) watchStream(r *http.Request, c *Call, k Kind) io.ReadCloser {
	as := partialForm(r.Header.Get("Accept"))
	in, out := io.Pipe()
	enc := json.NewEncoder(out)
	send := func(kind string, obj map[string]any) error {
		return enc.Encode(map[string]any{"type": kind, "object": obj})
	}
	q := r.URL.Query()
	var first []map[string]any
	s.mu.Lock()
	at, err := strconv.Atoi(q.Get("resourceVersion"))
	// The API server sends what is there for version 0 and for none, and for clients that ask for it
	// (KEP-3157).
	initial := err != nil || at == 0 || q.Get("sendInitialEvents") == "true"
	if initial {
		at = s.version
		for _, obj := range s.matchingObjects(r, c, k) {
			first = append(first, as(k, obj))
		}
	}
	s.mu.Unlock()
	go func() {
		defer out.Close() //nolint:errcheck // it returns none
		for _, obj := range first {
			if send("ADDED", obj) != nil {
				return
			}
		}
		if q.Get("sendInitialEvents") == "true" {
			// The bookmark ends the initial events, as clients expect that list by a watch.
			mark := as(k, map[string]any{"apiVersion": k.apiVersion(), "kind": k.Kind, "metadata": map[string]any{
				"resourceVersion": strconv.Itoa(at), "annotations": map[string]any{"k8s.io/initial-events-end": "true"},
			}})
			// It tells the client that it has all objects.
			if send("BOOKMARK", mark) != nil {
				return
			}
		}
		for {
			s.mu.Lock()
			i := slices.IndexFunc(s.log, func(e event) bool { return e.version > at })
			var news []event
			if i >= 0 {
				news = s.log[i:]
			}
			changed := s.changed
			at = s.version
			s.mu.Unlock()
			// An object that a selector no longer matches is deleted for this client, and one that it
			// matches from now on is added, as in the API server's watch cache.
			for _, e := range news {
				if e.at.GroupResource != k.groupResource() {
					continue
				}
				was, is := matchesSelectors(r, c, e.before), matchesSelectors(r, c, e.after)
				var err error
				switch {
				case is && was:
					err = send("MODIFIED", as(k, e.after))
				case is:
					err = send("ADDED", as(k, e.after))
				case was:
					gone := cloneObject(e.before)
					(&unstructured.Unstructured{Object: gone}).SetResourceVersion(strconv.Itoa(e.version))
					err = send("DELETED", as(k, gone))
				}
				if err != nil {
					return
				}
			}
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
	}()
	return in
}

// answerDiscovery answers what the server has.
// It knows the unaggregated form only, which each client falls back to.
func (s *Server) answerDiscovery(path string) (int, map[string]any, *apierrors.StatusError) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	have := s.servedKinds()
	group := func(name string) map[string]any {
		var versions []any
		for _, k := range have {
			v := map[string]any{"groupVersion": k.apiVersion(), "version": k.Version}
			if k.Group == name && !slices.ContainsFunc(versions, func(o any) bool { return o.(map[string]any)["version"] == k.Version }) { //nolint:errcheck,forcetypeassert // made above
				versions = append(versions, v)
			}
		}
		if versions == nil {
			return nil
		}
		return map[string]any{"apiVersion": "v1", "kind": "APIGroup", "name": name, "versions": versions, "preferredVersion": versions[0]}
	}
	switch {
	case path == "/version":
		return http.StatusOK, map[string]any{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}, nil
	case path == "/api":
		return http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []any{"v1"}}, nil
	case path == "/apis":
		groups := []any{}
		seen := map[string]bool{"": true}
		for _, k := range have {
			if !seen[k.Group] {
				seen[k.Group] = true
				groups = append(groups, group(k.Group))
			}
		}
		return http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}, nil
	case parts[0] == "apis" && len(parts) == 2:
		if g := group(parts[1]); g != nil {
			return http.StatusOK, g, nil
		}
	case parts[0] == "api" && len(parts) == 2, parts[0] == "apis" && len(parts) == 3:
		gv := strings.Join(parts[1:], "/")
		resources := []any{}
		for _, k := range have {
			if k.apiVersion() == gv {
				verbs := []any{"create", "delete", "get", "list", "patch", "update", "watch"}
				resources = append(resources, map[string]any{"name": k.Resource, "kind": k.Kind, "namespaced": k.Namespaced, "verbs": verbs})
				if k.Status {
					resources = append(resources, map[string]any{"name": k.Resource + "/" + status, "kind": k.Kind, "namespaced": k.Namespaced, "verbs": []any{"get", "patch", "update"}})
				}
			}
		}
		if len(resources) > 0 {
			return http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": resources}, nil
		}
	}
	return 0, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "the server could not find the requested resource", 0, true)
}
