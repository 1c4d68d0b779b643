package memapi

// How is an object written? The steps are those of the API server: the change, the preconditions, the fields
// that the server owns, the managers of fields, and the event for watches.

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// writeObject changes an object.
// It follows the order of the API server: the change is computed, preconditions are checked, fields of
// the server are set, and the field manager notes who owns what.
func (s *Server) writeObject(r *http.Request, c *Call, k Kind, body []byte) (int, map[string]any, error) {
	gr, at := k.groupResource(), place{k.groupResource(), c.Namespace, c.Name}
	old := s.objects[at]
	code := http.StatusOK
	var next map[string]any
	manager := newFieldManager(k, c.Subresource)
	switch c.Verb {
	case "create":
		if old != nil {
			return 0, nil, apierrors.NewAlreadyExists(gr, c.Name)
		}
		next, code = cloneObject(c.Body), http.StatusCreated
	case "apply":
		if old == nil {
			if c.Subresource != "" {
				return 0, nil, apierrors.NewNotFound(gr, c.Name)
			}
			code = http.StatusCreated
		}
		live := old
		if live == nil {
			live = map[string]any{}
		}
		var err error
		if next, err = manager.applyFields(k, live, c, r.URL.Query().Get("force") == "true"); err != nil {
			return 0, nil, err
		}
	default:
		if old == nil {
			return 0, nil, apierrors.NewNotFound(gr, c.Name)
		}
		if c.Verb == "delete" {
			return s.removeObject(c, at, old)
		}
		var err error
		if next, err = patchedObject(r.Header.Get("Content-Type"), c, old, body); err != nil {
			return 0, nil, err
		}
	}
	was, is := &unstructured.Unstructured{Object: old}, &unstructured.Unstructured{Object: next}
	is.SetAPIVersion(k.apiVersion())
	is.SetKind(k.Kind)
	if k.Namespaced {
		is.SetNamespace(c.Namespace)
	}
	if old != nil {
		// An empty resource version means that the client does not care, as in Kubernetes.
		if v := is.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
			return 0, nil, apierrors.NewConflict(gr, c.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		if u := is.GetUID(); u != "" && u != was.GetUID() {
			return 0, nil, apierrors.NewConflict(gr, c.Name, errors.New("the UID in the precondition differs"))
		}
	}
	s.setServerFields(k, c, old, next)
	if c.Verb != "apply" {
		var err error
		if next, err = manager.updateFields(k, old, next, c.Manager); err != nil {
			return 0, nil, err
		}
		is.Object = next
	}
	s.storeObject(c, k, at, old, is)
	return code, next, nil
}

// setServerFields sets what is the server's.
// Writes of the status keep all else, and other writes keep the status. The generation grows with each
// change outside of metadata and status.
func (s *Server) setServerFields(k Kind, c *Call, old, next map[string]any) {
	was, is := &unstructured.Unstructured{Object: old}, &unstructured.Unstructured{Object: next}
	if k.Status {
		switch {
		case c.Subresource == status:
			meta := is.GetManagedFields()
			content := cloneObject(old)
			content[status] = next[status]
			for key := range next {
				delete(next, key)
			}
			maps.Copy(next, content)
			is.SetManagedFields(meta)
		case old == nil:
			delete(next, status)
		case old[status] != nil:
			next[status] = cloneObject(old)[status]
		default:
			delete(next, status)
		}
	}
	if old == nil {
		is.SetUID(uuid.NewUUID())
		is.SetCreationTimestamp(metav1.NewTime(nowInSeconds()))
		is.SetDeletionTimestamp(nil)
		if k.Status {
			is.SetGeneration(1)
		}
	} else {
		is.SetUID(was.GetUID())
		is.SetCreationTimestamp(was.GetCreationTimestamp())
		is.SetDeletionTimestamp(was.GetDeletionTimestamp())
		is.SetResourceVersion(was.GetResourceVersion())
		if k.Status {
			is.SetGeneration(was.GetGeneration())
			if !reflect.DeepEqual(withoutMeta(old), withoutMeta(next)) {
				is.SetGeneration(was.GetGeneration() + 1)
			}
		}
	}
}

// withoutMeta is what counts for the generation: an object without metadata and status.
func withoutMeta(obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		if k != "metadata" && k != status {
			out[k] = v
		}
	}
	return toMap(nil, out) // numbers have one type then
}

