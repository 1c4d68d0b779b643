//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/config"
	"sluice.dev/tools/bundletest"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/clustertest/nodeless"
	"sluice.dev/tools/gittest"
	"sluice.dev/tools/kube"
)

// Where the controller and the webhook of Tekton Pipelines are, and the folder config of their source.
const (
	envTekton       = "SLUICE_TEKTON"
	envTektonConfig = "SLUICE_TEKTON_CONFIG"
)

// pipelines is Tekton Pipelines: its manifests, its controller and its webhook, as processes; and Sluice in place of its resolvers.
type pipelines struct {
	*system

	port  int64 // of the webhook
	dyn   dynamic.Interface
	files string
}

// tektonManifests are the objects of Tekton's manifests, but for Deployments and what belongs to them.
func (p *pipelines) tektonManifests(t *testing.T) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"100-namespace/*.yaml", "resolvers/100-*.yaml", "2*.yaml", "300-crds/*.yaml", "resolvers/2*.yaml", "config-*.yaml", "resolvers/*config*.yaml", "500-*.yaml", "cluster*.yaml"} {
		found, err := filepath.Glob(filepath.Join(p.files, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		objects, err := kube.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range objects {
			p.reach(u.Object)
			eventually(t, file+" to be applied", func(ctx context.Context) error { return p.objects.ApplyObject(ctx, u, false) })
		}
	}
	p.apply(t, "apiVersion: v1\nkind: Service\nmetadata: {name: tekton-pipelines-webhook, namespace: tekton-pipelines}\nspec: {type: ExternalName, externalName: 127.0.0.1}\n")
}

// reach gives each reference to Tekton's webhook the port on which it listens here.
func (p *pipelines) reach(v any) {
	switch v := v.(type) {
	case map[string]any:
		if service, ok := v["service"].(map[string]any); ok && service["name"] == "tekton-pipelines-webhook" {
			service["port"] = p.port
		}
		for _, inner := range v {
			p.reach(inner)
		}
	case []any:
		for _, inner := range v {
			p.reach(inner)
		}
	}
}

// run starts one of Tekton's processes under its ServiceAccount.
func (p *pipelines) run(t *testing.T, account string, env []string, args ...string) {
	t.Helper()
	probes, err := nodeless.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(probes)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], append(args[1:], "--kubeconfig="+p.kubeconfig(t, tektonNamespace, account))...)
	cmd.Env = append(env, "SYSTEM_NAMESPACE="+tektonNamespace, "KUBERNETES_MIN_VERSION=v1.28.0", "PROBES_PORT="+port, "HOME="+t.TempDir(), "PATH="+os.Getenv("PATH"),
		"CONFIG_DEFAULTS_NAME=config-defaults", "CONFIG_LOGGING_NAME=config-logging", "CONFIG_OBSERVABILITY_NAME=config-observability",
		"CONFIG_FEATURE_FLAGS_NAME=feature-flags", "CONFIG_SPIRE=config-spire", "METRICS_DOMAIN=tekton.dev/pipeline", "POD_NAME="+account)
	running, err := nodeless.Launch(account, probes, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		running.Kill()
		if log := running.Log(); t.Failed() {
			t.Logf("%s logged: %s", account, log[max(0, len(log)-8<<10):])
		}
	})
	eventually(t, account+" to be ready", func(ctx context.Context) error {
		if running.Over() {
			t.Fatalf("%s ended: %s", account, running.Log())
		}
		_, err := running.Get(ctx, "/readiness")
		return err
	})
}

// realTekton starts all of it.
func realTekton(t *testing.T) *pipelines {
	t.Helper()
	binaries := os.Getenv(envTekton)
	if binaries == "" {
		t.Skip("make e2e-tekton builds Tekton's controller and webhook and runs this")
	}
	cluster := clustertest.Start(t)
	before := &system{cluster: cluster, admin: cluster.Config()}
	var err error
	if before.objects, err = kube.New(before.admin); err != nil {
		t.Fatal(err)
	}
	listen, err := nodeless.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipelines{system: before, files: os.Getenv(envTektonConfig)}
	if p.port, err = strconv.ParseInt(port, 10, 64); err != nil {
		t.Fatal(err)
	}
	p.tektonManifests(t)
	if p.system, err = install(t.Context(), cluster, config.Options{BesideTekton: true, WideCredentials: true, WideAddresses: true}); err != nil {
		t.Fatal(err)
	}
	if p.dyn, err = dynamic.NewForConfig(p.admin); err != nil {
		t.Fatal(err)
	}
	// Both processes would listen on the same port.
	p.set(t, tektonNamespace, "config-observability", map[string]string{"metrics-protocol": "none"})
	p.run(t, "tekton-pipelines-webhook", []string{
		"WEBHOOK_PORT=" + port, "WEBHOOK_SERVICE_NAME=tekton-pipelines-webhook", "WEBHOOK_SECRET_NAME=webhook-certs", "WEBHOOK_ADMISSION_CONTROLLER_NAME=webhook.pipeline.tekton.dev",
		"CONFIG_LEADERELECTION_NAME=config-leader-election-webhook",
	}, filepath.Join(binaries, "webhook"))
	p.run(t, tektonAccount, []string{"CONFIG_LEADERELECTION_NAME=config-leader-election-controller"}, filepath.Join(binaries, "controller"),
		"--entrypoint-image=example.test/entrypoint", "--nop-image=example.test/nop", "--sidecarlogresults-image=example.test/results",
		"--workingdirinit-image=example.test/init", "--shell-image=example.test/shell", "--shell-image-win=example.test/shell-win")
	return p
}

