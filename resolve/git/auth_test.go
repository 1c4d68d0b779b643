package git

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// demand lets only those in who have the password.
func demand(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, _ := r.BasicAuth(); u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestCredentialsOfTheRequest(t *testing.T) {
	s := gittest.NewServer(t, true)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	sec := secrets{
		"ns/tok": {"token": []byte("t0k\n"), "other": []byte("nope"), "lines": []byte("a\nb")}, "ns/login": {"username": []byte("joe"), "password": []byte("pw")},
		"other/tok": {"token": []byte("t0k")}, "ns/empty": {},
	}
	g := newResolver(t, nil)
	base := []string{"url", s.URL + "/r.git", "pathInRepo", "task.yaml", ":ca-bundle", s.CA}
	s.Set(demand("git", "t0k"))
	wantData(t, g, ask(sec, append(base, "gitToken", "tok")...), "kind: Task\n")
	for name, c := range map[string][]string{
		"another key": {"gitToken", "tok", "gitTokenKey", "other"}, "no such key": {"gitToken", "tok", "gitTokenKey", "none"},
		"no such Secret": {"gitToken", "none"}, "several lines": {"gitToken", "tok", "gitTokenKey", "lines"}, "empty": {"authSecret", "empty"},
		// What one credential has fetched is not for others, nor for nobody.
		"nobody": {}, "another": {"authSecret", "login"},
	} {
		t.Run(name, func(t *testing.T) {
			e := failure(t, g, ask(sec, append(base, c...)...), resolve.ReasonDenied)
			if strings.Contains(e.Msg, "t0k") || strings.Contains(e.Msg, "nope") {
				t.Errorf("text %q", e.Msg)
			}
		})
	}
	// The commit that is in the mirror needs the credential as well.
	id := wantData(t, g, ask(sec, append(base, "gitToken", "tok")...), "kind: Task\n").Source.Digest["sha1"]
	wantReason(t, g, ask(sec, append(base, "revision", id)...), resolve.ReasonDenied)
	s.Set(demand("joe", "pw"))
	wantData(t, g, ask(sec, append(base, "authSecret", "login", "revision", id)...), "kind: Task\n")
	// Nothing is said over http.
	plain := gittest.NewServer(t, false)
	wantReason(t, g, ask(sec, "url", plain.URL+"/r.git", "pathInRepo", "x", "gitToken", "tok"), resolve.ReasonForbidden)
	if plain.Requests.Load() != 0 {
		t.Error("the server was asked")
	}
	// A certificate that nobody vouches for.
	wantReason(t, g, ask(sec, "url", s.URL+"/r.git", "pathInRepo", "x", "gitToken", "tok"), resolve.ReasonFailed)
}

func TestCredentialsOfTheOperatorGoToTheirHostsOnly(t *testing.T) {
	mine, other := gittest.NewServer(t, true), gittest.NewServer(t, true)
	gittest.NewOrigin(t, mine.Root, "r.git", someFiles)
	gittest.NewOrigin(t, other.Root, "r.git", someFiles)
	mine.Set(demand("ops", "pw"))
	var leaked atomic.Bool
	other.Set(func(_ http.ResponseWriter, r *http.Request) bool {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		return false
	})
	u, _ := url.Parse(mine.URL)
	sec := secrets{"ops/login": {"username": []byte("ops"), "password": []byte("pw")}}
	for _, prefix := range []string{":", ":named."} {
		config := []string{
			":ca-bundle", mine.CA + other.CA, prefix + "hosts", "example.com, " + u.Host, prefix + "auth-secret-name", "login",
			prefix + "auth-secret-namespace", "ops", "pathInRepo", "task.yaml",
		}
		g := newResolver(t, nil)
		wantData(t, g, ask(sec, append(config, "url", mine.URL+"/r.git")...), "kind: Task\n")
		wantData(t, g, ask(sec, append(config, "url", other.URL+"/r.git")...), "kind: Task\n")
		if prefix != ":" {
			wantReason(t, g, ask(sec, append(config, "url", other.URL+"/r.git", "configKey", "named")...), resolve.ReasonForbidden)
			wantReason(t, g, ask(sec, append(config, "url", mine.URL+"/r.git", "configKey", "none")...), resolve.ReasonInvalid)
		}
	}
	if leaked.Load() {
		t.Error("another host got the credential")
	}
}

// Whoever makes a request names both the Secret and the host; the Secret has a say.
func TestASecretGoesToItsHostsOnly(t *testing.T) {
	var leaked atomic.Int64
	asked := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer asked.Close()
	ssh := gittest.NewSSHServer(t, true)
	gittest.NewOrigin(t, ssh.Root, "r.git", someFiles)
	here, there := strings.TrimPrefix(asked.URL, "https://"), ssh.Address
	secret := func(hosts string) map[string][]byte {
		m := ssh.Secret()
		m["token"] = []byte("tok")
		if hosts != "" {
			m[resolve.SecretHosts] = []byte(hosts)
		}
		return m
	}
	sec := secrets{"ns/none": secret(""), "ns/here": secret(here), "ns/there": secret(there), "ops/op": secret("elsewhere.test")}
	sec["ops/op"]["password"] = []byte("pw")
	g := newResolver(t, nil)
	base := []string{":ca-bundle", gittest.PEM(asked.Certificate().Raw), "pathInRepo", "task.yaml"}
	for _, c := range []struct {
		name   string
		pairs  []string
		reason resolve.Reason
		sent   bool
	}{
		{"a token that says nothing", []string{"url", asked.URL + "/r", "gitToken", "none"}, resolve.ReasonNotFound, true},
		{"a token for the host", []string{"url", asked.URL + "/r", "gitToken", "here"}, resolve.ReasonNotFound, true},
		{"a token for another host", []string{"url", asked.URL + "/r", "gitToken", "there"}, resolve.ReasonDenied, false},
		{"a login for another host", []string{"url", asked.URL + "/r", "authSecret", "there"}, resolve.ReasonDenied, false},
		{"a token for another API", []string{"serverURL", asked.URL, "org", "o", "repo", "r", "token", "there"}, resolve.ReasonDenied, false},
		{"a token for the API", []string{"serverURL", asked.URL, "org", "o", "repo", "r", "token", "here"}, resolve.ReasonNotFound, true},
		{"a key for another SSH server", []string{"url", "ssh://git@" + there + "/r.git", "authSecret", "here"}, resolve.ReasonDenied, false},
		{"a key for the SSH server", []string{"url", "ssh://git@" + there + "/r.git", "authSecret", "there"}, "", false},
		{"one that says nothing, where that is demanded", []string{":secrets-need-hosts", "true", "url", asked.URL + "/r", "gitToken", "none"}, resolve.ReasonDenied, false},
		{"one for the host, where that is demanded", []string{":secrets-need-hosts", "true", "url", asked.URL + "/r", "gitToken", "here"}, resolve.ReasonNotFound, true},
		// Its hosts stand in the configuration.
		{"the operator's", []string{":secrets-need-hosts", "true", ":auth-secret-name", "op", ":auth-secret-namespace", "ops", ":hosts", here, "url", asked.URL + "/r"}, resolve.ReasonNotFound, true},
	} {
		before := leaked.Load()
		r := ask(sec, append(slices.Clone(base), c.pairs...)...)
		if c.reason == "" {
			wantData(t, g, r, "kind: Task\n")
		} else {
			wantReason(t, g, r, c.reason)
		}
		if sent := leaked.Load() > before; sent != c.sent {
			t.Errorf("%s: it was sent: %v", c.name, sent)
		}
	}
}

func TestProxy(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "r.git", someFiles)
	target, _ := url.Parse(s.URL)
	var asked atomic.Int64
	reverse := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		reverse.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	g := newResolver(t, nil)
	wantData(t, g, ask(nil, "url", "http://git.internal/r.git", "pathInRepo", "task.yaml", ":http-proxy", proxy.URL), "kind: Task\n")
	if asked.Load() == 0 {
		t.Error("the proxy was not asked")
	}
	before := asked.Load()
	host, port, _ := net.SplitHostPort(target.Host)
	_ = host
	wantData(t, g, ask(nil, "url", "http://git.test:"+port+"/r.git", "pathInRepo", "task.yaml", ":http-proxy", proxy.URL, ":no-proxy", "git.test"), "kind: Task\n")
	if asked.Load() != before {
		t.Error("the proxy was asked for what it is not for")
	}
}

