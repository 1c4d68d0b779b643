package bundle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
)

const (
	regHost = "reg.example.com"
	yamlA   = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: a}\n"
	yamlB   = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: b}\n"
)

// network is a small internet: names of hosts lead to servers on loopback, all with certificates of one private
// authority. Names that no server has do not exist.
type network struct {
	t         *testing.T
	mu        sync.Mutex
	addrs     map[string]string
	seen      []seenRequest
	transport *http.Transport
}

// seenRequest is a request as a server saw it.
type seenRequest struct{ host, method, path, authorization string }

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, addrs: map[string]string{}}
	n.transport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()},
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			n.mu.Lock()
			to, ok := n.addrs[addr]
			n.mu.Unlock()
			if !ok {
				return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to)
		},
	}
	t.Cleanup(n.transport.CloseIdleConnections)
	return n
}

// serve makes host, which is HOST:PORT, answer with h over TLS.
func (n *network) serve(host string, h http.Handler) {
	n.t.Helper()
	s := httptest.NewUnstartedServer(n.watched(host, h))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	n.t.Cleanup(s.Close)
	n.transport.TLSClientConfig.RootCAs.AddCert(s.Certificate())
	n.route(host, s.Listener.Addr().String())
}

// servePlain makes host answer with h over plain HTTP.
func (n *network) servePlain(host string, h http.Handler) {
	n.t.Helper()
	s := httptest.NewServer(n.watched(host, h))
	n.t.Cleanup(s.Close)
	n.route(host, s.Listener.Addr().String())
}

func (n *network) route(host, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[host] = addr
}

func (n *network) watched(host string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, seenRequest{host, r.Method, r.URL.Path, r.Header.Get("Authorization")})
		n.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

func (n *network) requests() []seenRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

func (n *network) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = nil
}

// fixture is a registry at reg.example.com with a repository team/bundle.
type fixture struct {
	*network
	*bundletest.Registry
	// registry is the registry without what is in front of it.
	registry http.Handler
	// front answers before the registry does, if it returns true.
	front func(w http.ResponseWriter, r *http.Request) bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	n := newNetwork(t)
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	f := &fixture{network: n, registry: inner}
	n.serve(regHost+":443", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.front == nil || !f.front(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	reg, err := bundletest.NewRegistry(regHost, "team/bundle", n.transport)
	if err != nil {
		t.Fatal(err)
	}
	f.Registry = reg
	return f
}

// push puts a bundle under the tag v1 and returns its digest.
func (f *fixture) push(layers ...bundletest.Layer) string {
	f.t.Helper()
	d, err := f.Push(f.t.Context(), "v1", layers...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.forget()
	return d.String()
}

const imageV1 = regHost + "/team/bundle:v1"

// request is a valid request with the defaults of the configuration.
func request(params ...string) *resolve.Request {
	r := &resolve.Request{
		Namespace: "ns",
		Config:    resolve.Config{KeyKind: "task", KeyServiceAccount: "default"},
		Params:    map[string]resolve.Value{},
	}
	all := append([]string{ParamBundle, imageV1, ParamName, "a", ParamKind, "task", ParamServiceAccount, "default"}, params...)
	for i := 0; i+1 < len(all); i += 2 {
		r.Params[all[i]] = resolve.Value{Type: resolve.String, String: all[i+1]}
	}
	return r
}

func (f *fixture) resolve(req *resolve.Request, opts ...Options) (*resolve.Resource, error) {
	f.t.Helper()
	o := Options{}
	if len(opts) > 0 {
		o = opts[0]
	}
	o.transport = f.transport
	return New(o).Resolve(f.t.Context(), req)
}

// failure is the error as what it has to be.
func failure(t testing.TB, err error) *resolve.Error {
	t.Helper()
	var e *resolve.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is no *resolve.Error: %v", err, err)
	}
	if strings.ContainsAny(e.Msg, "\n\x00\x1b") || strings.Contains(e.Msg, "%!") {
		t.Errorf("the text is not one plain line: %q", e.Msg)
	}
	return e
}

type fakeSecrets map[string]map[string][]byte

func (s fakeSecrets) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if name == "forbidden" {
		return nil, resolve.Errorf(resolve.ReasonDenied, "create the RoleBinding")
	}
	if data, ok := s[namespace+"/"+name]; ok {
		return data, nil
	}
	return nil, resolve.Errorf(resolve.ReasonNotFound, "there is no secret %s/%s", namespace, name)
}

type fakeAccounts map[string][]string

func (a fakeAccounts) ImagePullSecrets(_ context.Context, namespace, name string) ([]string, error) {
	if names, ok := a[namespace+"/"+name]; ok {
		return names, nil
	}
	return nil, resolve.Errorf(resolve.ReasonDenied, "create the RoleBinding")
}

func dockerConfig(host, user, password string) map[string][]byte {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return map[string][]byte{".dockerconfigjson": fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth)}
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// wantBasic makes the registry ask for a user's name and password.
func wantBasic(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == basic(user, password) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"100%s of \u001b[31mthis\nis refused"}]}`, http.StatusUnauthorized)
		return true
	}
}

// tokenServer gives clients with the name and password the token "pull-token", for the pull scope of one repository.
func tokenServer(user, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != basic(user, password) {
			http.Error(w, `{"errors":[{"code":"DENIED","message":"no"}]}`, http.StatusUnauthorized)
			return
		}
		if got := r.URL.Query().Get("scope"); got != "repository:team/bundle:pull" {
			http.Error(w, "scope "+got, http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "pull-token"})
	})
}

// wantToken makes the registry ask for that token, given by realm.
func wantToken(realm string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer pull-token" {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service=%q`, realm, regHost))
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return true
	}
}

func redirectBlobs(to string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		u, err := url.Parse(to)
		if err != nil {
			return false
		}
		u.Path = r.URL.Path
		http.Redirect(w, r, u.String(), http.StatusTemporaryRedirect)
		return true
	}
}