// set changes keys of a ConfigMap of Tekton, and leaves the others.
func (p *pipelines) set(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	eventually(t, "ConfigMap "+name+" to be changed", func(ctx context.Context) error {
		configMaps := p.kube.CoreV1().ConfigMaps(namespace)
		m, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for k, v := range data {
			if m.Data == nil {
				m.Data = map[string]string{}
			}
			m.Data[k] = v
		}
		_, err = configMaps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
}

func (p *pipelines) resource(name string) dynamic.NamespaceableResourceInterface {
	return p.dyn.Resource(schema.GroupVersionResource{Group: "tekton.dev", Version: "v1", Resource: name})
}

// create makes an object of tekton.dev/v1, as soon as Tekton's webhook takes it.
func (p *pipelines) create(t *testing.T, ns, kind, name string, spec map[string]any) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "tekton.dev/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	eventually(t, kind+" "+name+" to be made", func(ctx context.Context) error {
		_, err := p.resource(strings.ToLower(kind)+"s").Namespace(ns).Create(ctx, u, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// succeeded is the condition of a run; nil while it has none.
func succeeded(u *unstructured.Unstructured) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Succeeded" {
			return c
		}
	}
	return nil
}

func params(pairs ...string) []any {
	var out []any
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, map[string]any{"name": pairs[i], "value": pairs[i+1]})
	}
	return out
}

const (
	realTask     = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: build}\nspec:\n  steps:\n  - {name: say, image: example.test/busybox, command: [echo], args: [%s]}\n"
	realPipeline = "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: all}\nspec:\n  tasks:\n  - name: one\n    taskSpec:\n      steps:\n      - {name: say, image: example.test/busybox, command: [echo], args: [%s]}\n"
)

func TestE2ERealTekton(t *testing.T) {
	p := realTekton(t)
	t.Run("runs", p.runs)
	t.Run("verifies what it gets", p.verifiesSources)
	t.Run("bundles behind a login", p.logsIn)
	t.Run("a Task of 900 KB", p.largeTask)
	// Tekton's own controller cares for the requests meanwhile.
	t.Run("one of two replicas ends, and the operator makes a mistake", p.mistakes)
	t.Run("a resolver is killed in the middle of 500", func(t *testing.T) { killInTheMiddle(t, p.system, 500) })
	t.Run("the API server is restarted with 500 pending", func(t *testing.T) { restartTheAPIServer(t, p.system, 500) })
}

// tektonConfig is the namespace of Tekton's ConfigMaps for resolvers.
const tektonConfig = "tekton-pipelines-resolvers"