// storeObject stores an object, unless nothing has changed.
// An update that changes nothing gets no new resource version, and watches see nothing of it. The last
// finalizer that goes takes a deleted object with it.
func (s *Server) storeObject(c *Call, k Kind, at place, old map[string]any, is *unstructured.Unstructured) {
	if old != nil && is.GetDeletionTimestamp() != nil && len(is.GetFinalizers()) == 0 {
		if !c.DryRun {
			s.putStored(at, nil)
		}
		return
	}
	if old != nil && reflect.DeepEqual(toMap(nil, old), toMap(nil, is.Object)) {
		return
	}
	// A dry run gets the conditions of an established CRD as well, but no kind is served because of it.
	if k.Resource == crds {
		s.establishCRD(is.Object, c.DryRun)
	}
	if c.DryRun {
		return
	}
	is.SetResourceVersion(strconv.Itoa(s.version + 1))
	s.putStored(at, cloneObject(is.Object))
}

// nowInSeconds is the time in the bubble of testing/synctest in which the tests run, to the second, as the API server has it.
// Timestamps of Kubernetes have no fractions.
func nowInSeconds() time.Time { return time.Now().UTC().Truncate(time.Second) } //nolint:forbidigo // the clock of the bubble

// putStored stores an object, or removes it for nil, and wakes the watches. The caller holds the lock.
func (s *Server) putStored(at place, obj map[string]any) {
	s.version++
	before := s.objects[at]
	if obj == nil {
		obj = cloneObject(before)
		(&unstructured.Unstructured{Object: obj}).SetResourceVersion(strconv.Itoa(s.version))
		s.log = append(s.log, event{s.version, at, obj, nil})
		delete(s.objects, at)
	} else {
		s.log = append(s.log, event{s.version, at, before, obj})
		s.objects[at] = obj
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// removeObject deletes an object at once, or marks it if it has finalizers. A second deletion changes
// nothing. Preconditions are those of metav1.DeleteOptions.
func (s *Server) removeObject(c *Call, at place, old map[string]any) (int, map[string]any, error) {
	is := &unstructured.Unstructured{Object: cloneObject(old)}
	p, _, err := unstructured.NestedMap(c.Body, "preconditions")
	if err != nil {
		return 0, nil, err
	}
	if v, ok := p["resourceVersion"].(string); ok && v != is.GetResourceVersion() {
		return 0, nil, apierrors.NewConflict(at.GroupResource, at.name, errors.New("the ResourceVersion in the precondition differs"))
	}
	if v, ok := p["uid"].(string); ok && types.UID(v) != is.GetUID() {
		return 0, nil, apierrors.NewConflict(at.GroupResource, at.name, errors.New("the UID in the precondition differs"))
	}
	switch {
	case c.DryRun:
	case len(is.GetFinalizers()) == 0:
		s.putStored(at, nil)
	case is.GetDeletionTimestamp() == nil:
		is.SetDeletionTimestamp(new(metav1.NewTime(nowInSeconds())))
		is.SetGeneration(is.GetGeneration() + 1)
		is.SetResourceVersion(strconv.Itoa(s.version + 1))
		s.putStored(at, is.Object)
	}
	return http.StatusOK, is.Object, nil
}

// establishCRD serves the kinds of a CRD.
// The conditions are set at once; a real API server takes a moment. A test that wants to see that moment
// writes the status itself.
func (s *Server) establishCRD(obj map[string]any, dryRun bool) {
	var crd struct {
		Spec struct {
			Group    string
			Scope    string
			Names    struct{ Plural, Kind string }
			Versions []struct {
				Name         string
				Served       bool
				Subresources map[string]any
			}
		}
	}
	text, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(text, &crd)
	}
	if err != nil {
		s.t.Error(err)
		return
	}
	conditions := []any{}
	for _, t := range []string{"NamesAccepted", "Established"} {
		conditions = append(conditions, map[string]any{"type": t, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": nowInSeconds().Format(time.RFC3339)})
	}
	if obj[status] == nil {
		obj[status] = map[string]any{"conditions": conditions}
	}
	if dryRun {
		return
	}
	spec := crd.Spec
	s.kinds = slices.DeleteFunc(s.kinds, func(k Kind) bool { return k.Group == spec.Group && k.Resource == spec.Names.Plural })
	for _, v := range spec.Versions {
		if v.Served {
			s.kinds = append(s.kinds, Kind{spec.Group, v.Name, spec.Names.Plural, spec.Names.Kind, spec.Scope == "Namespaced", v.Subresources[status] != nil})
		}
	}
}
