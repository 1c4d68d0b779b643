//go:build e2e

package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/client/versioned"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/resolve"
)

// safeBuffer is written to and read at once.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestE2EResolveThroughTheCluster(t *testing.T) {
	c := shared.Get(t)
	manifests(t, c)
	processes := []running{begin(t, c, "resolution", echoes(), nil), begin(t, c, "resolver-git", echoes(), nil)}
	requests := versioned.NewForConfigOrDie(c.Config()).ResolutionV1beta1().ResolutionRequests("default")
	gone := func(name string) bool {
		_, err := requests.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}

	// A watch sees what follows.
	watching, stopWatching := context.WithCancel(t.Context())
	seen := &safeBuffer{}
	watched := make(chan int, 1)
	e := &command.Env{In: strings.NewReader(""), Out: seen, Err: seen, Now: time.Now, Getenv: func(string) string { return "" }}
	go func() {
		watched <- runCommand(watching, []string{"resolve", "ls", "-w", "-n", "default", "--kubeconfig", c.Kubeconfig}, e)
	}()
	until(t, "the watch to begin", func() error {
		if !strings.HasPrefix(seen.String(), "NAME") {
			return errors.New(seen.String())
		}
		return nil
	})

	dir := t.TempDir()
	beta := write(t, dir, "beta.yaml", `{apiVersion: resolution.tekton.dev/v1beta1, kind: ResolutionRequest,
  metadata: {name: cli-beta, labels: {resolution.tekton.dev/type: git}}, spec: {params: [{name: text, value: "kind: Task\n"}]}}`)
	code, out, errs := sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", beta)
	if code != ExitOK || out != "kind: Task\n" || !gone("cli-beta") {
		t.Errorf("exit code %d, %q, %q, gone %v", code, out, errs, gone("cli-beta"))
	}
	alpha := write(t, dir, "alpha.yaml", `{apiVersion: resolution.tekton.dev/v1alpha1, kind: ResolutionRequest,
  metadata: {name: cli-alpha, namespace: default, labels: {resolution.tekton.dev/resolver: git}}, spec: {params: {text: alpha}}}`)
	code, out, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", alpha, "--keep", "-o", "json")
	var list resolve.ResolvedList
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != ExitOK || len(list.Items) != 1 {
		t.Fatalf("exit code %d, %q, %q, %v", code, out, errs, err)
	}
	if i := list.Items[0]; i.Content != "alpha" || i.Request != "default/cli-alpha" || i.Resolver != "git" || i.RefSource.URI != "echo:" || gone("cli-alpha") {
		t.Errorf("item %+v", i)
	}
	// A request that is there already, one that fails, and one that nobody answers.
	if code, _, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", alpha); code != ExitFailed || !strings.Contains(errs, "already exists") || gone("cli-alpha") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	bad := write(t, dir, "bad.yaml", strings.NewReplacer("cli-beta", "cli-bad", "name: text", "name: txt").Replace(string(mustRead(t, beta))))
	if code, out, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", bad); code != ExitFailed || out != "" || !strings.Contains(errs, `default/cli-bad: ResolutionFailed: InvalidParams: unknown parameter "txt"`) || !gone("cli-bad") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	nobody := write(t, dir, "nobody.yaml", strings.NewReplacer("cli-beta", "cli-nobody", "type: git", "type: nobody").Replace(string(mustRead(t, beta))))
	if code, _, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", nobody, "--timeout", "1s"); code != ExitFailed || !strings.Contains(errs, "--timeout") || !gone("cli-nobody") {
		t.Errorf("exit code %d, %q", code, errs)
	}

	// What it refers to, each by a request of its own.
	pipeline := "spec: {tasks: [{taskRef: {resolver: git, resource: {text: one}}}, {taskRef: {name: two}}]}\n"
	tree := write(t, dir, "tree.yaml", strings.NewReplacer("cli-beta", "cli-tree", `"kind: Task\n"`, fmt.Sprintf("%q", pipeline)).Replace(string(mustRead(t, beta))))
	code, out, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", tree, "-n", "default", "--recursive", "--default-remote", "task=git,text={name}")
	if code != ExitOK || out != pipeline+"---\none\n---\ntwo" || !gone("cli-tree") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	// Without the flag, the operator of the cluster says where things are.
	defaults := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config-defaults"}, Data: map[string]string{
		"default-resolver-type": "git", "default-remotes": "task: {params: [{name: text, value: 'of the cluster: {name}'}]}",
	}}
	maps := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().ConfigMaps("sluice-system")
	if _, err := maps.Create(t.Context(), defaults, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	code, out, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", tree, "-n", "default", "--recursive")
	if code != ExitOK || out != pipeline+"---\none\n---\nof the cluster: two" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if err := maps.Delete(t.Context(), defaults.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wrong := write(t, dir, "wrong.yaml", strings.ReplaceAll(string(mustRead(t, tree)), "text: one", "txt: one"))
	if code, out, errs = sluice(t, "resolve", "--kubeconfig", c.Kubeconfig, "-f", wrong, "-r"); code != ExitFailed || out != "" || !strings.Contains(errs, "default/cli-tree: spec.tasks[0].taskRef: ResolutionFailed: InvalidParams") {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	if all, err := requests.List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 1 {
		t.Errorf("%d requests are left, %v", len(all.Items), err)
	}

	code, out, errs = sluice(t, "resolve", "ls", "--kubeconfig", c.Kubeconfig, "-A", "-o", "json", "-l", "resolution.tekton.dev/resolver=git")
	var summaries struct{ Items []resolve.Summary }
	if err := json.Unmarshal([]byte(out), &summaries); err != nil || code != ExitOK || len(summaries.Items) != 1 {
		t.Fatalf("exit code %d, %q, %q, %v", code, out, errs, err)
	}
	if s := summaries.Items[0]; s.Name != "cli-alpha" || s.Resolver != "git" || s.Phase != resolve.PhaseSucceeded || s.Bytes != 5 || s.Seconds == nil {
		t.Errorf("summary %+v", s)
	}
	if code, out, errs = sluice(t, "resolve", "ls", "--kubeconfig", c.Kubeconfig, "-n", "kube-public"); code != ExitOK || out != "" || errs != "no requests\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
	until(t, "the watch to tell of it", func() error {
		for _, want := range []string{"cli-beta", "Deleted", "cli-alpha", "InvalidParams"} {
			if !strings.Contains(seen.String(), want) {
				return errors.New(seen.String())
			}
		}
		return nil
	})
	stopWatching()
	if code := <-watched; code != ExitOK {
		t.Errorf("the watch ends with exit code %d: %s", code, seen)
	}
	if err := requests.Delete(t.Context(), "cli-alpha", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, p := range processes {
		if err := p.stop(); err != nil || p.loggedComplaints() != "" {
			t.Errorf("%v %s", err, p.log)
		}
	}
}

func TestE2EAResolverPublishesTheSchemaOfItsParameters(t *testing.T) {
	c := shared.Get(t)
	manifests(t, c)
	p := begin(t, c, "resolver-git", echoes(), nil)
	maps := kubernetes.NewForConfigOrDie(c.Config()).CoreV1().ConfigMaps("sluice-system")
	want, err := echo{}.Spec().Schema()
	if err != nil {
		t.Fatal(err)
	}
	var uid types.UID
	published := func() error {
		m, err := maps.Get(t.Context(), "resolver-schema-git", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if m.Data["schema.json"] != string(want) || len(m.Data) != 1 || m.UID == uid {
			return fmt.Errorf("%s %v", m.UID, m.Data)
		}
		uid = m.UID
		return nil
	}
	until(t, "the schema", published)
	if err := maps.Delete(t.Context(), "resolver-schema-git", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "it to come back", published)
	edit := []byte(`{"data":{"schema.json":"{}"}}`)
	if _, err := maps.Patch(t.Context(), "resolver-schema-git", types.MergePatchType, edit, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	uid = ""
	until(t, "an edit to be undone", published)

	// What a process of another version has written stays as long as this one runs.
	sum := sha256.Sum256([]byte("{}"))
	other := fmt.Appendf(nil, `{"metadata":{"annotations":{"sluice.dev/schema-digest":"sha256:%x"}},"data":{"schema.json":"{}"}}`, sum)
	if _, err := maps.Patch(t.Context(), "resolver-schema-git", types.MergePatchType, other, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil || p.loggedComplaints() != "" {
		t.Errorf("%v %s", err, p.log)
	}
	if m, err := maps.Get(t.Context(), "resolver-schema-git", metav1.GetOptions{}); err != nil || m.Data["schema.json"] != "{}" {
		t.Errorf("%v %v", m, err)
	}
	p = begin(t, c, "resolver-git", echoes(), nil)
	uid = ""
	until(t, "the next process to write its own", published)
	if err := p.stop(); err != nil {
		t.Error(err)
	}

	// Its account may do this to no other ConfigMap.
	asResolver := kubernetes.NewForConfigOrDie(impersonate(c.Config(), "sluice-resolver-git")).CoreV1().ConfigMaps("sluice-system")
	_, err = asResolver.Apply(t.Context(), corev1apply.ConfigMap("git-resolver-config", "sluice-system"), metav1.ApplyOptions{FieldManager: "test"})
	if !apierrors.IsForbidden(err) {
		t.Errorf("another ConfigMap: %v", err)
	}
	if _, err = asResolver.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a new ConfigMap: %v", err)
	}
}

// impersonate acts as a ServiceAccount of sluice-system.
func impersonate(cfg *rest.Config, account string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate.UserName = "system:serviceaccount:sluice-system:" + account
	return cfg
}

func TestE2EResolveWithoutACluster(t *testing.T) {
	code, _, errs := sluice(t, "resolve", "ls", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	if code != ExitFailed || !strings.Contains(errs, "no access to the cluster") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	data, err := command.ReadFileBounded(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
