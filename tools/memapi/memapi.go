// Package memapi is an API server in memory, for tests of one process that drive a controller as a whole. Clients reach it by the
// configuration of [Server.Config], without a network, so that a test may run in a bubble of testing/synctest.
//
// It has discovery, resource versions, generations, status subresources, finalizers, dry runs, watches, and field managers with the
// API server's own code. It does not validate, convert, authorize or collect garbage; lists are atomic for field managers. What
// depends on these belongs in a test against the real API server. An end-to-end test holds all else against that server.
package memapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/limit"
)

// Kind is a kind that the server has.
// CRDs that are written to the server add their kinds, one for each served version.
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
// The second last column says whether objects have a namespace, the last one whether there is a status.
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
// Hooks get it before anything is changed. Tests compare [Server.Writes] with what a controller should
// write.
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
// All state is under one lock, and each request is answered under it at once, so that requests have an
// order as in etcd.
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
// The log of events is never cut: a watch may begin at any version.
type event struct {
	version       int
	at            place
	before, after map[string]any
}

// New returns a server without objects.
func New(t testing.TB) *Server {
	return &Server{t: t, kinds: slices.Clone(builtIn), objects: map[place]map[string]any{}, changed: make(chan struct{})}
}

// Run runs a test with a new server in a bubble of testing/synctest, in parallel with other tests.
// In the bubble, time passes only while all goroutines wait, so that a controller with pauses of minutes
// is tested in milliseconds.
func Run(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, New(t)) })
}

