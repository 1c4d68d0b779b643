//go:build e2e

package helm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	there := func(manifest string) (out []string) {
		for key, o := range objects(t, []byte(manifest)) {
			version, _ := o["apiVersion"].(string)
			kind, _, _ := strings.Cut(key, "/")
			group, v, ok := strings.Cut(version, "/")
			resource := kind
			if ok {
				resource = kind + "." + v + "." + group
			}
			_, rest, _ := strings.Cut(key, "/")
			ns, name, _ := strings.Cut(rest, "/")
			args := []string{"get", resource + "/" + name}
			if ns != "" {
				args = append(args, "-n", ns)
			}
			switch _, errs, err := c.Kubectl(t, "", args...); {
			case err == nil:
				out = append(out, key)
			case !strings.Contains(errs, "not found") && !strings.Contains(errs, "the server doesn't have a resource type"):
				t.Errorf("%s: %s", key, errs)
			}
		}
		slices.Sort(out)
		return out
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
