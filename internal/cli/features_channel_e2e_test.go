//go:build e2e

package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A step to a narrower channel is told of, and refused by a policy, while a stored object uses what it leaves out.
func TestE2EAChannelStepWithUsersIsRefused(t *testing.T) {
	w := newWorld(t)
	group, component := w.gates("")
	user := w.decoded([]byte(widgetNamed(group, "user", "{extra: {x: 1}}")))[0]
	user.SetNamespace(w.namespace)
	k := w.featureKinds()
	if err := k.ApplyObject(t.Context(), user, false); err != nil {
		t.Fatal(err)
	}
	step := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := sluice(t, append([]string{"features", "channel", "--kubeconfig", w.Kubeconfig, "--component", component, "--to", "stable"}, args...)...)
		if code != want {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		return stdout, stderr
	}
	out, errs := step(ExitFindings)
	if !strings.Contains(out, "user") || !strings.Contains(out, "spec.extra") || !strings.Contains(errs, "1 object would lose data in the channel stable") {
		t.Errorf("%s%s", out, errs)
	}
	guard, _ := step(ExitOK, "--guard")
	for _, u := range w.decoded([]byte(guard)) {
		if err := k.ApplyObject(t.Context(), u, false); err != nil {
			t.Fatal(err)
		}
		resource := strings.Replace(strings.ToLower(u.GetKind())+"s", "policys", "policies", 1)
		t.Cleanup(func() {
			gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
			if err := w.dynamic.Resource(gvr).Delete(context.WithoutCancel(t.Context()), u.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	crds := w.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	annotate := func(name, value string) error {
		_, err := crds.Patch(t.Context(), "widgets."+group, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+name+`":"`+value+`"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	patch := func(channel string) error { return annotate("sluice.dev/channel", channel) }
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = patch("stable")
		return last != nil, nil
	}); err != nil || !strings.Contains(last.Error(), "sluice features channel --to stable names them") {
		t.Fatalf("the step is not refused: %v", last)
	}
	for channel, refused := range map[string]bool{"stable,Extra=false": true, "beta": false, "alpha": false} {
		if err := patch(channel); (err != nil) != refused {
			t.Errorf("%s: %v", channel, err)
		}
	}
	// Gateway API and OpenShift have annotations of their own.
	for _, tt := range []struct {
		name, value string
		refused     bool
	}{
		{"gateway.networking.k8s.io/channel", "standard", true},
		{"gateway.networking.k8s.io/channel", "experimental", false},
		{"release.openshift.io/feature-set", "Default", true},
		{"release.openshift.io/feature-set", "OKD,Default", true},
		{"release.openshift.io/feature-set", "CustomNoUpgrade,TechPreviewNoUpgrade", false},
	} {
		if err := annotate(tt.name, tt.value); (err != nil) != tt.refused {
			t.Errorf("%s=%s: %v", tt.name, tt.value, err)
		}
	}
	if err := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(w.namespace).Delete(t.Context(), "user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, errs := step(ExitOK); !strings.Contains(errs, "no stored object uses what the channel stable leaves out") {
		t.Error(errs)
	}
}
