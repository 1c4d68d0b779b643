//go:build e2e

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/report"
	"sluice.dev/tools/kube"
)

// TestE2ECheckOfWhatIsHalfThere checks against CRDs that are being deleted, whose objects nobody gives away, or whose webhook is down.
func TestE2ECheckOfWhatIsHalfThere(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, dir := t.Context(), t.TempDir()
	v1, err := os.ReadFile(upgrade + "v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// install makes a CRD of its own with one object.
	install := func(t *testing.T, plural string) (file string, remove func()) {
		t.Helper()
		kind := strings.ToUpper(plural[:1]) + plural[1:]
		file = write(plural+".yaml", strings.NewReplacer("databases", plural, "Database", kind, "singular: database", "singular: one"+plural, "shortNames: [db]", "").Replace(string(v1)))
		if err := k.Apply(ctx, file, false); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(map[string]any{
			"apiVersion": "example.sluice.dev/v1", "kind": kind,
			"metadata": map[string]any{"name": "one", "namespace": "default", "finalizers": []any{"example.sluice.dev/hold"}},
			"spec":     map[string]any{"engine": "postgres", "storage": map[string]any{"size": "1Gi"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		resource := plural + ".example.sluice.dev"
		kubectl := func(args ...string) {
			t.Helper()
			if _, errs, err := c.Kubectl(t, "", args...); err != nil {
				t.Fatal(err, errs)
			}
		}
		kubectl("create", "-f", write(plural+".json", string(data)))
		return file, func() {
			kubectl("patch", "crd", resource, "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
			kubectl("patch", resource, "one", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			kubectl("delete", "crd", resource, "--ignore-not-found")
		}
	}

	t.Run("being deleted", func(t *testing.T) {
		file, remove := install(t, "leavings")
		defer remove() // kubectl needs the context of the test
		if _, errs, err := c.Kubectl(t, "", "delete", "crd", "leavings.example.sluice.dev", "--wait=false"); err != nil {
			t.Fatal(err, errs)
		}
		code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, "-o", "json", file)
		var doc struct{ CRDs []report.CRD }
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != ExitOK {
			t.Fatalf("exit code %d: %v: %s%s", code, err, errs, out)
		}
		if found := doc.CRDs[0].Findings; len(found) != 1 || found[0].Rule != "crd-being-deleted" || !strings.Contains(found[0].Message, "is deleting this CRD since 2") {
			t.Errorf("%+v", found)
		}
		if _, out, _ := sluice(t, "check", "--kubeconfig", c.Kubeconfig, file); !strings.Contains(out, "is deleting this CRD") {
			t.Errorf("the text does not say so: %s", out)
		}
	})
	t.Run("no right to list", func(t *testing.T) {
		file, remove := install(t, "secretive")
		defer remove() // kubectl needs the context of the test
		roles := write("roles.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: half-reader}
rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: half-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: half-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: half-readers}]
`)
		if err := k.Apply(t.Context(), roles, false); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, errs, err := c.Kubectl(t, "", "delete", "-f", roles); err != nil {
				t.Error(err, errs)
			}
		}()
		config, err := clientcmd.LoadFromFile(c.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range config.AuthInfos {
			user.Impersonate, user.ImpersonateGroups = "reader", []string{"system:authenticated", "half-readers"}
		}
		reader := filepath.Join(dir, "reader")
		if err := clientcmd.WriteToFile(*config, reader); err != nil {
			t.Fatal(err)
		}
		code, out, errs := sluice(t, "check", "--kubeconfig", reader, file)
		if code != ExitFailed || out != "" || !strings.Contains(errs, `cannot list resource "secretive"`) || !strings.Contains(errs, "--objects=false") {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
		if code, out, errs := sluice(t, "check", "--kubeconfig", reader, "--objects=false", file); code != ExitOK {
			t.Errorf("without objects: exit code %d: %s%s", code, out, errs)
		}
	})
	t.Run("a conversion webhook that is down", func(t *testing.T) {
		file, remove := install(t, "converted")
		defer remove() // kubectl needs the context of the test
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		versions := strings.Index(string(text), "  versions:\n") + len("  versions:\n")
		second := strings.Replace(string(text)[versions:], "name: v1", "name: v2", 1)
		both := strings.Replace(string(text)[:versions], "  versions:", `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/convert"}}
  versions:`, 1) + strings.Replace(string(text)[versions:], "storage: true", "storage: false", 1) + second
		down := write("down.yaml", both)
		if _, errs, err := c.Kubectl(t, "", "apply", "-f", down); err != nil {
			t.Fatal(err, errs)
		}
		code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, down)
		if code == ExitOK || !strings.Contains(out+errs, "conversion webhook") || code == ExitFailed && !strings.Contains(errs, "--objects=false") {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
	})
	t.Run("a server that speaks TLS", func(t *testing.T) {
		text, err := os.ReadFile(c.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		plain := write("plain", strings.Replace(string(text), "server: https://", "server: http://", 1))
		if code, _, errs := sluice(t, "check", "--kubeconfig", plain, upgrade+"v1.yaml"); code != ExitFailed || !strings.Contains(errs, "HTTP request to an HTTPS server") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
}
