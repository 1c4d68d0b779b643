package bundle

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"sluice.dev/internal/limit"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// The library for registries knows tokens, redirects and both manifests. It does not bound what a registry sends, and its errors do
// not say whether the network has failed. The guard in this file does both, as the transport under the library.

const (
	// maxExchanges bounds the HTTP requests for one resource, redirects included. The registry library follows any number.
	maxExchanges = 100
	// maxErrorBody bounds the body of an error answer.
	maxErrorBody = 16 << 10
)

// guard is between the registry library and the network, for one request. It refuses plain HTTP, and bounds the number and the size
// of reads. It also keeps information that the library would lose: whether an error is one of the network, and Retry-After.
type guard struct {
	inner http.RoundTripper
	plain map[string]bool
	max   int64
	clock resolve.Clock // nil: dates in Retry-After are ignored
	count atomic.Int32
}

// connError is an error of the network, not of the protocol above it.
type connError struct {
	err  error
	host string
}

// noTLS reports whether the other side does not use TLS.
func (e *connError) noTLS() bool {
	_, other := errors.AsType[tls.RecordHeaderError](e.err)
	return other || errors.Is(e.err, http.ErrSchemeMismatch)
}

// plainError says why plain HTTP is refused for a host. The registry library tries it, after https, for hosts that it considers
// local.
type plainError struct{ host string }

// Error implements error.
func (e *plainError) Error() string { return "plain HTTP is not allowed" }

// errNoTLS replaces the error of a host that refuses TLS and may be used over plain HTTP.
var errNoTLS = errors.New("no TLS")

// Error implements error.
func (e *connError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *connError) Unwrap() error { return e.err }

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.sendRequest(req)
	if err != nil {
		return nil, err
	}
	return g.followPages(req, resp)
}

// sendRequest sends one request.
func (g *guard) sendRequest(req *http.Request) (*http.Response, error) {
	if g.count.Add(1) > maxExchanges {
		return nil, failf("the registry asks for more than %d requests, redirects included", maxExchanges)
	}
	switch req.URL.Scheme {
	case "https":
	case "http":
		if !g.plain[strings.ToLower(req.URL.Host)] {
			return nil, &plainError{req.URL.Host}
		}
	default:
		return nil, resolve.Errorf(resolve.ReasonForbidden, "the registry leads to a URL of the scheme %s", cleanText(req.URL.Scheme))
	}
	resp, err := g.inner.RoundTrip(req)
	if err != nil {
		failed := &connError{err, req.URL.Host}
		if failed.noTLS() && g.plain[strings.ToLower(req.URL.Host)] {
			return nil, errNoTLS
		}
		return nil, failed
	}
	switch s := resp.StatusCode; {
	case s == http.StatusRequestTimeout || s == http.StatusTooManyRequests || s >= 500:
		_ = resp.Body.Close()
		busy := resolve.Transientf("the registry %s answers %d %s", req.URL.Host, s, http.StatusText(s))
		busy.RetryAfter, _ = netguard.RetryAfter(resp.Header, g.clock)
		return nil, busy
	case s >= 400:
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	case resp.ContentLength > g.max:
		_ = resp.Body.Close()
		return nil, tooLargef("the registry announces %d bytes; at most %d are allowed", resp.ContentLength, g.max)
	default:
		resp.Body = limit.Body(&peerBody{resp.Body, req.URL.Host}, g.max, errTooMuch)
	}
	return resp, nil
}

// errTooMuch is the error of a body that is larger than allowed.
var errTooMuch = fmt.Errorf("%w: the registry sends more than is allowed", limit.ErrTooLarge)

// peerBody marks errors of the network.
type peerBody struct {
	io.ReadCloser

	host string
}

// Read implements [io.Reader].
func (b *peerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &connError{err, b.host}
	}
	return n, err
}