const commitID = "0123456789abcdef0123456789abcdef01234567"

// scmServer speaks the API of a provider for the repository org/re.po: revision feature/x, file dir/a b.yaml.
func scmServer(t *testing.T, answers map[string]string, login string) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		name, value, _ := strings.Cut(login, ": ")
		if r.Header.Get(name) != value {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, ok := answers[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s, &n
}

func TestProviders(t *testing.T) {
	for _, c := range []struct {
		kind, token, login, clone string
		answers                   map[string]string
	}{
		{"github", "tok", "Authorization: Bearer tok", "/org/re.po.git", map[string]string{
			"/api/v3/repos/org/re.po/commits/feature/x":                       `{"sha":"` + commitID + `","x":[1]}`,
			"/api/v3/repos/org/re.po/contents/dir/a%20b.yaml?ref=" + commitID: "kind: Task\n",
		}},
		{"gitlab", "tok", "Private-Token: tok", "/org/re.po.git", map[string]string{
			"/api/v4/projects/org%2Fre.po/repository/commits/feature%2Fx":                        `{"id":"` + commitID + `"}`,
			"/api/v4/projects/org%2Fre.po/repository/files/dir%2Fa%20b.yaml/raw?ref=" + commitID: "kind: Task\n",
		}},
		{"gitea", "tok", "Authorization: token tok", "/org/re.po.git", map[string]string{
			"/api/v1/repos/org/re.po/commits?limit=1&stat=false&verification=false&files=false&sha=feature%2Fx": `[{"sha":"` + commitID + `"}]`,
			"/api/v1/repos/org/re.po/raw/dir/a%20b.yaml?ref=" + commitID:                                        "kind: Task\n",
		}},
		{"gogs", "tok", "Authorization: token tok", "/org/re.po.git", map[string]string{
			"/api/v1/repos/org/re.po/commits/feature/x":                   `{"sha":"` + commitID + `"}`,
			"/api/v1/repos/org/re.po/raw/" + commitID + "/dir/a%20b.yaml": "kind: Task\n",
		}},
		{"azure", "tok", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(":tok")), "/org/_git/re.po", map[string]string{
			"/org/_apis/git/repositories/re.po/commits?searchCriteria.$top=1&searchCriteria.itemVersion.versionType=tag&searchCriteria.itemVersion.version=feature%2Fx&api-version=6.0": `{"count":1,"value":[{"commitId":"` + commitID + `"}]}`,
			"/org/_apis/git/repositories/re.po/items?path=%2Fdir%2Fa+b.yaml&versionDescriptor.versionType=commit&versionDescriptor.version=" + commitID +
				"&includeContent=true&$format=json&api-version=6.0": `{"gitObjectType":"blob","content":"kind: Task\n"}`,
		}},
		{"stash", "tok", "Authorization: Bearer tok", "/scm/org/re.po.git", map[string]string{
			"/rest/api/1.0/projects/org/repos/re.po/commits?limit=1&until=feature%2Fx": `{"values":[{"id":"` + commitID + `"}]}`,
			"/rest/api/1.0/projects/org/repos/re.po/raw/dir/a%20b.yaml?at=" + commitID: "kind: Task\n",
		}},
		{"bitbucket", "tok", "Authorization: Bearer tok", "/org/re.po.git", map[string]string{
			"/2.0/repositories/org/re.po/commits?pagelen=1&include=feature%2Fx": `{"values":[{"hash":"` + commitID + `"}]}`,
			"/2.0/repositories/org/re.po/src/" + commitID + "/dir/a%20b.yaml":   "kind: Task\n",
		}},
		{"bitbucketserver", "tok", "Authorization: Bearer tok", "/scm/org/re.po.git", map[string]string{
			"/rest/api/1.0/projects/org/repos/re.po/commits?limit=1&until=feature%2Fx": `{"values":[{"id":"` + commitID + `"}]}`,
			"/rest/api/1.0/projects/org/repos/re.po/raw/dir/a%20b.yaml?at=" + commitID: "kind: Task\n",
		}},
		{"bitbucketcloud", "tok", "Authorization: Bearer tok", "/org/re.po.git", map[string]string{
			"/2.0/repositories/org/re.po/commits?pagelen=1&include=feature%2Fx": `{"values":[{"hash":"` + commitID + `"}]}`,
			"/2.0/repositories/org/re.po/src/" + commitID + "/dir/a%20b.yaml":   "kind: Task\n",
		}},
		{"bitbucketcloud", "joe:pw", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("joe:pw")), "/org/re.po.git", map[string]string{
			"/2.0/repositories/org/re.po/commits?pagelen=1&include=feature%2Fx": `{"values":[{"hash":"` + commitID + `"}]}`,
			"/2.0/repositories/org/re.po/src/" + commitID + "/dir/a%20b.yaml":   "kind: Task\n",
		}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			server, n := scmServer(t, c.answers, c.login)
			ca := gittest.PEM(server.Certificate().Raw)
			sec := secrets{"ns/mine": {"token": []byte(c.token)}, "ops/op": {"token": []byte(c.token)}}
			g := newResolver(t, nil)
			want := func(r *resolve.Request) {
				t.Helper()
				got := wantData(t, g, r, "kind: Task\n")
				url := server.URL + c.clone
				if got.Source.URI != "git+"+url || got.Source.Digest["sha1"] != commitID || got.Source.EntryPoint != strings.TrimLeft(r.Get("pathInRepo"), "/") {
					t.Errorf("source %+v", got.Source)
				}
				for k, v := range map[string]string{"org": "org", "repo": "re.po", "url": url, "revision": commitID, "path": strings.TrimLeft(r.Get("pathInRepo"), "/")} {
					if got.Annotations["resolution.tekton.dev/"+k] != v {
						t.Errorf("annotation %s is %q", k, got.Annotations["resolution.tekton.dev/"+k])
					}
				}
			}
			operators := []string{
				":scm-type", c.kind, ":server-url", server.URL, ":api-token-secret-name", "op", ":api-token-secret-namespace", "ops",
				":ca-bundle", ca, ":default-org", "org", "repo", "re.po", "revision", "feature/x",
			}
			want(ask(sec, append(operators, "pathInRepo", "dir/a b.yaml")...))
			want(ask(sec, append(operators, "pathInRepo", "/dir/../dir/a b.yaml", "token", "mine")...))
			before := n.Load()
			want(ask(sec, append(operators, "pathInRepo", "dir/a b.yaml", "revision", commitID)...))
			if n.Load()-before != 1 {
				t.Errorf("a commit took %d requests", n.Load()-before)
			}
			var named []string
			for i, k := range operators {
				if i < 8 && i%2 == 0 {
					k = ":x." + k[1:]
				}
				named = append(named, k)
			}
			want(ask(sec, append(named, "pathInRepo", "dir/a b.yaml", "configKey", "x", "org", "org")...))
			// A server of the requester's own choice, with a token of their own.
			want(ask(sec, ":ca-bundle", ca, "scmType", c.kind, "serverURL", server.URL, "token", "mine", "org", "org", "repo", "re.po",
				"revision", "feature/x", "pathInRepo", "dir/a b.yaml"))
			wantReason(t, g, ask(sec, append(operators, "pathInRepo", "nothing")...), resolve.ReasonNotFound)
			wantReason(t, g, ask(sec, append(operators, "pathInRepo", "x", "revision", "nothing")...), resolve.ReasonNotFound)
			wantReason(t, g, ask(sec, append(operators, "pathInRepo", "../x")...), resolve.ReasonInvalid)
			wantReason(t, g, ask(sec, append(operators, "pathInRepo", "x", "token", "none")...), resolve.ReasonDenied)
		})
	}
}

