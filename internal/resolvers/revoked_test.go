package resolvers_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
)

// A credential that the remote does not let in any more reads nothing after access-ttl, and with cache: never at once, whatever is
// cached: names that cannot change are no exception.
func TestARevokedCredentialReadsNothingMore(t *testing.T) {
	var revoked atomic.Bool
	// locked lets in who has the token, as a bearer or as a password.
	locked := func(inner http.Handler) *httptest.Server {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, password, _ := r.BasicAuth()
			sent := strings.Contains(r.Header.Get("Authorization"), "tok") || password == "tok"
			if !sent || revoked.Load() {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	repository := gittest.NewServer(t, false)
	commit := gittest.Run(t, gittest.NewOrigin(t, repository.Root, "r.git", map[string]string{"task.yaml": "kind: Task\n"}).Dir, nil, "rev-parse", "main")
	git := locked(repository)
	files := locked(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "kind: Task\n") }))
	images := locked(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	host := images.Listener.Addr().String()
	pusher := images.Client().Transport
	reg, err := bundletest.NewRegistry(host, "team/bundle", authorized{pusher})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := reg.Push(t.Context(), "v1", bundletest.Task("task", "kind: Task\n"))
	if err != nil {
		t.Fatal(err)
	}
	auth := base64.StdEncoding.EncodeToString([]byte("user:tok"))
	secrets := credentials{
		"token":    {"token": []byte("tok")},
		"registry": {".dockerconfigjson": fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth)},
	}
	for name, tt := range map[string]struct {
		resolver string
		server   *httptest.Server
		config   map[string]string
		params   []string
	}{
		"git":             {"git", git, nil, []string{"url", git.URL + "/r.git", "revision", "main", "pathInRepo", "task.yaml", "gitToken", "token"}},
		"git, a commit":   {"git", git, nil, []string{"url", git.URL + "/r.git", "revision", commit, "pathInRepo", "task.yaml", "gitToken", "token"}},
		"git by the API":  {"git", files, map[string]string{"scm-type": "gitea", "server-url": files.URL}, []string{"org", "o", "repo", "r", "revision", commit, "pathInRepo", "task.yaml", "token", "token"}},
		"bundles":         {"bundles", images, nil, []string{"bundle", host + "/team/bundle:v1", "name", "task", "kind", "task", "secret", "registry"}},
		"bundles, pinned": {"bundles", images, nil, []string{"bundle", host + "/team/bundle@" + digest.String(), "name", "task", "kind", "task", "secret", "registry"}},
		"http":            {"http", files, nil, []string{"url", files.URL + "/task.yaml", "http-token-secret", "token"}},
		"http, a digest":  {"http", files, nil, []string{"url", files.URL + "/task.yaml", "http-token-secret", "token", "digest", "sha256:" + resolve.SHA256([]byte("kind: Task\n"))["sha256"]}},
	} {
		for _, ttl := range []string{"0s", "1h"} {
			t.Run(name+", access-ttl "+ttl, func(t *testing.T) {
				config := map[string]string{"allowed-addresses": "127.0.0.1", "access-ttl": ttl, "ca-bundle": gittest.PEM(tt.server.Certificate().Raw)}
				maps.Copy(config, tt.config)
				runner := runnerOf(t, tt.resolver, config)
				resolves := func(cache string) error {
					q := ask(tt.resolver, append(slices.Clone(tt.params), "cache", cache))
					q.Secrets = secrets
					_, err := runner.Resolve(t.Context(), q)
					return err
				}
				revoked.Store(false)
				for _, cache := range []string{"always", "always", "auto", "never"} {
					if err := resolves(cache); err != nil {
						t.Fatalf("%s: %v", cache, err)
					}
				}
				revoked.Store(true)
				denied := func(err error) bool {
					e, ok := errors.AsType[*resolve.Error](err)
					return ok && (e.Reason == resolve.ReasonDenied || e.Reason == resolve.ReasonNotFound)
				}
				if err := resolves("never"); !denied(err) {
					t.Errorf("never: %v", err)
				}
				if err := resolves("always"); denied(err) != (ttl == "0s") {
					t.Errorf("always: %v", err)
				}
			})
		}
	}
}

// authorized sends the token.
type authorized struct{ next http.RoundTripper }

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth("user", "tok")
	return a.next.RoundTrip(r)
}
