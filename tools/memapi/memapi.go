// Package memapi is an API server in memory, for tests of one process that drive a controller as a whole. Clients reach it by the
// configuration of [Server.Config], without a network, so that a test may run in a bubble of testing/synctest.
//
// It has discovery, resource versions, generations, status subresources, finalizers, dry runs, watches, and field managers with the
// API server's own code. It does not validate, convert, authorize or collect garbage; lists are atomic for field managers. What
// depends on these belongs in a test against the real API server.
package memapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/limit"
)

// Kind is a kind that the server has.
type Kind struct {
	Group, Version, Resource, Kind string
	Namespaced                     bool
	// Status: the kind has a generation and the subresource status.
	Status bool
}

func (k Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

func (k Kind) apiVersion() string {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}.String()
}

const (
	crds   = "customresourcedefinitions"
	status = "status"
)

// builtIn are the kinds of a new server, besides those of its tests.
var builtIn = []Kind{
	{"", "v1", "namespaces", "Namespace", false, true},
	{"", "v1", "configmaps", "ConfigMap", true, false},
	{"", "v1", "secrets", "Secret", true, false},
	{"", "v1", "serviceaccounts", "ServiceAccount", true, false},
	{"apps", "v1", "deployments", "Deployment", true, true},
	{"coordination.k8s.io", "v1", "leases", "Lease", true, false},
	{"apiextensions.k8s.io", "v1", crds, "CustomResourceDefinition", false, true},
	{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false, true},
	{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false, true},
	{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", false, true},
	{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", false, true},
	{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false, true},
	{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", false, true},
	{"resolution.tekton.dev", "v1beta1", "resolutionrequests", "ResolutionRequest", true, true},
	{"sluice.dev", "v1alpha1", "deliveries", "Delivery", true, true},
	{"sluice.dev", "v1alpha1", "components", "Component", false, true},
	{"sluice.dev", "v1alpha1", "features", "Feature", false, true},
	{"sluice.dev", "v1alpha1", "featurereports", "FeatureReport", true, true},
}

// Call is a request that is about to be answered.
type Call struct {
	// Verb is that of an authorizer: get, list, watch, create, update, patch, apply, delete.
	Verb, Resource, Subresource, Namespace, Name string
	// User is the one that is impersonated, empty without one. Manager is the field manager.
	User, Manager string
	DryRun        bool
	// Body is the object or the options that were sent, nil if that is a patch of another form. A hook may change it.
	Body map[string]any

	warnings []string
}

// Warn makes the server answer with a warning.
func (c *Call) Warn(text string) { c.warnings = append(c.warnings, text) }

// String is the call in one line, such as "apply configmaps n/a as sluice".
func (c *Call) String() string {
	out := c.Verb + " " + c.Resource
	if c.Subresource != "" {
		out += "/" + c.Subresource
	}
	out += " "
	if c.Namespace != "" {
		out += c.Namespace + "/"
	}
	out += c.Name
	if c.Manager != "" {
		out += " as " + c.Manager
	}
	return out
}

// Server is an API server in memory.
type Server struct {
	t testing.TB

	mu      sync.Mutex
	kinds   []Kind
	objects map[place]map[string]any
	version int
	log     []event
	// changed is closed, and replaced, when log grows.
	changed chan struct{}
	writes  []Call
	hooks   []func(*Call) error
}

// place is where an object is.
type place struct {
	schema.GroupResource

	namespace, name string
}

// event is a change of an object; nil stands for one that does not exist.
type event struct {
	version       int
	at            place
	before, after map[string]any
}

// New returns a server without objects.
func New(t testing.TB) *Server {
	return &Server{t: t, kinds: slices.Clone(builtIn), objects: map[place]map[string]any{}, changed: make(chan struct{})}
}

// Config connects to the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "http://memapi.test", Transport: s, QPS: -1, UserAgent: "test", ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Hook calls f with each request before it is answered. An error of f is the answer; a nil one leaves that to the server. Calls are
// concurrent, and f may use the server.
func (s *Server) Hook(f func(*Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, f)
}

// Writes returns the writes that succeeded since the last call of this function, without dry runs.
func (s *Server) Writes() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out
}

// Remove takes kinds of a group out of what the server has.
func (s *Server) Remove(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = slices.DeleteFunc(s.kinds, func(k Kind) bool { return k.Group == group })
}

// Client is a user that writes and reads as a test does: an error ends the test.
type Client struct {
	s    *Server
	name string
}

// As returns a client with the name of a field manager.
func (s *Server) As(manager string) Client { return Client{s, manager} }

func (c Client) call(verb, path string, query url.Values, contentType string, body []byte) (map[string]any, *apierrors.StatusError) {
	c.s.t.Helper()
	query.Set("fieldManager", c.name)
	r, err := http.NewRequestWithContext(c.s.t.Context(), verb, "http://memapi.test"+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		c.s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	_, out, failure := c.s.answer(r)
	return out, failure
}

// path is the path of an object, and whether it exists.
func (c Client) path(obj map[string]any) (string, bool) {
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
func (c Client) Put(documents string) {
	c.s.t.Helper()
	for text := range strings.SplitSeq(documents, "\n---\n") {
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
			c.s.t.Fatal(err)
		}
		c.put(obj, "")
	}
}

// Status changes an object by f and writes its status.
func (c Client) Status(resource, namespace, name string, f func(status map[string]any)) {
	c.s.t.Helper()
	obj := c.s.Get(resource, namespace, name)
	st, ok := obj[status].(map[string]any)
	if !ok {
		st = map[string]any{}
		obj[status] = st
	}
	f(st)
	c.put(obj, status)
}

// Edit changes an object by f and writes it.
func (c Client) Edit(resource, namespace, name string, f func(u *unstructured.Unstructured)) {
	c.s.t.Helper()
	u := &unstructured.Unstructured{Object: c.s.Get(resource, namespace, name)}
	f(u)
	c.put(u.Object, "")
}

func (c Client) put(obj map[string]any, subresource string) {
	c.s.t.Helper()
	path, exists := c.path(obj)
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
	if _, failure := c.call(verb, path, url.Values{}, "application/json", body); failure != nil {
		c.s.t.Fatal(failure)
	}
}

// Delete deletes an object.
func (c Client) Delete(resource, namespace, name string) {
	c.s.t.Helper()
	for _, k := range c.s.have() {
		if k.Resource == resource {
			if _, failure := c.call(http.MethodDelete, pathOf(k, namespace)+"/"+name, url.Values{}, "", nil); failure != nil {
				c.s.t.Fatal(failure)
			}
			return
		}
	}
}

func (s *Server) have() []Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kinds)
}

// Get returns a copy of an object; nil if there is none.
func (s *Server) Get(resource, namespace, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, obj := range s.objects {
		if at.Resource == resource && at.namespace == namespace && at.name == name {
			return clone(obj)
		}
	}
	return nil
}

// Into reads an object into a typed one, and reports whether it exists.
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

// RoundTrip implements [http.RoundTripper].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	response := func(code int, body io.ReadCloser) *http.Response {
		return &http.Response{
			StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: header, Body: body, Request: r, ContentLength: -1,
		}
	}
	c, k, err := s.parse(r)
	if err == nil && c != nil && c.Verb == "watch" {
		return response(http.StatusOK, s.watch(r, c, k)), nil
	}
	code, out, failure := s.answerCall(r, c, k, err)
	if failure != nil {
		st := failure.Status()
		st.APIVersion, st.Kind = "v1", "Status"
		code, out = int(st.Code), toMap(s.t, st)
		if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
			header.Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
		}
	}
	if c != nil {
		for _, w := range c.warnings {
			header.Add("Warning", `299 - "`+w+`"`)
		}
	}
	text, encodeErr := json.Marshal(out)
	if encodeErr != nil {
		return nil, encodeErr
	}
	return response(code, io.NopCloser(bytes.NewReader(text))), nil
}

