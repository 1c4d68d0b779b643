//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"sluice.dev/tools/clustertest"
)

// accounts begins the names of Sluice's ServiceAccounts.
const accounts = "system:serviceaccount:sluice-system:"

// auditPolicy has the API server log who asked for what, and the answer.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// notInTheWalk lists the rights that the walk has no use for, with the reason to keep each.
var notInTheWalk = []struct {
	right *regexp.Regexp
	why   string
}{
	{regexp.MustCompile(`^ClusterRole sluice-resolver-cluster: `), "the walk sends no request to the resolver cluster"},
	{regexp.MustCompile(`: (create|patch) events$`), "events are rare, and a repeated one is a patch"},
	{regexp.MustCompile(`: delete leases`), "at its end a process deletes its Lease"},
	{regexp.MustCompile(`: update secrets/`), "renewing a certificate"},
	{regexp.MustCompile(`: (create|update|patch|delete) (validating|mutating)(admissionpolic|webhookconfiguration)`), "gates of other kinds, conflicts, and components that go"},
	{regexp.MustCompile(`-features: get configmaps/([*]|sluice-features-anchor)$`), "the API server asks for it when a policy or a binding with a parameter is written"},
	{regexp.MustCompile(`: get featurereports`), "a process that has stopped reporting"},
	{regexp.MustCompile(`-settings-feature-flags(-missing)?: (get|create) configmaps`), "putting back a ConfigMap that is gone"},
	{regexp.MustCompile(`-feature-webhook: (get components|get namespaces|create subjectaccessreviews)`), "components that go, and opting in"},
	{regexp.MustCompile(`-crd-guard: create subjectaccessreviews`), "a bypass"},
	{regexp.MustCompile(`-resolution: (delete|get) resolutionrequests|-resolution: patch resolutionrequests/status`), "requests that time out or grow old"},
	{regexp.MustCompile(`-resolver: get resolutionrequests`), "a conflict"},
	{regexp.MustCompile(`-delivery: (delete resolutionrequests|patch deliveries|update deliveries/finalizers)`), "a Delivery that is deleted; owner references where the API server checks them"},
}

// audited returns the options of a cluster that logs requests to a file.
func (w *walk) audited() []clustertest.Option {
	w.auditLog = filepath.Join(w.dir, "audit.log")
	return []clustertest.Option{
		clustertest.APIServerArg("audit-policy-file=" + w.file("audit-policy.yaml", auditPolicy)),
		clustertest.APIServerArg("audit-log-path=" + w.auditLog),
		clustertest.APIServerArg("audit-log-maxsize=10000"), // MB: a long run fills 100 MB, and requests reads one file
	}
}

// requests are those of Sluice's roles that the API server has answered.
func (w *walk) requests() (out []auditv1.Event) {
	w.Helper()
	log, err := os.ReadFile(w.auditLog)
	if err != nil {
		w.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var e auditv1.Event
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if err := json.Unmarshal(line, &e); err != nil {
			w.Fatalf("%v: %s", err, line)
		}
		// A token that is not valid has no user.
		if strings.HasPrefix(e.User.Username, accounts) || e.User.Username == "" && strings.HasPrefix(e.UserAgent, "sluice/") {
			out = append(out, e)
		}
	}
	return out
}

