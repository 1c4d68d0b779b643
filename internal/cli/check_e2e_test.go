//go:build e2e

package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/internal/cli/command"
	"sluice.dev/report"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

var shared clustertest.Shared

// runTests runs the tests, and stops the cluster that they started. They wait more than they work. A -parallel of the command line comes later
// and counts.
func runTests(m *testing.M) int {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	return shared.Run(m)
}

// A CRD that the cluster does not have is told in every format; a cluster that has none of them is taken for the wrong one.
func TestE2ECheckTellsWhatTheClusterDoesNotHave(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(upgrade + "v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := func(plural string) string {
		return strings.NewReplacer("databases", plural, "Database", "K"+plural, "singular: database", "singular: k"+plural).Replace(string(text))
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	for file, content := range map[string]string{one: named("news"), two: named("news") + "\n---\n" + named("olds")} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(args ...string) (int, string, string) {
		return sluice(t, append([]string{"check", "--kubeconfig", c.Kubeconfig}, args...)...)
	}
	if code, out, errs := check(one); code != ExitFailed || !strings.Contains(errs, "none of the CRDs (news.example.sluice.dev): check the context") {
		t.Errorf("exit code %d of a cluster with none of the CRDs: %s%s", code, out, errs)
	}
	if code, out, errs := check(one, "--new-crds=allow"); code != ExitOK || !strings.Contains(out, "does not have this CRD") {
		t.Errorf("exit code %d where it is allowed: %s%s", code, out, errs)
	}

	old := filepath.Join(dir, "old.yaml")
	if err := os.WriteFile(old, []byte(named("olds")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.Apply(t.Context(), old, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.DeleteCRD(context.WithoutCancel(t.Context()), "olds.example.sluice.dev"); err != nil {
			t.Error(err)
		}
	})
	if code, out, errs := check(two, "--new-crds=fail"); code != ExitFailed || !strings.Contains(errs, "does not have news.example.sluice.dev") {
		t.Errorf("exit code %d where it fails: %s%s", code, out, errs)
	}
	for _, format := range command.FormatNames() {
		if code, out, errs := check(two, "-o", format); code != ExitOK || !strings.Contains(out, "crd-not-in-cluster") && !strings.Contains(out, "does not have this CRD") {
			t.Errorf("exit code %d in format %s, and the new CRD is not told: %s%s", code, format, out, errs)
		}
	}
}

func TestE2ECheckAgainstTheClusterCountsStoredObjects(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, f := range []string{"v1.yaml", "objects.yaml"} {
		if err := k.Apply(ctx, upgrade+f, false); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := k.DeleteCRD(context.WithoutCancel(ctx), "databases.example.sluice.dev"); err != nil {
			t.Error(err)
		}
	})

	code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, "-o", "json", upgrade+"v2-unsafe.yaml")
	if code != ExitFindings {
		t.Fatalf("exit code %d, want %d: %s", code, ExitFindings, errs)
	}
	var doc struct{ CRDs []report.CRD }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	want := report.ObjectScan{Version: "v1", Checked: 5, Refused: 3, Pruned: 1}
	if got := doc.CRDs[0].Objects; got == nil || *got != want {
		t.Errorf("objects %+v, want %+v", got, want)
	}
	refuseWitnesses(t, k, doc.CRDs[0].Findings)

	code, out, errs = sluice(t, "check", "--kubeconfig", c.Kubeconfig, upgrade+"v3-safe.yaml")
	if code != ExitOK {
		t.Errorf("exit code %d, want %d: %s%s", code, ExitOK, out, errs)
	}
}

// refuseWitnesses shows that the API server takes every witness while the old CRD is installed, and that it refuses or
// prunes it once the new one is.
func refuseWitnesses(t *testing.T, k *kube.Client, findings []report.Finding) {
	t.Helper()
	var objs []*unstructured.Unstructured
	for i, f := range findings {
		if f.Witness == nil || f.Severity != report.Fail {
			continue
		}
		file := filepath.Join(t.TempDir(), fmt.Sprint(i)+".yaml")
		if err := os.WriteFile(file, []byte(f.Witness.Object), 0o600); err != nil {
			t.Fatal(err)
		}
		us, err := kube.Read(file)
		if err != nil || len(us) != 1 {
			t.Fatalf("witness of %s: %v\n%s", f.Rule, err, f.Witness.Object)
		}
		if err := k.ApplyObject(t.Context(), us[0], true); err != nil {
			t.Errorf("the old CRD refuses the witness of %s: %v", f.Rule, err)
		}
		if f.Level != report.DataLost {
			objs = append(objs, us[0])
		}
	}
	if len(objs) < 3 {
		t.Fatalf("%d witnesses, want 3 at least", len(objs))
	}
	if err := k.Apply(t.Context(), upgrade+"v2-unsafe.yaml", false); err != nil {
		t.Fatal(err)
	}
	for _, u := range objs {
		// The API server takes up a new schema shortly after the update.
		deadline := time.Now().Add(6 * time.Minute)
		for k.ApplyObject(t.Context(), u, true) == nil {
			if time.Now().After(deadline) {
				t.Fatalf("the new CRD takes %v", u.Object)
			}
		}
	}
	if err := k.Apply(t.Context(), upgrade+"v1.yaml", false); err != nil {
		t.Fatal(err)
	}
}

func TestE2ENoAccessIsOneClearLine(t *testing.T) {
	dead := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"x","user":{}}]}`
	if err := os.WriteFile(dead, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kubeconfig := range []string{dead, filepath.Join(t.TempDir(), "none")} {
		code, out, errs := sluice(t, "check", "--kubeconfig", kubeconfig, upgrade+"v2-unsafe.yaml")
		if code != ExitFailed || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "no access to the cluster") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", kubeconfig, code, out, errs)
		}
	}
}

// manyObjects is more than two pages, of which the first is small.
const manyObjects = 700

func TestE2EManyStoredObjectsAreCountedOnceAndAlike(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := k.Apply(ctx, upgrade+"v1.yaml", false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.DeleteCRD(context.WithoutCancel(ctx), "databases.example.sluice.dev"); err != nil {
			t.Error(err)
		}
	})
	engines := []any{"postgres", "mysql", "mariadb"}
	for i := range manyObjects {
		storage := map[string]any{"size": "1Gi"}
		if i%10 == 0 {
			storage["tier"] = "gold"
		}
		err := k.ApplyObject(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.sluice.dev/v1", "kind": "Database",
			"metadata": map[string]any{"name": fmt.Sprintf("many-%04d", i), "namespace": "default"},
			"spec":     map[string]any{"engine": engines[i%3], "storage": storage},
		}}, false)
		if err != nil {
			t.Fatal(err)
		}
	}
	first := ""
	for range 3 {
		code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, "-o", "json", upgrade+"v2-unsafe.yaml")
		if code != ExitFindings {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if first == "" {
			first = out
		}
		if diff := cmp.Diff(first, out); diff != "" {
			t.Errorf("another run gives another result: %s", diff)
		}
	}
	var doc struct{ CRDs []report.CRD }
	if err := json.Unmarshal([]byte(first), &doc); err != nil {
		t.Fatal(err)
	}
	want := report.ObjectScan{Version: "v1", Checked: manyObjects, Refused: manyObjects / 3, Pruned: manyObjects / 10}
	if got := doc.CRDs[0].Objects; got == nil || *got != want {
		t.Errorf("objects %+v, want %+v", got, want)
	}
}
