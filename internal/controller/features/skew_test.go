package features

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/skew"
)

// TestReportsAreNotJudgedByTheirAgeWithoutTheAPIServer: nobody can renew a report then. Once it is back, who does not renew is
// forgotten.
func TestReportsAreNotJudgedByTheirAgeWithoutTheAPIServer(t *testing.T) {
	var answers, questions atomic.Int32 // the status of answers; 0: the connection breaks
	answers.Store(http.StatusNotFound)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		questions.Add(1)
		if code := int(answers.Load()); code != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}`)) // who does not listen has given up
			return
		}
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close() // broken off, as it is to be
		}
	}))
	defer server.Close()
	api, err := newClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := clocktesting.NewFakeClock(usageStart)
	w := &world{Cluster: Cluster{Clock: c, Log: slog.New(slog.DiscardHandler)}, api: api, changed: func(string) {}}
	see := func(name string) {
		w.recordReport(nil, &v1alpha1.FeatureReport{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: v1alpha1.FeatureReportSpec{
			Component: "demo", Process: name, RenewTime: metav1.NewTime(c.Now()), LeaseDurationSeconds: 9,
		}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { w.keepContact(ctx) })
	for !c.HasWaiters() {
		runtime.Gosched()
	}
	// pass lets time pass, tick by tick; each is taken before the next comes, and each question is answered.
	pass := func(d time.Duration, lost bool) {
		t.Helper()
		for range d / contactEvery {
			c.Step(contactEvery)
		}
		deadline, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for tick := time.NewTicker(time.Millisecond); ; {
			w.reported.Lock()
			is := w.follower.Lost()
			w.reported.Unlock()
			if is == lost {
				tick.Stop()
				return
			}
			select {
			case <-deadline.Done():
				t.Fatalf("lost is %t", is)
			case <-tick.C:
				c.Step(time.Millisecond) // a tick that came while a question was open is lost
			}
		}
	}
	counts := func(want int) {
		t.Helper()
		n := 0
		for _, r := range w.reportsOf("demo") {
			if skew.Counts(&r, c.Now()) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d reports count, want %d", n, want)
		}
	}
	see("a")
	see("b")
	answers.Store(0)
	pass(8500*time.Millisecond, true)
	counts(2)
	pass(time.Minute, true)
	counts(2)
	answers.Store(http.StatusNotFound)
	pass(contactEvery, false)
	counts(2)
	see("a")
	pass(8*time.Second, false)
	counts(2)
	pass(2*time.Second, false)
	counts(0)
	if questions.Load() == 0 {
		t.Error("nobody was asked")
	}
}
