//go:build e2e

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/apply"
	applycmd "sluice.dev/internal/cli/apply"
)

// endpoints are of a kind that is deprecated: the API server warns at each write (k8s.io/kubernetes/pkg/registry/core/endpoint).
func endpoints(names ...string) string {
	text := ""
	for _, n := range names {
		text += "---\napiVersion: v1\nkind: Endpoints\nmetadata: {name: " + n + "}\n"
	}
	return text
}

// What the API server warns of is told once for each object, whatever is asked for, and in documents.
func TestE2EWarningsOfTheServerAreTold(t *testing.T) {
	w := newWorld(t)
	f := w.file("a.yaml", endpoints("a", "b", "c", "d", "e")+configMap("quiet"))
	const message = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
	check := func(name, errs string) {
		t.Helper()
		want := "warning: " + message + " (Endpoints " + w.namespace + "/a, Endpoints " + w.namespace + "/b, Endpoints " + w.namespace + "/c and 2 more)\n"
		if strings.Count(errs, message) != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: want once %s\n%s", name, want, errs)
		}
	}
	var want []apply.Warning
	one := apply.Warning{Message: message}
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		one.Objects = append(one.Objects, apply.ID{Kind: "Endpoints", Namespace: w.namespace, Name: n})
	}
	want = append(want, one)
	var d applycmd.DiffResult
	out, errs := w.run(ExitFindings, "diff", "--app", "x", "-f", f, "-o", "json")
	check("diff", errs)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d.Warnings); diff != "" {
		t.Errorf("diff: %s", diff)
	}
	_, errs = w.run(ExitOK, "apply", "--app", "x", "-f", f, "--dry-run=server", "--wait=false")
	check("dry run", errs)
	_, errs = w.run(ExitOK, "apply", "--app", "x", "-f", f, "--wait=false")
	check("apply", errs)
	if _, errs = w.run(ExitOK, "apply", "--app", "x", "-f", f, "--wait=false"); strings.Contains(errs, "warning") {
		t.Errorf("nothing is written, so nothing is warned of: %s", errs)
	}
	f = w.file("b.yaml", strings.ReplaceAll(endpoints("a", "b", "c", "d", "e"), "{name", "{labels: {a: b}, name")+configMap("quiet"))
	r := w.apply(ExitOK, "--app", "x", "-f", f, "--wait=false")
	if diff := cmp.Diff(want, r.Warnings); diff != "" {
		t.Errorf("apply: %s", diff)
	}
}
