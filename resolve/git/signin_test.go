package git

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// serveAnswer serves one answer for all paths but those that a redirect leads to.
func serveAnswer(t *testing.T, code int, mediaType, body, redirect string) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if redirect != "" && !strings.HasPrefix(redirect, r.URL.Path) {
			http.Redirect(w, r, redirect, http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// Servers answer a request without a good credential with a page for people. That is a lack of rights, by the API and by git's protocol.
func TestAPageForSigningInIsALackOfRights(t *testing.T) {
	const form = `<!DOCTYPE html><html><head><title>Sign in · GitLab</title></head><body><form><input name="user[password]" type="password"></form></body></html>`
	const page = `<html><head><title>Team</title></head><body>Our sign in page moved.</body></html>`
	for name, c := range map[string]struct {
		code                 int
		media, body, leading string
		want                 resolve.Reason
	}{
		"203 of Azure DevOps":             {203, "text/html; charset=utf-8", page, "", resolve.ReasonDenied},
		"a redirect as GitLab's":          {200, "text/html; charset=utf-8", form, "/users/sign_in", resolve.ReasonDenied},
		"a redirect as GitHub's":          {200, "text/html", page, "/login?return_to=%2Fx", resolve.ReasonDenied},
		"a redirect as Bitbucket's":       {200, "text/html", page, "/account/signin/", resolve.ReasonDenied},
		"a redirect as Azure DevOps'":     {200, "text/html", page, "/_signin", resolve.ReasonDenied},
		"a redirect as a proxy's":         {200, "text/html", page, "/oauth2/authorize", resolve.ReasonDenied},
		"a form in place of the answer":   {200, "text/html", form, "", resolve.ReasonDenied},
		"a page about something":          {200, "text/html", page, "", resolve.ReasonFailed},
		"a page at the end of a redirect": {200, "text/html", page, "/blog/inside", resolve.ReasonFailed},
		"text":                            {200, "text/plain", form, "", resolve.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveAnswer(t, c.code, c.media, c.body, c.leading)
			ca := gittest.PEM(s.Certificate().Raw)
			sec := secrets{"ns/mine": {"token": []byte("t")}}
			g := newResolver(t, nil)
			e := failure(t, g, ask(sec, ":ca-bundle", ca, "url", s.URL+"/team/r.git", "gitToken", "mine", "pathInRepo", "x"), c.want)
			if c.want == resolve.ReasonDenied && !strings.Contains(e.Msg, "signing in") {
				t.Errorf("git: %s", e.Msg)
			}
			for _, kind := range []string{"azure", "gitlab", "github", "gitea", "bitbucketserver", "bitbucketcloud"} {
				e := failure(t, g, ask(sec, ":ca-bundle", ca, "scmType", kind, "serverURL", s.URL, "token", "mine", "org", "team", "repo", "r", "pathInRepo", "x"), c.want)
				if c.want == resolve.ReasonDenied && !strings.Contains(e.Msg, "signing in") {
					t.Errorf("%s: %s", kind, e.Msg)
				}
			}
		})
	}
}

// A file may be a page, also one for signing in.
func TestAPageMayBeAFile(t *testing.T) {
	const form = `<title>Log in</title><input type=password>`
	s := serveAnswer(t, http.StatusOK, "text/html", form, "")
	id := strings.Repeat("ab", 20)
	wantData(t, newResolver(t, nil), ask(secrets{"ns/mine": {"token": []byte("t")}}, ":ca-bundle", gittest.PEM(s.Certificate().Raw), "scmType", "gitea", "serverURL", s.URL,
		"token", "mine", "org", "o", "repo", "r", "revision", id, "pathInRepo", "login.html"), form)
}

// A link is not followed by the API of Gitea, GitLab and others, which give its text.
func TestTheTextOfALinkIsTold(t *testing.T) {
	id := strings.Repeat("ab", 20)
	for text, want := range map[string]bool{"../task.yaml": true, "kind: Task\n": false, "{}": false, "one\ntwo": false} {
		s := serveAnswer(t, http.StatusOK, "text/plain", text, "")
		got := wantData(t, newResolver(t, nil), ask(nil, ":ca-bundle", gittest.PEM(s.Certificate().Raw), ":scm-type", "gitea", ":server-url", s.URL, "org", "o", "repo", "r", "revision", id, "pathInRepo", "link"), text)
		if told := strings.Contains(got.Annotations[resolve.AnnotationWarning], "symbolic link"); told != want {
			t.Errorf("%q: %v", text, got.Annotations)
		}
	}
}

// What is missing, and why that may be, is told for a request with and without a token and a revision.
func TestWhatAnAPIDoesNotFindIsExplained(t *testing.T) {
	mine := secrets{"ns/mine": {"token": []byte("t")}}
	for _, tt := range []struct {
		status int
		params []string
		want   []string
	}{
		{http.StatusNotFound, []string{"revision", "dev"}, []string{`no revision "dev", or it cannot be read without a token`}},
		{http.StatusNotFound, []string{"revision", "dev", "token", "mine"}, []string{`no revision "dev", or the token may not read it`}},
		{http.StatusNotFound, nil, []string{`no revision "main"`, "default-revision"}},
		{http.StatusConflict, nil, []string{`no revision "main"; the repository is empty`}},
	} {
		s := serveAnswer(t, tt.status, "application/json", "{}", "")
		params := append([]string{":ca-bundle", gittest.PEM(s.Certificate().Raw), ":scm-type", "gitea", ":server-url", s.URL, "org", "o", "repo", "r", "pathInRepo", "x"}, tt.params...)
		e := failure(t, newResolver(t, nil), ask(mine, params...), resolve.ReasonNotFound)
		for _, want := range tt.want {
			if !strings.Contains(e.Msg, want) {
				t.Errorf("%d %v: no %q in %s", tt.status, tt.params, want, e.Msg)
			}
		}
	}
}

func TestNamesOfAzureDevOpsHaveSpaces(t *testing.T) {
	id := strings.Repeat("ab", 20)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/org/My%20Project/_apis/git/repositories/My%20Repo/commits":
			_, _ = io.WriteString(w, `{"value":[{"commitId":"`+id+`"}]}`)
		case "/org/My%20Project/_apis/git/repositories/My%20Repo/items":
			_, _ = io.WriteString(w, `{"gitObjectType":"blob","content":"kind: Task\n"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	params := []string{
		":ca-bundle", gittest.PEM(s.Certificate().Raw), "scmType", "azure", "serverURL", s.URL, "token", "mine", "org", "org/My Project", "repo", "My Repo", "pathInRepo", "x",
	}
	sec := secrets{"ns/mine": {"token": []byte("t")}}
	g := newResolver(t, nil)
	got := wantData(t, g, ask(sec, params...), "kind: Task\n")
	if want := "git+" + s.URL + "/org/My%20Project/_git/My%20Repo"; got.Source.URI != want {
		t.Errorf("source %s, want %s", got.Source.URI, want)
	}
	host := strings.TrimPrefix(s.URL, "https://")
	wantReason(t, g, ask(sec, append(params, ":policy", "deny: [{repository: '"+host+"/org/My%20Project/**'}]")...), resolve.ReasonForbidden)
	for _, bad := range []string{" a", "a ", "a/ b", "a//b"} {
		wantReason(t, g, ask(sec, append(params, "org", bad)...), resolve.ReasonInvalid)
	}
}

func TestAnAddressMayHaveASpace(t *testing.T) {
	s := gittest.NewServer(t, false)
	gittest.NewOrigin(t, s.Root, "My Project/_git/My Repo", someFiles)
	wantData(t, newResolver(t, nil), ask(nil, "url", s.URL+"/My%20Project/_git/My%20Repo", "pathInRepo", "task.yaml"), "kind: Task\n")
}
