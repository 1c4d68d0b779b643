//go:build e2e

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/resolvers"
	"sluice.dev/tools/clustertest"
)

var (
	deliveriesGVR = v1alpha1.SchemeGroupVersion.WithResource("deliveries")
	crdsGVR       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// origin is a git repository that is served over HTTP.
type origin struct {
	t    *testing.T
	work string
	// source is the URL of a delivery.
	source string
	gone   atomic.Bool
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	root := t.TempDir()
	o := &origin{t: t, work: filepath.Join(root, "work")}
	if err := os.MkdirAll(o.work, 0o700); err != nil {
		t.Fatal(err)
	}
	o.git("init", "-q", "-b", "main")
	o.git("init", "-q", "--bare", "-b", "main", filepath.Join(root, "repo.git"))
	o.git("remote", "add", "origin", filepath.Join(root, "repo.git"))
	handler := &cgi.Handler{
		Path: "/usr/bin/env", Args: []string{"git", "http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.gone.Load() {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	o.source = "git+" + server.URL + "/repo.git//deploy?ref=main"
	return o
}

func (o *origin) git(args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", o.work, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push makes text all that is delivered, and gives the revision.
func (o *origin) push(text string) string {
	o.t.Helper()
	write(o.t, o.work, "deploy/all.yaml", text)
	o.git("add", ".")
	o.git("commit", "-q", "--allow-empty", "-m", "change")
	o.git("push", "-q", "origin", "main")
	return "sha1:" + o.git("rev-parse", "HEAD")
}

// deliveryWorld is a cluster with all that delivers, and a namespace whose account deployer may be impersonated.
type deliveryWorld struct {
	*world
	*origin

	t *testing.T
}

// newDeliveries starts resolution and the git resolver; the controller of deliveries is for the test to start.
func newDeliveries(t *testing.T) *deliveryWorld {
	t.Helper()
	d := &deliveryWorld{world: newWorld(t), origin: newOrigin(t), t: t}
	manifests(t, d.Cluster)
	manifests(t, d.Cluster, "--roles=delivery")
	d.configure("git-resolver-config", gitConfig)
	d.serve("resolution", "resolver-git")
	d.empty()
	d.account()
	return d
}

// another gives a world of its own in the same cluster, with the same processes, to a test that runs beside others.
func (d *deliveryWorld) another(t *testing.T) *deliveryWorld {
	t.Helper()
	out := &deliveryWorld{world: newWorld(t), origin: newOrigin(t), t: t}
	out.empty()
	out.account()
	out.impersonate()
	return out
}

// empty deletes in the end what was asked for: requests that stay would be converted for whoever lists them, and nobody does that
// once the processes have ended.
func (d *deliveryWorld) empty() {
	d.t.Cleanup(func() {
		ctx := context.WithoutCancel(d.t.Context())
		for _, gvr := range []schema.GroupVersionResource{deliveriesGVR, v1beta1.SchemeGroupVersion.WithResource("resolutionrequests")} {
			if err := d.dynamic.Resource(gvr).Namespace(d.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				d.t.Error(err)
			}
		}
	})
}

// gitConfig lets the git resolver see the origin, as it is now.
var gitConfig = map[string]string{"allowed-addresses": "127.0.0.1", "ref-ttl": "0s", "backoff-steps": "1"}

// configure configures a resolver for the test.
func (d *deliveryWorld) configure(name string, data map[string]string) {
	d.t.Helper()
	configs := d.kube.CoreV1().ConfigMaps("sluice-system")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := configs.Create(d.t.Context(), cm, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = configs.Update(d.t.Context(), cm, metav1.UpdateOptions{})
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := configs.Delete(context.WithoutCancel(d.t.Context()), name, metav1.DeleteOptions{}); err != nil {
			d.t.Error(err)
		}
	})
}

// serve starts roles of resolution, each under its account, for the test.
func (d *deliveryWorld) serve(roles ...string) {
	d.t.Helper()
	for _, role := range roles {
		var table []resolvers.Entry
		for _, e := range resolvers.Table() {
			if "resolver-"+e.Name == role {
				table = append(table, e)
			}
		}
		p := begin(d.t, d.Cluster, role, table, nil)
		d.t.Cleanup(func() {
			if err := p.stop(); err != nil {
				d.t.Error(err)
			}
		})
	}
}

// account makes the ServiceAccount deployer, which may lock its apps.
func (d *deliveryWorld) account() {
	d.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "lock"}, Rules: []rbacv1.PolicyRule{rule("coordination.k8s.io", "leases")}}
	if _, err := d.kube.RbacV1().Roles(d.namespace).Create(d.t.Context(), role, metav1.CreateOptions{}); err != nil {
		d.t.Fatal(err)
	}
	_, err := d.kube.RbacV1().RoleBindings(d.namespace).Create(d.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "lock"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "lock"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: d.namespace, Name: "deployer"}},
	}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}
	if _, err := d.kube.CoreV1().ServiceAccounts(d.namespace).Create(d.t.Context(), sa, metav1.CreateOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// controller starts a process that delivers.
func (d *deliveryWorld) controller(id string) running {
	d.t.Helper()
	return begin(d.t, d.Cluster, "delivery", nil, func(f *serveFlags) { f.ID = id })
}

// impersonate lets the controller act as the accounts of the namespace.
func (d *deliveryWorld) impersonate() {
	d.t.Helper()
	_, err := d.kube.RbacV1().RoleBindings(d.namespace).Create(d.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "sluice-delivery"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sluice-delivery-impersonate"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "sluice-system", Name: "sluice-delivery"}},
	}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
}

// grant gives deployer rights in the whole cluster.
func (d *deliveryWorld) grant(name string, rules ...rbacv1.PolicyRule) {
	d.t.Helper()
	name = d.namespace + "-" + name
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := d.kube.RbacV1().ClusterRoles().Create(d.t.Context(), role, metav1.CreateOptions{}); err != nil {
		d.t.Fatal(err)
	}
	_, err := d.kube.RbacV1().ClusterRoleBindings().Create(d.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: d.namespace, Name: "deployer"}},
	}, metav1.CreateOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	clustertest.AwaitRights(d.t, d.kube, d.namespace)
}

