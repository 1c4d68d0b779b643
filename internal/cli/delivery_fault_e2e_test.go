//go:build e2e

package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// says checks the message of Ready.
func says(words ...string) func(*v1alpha1.Delivery) error {
	return func(o *v1alpha1.Delivery) error {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
		for _, w := range words {
			if !strings.Contains(c.Message, w) {
				return fmt.Errorf("no %q in %q", w, c.Message)
			}
		}
		return nil
	}
}

// holds waits until a ConfigMap has a value.
func (d *deliveryWorld) holds(name, key, value string) {
	d.t.Helper()
	until(d.t, "ConfigMap "+name, func() error {
		data, err := d.data(name)
		if err != nil {
			return err
		}
		if data[key] != value {
			return fmt.Errorf("data %v", data)
		}
		return nil
	})
}

// pin gives a ConfigMap a finalizer and has it deleted; the function that it returns lets it go.
func (d *deliveryWorld) pin(name string) (unpin func()) {
	d.t.Helper()
	d.change(name, "somebody", `{"metadata":{"finalizers":["example.com/pin"]}}`)
	if err := d.kube.CoreV1().ConfigMaps(d.namespace).Delete(d.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		d.t.Fatal(err)
	}
	return func() { d.change(name, "somebody", `{"metadata":{"finalizers":null}}`) }
}

func (d *deliveryWorld) change(name, manager, patch string) {
	d.t.Helper()
	_, err := d.kube.CoreV1().ConfigMaps(d.namespace).Patch(d.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		d.t.Fatal(err)
	}
}