// What is no file is not given for one, and a rule for paths cannot be escaped by a link that the server follows.
func TestProvidersGiveFilesOnly(t *testing.T) {
	const listing = "[{\"name\":\"a.yaml\",\"type\":\"file\"},{\"name\":\"link.yaml\",\"type\":\"symlink\"}]"
	type answer struct{ contentType, body string }
	const raw = "application/vnd.github.raw+json; charset=utf-8"
	github := func(path string) string { return "/api/v3/repos/org/repo/contents" + path + "?ref=" + commitID }
	bitbucket := func(path string) string { return "/2.0/repositories/org/repo/src/" + commitID + "/" + path }
	answers := map[string]answer{
		github("/dir"): {"application/json; charset=utf-8", listing}, github("/dir/a.yaml"): {raw, "kind: Task\n"}, github("/dir/link.yaml"): {raw, "secret\n"},
		github("/a.json"): {raw, "{}"}, github(""): {"application/json; charset=utf-8", `[{"name":"a.json","type":"file"}]`},
		bitbucket("dir"): {"application/json; charset=utf-8", `{"values":[]}`}, bitbucket("dir") + "?format=meta": {"application/json", `{"type":"commit_directory"}`},
		bitbucket("a.json"): {"application/json", "{}"}, bitbucket("a.json") + "?format=meta": {"application/json", `{"type":"commit_file"}`},
		bitbucket("dir/a.yaml"): {"text/plain", "kind: Task\n"},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", a.contentType)
		_, _ = w.Write([]byte(a.body))
	}))
	defer server.Close()
	g := newResolver(t, nil)
	const rules = "deny: [{path: 'secret/**'}]"
	for _, c := range []struct {
		kind, path, policy, want string
		reason                   resolve.Reason
	}{
		{"github", "dir/a.yaml", "", "kind: Task\n", ""},
		{"github", "a.json", "", "{}", ""},
		{"github", "dir", "", "", resolve.ReasonInvalid},
		{"github", "dir/link.yaml", "", "secret\n", ""},
		{"github", "dir/a.yaml", rules, "kind: Task\n", ""},
		{"github", "a.json", rules, "{}", ""},
		{"github", "dir/link.yaml", rules, "", resolve.ReasonForbidden},
		{"github", "dir/link.yaml", "namespaces: {ns: {allow: [{path: 'dir/**'}]}}", "", resolve.ReasonForbidden},
		{"github", "dir/link.yaml", "namespaces: {other: {allow: [{path: 'dir/**'}]}}", "secret\n", ""},
		{"github", "dir/none.yaml", rules, "", resolve.ReasonForbidden},
		{"github", "none/a.yaml", rules, "", resolve.ReasonNotFound},
		{"bitbucketcloud", "dir/a.yaml", rules, "kind: Task\n", ""},
		{"bitbucketcloud", "a.json", "", "{}", ""},
		{"bitbucketcloud", "dir", "", "", resolve.ReasonInvalid},
	} {
		r := ask(nil, ":scm-type", c.kind, ":server-url", server.URL, ":ca-bundle", gittest.PEM(server.Certificate().Raw), ":policy", c.policy,
			"org", "org", "repo", "repo", "revision", commitID, "pathInRepo", c.path)
		if c.reason != "" {
			wantReason(t, g, r, c.reason)
		} else {
			wantData(t, g, r, c.want)
		}
	}
}

