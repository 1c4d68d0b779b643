package apply

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// server keeps objects by their paths and answers as an API server does, as far as these tests ask.
type server struct {
	t *testing.T

	mu      sync.Mutex
	objects map[string]map[string]any
	version int
	// before is called with each request that changes something, before it is looked at; it holds the lock.
	before func(r *http.Request)
	// forbidden are paths that may not be read.
	forbidden map[string]bool
	// broken are paths at which the server fails.
	broken map[string]bool
	// reads counts what was read, by path; a list is read at the path of its resource.
	reads map[string]int
	// held are paths of objects with a finalizer: a deletion only begins.
	held map[string]bool
	// down are paths that do not work, and what answers there.
	down map[string]http.HandlerFunc
}

func newServer(t *testing.T) (*server, *Applier) {
	t.Helper()
	s := &server{t: t, objects: map[string]map[string]any{}, forbidden: map[string]bool{}, broken: map[string]bool{}, reads: map[string]int{}, held: map[string]bool{}}
	a, err := New(&rest.Config{Host: "http://server", Transport: s}, Options{Namespace: "shops", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// put stores an object under a path; one that has metadata gets a version.
func (s *server) put(path string, obj map[string]any) {
	s.version++
	if meta, ok := obj["metadata"].(map[string]any); ok {
		meta["resourceVersion"] = strconv.Itoa(s.version)
	}
	s.objects[path] = obj
}

// versionOf returns the version of an object; nothing if there is none.
func (s *server) versionOf(path string) string {
	meta, _ := s.objects[path]["metadata"].(map[string]any)
	v, _ := meta["resourceVersion"].(string)
	return v
}

// RoundTrip answers without a network, so that tests can run on a clock of their own.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if down := s.down[r.URL.Path]; down != nil {
		down(w, r)
	} else {
		s.serve(w, r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	resource := schema.GroupResource{Resource: "things"}
	if tries := r.Method == http.MethodDelete && r.URL.Query().Get("dryRun") != ""; s.before != nil && r.Method != http.MethodGet && !tries {
		s.before(r)
	}
	if r.Method == http.MethodGet {
		s.reads[path]++
	}
	obj := s.objects[path]
	switch {
	case s.forbidden[path]:
		s.fail(w, apierrors.NewForbidden(resource, "", errors.New("not you")))
	case s.broken[path]:
		s.fail(w, apierrors.NewInternalError(errors.New("conversion webhook failed")))
	case r.Method == http.MethodPut:
		var next map[string]any
		if err := json.NewDecoder(r.Body).Decode(&next); err != nil {
			s.t.Error(err)
		}
		meta, _ := next["metadata"].(map[string]any)
		if meta["resourceVersion"] != s.versionOf(path) {
			s.fail(w, apierrors.NewConflict(resource, path, errors.New("it was changed")))
			return
		}
		s.put(path, next)
		s.answer(w, http.StatusOK, next)
	case r.Method == http.MethodPost:
		var next map[string]any
		if err := json.NewDecoder(r.Body).Decode(&next); err != nil {
			s.t.Error(err)
		}
		meta, _ := next["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		s.put(path+"/"+name, next)
		s.answer(w, http.StatusCreated, next)
	case r.Method == http.MethodPatch && s.objects[path[:strings.LastIndexByte(path, '/')]] != nil:
		s.answer(w, http.StatusOK, s.applied(r, path))
	case obj == nil:
		s.fail(w, apierrors.NewNotFound(resource, path))
	case r.Method == http.MethodDelete:
		var o metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			s.t.Error(err)
		}
		if p := o.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != s.versionOf(path) {
			s.fail(w, apierrors.NewConflict(resource, path, errors.New("the precondition does not hold")))
			return
		}
		if len(o.DryRun) > 0 {
			s.answer(w, http.StatusOK, obj)
			return
		}
		if s.held[path] {
			meta, _ := obj["metadata"].(map[string]any)
			meta["deletionTimestamp"] = "2001-01-01T00:00:00Z"
			s.put(path, obj)
		} else {
			delete(s.objects, path)
		}
		s.answer(w, http.StatusOK, obj)
	default:
		s.answer(w, http.StatusOK, obj)
	}
}

// applied stores what is applied, as that of one manager, and keeps the status.
func (s *server) applied(r *http.Request, path string) map[string]any {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	next, err := decodeObject(body)
	if err != nil {
		s.t.Error(err)
	}
	version, _ := next["apiVersion"].(string)
	entry := map[string]any{
		"manager": Manager, "operation": "Apply", "apiVersion": version, "time": "2001-01-01T00:00:00Z", "fieldsV1": fieldsOf(withoutHead(next)),
	}
	meta, _ := next["metadata"].(map[string]any)
	meta["managedFields"] = []any{entry}
	if status, ok := s.objects[path]["status"]; ok {
		next["status"] = status
	}
	s.put(path, next)
	return next
}

// fieldsOf are the fields of an object as they are owned; lists as a whole.
func fieldsOf(obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		fields := map[string]any{}
		if m, ok := v.(map[string]any); ok {
			fields = fieldsOf(m)
		}
		out["f:"+k] = fields
	}
	return out
}

func (s *server) answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Error(err)
	}
}

