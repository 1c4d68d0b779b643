package git

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// Names of revisions that git fetch takes, and so Tekton.
func TestRevisionsAreWhatGitFetchTakes(t *testing.T) {
	s := gittest.NewServer(t, false)
	o := gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"task.yaml": "main\n"})
	id := gittest.Run(t, o.Dir, nil, "rev-parse", "main")
	for ref, text := range map[string]string{
		"refs/pull/1/head": "pull\n", "refs/merge-requests/7/head": "merge\n", "refs/own": "own\n", "refs/heads/refs/odd": "odd\n", "refs/heads/DEADBEEF": "beef\n",
	} {
		gittest.Run(t, o.Dir, nil, "update-ref", ref, o.Commit("work", map[string]string{"task.yaml": text}))
	}
	g := newResolver(t, nil)
	for revision, want := range map[string]string{
		"pull/1/head": "pull\n", "refs/pull/1/head": "pull\n", "merge-requests/7/head": "merge\n", "refs/own": "own\n", "own": "own\n", "refs/odd": "odd\n",
		"heads/main": "main\n", "refs/heads/main": "main\n", "HEAD": "main\n", "DEADBEEF": "beef\n",
		strings.ToUpper(id): "main\n", strings.ToUpper(id[:9]): "main\n",
	} {
		t.Run(revision, func(t *testing.T) {
			got := wantData(t, g, ask(nil, "url", s.URL+"/r.git", "revision", revision, "pathInRepo", "task.yaml"), want)
			if got.Immutable != (len(revision) == 40) {
				t.Errorf("immutable %v", got.Immutable)
			}
		})
	}
	// Whatever way a ref is written, the operator's rules see its full name.
	for _, revision := range []string{"pull/1/head", "refs/pull/1/head"} {
		wantReason(t, g, ask(nil, "url", s.URL+"/r.git", "revision", revision, "pathInRepo", "task.yaml", ":policy", "deny: [{revision: 'refs/pull/**'}]"), resolve.ReasonForbidden)
	}
	wantReason(t, g, ask(nil, "url", s.URL+"/r.git", "revision", strings.ToUpper(id), "pathInRepo", "task.yaml", ":policy", "deny: [{revision: "+id+"}]"), resolve.ReasonForbidden)
}

