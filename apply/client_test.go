package apply

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// busyServer refuses a number of requests, as a kube-apiserver does whose priority level is full, or a proxy before it.
func busyServer(t *testing.T, refusals int64, code int, retryAfter string) (*Applier, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) <= refusals {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			http.Error(w, "busy", code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1"}`))
	}))
	t.Cleanup(h.Close)
	a, err := New(&rest.Config{Host: h.URL}, Options{Namespace: "default", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return a, &requests
}

func TestARequestThatABusyServerPutsOffIsMadeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		refusals   int64
		code       int
		retryAfter string
	}{
		"more often than a connection may break": {maxTries + 1, http.StatusTooManyRequests, ""},
		"when the server says":                   {1, http.StatusTooManyRequests, "1"},
		"by a proxy":                             {2, http.StatusServiceUnavailable, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, requests := busyServer(t, test.refusals, test.code, test.retryAfter)
			begun := time.Now()
			if _, err := a.client.fetchObject(t.Context(), "/api/v1/namespaces/default/configmaps/x"); err != nil {
				t.Fatal(err)
			}
			if got := requests.Load(); got != test.refusals+1 {
				t.Errorf("%d requests, want %d", got, test.refusals+1)
			}
			if test.retryAfter != "" && time.Since(begun) < time.Second {
				t.Error("it came again earlier than the server asked")
			}
		})
	}
}

func TestARequestEndsWithItsContextHoweverBusyTheServerIs(t *testing.T) {
	a, _ := busyServer(t, 1<<30, http.StatusTooManyRequests, "3600")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.client.fetchObject(ctx, "/api/v1/namespaces/default/configmaps/x"); err == nil {
		t.Error("there is an answer")
	}
}