// After lets a time pass in the bubble, whose clock is virtual, until all of its goroutines rest.
// A controller that never rests, because one of its goroutines spins, hangs the test.
func After(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Start runs a controller until the end of the test, which fails if the controller returns an error.
// The context of the controller ends in the cleanup of the test, before the bubble does.
func (s *Server) Start(run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

// Config connects to the server.
// Clients use JSON, because the server has no protobuf, and are not throttled.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: "http://memapi.test", Transport: s, QPS: -1, UserAgent: "test", ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Hook calls f with each request before it is answered. An error of f is the answer; a nil one leaves that to the server. Calls are
// concurrent, and f may use the server.
// Hooks are called in the order in which they were added, until one of them returns an error.
func (s *Server) Hook(f func(*Call) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = append(s.hooks, f)
}

// Writes returns the writes that succeeded since the last call of this function, without dry runs.
// The order is that in which they were answered. Writes that changed nothing are among them.
func (s *Server) Writes() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out
}

// RoundTrip implements [http.RoundTripper].
// Errors of the API server are answers with a Status and its code. The only errors of a round trip are
// those of the request's context and of this code.
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
	c, k, err := s.parseRequest(r)
	if err == nil && c != nil && c.Verb == "watch" {
		return response(http.StatusOK, s.watchStream(r, c, k)), nil
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

// answerRequest answers a request that is no watch: the code, the object, and the Status in place of
// both.
func (s *Server) answerRequest(r *http.Request) (int, map[string]any, *apierrors.StatusError) {
	c, k, err := s.parseRequest(r)
	return s.answerCall(r, c, k, err)
}

// parseRequest reads the path of a request. Without an error, the call is nil for a request of discovery.
func (s *Server) parseRequest(r *http.Request) (*Call, Kind, *apierrors.StatusError) {
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
	c.Verb = verbOf(r, c.Name)
	for _, k := range s.servedKinds() {
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

// answerCall answers a request whose path was read. Hooks come first, without the lock, because they may
// use the server. Reviews of permissions are answered by what hooks made of them. A failure is always a
// Status, as an API server has it; other errors become bad requests.
func (s *Server) answerCall(r *http.Request, c *Call, k Kind, failure *apierrors.StatusError) (int, map[string]any, *apierrors.StatusError) {
	if failure != nil {
		return 0, nil, failure
	}
	if c == nil {
		return s.answerDiscovery(r.URL.Path)
	}
	body, err := c.readBody(r)
	if err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	if k.Kind == "" && c.Body != nil {
		answerReview(c)
	}
	// A dry run changes nothing, and hooks see it.
	c.DryRun = c.DryRun || c.Verb == "delete" && c.Body["dryRun"] != nil // options of a deletion come in the body
	if c.Verb == "create" {
		c.Name = (&unstructured.Unstructured{Object: c.Body}).GetName()
	}
	// The API server takes the first word of the user agent for the manager that is not named.
	if c.Manager == "" && c.Verb != "get" && c.Verb != "list" {
		c.Manager, _, _ = strings.Cut(r.Header.Get("User-Agent"), "/")
	}
	if err := s.answerOfHooks(c); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	as := partialForm(r.Header.Get("Accept"))
	switch c.Verb {
	case "get":
		obj := s.objects[place{k.groupResource(), c.Namespace, c.Name}]
		if obj == nil {
			return 0, nil, apierrors.NewNotFound(k.groupResource(), c.Name)
		}
		return http.StatusOK, as(k, obj), nil
	case "list":
		return http.StatusOK, s.listObjects(r, c, k, as), nil
	}
	// Reviews are not stored.
	if k.Kind == "" {
		return http.StatusCreated, c.Body, nil
	}
	code, out, err := s.writeObject(r, c, k, body)
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

// verbOf is the verb of an authorizer for a request about an object, or about a resource if there is no name.
func verbOf(r *http.Request, name string) string {
	switch watch := r.URL.Query().Get("watch"); {
	case r.Method == http.MethodGet && name != "":
		return "get"
	case r.Method == http.MethodGet && (watch == "true" || watch == "1"):
		return "watch"
	case r.Method == http.MethodGet:
		return "list"
	case r.Method == http.MethodPatch && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch"):
		return "apply"
	}
	return map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
}

// maxBody bounds a request, in bytes.
const maxBody = 16 << 20

// readBody returns the body of a request, and decodes it if it is an object.
func (c *Call) readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := limit.ReadAll(r.Body, maxBody)
	if err != nil || len(body) == 0 || c.Verb == "patch" && !strings.Contains(r.Header.Get("Content-Type"), "merge-patch") {
		return body, err
	}
	return body, yaml.Unmarshal(body, &c.Body)
}

// answerOfHooks returns the answer of the first hook that has one.
// Errors that are no Status become internal errors.
func (s *Server) answerOfHooks(c *Call) *apierrors.StatusError {
	s.mu.Lock()
	hooks := s.hooks
	s.mu.Unlock()
	for _, f := range hooks {
		if err := f(c); err != nil {
			if is, ok := errors.AsType[*apierrors.StatusError](err); ok {
				return is
			}
			return apierrors.NewInternalError(err)
		}
	}
	return nil
}

// answerReview answers a question about permissions: everything is allowed, unless a hook changes the status.
// Tests that refuse something do so by hooks on the requests themselves, or change the status here.
func answerReview(c *Call) {
	st := map[string]any{"allowed": true}
	if c.Resource == "selfsubjectrulesreviews" {
		all := []any{"*"}
		st = map[string]any{"resourceRules": []any{map[string]any{"verbs": all, "apiGroups": all, "resources": all}}, "nonResourceRules": []any{}, "incomplete": false}
	}
	c.Body[status] = st
}

// listObjects answers a list in the form that the client accepts. It has no pages: limit and continue are
// ignored.
func (s *Server) listObjects(r *http.Request, c *Call, k Kind, as func(Kind, map[string]any) map[string]any) map[string]any {
	items := []any{}
	for _, obj := range s.matchingObjects(r, c, k) {
		items = append(items, as(k, obj))
	}
	kind := k.Kind + "List"
	version := k.apiVersion()
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items}
}

// matchingObjects returns the objects that the selectors and the namespace of a request allow, in the
// order of etcd: by namespace and name.
func (s *Server) matchingObjects(r *http.Request, c *Call, k Kind) (out []map[string]any) {
	var places []place
	for at, obj := range s.objects {
		if at.GroupResource == k.groupResource() && matchesSelectors(r, c, obj) {
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
