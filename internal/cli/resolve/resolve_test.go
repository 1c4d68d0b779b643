package resolve

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/internal/cli/command"
	"sluice.dev/resolve"
	"sluice.dev/tools/gittest"
)

// runResolve runs sluice resolve and returns the exit code and both outputs.
func runResolve(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := &command.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
	code = command.Run(t.Context(), e, args, New)
	return code, out.String(), errs.String()
}

// write makes a file in a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParametersTakeTheTypesThatAreDeclared(t *testing.T) {
	spec := resolve.Spec{Params: []resolve.Param{
		{Name: "text"}, {Name: "list", Aliases: []string{"items"}, Type: resolve.Array}, {Name: "map", Type: resolve.Object},
	}}
	str := func(s string) resolve.Value { return resolve.Value{Type: resolve.String, String: s} }
	for name, test := range map[string]struct {
		given []string
		want  []resolve.Given
	}{
		"text":           {[]string{"text=a=b"}, []resolve.Given{{Name: "text", Value: str("a=b")}}},
		"text twice":     {[]string{"text=a", "text=b"}, []resolve.Given{{Name: "text", Value: str("a")}, {Name: "text", Value: str("b")}}},
		"text like JSON": {[]string{`text=["a"]`}, []resolve.Given{{Name: "text", Value: str(`["a"]`)}}},
		"undeclared":     {[]string{"other=x"}, []resolve.Given{{Name: "other", Value: str("x")}}},
		"items":          {[]string{"items=a", "items=b"}, []resolve.Given{{Name: "items", Value: resolve.Value{Type: resolve.Array, Array: []string{"a", "b"}}}}},
		"JSON array":     {[]string{`list=["a", "b"]`}, []resolve.Given{{Name: "list", Value: resolve.Value{Type: resolve.Array, Array: []string{"a", "b"}}}}},
		"entries":        {[]string{"map=a=1", "map=b=2=3"}, []resolve.Given{{Name: "map", Value: resolve.Value{Type: resolve.Object, Object: map[string]string{"a": "1", "b": "2=3"}}}}},
		"JSON object":    {[]string{`map={"a": "1"}`}, []resolve.Given{{Name: "map", Value: resolve.Value{Type: resolve.Object, Object: map[string]string{"a": "1"}}}}},
		"no value":       {[]string{"text"}, nil},
		"no name":        {[]string{"=x"}, nil},
		"bad array":      {[]string{"list=[1]"}, nil},
		"bad object":     {[]string{`map={"a": 1}`}, nil},
		"no entry":       {[]string{"map=a"}, nil},
	} {
		got, err := parseParams(spec, test.given)
		if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestSecretsAreReadInEveryForm(t *testing.T) {
	dir := t.TempDir()
	manifest := write(t, dir, "secret.yaml", "kind: Secret\nmetadata: {annotations: {sluice.dev/hosts: git.example.com}}\ndata: {a: QQ==}\nstringData: {b: B}\n")
	write(t, dir, "all/mounted/token", "T")
	write(t, dir, "all/mounted/..data/token", "hidden")
	file := write(t, dir, "file", "F\n")
	got, err := readSecrets([]string{"m=" + manifest, "d=" + filepath.Join(dir, "all/mounted"), "k:x=" + file, "k:y=" + file}, filepath.Join(dir, "all"))
	want := givenSecrets{
		"mounted": {"token": []byte("T")}, "d": {"token": []byte("T")}, "m": {"a": []byte("A"), "b": []byte("B"), "sluice.dev/hosts": []byte("git.example.com")}, "k": {"x": []byte("F\n"), "y": []byte("F\n")},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestACredentialGoesToTheServerThatItIsFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("kind: Task\n"))
	}))
	t.Cleanup(server.Close)
	args := []string{"http", "-p", "url=" + server.URL, "-p", "http-token-secret=t", "--set", "allow-plain-http=true", "--allow-address", "127.0.0.1"}
	code, out, errs := runResolve(t, append(args, "--secret", "t:token="+write(t, t.TempDir(), "token", "secret\n"))...)
	if code != command.ExitOK || out != "kind: Task\n" || errs != "" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	code, out, errs = runResolve(t, append(args, "--secret", "t:token="+write(t, t.TempDir(), "token", "wrong"))...)
	if code != command.ExitFailed || out != "" || !strings.HasPrefix(errs, "sluice: AccessDenied: ") || strings.Contains(errs, "wrong") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

func TestTheTimeThatARunMayTakeIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	code, _, errs := runResolve(t, "http", "-p", "url="+server.URL, "--set", "allow-plain-http=true", "--allow-address", "127.0.0.1", "--timeout", "50ms")
	if code != command.ExitFailed || !strings.Contains(errs, "--timeout") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// gitRepository serves a repository over HTTP and returns its URL and its commit.
func gitRepository(t *testing.T, files map[string]string) (url, commit string) {
	t.Helper()
	root := t.TempDir()
	work := filepath.Join(root, "work")
	for name, text := range files {
		write(t, work, name, text)
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	git("clone", "-q", "--bare", ".", filepath.Join(root, "repo.git"))
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, InheritEnv: []string{"PATH"},
	})
	t.Cleanup(server.Close)
	return server.URL + "/repo.git", git("rev-parse", "HEAD")
}

func TestRunsAtOnceEachHaveAFolder(t *testing.T) {
	url, _ := gitRepository(t, map[string]string{"task.yaml": "kind: Task\n"})
	cache := t.TempDir()
	var wg sync.WaitGroup
	// More at once than there are folders that stay.
	for range slots + 2 {
		wg.Go(func() {
			code, out, errs := runResolve(t, "git", "-p", "url="+url, "-p", "pathInRepo=task.yaml", "--allow-address", "127.0.0.1", "--cache-dir", cache)
			if code != command.ExitOK || out != "kind: Task\n" {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
		})
	}
	wg.Wait()
	folder, free, err := lockCacheSlot(cache)
	if err != nil || folder != filepath.Join(cache, "slot-0") {
		t.Fatalf("the first folder is not free again: %s %v", folder, err)
	}
	next, freeNext, err := lockCacheSlot(cache)
	if err != nil || next != filepath.Join(cache, "slot-1") {
		t.Errorf("two runs have a folder: %s %v", next, err)
	}
	for _, f := range []func() error{free, freeNext} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	if mirrors, err := filepath.Glob(filepath.Join(cache, "slot-0", "mirrors", "*")); err != nil || len(mirrors) != 1 {
		t.Errorf("mirrors that stay: %v %v", mirrors, err)
	}
}

func TestRecursionBringsTheNeighboursAtTheSameCommit(t *testing.T) {
	const pipeline = `kind: Pipeline
spec:
  tasks:
  - taskRef: {resolver: git, params: [{name: pathInRepo, value: ./task.yaml}]}
  - taskRef: {name: named}
  - taskRef: {resolver: git, params: [{name: pathInRepo, value: $(params.x)}]}
`
	url, commit := gitRepository(t, map[string]string{
		"ci/pipeline.yaml": pipeline, "ci/task.yaml": "kind: Task\nspec: {steps: [{ref: {resolver: git, resource: {path: step.yaml}}}]}\n",
		"step.yaml": "kind: StepAction\n", "tasks/named.yaml": "kind: Named",
		"loop.yaml": "kind: Pipeline\nspec: {tasks: [{pipelineRef: {resolver: git, params: [{name: pathInRepo, value: loop.yaml}]}}]}\n",
	})
	args := []string{"git", "-p", "url=" + url, "--allow-address", "127.0.0.1", "--cache-dir", t.TempDir(), "--recursive"}
	code, out, errs := runResolve(t, append(args, "-p", "pathInRepo=ci/pipeline.yaml", "--default-remote", "task=git,pathInRepo=tasks/{name}.yaml")...)
	want := pipeline + "---\nkind: Task\nspec: {steps: [{ref: {resolver: git, resource: {path: step.yaml}}}]}\n---\nkind: StepAction\n---\nkind: Named"
	if diff := cmp.Diff(want, out); code != command.ExitOK || diff != "" || !strings.Contains(errs, "note: spec.tasks[2].taskRef is not followed") {
		t.Errorf("exit code %d, %s, %s", code, diff, errs)
	}
	code, out, errs = runResolve(t, append(args, "-p", "pathInRepo=ci/pipeline.yaml", "--pin", "-o", "json")...)
	var list ResolvedList
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != command.ExitOK || len(list.Items) != 3 {
		t.Fatalf("exit code %d, %v, %s, %s", code, err, out, errs)
	}
	for i, from := range []string{"", "spec.tasks[0].taskRef", "spec.steps[0].ref"} {
		item := list.Items[i]
		if item.From != from || item.RefSource.Digest["sha1"] != commit || i < 2 && !strings.Contains(item.Content, commit) {
			t.Errorf("item %d: %+v", i, item)
		}
	}
	for name, more := range map[string][]string{
		"it refers to itself: the resource -> spec.tasks[0].pipelineRef": {"-p", "pathInRepo=loop.yaml"},
		"more than 1 resources":    {"-p", "pathInRepo=ci/pipeline.yaml", "--max-resources", "1"},
		"more than 1 references":   {"-p", "pathInRepo=ci/pipeline.yaml", "--max-depth", "1"},
		"are 1 at least":           {"-p", "pathInRepo=ci/pipeline.yaml", "--max-depth", "0"},
		"want KIND=RESOLVER":       {"-p", "pathInRepo=ci/pipeline.yaml", "--default-remote", "task"},
		"NotFound: spec.tasks[1].": {"-p", "pathInRepo=ci/pipeline.yaml", "--default-remote", "*=git,pathInRepo=none"},
	} {
		if code, out, errs := runResolve(t, append(args, more...)...); code != command.ExitFailed || out != "" || !strings.Contains(errs, name) {
			t.Errorf("%s: exit code %d, %q, %q", name, code, out, errs)
		}
	}
}

func TestRecursionSeesOneCommitOfABranchThatMoves(t *testing.T) {
	refTo := func(kind, file, revision, url string) string {
		text := "  - " + kind + ": {resolver: git, params: [{name: url, value: " + url + "}, {name: pathInRepo, value: " + file + "}"
		if revision != "" {
			text += ", {name: revision, value: " + revision + "}"
		}
		return text + "]}\n"
	}
	for _, asked := range []string{"", "main", "refs/heads/main", "HEAD"} {
		server, bare := movingRepository(t)
		task := func(revision string) string { return refTo("taskRef", "a.yaml", revision, server) }
		bare.Commit("main", map[string]string{
			"p.yaml": "kind: Pipeline\nspec:\n  tasks:\n" + task("main") + refTo("pipelineRef", "q.yaml", "", server),
			"q.yaml": "kind: Pipeline\nspec:\n  tasks:\n" + task("main") + task("refs/heads/main") + task("HEAD") + task(""),
			"a.yaml": "kind: Task\n",
		})
		args := []string{"git", "-p", "url=" + server, "-p", "pathInRepo=p.yaml", "--allow-address", "127.0.0.1", "--cache-dir", t.TempDir(), "--recursive", "--pin", "--set", "ref-ttl=1ms", "-o", "json"}
		if asked != "" {
			args = append(args, "-p", "revision="+asked)
		}
		code, out, errs := runResolve(t, args...)
		var list ResolvedList
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != command.ExitOK || len(list.Items) != 3 {
			t.Fatalf("%q: exit code %d, %v, %d items, %s", asked, code, err, len(list.Items), errs)
		}
		commits := map[string]bool{}
		for _, item := range list.Items {
			commits[item.RefSource.Digest["sha1"]] = true
			for _, moves := range []string{"value: main", "value: refs/heads/main", "value: HEAD"} {
				if strings.Contains(item.Content, moves) {
					t.Errorf("%q: %s is left in\n%s", asked, moves, item.Content)
				}
			}
		}
		if len(commits) != 1 {
			t.Errorf("%q: the answer has %d commits", asked, len(commits))
		}
	}
}

// movingRepository returns a repository whose branch main gets a commit after each list of its branches.
func movingRepository(t *testing.T) (url string, o *gittest.Origin) {
	t.Helper()
	s := gittest.NewServer(t, false)
	o = gittest.NewOrigin(t, s.Root, "r.git", map[string]string{"other": "x"})
	inner, err := neturl.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(inner)
	moving := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
		if bytes.Contains(body, []byte("command=ls-refs")) {
			o.Commit("main", map[string]string{"other": time.Now().String()})
		}
	}))
	t.Cleanup(moving.Close)
	return moving.URL + "/r.git", o
}

func TestAMistakeInTheConfigurationEndsTheCommand(t *testing.T) {
	for _, set := range []string{"foo=1", "ref-ttl=soon"} {
		code, out, errs := runResolve(t, "git", "-p", "url=https://git.test/r", "-p", "pathInRepo=x", "--cache-dir", t.TempDir(), "--set", set)
		key, _, _ := strings.Cut(set, "=")
		if code != command.ExitFailed || out != "" || !strings.Contains(errs, key) || strings.Contains(errs, "ignored") || strings.Contains(errs, "holds") {
			t.Errorf("%s: exit code %d, %q, %q", set, code, out, errs)
		}
	}
}
