package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice.dev/resolve"
	"sluice.dev/resolve/hub"
	"sluice.dev/resolve/netguard"
	"sluice.dev/resolve/resolvetest"
)

// reply writes JSON.
func reply(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func server(t *testing.T, content string) *httptest.Server {
	t.Helper()
	type object = map[string]any
	versions := []object{{"version": "0.2.0"}, {"version": "0.6.0"}, {"version": "0.6.1"}, {"version": "0.7.0", "prerelease": true}, {"version": "0.10.0"}, {"version": "0.9.1"}, {"version": "1.0.0-rc.1", "prerelease": true}, {"version": "x/../../../evil"}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/api/v1/packages/tekton-task/tekton-catalog-tasks/git-clone":
			reply(w, object{"available_versions": versions})
		case "/v1/resource/Tekton/task/git-clone":
			reply(w, object{"data": object{"versions": []object{{"version": "0.2"}, {"version": "0.10"}}}})
		case "/api/v1/packages/tekton-task/tekton-catalog-tasks/git-clone/0.6.0", "/api/v1/packages/tekton-task/tekton-catalog-tasks/git-clone/0.6.1",
			"/api/v1/packages/tekton-task/tekton-catalog-tasks/git-clone/0.10.0", "/api/v1/packages/tekton-task/tekton-catalog-tasks/git-clone/0.9.1":
			reply(w, object{"data": object{"manifestRaw": content + r.URL.Path}})
		case "/v1/resource/Tekton/task/git-clone/0.10/yaml":
			reply(w, object{"data": object{"yaml": content + r.URL.Path}})
		case "/api/v1/packages/tekton-pipeline/tekton-catalog-pipelines/busy/1.0.0":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/api/v1/packages/tekton-task/tekton-catalog-tasks/garbage/1.0.0":
			_, _ = io.WriteString(w, "<html>")
		case "/api/v1/packages/tekton-task/tekton-catalog-tasks/two/1.0.0":
			reply(w, object{"data": object{"manifestRaw": "---\nkind: Task\n---\nkind: Secret\n"}})
		case "/api/v1/packages/tekton-task/tekton-catalog-tasks/endless/1.0.0":
			_, _ = io.WriteString(w, `{"data":{"manifestRaw":"`)
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
					return
				}
			}
		case "/api/v1/packages/tekton-task/tekton-catalog-tasks/hang/1.0.0":
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func newHub(t *testing.T, o hub.Options) *hub.Resolver {
	t.Helper()
	o.Network = netguard.Options{Allow: []string{"127.0.0.1"}}
	h, err := hub.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The environment gives the addresses that the ConfigMap does not give.
func TestAddressesFromTheEnvironment(t *testing.T) {
	env, configured := server(t, "env "), server(t, "configured ")
	runnerOf := func(data map[string]string) *resolve.Runner {
		registry, err := resolve.NewRegistry(newHub(t, hub.Options{ArtifactURL: env.URL + "/", TektonURL: env.URL}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Configure("hub", data); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, test := range []struct {
		kind, list, want string
	}{
		{"artifact", "", "env "}, {"tekton", "", "env "}, {"artifact", "- " + configured.URL, "configured "}, {"tekton", "- " + configured.URL, "configured "},
	} {
		r := runnerOf(map[string]string{"allow-plain-http": "true", test.kind + "-hub-urls": test.list})
		res, err := r.Resolve(t.Context(), &resolve.Query{Resolver: "hub", Params: resolve.Strings(map[string]string{"name": "git-clone", "version": "0.10.0", "type": test.kind})})
		if err != nil || !strings.HasPrefix(string(res.Data), test.want) {
			t.Errorf("%v: %v %v", test, res, err)
		}
	}
	for _, bad := range []string{"file:///etc", "artifacthub.io", "https://u:p@h"} {
		if _, err := hub.New(hub.Options{ArtifactURL: bad}); err == nil || !strings.Contains(err.Error(), hub.EnvArtifactURL) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestConformance(t *testing.T) {
	first, second := server(t, "first "), server(t, "second ")
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	artifact := func(name, version string, more ...string) map[string]string {
		out := map[string]string{"name": name, "version": version}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	want := func(name, data string, params map[string]string) resolvetest.Request {
		return resolvetest.Request{Name: name, Params: params, Data: []byte(data)}
	}
	bad := func(why resolve.Reason, transient bool, params map[string]string) resolvetest.Failure {
		return resolvetest.Failure{Request: resolvetest.Request{Name: fmt.Sprint(params), Params: params}, Reason: why, Transient: transient}
	}
	hang := resolvetest.Request{Params: artifact("hang", "1.0.0")}
	const tasks = "/api/v1/packages/tekton-task/tekton-catalog-tasks/git-clone/"
	resolvetest.Run(t, resolvetest.Case{
		Resolver: newHub(t, hub.Options{}),
		Config: map[string]string{
			"artifact-hub-urls": fmt.Sprintf("- %s\n- %s/\n- %s\n", empty.URL, first.URL, second.URL),
			"tekton-hub-urls":   fmt.Sprintf("[%s]", first.URL),
			"allow-plain-http":  "true",
		},
		Works: []resolvetest.Request{
			want("a version", "first "+tasks+"0.9.1", artifact("git-clone", "0.9.1")),
			want("a short version", "first "+tasks+"0.10.0", artifact("git-clone", "0.10", "kind", "task", "type", "artifact")),
			want("a constraint", "first "+tasks+"0.10.0", artifact("git-clone", ">= 0.7.0")),
			want("a constraint with two sides", "first "+tasks+"0.9.1", artifact("git-clone", ">= 0.7.0, < 0.10.0")),
			// The answers of package go-version, which Tekton uses.
			want("up to the next minor version", "first "+tasks+"0.10.0", artifact("git-clone", "~> 0.6")),
			want("up to the next patch", "first "+tasks+"0.6.1", artifact("git-clone", "~> 0.6.0")),
			want("equal", "first "+tasks+"0.6.0", artifact("git-clone", "= 0.6")),
			want("at most", "first "+tasks+"0.6.0", artifact("git-clone", "<=0.6")),
			want("between", "first "+tasks+"0.6.1", artifact("git-clone", ">0.6, <0.9")),
			want("not equal", "first "+tasks+"0.9.1", artifact("git-clone", "!= 0.10.0")),
			want("with a v", "first "+tasks+"0.6.0", artifact("git-clone", "v0.6.0")),
			want("short with a v", "first "+tasks+"0.6.0", artifact("git-clone", "v0.6")),
			want("a given address", "second "+tasks+"0.9.1", artifact("git-clone", "0.9.1", "url", second.URL)),
			want("Tekton Hub", "first /v1/resource/Tekton/task/git-clone/0.10/yaml", artifact("git-clone", "0.10.0", "type", "tekton")),
			want("a constraint on Tekton Hub", "first /v1/resource/Tekton/task/git-clone/0.10/yaml", artifact("git-clone", "> 0.2", "type", "tekton")),
		},
		Fails: []resolvetest.Failure{
			bad(resolve.ReasonNotFound, false, artifact("no", "1.0.0")),
			bad(resolve.ReasonNotFound, false, artifact("git-clone", "> 5")),
			bad(resolve.ReasonUnavailable, true, artifact("busy", "1.0.0", "kind", "pipeline")),
			bad(resolve.ReasonFailed, false, artifact("garbage", "1.0.0")),
			bad(resolve.ReasonTooLarge, false, artifact("endless", "1.0.0")),
			bad(resolve.ReasonFailed, false, artifact("two", "1.0.0")),
			bad(resolve.ReasonForbidden, false, artifact("git-clone", "1.0.0", "url", "http://169.254.169.254")),
			bad(resolve.ReasonForbidden, false, artifact("git-clone", "1.0.0", "url", "https://10.0.0.1")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "1.0.0", "url", "file:///etc")),
			bad(resolve.ReasonInvalid, false, artifact("../../x", "1.0.0")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "../1.0.0")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "1.0.0?x")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", ">= abc")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "^0.6")),
			bad(resolve.ReasonNotFound, false, artifact("git-clone", "= 0.7")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "1.0.0", "catalog", "a/b")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "1.0.0", "kind", "stepaction")),
			bad(resolve.ReasonInvalid, false, artifact("git-clone", "1.0.0", "type", "other")),
		},
		Hangs: &hang,
	})
}

func TestAMissSaysWhichVersionsThereAre(t *testing.T) {
	s := server(t, "x")
	registry, err := resolve.NewRegistry(newHub(t, hub.Options{ArtifactURL: s.URL, TektonURL: s.URL}))
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolve.NewRunner(resolve.Options{Resolvers: registry})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Configure("hub", map[string]string{"allow-plain-http": "true"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ kind, version, want string }{
		{"artifact", "0.6.9", "has no version 0.6.9 of task git-clone; the nearest is 0.6.1; there are 1.0.0-rc.1, 0.10.0, 0.9.1, 0.7.0, 0.6.1, ..."},
		{"tekton", "0.3", "has no version 0.3 of task git-clone; the nearest is 0.2; there are 0.10, 0.2"},
		{"artifact", "v0.9", "the nearest is 0.9.1"},
		{"artifact", "0.1.0", "the nearest is 0.2.0"},
		{"artifact", "3", "the nearest is 1.0.0-rc.1"},
		{"artifact", "latest", "of task git-clone; there are 1.0.0-rc.1"},
		{"artifact", "> 2.0", `none of the 8 versions of task git-clone satisfies "> 2.0"; there are 1.0.0-rc.1, 0.10.0`},
		{"artifact", "^0.9.0", "write ~> 0.9"},
		{"artifact", "*", "write ~> 0.9"},
	} {
		_, err := r.Resolve(t.Context(), &resolve.Query{Resolver: "hub", Params: resolve.Strings(map[string]string{"name": "git-clone", "version": test.version, "type": test.kind})})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v", test, err)
		}
	}
}