func TestE2EDeliveryPutsDriftRightAndStopsWhileSuspended(t *testing.T) {
	d := newDeliveries(t)
	d.impersonate()
	d.grant("all", rule("", "configmaps"))
	p := d.controller("delivery-a")
	v1 := d.push(configMap("a", "k", "1") + configMap("b"))
	d.create("x", nil)
	d.applies("x", v1)

	// What was edited, and what was deleted, comes back.
	d.change("a", "kubectl-edit", `{"data":{"k":"edited","mine":"stays"}}`)
	d.holds("a", "k", "1")
	d.holds("a", "mine", "stays")
	if err := d.kube.CoreV1().ConfigMaps(d.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.holds("b", "always", "same")
	until(t, "the events", func() error {
		if n := d.events("x", v1alpha1.ReasonDriftCorrected); n != 2 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	// Where nothing has changed nothing is written.
	before := d.versions()
	d.round("x")
	d.round("x")
	if after := d.versions(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("written: %v, before %v", after, before)
	}

	// Suspended: neither the source nor drift is looked at, over a restart too.
	d.patch("x", `{"spec":{"suspend":true}}`)
	until(t, "it to be suspended", func() error {
		o, err := d.read(t.Context(), "x")
		if err == nil && !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionSuspended) {
			err = errors.New("not yet")
		}
		return err
	})
	stopped(t, p)
	v2 := d.push(configMap("a", "k", "2"))
	d.change("a", "kubectl-edit", `{"data":{"k":"again"}}`)
	p = d.controller("delivery-a")
	defer func() { stopped(t, p) }()
	d.create("y", func(s *v1alpha1.DeliverySpec) { s.DependsOn = []v1alpha1.DeliveryReference{{Name: "nobody"}} })
	d.reaches("y", v1alpha1.ReasonDependencyNotReady, nil) // it has been through all that there is
	d.holds("a", "k", "again")
	d.patch("x", `{"spec":{"suspend":false}}`)
	o := d.applies("x", v2)
	d.holds("a", "k", "2")
	if meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionSuspended) != nil {
		t.Error("it is suspended")
	}
	// Without prune b stays, in the inventory too.
	d.holds("b", "always", "same")
	if o.Status.Inventory.Objects != 2 {
		t.Errorf("inventory %+v", o.Status.Inventory)
	}
}

func TestE2EDeliveryWaitsForOthers(t *testing.T) {
	d := newDeliveries(t)
	d.impersonate()
	d.grant("all", rule("", "configmaps"))
	p := d.controller("delivery-a")
	defer func() { stopped(t, p) }()
	revision := d.push(configMap("a"))
	on := func(name string) func(*v1alpha1.DeliverySpec) {
		return func(s *v1alpha1.DeliverySpec) {
			s.DependsOn = []v1alpha1.DeliveryReference{{Name: name}}
			s.Force = true
		}
	}
	d.create("second", on("first"))
	d.reaches("second", v1alpha1.ReasonDependencyNotReady, says("first", "does not exist"))
	if _, err := d.data("a"); !apierrors.IsNotFound(err) {
		t.Errorf("it was delivered: %v", err)
	}
	d.create("first", nil)
	d.applies("first", revision)
	d.patch("first", `{"spec":{"suspend":true}}`) // or the two would take a from each other for ever
	d.reaches("second", v1alpha1.ReasonDependencyNotReady, says("first", "is not ready"))
	d.patch("first", `{"spec":{"suspend":false,"dependsOn":[{"name":"second"}]}}`)
	d.reaches("first", v1alpha1.ReasonDependencyCycle, says("second"))
	// What is asked for wrongly is refused at once.
	for _, patch := range []string{
		`{"spec":{"dependsOn":[{"name":"first"}]}}`, `{"spec":{"source":{"resolver":"git"}}}`, `{"spec":{"source":{"url":"file:///etc"}}}`,
		`{"spec":{"source":{"url":"git+https://me:secret@example.com/r"}}}`, `{"spec":{"interval":"1ms"}}`, `{"spec":{"timeout":"never"}}`,
		`{"spec":{"preflights":[]}}`, `{"spec":{"preflights":[{"name":"Nonsense"}]}}`,
	} {
		_, err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Patch(t.Context(), "first", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", patch, err)
		}
	}
	d.patch("second", `{"spec":{"dependsOn":null,"preflights":[{"name":"CRDUpgradeSafety","config":{"mod":"warn"}}]}}`)
	d.reaches("second", v1alpha1.ReasonInvalidConfiguration, says(`unknown key "mod"`, "mode"))
	d.patch("second", `{"spec":{"preflights":null}}`)
	d.applies("second", revision)
}

func TestE2EDeliveryGoesOnWhenTheCauseHasGone(t *testing.T) {
	d := newDeliveries(t)
	p := d.controller("delivery-a")
	defer func() { stopped(t, p) }()
	v1 := d.push(configMap("a", "k", "1"))
	d.create("x", nil)

	// The controller may not act as the account.
	d.reaches("x", v1alpha1.ReasonImpersonationRefused, says("sluice-delivery-impersonate", d.namespace+"/deployer"))
	d.impersonate()
	// The account may not do what is to be done; nothing is done with the controller's own rights.
	d.reaches("x", v1alpha1.ReasonForbidden, says("deployer", "configmaps"))
	if _, err := d.data("a"); !apierrors.IsNotFound(err) {
		t.Errorf("it was delivered: %v", err)
	}
	d.grant("all", rule("", "configmaps"))
	d.applies("x", v1)

	// The source is gone for a while.
	d.gone.Store(true)
	o := d.reaches("x", v1alpha1.ReasonResolutionFailed, nil)
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionResolved); c.Status != metav1.ConditionFalse || !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionApplied) {
		t.Errorf("%+v", o.Status.Conditions)
	}
	d.holds("a", "k", "1")
	// What was delivered stays as it was.
	d.change("a", "kubectl-edit", `{"data":{"k":"edited"}}`)
	d.holds("a", "k", "1")
	d.reaches("x", v1alpha1.ReasonResolutionFailed, func(o *v1alpha1.Delivery) error {
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); strings.Contains(c.Message, "drift") {
			return fmt.Errorf("message %q", c.Message)
		}
		return nil
	})
	// Drift that waits for somebody says for what.
	unpin := d.pin("a")
	d.reaches("x", v1alpha1.ReasonResolutionFailed, says("drift of delivered objects is not corrected: ", "ConfigMap "+d.namespace+"/a: the one that is being deleted is not gone yet"))
	unpin()
	d.holds("a", "k", "1")
	d.gone.Store(false)
	d.applies("x", v1)

	// Another one applies a field from a manifest of its own.
	apply := func(manager, value string) {
		t.Helper()
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":%q}}`, value)
		force := true
		_, err := d.kube.CoreV1().ConfigMaps(d.namespace).Patch(t.Context(), "a", types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: manager, Force: &force})
		if err != nil {
			t.Fatal(err)
		}
	}
	apply("helm", "theirs")
	d.reaches("x", v1alpha1.ReasonFieldConflict, says(".data.k", "helm", "spec.force"))
	d.holds("a", "k", "theirs")
	apply("helm", "1") // the two agree
	d.applies("x", v1)
	apply("helm", "theirs")
	d.reaches("x", v1alpha1.ReasonFieldConflict, nil)
	d.patch("x", `{"spec":{"force":true}}`)
	d.applies("x", v1)
	d.holds("a", "k", "1")

	// What is there is no object.
	d.push("just: words\n")
	d.reaches("x", v1alpha1.ReasonInvalidSource, nil)
	d.change("a", "kubectl-edit", `{"data":{"k":"edited"}}`)
	d.holds("a", "k", "1")
	// The cluster does not know a kind.
	d.push("apiVersion: nobody.example.com/v1\nkind: Thing\nmetadata: {name: t}\n")
	d.reaches("x", v1alpha1.ReasonUnknownKind, says("Thing"))
	// A test of Helm's is left out, which is told; the account could not make it.
	v2 := d.push(configMap("a", "k", "2") + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}\n")
	o = d.applies("x", v2)
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionApplied); !strings.Contains(c.Message, "applied "+v2+"; left out, because Helm runs it neither at an install nor at an upgrade: Pod t (test)") {
		t.Errorf("message %q", c.Message)
	}
	// Of another delivery.
	d.create("y", nil)
	d.reaches("y", v1alpha1.ReasonOtherApp, says(d.namespace+"/x"))
	if err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Delete(t.Context(), "y", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	// The API server restarts.
	d.Crash(t)
	v3 := d.push(configMap("a", "k", "3"))
	d.applies("x", v3)
}

