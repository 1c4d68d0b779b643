package httpfile_test

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/resolve/httpfile"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/resolvetest"
)

// secrets are those of namespace default.
type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if data, ok := s[namespace+"/"+name]; ok {
		return data, nil
	}
	return nil, resolve.Errorf(resolve.ReasonDenied, "the secret %q cannot be read", name)
}

const content = "kind: Task\n"

func server(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch r.URL.Path {
		case "/task.yaml":
			_, _ = io.WriteString(w, content)
		case "/basic":
			if user != "me" || password != "hunter2" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = io.WriteString(w, content)
		case "/bearer":
			if r.Header.Get("Authorization") != "Bearer hunter2" {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, content)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/busy":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/empty":
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/hang":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestConformance(t *testing.T) {
	s := server(t)
	h := sha512.Sum512([]byte(content))
	h2 := sha256.Sum256([]byte(content))
	ok := func(name string, params map[string]string) resolvetest.Request {
		return resolvetest.Request{Name: name, Params: params, Data: []byte(content), Digest: map[string]string{"sha256": hex.EncodeToString(h2[:])}}
	}
	bad := func(name string, why resolve.Reason, transient bool, params map[string]string) resolvetest.Failure {
		return resolvetest.Failure{Request: resolvetest.Request{Name: name, Params: params}, Reason: why, Transient: transient}
	}
	digest := "sha256:" + hex.EncodeToString(h2[:])
	hang := resolvetest.Request{Name: "hang", Params: map[string]string{"url": s.URL + "/hang"}}
	resolvetest.Run(t, resolvetest.Case{
		Resolver: httpfile.New(netguard.Options{Allow: []string{s.Listener.Addr().String()}}),
		Config:   map[string]string{"allow-plain-http": "true"},
		Secrets:  secrets{"default/pass": {"password": []byte("hunter2\n"), "lines": []byte("hunter2\r\nX: y")}, "default/tok": {"token": []byte("hunter2")}, "default/bound": {"token": []byte("hunter2"), resolve.SecretHosts: []byte(s.Listener.Addr().String())}, "default/elsewhere": {"token": []byte("hunter2"), resolve.SecretHosts: []byte("example.com")}, "other/pass": {"password": []byte("hunter2")}},
		Hidden:   []string{"hunter2", "secretquery"},
		Works: []resolvetest.Request{
			ok("plain", map[string]string{"url": s.URL + "/task.yaml"}),
			ok("with sha256", map[string]string{"url": s.URL + "/task.yaml", "digest": digest}),
			ok("with sha512", map[string]string{"url": s.URL + "/task.yaml", "digest": "sha512:" + strings.ToUpper(hex.EncodeToString(h[:]))}),
			ok("basic", map[string]string{"url": s.URL + "/basic", "http-username": "me", "http-password-secret": "pass"}),
			ok("bearer of a secret for the host", map[string]string{"url": s.URL + "/bearer", "http-token-secret": "bound"}),
			ok("bearer", map[string]string{"url": s.URL + "/bearer", "http-token-secret": "tok"}),
		},
		Fails: []resolvetest.Failure{
			bad("missing", resolve.ReasonNotFound, false, map[string]string{"url": s.URL + "/no?x=secretquery"}),
			bad("denied", resolve.ReasonDenied, false, map[string]string{"url": s.URL + "/bearer"}),
			bad("no such secret", resolve.ReasonDenied, false, map[string]string{"url": s.URL + "/bearer", "http-token-secret": "none"}),
			bad("a secret for another host", resolve.ReasonDenied, false, map[string]string{"url": s.URL + "/bearer", "http-token-secret": "elsewhere"}),
			bad("a secret with lines", resolve.ReasonDenied, false, map[string]string{"url": s.URL + "/basic", "http-username": "me", "http-password-secret": "pass", "http-password-secret-key": "lines"}),
			bad("busy", resolve.ReasonUnavailable, true, map[string]string{"url": s.URL + "/busy"}),
			bad("endless", resolve.ReasonTooLarge, false, map[string]string{"url": s.URL + "/endless"}),
			bad("empty", resolve.ReasonFailed, false, map[string]string{"url": s.URL + "/empty"}),
			bad("redirect to metadata", resolve.ReasonForbidden, false, map[string]string{"url": s.URL + "/metadata"}),
			bad("loopback", resolve.ReasonForbidden, false, map[string]string{"url": "http://127.0.0.2/"}),
			bad("private", resolve.ReasonForbidden, false, map[string]string{"url": "https://10.0.0.1/"}),
			bad("other digest", resolve.ReasonVerification, false, map[string]string{"url": s.URL + "/task.yaml", "digest": "sha256:" + strings.Repeat("0", 64)}),
			bad("no digest", resolve.ReasonInvalid, false, map[string]string{"url": s.URL + "/task.yaml", "digest": "sha256:00"}),
			bad("md5", resolve.ReasonInvalid, false, map[string]string{"url": s.URL + "/task.yaml", "digest": "md5:" + strings.Repeat("0", 32)}),
			bad("password in the URL", resolve.ReasonInvalid, false, map[string]string{"url": "https://u:hunter2@example.com/"}),
			bad("file", resolve.ReasonInvalid, false, map[string]string{"url": "file:///etc/passwd"}),
			bad("a local path", resolve.ReasonInvalid, false, map[string]string{"url": "/etc/passwd"}),
			bad("user without password", resolve.ReasonInvalid, false, map[string]string{"url": s.URL, "http-username": "me"}),
		},
		Hangs: &hang,
	})
}

func TestPlainHTTPNeedsADigest(t *testing.T) {
	s := server(t)
	sum := sha256.Sum256([]byte(content))
	r := httpfile.New(netguard.Options{Allow: []string{"127.0.0.1"}})
	t.Cleanup(r.Close)
	registry, err := resolve.NewRegistry(r)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(params map[string]string) error {
		q := &resolve.Query{Resolver: "http", Namespace: "default", Secrets: secrets{"default/tok": {"token": []byte("x")}}}
		for k, v := range params {
			q.Params = append(q.Params, resolve.Given{Name: k, Value: resolve.Value{Type: resolve.String, String: v}})
		}
		_, err := runner.Resolve(t.Context(), q)
		return err
	}
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if ask(map[string]string{"url": s.URL + "/task.yaml"}) == nil {
		t.Error("plain http without a digest passes")
	}
	if ask(map[string]string{"url": s.URL + "/task.yaml", "digest": digest, "http-token-secret": "tok"}) == nil {
		t.Error("a token is sent by plain http")
	}
	if err := ask(map[string]string{"url": s.URL + "/task.yaml", "digest": digest}); err != nil {
		t.Error(err)
	}
}
