//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/internal/controller/resolution"
	"sluice.dev/internal/resolvers"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
	"sluice.dev/tools/kube"
)

const taskText = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata:\n  name: build\nspec:\n  steps:\n  - image: busybox\n"

// allRoles are those that resolve over a network or in the cluster.
var allRoles = func() []string {
	roles := []string{resolution.LifecycleRole}
	for _, r := range resolvers.Table() {
		if r.Name != "dir" {
			roles = append(roles, resolution.Role(r.Name))
		}
	}
	return roles
}()

// startAll starts the roles at once.
func (s *system) startAll(t *testing.T, roles ...string) map[string]*process {
	t.Helper()
	out := map[string]*process{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, role := range roles {
		wg.Go(func() {
			p := s.start(t, role)
			mu.Lock()
			defer mu.Unlock()
			out[role] = p
		})
	}
	wg.Wait()
	if len(out) != len(roles) {
		t.FailNow()
	}
	return out
}

// kinds of Tekton, as far as they matter here.
const tektonKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]ss.tekton.dev}
spec:
  group: tekton.dev
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]ss, singular: %[2]s}
  scope: %[3]s
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// apply applies the objects of a YAML stream.
func (s *system) apply(t *testing.T, text string) {
	t.Helper()
	objects, err := kube.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range objects {
		eventually(t, u.GetKind()+" "+u.GetName()+" to be applied", func(ctx context.Context) error {
			return s.objects.ApplyObject(ctx, u, false)
		})
	}
}

// tektonCRDs makes the kinds that Tekton's resolvers give, and those that ask.
func (s *system) tektonCRDs(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"Task", "Pipeline", "StepAction", "TaskRun", "PipelineRun"} {
		s.apply(t, fmt.Sprintf(tektonKinds, kind, strings.ToLower(kind), "Namespaced"))
	}
	s.apply(t, fmt.Sprintf(tektonKinds, "ClusterTask", "clustertask", "Cluster"))
}

// images is a registry without TLS.
func images(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// push puts a bundle into the registry and returns its digest.
func push(t *testing.T, host, path string, layers ...bundletest.Layer) string {
	t.Helper()
	r, err := bundletest.NewRegistry(host, path, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := r.Push(t.Context(), "v1", layers...)
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// hub serves pages of hubs by path.
func hub(t *testing.T, pages map[string]any) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch page := pages[r.URL.Path].(type) {
		case nil:
			http.NotFound(w, r)
		case http.HandlerFunc:
			page(w, r)
		default:
			_ = json.NewEncoder(w).Encode(page)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// endless writes until the client has had enough.
func endless(w http.ResponseWriter, r *http.Request) {
	block := bytes.Repeat([]byte("x"), 1<<16)
	for r.Context().Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// drip writes a byte at a time for as long as the client waits.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for r.Context().Err() == nil {
		_, _ = w.Write([]byte("#"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
		}
	}
}

// demand lets only those in who have the header.
func demand(name, value string) gittest.Intercept {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(name) == value {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}
