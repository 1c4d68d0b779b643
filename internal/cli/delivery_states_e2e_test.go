//go:build e2e

package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// One controller and one process of each resolver serve all of these, side by side.
func TestE2EDeliverySideBySide(t *testing.T) {
	d := newDeliveries(t)
	host, _, _ := strings.Cut(registryOnLoopback(t), "/")
	d.configure("bundleresolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "plain-http-registries": host})
	d.configure("http-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "allow-plain-http": "true"})
	d.configure("cluster-resolver-config", map[string]string{"check-access": "true", "allowed-kinds": "configmap"})
	d.serve("resolver-bundles", "resolver-http", "resolver-cluster")
	p := d.controller("delivery-a")
	defer func() { stopped(t, p) }()
	t.Run("all", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *deliveryWorld){
			"tells whether its objects are ready":                 objectsBecomeReady,
			"takes no longer than its timeout":                    takesNoLongerThanItsTimeout,
			"is not held up by those of another namespace":        isNotHeldUp,
			"goes with its namespace":                             goesWithItsNamespace,
			"is held up by a command for the same app":            isHeldUpByACommand,
			"goes on when a replica is killed":                    aReplicaIsKilled,
			"comes from registries and by HTTP":                   func(t *testing.T, d *deliveryWorld) { comesFromRegistries(t, d, host) },
			"reads the cluster as its account":                    readsTheClusterAsItsAccount,
			"is stopped by a feature that is off, until it is on": isStoppedByAFeature,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, d.another(t))
			})
		}
	})
}

func objectsBecomeReady(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"), rule("apps", "deployments"))
	text := ""
	names := []string{"a", "d"}
	for _, name := range names {
		text += strings.ReplaceAll(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: c, image: "example.com/c:1"}]}
