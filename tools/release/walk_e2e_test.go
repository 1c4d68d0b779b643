//go:build e2e

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
)

// TestE2EFromNothingToGuarded goes the way of a new user with what a release publishes, and nothing else: the program from its
// archive, its manifests, and the image's files, which run as the Deployments say.
func TestE2EFromNothingToGuarded(t *testing.T) {
	w := newWalk(t, true)
	w.install(w.manifests())
	w.says(w.page("doctor.md"), "sluice-crd-guard", "replicas are available", `"kind": "Diagnosis"`)

	// The guard refuses a change that would break the stored object, whoever sends it, and lets a safe one pass.
	w.apply(walkCRD("postgres, mysql"))
	w.kubectl("wait", "--for=condition=Established", "crd/databases.shop.example.com")
	w.apply(walkObject("orders", "engine: mysql"))
	w.says(w.refused(walkCRD("postgres")), "sluice", "mysql")
	w.apply(walkCRD("postgres, mysql, mariadb"))

	// A request and a Delivery read a repository.
	w.commit("deploy/settings.yaml", walkSettings)
	w.says(w.sluice(0, "resolve", "-f", w.file("request.yaml", fmt.Sprintf(`
apiVersion: resolution.tekton.dev/v1beta1
kind: ResolutionRequest
metadata: {name: settings, namespace: shop, labels: {resolution.tekton.dev/type: git}}
spec: {params: [{name: url, value: %q}, {name: revision, value: main}, {name: pathInRepo, value: deploy/settings.yaml}]}
`, w.repository))), "currency: EUR")
	w.deliver()

	// A part of the API is closed until its gate is opened.
	w.apply(walkFeature)
	w.ready("", "Enforced", "component/shop")
	replicas := walkObject("payments", "engine: mysql, replicas: 3")
	w.says(w.refused(replicas), "Replicas", "alpha")
	w.kubectl("patch", "configmap", "feature-flags", "-n", "shop", "--type=merge", "-p", `{"data": {"replicas": "true"}}`)
	w.eventually(func() error { return w.tryApply(replicas) })

	// Other values roll all processes over. A request that is created meanwhile is answered.
	done := make(chan string, 1)
	request := w.file("meanwhile.yaml", fmt.Sprintf(`
apiVersion: resolution.tekton.dev/v1beta1
kind: ResolutionRequest
metadata: {name: meanwhile, namespace: shop, labels: {resolution.tekton.dev/type: git}}
spec: {params: [{name: url, value: %q}, {name: pathInRepo, value: deploy/settings.yaml}, {name: cache, value: never}]}
`, w.repository))
	w.apply(w.manifests("--values", w.file("values.yaml", "workloads: {resolver-git: {resources: {limits: {memory: 600Mi}}}, resolution: {resources: {limits: {memory: 300Mi}}}}\n")))
	go func() { done <- w.sluice(0, "resolve", "-f", request) }()
	w.says(<-done, "currency: EUR")
	w.says(w.refused(walkCRD("postgres")), "mysql")
	w.healthy()
	requests := w.requests()
	w.allowed(requests)
	w.leastRights(w.manifests(), requests)

	// Taken away again, every kind can be written, and nothing is left but what has users.
	w.kubectl("delete", "delivery/shop", "-n", "shop", "--wait")
	w.says(w.page("uninstall.md", "sluice uninstall  ", "sluice uninstall --yes  "), "sluice-crd-guard", "Sluice is removed.")
	w.sluice(0, "uninstall", "--yes", "--delete-objects", "--delete-namespace")
	w.apply(walkCRD("postgres"))
	w.apply(walkObject("later", "engine: postgres, replicas: 2"))
	for _, kind := range []string{
		"crd", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "mutatingadmissionpolicy", "mutatingadmissionpolicybinding",
		"validatingwebhookconfiguration", "mutatingwebhookconfiguration", "clusterrole", "clusterrolebinding", "namespace",
	} {
		if out := w.kubectl("get", kind, "-o", "name"); strings.Contains(out, "sluice") || strings.Contains(out, "resolution.tekton.dev") {
			t.Errorf("of %s is left:\n%s", kind, out)
		}
	}
}

