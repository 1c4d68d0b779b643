package features

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"sluice.dev/feature"
)

// TestAnAPIServerThatDoesNotAnswerHoldsNobodyUp: who asks for what is known already does not wait, and who waits can be stopped.
func TestAnAPIServerThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	asked, over := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(func() { close(over); s.Close() })
	b := &builtIns{discovery: discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: s.URL}), clock: clock.RealClock{}, groups: map[string]*builtInGroup{
		"apps": {asked: time.Now().Add(time.Hour), resources: map[string][]feature.Version{"deployments": {{Name: "v1"}}}},
	}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.findVersions(ctx, "other.dev", "things", time.Time{})
		done <- err
	}()
	<-asked
	if v, err := b.findVersions(t.Context(), "apps", "deployments", time.Time{}); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("who was stopped got %v", err)
	}
}