`, "NAME", name)
	}
	revision := d.push(text)
	elsewhere := newWorld(t).namespace
	d.create("x", nil)
	d.create("dependent", func(s *v1alpha1.DeliverySpec) {
		wait := false
		s.DependsOn, s.TargetNamespace, s.Wait = []v1alpha1.DeliveryReference{{Name: "x"}}, elsewhere, &wait
	})
	state := func(status metav1.ConditionStatus) func(*v1alpha1.Delivery) error {
		return func(o *v1alpha1.Delivery) error {
			c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
			for _, name := range names {
				if c.Status != status || !strings.Contains(c.Message, "Deployment.apps "+d.namespace+"/"+name+" is InProgress") {
					return fmt.Errorf("%+v", c)
				}
			}
			if !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionApplied) {
				return fmt.Errorf("it is not applied: %+v", o.Status.Conditions)
			}
			return nil
		}
	}
	report := func(name, status string) {
		t.Helper()
		if _, err := d.kube.AppsV1().Deployments(d.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	d.reaches("x", v1alpha1.ReasonWaiting, state(metav1.ConditionUnknown))
	d.patch("x", `{"spec":{"timeout":"1s"}}`)
	d.reaches("x", v1alpha1.ReasonNotReady, state(metav1.ConditionFalse))
	// Nobody runs pods here; whoever says that it is ready is believed.
	for _, name := range names {
		d.reaches("dependent", v1alpha1.ReasonDependencyNotReady, nil)
		report(name, `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`)
	}
	d.applies("x", revision)
	d.applies("dependent", revision)
	// It fails again, and is told again.
	report("d", `{"status":{"readyReplicas":0,"availableReplicas":0,"updatedReplicas":0}}`)
	d.reaches("x", v1alpha1.ReasonNotReady, nil)
	// Who does not want to wait is ready when all is applied.
	d.patch("x", `{"spec":{"wait":false}}`)
	d.applies("x", revision)
}

func takesNoLongerThanItsTimeout(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	// What is being deleted has to be gone before it can be made anew.
	configs := d.kube.CoreV1().ConfigMaps(d.namespace)
	pinned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/pin"}}}
	if _, err := configs.Create(t.Context(), pinned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := configs.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	revision := d.push(configMap("a", "k", "1"))
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.Timeout = s.Interval })
	d.reaches("x", v1alpha1.ReasonTimedOut, says("spec.timeout is over"))
	if _, err := configs.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.applies("x", revision)
	d.holds("a", "k", "1")
}

// Those that wait for a finalizer, more than there are workers, are of another namespace, and leave workers to this one.
func isNotHeldUp(t *testing.T, d *deliveryWorld) {
	other := d.another(t)
	for _, w := range []*deliveryWorld{d, other} {
		w.grant("all", rule("", "configmaps"))
	}
	configs := other.kube.CoreV1().ConfigMaps(other.namespace)
	pinned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/pin"}}}
	if _, err := configs.Create(t.Context(), pinned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := configs.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waiting := other.push(configMap("a"))
	const n = 20
	for i := range n {
		other.create(fmt.Sprintf("x%d", i), func(s *v1alpha1.DeliverySpec) {
			s.Timeout, s.Interval, s.Force = &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: time.Minute}, true
		})
	}
	// The first of them have workers by now.
	other.reaches("x0", v1alpha1.ReasonApplying, says(waiting, "ConfigMap "+other.namespace+"/a", "a finalizer may wait"))
	revision := d.push(configMap("a", "k", "1"))
	d.create("x", nil)
	d.applies("x", revision)
	// One is left, the finalizer goes, and it goes on.
	if err := other.dynamic.Resource(deliveriesGVR).Namespace(other.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name!=x0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := configs.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	other.applies("x0", waiting)
}

func goesWithItsNamespace(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	revision := d.push(configMap("a", "k", "1"))
	d.create("x", nil)
	d.applies("x", revision)
	// The namespace stays in Terminating while this is there.
	configs := d.kube.CoreV1().ConfigMaps(d.namespace)
	pinned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pinned", Finalizers: []string{"example.com/pin"}}}
	if _, err := configs.Create(t.Context(), pinned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespaces := d.kube.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), d.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the delivery and all that it has made to go", func() error {
		if _, err := d.read(t.Context(), "x"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the delivery is there: %w", err)
		}
		list, err := configs.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Name != "pinned" {
			return fmt.Errorf("%d ConfigMaps", len(list.Items))
		}
		return nil
	})
	if _, err := configs.Patch(t.Context(), "pinned", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the namespace to end", func() error {
		if _, err := namespaces.Get(t.Context(), d.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	// The same process delivers into one of that name that is made anew.
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.account()
	d.impersonate()
	d.create("x", nil)
	d.applies("x", revision)
	d.holds("a", "k", "1")
}

func aReplicaIsKilled(t *testing.T, d *deliveryWorld) {
	d.grant("all", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	program, err := exec.LookPath("sluice")
	if err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	killed := exec.CommandContext(t.Context(), program, "serve", "--roles=delivery", "--kubeconfig", kubeconfigFor(t, d.Config(), "sluice-delivery"),
		"--listen", listen, "--id", "delivery-killed")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the other process to be ready", func() error {
		if code, body := get(t, "http://"+listen+"/readyz"); code != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
	v1 := d.push(configMap("a", "k", "1"))
	const n = 6
	name := func(i int) string { return fmt.Sprintf("x%d", i) }
	for i := range n {
		target := d.namespace + "-" + name(i)
		if _, err := d.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		d.create(name(i), func(s *v1alpha1.DeliverySpec) { s.TargetNamespace = target })
	}
	for i := range n {
		d.applies(name(i), v1)
	}
	until(t, "the other process to have some of the work", func() error {
		if _, body := get(t, "http://"+listen+"/metrics"); !strings.Contains(body, "sluice_delivery_ready{") {
			return errors.New("not yet")
		}
		return nil
	})
	v2 := d.push(configMap("a", "k", "2"))
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := killed.Wait(); err == nil {
		t.Error("it ended in order")
	}
	leases := d.kube.CoordinationV1().Leases("sluice-system")
	if _, err := leases.Get(t.Context(), "sluice-member-delivery-killed", metav1.GetOptions{}); err != nil {
		t.Errorf("the Lease was let go: %v", err)
	}
	for i := range n {
		d.applies(name(i), v2)
	}
	// The others would delete it some minutes later.
	if err := leases.Delete(t.Context(), "sluice-member-delivery-killed", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