func rule(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "create", "update", "patch", "delete"}}
}

// create makes a delivery of the origin.
func (d *deliveryWorld) create(name string, change func(*v1alpha1.DeliverySpec)) {
	d.t.Helper()
	o := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: d.namespace}, Spec: v1alpha1.DeliverySpec{
		Source: v1alpha1.DeliverySource{URL: d.source}, Interval: &metav1.Duration{Duration: time.Second}, ServiceAccountName: "deployer",
	}}
	o.APIVersion, o.Kind = v1alpha1.SchemeGroupVersion.String(), "Delivery"
	if change != nil {
		change(&o.Spec)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		d.t.Fatal(err)
	}
	delete(content, "status")
	if _, err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Create(d.t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *deliveryWorld) patch(name, patch string) {
	d.t.Helper()
	_, err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Patch(d.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deliveryWorld) read(ctx context.Context, name string) (*v1alpha1.Delivery, error) {
	u, err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &v1alpha1.Delivery{}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// reaches waits until Ready has the reason, and check agrees.
func (d *deliveryWorld) reaches(name, reason string, check func(*v1alpha1.Delivery) error) *v1alpha1.Delivery {
	d.t.Helper()
	var last *v1alpha1.Delivery
	until(d.t, name+" to be "+reason, func() error {
		var err error
		if last, err = d.read(d.t.Context(), name); err != nil {
			return err
		}
		c := meta.FindStatusCondition(last.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != reason || c.ObservedGeneration != last.Generation {
			return fmt.Errorf("conditions %+v", last.Status.Conditions)
		}
		if check != nil {
			return check(last)
		}
		return nil
	})
	return last
}

// applies waits until a revision is delivered.
func (d *deliveryWorld) applies(name, revision string) *v1alpha1.Delivery {
	d.t.Helper()
	return d.reaches(name, v1alpha1.ReasonDelivered, func(o *v1alpha1.Delivery) error {
		if o.Status.Applied == nil || o.Status.Applied.Revision != revision {
			return fmt.Errorf("applied %+v, want %s", o.Status.Applied, revision)
		}
		return nil
	})
}

// round waits until the source has been fetched once more than it had been.
func (d *deliveryWorld) round(name string) *v1alpha1.Delivery {
	d.t.Helper()
	before, err := d.read(d.t.Context(), name)
	if err != nil {
		d.t.Fatal(err)
	}
	var now *v1alpha1.Delivery
	until(d.t, "another round of "+name, func() error {
		if now, err = d.read(d.t.Context(), name); err != nil {
			return err
		}
		if now.Status.CheckedTime.Equal(before.Status.CheckedTime) {
			return errors.New("not yet")
		}
		return nil
	})
	return now
}

// events counts those of a delivery with a reason.
func (d *deliveryWorld) events(name, reason string) int {
	d.t.Helper()
	list, err := d.kube.CoreV1().Events(d.namespace).List(d.t.Context(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	n := 0
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "Delivery" && e.InvolvedObject.Name == name && e.Reason == reason {
			n += max(int(e.Count), 1)
		}
	}
	return n
}

func (d *deliveryWorld) data(name string) (map[string]string, error) {
	cm, err := d.kube.CoreV1().ConfigMaps(d.namespace).Get(d.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return cm.Data, nil
}

func stopped(t *testing.T, p running) {
	t.Helper()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestE2EDeliveryStopsTheUnsafeUpgradeAndBringsTheSafeOne(t *testing.T) {
	d := newDeliveries(t)
	group := d.namespace + ".example.com"
	crdName := "widgets." + group
	d.impersonate()
	d.grant("all", rule("", "configmaps"), rule("apiextensions.k8s.io", "customresourcedefinitions"), rule(group, "widgets"))
	p := d.controller("delivery-a")

	v1 := d.push(widget(group, "small, large", configMap("settings", "a", "1")))
	d.create("shop", func(s *v1alpha1.DeliverySpec) { s.Prune = true })
	o := d.applies("shop", v1)
	for _, c := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionResolved, v1alpha1.ConditionPreflightsPassed, v1alpha1.ConditionApplied} {
		if !meta.IsStatusConditionTrue(o.Status.Conditions, c) {
			t.Errorf("%s is not true: %+v", c, o.Status.Conditions)
		}
	}
	if diff := cmp.Diff(&v1alpha1.InventoryReference{Name: "sluice-app-shop", Objects: 3}, o.Status.Inventory); diff != "" {
		t.Error(diff)
	}
	// Stored objects of somebody's.
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	for i := range 3 {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprintf("w%d", i)}, "spec": map[string]any{"size": []string{"small", "large", "small"}[i]},
		}}
		if _, err := d.dynamic.Resource(widgets).Namespace(d.namespace).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	crd := func() *unstructured.Unstructured {
		u, err := d.dynamic.Resource(crdsGVR).Get(t.Context(), crdName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := crd()

	// Unsafe: "small" goes, which three objects have, the delivered one among them.
	unsafe := strings.Replace(widget(group, "large", configMap("settings", "a", "2")), "{size: small}", "{size: large}", 1)
	v2 := d.push(unsafe)
	o = d.reaches("shop", v1alpha1.ReasonBlocked, nil)
	if o.Status.Observed.Revision != v2 || o.Status.Applied.Revision != v1 || o.Status.Report == nil || len(o.Status.Report.Worst) == 0 {
		t.Fatalf("status %+v", o.Status)
	}
	finding := func(f v1alpha1.DeliveryFinding) bool {
		return f.Rule == "enum-value-removed" && f.CRD == crdName && f.Path == ".spec.size" && strings.Contains(f.Witness, "size: small") && f.Effect != ""
	}
	stored := func(f v1alpha1.DeliveryFinding) bool { return f.Checked == 4 && f.Affected == 3 && len(f.Examples) > 0 }
	if worst := o.Status.Report.Worst; !slices.ContainsFunc(worst, finding) || !slices.ContainsFunc(worst, stored) {
		t.Errorf("%+v", worst)
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "enum-value-removed") || !strings.Contains(c.Message, "3 of 4 stored objects") {
		t.Errorf("message %q", c.Message)
	}
	if data, err := d.data(o.Status.Report.ConfigMap); err != nil || !strings.Contains(data["report.json"], `"CheckReport"`) || !strings.Contains(data["report.txt"], "enum-value-removed") {
		t.Errorf("report %v, %v", data, err)
	}
	untouched := func() {
		t.Helper()
		if now := crd(); now.GetResourceVersion() != before.GetResourceVersion() {
			t.Error("the CRD was written")
		}
		if data, err := d.data("settings"); err != nil || data["a"] != "1" {
			t.Errorf("settings %v, %v", data, err)
		}
	}
	untouched()
	// What runs is kept as it was delivered.
	d.change("settings", "kubectl-edit", `{"data":{"a":"edited"}}`)
	d.holds("settings", "a", "1")
	if err := d.kube.CoreV1().ConfigMaps(d.namespace).Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.holds("settings", "a", "1")
	unpin := d.pin("settings")
	d.reaches("shop", v1alpha1.ReasonBlocked, func(o *v1alpha1.Delivery) error {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionApplied)
		if !strings.Contains(c.Message, v1+" stays, and the correction of its drift waits: ") || !strings.Contains(c.Message, "ConfigMap "+d.namespace+"/settings: the one that is being deleted") {
			return fmt.Errorf("message %q", c.Message)
		}
		return nil
	})
	unpin()
	d.holds("settings", "a", "1")
	o = d.reaches("shop", v1alpha1.ReasonBlocked, func(o *v1alpha1.Delivery) error {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionApplied)
		if !strings.Contains(c.Message, v1+" stays") || strings.Contains(c.Message, "drift") {
			return fmt.Errorf("message %q", c.Message)
		}
		return nil
	})
	if o.Status.Applied.Revision != v1 || o.Status.Observed.Revision != v2 {
		t.Errorf("status %+v", o.Status)
	}
	until(t, "the events", func() error {
		if n := d.events("shop", v1alpha1.ReasonDriftCorrected); n != 3 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	untouched()
	// It stays blocked, with one event: after further rounds, and in another process.
	d.round("shop")
	stopped(t, p)
	p = d.controller("delivery-b")
	d.round("shop")
	d.reaches("shop", v1alpha1.ReasonBlocked, nil)
	until(t, "the event", func() error {
		if n := d.events("shop", v1alpha1.ReasonBlocked); n != 1 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	// Asked for, it is looked at once more.
	d.patch("shop", `{"metadata":{"annotations":{"sluice.dev/reconcile-at":"now"}}}`)
	d.reaches("shop", v1alpha1.ReasonBlocked, func(o *v1alpha1.Delivery) error {
		if o.Status.Asked != "now" {
			return errors.New("not asked")
		}
		return nil
	})
	untouched()

	// Safe, and without the ConfigMap, which is pruned.
	v3 := d.push(widget(group, "small, large, huge"))
	o = d.applies("shop", v3)
	if o.Status.Report != nil && o.Status.Report.Fail > 0 {
		t.Errorf("report %+v", o.Status.Report)
	}
	if _, err := d.data("settings"); !apierrors.IsNotFound(err) {
		t.Errorf("settings are not pruned: %v", err)
	}
	enum, _, err := unstructured.NestedSlice(crd().Object, "spec", "versions")
	if err != nil || !strings.Contains(fmt.Sprint(enum), "huge") {
		t.Errorf("%v, %v", enum, err)
	}
	// Mode warn lets v2 pass, because somebody says so.
	d.push(unsafe)
	d.reaches("shop", v1alpha1.ReasonBlocked, nil)
	d.patch("shop", `{"spec":{"preflights":[{"name":"CRDUpgradeSafety","config":{"mode":"warn"}}]}}`)
	d.reaches("shop", v1alpha1.ReasonDelivered, nil)
	stopped(t, p)
}