// runs has a TaskRun and a PipelineRun get their Task and Pipeline by each resolver, up to the Pod; where that fails the run says why.
func (p *pipelines) runs(t *testing.T) {
	ns := p.namespace(t)
	repos := gittest.NewServer(t, false)
	task, pipeline := func(by string) string { return fmt.Sprintf(realTask, by) }, func(by string) string { return fmt.Sprintf(realPipeline, by) }
	gittest.NewOrigin(t, repos.Root, "catalog.git", map[string]string{"task.yaml": task("git"), "pipeline.yaml": pipeline("git"), "secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"})
	reg := images(t)
	push(t, reg, "team/bundle", bundletest.Task("build", task("bundles")), bundletest.Layer{
		Name: "all", Kind: "pipeline", APIVersion: "v1", Blob: bundletest.Gzip(bundletest.Tar(bundletest.File{Name: "all", Data: []byte(pipeline("bundles"))})),
	})
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/task.yaml":
			_, _ = w.Write([]byte(task("http")))
		case "/pipeline.yaml":
			_, _ = w.Write([]byte(pipeline("http")))
		default:
			http.Error(w, "secret-of-the-server", http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(files.Close)
	hubs := hub(t, map[string]any{
		"/api/v1/packages/tekton-task/tekton-catalog-tasks/build/0.2.0":       map[string]any{"data": map[string]any{"manifestRaw": task("hub")}},
		"/api/v1/packages/tekton-pipeline/tekton-catalog-pipelines/all/0.1.0": map[string]any{"data": map[string]any{"manifestRaw": pipeline("hub")}},
	})
	web := httptest.NewServer(http.FileServer(http.Dir(repos.Root)))
	t.Cleanup(web.Close)
	gittest.Run(t, repos.Root+"/catalog.git", nil, "update-server-info")
	for name, data := range map[string]map[string]string{
		"git-resolver-config":   loopback,
		"http-resolver-config":  {"allowed-addresses": "127.0.0.1", "allow-plain-http": "true", "backoff-duration": "50ms"},
		"bundleresolver-config": {"allowed-addresses": "127.0.0.1", "plain-http-registries": reg},
		"hubresolver-config":    {"allowed-addresses": "127.0.0.1", "allow-plain-http": "true", "artifact-hub-urls": "- " + hubs.URL},
	} {
		p.set(t, tektonConfig, name, data)
	}
	p.startAll(t, slices.DeleteFunc(slices.Clone(allRoles), func(r string) bool { return r == "resolution" })...)

	steps := func(by string) []any {
		return []any{map[string]any{"name": "say", "image": "example.test/busybox", "command": []any{"echo"}, "args": []any{by}}}
	}
	p.create(t, ns, "Task", "build", map[string]any{"steps": steps("cluster")})
	p.create(t, ns, "Pipeline", "all", map[string]any{"tasks": []any{map[string]any{"name": "one", "taskSpec": map[string]any{"steps": steps("cluster")}}}})

	url := repos.URL + "/catalog.git"
	for by, refs := range map[string][2][]any{
		"git":     {params("url", url, "revision", "main", "pathInRepo", "task.yaml"), params("url", url, "revision", "main", "pathInRepo", "pipeline.yaml")},
		"bundles": {params("bundle", reg+"/team/bundle:v1", "name", "build", "kind", "task"), params("bundle", reg+"/team/bundle:v1", "name", "all", "kind", "pipeline")},
		"cluster": {params("kind", "task", "name", "build", "namespace", ns), params("kind", "pipeline", "name", "all", "namespace", ns)},
		"http":    {params("url", files.URL+"/task.yaml"), params("url", files.URL+"/pipeline.yaml")},
		"hub":     {params("kind", "task", "name", "build", "version", "0.2"), params("kind", "pipeline", "name", "all", "version", "0.1.0")},
	} {
		for kind, ref := range map[string][]any{"TaskRun": refs[0], "PipelineRun": refs[1]} {
			t.Run(kind+" by "+by, func(t *testing.T) {
				t.Parallel()
				name := strings.ToLower(kind) + "-" + by
				p.create(t, ns, kind, name, map[string]any{strings.ToLower(strings.TrimSuffix(kind, "Run")) + "Ref": map[string]any{"resolver": by, "params": ref}})
				p.wantPod(t, ns, kind, name, by)
			})
		}
	}
	t.Run("TaskRun from a web server without git", func(t *testing.T) {
		t.Parallel()
		ref := params("url", web.URL+"/catalog.git", "revision", "main", "pathInRepo", "task.yaml")
		p.create(t, ns, "TaskRun", "web", map[string]any{"taskRef": map[string]any{"resolver": "git", "params": ref}})
		p.wantPod(t, ns, "TaskRun", "web", "git")
	})
	for name, tt := range map[string]struct {
		kind, resolver string
		params         []any
		reason         string
		texts          []string
	}{
		"no file":       {"TaskRun", "git", params("url", url, "revision", "main", "pathInRepo", "none.yaml"), "TaskRunResolutionFailed", []string{"NotFound", "none.yaml"}},
		"no pipeline":   {"PipelineRun", "git", params("url", url, "revision", "main", "pathInRepo", "none.yaml"), "CouldntGetPipeline", []string{"NotFound", "none.yaml"}},
		"no parameters": {"TaskRun", "bundles", params("name", "build"), "TaskRunResolutionFailed", []string{"InvalidParams", "bundle"}},
		"a busy server": {"TaskRun", "http", params("url", files.URL+"/busy.yaml"), "TaskRunResolutionFailed", []string{"RemoteUnavailable", files.URL, "429"}},
		"no registry":   {"TaskRun", "bundles", params("bundle", "127.0.0.1:1/team/bundle:v1", "name", "build", "kind", "task"), "TaskRunResolutionFailed", []string{"RemoteUnavailable", "127.0.0.1:1"}},
		"another kind":  {"TaskRun", "git", params("url", url, "revision", "main", "pathInRepo", "secret.yaml"), "TaskRunResolutionFailed", []string{"ForbiddenByPolicy", "Secret"}},
		"metadata":      {"TaskRun", "http", params("url", "http://169.254.169.254/x"), "TaskRunResolutionFailed", []string{"ForbiddenByPolicy", "169.254.169.254"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := strings.ReplaceAll(name, " ", "-")
			p.create(t, ns, tt.kind, run, map[string]any{strings.ToLower(strings.TrimSuffix(tt.kind, "Run")) + "Ref": map[string]any{"resolver": tt.resolver, "params": tt.params}})
			eventually(t, run+" to fail", func(ctx context.Context) error {
				u, err := p.resource(strings.ToLower(tt.kind)+"s").Namespace(ns).Get(ctx, run, metav1.GetOptions{})
				if err != nil {
					return err
				}
				c := succeeded(u)
				if c == nil || c["status"] == "Unknown" {
					return fmt.Errorf("condition %v", c)
				}
				message := fmt.Sprint(c["message"])
				if c["status"] != "False" || c["reason"] != tt.reason || strings.Contains(message, "secret-of") {
					t.Errorf("condition %v; want %s", c, tt.reason)
				}
				for _, text := range tt.texts {
					if !strings.Contains(message, text) {
						t.Errorf("the message has no %q: %s", text, message)
					}
				}
				return nil
			})
		})
	}
}

// mistakes has TaskRuns get their Pods while one of two replicas ends, and while Tekton's ConfigMap has values that are none.
func (p *pipelines) mistakes(t *testing.T) {
	ns := p.namespace(t)
	repos := gittest.NewServer(t, false)
	gittest.NewOrigin(t, repos.Root, "catalog.git", map[string]string{"task.yaml": fmt.Sprintf(realTask, "git")})
	p.set(t, tektonConfig, "git-resolver-config", loopback)
	first := p.start(t, "resolver-git")
	p.start(t, "resolver-git")
	names := func(prefix string) []string {
		var out []string
		for i := range 10 {
			out = append(out, fmt.Sprintf("%s-%d", prefix, i))
		}
		return out
	}
	run := func(names []string) {
		for _, name := range names {
			ref := params("url", repos.URL+"/catalog.git", "revision", "main", "pathInRepo", "task.yaml", "cache", "never")
			p.create(t, ns, "TaskRun", name, map[string]any{"taskRef": map[string]any{"resolver": "git", "params": ref}})
		}
	}
	want := func(names []string) {
		for _, name := range names {
			p.wantPod(t, ns, "TaskRun", name, "git")
		}
	}
	before := names("before")
	run(before)
	first.Kill()
	want(before)
	mistaken := maps.Clone(loopback)
	maps.Copy(mistaken, map[string]string{"fetch-timeout": "soon", "default-revision": "", "backoff-steps": "-1", "max-pack-bytes": "lots", "nonsense": "x", "test1.scm-type": "cvs"})
	p.set(t, tektonConfig, "git-resolver-config", mistaken)
	eventually(t, "an event that tells of the mistakes", func(ctx context.Context) error {
		events, err := p.kube.CoreV1().Events(tektonConfig).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=git-resolver-config,type=Warning"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "fetch-timeout") && strings.Contains(e.Message, "max-pack-bytes") {
				return nil
			}
		}
		return fmt.Errorf("%d events, and none of them does", len(events.Items))
	})
	after := names("after")
	run(after)
	want(after)
}

// wantPod waits for the Pod of a run, which says by which resolver its Task came.
func (p *pipelines) wantPod(t *testing.T, ns, kind, name, by string) {
	t.Helper()
	label := map[string]string{"TaskRun": "tekton.dev/taskRun", "PipelineRun": "tekton.dev/pipelineRun"}[kind]
	var pod *corev1.Pod
	eventually(t, "the Pod of "+name, func(ctx context.Context) error {
		list, err := p.kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: label + "=" + name})
		if err != nil {
			return err
		}
		if len(list.Items) == 1 {
			pod = &list.Items[0]
			return nil
		}
		u, err := p.resource(strings.ToLower(kind)+"s").Namespace(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := succeeded(u)
		if c != nil && c["status"] == "False" {
			t.Fatalf("%s has failed: %v", name, c)
		}
		return errors.New(fmt.Sprint(c))
	})
	if args := strings.Join(pod.Spec.Containers[0].Args, " "); !strings.HasSuffix(args, " "+by) {
		t.Errorf("the Pod of %s runs %s", name, args)
	}
}