func (s *server) fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	s.answer(w, int(status.Code), status)
}

// objectFrom reads a manifest that is a value in Go.
func objectFrom(t *testing.T, v any) Object {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewObject("test", 1, b)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	thing     = "/api/v1/namespaces/shops/configmaps/thing"
	inventory = "/api/v1/namespaces/shops/configmaps/sluice-app-shop"
)

// shop stores the app shop, which has one ConfigMap.
func (s *server) shop() {
	s.put("/api/v1", map[string]any{"resources": []any{map[string]any{"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": []any{"get"}}}})
	s.owned("shops/shop")
	text, err := json.Marshal(Inventory{
		APIVersion: inventoryVersion, Kind: inventoryKind, App: "shop", Namespace: "shops", State: Applied,
		Objects: []Entry{{ID: ID{Kind: "ConfigMap", Namespace: "shops", Name: "thing"}, Version: "v1", Resource: "configmaps"}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.put(inventory, map[string]any{
		"metadata": map[string]any{"name": "sluice-app-shop", "namespace": "shops"}, "data": map[string]any{inventoryKey: string(text)},
	})
}

func (s *server) owned(app string) {
	s.put(thing, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": "thing", "namespace": "shops", "uid": "1", "annotations": map[string]any{AnnotationApp: app},
	}})
}

func TestWhatIsChangedBeforeItsDeletionIsLookedAtAgain(t *testing.T) {
	for name, test := range map[string]struct {
		owner string
		want  Action
	}{
		"by the app itself, or somebody who leaves it to the app": {"shops/shop", Delete},
		"by another app, which has taken it over":                 {"shops/other", Forget},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := newServer(t)
			s.shop()
			d, err := a.PlanDeletion(t.Context(), DeletionRequest{App: "shop", Namespace: "shops"})
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Removals) != 1 || d.Removals[0].Action != Delete {
				t.Fatalf("the plan is %+v", d.Removals)
			}
			s.owned(test.owner)
			if err := a.Delete(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if got := d.Removals[0].Action; got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if gone := s.objects[thing] == nil; gone != (test.want == Delete) {
				t.Errorf("it is gone: %v", gone)
			}
			if s.objects[inventory] != nil {
				t.Error("the inventory is still there")
			}
		})
	}
}

func TestADeletionLeavesTheInventoryOfAnApplyThatRanMeanwhile(t *testing.T) {
	s, a := newServer(t)
	s.shop()
	d, err := a.PlanDeletion(t.Context(), DeletionRequest{App: "shop", Namespace: "shops"})
	if err != nil {
		t.Fatal(err)
	}
	s.before = func(r *http.Request) {
		if r.Method == http.MethodDelete && r.URL.Path == inventory {
			s.put(inventory, s.objects[inventory]) // an apply has begun
		}
	}
	if err := a.Delete(t.Context(), d); !errors.Is(err, ErrConcurrent) {
		t.Errorf("error %v, want that somebody else was at it", err)
	}
	if s.objects[inventory] == nil {
		t.Error("the inventory is gone")
	}
}

func TestAnApplyWaitsForOthersNoLongerThanItsPatienceAndGoesOn(t *testing.T) {
	s, a := newServer(t)
	s.shop()
	s.held[thing] = true
	begun := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	now := begun
	a.opts.Now = func() time.Time { return now }
	apply := func(sources ...Source) (*Plan, error) {
		t.Helper()
		a, unlock, err := a.Resume(t.Context(), "shops", "shop")
		defer unlock()
		if err != nil {
			t.Fatal(err)
		}
		p, err := a.Plan(t.Context(), Request{App: "shop", Prune: true, Sources: sources, Patience: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return p, a.Apply(t.Context(), p)
	}
	one, two := Source{Name: "one"}, Source{Name: "two"}
	for i := range 3 {
		p, err := apply(one)
		if !errors.Is(err, ErrWaiting) {
			t.Fatalf("error %v, want that it is waited for", err)
		}
		if got := p.Started(); !got.Equal(begun) {
			t.Errorf("run %d: begun at %s, want %s: it is the same apply", i, got, begun)
		}
		now = now.Add(time.Hour)
	}
	if p, err := apply(two); !errors.Is(err, ErrWaiting) || !p.Started().Equal(now) {
		t.Errorf("another source: begun at %s, error %v", p.Started(), err)
	}
	v, err := a.App(t.Context(), "shops", "shop")
	if err != nil || v.State != Applying || len(v.Objects) != 1 {
		t.Errorf("inventory %+v, error %v", v, err)
	}
	s.mu.Lock()
	s.held[thing] = false
	delete(s.objects, thing)
	s.mu.Unlock()
	if _, err := apply(two); err != nil {
		t.Error(err)
	}
	if v, err := a.App(t.Context(), "shops", "shop"); err != nil || v.State != Applied || len(v.Objects) != 0 {
		t.Errorf("inventory %+v, error %v", v, err)
	}
}