func TestE2EDeliveryIntoANamespaceThatIsBeingDeleted(t *testing.T) {
	d := newDeliveries(t)
	d.impersonate()
	d.grant("all", rule("", "configmaps", "namespaces"))
	p := d.controller("delivery-a")
	defer func() { stopped(t, p) }()
	target := d.namespace + "-target"
	namespaces := d.kube.CoreV1().Namespaces()
	create := func() {
		t.Helper()
		if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create()
	// It cannot end while this is there.
	pinned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "pinned", Finalizers: []string{"example.com/pin"}}}
	if _, err := d.kube.CoreV1().ConfigMaps(target).Create(t.Context(), pinned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(t.Context(), target, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	v1 := d.push(configMap("a"))
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.TargetNamespace = target })
	d.reaches("x", v1alpha1.ReasonNamespaceTerminating, says("is being deleted", target))
	_, err := d.kube.CoreV1().ConfigMaps(target).Patch(t.Context(), "pinned", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the namespace to end", func() error {
		if _, err := namespaces.Get(t.Context(), target, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	create()
	d.applies("x", v1)
}

func TestE2EDeliveryReplicasDivideTheWork(t *testing.T) {
	d := newDeliveries(t)
	d.impersonate()
	d.grant("all", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}})
	a := d.controller("delivery-a")
	b := d.controller("delivery-b")
	v1 := d.push(configMap("a"))
	name := func(i int) string { return fmt.Sprintf("x%d", i) }
	n := 0
	// Each has a namespace of its own: the same objects in one would be in conflict.
	more := func() {
		target := d.namespace + "-" + name(n)
		if _, err := d.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		d.create(name(n), func(s *v1alpha1.DeliverySpec) { s.TargetNamespace = target })
		n++
	}
	for range 8 {
		more()
	}
	for i := range n {
		d.applies(name(i), v1)
	}
	counts := func(p running) int {
		_, body := get(t, "http://"+p.listen+"/metrics")
		return strings.Count(body, "sluice_delivery_ready{")
	}
	// Whose one is depends on its UID: it may be that one of the two has none of the first.
	for x, y := 0, 0; x == 0 || y == 0; {
		if n == 40 {
			t.Fatalf("only one of the two works: %d and %d", x, y)
		}
		more()
		d.applies(name(n-1), v1)
		until(t, "each to have what the other has not", func() error {
			if x, y = counts(a), counts(b); x+y != n {
				return fmt.Errorf("%d and %d of %d", x, y, n)
			}
			return nil
		})
	}
	for i := range n {
		// Events are sent beside the work.
		until(t, "the event of "+name(i), func() error {
			if got := d.events(name(i), v1alpha1.ReasonApplied); got != 1 {
				return fmt.Errorf("%d events", got)
			}
			return nil
		})
	}
	// One goes, and the other has all.
	stopped(t, a)
	v2 := d.push(configMap("a", "k", "2"))
	for i := range n {
		d.applies(name(i), v2)
	}
	stopped(t, b)
}
