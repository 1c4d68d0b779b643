package resolution

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	readyPath = "/readyz"
	// askReady is the pause after an API server said that it is not ready.
	askReady = 100 * time.Millisecond
	// believeAll is the time for which refusals are believed at once if the API server never reports that it is ready.
	believeAll = 10 * time.Minute
	// maxRefusal bounds the part of a refusal that is read, in bytes.
	maxRefusal = 64 << 10
)

// Disbelieve returns a wrapper for the transport to an API server, for rest.Config.Wrap. If the API server refuses a read, the
// wrapper repeats it when the API server says that it is ready. An API server that has just started refuses everybody until it has
// read its roles (k8s.io/apiserver, the check informer-sync of /readyz). That must not be reported as a lack of rights. The wait
// ends with the read's context and after some seconds.
func Disbelieve(c clock.Clock) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &disbelieving{next: next, clock: c} }
}

type disbelieving struct {
	next  http.RoundTripper
	clock clock.Clock

	mu sync.Mutex
	// mute is when the API server was last found not to report whether it is ready.
	mute time.Time
}

// WrappedRoundTripper lets client-go find the transport (k8s.io/apimachinery/pkg/util/net, RoundTripperWrapper).
func (d *disbelieving) WrappedRoundTripper() http.RoundTripper { return d.next }

// RoundTrip implements [http.RoundTripper].
func (d *disbelieving) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusForbidden || !isReadOnly(r) || !d.waitUntilReady(r) {
		return answer, err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxRefusal)
	_ = answer.Body.Close()
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return d.next.RoundTrip(again)
}

// isReadOnly reports whether a call only reads, and can be made again: reviews of access are reads as well.
func isReadOnly(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet:
		return r.URL.Path != readyPath
	case http.MethodPost:
		return strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") && r.GetBody != nil
	}
	return false
}

// waitUntilReady waits until the API server says that it is ready; false if it does not.
func (d *disbelieving) waitUntilReady(r *http.Request) bool {
	start := d.clock.Now()
	d.mu.Lock()
	mute := !d.mute.IsZero() && start.Sub(d.mute) < believeAll
	d.mu.Unlock()
	if mute {
		return false
	}
	for {
		if d.saysReady(r) {
			return true
		}
		if d.clock.Since(start) > disbelief {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.mute = d.clock.Now()
			return false
		}
		select {
		case <-r.Context().Done():
			return false
		case <-d.clock.After(askReady):
		}
	}
}

// saysReady asks with the credentials of the call.
func (d *disbelieving) saysReady(r *http.Request) bool {
	ctx, cancel := context.WithTimeout(r.Context(), disbelief)
	defer cancel()
	ask := (&http.Request{
		Method: http.MethodGet, Host: r.Host, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		URL:    &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: readyPath},
		Header: http.Header{"User-Agent": r.Header["User-Agent"], "Authorization": r.Header["Authorization"]},
	}).WithContext(ctx)
	answer, err := d.next.RoundTrip(ask)
	if err != nil {
		return false
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxRefusal)
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
