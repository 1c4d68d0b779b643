//go:build e2e

package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/config"
	"sluice.dev/internal/cli/command"
	"sluice.dev/internal/cli/features"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/kube"
)

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.clidemo.dev}
spec:
  group: clidemo.dev
  scope: Namespaced
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  versions:
  - &version
    name: v1
    served: true
    storage: true
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              mode: {type: string}
              kind: {type: string, enum: [Plain, Turbo]}
              tasks: {type: array, items: {type: object, properties: {timeout: {type: string}}}}
  - {name: v2, served: true, storage: false, schema: *schema}
---
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: clidemo}
spec: {release: v1.5.0, configMap: {namespace: clidemo, name: feature-flags}, settings: [{name: color}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clidemo.mode}
spec: {component: clidemo, gate: Mode, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: clidemo.dev, resource: gadgets, field: spec.mode}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clidemo.turbo}
spec: {component: clidemo, gate: Turbo, requires: [Mode], whenDisabled: Drop, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: clidemo.dev, resource: gadgets, field: 'spec.tasks[*].timeout'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clidemo.second}
spec: {component: clidemo, gate: Second, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: clidemo.dev, resource: gadgets, versions: [v2], wholeVersion: true}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clidemo.cache}
spec: {component: clidemo, gate: Cache, inverted: true, key: disable-cache, needsRestart: true, stages: [{stage: Beta, release: v1.0.0, default: true}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clidemo.pods}
spec: {component: clidemo, gate: Pods, stages: [{stage: Alpha, release: v1.0.0}], parts: [{resource: pods, field: spec.priority}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clidemo.done}
spec: {component: clidemo, gate: Done, stages: [{stage: Stable, release: v1.0.0, lockToDefault: true}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: cliflags}
spec: {release: v1.0.0}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: cliflags.flag}
spec: {component: cliflags, gate: Flag, stages: [{stage: Alpha, release: v1.0.0}]}
`

// featureCluster is a cluster with features, settings and objects.
type featureCluster struct {
	*clustertest.Cluster

	t    *testing.T
	kube kubernetes.Interface
	put  *kube.Client
}

func newFeatureCluster(t *testing.T) *featureCluster {
	t.Helper()
	c := &featureCluster{Cluster: shared.Get(t), t: t}
	c.kube = kubernetes.NewForConfigOrDie(c.Config())
	var err error
	if c.put, err = kube.New(c.Config()); err != nil {
		t.Fatal(err)
	}
	crds, err := config.FeatureCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"clidemo", "clidemo-b"} {
		if _, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.apply(string(crds))
	c.apply(gadgets)
	t.Cleanup(func() {
		if err := c.put.DeleteCRD(context.WithoutCancel(t.Context()), "gadgets.clidemo.dev"); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *featureCluster) apply(text string) {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := c.put.Apply(c.t.Context(), file, false); err != nil {
		c.t.Fatal(err)
	}
}

func (c *featureCluster) features(want int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	code, out, errs := sluice(c.t, append(append([]string{"features"}, args...), "--kubeconfig", c.Kubeconfig)...)
	if code != want {
		c.t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out, errs
}

func (c *featureCluster) settings() map[string]string {
	c.t.Helper()
	cm, err := c.kube.CoreV1().ConfigMaps("clidemo").Get(c.t.Context(), "feature-flags", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return cm.Data
}

func (c *featureCluster) says(text string, words ...string) {
	c.t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			c.t.Errorf("%q does not say %q", text, w)
		}
	}
}

func TestE2EFeaturesOfACluster(t *testing.T) {
	c := newFeatureCluster(t)

	// Settings that are not there yet are made; only what is needed is written.
	c.features(ExitOK, "enable", "clidemo.mode", "--dry-run")
	if got := c.settings(); got != nil {
		t.Errorf("a dry run has written %v", got)
	}
	out, _ := c.features(ExitOK, "enable", "mode")
	c.says(out, `ConfigMap clidemo/feature-flags: mode: "true" written (not set before)`, "clidemo.mode: on, the settings say on")
	out, _ = c.features(ExitOK, "enable", "mode")
	c.says(out, "clidemo.mode is on")
	out, _ = c.features(ExitOK, "disable", "cache", "-o", "json")
	c.says(out, `"written": true`, `"needs": "processes take it in when they are restarted"`)
	if diff := cmp.Diff(map[string]string{"mode": "true", "disable-cache": "true"}, c.settings()); diff != "" {
		t.Error(diff)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "feature-flags", Annotations: map[string]string{"note": "ours"}}, Data: map[string]string{
		"_example": "# comments stay\n", "color": "blue", "feature-gates": "Mode=true,\n  Turbo=false\n",
	}}
	if _, err := c.kube.CoreV1().ConfigMaps("clidemo").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.features(ExitOK, "enable", "Turbo")
	want := map[string]string{"_example": "# comments stay\n", "color": "blue", "feature-gates": "Mode=true,\n  Turbo=true\n"}
	if diff := cmp.Diff(want, c.settings()); diff != "" {
		t.Error(diff)
	}

	// What cannot be is refused, with what to do.
	for _, tt := range []struct {
		args  []string
		code  int
		words []string
	}{
		{[]string{"disable", "done"}, ExitFindings, []string{"refused: Done is on for good since v1.0.0"}},
		{[]string{"disable", "mode"}, ExitFindings, []string{"requires Mode, which is off", "turn clidemo.turbo off as well"}},
		{[]string{"enable", "cliflags.flag"}, ExitFailed, []string{"has no ConfigMap", "--feature-gates"}},
		{[]string{"enable", "mode", "cliflags.flag"}, ExitFailed, []string{"several components"}},
		{[]string{"enable", "mod"}, ExitFailed, []string{`did you mean "mode"`}},
		{[]string{"enable"}, ExitFailed, []string{"name one feature or more"}},
	} {
		_, errs := c.features(tt.code, tt.args...)
		c.says(errs, tt.words...)
	}
	if diff := cmp.Diff(want, c.settings()); diff != "" {
		t.Errorf("a refused change was written: %s", diff)
	}
	c.features(ExitOK, "disable", "mode", "turbo")
	_, errs := c.features(ExitFindings, "enable", "turbo")
	c.says(errs, "requires Mode, which is off", "sluice features enable clidemo.turbo clidemo.mode")
	c.features(ExitOK, "enable", "turbo", "mode")
	c.maxLevel("stable")
	_, errs = c.features(ExitFindings, "enable", "second")
	c.says(errs, "maxLevel")
	c.maxLevel("alpha")

	c.inUse()
	c.together()
	c.skew()
	c.wrongElsewhere()
	c.rights()
}

// wrongElsewhere has a component in baked mode whose settings are wrong: one more is written, and nothing is in force.
func (c *featureCluster) wrongElsewhere() {
	t := c.t
	c.apply(`
apiVersion: sluice.dev/v1alpha1
kind: Component
metadata: {name: clibaked}
spec: {release: v1.0.0, mode: Baked, configMap: {namespace: clidemo-b, name: baked-flags}}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clibaked.soft}
spec: {component: clibaked, gate: Soft, stages: [{stage: Alpha, release: v1.0.0}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: clibaked.hard}
spec: {component: clibaked, gate: Hard, stages: [{stage: Alpha, release: v1.0.0}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: baked-flags, namespace: clidemo-b}
data: {sfot: "true", hard: "true"}
`)
	out, errs := c.features(ExitOK, "enable", "soft", "hard")
	c.says(out, `ConfigMap clidemo-b/baked-flags: soft: "true" written (not set before)`, "clibaked.hard is on", "what else is wrong with the settings is mended")
	c.says(errs, "nothing of them is taken until they are mended")
	out, errs = c.features(ExitOK, "list", "--component", "clibaked")
	c.says(out, "Soft  Alpha  false    false", "Hard  Alpha  false    false")
	c.says(errs, `did you mean "soft"`, "the last good settings of clibaked stay in force, or the defaults")
	if err := c.kube.CoreV1().ConfigMaps("clidemo-b").Delete(t.Context(), "baked-flags", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rights has somebody who may not do everything, and what is not there.
func (c *featureCluster) rights() {
	t := c.t
	if _, err := c.kube.CoreV1().ServiceAccounts("clidemo").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := c.kube.CoreV1().ServiceAccounts("clidemo").CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := c.Config()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(server string) {
		t.Helper()
		text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nclusters: [{name: x, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: x, user: {token: %s}}]\n",
			server, base64.StdEncoding.EncodeToString(config.CAData), token.Status.Token)
		if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config.Host)
	as := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := sluice(t, append(append([]string{"features"}, args...), "--kubeconfig", kubeconfig)...)
		if code != want {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out + errs
	}
	commands := [][]string{{"list"}, {"get", "mode"}, {"enable", "mode"}, {"disable", "mode"}, {"usage"}, {"skew"}}
	for _, args := range commands {
		c.says(as(ExitFailed, args...), "components", `cannot list resource "components"`)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "clidemo-reader"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"sluice.dev"}, Resources: []string{"components", "features"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}}
	if _, err := c.kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "clidemo-reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "clidemo-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "clidemo", Name: "reader"}},
	}
	if _, err := c.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the rights to come", func() error {
		if code, _, errs := sluice(t, "features", "list", "--kubeconfig", kubeconfig); code != ExitOK {
			return errors.New(errs)
		}
		return nil
	})
	// Who may read the definitions and the settings sees what is on; nothing is guessed of what they may not read.
	c.says(as(ExitOK, "list", "--component", "clidemo"), "what processes report is not known", "it is not known if the definitions fit the schemas", "clidemo    Mode")
	c.says(as(ExitFailed, "disable", "cache"), "ConfigMap clidemo/feature-flags", `cannot patch resource "configmaps"`)
	c.says(as(ExitFailed, "disable", "second"), "whether the features are in use", `cannot get resource "customresourcedefinitions"`)
	c.says(as(ExitFailed, "usage"), "the uses in objects are not known", `cannot get resource "customresourcedefinitions"`)
	c.says(as(ExitFailed, "skew"), "nothing can be said of processes", `cannot list resource "featurereports"`)

	write("https://127.0.0.1:1")
	for _, args := range commands {
		c.says(as(ExitFailed, args...), "no access to the cluster", "connection refused")
	}
	_, errs := c.features(ExitFailed, "usage", "-n", "nosuch")
	c.says(errs, `there is no namespace "nosuch"`)
}

// maxLevel changes the component.
func (c *featureCluster) maxLevel(level string) {
	c.t.Helper()
	components := dynamic.NewForConfigOrDie(c.Config()).Resource(v1alpha1.SchemeGroupVersion.WithResource("components"))
	patch := fmt.Appendf(nil, `{"spec":{"maxLevel":%q}}`, level)
	if _, err := components.Patch(c.t.Context(), "clidemo", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// inUse looks at what is in use, and turns it off.
func (c *featureCluster) inUse() {
	t := c.t
	var objects strings.Builder
	for i := range 120 {
		namespace, extra := "clidemo", ""
		if i%3 == 0 {
			namespace = "clidemo-b"
		}
		if i < 30 {
			extra = ", mode: fast"
		}
		fmt.Fprintf(&objects, "---\napiVersion: clidemo.dev/v1\nkind: Gadget\nmetadata: {name: g%03d, namespace: %s}\nspec: {kind: Plain, tasks: [{timeout: 1s}, {timeout: 2s}]%s}\n", i, namespace, extra)
	}
	objects.WriteString("---\napiVersion: clidemo.dev/v2\nkind: Gadget\nmetadata: {name: second, namespace: clidemo}\nspec: {kind: Plain}\n")
	c.apply(objects.String())
	out, _ := c.features(ExitOK, "usage", "mode", "turbo", "second", "pods", "cache")
	want := `FEATURE         NAMESPACE  OBJECTS  USES
clidemo.mode    all        30       30
clidemo.mode    clidemo    20       20
clidemo.mode    clidemo-b  10       10
clidemo.pods    all        0        0
clidemo.second  all        1        1
clidemo.second  clidemo    1        1
clidemo.turbo   all        120      240
clidemo.turbo   clidemo    80       160
clidemo.turbo   clidemo-b  40       80
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	out, _ = c.features(ExitOK, "usage", "mode", "-n", "clidemo-b", "-v")
	c.says(out, "gadgets.clidemo.dev  clidemo-b  g000  spec.mode")
	if n := strings.Count(out, "gadgets.clidemo.dev"); n != 10 {
		t.Errorf("%d objects named", n)
	}
	out, _ = c.features(ExitOK, "usage", "-o", "json")
	var usage features.Usage
	if err := json.Unmarshal([]byte(out), &usage); err != nil || usage.Scanned != 121 || len(usage.Features) != 4 {
		t.Errorf("%v: %+v", err, usage)
	}
	out, _ = c.features(ExitOK, "usage", "-o", "name")
	if out != "feature.sluice.dev/clidemo.mode\nfeature.sluice.dev/clidemo.second\nfeature.sluice.dev/clidemo.turbo\n" {
		t.Errorf("names %s", out)
	}

	_, errs := c.features(ExitFailed, "usage", "--record", "-n", "clidemo")
	c.says(errs, "leave -n out")
	c.features(ExitOK, "usage", "turbo", "mode", "--record")
	out, _ = c.features(ExitOK, "get", "turbo", "mode")
	c.says(out, "120 objects when they were last counted", "30 objects when they were last counted")

	before := c.settings()
	_, errs = c.features(ExitFindings, "disable", "turbo")
	c.says(errs, "refused: clidemo.turbo is in use by 120 objects", "--even-if-in-use")
	out, _ = c.features(ExitFindings, "disable", "turbo", "mode", "--dry-run")
	c.says(out, "clidemo.mode: off, the settings say off\n  in use by 30 objects; new uses are refused; what is stored stays", "clidemo-b  10 objects",
		"in use by 120 objects; new uses are dropped", `would be written`)
	out, _ = c.features(ExitFindings, "disable", "turbo", "mode", "--dry-run", "-v")
	c.says(out, "g000", "spec.tasks[0].timeout")
	if diff := cmp.Diff(before, c.settings()); diff != "" {
		t.Errorf("written: %s", diff)
	}
	out, _ = c.features(ExitOK, "disable", "turbo", "--even-if-in-use", "-o", "name")
	if out != "feature.sluice.dev/clidemo.turbo\n" {
		t.Errorf("names %s", out)
	}
	out, _ = c.features(ExitOK, "list", "--component", "clidemo")
	c.says(out, "clidemo    Turbo   Alpha   false    false")
}

// together has several people write settings at a time.
func (c *featureCluster) together() {
	var wg sync.WaitGroup
	for _, name := range []string{"second", "pods", "turbo"} {
		wg.Go(func() { c.features(ExitOK, "enable", name) })
	}
	wg.Go(func() {
		for i := range 20 {
			patch := fmt.Sprintf(`{"data":{"color":"blue-%d"}}`, i)
			if _, err := c.kube.CoreV1().ConfigMaps("clidemo").Patch(context.WithoutCancel(c.t.Context()), "feature-flags", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				c.t.Error(err)
			}
		}
	})
	wg.Wait()
	got := maps.Clone(c.settings())
	want := map[string]string{
		"_example": "# comments stay\n", "color": "blue-19", "feature-gates": "Mode=true,\n  Turbo=true\n", "second": "true", "pods": "true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Error(diff)
	}
}

// skew has processes that disagree, one that reports and one that is scraped.
func (c *featureCluster) skew() {
	out, _ := c.features(ExitOK, "skew", "clidemo")
	c.says(out, "clidemo: NoReports")
	c.apply(fmt.Sprintf(`
apiVersion: sluice.dev/v1alpha1
kind: FeatureReport
metadata: {name: clidemo.controller.a, namespace: clidemo}
spec: {component: clidemo, process: controller, instance: a, release: v1.5.0, renewTime: %q, leaseDurationSeconds: 3600, features: [{gate: Mode, enabled: true}]}
`, time.Now().UTC().Format(time.RFC3339)))
	out, _ = c.features(ExitOK, "skew", "clidemo")
	c.says(out, "clidemo: ProcessesAgree")
	var on atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "kubernetes_feature_enabled{name=\"Mode\",stage=\"ALPHA\"} %d\n", on.Load())
	}))
	defer server.Close()
	out, _ = c.features(ExitFindings, "skew", "--component", "clidemo", "--scrape", "webhook="+server.URL)
	c.says(out, "clidemo: ProcessesDisagree", "Mode: the settings say on; on in controller/a (v1.5.0); off in webhook/scraped-0")

	// What is scraped for as long as it runs is reported as if the process did so itself.
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		e := &command.Env{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Now: time.Now, Getenv: func(string) string { return "" }}
		ended <- runCommand(ctx, []string{
			"features", "report", "--component", "clidemo", "--process", "webhook", "--instance", "b", "-n", "clidemo", "--interval", "1s",
			"--scrape", server.URL, "--kubeconfig", c.Kubeconfig,
		}, e)
	}()
	told := func(want string) {
		c.t.Helper()
		deadline := time.Now().Add(6 * time.Minute)
		for {
			if _, out, _ := sluice(c.t, "features", "skew", "clidemo", "--kubeconfig", c.Kubeconfig); strings.Contains(out, want) {
				return
			} else if time.Now().After(deadline) {
				c.t.Fatalf("%q is not told: %s", want, out)
			}
		}
	}
	told("off in webhook/b")
	on.Store(1)
	told("clidemo: ProcessesAgree")
	stop()
	if code := <-ended; code != ExitOK {
		c.t.Errorf("exit code %d", code)
	}
	if out, _ := c.features(ExitOK, "skew", "clidemo"); strings.Contains(out, "webhook") {
		c.t.Errorf("the report is still there: %s", out)
	}
}
