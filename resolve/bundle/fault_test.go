package bundle

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
)

type fixedClock struct{ now time.Time }

func (c fixedClock) Now() time.Time                       { return c.now }
func (c fixedClock) After(time.Duration) <-chan time.Time { return nil }

func TestFaultsOfRegistries(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	status := func(code int, retryAfter string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			http.Error(w, `{"errors":[{"code":"NAME_UNKNOWN","message":"not found"}]}`, code)
		}
	}
	reset := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	truncated := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, "begin")
		panic(http.ErrAbortHandler)
	}
	garbage := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "\x00\x01garbage%s\r\n\r\n")
		_ = conn.Close()
	}
	type fault struct {
		name      string
		do        http.HandlerFunc
		want      resolve.Reason
		transient bool
		after     time.Duration
	}
	for _, tt := range []fault{
		{"429", status(429, ""), resolve.ReasonUnavailable, true, 0},
		{"429 with seconds", status(429, "7"), resolve.ReasonUnavailable, true, 7 * time.Second},
		{"429 with a date", status(429, now.Add(time.Minute).Format(http.TimeFormat)), resolve.ReasonUnavailable, true, time.Minute},
		{"429 with a date that has been", status(429, now.Add(-time.Minute).Format(http.TimeFormat)), resolve.ReasonUnavailable, true, 0},
		{"429 with years", status(429, "2000000000"), resolve.ReasonUnavailable, true, time.Hour},
		{"429 with nonsense", status(429, "-1"), resolve.ReasonUnavailable, true, 0},
		{"503 with seconds", status(503, "3"), resolve.ReasonUnavailable, true, 3 * time.Second},
		{"500", status(500, ""), resolve.ReasonUnavailable, true, 0},
		{"502", status(502, ""), resolve.ReasonUnavailable, true, 0},
		{"504", status(504, ""), resolve.ReasonUnavailable, true, 0},
		{"408", status(408, ""), resolve.ReasonUnavailable, true, 0},
		{"401", status(401, ""), resolve.ReasonDenied, false, 0},
		{"403", status(403, ""), resolve.ReasonDenied, false, 0},
		{"404", status(404, ""), resolve.ReasonNotFound, false, 0},
		{"418", status(418, ""), resolve.ReasonFailed, false, 0},
		{"a reset", reset, resolve.ReasonUnavailable, true, 0},
		{"an end in the middle", truncated, resolve.ReasonUnavailable, true, 0},
		{"garbage", garbage, resolve.ReasonFailed, false, 0},
	} {
		for _, where := range []string{"/v2/", "/v2/team/bundle/manifests/v1", "/v2/team/bundle/blobs/"} {
			t.Run(tt.name+" at "+where, func(t *testing.T) {
				if where == "/v2/" && (tt.name == "401" || strings.HasPrefix(tt.name, "an end")) {
					t.Skip("the library asks on")
				}
				f := newFixture(t)
				f.transport.ForceAttemptHTTP2 = false
				f.push(bundletest.Task("a", yamlA))
				n := 0
				f.front = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != where && (where == "/v2/" || !strings.HasPrefix(r.URL.Path, where)) {
						return false
					}
					n++
					tt.do(w, r)
					return true
				}
				_, err := f.resolve(request(), Options{Clock: fixedClock{now}})
				e := failure(t, err)
				if e.Reason != tt.want || e.Transient != tt.transient || e.RetryAfter != tt.after {
					t.Errorf("reason %q, transient %v, after %v; want %q, %v, %v: %v", e.Reason, e.Transient, e.RetryAfter, tt.want, tt.transient, tt.after, e)
				}
				// The framework retries. net/http itself tries once more where a kept connection turns out to be dead.
				if n > 2 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
}

func TestTLS(t *testing.T) {
	for _, tt := range []struct {
		name  string
		set   func(t *testing.T, f *fixture)
		want  resolve.Reason
		retry bool
		text  string
	}{
		{"an authority that is not trusted", func(_ *testing.T, f *fixture) {
			f.transport.TLSClientConfig.RootCAs = newNetwork(f.t).transport.TLSClientConfig.RootCAs
		}, resolve.ReasonFailed, false, "not signed by a known CA"},
		{"another name", func(_ *testing.T, f *fixture) { f.transport.TLSClientConfig.ServerName = "a.example.org" }, resolve.ReasonFailed, false, "is for another host"},
		{"no TLS", func(_ *testing.T, f *fixture) {
			f.servePlain(regHost+":443", http.NotFoundHandler())
		}, resolve.ReasonFailed, false, "does not speak TLS"},
		{"no such host", func(_ *testing.T, f *fixture) { delete(f.addrs, regHost+":443") }, resolve.ReasonNotFound, false, "DNS"},
		{"nobody listens", func(t *testing.T, f *fixture) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			f.route(regHost+":443", l.Addr().String())
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}, resolve.ReasonUnavailable, true, "refuses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.push(bundletest.Task("a", yamlA))
			f.transport.CloseIdleConnections()
			tt.set(t, f)
			_, err := f.resolve(request())
			if e := failure(t, err); e.Reason != tt.want || e.Transient != tt.retry || !strings.Contains(e.Msg, tt.text) {
				t.Errorf("reason %q, transient %v: %v", e.Reason, e.Transient, e)
			}
		})
	}
}

// What the transport refuses, for instance an address, is told as the transport says it.
func TestRefusalsOfTheTransportPass(t *testing.T) {
	refuse := func(*http.Request) (*http.Response, error) {
		return nil, resolve.Errorf(resolve.ReasonForbidden, "the address 10.0.0.1 is not allowed")
	}
	_, err := New(Options{transport: roundTrip(refuse)}).Resolve(t.Context(), request())
	if e := failure(t, err); e.Reason != resolve.ReasonForbidden || e.Transient || !strings.Contains(e.Msg, "10.0.0.1") {
		t.Errorf("%q: %v", e.Reason, e)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHangingRegistriesEndWithTheContext(t *testing.T) {
	for _, where := range []string{"/v2/", "/manifests/", "/blobs/"} {
		for _, deadline := range []bool{false, true} {
			f := newFixture(t)
			f.push(bundletest.Task("a", yamlA))
			entered, left := make(chan struct{}, 4), make(chan struct{}, 4)
			f.front = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, where) || (where == "/v2/" && r.URL.Path != where) {
					return false
				}
				_ = http.NewResponseController(w).Flush()
				entered <- struct{}{}
				<-r.Context().Done()
				left <- struct{}{}
				return true
			}
			cause := context.Canceled
			ctx, cancel := context.WithCancel(t.Context())
			if deadline {
				cause = context.DeadlineExceeded
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			}
			done := make(chan error, 1)
			go func() {
				_, err := New(Options{transport: f.transport}).Resolve(ctx, request())
				done <- err
			}()
			<-entered
			if !deadline {
				cancel()
			}
			err := <-done
			cancel()
			want := map[error]resolve.Reason{context.Canceled: resolve.ReasonCanceled, context.DeadlineExceeded: resolve.ReasonTimedOut}[cause]
			if e := failure(t, err); e.Reason != want || !errors.Is(err, cause) {
				t.Errorf("%s: reason %q, want %q: %v", where, e.Reason, want, err)
			}
			<-left // the request has ended at the server as well
		}
	}
}