// allowed fails the test for each request of a role that the API server refused. Dry runs are refused on purpose: the role features
// asks so whether a policy is in force.
func (w *walk) allowed(requests []auditv1.Event) {
	w.Helper()
	users, unknown := map[string]int{}, map[string]int{}
	for _, e := range requests {
		users[e.User.Username]++
		if e.ResponseStatus == nil || strings.Contains(e.RequestURI, "dryRun=All") {
			continue
		}
		c := e.ResponseStatus.Code
		if c == http.StatusUnauthorized && e.User.Username == "" {
			// A request that its process gives up, because it ends, before the API server knows whose it is. Without a token there would be more.
			if unknown[e.RequestURI]++; unknown[e.RequestURI] == 1 {
				continue
			}
		}
		if c == http.StatusUnauthorized || c == http.StatusForbidden {
			w.Errorf("%s %s of %s was refused: %d %s", e.Verb, e.RequestURI, e.User.Username, c, e.ResponseStatus.Message)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		w.Logf("%5d requests of %s", users[user], user)
	}
}

// grant is one verb for one resource that a role of RBAC gives to accounts of Sluice.
type grant struct {
	// kind and role say which role it is from.
	kind, role string
	// namespace bounds it; empty stands for the cluster.
	namespace                   string
	group, resource, name, verb string
}

func (g grant) String() string {
	what := g.resource
	if g.group != "" {
		what += "." + g.group
	}
	if g.name != "" {
		what += "/" + g.name
	}
	return fmt.Sprintf("%s %s: %s %s", g.kind, g.role, g.verb, what)
}

// covers tells whether a request needs the right. Who watches also lists, where the API server does not begin a watch with the objects;
// and who makes an object by server-side apply has to be allowed to create it.
func (g grant) covers(e *auditv1.Event) bool {
	if e.ObjectRef == nil || e.ImpersonatedUser != nil { // with another user's rights
		return false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	verb := e.Verb == g.verb || e.Verb == "watch" && g.verb == "list" || e.Verb == "patch" && g.verb == "create"
	return verb && g.group == e.ObjectRef.APIGroup && (g.resource == resource || g.resource == "*") &&
		(g.namespace == "" || g.namespace == e.ObjectRef.Namespace) && (g.name == "" || g.name == e.ObjectRef.Name)
}

// grants are what manifests give to the accounts of Sluice, each with the accounts that have it.
func (w *walk) grants(manifests string) map[grant][]string {
	w.Helper()
	type ref struct{ kind, namespace, name string }
	rules := map[ref][]rbacv1.PolicyRule{}
	var bindings []rbacv1.RoleBinding
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		var doc rbacv1.RoleBinding // it has the fields of roles and of bindings between them
		var role rbacv1.Role
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.Fatal(err)
		}
		if err := json.Unmarshal(raw, &doc.TypeMeta); err != nil {
			w.Fatal(err)
		}
		switch doc.Kind {
		case "Role", "ClusterRole":
			err = json.Unmarshal(raw, &role)
			rules[ref{role.Kind, role.Namespace, role.Name}] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			err = json.Unmarshal(raw, &doc)
			bindings = append(bindings, doc)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	out := map[grant][]string{}
	for _, b := range bindings {
		from := ref{b.RoleRef.Kind, "", b.RoleRef.Name}
		if b.RoleRef.Kind == "Role" {
			from.namespace = b.Namespace
		}
		for _, s := range b.Subjects {
			for _, g := range grantsOf(rules[from]) {
				g.kind, g.role, g.namespace = from.kind, from.name, b.Namespace
				out[g] = append(out[g], accounts+s.Name)
			}
		}
	}
	return out
}

// grantsOf takes rules apart.
func grantsOf(rules []rbacv1.PolicyRule) (out []grant) {
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, name := range names {
					for _, verb := range r.Verbs {
						out = append(out, grant{group: group, resource: resource, name: name, verb: verb})
					}
				}
			}
		}
	}
	return out
}

// leastRights fails the test for each right that no request needed, unless notInTheWalk has it.
func (w *walk) leastRights(manifests string, requests []auditv1.Event) {
	w.Helper()
	used := 0
	unused := map[string]bool{}
	for g, users := range w.grants(manifests) {
		if slices.ContainsFunc(requests, func(e auditv1.Event) bool { return slices.Contains(users, e.User.Username) && g.covers(&e) }) {
			used++
		} else {
			unused[g.String()] = true
		}
	}
	w.Logf("%d rights were used, %d not", used, len(unused))
	for _, line := range slices.Sorted(maps.Keys(unused)) {
		why := ""
		for _, known := range notInTheWalk {
			if known.right.MatchString(line) {
				why = known.why
			}
		}
		if why == "" {
			w.Errorf("no request needs the right: %s", line)
		} else {
			w.Logf("not used: %s (%s)", line, why)
		}
	}
}
