package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/internal/dnstest"
	"sluice.dev/resolve"
	"sluice.dev/resolve/netguard"
)

// systemClock is the real time.
type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// local allows 127.0.0.1 only, which every name stands for.
func local(t testing.TB) netguard.Options {
	return netguard.Options{Allow: []string{"127.0.0.1"}, Resolver: dnstest.Resolver(t, "127.0.0.1")}
}

// secrets are Secrets by namespace/name.
type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if d, ok := s[namespace+"/"+name]; ok {
		return d, nil
	}
	return nil, resolve.Errorf(resolve.ReasonDenied, "no Secret %s/%s", namespace, name)
}

// runGit runs git in a folder and returns what it prints.
func runGit(t testing.TB, dir string, stdin io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// origin is a bare repository.
type origin struct {
	t    testing.TB
	dir  string
	name string
}

// newOrigin makes root/name with one commit on main that has these files: a value that begins with -> is a link, one that
// begins with @ a submodule's commit.
func newOrigin(t testing.TB, root, name string, files map[string]string) *origin {
	t.Helper()
	o := &origin{t, filepath.Join(root, name), name}
	runGit(t, root, nil, "init", "-q", "--bare", "-b", "main", o.dir)
	for _, c := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.uploadpack"} {
		runGit(t, o.dir, nil, "config", c, "true")
	}
	o.commit("main", files)
	return o
}

// commit adds a commit with these files to a branch, and returns it.
func (o *origin) commit(branch string, files map[string]string) string {
	o.t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "commit refs/heads/%s\ncommitter c <c@example.com> 1700000000 +0000\ndata 1\nm\n", branch)
	if out, err := exec.Command("git", "-C", o.dir, "rev-parse", "-q", "--verify", "refs/heads/"+branch).Output(); err == nil {
		fmt.Fprintf(&s, "from %s\n", strings.TrimSpace(string(out)))
	}
	for name, content := range files {
		mode := "100644"
		if to, ok := strings.CutPrefix(content, "->"); ok {
			mode, content = "120000", to
		}
		if id, ok := strings.CutPrefix(content, "@"); ok {
			fmt.Fprintf(&s, "M 160000 %s %s\n", id, name)
			continue
		}
		fmt.Fprintf(&s, "M %s inline %s\ndata %d\n%s\n", mode, name, len(content), content)
	}
	s.WriteString("\ndone\n")
	runGit(o.t, o.dir, strings.NewReader(s.String()), "fast-import", "--quiet", "--done")
	return runGit(o.t, o.dir, nil, "rev-parse", "refs/heads/"+branch)
}

// gitServer serves the repositories below a folder by smart HTTP.
type gitServer struct {
	root string
	url  string
	ca   string
	// fetches counts requests for packs, lookups those for refs, requests all; bytes those of the answers.
	requests, lookups, fetches, bytes atomic.Int64
	// intercept answers instead if it returns true.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	mu        sync.Mutex
	// version0: the server does not speak version 2.
	version0 bool
}

func newServer(t testing.TB, withTLS bool) *gitServer {
	t.Helper()
	s := &gitServer{root: t.TempDir()}
	var server *httptest.Server
	if withTLS {
		server = httptest.NewTLSServer(s)
		s.ca = pemOf(server.Certificate().Raw)
	} else {
		server = httptest.NewServer(s)
	}
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// set changes the intercept while requests may be under way.
func (s *gitServer) set(intercept func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = intercept
}

type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func (s *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	s.mu.Lock()
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case strings.Contains(string(body), "command=ls-refs"):
		s.lookups.Add(1)
	case strings.Contains(string(body), "want "):
		s.fetches.Add(1)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	r.ContentLength = int64(len(body))
	h := cgi.Handler{
		Path: "/usr/bin/env", Args: []string{"git", "http-backend"},
		Env:    []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
		Stderr: io.Discard,
	}
	if v := r.Header.Get("Git-Protocol"); v != "" && !s.version0 {
		h.Env = append(h.Env, "GIT_PROTOCOL="+v)
	}
	h.ServeHTTP(counter{w, &s.bytes}, r)
}

// newResolver makes a resolver that may dial loopback.
func newResolver(t testing.TB, change func(*Options)) *Resolver {
	t.Helper()
	o := Options{Dir: t.TempDir(), Network: local(t), Clock: systemClock{}}
	if change != nil {
		change(&o)
	}
	g, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// ask makes a request in namespace ns with the configuration's defaults; pairs are parameters, and configuration keys if
// they begin with a colon.
func ask(sec resolve.Secrets, pairs ...string) *resolve.Request {
	r := &resolve.Request{Namespace: "ns", Name: "r", Params: map[string]resolve.Value{}, Config: resolve.Config{}, Secrets: sec}
	for _, k := range keys() {
		r.Config[k.Name] = k.Default
	}
	for i := 0; i < len(pairs); i += 2 {
		if key, ok := strings.CutPrefix(pairs[i], ":"); ok {
			r.Config[key] = pairs[i+1]
		} else {
			r.Params[pairs[i]] = resolve.Value{Type: resolve.String, String: pairs[i+1]}
		}
	}
	return r
}

// deadline is a context that ends a test that hangs.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wantData resolves and compares the content.
func wantData(t testing.TB, g *Resolver, r *resolve.Request, want string) *resolve.Resource {
	t.Helper()
	got, err := g.Resolve(deadline(t), r)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	if string(got.Data) != want {
		t.Errorf("content is %q, want %q", got.Data, want)
	}
	return got
}

// wantReason resolves and compares the reason of the error.
func wantReason(t testing.TB, g *Resolver, r *resolve.Request, want resolve.Reason) {
	t.Helper()
	_ = failure(t, g, r, want)
}

// failure resolves, compares the reason of the error, and returns the error.
func failure(t testing.TB, g *Resolver, r *resolve.Request, want resolve.Reason) *resolve.Error {
	t.Helper()
	got, err := g.Resolve(deadline(t), r)
	if err == nil {
		t.Fatalf("no error but %q, want reason %s", got.Data, want)
	}
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok {
		t.Fatalf("error %T %v, want *resolve.Error with reason %s", err, err, want)
	}
	if e.Reason != want {
		t.Fatalf("reason is %s (%s), want %s", e.Reason, e.Msg, want)
	}
	if strings.Contains(e.Msg, g.options.Dir) || strings.Contains(e.Msg, "%!") {
		t.Errorf("the text tells of folders, or is badly formed: %q", e.Msg)
	}
	return e
}

// leftovers lists what a failed fetch should not leave in the folder.
func leftovers(t testing.TB, g *Resolver) []string {
	t.Helper()
	var out []string
	for _, p := range []string{"trash-*", "mirrors/*/incoming-*", "mirrors/*/objects/tmp_*", "mirrors/*/objects/*/tmp_*"} {
		found, err := filepath.Glob(filepath.Join(g.options.Dir, p))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}
