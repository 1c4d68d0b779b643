package process

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice.dev/tools/clustertest/nodeless"
)

// TestNoCallOfAWebhookIsLostWhenItsProcessIsReplaced has clients, with connections that they keep as the API server does, call a
// server that is replaced again and again. Without draining, about every second replacement loses a call.
func TestNoCallOfAWebhookIsLostWhenItsProcessIsReplaced(t *testing.T) {
	t.Parallel()
	const replacements, calls, users = 60, 20, 6
	some := httptest.NewTLSServer(http.NotFoundHandler())
	secure := &tls.Config{Certificates: some.TLS.Certificates, MinVersion: tls.VersionTLS12}
	roots := some.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:errcheck // httptest documents the type
	some.Close()

	var current atomic.Pointer[string]
	// A connection that nobody uses for drainTime is closed by the server, and a call that takes it at this very moment is lost. On a busy
	// machine some of the 25 are not used for so long, so the client gives them up earlier.
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 25, IdleConnTimeout: drainTime / 2,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", *current.Load())
		},
	}
	client := &http.Client{Transport: transport}
	var served atomic.Int64
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		served.Add(1)
	})

	var processes sync.WaitGroup
	start := func() (end context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		ready := make(chan struct{})
		address, err := nodeless.FreeAddress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		processes.Go(func() {
			if err := ListenUntilDone(ctx, address, handler, secure, log.New(io.Discard, "", 0), func() { close(ready) }); err != nil {
				t.Error(err)
			}
		})
		<-ready
		current.Store(&address)
		return cancel
	}
	end := start()
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range users {
		callers.Go(func() {
			for ctx.Err() == nil {
				if err := call(t.Context(), client); err != nil {
					t.Errorf("a call is lost: %v", err)
				}
			}
		})
	}
	for range replacements {
		next := start()
		for before := served.Load(); served.Load() < before+calls; {
			if err := call(t.Context(), client); err != nil {
				t.Errorf("a call is lost: %v", err)
			}
		}
		end()
		end = next
	}
	cancel()
	callers.Wait()
	end()
	transport.CloseIdleConnections()
	processes.Wait()
}

func call(ctx context.Context, client *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/", strings.NewReader(strings.Repeat("x", 5000)))
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}