// GitHub gives the name of a commit alone, if it is asked for it: as JSON there are all its changes.
func TestTheNameOfACommitMayStandAlone(t *testing.T) {
	id := providers["github"].id
	for text, want := range map[string]string{commitID + "\n": commitID, `{"sha":"` + commitID + `"}`: commitID, "main": "", commitID + commitID[:1]: "", "": ""} {
		if got, err := id([]byte(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestOperatorsTokenStaysAtTheOperatorsServer(t *testing.T) {
	var leaked atomic.Value
	leaked.Store("")
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Authorization", "Private-Token"} {
			if v := r.Header.Get(h); strings.Contains(v, "op3rator") {
				leaked.Store(v)
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer thief.Close()
	ca := gittest.PEM(thief.Certificate().Raw)
	sec := secrets{"default/op": {"token": []byte("op3rator")}, "ns/mine": {"token": []byte("mine")}}
	g := newResolver(t, nil)
	base := []string{":api-token-secret-name", "op", ":ca-bundle", ca, "org", "o", "repo", "r", "pathInRepo", "x"}
	for name, c := range map[string]struct {
		pairs  []string
		reason resolve.Reason
	}{
		"another server":                  {[]string{"serverURL", thief.URL, ":server-url", "https://git.example.com"}, resolve.ReasonForbidden},
		"another server than the public":  {[]string{"serverURL", thief.URL}, resolve.ReasonForbidden},
		"another type at the same server": {[]string{":server-url", thief.URL, "serverURL", thief.URL, "scmType", "gitlab"}, resolve.ReasonForbidden},
		"another server, own token":       {[]string{"serverURL", thief.URL, "token", "mine"}, resolve.ReasonNotFound},
		"a named one without a token":     {[]string{":x.server-url", thief.URL, "configKey", "x"}, resolve.ReasonNotFound},
		"over http":                       {[]string{":server-url", "http://127.0.0.1:1"}, resolve.ReasonForbidden},
		// Another type's public server is asked, without the token; here nothing listens where its name leads.
		"another type": {[]string{"scmType", "gitlab"}, resolve.ReasonUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			wantReason(t, g, ask(sec, append(base, c.pairs...)...), c.reason)
		})
	}
	if v := leaked.Load(); v != "" {
		t.Errorf("the server got %q", v)
	}
	// What is private is for servers of the operator only, unless the configuration says otherwise.
	g = newResolver(t, func(o *Options) { o.Network.AllowPrivate = true })
	for name, c := range map[string]struct {
		pairs []string
		want  resolve.Reason
	}{
		"chosen":              {[]string{"serverURL", "https://10.255.255.1:9", "token", "mine"}, resolve.ReasonForbidden},
		"chosen, allowed":     {[]string{"serverURL", "https://10.255.255.1:9", "token", "mine", ":allow-private-requested-addresses", "true"}, ""},
		"the operator's":      {[]string{":server-url", "https://10.255.255.1:9"}, ""},
		"a loopback one":      {[]string{"serverURL", "https://127.0.0.2:9", "token", "mine"}, resolve.ReasonForbidden},
		"the operator's loop": {[]string{":server-url", "https://127.0.0.2:9"}, resolve.ReasonForbidden},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := g.Resolve(ctx, ask(sec, append(base, c.pairs...)...))
		cancel()
		var e *resolve.Error
		if refused := errors.As(err, &e) && e.Reason == resolve.ReasonForbidden; refused != (c.want != "") || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProviderLimits(t *testing.T) {
	var answer func(w http.ResponseWriter)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w) }))
	defer s.Close()
	g := newResolver(t, nil)
	r := ask(nil, ":server-url", s.URL, ":ca-bundle", gittest.PEM(s.Certificate().Raw), "org", "o", "repo", "r", "pathInRepo", "x", "revision", commitID)
	r.MaxBytes = 1000
	for _, size := range []int{1001, 1 << 20} {
		answer = func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, size)) }
		wantReason(t, g, r, resolve.ReasonTooLarge)
	}
	answer = func(w http.ResponseWriter) {
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", "99999999999")
		w.WriteHeader(http.StatusForbidden)
	}
	if e := failure(t, g, r, resolve.ReasonUnavailable); !e.Transient || e.RetryAfter == 0 {
		t.Errorf("error %+v", e)
	}
	answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }
	r.Params["revision"] = resolve.Value{String: "main"}
	wantReason(t, g, r, resolve.ReasonFailed)
}
