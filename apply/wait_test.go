package apply

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

// TestAnObjectThatCannotBeReadWasNotDeleted: the API server does not answer when the time for a wait is over, or another run has taken the lock.
func TestAnObjectThatCannotBeReadWasNotDeleted(t *testing.T) {
	s, a := newServer(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	s.down = map[string]http.HandlerFunc{"/api/v1/namespaces/shops/pods/p": func(_ http.ResponseWriter, r *http.Request) {
		cancel(errLost)
		<-r.Context().Done()
	}}
	id := ID{Kind: "Pod", Namespace: "shops", Name: "p"}
	it := &Item{Object: Object{ID: id, Version: "v1"}, mapping: mapping{resource: "pods"}, now: standing{live: &live{health: health{status.InProgressStatus, "Pending"}}}}
	err := a.waitFor(ctx, []*Item{it})
	unready, ok := errors.AsType[*NotReadyError](err)
	if want := []NotReady{{id, "InProgress", "Pending"}}; !ok || !slices.Equal(unready.Objects, want) || !strings.Contains(err.Error(), errLost.Error()) {
		t.Errorf("%v", err)
	}
}

func TestADefinitionIsServedAlthoughItsObjectsCannotBeListed(t *testing.T) {
	for name, refuse := range map[string]func(s *server, path string){
		"it is not allowed":                    func(s *server, path string) { s.forbidden[path] = true },
		"they are not converted for some time": func(s *server, path string) { s.broken[path] = true },
		"its cache waits until they are":       func(s *server, path string) { s.down = map[string]http.HandlerFunc{path: waysDown[untilCached]} },
	} {
		t.Run(name, func(t *testing.T) { servedWhile(t, refuse) })
	}
}

func servedWhile(t *testing.T, refuse func(s *server, path string)) {
	t.Helper()
	const crd, things, version = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", "/apis/example.com/v1/things", "/apis/example.com/v1"
	s, a := newServer(t)
	s.put(crd, map[string]any{
		"metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{
			"group": "example.com", "names": map[string]any{"kind": "Thing", "plural": "things"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
	refuse(s, things)
	why, err := a.whatCRDLacks(t.Context(), "things.example.com")
	if err != nil || why == "" {
		t.Errorf("before it is served: %q, %v", why, err)
	}
	s.put(version, map[string]any{"resources": []any{map[string]any{"name": "things", "kind": "Thing", "namespaced": true, "verbs": []any{"get"}}}})
	why, err = a.whatCRDLacks(t.Context(), "things.example.com")
	if err != nil || why != "" {
		t.Errorf("once it is served: %q, %v", why, err)
	}
}

// A CRD that an earlier round has written, and that the server has not taken up yet, is waited for by the next round as well.
func TestADefinitionOfAnEarlierRoundIsWaitedFor(t *testing.T) {
	const (
		crds    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		crd     = crds + "/things.example.com"
		version = "/apis/example.com/v1"
		things  = version + "/namespaces/shops/things"
	)
	s, a := newServer(t)
	s.put("/apis/apiextensions.k8s.io/v1", map[string]any{"resources": []any{
		map[string]any{"name": "customresourcedefinitions", "kind": "CustomResourceDefinition", "verbs": []any{"get"}},
	}})
	s.put(crds, map[string]any{"items": []any{}})
	manifests := []map[string]any{
		{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.example.com"},
			"spec": map[string]any{
				"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Thing", "plural": "things"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
			},
		},
		{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "t"}},
	}
	var objects []Object
	for _, m := range manifests {
		objects = append(objects, objectFrom(t, m))
	}
	round := func(patience time.Duration) (*Plan, error) {
		t.Helper()
		a, unlock, err := a.Resume(t.Context(), "shops", "x")
		defer unlock()
		if err != nil {
			t.Fatal(err)
		}
		p, err := a.Plan(t.Context(), Request{Objects: objects, App: "x", Patience: patience})
		if err != nil {
			t.Fatal(err)
		}
		return p, a.Apply(t.Context(), p)
	}
	for i, want := range []Action{Create, Unchanged, Unchanged} {
		p, err := round(time.Millisecond)
		if got := p.Items[0].Action; got != want || !errors.Is(err, ErrWaiting) {
			t.Fatalf("round %d: the CRD is to be %s, want %s; error %v, want that it is waited for", i, got, want, err)
		}
	}
	// It is established, and what it defines is served.
	s.mu.Lock()
	s.objects[crd]["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
	}}
	s.put(version+"/things", map[string]any{"items": []any{}})
	s.put(things, map[string]any{"items": []any{}})
	s.mu.Unlock()
	if p, err := round(time.Minute); err != nil || p.Items[0].Action != Unchanged || s.objects[things+"/t"] == nil {
		t.Fatalf("once it is served: %v", err)
	}
	// From then on nothing asks for it.
	s.mu.Lock()
	s.put(version, map[string]any{"resources": []any{map[string]any{"name": "things", "kind": "Thing", "namespaced": true, "verbs": []any{"get"}}}})
	clear(s.reads)
	s.mu.Unlock()
	a.mapper.forgetGroup("example.com")
	p, err := round(time.Minute)
	if err != nil || p.Count(Unchanged) != 2 {
		t.Errorf("again: %+v, %v", p.Items, err)
	}
	if s.reads[crd] != 1 || s.reads[version+"/things"] != 0 {
		t.Errorf("read: %v", s.reads)
	}
}
