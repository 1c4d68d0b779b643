//go:build e2e

package helm

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tool builds a program that go.mod names as a tool, and returns its path.
func tool(t *testing.T, name string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", name)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, &errs)
	}
	return strings.TrimSpace(string(out))
}

// page is a block of docs/ci.md, by words that it has.
func page(t *testing.T, words string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], words) {
			return m[1]
		}
	}
	t.Fatalf("docs/ci.md has no block with %q", words)
	return ""
}

// write puts files into a folder; a name that begins with @ is a file to copy.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if from, ok := strings.CutPrefix(text, "@"); ok {
			data, err := os.ReadFile(filepath.Join(root, from))
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shell runs commands in a folder, with a sluice in PATH.
type shell struct {
	dir, program string
	env          []string
}

func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "sluice") // a test puts other programs beside its own
	if err := os.Symlink(build(t), program); err != nil {
		t.Fatal(err)
	}
	env = append(env, "PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+dir, "HELM_PLUGINS="+filepath.Join(dir, "plugins"))
	return &shell{dir, program, append(os.Environ(), env...)}
}

func (s *shell) run(t *testing.T, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// must is run that has to succeed.
func (s *shell) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, errs, err := s.run(t, name, args...)
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(name), args, err, out, errs)
	}
	return out
}

// TestE2EFilterIsAPostRendererOfHelm installs a chart with a CRD through the plugin of docs/ci.md, and upgrades it.
func TestE2EFilterIsAPostRendererOfHelm(t *testing.T) {
	c, helm := shared.Get(t), tool(t, "helm")
	s := newShell(t, "KUBECONFIG="+c.Kubeconfig)
	write(t, s.dir, map[string]string{
		"plugins/sluice/plugin.yaml": page(t, "postrenderer/v1"), "x/Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n",
		"x/templates/crd.yaml": "@examples/upgrade/v1.yaml", "x/templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {at: {{ .Chart.Version | quote }}}\n",
	})
	held := func(version, maximum string) {
		t.Helper()
		out, errs, err := c.Kubectl(t, "", "get", "crd/databases.example.sluice.dev", "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.replicas.maximum}")
		if err != nil || out != maximum {
			t.Errorf("the maximum is %s, want %s (%v %s)", out, maximum, err, errs)
		}
		out, errs, err = c.Kubectl(t, "", "get", "-n", "default", "configmap/settings", "-o", "jsonpath={.data.at}")
		if err != nil || out != version {
			t.Errorf("the settings are at %s, want %s (%v %s)", out, version, err, errs)
		}
	}
	upgrade := []string{"upgrade", "--install", "x", "x", "--namespace", "default", "--post-renderer", "sluice"}
	s.must(t, helm, upgrade...)
	held("1.0.0", "9")

	write(t, s.dir, map[string]string{"x/Chart.yaml": "apiVersion: v2\nname: x\nversion: 2.0.0\n", "x/templates/crd.yaml": "@examples/upgrade/v2-unsafe.yaml"})
	out, errs, err := s.run(t, helm, upgrade...)
	report, missing := os.ReadFile(filepath.Join(s.dir, "sluice-filter.txt"))
	if err == nil || missing != nil || !strings.Contains(string(report), "FAIL property-removed: ") {
		t.Errorf("an unsafe upgrade: %v\n%s%s\n%s", err, out, errs, report)
	}
	held("1.0.0", "9")

	write(t, s.dir, map[string]string{"x/Chart.yaml": "apiVersion: v2\nname: x\nversion: 3.0.0\n", "x/templates/crd.yaml": "@examples/upgrade/v3-safe.yaml"})
	s.must(t, helm, upgrade...)
	held("3.0.0", "15")
}

// TestE2EFilterIsAFunctionOfKustomize builds with the transformer of docs/ci.md.
func TestE2EFilterIsAFunctionOfKustomize(t *testing.T) {
	kustomize := tool(t, "kustomize")
	s := newShell(t, "KUBECONFIG=/nonexistent")
	function := strings.Replace(page(t, "config.kubernetes.io/function"), `"git:origin/main:config/crd"`, "old.yaml", 1)
	write(t, s.dir, map[string]string{
		"kustomization.yaml": "resources: [new.yaml, settings.yaml]\ntransformers: [sluice.yaml]\n", "sluice.yaml": function,
		"old.yaml": "@examples/upgrade/v1.yaml", "new.yaml": "@examples/upgrade/v3-safe.yaml", "settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
	})
	build := []string{"build", "--enable-alpha-plugins", "--enable-exec", "."}
	got := objects(t, []byte(s.must(t, kustomize, build...)))
	want := map[string]map[string]any{}
	for _, file := range []string{"new.yaml", "settings.yaml"} {
		text, err := os.ReadFile(filepath.Join(s.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(want, objects(t, text))
	}
	same(t, want, got)

	write(t, s.dir, map[string]string{"new.yaml": "@examples/upgrade/v2-unsafe.yaml"})
	out, errs, err := s.run(t, kustomize, build...)
	if err == nil || out != "" || !strings.Contains(errs, "fail: databases.example.sluice.dev: property-removed: ") {
		t.Errorf("an unsafe upgrade: %v\n%s%s", err, out, errs)
	}
}

// TestE2EThePluginOfArgoCDStopsUnsafeUpgrades runs the command of config/argocd/plugin.yaml as argocd-cmp-server does, in the folder of an
// application.
func TestE2EThePluginOfArgoCDStopsUnsafeUpgrades(t *testing.T) {
	c, p := shared.Get(t), readPlugin(t)
	// Another test of this cluster may have left the CRD.
	if _, errs, err := c.Kubectl(t, "", "delete", "crd", "databases.example.sluice.dev", "--ignore-not-found"); err != nil {
		t.Fatal(err, errs)
	}
	s := newShell(t, "KUBECONFIG="+c.Kubeconfig)
	kustomize, err := os.ReadFile(tool(t, "kustomize"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.program), "kustomize"), kustomize, 0o755); err != nil {
		t.Fatal(err)
	}
	manifests := map[string]string{p.Spec.Discover.FileName: "resources: [crd.yaml]\n", "crd.yaml": "@examples/upgrade/v1.yaml"}
	generate := func(args ...string) (string, string, error) {
		return s.run(t, p.Spec.Generate.Command[0], append(slices.Clone(p.Spec.Generate.Command[1:]), append(p.Spec.Generate.Args, args...)...)...)
	}
	write(t, s.dir, manifests)
	out, errs, err := generate()
	if err != nil || len(objects(t, []byte(out))) != 1 {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	if _, errs, err := c.Kubectl(t, out, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		t.Fatal(err, errs)
	}
	manifests["crd.yaml"] = "@examples/upgrade/v2-unsafe.yaml"
	write(t, s.dir, manifests)
	if out, errs, err = generate(); err == nil || out != "" || !strings.Contains(errs, "FAIL property-removed: ") {
		t.Errorf("an unsafe upgrade: %v\n%s%s", err, out, errs)
	}
	// What kustomize refuses is an error, too.
	manifests[p.Spec.Discover.FileName] = "resources: [nothing.yaml]\n"
	write(t, s.dir, manifests)
	if out, errs, err = generate(); err == nil || out != "" || !strings.Contains(errs, "nothing.yaml") {
		t.Errorf("a broken kustomization: %v\n%s%s", err, out, errs)
	}
}
