//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
)

// made lists the policies and bindings of a component with their resourceVersions.
func (c *scene) made() map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
		list, err := c.dynamic.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource)).
			List(c.t.Context(), metav1.ListOptions{LabelSelector: policy.ComponentLabel + "=" + c.name})
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			out[resource+"/"+list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
		}
	}
	return out
}

// TestE2EHandsOff is scenario 17 and more: what somebody else deletes, changes or adds to is as it was again, and the settings
// are in force that hold by then.
func TestE2EHandsOff(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "hands", sceneOptions{gates: []string{"TasksTimeout"}})
	c.enforced()
	c.inForce(timeout)
	const name = "features.hands.pipelines.hands.e2e.dev.reject.v1"
	api := c.kube.AdmissionregistrationV1()
	eventually(t, "the binding to be made again", func(ctx context.Context) error {
		b, err := api.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := api.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		var again *admissionregistrationv1.ValidatingAdmissionPolicyBinding
		eventually(t, "the binding", func(ctx context.Context) error {
			again, err = api.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
			return err
		})
		if again.UID == b.UID {
			return errors.New("it was not deleted")
		}
		return nil
	})
	c.set(map[string]string{"tasks-timeout": "true"})
	c.open(timeout)
	c.set(nil)
	c.inForce(timeout)

	before, err := api.ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, patch := range map[string]string{
		"another expression":  `{"spec":{"validations":[{"expression":"true"}]}}`,
		"one more condition":  `{"spec":{"matchConditions":[{"name":"uses-a-part","expression":"true"},{"name":"never","expression":"false"}]}}`,
		"another policy mode": `{"spec":{"failurePolicy":"Ignore"}}`,
		"no label":            `{"metadata":{"labels":null}}`,
	} {
		changed, err := api.ValidatingAdmissionPolicies().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		eventually(t, what+" to be taken back", func(ctx context.Context) error {
			now, err := api.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if now.ResourceVersion == changed.ResourceVersion {
				return errors.New("it is as it was changed")
			}
			if diff := cmp.Diff(before.Spec, now.Spec); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	c.events(v1alpha1.EventRestored)
}

// TestE2ENothingIsWritten: what stands there is not written again, whatever comes; and what is not wanted any more goes, but not
// what others have made.
func TestE2ENothingIsWritten(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "quiet", sceneOptions{whenDisabled: "Drop", gates: []string{"TasksTimeout", "Preview"}})
	c.enforced()
	before := c.made()
	if len(before) < 8 {
		t.Errorf("there are only %v", before)
	}
	// Settings are not part of the policies; a description is not either.
	c.set(map[string]string{"tasks-timeout": "true"})
	c.enabled("tasks-timeout", true)
	features := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features"))
	u, err := features.Patch(t.Context(), "quiet.tasks-timeout", types.MergePatchType, []byte(`{"spec":{"description":"changed"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change to be seen", func(context.Context) error {
		if st, _ := c.featureStatus("tasks-timeout"); st.ObservedGeneration != u.GetGeneration() {
			return fmt.Errorf("%d is seen, not %d", st.ObservedGeneration, u.GetGeneration())
		}
		return nil
	})
	if diff := cmp.Diff(before, c.made()); diff != "" {
		t.Error(diff)
	}

	// Somebody else's, with our label for the component.
	foreign := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "foreign.quiet", Labels: map[string]string{policy.ComponentLabel: "quiet"}},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "nobody", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit},
		},
	}
	if _, err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := features.Delete(t.Context(), "quiet.preview", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy of a feature to go with it", func(context.Context) error {
		for name := range c.made() {
			if strings.Contains(name, "version") {
				return errors.New(name)
			}
		}
		return nil
	})
	if err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Delete(t.Context(), "quiet", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policies to go with the component", func(context.Context) error {
		left := c.made()
		delete(left, "validatingadmissionpolicybindings/foreign.quiet")
		if len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	if _, err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), "foreign.quiet", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, "the feature to say that its component is gone", func(context.Context) error {
		st, _ := c.featureStatus("tasks-timeout")
		return errors.Join(is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonComponentNotFound),
			is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced))
	})
	c.open(timeout)
}

// TestE2EBadDefinitions: a definition with errors is told with all of them, opens nothing that was closed, and hinders no other.
func TestE2EBadDefinitions(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "baddef", sceneOptions{gates: []string{"TasksTimeout", "EnvSecret"}})
	c.enforced()
	c.inForce(timeout)
	change := func(patch string) {
		t.Helper()
		_, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("features")).Patch(t.Context(), "baddef.tasks-timeout", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	part := func(field string) string {
		return `{"spec":{"requires":["EnvSecrets"],"parts":[{"group":"baddef.e2e.dev","resource":"pipelines","versions":["v1"],"field":"` + field + `"},` +
			`{"group":"baddef.e2e.dev","resource":"pipelines","versions":["v2"],"field":"spec.tasksTimeout"}]}}`
	}
	change(part("spec.tasksTimeuot"))
	eventually(t, "the errors", func(context.Context) error {
		st, _ := c.featureStatus("tasks-timeout")
		if err := is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidDefinition); err != nil {
			return err
		}
		m := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionAccepted).Message
		for _, w := range []string{"spec.parts[0].field", "tasksTimeout", "spec.parts[1].versions[0]", `no version "v2"`, "spec.requires[0]", "EnvSecret"} {
			if !strings.Contains(m, w) {
				return fmt.Errorf("%q is not told: %s", w, m)
			}
		}
		return nil
	})
	c.accepted(metav1.ConditionFalse, v1alpha1.ReasonInvalidDefinition, "1 of 2 features have errors: TasksTimeout")
	// It was in force, and is.
	c.inForce(timeout, "spec.tasksTimeout")
	c.inForce("{env: {A: {secret: s}}}")
	st, _ := c.featureStatus("tasks-timeout")
	if err := is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced); err != nil {
		t.Error(err)
	}
	c.set(map[string]string{"env-secret": "true"})
	c.open("{env: {A: {secret: s}}}")
	change(`{"spec":{"requires":null,"parts":[{"group":"baddef.e2e.dev","resource":"pipelines","versions":["v1"],"field":"spec.description"}]}}`)
	c.enforced()
	c.inForce("{description: d}", "spec.description")
	c.open(timeout)

	// The kind goes, and comes back.
	crds := c.dynamic.Resource(crdResource)
	if err := crds.Delete(t.Context(), "pipelines.baddef.e2e.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kind to be missed", func(context.Context) error {
		st, _ := c.featureStatus("tasks-timeout")
		return is(st.Conditions, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonResourceNotFound)
	})
	eventually(t, "the kind to be gone", func(ctx context.Context) error {
		_, err := crds.Get(ctx, "pipelines.baddef.e2e.dev", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	c.apply(fmt.Sprintf(crdText, c.group))
	c.enforced()
	c.inForce("{description: d}")
}

// TestE2EColumns: kubectl get features shows what there is to see.
func TestE2EColumns(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "columns", sceneOptions{gates: []string{"TasksTimeout"}})
	c.enforced()
	want := map[string][]string{"features": {"columns", "TasksTimeout", "Alpha", "false", "false"}, "components": {"v1.5.0", "stable", "1", "0", "True", "True"}}
	for resource, cells := range want {
		name := c.name
		if resource == "features" {
			name += ".tasks-timeout"
		}
		var table metav1.Table
		err := c.kube.RESTClient().Get().AbsPath("/apis/sluice.dev/v1alpha1/"+resource+"/"+name).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(&table)
		if err != nil || len(table.Rows) != 1 {
			t.Fatalf("%v: %v", table, err)
		}
		var got []string
		for _, cell := range table.Rows[0].Cells {
			got = append(got, fmt.Sprint(cell))
		}
		for _, w := range cells {
			if !slices.Contains(got, w) {
				t.Errorf("%s: %q is not shown: %v", resource, w, got)
			}
		}
	}
}
