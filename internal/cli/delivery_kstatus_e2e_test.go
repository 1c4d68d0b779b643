//go:build e2e

package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
)

// kstatus is what tools that wait make of a delivery.
func (d *deliveryWorld) kstatus(name string) (status.Status, string) {
	d.t.Helper()
	u, err := d.dynamic.Resource(schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "deliveries"}).Namespace(d.namespace).Get(d.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	r, err := status.Compute(u)
	if err != nil {
		d.t.Fatal(err)
	}
	return r.Status, r.Message
}

func (d *deliveryWorld) becomes(name string, want status.Status) {
	d.t.Helper()
	until(d.t, name+" to be "+string(want), func() error {
		if s, message := d.kstatus(name); s != want {
			return fmt.Errorf("is %s: %s", s, message)
		}
		return nil
	})
}

// wait has kubectl wait for a condition.
func (d *deliveryWorld) wait(name, condition string) {
	d.t.Helper()
	if out, errs, err := d.Kubectl(d.t, "", "-n", d.namespace, "wait", "--for=condition="+condition, "--timeout=100s", "delivery/"+name); err != nil {
		d.t.Errorf("kubectl wait for %s of %s: %s%s", condition, name, out, errs)
	}
}

// Tools that wait, kstatus and kubectl among them, take a delivery for what it is: in progress from the first moment, failed while it
// needs somebody, and current when it is delivered.
func TestE2EDeliveryTellsToolsThatWaitHowItIs(t *testing.T) {
	d := newDeliveries(t)
	group := d.namespace + ".example.com"
	d.impersonate()
	d.grant("all", rule("", "configmaps", "endpoints"), rule("apiextensions.k8s.io", "customresourcedefinitions"), rule(group, "widgets"))
	d.push(widget(group, "small, large", endpoints("e")))
	d.create("shop", nil)
	if s, message := d.kstatus("shop"); s != status.InProgressStatus {
		t.Errorf("a new one is %s: %s", s, message)
	}
	o, err := d.read(t.Context(), "shop")
	if err != nil || len(o.Status.Conditions) != 1 || o.Status.Conditions[0].Reason != v1alpha1.ReasonPending || o.Status.ObservedGeneration != -1 {
		t.Errorf("%+v, %v", o.Status, err)
	}
	p := d.controller("delivery-a")
	defer stopped(t, p)
	d.wait("shop", "Ready")
	d.becomes("shop", status.CurrentStatus)

	// What the server warned of stands in the report.
	const deprecated = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
	want := []v1alpha1.DeliveryWarning{{Message: deprecated, Objects: 1, Examples: []string{"Endpoints " + d.namespace + "/e"}}}
	if o, err = d.read(t.Context(), "shop"); err != nil || o.Status.Report == nil {
		t.Fatalf("report %+v, %v", o.Status.Report, err)
	}
	if diff := cmp.Diff(want, o.Status.Report.Warnings); diff != "" {
		t.Error(diff)
	}
	o = d.round("shop") // nothing is written, and the report stays
	if o.Status.Report == nil || cmp.Diff(want, o.Status.Report.Warnings) != "" {
		t.Errorf("after another round: %+v", o.Status.Report)
	}

	for _, c := range []struct{ reason, source, message string }{
		{v1alpha1.ReasonBlocked, strings.ReplaceAll(widget(group, "large"), "size: small", "size: large"), "enum-value-removed"},
		{v1alpha1.ReasonInvalidSource, "kind: {", ""},
		{v1alpha1.ReasonForbidden, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: mine}\n", "deployer"},
	} {
		d.push(c.source)
		d.reaches("shop", c.reason, nil)
		d.wait("shop", "Stalled")
		s, message := d.kstatus("shop")
		if s != status.FailedStatus || !strings.Contains(message, c.message) {
			t.Errorf("%s: %s: %s", c.reason, s, message)
		}
	}
	d.push(widget(group, "small, large"))
	d.wait("shop", "Ready")
	d.becomes("shop", status.CurrentStatus)
	if o, err = d.read(t.Context(), "shop"); err != nil || o.Status.Report != nil {
		t.Errorf("the warnings of another revision stay: %+v, %v", o.Status.Report, err)
	}
}
