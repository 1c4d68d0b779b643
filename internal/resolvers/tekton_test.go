package resolvers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
)

// tektons is a parameter, or a key of the ConfigMap, that Tekton Pipelines documents for one of its resolvers, and what differs.
type tektons struct{ name, differs string }

// The docs of Tekton Pipelines v1.15.0 (docs/*-resolver.md, config/resolvers).
var tektonParams = map[string][]tektons{
	"git": {
		{"url", "private addresses if the operator allows them; `https://org@host/…`, `git://` and ssh as well"},
		{"repo", ""},
		{"org", ""},
		{"token", "sent only to the hosts that the Secret names, if it names any"},
		{"tokenKey", ""},
		{"gitToken", "as for token; not sent by plain http unless `allow-plain-http-credentials`"},
		{"gitTokenKey", ""},
		{"revision", "short commits, `pull/1/head`, `merge-requests/7/head` and `refs/…` as well"},
		{"pathInRepo", "a directory as well: all YAML and JSON files in it"},
		{"serverURL", "needs a token of the request unless it is the operator's own server; `…/api/v3` is read as the server's address"},
		{"scmType", ""},
		{"cache", "with `never` the resolver also asks again for access"},
	},
	"bundles": {{"secret", "the same; without it nothing asks a cloud, see [Registries of clouds](#registries-of-clouds)"}, {"bundle", ""}, {"name", "with `all` instead: everything in the image"}, {"kind", ""}, {"cache", "with `never` the resolver also asks again for access"}},
	"cluster": {
		{"kind", "any kind in `allowed-kinds`, Secrets only by their own name; the default is Tekton's three"},
		{"name", ""},
		{"namespace", "if `default-namespace` is empty, the default is the namespace of the request"},
		{"cache", ""},
	},
	"http": {
		{"url", "plain http only with `digest`, or with `allow-plain-http`; private addresses if the operator allows them"},
		{"http-username", ""},
		{"http-password-secret", "sent only to the hosts that the Secret names, if it names any; `http-token-secret` is for bearer tokens"},
		{"http-password-secret-key", ""},
		{"digest", ""},
	},
	"hub": {
		{"catalog", ""},
		{"type", ""},
		{"kind", ""},
		{"name", ""},
		{"version", "constraints use the same library"},
		{"url", "private addresses only with `allow-private-requested-addresses`; plain http only with `allow-plain-http`"},
	},
}

var tektonKeys = map[string][]tektons{
	"git": {
		{"default-revision", ""},
		{"fetch-timeout", ""},
		{"default-url", ""},
		{"scm-type", ""},
		{"server-url", "with or without `https://`"},
		{"api-token-secret-name", ""},
		{"api-token-secret-key", "`token` if it is not set"},
		{"api-token-secret-namespace", ""},
		{"default-org", ""},
		{"backoff-duration", "fetches that failed by a transient error are tried again"},
		{"backoff-factor", ""},
		{"backoff-jitter", ""},
		{"backoff-steps", ""},
		{"backoff-cap", ""},
		{"default-cache-mode", ""},
	},
	"bundles": {
		{"backoff-duration", ""},
		{"backoff-factor", ""},
		{"backoff-jitter", ""},
		{"backoff-steps", ""},
		{"backoff-cap", ""},
		{"default-service-account", ""},
		{"default-kind", ""},
		{"default-cache-mode", ""},
	},
	"cluster": {
		{"default-kind", ""},
		{"default-namespace", ""},
		{"allowed-namespaces", "the same; if an entry is no name of a namespace, nothing is resolved until you repair it"},
		{"blocked-namespaces", "as for `allowed-namespaces`"},
		{"default-cache-mode", ""},
	},
	"http": {{"fetch-timeout", ""}},
	"hub": {
		{"default-tekton-hub-catalog", ""},
		{"default-artifact-hub-task-catalog", ""},
		{"default-artifact-hub-pipeline-catalog", ""},
		{"default-kind", ""},
		{"default-type", ""},
		{"artifact-hub-urls", "`ARTIFACT_HUB_API` gives the default"},
		{"tekton-hub-urls", "`TEKTON_HUB_API` gives the default"},
	},
}

// hasParam tells that the resolver knows a parameter of that name.
func hasParam(s resolve.Spec, name string) bool {
	return name == "cache" || slices.ContainsFunc(s.Params, func(p resolve.Param) bool { return p.Name == name || slices.Contains(p.Aliases, name) })
}

func hasKey(s resolve.Spec, name string) bool {
	return slices.ContainsFunc(s.Keys(), func(k resolve.Key) bool { return k.Name == name })
}

// restOfPage is what no table holds.
const restOfPage = `
## Registries of clouds

Tekton's bundles resolver also asks Amazon ECR, Google and Azure for a credential with the identity of its own pod (k8schain in
go-containerregistry). Sluice does not. One resolver serves all namespaces. With its
identity, a request from any namespace could read every image that the resolver's pod can read. In Sluice a request uses the credentials of
its own namespace.

To go without, put a credential into a Secret of the namespace, of the type ` + "`kubernetes.io/dockerconfigjson`" + `. Name it in the parameter
` + "`secret`" + `, or in the imagePullSecrets of the ServiceAccount:

| registry | credential |
| --- | --- |
| Amazon ECR | a token of ` + "`aws ecr get-login-password`" + `, which is valid for 12 hours; let a CronJob or External Secrets (ECRAuthorizationToken) renew it |
| Google Artifact Registry | an access token, which External Secrets (GCRAccessToken) renews, or the key of an account that can only read |
| Azure Container Registry | a repository-scoped token that can only read, or External Secrets (ACRAccessToken) |

A Secret with ` + "`credHelpers`" + ` or ` + "`credsStore`" + ` has no credential that Sluice can use, and the request says so: Sluice starts no helper programs.

## Digest of the cluster resolver

` + "`refSource.digest`" + ` of the cluster resolver is the SHA-256 of the JSON of the object's ` + "`spec`" + `, with sorted keys and without spaces. Tekton's is that of
the whole object as its Go types write it (` + "`Checksum()`" + `), with name, labels and annotations. So the two differ, and in Sluice a new label leaves
the digest as it is. Compare digests of one of them only. Signatures are not affected: both verify the content.
`

