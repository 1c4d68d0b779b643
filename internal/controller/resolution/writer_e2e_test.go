//go:build e2e

package resolution

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/resolution/v1beta1"
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
	clock := clocktesting.NewFakeClock(time.Now())
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if clock.HasWaiters() {
				pauses.Add(1)
				clock.Step(lastWait)
			}
		}
	}()
	defer close(done)
	w := writer{
		client: client(t, cfg), metrics: NewMetrics(prometheus.NewRegistry()), clock: clock, resolver: "git",
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
