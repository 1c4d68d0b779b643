package resolvers_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
)

// fault is one way in which a remote fails, and what a request is told of it.
type fault struct {
	what string
	// serve answers requests by HTTP, raw a connection. Without either nothing listens.
	serve http.HandlerFunc
	raw   func(net.Conn)
	tls   func(*httptest.Server)

	reason resolve.Reason
	// again: it may pass, so that it is tried again.
	again bool
	// later: it may pass, but not within the time of the request.
	later bool
	// text is a part of the message.
	text string
	// not are the ways that cannot tell it from an answer.
	not []string
}

func (f *fault) transient() bool { return f.again || f.later }

// timeout is long enough for a machine that is busy, where nothing has to be waited for.
func (f *fault) timeout() string {
	if f.reason == resolve.ReasonTimedOut {
		return "500ms"
	}
	return "1m"
}

const redirects = "redirects without end"

const secretOfTheServer = "secret-of-the-server"

func answer(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, secretOfTheServer, status)
	}
}

// garbage is what no protocol has.
const garbage = "\x00\x1b[31m%s%n garbage\r\n\r\n"

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

func remoteFaults() []fault {
	drip := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000ff00")
		for tick := time.NewTicker(20 * time.Millisecond); r.Context().Err() == nil; {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				tick.Stop()
			}
		}
	}
	return []fault{
		{what: "does not listen", reason: resolve.ReasonUnavailable, again: true},
		{what: "answers nothing", serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, reason: resolve.ReasonTimedOut},
		{what: "takes the connection and says nothing", raw: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, reason: resolve.ReasonTimedOut},
		{what: "answers a byte at a time", serve: drip, reason: resolve.ReasonTimedOut},
		{what: "resets the connection", raw: reset, reason: resolve.ReasonUnavailable, again: true},
		{what: "closes the connection", raw: func(net.Conn) {}, reason: resolve.ReasonUnavailable, again: true},
		{what: "breaks off in the middle", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = io.WriteString(w, "001e# service=git-upload-pack\n0000")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, reason: resolve.ReasonUnavailable, again: true},
		{what: "answers 429 and asks to come again in an hour", serve: answer(429, "Retry-After", "3600"), reason: resolve.ReasonUnavailable, later: true, text: "429"},
		{what: "answers 429", serve: answer(429), reason: resolve.ReasonUnavailable, again: true, text: "429"},
		{what: "answers 500", serve: answer(500), reason: resolve.ReasonUnavailable, again: true, text: "500"},
		{what: "answers 503", serve: answer(503), reason: resolve.ReasonUnavailable, again: true, text: "503"},
		{what: "answers 401", serve: answer(401), reason: resolve.ReasonDenied},
		{what: "answers 403", serve: answer(403), reason: resolve.ReasonDenied},
		{what: "answers 404", serve: answer(404), reason: resolve.ReasonNotFound},
		{what: "answers 418", serve: answer(418), reason: resolve.ReasonFailed},
		{what: "answers what is no protocol", raw: func(c net.Conn) { _, _ = io.WriteString(c, garbage) }, reason: resolve.ReasonFailed},
		{what: "answers with content of another form", serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, garbage)
		}, reason: resolve.ReasonFailed, not: []string{"http"}},
		{what: "answers with nothing in it", serve: func(http.ResponseWriter, *http.Request) {}, reason: resolve.ReasonFailed},
		{what: redirects, serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		}, reason: resolve.ReasonFailed},
		{what: "has a certificate of an unknown authority", serve: answer(500), tls: func(*httptest.Server) {}, reason: resolve.ReasonFailed, text: "certificate"},
		{what: "speaks TLS 1.1 at most", serve: answer(500), tls: func(s *httptest.Server) {
			s.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
		}, reason: resolve.ReasonFailed},
	}
}

// start serves the fault and returns its address, and how often it was asked.
func (f *fault) start(t *testing.T) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	if f.serve == nil {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if f.raw == nil {
			_ = l.Close()
			return l.Addr().String(), asked
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				asked.Add(1)
				go func() {
					defer conn.Close() //nolint:errcheck // the fault may have closed it
					f.raw(conn)
				}()
			}
		}()
		return l.Addr().String(), asked
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		f.serve(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if f.tls != nil {
		f.tls(s)
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), asked
}

// way is one way of a resolver to the network.
type way struct {
	name, resolver string
	config         map[string]string
	params         func(scheme, address string) []string
	// raw: it does not speak HTTP.
	raw bool
}

