//go:build e2e

package resolution

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/resolution/v1beta1"
	versionedv1beta1 "sluice.dev/client/versioned/typed/resolution/v1beta1"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A conflict that nothing newer is known of is met again by the next try, so that there is a pause before it.
func TestE2EAWriteThatMeetsConflictsPauses(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	requests := client(t, shared.Get(t).Config()).ResolutionV1beta1().ResolutionRequests(ns)
	stale, err := requests.Create(t.Context(), request(ns, "r", "git"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := requests.Patch(t.Context(), "r", merge, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	const broken = 5
	var patches, gets, pauses atomic.Int64
	cfg := rest.CopyConfig(in.account(t, "sluice-system", "sluice-resolver-git"))
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodPatch:
				patches.Add(1)
			case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/r"):
				if gets.Add(1) <= broken {
					return nil, errors.New("the connection is gone")
				}
			}
			return next.RoundTrip(r)
		})
	})
	fake := clocktesting.NewFakeClock(time.Now())
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if fake.HasWaiters() {
				pauses.Add(1)
				fake.Step(lastWait)
			}
		}
	}()
	defer close(done)
	w := writer{
		client: client(t, cfg), metrics: NewMetrics(prometheus.NewRegistry()), clock: fake, resolver: "git",
		lookup: func() *v1beta1.ResolutionRequest { return stale },
	}
	wrote, err := w.writeStatus(t.Context(), stale, statusFields{Conditions: succeededCondition(metav1.ConditionTrue, "", "", time.Now()), data: []byte("x")}, "result")
	if !wrote || err != nil {
		t.Fatalf("%v, %v", wrote, err)
	}
	if patches.Load() != broken+2 || pauses.Load() != broken {
		t.Errorf("%d writes with %d pauses, want %d and %d", patches.Load(), pauses.Load(), broken+2, broken)
	}
}

// Tekton's controller writes to a request while its content is on the way. That makes nobody send the content twice, and a request that
// has ended keeps its end.
func TestE2EALargeContentIsWrittenOnce(t *testing.T) {
	in := install(t)
	ns := in.namespace(t)
	admin := client(t, shared.Get(t).Config()).ResolutionV1beta1().ResolutionRequests(ns)
	account := in.account(t, "sluice-system", "sluice-resolver-git")
	resolver := client(t, account).ResolutionV1beta1().ResolutionRequests(ns)
	waiting := `{"status":{"conditions":[{"type":"Succeeded","status":"Unknown","reason":"InProgress","message":"m","lastTransitionTime":"2026-01-02T15:04:05Z"}],"observedGeneration":1,"data":"","refSource":{}}}`
	moved := `{"metadata":{"annotations":{"moved":"yes"}}}`
	for name, test := range map[string]struct {
		known bool // the cache has the condition
		// then happens to the request while the resolver is at work.
		then    func(t *testing.T)
		wrote   bool
		patches int64
	}{
		"another write":       {true, func(t *testing.T) { sendPatch(t, admin, "another-write", moved, "") }, true, 1},
		"the first condition": {false, func(t *testing.T) { sendPatch(t, resolver, "the-first-condition", waiting, "status") }, true, 1},
		"an end": {true, func(t *testing.T) {
			sendPatch(t, resolver, "an-end", strings.Replace(waiting, "Unknown", "False", 1), "status")
		}, false, 1},
		"a successor": {true, func(t *testing.T) {
			if err := admin.Delete(t.Context(), "a-successor", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.Create(t.Context(), request(ns, "a-successor", "git"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			sendPatch(t, resolver, "a-successor", waiting, "status")
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(name, " ", "-")
			stale, err := admin.Create(t.Context(), request(ns, id, "git"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if test.known {
				sendPatch(t, resolver, id, waiting, "status")
				if stale, err = admin.Get(t.Context(), id, metav1.GetOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			test.then(t)
			var patches atomic.Int64
			cfg := rest.CopyConfig(account)
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPatch {
						patches.Add(1)
					}
					return next.RoundTrip(r)
				})
			})
			w := writer{
				client: client(t, cfg), metrics: NewMetrics(prometheus.NewRegistry()), clock: clock.RealClock{}, resolver: "git",
				lookup: func() *v1beta1.ResolutionRequest { return stale },
			}
			data := bytes.Repeat([]byte("x"), 600<<10)
			wrote, err := w.writeStatus(t.Context(), stale, statusFields{Conditions: succeededCondition(metav1.ConditionTrue, "", "", time.Now()), data: data, RefSource: &v1beta1.RefSource{}}, "result")
			if err != nil || wrote != test.wrote || patches.Load() != test.patches {
				t.Errorf("wrote %v (%v) with %d patches, want %v with %d", wrote, err, patches.Load(), test.wrote, test.patches)
			}
			now, err := admin.Get(t.Context(), id, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if has := now.Status.Data != ""; has != test.wrote {
				t.Errorf("the request has the content: %v", has)
			}
		})
	}
}

// sendPatch patches a request.
func sendPatch(t *testing.T, requests versionedv1beta1.ResolutionRequestInterface, name, patch string, subresources ...string) {
	t.Helper()
	if subresources[0] == "" {
		subresources = nil
	}
	if _, err := requests.Patch(t.Context(), name, merge, []byte(patch), metav1.PatchOptions{}, subresources...); err != nil {
		t.Fatal(err)
	}
}
