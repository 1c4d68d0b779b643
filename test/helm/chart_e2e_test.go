//go:build e2e

package helm

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func same(t *testing.T, want, got map[string]map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}

// TestE2EHelmInstallsAndUninstallsTheChart installs it with Helm, upgrades it, and removes it as docs/installation.md says.
func TestE2EHelmInstallsAndUninstallsTheChart(t *testing.T) {
	c, helm := shared.Get(t), tool(t, "helm")
	s := newShell(t, "KUBECONFIG="+c.Kubeconfig)
	const namespace = "sluice-system"
	write(t, s.dir, map[string]string{"values.yaml": "{image: example.test/sluice:v1, roles: [all]}"})
	names := func(manifest string) (out []string) {
		for key := range objects(t, []byte(manifest)) {
			out = append(out, key)
		}
		slices.Sort(out)
		return out
	}
	// there lists those of a manifest that the cluster has.
	there := func(manifest string) []string {
		found, errs, err := c.Kubectl(t, manifest, "get", "--ignore-not-found", "-o", "yaml", "-f", "-")
		if err != nil {
			t.Errorf("%v: %s", err, errs)
		}
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		if err := yaml.Unmarshal([]byte(found), &list); err != nil {
			t.Fatal(err)
		}
		var stream strings.Builder
		for _, item := range list.Items {
			stream.WriteString("---\n" + string(item) + "\n")
		}
		return names(stream.String())
	}
	chart := []string{"upgrade", "--install", "sluice", mustAbs(t, root+"/config/chart"), "--namespace", namespace, "--create-namespace", "-f", "values.yaml"}
	s.must(t, helm, chart...)
	installed := s.must(t, helm, "get", "manifest", "sluice", "--namespace", namespace)
	if want := names(installed); len(want) < 60 {
		t.Errorf("%d objects are installed", len(want))
	} else if diff := cmp.Diff(want, there(installed)); diff != "" {
		t.Errorf("objects (-manifest +cluster)\n%s", diff)
	}

	s.must(t, helm, append(chart, "--set", "workloads.delivery.replicas=3")...)
	out, errs, err := c.Kubectl(t, "", "get", "-n", namespace, "deployment/sluice-delivery", "-o", "jsonpath={.spec.replicas}")
	if err != nil || out != "3" {
		t.Errorf("after the upgrade there are %q replicas (%v %s)", out, err, errs)
	}

	s.must(t, s.program, "uninstall", "--yes", "--sluice-namespace", namespace)
	s.must(t, helm, "uninstall", "sluice", "--namespace", namespace)
	for _, key := range there(installed) {
		if !strings.HasPrefix(key, "CustomResourceDefinition/") {
			t.Errorf("%s is left", key)
		}
	}
	if list := s.must(t, helm, "list", "--namespace", namespace, "-q"); list != "" {
		t.Errorf("Helm still has %s", list)
	}
	// What the installation made itself while it ran is gone as well.
	kinds, errs, err := c.Kubectl(t, "", "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		t.Fatal(err, errs)
	}
	left, errs, err := c.Kubectl(t, "", "get", strings.Join(strings.Fields(kinds), ","), "-A", "-l", "app.kubernetes.io/part-of=sluice", "-o", "name")
	if err != nil {
		t.Fatal(err, errs)
	}
	for _, name := range strings.Fields(left) {
		if !strings.HasPrefix(name, "customresourcedefinition") {
			t.Errorf("%s is left", name)
		}
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