func ways() []way {
	return []way{
		{"git", "git", nil, func(scheme, a string) []string {
			return []string{"url", scheme + "://" + a + "/r.git", "pathInRepo", "task.yaml"}
		}, false},
		{"git by git://", "git", nil, func(_, a string) []string { return []string{"url", "git://" + a + "/r.git", "pathInRepo", "task.yaml"} }, true},
		{"git by the API", "git", map[string]string{"scm-type": "gitea", "server-url": "%s"}, func(string, string) []string {
			return []string{"org", "o", "repo", "r", "pathInRepo", "task.yaml"}
		}, false},
		{"bundles", "bundles", map[string]string{"plain-http-registries": "%h"}, func(_, a string) []string {
			return []string{"bundle", a + "/team/bundle:v1", "name", "task", "kind", "task"}
		}, false},
		{"http", "http", map[string]string{"allow-plain-http": "true"}, func(scheme, a string) []string {
			return []string{"url", scheme + "://" + a + "/task.yaml"}
		}, false},
		{"hub", "hub", map[string]string{"allow-plain-http": "true", "artifact-hub-urls": "[%s]"}, func(string, string) []string {
			return []string{"name", "task", "version", "1.0.0"}
		}, false},
	}
}

func TestEachResolverOfTheNetworkHasAWay(t *testing.T) {
	for _, e := range resolvers.Table() {
		if e.Name == "cluster" || e.Name == "dir" {
			continue // the API server, and files
		}
		if !slices.ContainsFunc(ways(), func(w way) bool { return w.resolver == e.Name }) {
			t.Errorf("no way of the resolver %s is tried with faults of the network", e.Name)
		}
	}
}

func runnerOf(t *testing.T, name string, config map[string]string) *resolve.Runner {
	t.Helper()
	for _, e := range resolvers.Table() {
		if e.Name != name {
			continue
		}
		made, err := e.New(t.Context(), resolvers.Env{Clock: resolve.SystemClock(), Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		list, err := resolve.NewRegistry(made)
		if err != nil {
			t.Fatal(err)
		}
		runner, err := resolve.NewRunner(resolve.Options{Resolvers: list})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			runner.Wait()
			if err := resolve.CloseAll([]resolve.Resolver{made}); err != nil {
				t.Error(err)
			}
		})
		if err := runner.Configure(name, config); err != nil {
			t.Fatal(err)
		}
		return runner
	}
	t.Skipf("this build has no resolver %s", name)
	return nil
}

func ask(name string, params []string) *resolve.Query {
	q := &resolve.Query{Resolver: name, Namespace: "team"}
	for i := 0; i < len(params); i += 2 {
		q.Params = append(q.Params, resolve.Given{Name: params[i], Value: resolve.Value{Type: resolve.String, String: params[i+1]}})
	}
	return q
}

// Every way to the network ends in the same reason for the same fault, tells what went wrong and with whom, and nothing that the
// server said. docs/resolution-faults.md has the list.
func TestFaultsOfRemotes(t *testing.T) {
	for _, w := range ways() {
		for _, f := range remoteFaults() {
			if w.raw && f.serve != nil || slices.Contains(f.not, w.name) {
				continue
			}
			t.Run(w.name+"/"+f.what, func(t *testing.T) {
				t.Parallel()
				address, asked := f.start(t)
				scheme := "http"
				if f.tls != nil {
					scheme = "https"
				}
				config := map[string]string{"allowed-addresses": "127.0.0.1", "backoff-duration": "1ms", "fetch-timeout": f.timeout()}
				for k, v := range w.config {
					config[k] = strings.NewReplacer("%s", scheme+"://"+address, "%h", address).Replace(v)
				}
				if f.tls != nil {
					delete(config, "plain-http-registries")
				}
				_, err := runnerOf(t, w.resolver, config).Resolve(t.Context(), ask(w.resolver, w.params(scheme, address)))
				failure, ok := errors.AsType[*resolve.Error](err)
				if !ok {
					t.Fatalf("it ends with %v", err)
				}
				if failure.Reason != f.reason || failure.Transient != f.transient() || !strings.Contains(failure.Msg, f.text) {
					t.Errorf("%s (may pass: %v): %s; want %s (%v) and %q", failure.Reason, failure.Transient, failure.Msg, f.reason, f.transient(), f.text)
				}
				if !strings.Contains(failure.Msg, address) {
					t.Errorf("the message does not name %s: %s", address, failure.Msg)
				}
				if strings.Contains(failure.Msg, secretOfTheServer) || strings.ContainsAny(failure.Msg, "\x00\x1b\r\n") {
					t.Errorf("the message has what the server said: %q", failure.Msg)
				}
				// A hub without the version is asked for the versions that it has.
				again := f.again || w.resolver == "hub" && f.reason == resolve.ReasonNotFound
				if n := asked.Load(); f.serve != nil && f.tls == nil && (n >= 2) != again && w.name != "bundles" && f.what != redirects {
					t.Errorf("the server was asked %d times", n)
				}
			})
		}
	}
}

func TestTheFaultsOfRemotesAreDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("| the remote | reason | tried again |\n| --- | --- | --- |\n")
	for _, f := range remoteFaults() {
		fmt.Fprintf(&table, "| %s | `%s` | %s |\n", f.what, f.reason, map[bool]string{true: "yes", false: "no"}[f.again])
	}
	text, err := os.ReadFile("../../docs/resolution-faults.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n\n"+table.String()+"\n") {
		t.Errorf("docs/resolution-faults.md does not have this table:\n%s", table.String())
	}
}
