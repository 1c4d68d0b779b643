package gittest

import (
	"io"
	"log"
	"net/http"
	"net/http/cgi" //nolint:gosec // a server of tests, and Go is newer than the fault
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice.dev/internal/limit"
)

// maxRequest bounds what a client sends, in bytes.
const maxRequest = 64 << 20

// Intercept answers in place of the server if it returns true.
// It sees the request before it is read, and may wait, break the connection or answer something else.
type Intercept func(w http.ResponseWriter, r *http.Request) bool

// Server serves the repositories below a folder by smart HTTP, with git's own http-backend.
type Server struct {
	// Root is the folder.
	Root string
	// URL is the address, without a slash at its end.
	URL string
	// CA is the certificate of a server with TLS, in PEM.
	CA string
	// Requests counts all requests, Lookups those for refs, Fetches those for packs. Bytes counts the bytes of the answers.
	Requests, Lookups, Fetches, Bytes atomic.Int64
	// Version0: the server does not support version 2 of the protocol. Set it before the first request.
	Version0 bool

	mu        sync.Mutex
	intercept Intercept
}

// NewServer starts a server that ends with the test.
// Its root is a new folder, in which a test makes its repositories.
func NewServer(t testing.TB, withTLS bool) *Server {
	t.Helper()
	s := &Server{Root: t.TempDir()}
	var server *httptest.Server
	if withTLS {
		server = httptest.NewTLSServer(s)
		s.CA = PEM(server.Certificate().Raw)
	} else {
		server = httptest.NewServer(s)
	}
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Set intercepts all requests from now on; nil ends it.
func (s *Server) Set(i Intercept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = i
}

// counter counts the bytes of answers on their way.
type counter struct {
	http.ResponseWriter

	n *atomic.Int64
}

// Write implements [http.ResponseWriter].
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// ServeHTTP implements [http.Handler].
// It reads the whole request, because git's protocol says only in the body what is asked. Each request
// runs git once, as a CGI program.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Requests.Add(1)
	s.mu.Lock()
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	body, err := limit.ReadAll(r.Body, maxRequest)
	if err != nil {
		return
	}
	switch {
	case strings.Contains(string(body), "command=ls-refs"):
		s.Lookups.Add(1)
	case strings.Contains(string(body), "want "):
		s.Fetches.Add(1)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	r.ContentLength = int64(len(body))
	h := cgi.Handler{
		Path: "/usr/bin/env", Args: []string{"git", "http-backend"},
		Env:    []string{"GIT_PROJECT_ROOT=" + s.Root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
		Stderr: io.Discard, Logger: log.New(io.Discard, "", 0),
	}
	if v := r.Header.Get("Git-Protocol"); v != "" && !s.Version0 {
		h.Env = append(h.Env, "GIT_PROTOCOL="+v)
	}
	h.ServeHTTP(counter{w, &s.Bytes}, r)
}