// page runs the first block of commands of a page, none of which may fail, and returns what they print. Pairs replace what needs a terminal.
func (w *walk) page(name string, replace ...string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join("docs", name))
	if err != nil {
		w.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n```sh\n")
	commands, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		w.Fatalf("%s has no commands", name)
	}
	cmd := exec.CommandContext(w.Context(), "bash", "-exc", strings.NewReplacer(replace...).Replace(commands))
	cmd.Env = []string{"HOME=" + w.dir, "PATH=" + filepath.Dir(w.program) + ":" + os.Getenv("PATH"), "KUBECONFIG=" + w.cluster.Kubeconfig}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// install applies the manifests of all roles, and waits for them.
func (w *walk) install(manifests string) {
	w.Helper()
	w.kubectl("create", "namespace", "shop")
	w.apply(manifests)
	w.kubectl("-n", "sluice-system", "wait", "--for=condition=Available", "--timeout=300s", "deployment", "--all")
}

// deliver has the folder deploy of the repository delivered.
func (w *walk) deliver() {
	w.Helper()
	w.kubectl("create", "serviceaccount", "deployer", "-n", "shop")
	w.kubectl("create", "rolebinding", "deployer", "-n", "shop", "--clusterrole=cluster-admin", "--serviceaccount=shop:deployer")
	w.kubectl("create", "rolebinding", "sluice-delivery", "-n", "shop", "--clusterrole=sluice-delivery-impersonate", "--serviceaccount=sluice-system:sluice-delivery")
	w.apply(fmt.Sprintf(`
apiVersion: sluice.dev/v1alpha1
kind: Delivery
metadata: {name: shop, namespace: shop}
spec: {source: {url: "git+%s//deploy?ref=main"}, interval: 1m, prune: true, serviceAccountName: deployer}
`, w.repository))
	w.ready("shop", "Ready", "delivery/shop")
	w.says(w.kubectl("get", "configmap", "settings", "-n", "shop", "-o", "yaml"), "currency: EUR")
}

const walkSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {currency: EUR}\n"

// gitSettings let the role resolver-git read the repository of the walk.
const gitSettings = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: git-resolver-config, namespace: sluice-system}\ndata: {allowed-addresses: 127.0.0.0/8}\n"

const walkFeature = `
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: shop}
spec:
  release: v1.0.0
  configMap: {namespace: shop, name: feature-flags}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: feature-flags, namespace: shop}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: shop.replicas}
spec:
  component: shop
  gate: Replicas
  stages: [{stage: Alpha, release: v1.0.0}]
  parts: # one of each type, which the type check of policies goes through
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.replicas}
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.owner}
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.paused}
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.share}
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.backup}
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.zones}
  - {group: shop.example.com, resource: databases, versions: [v1], field: "spec.tags[*]", values: [beta]}
  - {group: shop.example.com, resource: databases, versions: [v1], field: "spec.users[*].admin"}
  - {group: shop.example.com, resource: databases, versions: [v1], field: "spec.users[*].quota", beyond: {maximum: 10}}
  - {group: shop.example.com, resource: databases, versions: [v1], field: "spec.users[*].name", beyond: {maxLength: 8}}
  - {group: shop.example.com, resource: databases, versions: [v1], field: spec.limits}
  - {group: shop.example.com, resource: databases, versions: [v1], field: "spec.budgets[*]", beyond: {maximum: 100}}
`

func walkCRD(engines string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {kind: Database, listKind: DatabaseList, plural: databases, singular: database}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              engine: {type: string, enum: [%s]}
              replicas: {type: integer}
              owner: {type: string, maxLength: 20}
              paused: {type: boolean}
              share: {type: number}
              backup: {type: object, properties: {at: {type: string, maxLength: 20}}}
              zones: {type: array, maxItems: 5, items: {type: string, maxLength: 20}}
              tags: {type: array, maxItems: 5, items: {type: string, maxLength: 20}}
              users:
                type: array
                maxItems: 5
                items: {type: object, properties: {name: {type: string, maxLength: 20}, admin: {type: boolean}, quota: {type: integer}}}
              limits: {type: object, maxProperties: 5, additionalProperties: {type: integer}}
              budgets: {type: object, maxProperties: 5, additionalProperties: {type: integer}}
`, engines)
}

func walkObject(name, spec string) string {
	return fmt.Sprintf("apiVersion: shop.example.com/v1\nkind: Database\nmetadata: {name: %s, namespace: default}\nspec: {%s}\n", name, spec)
}

// walk is a cluster, and what a release has published.
type walk struct {
	*testing.T

	dir, program, repository string
	auditLog                 string
	cluster                  *clustertest.Cluster
	node                     *nodeless.Node
}

