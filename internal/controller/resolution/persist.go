package resolution

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// After an outage of the API server, a watch should be there again within seconds, since requests wait for it.

// lastWatchWait bounds the pause between two attempts to begin a watch.
const lastWatchWait = 3 * time.Second

// Persist returns a wrapper for the transport to an API server, for rest.Config.Wrap. If the API server does not answer the begin of a
// watch, the wrapper tries again, with a pause of a few seconds at most, until the context of the watch ends. An informer of
// client-go pauses up to a minute after an outage (k8s.io/client-go/tools/cache, defaultBackoffMax), and takes no other value.
func Persist(c clock.Clock, log *slog.Logger) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &persistent{next: next, clock: c, log: log} }
}

type persistent struct {
	next  http.RoundTripper
	clock clock.Clock
	log   *slog.Logger

	mu sync.Mutex
	// since is the begin of an outage, zero if there is none.
	since time.Time
}

// WrappedRoundTripper lets client-go find the transport (k8s.io/apimachinery/pkg/util/net, RoundTripperWrapper).
func (p *persistent) WrappedRoundTripper() http.RoundTripper { return p.next }

// RoundTrip implements [http.RoundTripper].
func (p *persistent) RoundTrip(r *http.Request) (*http.Response, error) {
	watch := r.URL.Query().Get("watch")
	if r.Method != http.MethodGet || watch != "true" && watch != "1" {
		return p.next.RoundTrip(r)
	}
	for wait := firstWait; ; wait = min(2*wait, lastWatchWait) {
		answer, err := p.next.RoundTrip(r.Clone(r.Context()))
		switch {
		case err == nil && !isOutage(answer.StatusCode):
			p.noteAnswer()
			return answer, nil
		case err != nil && r.Context().Err() != nil:
			return nil, context.Cause(r.Context())
		}
		p.noteOutage(answer, err)
		if err == nil {
			_, _ = io.CopyN(io.Discard, answer.Body, maxRefusal)
			_ = answer.Body.Close()
		}
		// Many watches begin again at once.
		pause := wait/2 + rand.N(wait/2) //nolint:gosec // no secret
		if err := pauseFor(r.Context(), p.clock, pause); err != nil {
			return nil, err
		}
	}
}

// isOutage reports whether an answer means that the API server does not work at present, or has too much to do.
func isOutage(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// noteOutage logs the begin of an outage.
func (p *persistent) noteOutage(answer *http.Response, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		return
	}
	p.since = p.clock.Now()
	if err == nil {
		p.log.Warn("the API server does not answer watches", "status", answer.Status)
	} else {
		p.log.Warn("the API server does not answer watches", "error", err)
	}
}

// noteAnswer logs the end of an outage.
func (p *persistent) noteAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		p.log.Info("the API server answers watches again", "after", p.clock.Since(p.since).Round(time.Second))
		p.since = time.Time{}
	}
}
