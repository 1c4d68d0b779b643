package resolvers_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"sluice.dev/internal/resolvers"
	"sluice.dev/resolve"
)

var update = flag.Bool("update", false, "write docs/resolvers.md")

func TestDocumentation(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Resolvers: parameters and configuration\n\n" +
		"This page is the reference of the parameters of requests and the keys of ConfigMaps, for authors of requests and for operators.\n" +
		"[resolution.md](resolution.md) says how to install and use the resolvers. The ConfigMaps are in `--config-namespace`. Keys that\n" +
		"Tekton has keep its names. `go test ./internal/resolvers -update` writes the page from the code.\n")
	for _, e := range resolvers.Table() {
		r, err := e.New(t.Context(), resolvers.Env{
			Clock: resolve.SystemClock(), Cache: t.TempDir(), Roots: map[string]string{"default": "/"}, Cluster: &rest.Config{Host: "127.0.0.1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		spec := r.Spec()
		if spec.Name != e.Name || spec.ConfigMap != e.ConfigMap {
			t.Errorf("the table has %s and %q, the resolver %s and %q", e.Name, e.ConfigMap, spec.Name, spec.ConfigMap)
		}
		if unmade := e.Spec(); unmade.Check() != nil || unmade.Markdown() != spec.Markdown() {
			t.Errorf("%s is described otherwise before it is made", e.Name)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s", spec.Name, spec.Doc)
		if len(spec.Aliases) > 0 {
			fmt.Fprintf(&b, " Also known as `%s`.", strings.Join(spec.Aliases, "`, `"))
		}
		b.WriteString("\n\n" + spec.Markdown())
		if err := resolve.CloseAll([]resolve.Resolver{r}); err != nil {
			t.Error(err)
		}
	}
	fmt.Fprintf(&b, "\n## The cache: %s\n\n| key | default | what it is |\n| --- | --- | --- |\n", resolve.CacheConfigMap)
	for _, k := range resolve.CacheKeys() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", k.Name, k.Default, k.Doc)
	}

	const file = "../../docs/resolvers.md"
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

// The page names each key whose mistakes stop a resolver.
func TestTheKeysThatCloseAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/resolution.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "Keys that restrict access are exceptions:")
	list, _, _ = strings.Cut(list, ".")
	for _, e := range resolvers.Table() {
		for _, k := range e.Spec().Keys() {
			if (k.Wrong == resolve.Closes) != strings.Contains(list, "`"+k.Name+"`") {
				t.Errorf("%s: a mistake in %s closes: %v; the page has%s", e.Name, k.Name, k.Wrong == resolve.Closes, list)
			}
		}
	}
}

func TestWideKeysAreClosedByDefault(t *testing.T) {
	for _, e := range resolvers.Table() {
		for _, wide := range e.Wide {
			i := slices.IndexFunc(e.Spec().Keys(), func(k resolve.Key) bool { return k.Name == wide })
			if i < 0 {
				t.Errorf("%s has no key %q", e.Name, wide)
			} else if k := e.Spec().Keys()[i]; k.Default != "false" || k.Check("true") != nil {
				t.Errorf("%s: the key %s is %q by default", e.Name, wide, k.Default)
			}
		}
	}
}