func TestTheNameOfAUserInAnAddress(t *testing.T) {
	s := gittest.NewServer(t, true)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	u, _ := url.Parse(s.URL)
	g := newResolver(t, nil)
	got := wantData(t, g, ask(nil, ":ca-bundle", s.CA, "url", "https://org@"+u.Host+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
	for _, text := range []string{got.Source.URI, got.Annotations["resolution.tekton.dev/url"]} {
		if strings.Contains(text, "org@") || !strings.HasSuffix(text, "https://"+u.Host+"/r.git") {
			t.Errorf("the status has %q", text)
		}
	}
	s.Set(demand("org", "tok"))
	sec := secrets{"ns/mine": {"token": []byte("tok")}}
	wantData(t, g, ask(sec, ":ca-bundle", s.CA, "url", "https://org@"+u.Host+"/r.git", "pathInRepo", "task.yaml", "gitToken", "mine"), "kind: Task\n")
	e := failure(t, g, ask(nil, ":ca-bundle", s.CA, "url", "https://ghp_secret@"+u.Host+"/r.git", "pathInRepo", "task.yaml"), resolve.ReasonDenied)
	if strings.Contains(e.Error(), "ghp_secret") {
		t.Errorf("the message has the token: %v", e)
	}
	wantReason(t, g, ask(nil, ":ca-bundle", s.CA, "url", "https://org:pw@"+u.Host+"/r.git", "pathInRepo", "task.yaml"), resolve.ReasonInvalid)
}

// daemon runs git daemon on loopback and returns its address.
func daemon(t *testing.T, root string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	// Not by the command git, which would leave a child behind.
	cmd := exec.Command(filepath.Join(gittest.Run(t, root, nil, "--exec-path"), "git-daemon"), "--listen=127.0.0.1", "--port="+port, "--export-all", "--reuseaddr", "--base-path="+root, root) //nolint:noctx // a test's own server
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address := fmt.Sprint("127.0.0.1:", port)
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		conn, err := net.Dial("tcp", address) //nolint:noctx // a test's own server
		if err == nil {
			_ = conn.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("git daemon does not answer: %v", err)
	}
	return address
}

func TestGitDaemon(t *testing.T) {
	root := t.TempDir()
	o := gittest.NewOrigin(t, root, "r.git", someFiles)
	address := daemon(t, root)
	g := newResolver(t, nil)
	got := wantData(t, g, ask(nil, "url", "git://"+address+"/r.git", "pathInRepo", "task.yaml"), "kind: Task\n")
	if got.Source.URI != "git+git://"+address+"/r.git" {
		t.Errorf("source %+v", got.Source)
	}
	id := o.Commit("other", map[string]string{"task.yaml": "other\n"})
	wantData(t, g, ask(nil, "url", "git://"+address+"/r.git", "revision", id, "pathInRepo", "task.yaml"), "other\n")
	wantReason(t, g, ask(nil, "url", "git://"+address+"/none.git", "pathInRepo", "task.yaml"), resolve.ReasonNotFound)
	sec := secrets{"ns/mine": {"token": []byte("tok")}}
	wantReason(t, g, ask(sec, "url", "git://"+address+"/r.git", "pathInRepo", "task.yaml", "gitToken", "mine"), resolve.ReasonInvalid)
	wantReason(t, g, ask(nil, "url", "git://169.254.169.254/r.git", "pathInRepo", "task.yaml"), resolve.ReasonForbidden)
}

// What one sort of address needs is no error with the other: Tekton reads what it needs.
func TestParametersOfTheOtherWayAreIgnored(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	g := newResolver(t, nil)
	registry, err := resolve.NewRegistry(g)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
	if err != nil {
		t.Fatal(err)
	}
	res, err := runner.Resolve(deadline(t), &resolve.Query{Resolver: "git", Namespace: "ns", Params: resolve.Strings(map[string]string{
		"url": s.URL + "/r.git", "token": "t", "tokenKey": "k", "serverURL": "https://ghe.example.com", "scmType": "github", "org": "o", "pathInRepo": "task.yaml",
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"token", "serverURL", "scmType", "org"} {
		if w := res.Annotations[resolve.AnnotationWarning]; !strings.Contains(w, "parameter "+p+" ") {
			t.Errorf("nothing is told of %s: %q", p, w)
		}
	}
	if errs := validateRequest(&resolve.Request{Params: ask(nil, "url", "https://h/r", "repo", "r").Params}); len(errs) != 1 {
		t.Errorf("url and repo: %v", errs)
	}
}

// The address of a server is written in many ways; the API is where it is.
func TestAddressesOfServers(t *testing.T) {
	for _, test := range []struct{ kind, address, web, api string }{
		{"github", "https://github.com", "https://github.com", "https://api.github.com"},
		{"github", "https://api.github.com/", "https://github.com", "https://api.github.com"},
		{"github", "github.com", "https://github.com", "https://api.github.com"},
		{"github", "https://ghe.example.com", "https://ghe.example.com", "https://ghe.example.com/api/v3"},
		{"github", "https://ghe.example.com/", "https://ghe.example.com", "https://ghe.example.com/api/v3"},
		{"github", "https://ghe.example.com/api/v3", "https://ghe.example.com", "https://ghe.example.com/api/v3"},
		{"github", "https://ghe.example.com/api/v3/", "https://ghe.example.com", "https://ghe.example.com/api/v3"},
		{"github", "api.internal-github.com", "https://api.internal-github.com", "https://api.internal-github.com/api/v3"},
		{"gitlab", "https://gitlab.example.com/sub/api/v4", "https://gitlab.example.com/sub", "https://gitlab.example.com/sub/api/v4"},
		{"gitea", "http://gitea.example.com:3000/api/v1", "http://gitea.example.com:3000", "http://gitea.example.com:3000/api/v1"},
		{"bitbucketserver", "https://b.example.com/rest/api/1.0", "https://b.example.com", "https://b.example.com/rest/api/1.0"},
		{"bitbucketcloud", "https://bitbucket.org", "https://bitbucket.org", "https://api.bitbucket.org/2.0"},
		{"bitbucketcloud", "https://api.bitbucket.org", "https://bitbucket.org", "https://api.bitbucket.org/2.0"},
		{"bitbucketcloud", "https://api.bitbucket.org/2.0", "https://bitbucket.org", "https://api.bitbucket.org/2.0"},
		{"azure", "https://dev.azure.com/", "https://dev.azure.com", "https://dev.azure.com"},
	} {
		if err := checkServerURL(test.address); err != nil {
			t.Errorf("%s: %v", test.address, err)
		}
		if web, api := providers[test.kind].serverAddresses(withScheme(test.address)); web != test.web || api != test.api {
			t.Errorf("%s %s: %s and %s, want %s and %s", test.kind, test.address, web, api, test.web, test.api)
		}
	}
}

// The operator's token goes to the operator's server, in whichever way a request writes its address, and to no other.
func TestTheOperatorsTokenFollowsTheServerNotItsSpelling(t *testing.T) {
	server, asked := scmServer(t, map[string]string{
		"/api/v3/repos/org/re.po/commits/main":               `{"sha":"` + commitID + `"}`,
		"/api/v3/repos/org/re.po/contents/x?ref=" + commitID: "kind: Task\n",
	}, "Authorization: Bearer tok")
	g := newResolver(t, nil)
	sec := secrets{"default/op": {"token": []byte("tok")}}
	base := []string{
		":ca-bundle", gittest.PEM(server.Certificate().Raw), ":api-token-secret-name", "op", "org", "org", "repo", "re.po", "revision", "refs/heads/main", "pathInRepo", "x",
	}
	for _, own := range []string{server.URL, server.URL + "/api/v3", strings.TrimPrefix(server.URL, "https://")} {
		for _, given := range []string{"", server.URL + "/", server.URL + "/api/v3/", strings.TrimPrefix(server.URL, "https://")} {
			wantData(t, g, ask(sec, append(base, ":server-url", own, "serverURL", given)...), "kind: Task\n")
			wantData(t, g, ask(sec, append(base, ":default.server-url", own, "serverURL", given, "configKey", "default")...), "kind: Task\n")
			wantData(t, g, ask(sec, append(base, ":default.server-url", own, "serverURL", given)...), "kind: Task\n")
		}
	}
	before := asked.Load()
	wantReason(t, g, ask(sec, append(base, ":server-url", "https://ghe.example.com/api/v3", "serverURL", server.URL)...), resolve.ReasonForbidden)
	if asked.Load() != before {
		t.Error("the other server was asked")
	}
}
