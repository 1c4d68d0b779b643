package resolvers_test

import (
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/gittest"
)

// credentials are Secrets by name, in every namespace.
type credentials map[string]map[string][]byte

func (c credentials) Secret(_ context.Context, _, name string) (map[string][]byte, error) {
	return c[name], nil
}

// A rule of addresses that is tightened holds from the next request on, whatever is known or connected already, for every
// resolver and each of its ways to the network.
func TestATightenedRuleReachesWhatIsKnown(t *testing.T) {
	repository := gittest.NewServer(t, true)
	origin := gittest.NewOrigin(t, repository.Root, "r.git", map[string]string{"task.yaml": "kind: Task\n", "other.yaml": "kind: Other\n"})
	commit := gittest.Run(t, origin.Dir, nil, "rev-parse", "main")
	origin.Commit("other", map[string]string{"task.yaml": "kind: Task2\n"})
	shell := gittest.NewSSHServer(t, true)
	gittest.NewOrigin(t, shell.Root, "r.git", map[string]string{"task.yaml": "kind: Task\n"})
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "kind: Task\n"
		if strings.HasPrefix(r.URL.Path, "/api/v1/packages/") {
			text = `{"data":{"manifestRaw":"kind: Task"}}`
		}
		if strings.HasSuffix(r.URL.Path, "/commits") {
			text = `[{"sha":"` + commit + `"}]`
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(files.Close)
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	host := images.Listener.Addr().String()
	reg, err := bundletest.NewRegistry(host, "team/bundle", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := reg.Push(t.Context(), "v1", bundletest.Task("task", "kind: Task\n"))
	if err != nil {
		t.Fatal(err)
	}

	type asks map[string][]string
	ways := map[string]struct {
		config map[string]string
		asks   asks
	}{
		"git": {map[string]string{"ca-bundle": repository.CA, "ref-ttl": "1h", "scm-type": "gitea", "server-url": files.URL}, asks{
			"a branch":       {"url", repository.URL + "/r.git", "revision", "main", "pathInRepo", "task.yaml"},
			"a branch again": {"url", repository.URL + "/r.git", "revision", "main", "pathInRepo", "other.yaml"},
			"another branch": {"url", repository.URL + "/r.git", "revision", "other", "pathInRepo", "task.yaml"},
			"a commit":       {"url", repository.URL + "/r.git", "revision", commit, "pathInRepo", "task.yaml"},
			"a short commit": {"url", repository.URL + "/r.git", "revision", commit[:9], "pathInRepo", "task.yaml"},
			"the cache":      {"url", repository.URL + "/r.git", "revision", commit, "pathInRepo", "task.yaml", "cache", "always"},
			"not the cache":  {"url", repository.URL + "/r.git", "revision", commit, "pathInRepo", "task.yaml", "cache", "never"},
			"an API":         {"org", "o", "repo", "r", "pathInRepo", "task.yaml"},
			"ssh":            {"url", "ssh://git@" + shell.Address + "/r.git", "pathInRepo", "task.yaml", "authSecret", "key"},
			"ssh, once more": {"url", "ssh://git@" + shell.Address + "/r.git", "pathInRepo", "task.yaml", "authSecret", "key", "cache", "never"},
		}},
		"http": {map[string]string{"allow-plain-http": "true"}, asks{
			"a file":    {"url", files.URL + "/task.yaml"},
			"the cache": {"url", files.URL + "/task.yaml", "cache", "always"},
		}},
		"hub": {map[string]string{"allow-plain-http": "true", "artifact-hub-urls": "[" + files.URL + "]"}, asks{
			"a task":      {"name", "task", "version", "1.0.0"},
			"the cache":   {"name", "task", "version", "1.0.0", "cache", "always"},
			"its own hub": {"name", "task", "version", "1.0.0", "url", files.URL},
		}},
		"bundles": {map[string]string{"plain-http-registries": host}, asks{
			"a tag":     {"bundle", host + "/team/bundle:v1", "name", "task", "kind", "task"},
			"a digest":  {"bundle", host + "/team/bundle@" + digest.String(), "name", "task", "kind", "task"},
			"the cache": {"bundle", host + "/team/bundle@" + digest.String(), "name", "task", "kind", "task", "cache", "always"},
		}},
	}
	secrets := credentials{"key": shell.Secret()}
	for _, e := range resolvers.Table() {
		way, ok := ways[e.Name]
		if keys := e.Spec().Keys(); !ok {
			for _, k := range keys {
				if k.Name == "allowed-addresses" {
					t.Errorf("no test of the addresses of the resolver %s", e.Name)
				}
			}
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			made, err := e.New(t.Context(), resolvers.Env{Clock: resolve.SystemClock(), Cache: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			list, err := resolve.NewRegistry(made)
			if err != nil {
				t.Fatal(err)
			}
			runner, err := resolve.NewRunner(resolve.Options{Resolvers: list})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				runner.Wait()
				if err := resolve.CloseAll([]resolve.Resolver{made}); err != nil {
					t.Error(err)
				}
			})
			// Wide, tight, and wide again: what is open again must work.
			for _, allowed := range []string{"127.0.0.1", "", "127.0.0.1/32"} {
				data := maps.Clone(way.config)
				data["allowed-addresses"] = allowed
				if err := runner.Configure(e.Name, data); err != nil {
					t.Fatal(err)
				}
				for what, params := range way.asks {
					q := &resolve.Query{Resolver: e.Name, Namespace: "team", Secrets: secrets}
					for i := 0; i < len(params); i += 2 {
						q.Params = append(q.Params, resolve.Given{Name: params[i], Value: resolve.Value{Type: resolve.String, String: params[i+1]}})
					}
					_, err := runner.Resolve(t.Context(), q)
					var failure *resolve.Error
					switch errors.As(err, &failure); {
					case allowed != "" && err != nil:
						t.Errorf("%s, allowed %s: %v", what, allowed, err)
					case allowed == "" && (failure == nil || failure.Reason != resolve.ReasonForbidden):
						t.Errorf("%s, not allowed any more: %v", what, err)
					}
				}
			}
		})
	}
}
