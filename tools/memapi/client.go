package memapi

// How does a test change objects while a controller runs? As a user with a name of its own, through the same
// code as the controller, so that hooks and field managers see it.

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Client is a user that writes and reads as a test does: an error ends the test.
type Client struct {
	s    *Server
	name string
}

// As returns a client with the name of a field manager.
func (s *Server) As(manager string) Client { return Client{s, manager} }

// sendCall sends a request past the transport, so that a test sees the error of the API server and not
// one of a client library. path is that of the resource or the object.
func (c Client) sendCall(verb, path string, query url.Values, contentType string, body []byte) (map[string]any, *apierrors.StatusError) {
	c.s.t.Helper()
	query.Set("fieldManager", c.name)
	r, err := http.NewRequestWithContext(c.s.t.Context(), verb, "http://memapi.test"+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		c.s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	_, out, failure := c.s.answerRequest(r)
	return out, failure
}

// pathOfObject is the path of an object, and whether it exists.
// A kind that the server does not have ends the test.
func (c Client) pathOfObject(obj map[string]any) (string, bool) {
	u := &unstructured.Unstructured{Object: obj}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, k := range c.s.kinds {
		if k.apiVersion() != u.GetAPIVersion() || k.Kind != u.GetKind() {
			continue
		}
		return pathOf(k, u.GetNamespace()), c.s.objects[place{k.groupResource(), u.GetNamespace(), u.GetName()}] != nil
	}
	c.s.t.Fatalf("the server has no %s %s", u.GetAPIVersion(), u.GetKind())
	return "", false
}

// pathOf is the path of a resource, in a namespace or without one, as the API server has it: the core
// group has a prefix of its own.
func pathOf(k Kind, namespace string) string {
	path := "/apis/" + k.apiVersion()
	if k.Group == "" {
		path = "/api/v1"
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.Resource
}

// Put creates the objects of YAML documents, or replaces their content but for the status, which only [Client.Status] writes.
// The documents are separated by lines of three dashes. Hooks see these writes like those of a
// controller.
func (c Client) Put(documents string) {
	c.s.t.Helper()
	for text := range strings.SplitSeq(documents, "\n---\n") {
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
			c.s.t.Fatal(err)
		}
		c.putObject(obj, "")
	}
}

// Status changes an object by f and writes its status.
// f gets the status as it is, or an empty one, and changes it in place.
func (c Client) Status(resource, namespace, name string, f func(status map[string]any)) {
	c.s.t.Helper()
	obj := c.s.Get(resource, namespace, name)
	st, ok := obj[status].(map[string]any)
	if !ok {
		st = map[string]any{}
		obj[status] = st
	}
	f(st)
	c.putObject(obj, status)
}

// Edit changes an object by f and writes it.
// It writes what it has read, with its resource version, so that a write in between is a conflict and
// ends the test.
func (c Client) Edit(resource, namespace, name string, f func(u *unstructured.Unstructured)) {
	c.s.t.Helper()
	u := &unstructured.Unstructured{Object: c.s.Get(resource, namespace, name)}
	f(u)
	c.putObject(u.Object, "")
}

// putObject creates an object, or updates the one that is there. subresource is status or empty.
func (c Client) putObject(obj map[string]any, subresource string) {
	c.s.t.Helper()
	path, exists := c.pathOfObject(obj)
	verb := http.MethodPost
	if exists {
		verb = http.MethodPut
		path += "/" + (&unstructured.Unstructured{Object: obj}).GetName()
	}
	if subresource != "" {
		path += "/" + subresource
	}
	body, err := json.Marshal(obj)
	if err != nil {
		c.s.t.Fatal(err)
	}
	if _, failure := c.sendCall(verb, path, url.Values{}, "application/json", body); failure != nil {
		c.s.t.Fatal(failure)
	}
}

// Delete deletes an object.
// An object that does not exist is an error. With finalizers it is only marked.
func (c Client) Delete(resource, namespace, name string) {
	c.s.t.Helper()
	for _, k := range c.s.servedKinds() {
		if k.Resource == resource {
			if _, failure := c.sendCall(http.MethodDelete, pathOf(k, namespace)+"/"+name, url.Values{}, "", nil); failure != nil {
				c.s.t.Fatal(failure)
			}
			return
		}
	}
}

func (s *Server) servedKinds() []Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kinds)
}

// Get returns a copy of an object; nil if there is none.
// The resource is the plural name; that two groups have the same one does not happen in these tests.
func (s *Server) Get(resource, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, obj := range s.objects {
		if at.Resource == resource && at.namespace == namespace && at.name == name {
			return cloneObject(obj)
		}
	}
	return nil
}

// Into reads an object into a typed one, and reports whether it exists.
// out is a pointer to a struct of the API. Unknown fields are ignored, as clients do.
func (s *Server) Into(resource, namespace, name string, out any) bool {
	s.t.Helper()
	obj := s.Get(resource, namespace, name)
	if obj == nil {
		return false
	}
	text, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return true
}

// Names returns the objects of a resource as NAMESPACE/NAME, or NAME without a namespace, sorted.
// It is what tests compare: which objects a controller has made, and which it has removed.
func (s *Server) Names(resource string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for at := range s.objects {
		if at.Resource == resource {
			out = append(out, strings.TrimPrefix(at.namespace+"/"+at.name, "/"))
		}
	}
	slices.Sort(out)
	return out
}