func (s *Server) answer(r *http.Request) (int, map[string]any, *apierrors.StatusError) {
	c, k, err := s.parse(r)
	return s.answerCall(r, c, k, err)
}

// parse reads the path of a request. Without an error, the call is nil for a request of discovery.
func (s *Server) parse(r *http.Request) (*Call, Kind, *apierrors.StatusError) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gv := schema.GroupVersion{}
	switch {
	case parts[0] == "api" && len(parts) > 2:
		gv.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, Kind{}, nil
	}
	c := &Call{User: r.Header.Get("Impersonate-User"), Manager: r.URL.Query().Get("fieldManager"), DryRun: r.URL.Query().Get("dryRun") != ""}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != status && parts[2] != "finalize" {
		c.Namespace, parts = parts[1], parts[2:]
	}
	c.Resource = parts[0]
	if len(parts) > 1 {
		c.Name = parts[1]
	}
	if len(parts) > 2 {
		c.Subresource = parts[2]
	}
	switch r.Method {
	case http.MethodGet:
		c.Verb = "get"
		if c.Name == "" {
			c.Verb = "list"
			if q := r.URL.Query().Get("watch"); q == "true" || q == "1" {
				c.Verb = "watch"
			}
		}
	case http.MethodPatch:
		c.Verb = "patch"
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			c.Verb = "apply"
		}
	default:
		c.Verb = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodDelete: "delete"}[r.Method]
	}
	for _, k := range s.have() {
		if k.Group == gv.Group && k.Version == gv.Version && k.Resource == c.Resource {
			return c, k, nil
		}
	}
	k := Kind{Group: gv.Group, Version: gv.Version, Resource: c.Resource}
	if strings.HasPrefix(c.Resource, "selfsubject") {
		return c, k, nil
	}
	return c, k, apierrors.NewGenericServerResponse(http.StatusNotFound, c.Verb, k.groupResource(), c.Name, "the server could not find the requested resource", 0, true)
}

