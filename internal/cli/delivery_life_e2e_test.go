//go:build e2e

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/api/v1alpha1"
)

// How deliveries begin and end, and what becomes of drift. One controller serves all of these, side by side.
func TestE2EDeliveryLife(t *testing.T) {
	d := newDeliveries(t)
	p := d.controller("delivery-life")
	defer func() { stopped(t, p) }()
	t.Run("all", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *deliveryWorld){
			"deletes with it what it has delivered":       deletesWhatItHasDelivered,
			"goes although its objects cannot be deleted": goesAlthoughItsObjectsStay,
			"leaves its objects to one of another name":   leavesItsObjectsToASuccessor,
			"does not prune most of what it has":          doesNotPruneMost,
			"shows drift before it is put right":          showsDrift,
			"does what kapp's rules of its source say":    doesKappsRules,
			"notices that its inventory is lost":          noticesALostInventory,
			"rewrites objects before their version goes":  migratesBeforeAVersionGoes,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, d.another(t))
			})
		}
	})
}

func (d *deliveryWorld) delete(name string) {
	d.t.Helper()
	if err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Delete(d.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *deliveryWorld) goes(name string) {
	d.t.Helper()
	until(d.t, name+" to be gone", func() error {
		if _, err := d.read(d.t.Context(), name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

func deletesWhatItHasDelivered(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.DeletionPolicy = v1alpha1.DeletionDelete })
	d.applies("x", d.push(configMap("a")+configMap("b")))
	const warning = "applies this app and will create again what is deleted"
	if _, errs := d.run(ExitOK, "delete", "x", "--dry-run"); !strings.Contains(errs, warning) {
		t.Errorf("sluice delete does not warn of the Delivery: %s", errs)
	}
	// What is suspended is deleted as well.
	d.patch("x", `{"spec":{"suspend":true}}`)
	if _, errs := d.run(ExitOK, "delete", "x", "--dry-run"); strings.Contains(errs, warning) {
		t.Errorf("sluice delete warns of a suspended Delivery: %s", errs)
	}
	d.delete("x")
	d.goes("x")
	if d.exists(d.namespace+"/a") || d.exists(d.namespace+"/b") || d.exists(d.namespace+"/sluice-app-x") {
		t.Error("something is left")
	}
	// The policy that stands there in the end counts.
	d.create("y", func(s *v1alpha1.DeliverySpec) { s.DeletionPolicy = v1alpha1.DeletionDelete })
	d.applies("y", d.push(configMap("a")))
	d.patch("y", `{"spec":{"deletionPolicy":"Orphan"}}`)
	d.delete("y")
	d.goes("y")
	if !d.exists(d.namespace + "/a") {
		t.Error("with Orphan the object is gone")
	}
}

func goesAlthoughItsObjectsStay(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	d.create("x", func(s *v1alpha1.DeliverySpec) {
		s.DeletionPolicy, s.Timeout = v1alpha1.DeletionDelete, &metav1.Duration{Duration: 20 * time.Second} // on a busy machine the first try must be within it
	})
	d.applies("x", d.push(configMap("held")))
	unpin := d.pin("held")
	defer unpin()
	// One whose ServiceAccount may do nothing any more.
	d.create("refused", func(s *v1alpha1.DeliverySpec) {
		s.DeletionPolicy, s.Timeout, s.ServiceAccountName = v1alpha1.DeletionDelete, &metav1.Duration{Duration: 2 * time.Second}, "nobody"
	})
	d.reaches("refused", v1alpha1.ReasonForbidden, nil)
	for _, name := range []string{"x", "refused"} {
		d.delete(name)
	}
	d.goes("x")
	d.goes("refused")
	for _, name := range []string{"x", "refused"} {
		until(t, "the event", func() error {
			if d.events(name, v1alpha1.ReasonDeletionIncomplete) == 0 {
				return errors.New("nobody was told that something stays of " + name)
			}
			return nil
		})
	}
	if _, state := d.inventory("x"); state != "deleting" {
		t.Errorf("the state of the app is %q", state)
	}
}

func leavesItsObjectsToASuccessor(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	revision := d.push(configMap("a"))
	d.create("old", nil)
	d.applies("old", revision)
	d.delete("old")
	d.goes("old")
	d.create("new", nil)
	d.reaches("new", v1alpha1.ReasonOtherApp, func(o *v1alpha1.Delivery) error {
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "spec.takeOver") {
			return fmt.Errorf("the message does not say what to do: %s", c.Message)
		}
		return nil
	})
	d.patch("new", `{"spec":{"takeOver":[{"name":"old"}]}}`)
	d.applies("new", revision)
	if got := d.marked("new", ""); len(got) != 1 {
		t.Errorf("%v are the new one's", got)
	}
	// The command names apps in the same way.
	f := d.file("a.yaml", configMap("a"))
	d.patch("new", `{"spec":{"suspend":true}}`)
	_, errs := d.run(ExitFindings, "apply", "--app", "command", "-f", f, "--take-over", "old")
	if !strings.Contains(errs, "other apps") {
		t.Errorf("%s", errs)
	}
	d.run(ExitOK, "apply", "--app", "command", "-f", f, "--take-over", "old,new")
	d.run(ExitFailed, "apply", "--app", "command", "-f", f, "--take-over", "UPPER")
}

func doesNotPruneMost(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	all := configMap("stays")
	for i := range 12 {
		all += configMap(fmt.Sprintf("c%d", i))
	}
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.Prune = true })
	d.applies("x", d.push(all))
	revision := d.push(configMap("stays"))
	o := d.reaches("x", v1alpha1.ReasonTooManyDeletions, nil)
	for _, want := range []string{"12 of the 13 objects", "spec.maxDeletes to 12"} {
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionStalled); c == nil || !strings.Contains(c.Message, want) {
			t.Errorf("%+v does not say %q", c, want)
		}
	}
	for _, limit := range []string{`11`, `"50%"`} {
		d.patch("x", `{"spec":{"maxDeletes":`+limit+`}}`)
		d.reaches("x", v1alpha1.ReasonTooManyDeletions, nil)
	}
	if !d.exists(d.namespace + "/c0") {
		t.Fatal("it was pruned")
	}
	d.patch("x", `{"spec":{"maxDeletes":"100%"}}`)
	d.applies("x", revision)
	if d.exists(d.namespace+"/c0") || !d.exists(d.namespace+"/stays") {
		t.Error("it was pruned wrongly")
	}
	for _, wrong := range []intstr.IntOrString{intstr.FromInt32(-1), intstr.FromString("half"), intstr.FromString("101%")} {
		text, err := wrong.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"spec":{"maxDeletes":` + string(text) + `}}`)
		if _, err := d.dynamic.Resource(deliveriesGVR).Namespace(d.namespace).Patch(t.Context(), "x", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s was taken: %v", text, err)
		}
	}
}

func showsDrift(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	revision := d.push("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n")
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.DriftPolicy = v1alpha1.DriftWarn })
	if o := d.applies("x", revision); o.Status.Drift != nil {
		t.Errorf("drift %+v", o.Status.Drift)
	}
	d.change("a", "somebody", `{"data":{"k":"other"}}`)
	drifted := func(o *v1alpha1.Delivery) error {
		c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDrifted)
		if c == nil || !strings.Contains(c.Message, "ConfigMap "+d.namespace+"/a") || o.Status.Drift == nil || o.Status.Drift.CorrectedTime != nil {
			return fmt.Errorf("conditions %+v, drift %+v", o.Status.Conditions, o.Status.Drift)
		}
		return nil
	}
	d.reaches("x", v1alpha1.ReasonDelivered, drifted)
	d.round("x")
	d.reaches("x", v1alpha1.ReasonDelivered, drifted)
	d.holds("a", "k", "other")
	d.patch("x", `{"spec":{"driftPolicy":"Correct"}}`)
	corrected := func(o *v1alpha1.Delivery) error {
		if meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDrifted) != nil || o.Status.Drift == nil || o.Status.Drift.CorrectedTime == nil {
			return fmt.Errorf("conditions %+v, drift %+v", o.Status.Conditions, o.Status.Drift)
		}
		return nil
	}
	d.reaches("x", v1alpha1.ReasonDelivered, corrected)
	d.holds("a", "k", "v")
	// What is put right was shown before: the status keeps when, and what.
	before, err := d.read(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.kube.CoreV1().ConfigMaps(d.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.reaches("x", v1alpha1.ReasonDelivered, func(o *v1alpha1.Delivery) error {
		if o.Status.Drift.SeenTime.Equal(before.Status.Drift.SeenTime) {
			return errors.New("the second drift is not shown")
		}
		return corrected(o)
	})
	d.holds("a", "k", "v")
}

func noticesALostInventory(t *testing.T, d *deliveryWorld) {
	d.grant("all", rule("", "configmaps"))
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.Prune = true })
	d.applies("x", d.push(configMap("a")+configMap("b")))
	d.patch("x", `{"spec":{"suspend":true}}`)
	d.loseInventory("x")
	revision := d.push(configMap("a"))
	d.patch("x", `{"spec":{"suspend":false}}`)
	o := d.applies("x", revision)
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionApplied)
	if !strings.Contains(c.Message, "sluice adopt x -n "+d.namespace) {
		t.Errorf("the loss is not told: %s", c.Message)
	}
	until(t, "the event", func() error {
		if d.events("x", v1alpha1.ReasonInventoryLost) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	d.run(ExitOK, "adopt", "x")
	until(t, "b to be pruned", func() error {
		if d.exists(d.namespace + "/b") {
			return errors.New("it is there")
		}
		return nil
	})
}

// doesKappsRules: a configuration of kapp's in the source counts for waits, order and fields that others set, and what is not done of it is
// said. Objects that the server could not try are named.
func doesKappsRules(t *testing.T, d *deliveryWorld) {
	group := d.namespace + ".example.com"
	d.grant("all", rule("", "configmaps", "namespaces"), rule(group, "lamps"), rule("apiextensions.k8s.io", "customresourcedefinitions"))
	rules := kappHead + `waitRules:
- conditionMatchers:
  - {type: Broken, status: "True", failure: true}
  - {type: Lit, status: "True", success: true}
  resourceMatchers:
  - apiVersionKindMatcher: {apiVersion: ` + group + `/v1, kind: Lamp}
rebaseRules:
- path: [data, theirs]
  type: copy
  sources: [existing]
  resourceMatchers: [{apiVersionKindMatcher: {apiVersion: v1, kind: ConfigMap}}]
templateRules: []
`
	settings := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {theirs: a}\n"
	// What is after the lamp by a rule is not written while the lamp is not lit, and a ConfigMap with versions is referred to by its last one.
	late := func(value string) string {
		return `---
apiVersion: v1
kind: ConfigMap
metadata: {name: late, annotations: {kapp.k14s.io/change-rule: upsert after upserting lamps}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: counted, annotations: {kapp.k14s.io/versioned: "", kapp.k14s.io/num-versions: "2"}}
data: {k: ` + value + `}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: refers
  annotations:
    kapp.k14s.io/versioned-explicit-ref: '{"apiVersion": "v1", "kind": "ConfigMap", "name": "counted"}'
`
	}
	versions := func(want ...string) {
		t.Helper()
		until(t, "the versions to be as they should", func() error {
			refers, err := d.kube.CoreV1().ConfigMaps(d.namespace).Get(t.Context(), "refers", metav1.GetOptions{})
			if err != nil {
				return err
			}
			got := slices.DeleteFunc(d.configMaps(d.namespace), func(n string) bool { return !strings.HasPrefix(n, "counted") })
			if ref := refers.Annotations["kapp.k14s.io/versioned-explicit-ref"]; !slices.Equal(got, want) || !strings.Contains(ref, want[len(want)-1]) {
				return fmt.Errorf("%v, %s", got, ref)
			}
			return nil
		})
	}
	revision := d.push(rules + lampCRD(group) + lamp(group, "l", "kapp.k14s.io/change-group: lamps", "Broken=True") + settings)
	d.create("x", func(s *v1alpha1.DeliverySpec) {
		s.Timeout, s.Prune = &metav1.Duration{Duration: 20 * time.Second}, true
	})
	o := d.reaches("x", v1alpha1.ReasonNotReady, nil)
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "Lamp") {
		t.Errorf("the lamp that a wait rule calls failed is not named: %+v", c)
	}
	until(t, "an event to tell what was not tried", func() error {
		events, err := d.kube.CoreV1().Events(d.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		told := ""
		for _, e := range events.Items {
			if e.Reason == v1alpha1.ReasonApplied {
				told += e.Message
			}
		}
		if !strings.Contains(told, "could not be tried before the first write: Lamp."+group) {
			return errors.New(told)
		}
		return nil
	})
	if o.Status.Applied == nil || o.Status.Applied.Revision != revision {
		t.Errorf("applied %+v", o.Status.Applied)
	}
	// The field that a rebase rule copies keeps what somebody has set.
	d.change("settings", "somebody", `{"data":{"theirs":"b"}}`)
	// An order that waits is given back and goes on: the lamp is not lit, so what is after it is not written.
	d.push(rules + lampCRD(group) + lamp(group, "l", "kapp.k14s.io/change-group: lamps", "Dim=True") + settings + late("one"))
	d.reaches("x", v1alpha1.ReasonApplying, says("Lamp."+group+" "+d.namespace+"/l"))
	if d.exists(d.namespace + "/late") {
		t.Error("what is after the lamp is written, and the lamp is not lit")
	}
	d.holds("counted-ver-1", "k", "one")
	revision = d.push(rules + lampCRD(group) + lamp(group, "l", "kapp.k14s.io/change-group: lamps", "Lit=True") + settings + late("one"))
	d.applies("x", revision)
	d.holds("settings", "theirs", "b")
	if !d.exists(d.namespace + "/late") {
		t.Error("what is after the lamp is not written, and the lamp is lit")
	}
	versions("counted-ver-1")
	for i, value := range []string{"two", "three"} {
		revision = d.push(rules + lampCRD(group) + lamp(group, "l", "kapp.k14s.io/change-group: lamps", "Lit=True") + settings + late(value))
		d.applies("x", revision)
		versions(fmt.Sprintf("counted-ver-%d", i+1), fmt.Sprintf("counted-ver-%d", i+2))
	}
	d.holds("counted-ver-3", "k", "three")
}

func migratesBeforeAVersionGoes(t *testing.T, d *deliveryWorld) {
	group := d.namespace + ".example.com"
	d.grant("all", rule("", "configmaps"), rule("apiextensions.k8s.io", "customresourcedefinitions"), rule(group, "gadgets"))
	// That clients lose a version is known; that its objects would is not tolerated.
	config := &runtime.RawExtension{Raw: []byte(`{"levels":{"clients-broken":"warn"}}`)}
	d.create("x", func(s *v1alpha1.DeliverySpec) {
		s.Preflights = []v1alpha1.Preflight{{Name: "CRDUpgradeSafety", Config: config}}
	})
	both := gadgetCRD(group, "v1", "v2")
	d.applies("x", d.push(gadgetCRD(group, "v1")))
	gadgets := d.dynamic.Resource(d.gadgetsOf(group)).Namespace(d.namespace)
	const n = 30
	for i := range n {
		text := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Gadget","metadata":{"name":"g%d"},"spec":{"size":"small"}}`, group, i)
		if _, err := gadgets.Patch(t.Context(), fmt.Sprint("g", i), types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: "user"}); err != nil {
			t.Fatal(err)
		}
	}
	d.applies("x", d.push(both))
	before, versions, _ := strings.Cut(both, "  - name: v1\n")
	_, v2Only, _ := strings.Cut(versions, "  - name: v2\n")
	last := d.push(before + "  - name: v2\n" + v2Only)
	d.reaches("x", v1alpha1.ReasonBlocked, func(o *v1alpha1.Delivery) error {
		if o.Status.Report == nil || !strings.Contains(fmt.Sprint(*o.Status.Report), "sluice migrate gadgets."+group) {
			return fmt.Errorf("%+v", o.Status.Report)
		}
		return nil
	})
	// The account may not yet change the status of CRDs.
	d.patch("x", `{"spec":{"migrate":true}}`)
	d.reaches("x", v1alpha1.ReasonForbidden, func(o *v1alpha1.Delivery) error {
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "needs the verb patch for customresourcedefinitions/status") {
			return errors.New(c.Message)
		}
		return nil
	})
	d.grant("status", rule("apiextensions.k8s.io", "customresourcedefinitions/status"))
	now := d.applies("x", last)
	if c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionMigrated); c == nil || c.Reason != v1alpha1.ReasonMigrated || !strings.Contains(c.Message, "30 objects of gadgets") {
		t.Errorf("%+v", now.Status.Conditions)
	}
	until(t, "an event that tells of the migration", func() error {
		if n := d.events("x", v1alpha1.ReasonMigrated); n != 1 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	text := fmt.Sprintf(`{"apiVersion":"%s/v2","kind":"Gadget","metadata":{"name":"g7"},"spec":{"size":"large"}}`, group)
	v2 := d.gadgetsOf(group)
	v2.Version = "v2"
	if _, err := d.dynamic.Resource(v2).Namespace(d.namespace).Patch(t.Context(), "g7", types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: "user"}); err != nil {
		t.Errorf("an apply is refused: %v", err)
	}
}