// docs/tekton.md has each parameter and key of Tekton's resolvers, and ours know them.
func TestWhatTektonsResolversKnowIsKnownHere(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Tekton's resolvers and Sluice's\n\n" +
		"This page lists each parameter and key that Tekton Pipelines v1.15.0 documents for its resolvers, and how Sluice differs. Read it\n" +
		"if you move from Tekton's resolvers to Sluice's. Sluice has all of them by the same names. [resolvers.md](resolvers.md) lists those\n" +
		"that only Sluice has. [Move from Tekton's resolvers](howto/move-from-tekton-resolvers.md) has the steps.\n\n" +
		"Sluice ignores an unknown parameter, and says so in `sluice.dev/warning` in the status of the request. An unknown parameter that is\n" +
		"like a known one fails the request. An event at the ConfigMap and the log name unknown keys and wrong values; see\n" +
		"[resolution.md](resolution.md#what-is-decided-where).\n\n" +
		"`go test ./internal/resolvers -update` writes this page, and `make e2e-tekton` compares it with Tekton's own docs.\n")
	row := func(e tektons) {
		differs := e.differs
		if differs == "" {
			differs = "the same"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.name, differs)
	}
	for _, e := range resolvers.Table() {
		params, ok := tektonParams[e.Name]
		if !ok {
			continue
		}
		spec := e.Spec()
		fmt.Fprintf(&b, "\n## %s\n\n| parameter | in Sluice |\n| --- | --- |\n", e.Name)
		for _, p := range params {
			if !hasParam(spec, p.name) {
				t.Errorf("the resolver %s has no parameter %s", e.Name, p.name)
			}
			row(p)
		}
		fmt.Fprintf(&b, "\n| key of `%s` | in Sluice |\n| --- | --- |\n", e.ConfigMap)
		for _, k := range tektonKeys[e.Name] {
			if !hasKey(spec, k.name) {
				t.Errorf("the resolver %s has no key %s", e.Name, k.name)
			}
			row(k)
		}
	}
	b.WriteString("\n## Other ConfigMaps\n\n| key | in Sluice |\n| --- | --- |\n" +
		"| `max-size`, `ttl` of `resolver-cache-config` | the same |\n" +
		"| `enable-…-resolver` of `resolvers-feature-flags` | the same |\n" +
		"| `default-maximum-resolution-timeout` of `config-defaults` | the same; next to Tekton, its controller ends requests |\n" +
		"| `config-logging`, `config-observability`, `config-leader-election-resolvers` | not read: `sluice serve` has flags, and needs no leader |\n" + restOfPage)
	for _, name := range []string{"max-size", "ttl"} {
		if !slices.ContainsFunc(resolve.CacheKeys(), func(k resolve.Key) bool { return k.Name == name }) {
			t.Errorf("the cache has no key %s", name)
		}
	}
	for _, e := range resolvers.Table() {
		if _, tekton := tektonParams[e.Name]; tekton && e.Flag == "" {
			t.Errorf("%s has no flag in resolvers-feature-flags", e.Name)
		}
	}
	const file = "../../docs/tekton.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(now), b.String()); diff != "" {
		t.Errorf("%s is not current; write it with: go test ./internal/resolvers -update (-file +now)\n%s", file, diff)
	}
}

// make e2e-tekton has Tekton's source at hand: nothing that its docs and its ConfigMaps name is missing in the list.
func TestTheListOfTektonsParametersIsComplete(t *testing.T) {
	source := os.Getenv("SLUICE_TEKTON_CONFIG")
	if source == "" {
		t.Skip("make e2e-tekton gives the folder config of Tekton's source")
	}
	first := regexp.MustCompile("(?m)^\\| *`([A-Za-z-]+)`")
	// Values of cache, and keys of another ConfigMap.
	skip := []string{"always", "never", "auto", "max-size", "ttl"}
	for name, doc := range map[string]string{"git": "git", "bundles": "bundle", "cluster": "cluster", "http": "http", "hub": "hub"} {
		known := slices.Concat(tektonParams[name], tektonKeys[name])
		text, err := os.ReadFile(filepath.Join(source, "..", "docs", doc+"-resolver.md"))
		if err != nil {
			t.Fatal(err)
		}
		found := first.FindAllStringSubmatch(string(text), -1)
		if len(found) < 5 {
			t.Errorf("Tekton's docs of %s have %d rows", name, len(found))
		}
		for _, m := range found {
			if !slices.Contains(skip, m[1]) && !slices.ContainsFunc(known, func(e tektons) bool { return e.name == m[1] }) {
				t.Errorf("Tekton's docs of %s have %s", name, m[1])
			}
		}
	}
}