// publishing has what a release publishes, for all tests.
var publishing struct {
	dir           string
	files, image  sync.Once
	err, errImage error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(publishing.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// published returns a folder with the files that a release publishes, and one with its image; empty if no test wants that, or if it
// cannot be built.
func published(t *testing.T, withImage bool) (files, image string) {
	t.Helper()
	p := &publishing
	publish := func(only string) error {
		r := &release{version: "v0.0.1", image: "registry.example.com/sluice", out: filepath.Join(p.dir, only), platforms: []string{"linux/" + runtime.GOARCH}}
		return r.runRelease(t.Context(), only)
	}
	p.files.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "published"); p.err == nil { //nolint:usetesting // tests share it; TestMain removes it
			p.err = publish("files")
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	files = filepath.Join(p.dir, "files")
	if !withImage || os.Getuid() != 0 { // its Pods take a root of their own
		return files, ""
	}
	p.image.Do(func() { p.errImage = publish("image") })
	if p.errImage == nil {
		return files, filepath.Join(p.dir, "image", "image")
	}
	why := noPackages(t)
	if why == nil {
		t.Fatal(p.errImage)
	}
	t.Logf("without the image: %v", why)
	return files, ""
}

// noPackages says why this machine has no Debian packages for an image, whatever the release does: apt-get is not installed, or cannot
// reach its archive.
func noPackages(t *testing.T) error {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil { // apt's own user reads it
			t.Fatal(err)
		}
	}
	// Without the mode, apt-get does not fail if it reaches nothing.
	_, err := runCommand(t.Context(), nil, "apt-get", "-q", "-o", "Dir::State="+filepath.Join(dir, "state"), "-o", "Dir::Cache="+filepath.Join(dir, "cache"),
		"-o", "APT::Sandbox::User=", "-o", "APT::Update::Error-Mode=any", "update")
	return err
}

// TestE2EOnlyAMachineWithoutPackagesGoesWithoutTheImage has programs in place of apt-get.
func TestE2EOnlyAMachineWithoutPackagesGoesWithoutTheImage(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	if err := noPackages(t); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("without apt-get: %v", err)
	}
	for answer, without := range map[string]bool{"exit 100": true, "exit 0": false} {
		if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte("#!/bin/sh\n"+answer+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := noPackages(t); (err != nil) != without {
			t.Errorf("apt-get update: %s: %v", answer, err)
		}
	}
}

// newWalk starts a cluster and makes what a release publishes. withImage says whether its Pods run in the image, where that can be done.
func newWalk(t *testing.T, withImage bool) *walk {
	t.Helper()
	t.Chdir("../..")
	w := &walk{T: t, dir: t.TempDir()}
	files, image := published(t, withImage)
	for name, f := range unpack(t, filepath.Join(files, fmt.Sprintf("sluice_v0.0.1_linux_%s.tar.gz", runtime.GOARCH))) {
		if filepath.Base(name) == "sluice" {
			w.program = filepath.Join(w.dir, "sluice")
			if err := os.WriteFile(w.program, f.Data, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	runs := nodeless.Image{Program: w.program}
	if image != "" {
		runs = nodeless.Image{Program: "/usr/bin/sluice", Root: w.rootOf(image)}
	}
	w.repository = w.serveRepository()
	node, err := nodeless.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.node, w.cluster = node, clustertest.Start(t, append(w.audited(), node.Option())...)
	if err := node.Join(w.cluster.Config(), runs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logs := node.Logs()
		if err := node.Close(); err != nil {
			t.Error(err)
		}
		for name, text := range logs {
			if t.Failed() {
				t.Logf("%s: %s", name, text)
			}
		}
	})
	return w
}

// ready waits for a condition of an object. A busy machine is no failure.
func (w *walk) ready(namespace, condition, object string) {
	w.Helper()
	if _, _, err := w.cluster.Kubectl(w.T, "", "wait", "-n", namespace, "--for=condition="+condition, "--timeout=300s", object); err != nil {
		w.Fatalf("%v: %s", err, w.kubectl("get", object, "-n", namespace, "-o", "yaml"))
	}
}

// rootOf unpacks the layers of the image in a layout.
func (w *walk) rootOf(dir string) string {
	w.Helper()
	root := filepath.Join(w.dir, "root")
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		w.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range top.Manifests {
		if m.MediaType.IsImage() {
			continue // a bill of materials
		}
		platforms, err := index.ImageIndex(m.Digest)
		if err != nil {
			w.Fatal(err)
		}
		list, err := platforms.IndexManifest()
		if err != nil {
			w.Fatal(err)
		}
		image, err := platforms.Image(list.Manifests[0].Digest)
		if err != nil {
			w.Fatal(err)
		}
		layers, err := image.Layers()
		if err != nil {
			w.Fatal(err)
		}
		for _, l := range layers {
			data, err := l.Compressed()
			if err != nil {
				w.Fatal(err)
			}
			w.untar(data, root)
		}
	}
	return root
}

func (w *walk) untar(data io.ReadCloser, root string) {
	w.Helper()
	defer data.Close() //nolint:errcheck // it was only read
	in, err := gzip.NewReader(data)
	if err != nil {
		w.Fatal(err)
	}
	var errs []error
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.Fatal(err)
		}
		name := filepath.Join(root, h.Name)
		errs = append(errs, os.MkdirAll(filepath.Dir(name), 0o755))
		switch h.Typeflag {
		case tar.TypeDir:
			errs = append(errs, os.MkdirAll(name, 0o755), os.Chmod(name, h.FileInfo().Mode()))
		case tar.TypeSymlink:
			errs = append(errs, os.Symlink(h.Linkname, name))
		case tar.TypeReg:
			content, err := io.ReadAll(r)
			errs = append(errs, err, os.WriteFile(name, content, h.FileInfo().Mode()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

// serveRepository serves an empty repository by the server of git.
func (w *walk) serveRepository() string {
	w.Helper()
	w.git("init", "-q", "-b", "main", filepath.Join(w.dir, "git", "shop.git"))
	program, err := exec.LookPath("git")
	if err != nil {
		w.Fatal(err)
	}
	server := httptest.NewServer(&cgi.Handler{
		Path: program, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(w.dir, "git"), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	w.Cleanup(server.Close)
	return server.URL + "/shop.git"
}

// file writes a file for the program.
func (w *walk) file(name, content string) string {
	w.Helper()
	name = filepath.Join(w.dir, name)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
	return name
}

// commit adds a file to the repository.
func (w *walk) commit(name, content string) {
	w.Helper()
	repo := filepath.Join(w.dir, "git", "shop.git")
	if err := os.MkdirAll(filepath.Dir(filepath.Join(repo, name)), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repo, name), []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
	w.git("-C", repo, "add", ".")
	w.git("-C", repo, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", name)
}

func (w *walk) git(args ...string) {
	w.Helper()
	if out, err := exec.CommandContext(w.Context(), "git", args...).CombinedOutput(); err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// manifests is what the program prints for all roles, and a configuration that allows the repository.
func (w *walk) manifests(more ...string) string {
	w.Helper()
	out := w.sluice(0, append([]string{"manifests", "--roles=all", "--guard-reads=shop.example.com", "--feature-settings=shop/feature-flags"}, more...)...)
	return out + gitSettings
}

// healthy waits until doctor finds nothing wrong.
func (w *walk) healthy() {
	w.Helper()
	w.eventually(func() error {
		if out, errs, err := w.run("doctor"); err != nil {
			return fmt.Errorf("%w: %s%s", err, out, errs)
		}
		return nil
	})
}

// sluice runs the program, which has to end with a code, and returns what it prints.
func (w *walk) sluice(code int, args ...string) string {
	w.Helper()
	out, errs, err := w.run(args...)
	exit := &exec.ExitError{}
	if err != nil && !errors.As(err, &exit) || err == nil && code != 0 || err != nil && exit.ExitCode() != code {
		w.Errorf("sluice %v: %v, want exit code %d\n%s%s", args, err, code, out, errs)
	}
	return out
}

func (w *walk) run(args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(w.Context(), w.program, args...)
	cmd.Env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH")}
	if w.cluster != nil {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+w.cluster.Kubeconfig)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (w *walk) kubectl(args ...string) string {
	w.Helper()
	out, errs, err := w.cluster.Kubectl(w, "", args...)
	if err != nil {
		w.Fatalf("kubectl %v: %v\n%s%s", args, err, out, errs)
	}
	return out
}

func (w *walk) tryApply(text string) error {
	_, errs, err := w.cluster.Kubectl(w, text, "apply", "--server-side", "--force-conflicts", "-f", "-")
	if err != nil {
		return fmt.Errorf("%w: %s", err, errs)
	}
	return nil
}

func (w *walk) apply(text string) {
	w.Helper()
	if err := w.tryApply(text); err != nil {
		w.Fatal(err)
	}
}

// refused returns why the API server refuses something.
func (w *walk) refused(text string) string {
	w.Helper()
	err := w.tryApply(text)
	if err == nil {
		w.Fatalf("it was not refused:\n%s", text)
	}
	return err.Error()
}

func (w *walk) says(text string, want ...string) {
	w.Helper()
	for _, s := range want {
		if !strings.Contains(text, s) {
			w.Errorf("it does not say %q:\n%s", s, text)
		}
	}
}

func (w *walk) eventually(what func() error) {
	w.Helper()
	const patience = 6 * time.Minute
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := what()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			w.Fatal(err)
		}
	}
}