func (s *Server) answerCall(r *http.Request, c *Call, k Kind, failure *apierrors.StatusError) (int, map[string]any, *apierrors.StatusError) {
	if failure != nil {
		return 0, nil, failure
	}
	if c == nil {
		return s.discovery(r.URL.Path)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = limit.ReadAll(r.Body, maxBody); err != nil {
			return 0, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if len(body) > 0 && (c.Verb != "patch" || strings.Contains(r.Header.Get("Content-Type"), "merge-patch")) {
		if err := yaml.Unmarshal(body, &c.Body); err != nil {
			return 0, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if k.Kind == "" && c.Body != nil {
		review(c)
	}
	if c.Verb == "create" {
		c.Name = (&unstructured.Unstructured{Object: c.Body}).GetName()
	}
	if c.Manager == "" && c.Verb != "get" && c.Verb != "list" {
		c.Manager, _, _ = strings.Cut(r.Header.Get("User-Agent"), "/")
	}
	s.mu.Lock()
	hooks := s.hooks
	s.mu.Unlock()
	for _, f := range hooks {
		if err := f(c); err != nil {
			var is *apierrors.StatusError
			if !errors.As(err, &is) {
				is = apierrors.NewInternalError(err)
			}
			return 0, nil, is
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	as := partial(r.Header.Get("Accept"))
	switch c.Verb {
	case "get":
		obj := s.objects[place{k.groupResource(), c.Namespace, c.Name}]
		if obj == nil {
			return 0, nil, apierrors.NewNotFound(k.groupResource(), c.Name)
		}
		return http.StatusOK, as(k, obj), nil
	case "list":
		return http.StatusOK, s.list(r, c, k, as), nil
	}
	if k.Kind == "" {
		return http.StatusCreated, c.Body, nil
	}
	code, out, err := s.write(r, c, k, body)
	if err != nil {
		is, ok := errors.AsType[*apierrors.StatusError](err)
		if !ok {
			is = apierrors.NewBadRequest(err.Error())
		}
		return 0, nil, is
	}
	if !c.DryRun {
		s.writes = append(s.writes, *c)
	}
	return code, as(k, out), nil
}

// review answers a question about permissions: everything is allowed, unless a hook changes the status.
func review(c *Call) {
	st := map[string]any{"allowed": true}
	if c.Resource == "selfsubjectrulesreviews" {
		all := []any{"*"}
		st = map[string]any{"resourceRules": []any{map[string]any{"verbs": all, "apiGroups": all, "resources": all}}, "nonResourceRules": []any{}, "incomplete": false}
	}
	c.Body[status] = st
}

func (s *Server) list(r *http.Request, c *Call, k Kind, as func(Kind, map[string]any) map[string]any) map[string]any {
	items := []any{}
	for _, obj := range s.matching(r, c, k) {
		items = append(items, as(k, obj))
	}
	kind := k.Kind + "List"
	version := k.apiVersion()
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items}
}

func (s *Server) matching(r *http.Request, c *Call, k Kind) (out []map[string]any) {
	var places []place
	for at, obj := range s.objects {
		if at.GroupResource == k.groupResource() && matches(r, c, obj) {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
	})
	for _, at := range places {
		out = append(out, s.objects[at])
	}
	return out
}

// write changes an object.
func (s *Server) write(r *http.Request, c *Call, k Kind, body []byte) (int, map[string]any, error) {
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
		next, code = clone(c.Body), http.StatusCreated
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
		if next, err = manager.apply(k, live, c, r.URL.Query().Get("force") == "true"); err != nil {
			return 0, nil, err
		}
	default:
		if old == nil {
			return 0, nil, apierrors.NewNotFound(gr, c.Name)
		}
		if c.Verb == "delete" {
			return s.remove(c, at, old)
		}
		var err error
		if next, err = patched(r.Header.Get("Content-Type"), c, old, body); err != nil {
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
		if v := is.GetResourceVersion(); v != "" && v != was.GetResourceVersion() {
			return 0, nil, apierrors.NewConflict(gr, c.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		if u := is.GetUID(); u != "" && u != was.GetUID() {
			return 0, nil, apierrors.NewConflict(gr, c.Name, errors.New("the UID in the precondition differs"))
		}
	}
	s.own(k, c, old, next)
	if c.Verb != "apply" {
		var err error
		if next, err = manager.update(k, old, next, c.Manager); err != nil {
			return 0, nil, err
		}
		is.Object = next
	}
	s.store(c, k, at, old, is)
	return code, next, nil
}

// own sets what is the server's.
func (s *Server) own(k Kind, c *Call, old, next map[string]any) {
	was, is := &unstructured.Unstructured{Object: old}, &unstructured.Unstructured{Object: next}
	if k.Status {
		switch {
		case c.Subresource == status:
			meta := is.GetManagedFields()
			content := clone(old)
			content[status] = next[status]
			for key := range next {
				delete(next, key)
			}
			maps.Copy(next, content)
			is.SetManagedFields(meta)
		case old == nil:
			delete(next, status)
		case old[status] != nil:
			next[status] = clone(old)[status]
		default:
			delete(next, status)
		}
	}
	if old == nil {
		is.SetUID(uuid.NewUUID())
		is.SetCreationTimestamp(metav1.NewTime(now()))
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

// maxBody bounds a request, in bytes.
const maxBody = 16 << 20

func withoutMeta(obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		if k != "metadata" && k != status {
			out[k] = v
		}
	}
	return toMap(nil, out) // numbers have one type then
}

// store stores an object, unless nothing has changed.
func (s *Server) store(c *Call, k Kind, at place, old map[string]any, is *unstructured.Unstructured) {
	if old != nil && is.GetDeletionTimestamp() != nil && len(is.GetFinalizers()) == 0 {
		if !c.DryRun {
			s.put(at, nil)
		}
		return
	}
	if old != nil && reflect.DeepEqual(toMap(nil, old), toMap(nil, is.Object)) {
		return
	}
	if k.Resource == crds {
		s.establish(is.Object, c.DryRun)
	}
	if c.DryRun {
		return
	}
	is.SetResourceVersion(strconv.Itoa(s.version + 1))
	s.put(at, clone(is.Object))
}

// now is the time in the bubble of testing/synctest in which the tests run, to the second, as the API server has it.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) } //nolint:forbidigo // the clock of the bubble

func (s *Server) put(at place, obj map[string]any) {
	s.version++
	before := s.objects[at]
	if obj == nil {
		obj = clone(before)
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

func (s *Server) remove(c *Call, at place, old map[string]any) (int, map[string]any, error) {
	is := &unstructured.Unstructured{Object: clone(old)}
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
		s.put(at, nil)
	case is.GetDeletionTimestamp() == nil:
		is.SetDeletionTimestamp(new(metav1.NewTime(now())))
		is.SetGeneration(is.GetGeneration() + 1)
		is.SetResourceVersion(strconv.Itoa(s.version + 1))
		s.put(at, is.Object)
	}
	return http.StatusOK, is.Object, nil
}

// establish serves the kinds of a CRD.
func (s *Server) establish(obj map[string]any, dryRun bool) {
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
		conditions = append(conditions, map[string]any{"type": t, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now().Format(time.RFC3339)})
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
