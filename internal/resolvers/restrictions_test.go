package resolvers_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
	resolvecluster "sluice.dev/resolve/cluster"
	"sluice.dev/tools/gittest"
)

// taskAndSecret is a cluster that has any object of two kinds, which no user may read.
type taskAndSecret struct{}

func (taskAndSecret) Mapping(_ context.Context, group, _, kind string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Scope: meta.RESTScopeNamespace,
		Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: kind + "s"},
	}, nil
}

func (taskAndSecret) Get(_ context.Context, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": gvr.Resource, "metadata": map[string]any{"name": name, "namespace": namespace, "uid": "u"},
	}}, nil
}

func (taskAndSecret) CanGet(context.Context, string, schema.GroupVersionResource, string, string) (bool, error) {
	return false, nil
}

// restriction is a key that restricts requests, with a value by which one is refused that is not refused without it.
type restriction struct {
	resolver, key, value string
	// in puts a changed value into the form of the key; nil: it is the key's value.
	in func(value string) string
	// with are other keys, and params the parameters of the request.
	with   map[string]string
	params []string
	// odd are more spellings of the value, and values that restrict nothing as they are written.
	odd []string
	// names: a number and a list of names are good values too.
	names bool
	// network: without the restriction the request would leave the machine.
	network bool
}

func restrictions(t *testing.T, host string) []restriction {
	t.Helper()
	quick := map[string]string{"allowed-addresses": "127.0.0.1", "backoff-steps": "1", "fetch-timeout": "10s"}
	with := func(more ...string) map[string]string {
		out := maps.Clone(quick)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	repository := []string{"url", "https://" + host + "/team/r.git", "pathInRepo", "task.yaml"}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	signer := "joe@example.com " + gittest.NewSSHKey(t).Public
	task := []string{"kind", "task", "name", "x", "namespace", "kube-system", "apiVersion", "tekton.dev/v1"}
	return []restriction{
		{
			resolver: "git", key: "policy", value: host + "/team/**", in: func(v string) string { return "deny: [{repository: '" + v + "'}]" }, with: quick, params: repository,
			odd: []string{"https://" + host + "/team/**", "ssh://git@" + host + "/team/**", host + "/team/r.git", "https://" + host, name + ".:0" + port + "/**"},
		},
		{
			resolver: "git", key: "policy", value: "allow: []", with: quick, params: repository,
			odd: []string{
				"allow:", "{}", "null", "allow: {}", "Allow: []", "allow: [{repository: ''}]", "allow: [{repository: }]", "allow: [null]", "deny:", "deny: [{path: }]",
				"deny: [{paths: a}]", "{namespaces: {team: {allow: []}}}", "namespaces: {Team: {allow: []}}", "namespaces: {team: }", "deny: [{path: a}]\n---\nallow: []",
			},
		},
		{
			resolver: "git", key: "x.hosts", value: host, with: with("x.policy", "allow: []"), params: repository,
			odd: []string{"https://" + host, "ssh://git@" + name + ".:" + port, name + ".:0" + port, "*.0.0.1:" + port, "a b, " + host, ","},
		},
		{
			resolver: "git", key: "allowed-signers", value: signer, with: with("scm-type", "gitea", "server-url", "https://"+host), params: []string{"org", "o", "repo", "r", "pathInRepo", "x"},
			odd: []string{"joe@example.com", "namespaces=\"file\" " + signer, "-----BEGIN PGP PUBLIC KEY BLOCK-----"},
		},
		{resolver: "git", key: "secrets-need-hosts", value: "true", with: quick, params: append([]string{"gitToken", "s"}, repository...)},
		{resolver: "http", key: "secrets-need-hosts", value: "true", with: quick, params: []string{"url", "https://" + host, "http-token-secret", "s"}},
		{resolver: "git", key: "allow-private-addresses", value: "false", with: with("backoff-steps", "1"), params: []string{"url", "https://10.0.0.1/r", "pathInRepo", "x"}, network: true},
		{resolver: "hub", key: "allow-private-addresses", value: "false", with: with("artifact-hub-urls", "[https://10.0.0.1]"), params: []string{"name", "x", "version", "1.0.0"}, network: true},
		{resolver: "bundles", key: "allow-private-addresses", value: "false", with: with("backoff-steps", "1"), params: []string{"bundle", "10.0.0.1/a/b", "name", "x"}, network: true},
		{resolver: "http", key: "allow-private-addresses", value: "false", with: with("backoff-steps", "1"), params: []string{"url", "https://10.0.0.1/x"}, network: true},
		{resolver: "dir", key: "content-kinds", value: "Task.tekton.dev", params: []string{"path", "secret.yaml"}, odd: []string{"task", "Task.tekton.dev.", "v1/Secret", "*.", ".", ","}},
		{resolver: "cluster", key: "allowed-namespaces", value: "team-a", params: task, names: true, odd: []string{"team-*", "team_a", ",", "kube-system/x", "[team-a]", "team-a;kube-system"}},
		{resolver: "cluster", key: "blocked-namespaces", value: "kube-system", params: task, names: true, odd: []string{"kube-*", "kube_system", ",", "kube-system;default", "[kube-system]", "a kube-system"}},
		{
			resolver: "cluster", key: "allowed-kinds", value: "pipeline.tekton.dev", params: task,
			odd: []string{"pipeline.tekton.dev;task.tekton.dev", "pipelines.tekton.dev/v1", "*.", "pipeline.", ",", "**"},
		},
		{resolver: "cluster", key: "check-access", value: "true", params: task, odd: []string{"yes", "on", "enabled"}},
	}
}

// spellings are values that may be written in place of a good one: each restricts as much or is an error, after which nothing is
// resolved.
func (r restriction) spellings() map[string]string {
	v := r.value
	in := r.in
	if in == nil {
		in = func(v string) string { return v }
	}
	port := func(port string) string {
		host, path, _ := strings.Cut(v, "/")
		return strings.TrimSuffix(host+port+"/"+path, "/")
	}
	out := map[string]string{
		"good": in(v), "wrong type": "[5]", "comment only": "# " + in(v), "white space": "\n  " + in(v) + " \n", "white space inside": in(" " + v),
		"unknown subkey": "other: " + v, "unknown field": in(v) + "\nothers: x", "duplicate": in(v) + "\n" + in(v), "matches nothing": in("@"), "capitals": in(strings.ToUpper(v)),
		"a port": in(port(":443")), "no port": in(port(":0")), "a slash": in(v + "/"), "a user": in("user:password@" + v), "a scheme": in("https://" + v), "other letters": in("bücher.example"),
	}
	if !r.names {
		out["a number"] = "5"
	}
	for _, odd := range r.odd {
		out["odd: "+odd] = in(odd)
	}
	return out
}

// Whatever an operator writes into a key that restricts requests, what the key is to refuse is refused. Only a key without a value
// restricts nothing.
func TestNoSpellingOfARestrictionOpensWhatItCloses(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "secret.yaml"), []byte("apiVersion: v1\nkind: Secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := map[string]resolve.Resolver{"cluster": resolvecluster.New(taskAndSecret{})}
	closing := map[string]bool{}
	for _, e := range resolvers.Table() {
		if e.Name != "cluster" {
			r, err := e.New(t.Context(), resolvers.Env{Clock: resolve.SystemClock(), Cache: t.TempDir(), Roots: map[string]string{"default": folder}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := resolve.CloseAll([]resolve.Resolver{r}); err != nil {
					t.Error(err)
				}
			})
			made[e.Name] = r
		}
		for _, k := range e.Spec().Keys() {
			if k.Wrong == resolve.Closes && k.Name != resolve.KeyContentKinds {
				closing[e.Name+" "+k.Name] = true
			}
		}
	}
	for _, r := range restrictions(t, host) {
		if made[r.resolver] == nil {
			continue // this build is without it
		}
		delete(closing, r.resolver+" "+strings.TrimPrefix(r.key, "x."))
		answer := func(key, value string) resolve.Reason {
			list, err := resolve.NewRegistry(made[r.resolver])
			if err != nil {
				t.Fatal(err)
			}
			runner, err := resolve.NewRunner(resolve.Options{Resolvers: list})
			if err != nil {
				t.Fatal(err)
			}
			data := maps.Clone(r.with)
			if data == nil {
				data = map[string]string{}
			}
			data[key] = value
			_ = runner.Configure(r.resolver, data) // the answer tells what holds
			q := ask(r.resolver, r.params)
			q.Secrets = credentials{"s": {"token": []byte("t")}}
			_, err = runner.Resolve(t.Context(), q)
			failure, _ := errors.AsType[*resolve.Error](err)
			runner.Wait()
			if failure == nil {
				return ""
			}
			return failure.Reason
		}
		refusals := []resolve.Reason{resolve.ReasonForbidden, resolve.ReasonDenied, resolve.ReasonVerification}
		t.Run(r.resolver+"/"+r.key, func(t *testing.T) {
			for what, value := range r.spellings() {
				if reason := answer(r.key, value); !slices.Contains(refusals, reason) {
					t.Errorf("%s: %q: %q", what, value, reason)
				}
			}
			prefix, name := "", r.key
			if head, tail, named := strings.Cut(r.key, "."); named {
				prefix, name = head+".", tail
			}
			good := r.spellings()["good"]
			for _, mistyped := range []string{name + "s", name[:len(name)-1], strings.ToUpper(name), strings.ReplaceAll(name, "-", "_") + "_"} {
				if reason := answer(prefix+mistyped, good); !slices.Contains(refusals, reason) {
					t.Errorf("the key %s: %q", prefix+mistyped, reason)
				}
			}
			if r.network {
				return
			}
			for _, empty := range []string{"", " \n"} {
				if reason := answer(r.key, empty); slices.Contains(refusals, reason) {
					t.Errorf("the request is refused without the key: %s", reason)
				}
			}
		})
	}
	if len(closing) > 0 {
		t.Errorf("no test of the restrictions %v", slices.Sorted(maps.Keys(closing)))
	}
}

// A key that opens something opens nothing if its value is wrong.
func TestNoMistakeInAKeyOpensAnything(t *testing.T) {
	opening := map[string]string{
		"allowed-addresses": "127.0.0.1:8443", "plain-http-registries": "registry.example.com", "allow-plain-http": "true", "allow-plain-http-private": "true",
		"allow-plain-http-credentials": "true", "allow-private-requested-addresses": "true",
	}
	for _, e := range resolvers.Table() {
		spec := e.Spec()
		for _, k := range spec.Keys() {
			good, opens := opening[k.Name]
			if !opens {
				if strings.HasPrefix(k.Name, "allow") && k.Wrong != resolve.Closes {
					t.Errorf("%s: no test of what %s opens", e.Name, k.Name)
				}
				continue
			}
			r := restriction{value: good, odd: []string{"http://" + good, good + "/x", "*", "yes!", "1O.0.0.0/8", "10.0.0.1/8"}}
			for what, value := range r.spellings() {
				if slices.Contains([]string{"good", "white space", "white space inside", "capitals", "a port"}, what) || what == "duplicate" && k.Check(value) == nil {
					continue // it means the same
				}
				read := spec.ReadConfig(map[string]string{k.Name: value}, nil)
				if read.Err() == nil || read.Config[k.Name] != k.Default {
					t.Errorf("%s %s: %s: %q holds", e.Name, k.Name, what, read.Config[k.Name])
				}
			}
		}
	}
}
