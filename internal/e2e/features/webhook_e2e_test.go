//go:build e2e

package features

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/tools/clustertest"
)

// hookFeatures gate parts of Deployments by patterns that cost more than policies may.
const hookFeatures = `
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.paused}
spec: {component: %[1]s, gate: Paused, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: deployments, field: spec.template.spec.nodeName, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.ready-seconds}
spec: {component: %[1]s, gate: ReadySeconds, whenDisabled: Warn, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: deployments, field: spec.template.spec.serviceAccountName, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.pod-hostname}
spec: {component: %[1]s, gate: PodHostname, whenDisabled: Drop, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: apps, resource: deployments, field: spec.template.spec.hostname, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.pod-subdomain}
spec: {component: %[1]s, gate: PodSubdomain, stages: [{stage: Alpha, release: v1.0.0}, {stage: Stable, release: v1.2.0}, {stage: Deprecated, release: v1.4.0, default: true}], parts: [{group: apps, resource: deployments, field: spec.template.spec.subdomain, pattern: '^[a-z]+(-[a-z]+)*(-[a-z]+)*$'}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.old-script}
spec: {component: %[1]s, gate: OldScript, stages: [{stage: Alpha, release: v1.0.0}, {stage: Stable, release: v1.2.0}, {stage: Deprecated, release: v1.4.0, default: true}], parts: [{group: %[1]s.e2e.dev, resource: pipelines, field: spec.script}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.old-scaling}
spec: {component: %[1]s, gate: OldScaling, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: autoscaling, resource: horizontalpodautoscalers, versions: [v1], wholeVersion: true}, {group: networking.k8s.io, resource: ingressclasses, versions: [v1], wholeVersion: true}]}
---
apiVersion: sluice.dev/v1alpha1
kind: Feature
metadata: {name: %[1]s.own-kind}
spec: {component: %[1]s, gate: OwnKind, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: sluice.dev, resource: components, field: spec.optIn}]}
`

func deployment(name string, change func(*appsv1.Deployment)) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}}},
	}}
	if change != nil {
		change(d)
	}
	return d
}

func paused(d *appsv1.Deployment)    { d.Spec.Template.Spec.NodeName = "fast" }
func waits(d *appsv1.Deployment)     { d.Spec.Template.Spec.ServiceAccountName = "waits" }
func subdomain(d *appsv1.Deployment) { d.Spec.Template.Spec.Subdomain = "s" }
func hostname(d *appsv1.Deployment)  { d.Spec.Template.Spec.Hostname = "h" }

// TestE2EWebhook: what policies cannot say is enforced by the webhook, as policies enforce the rest; settings are judged by it
// in baked mode; without it only that rest waits.
func TestE2EWebhook(t *testing.T) {
	t.Parallel()
	s := installed(t)
	c := newScene(t, s, "hook", sceneOptions{mode: "Baked", component: ", tellUse: [Deprecated], optIn: {namespaceLabel: true, rbac: true}", gates: []string{"TasksTimeout"}})
	c.enforced()
	c.be("dev")
	c.apply(fmt.Sprintf(hookFeatures, "hook"))
	const dry = metav1.DryRunAll
	deployments := kubernetes.NewForConfigOrDie(c.quiet).AppsV1().Deployments("hook")
	try := func(change func(*appsv1.Deployment)) (*appsv1.Deployment, error) {
		return deployments.Create(t.Context(), deployment("try", change), metav1.CreateOptions{DryRun: []string{dry}})
	}
	eventually(t, "the missing webhook to be told", func(context.Context) error {
		st, _ := c.featureStatus("paused")
		if err := is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced); err != nil {
			return err
		}
		m := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionEnforced).Message
		if !strings.Contains(m, "install the role feature-webhook") || !strings.Contains(m, "the pattern could cost") {
			return errors.New(m)
		}
		return nil
	})
	eventually(t, "that nobody tells of uses to be told", func(context.Context) error {
		st, _ := c.featureStatus("pod-subdomain")
		if err := is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonOpenForAll); err != nil {
			return err
		}
		if m := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionEnforced).Message; !strings.Contains(m, "warnings about uses (tellUse) do not work: ") {
			return errors.New(m)
		}
		return nil
	})
	c.told(v1alpha1.ConditionSkew, metav1.ConditionTrue, v1alpha1.ReasonEnforcementDiffers, "Paused: the settings say off", "enforced as on by ValidatingWebhookConfiguration sluice-features, which is not in force")
	if _, err := try(paused); err != nil {
		t.Errorf("nobody enforces it yet: %v", err)
	}
	p, err := s.start(context.WithoutCancel(t.Context()), "feature-webhook")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the webhook to be told of", func(context.Context) error {
		st, _ := c.featureStatus("paused")
		return is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByWebhook)
	})
	eventually(t, "a feature of Sluice's own kinds to be enforced by policy alone", func(context.Context) error {
		st, _ := c.featureStatus("own-kind")
		return is(st.Conditions, v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonEnforcedByPolicy)
	})
	closed := func(words ...string) {
		t.Helper()
		eventually(t, "a refusal", func(context.Context) error {
			_, err := try(paused)
			return refused(err, append(words, "spec.template.spec.nodeName: a value that matches", "is alpha; needs feature \"Paused\" of component \"hook\"")...)
		})
	}
	closed("set paused: \"true\", or enable-api-fields: alpha without paused, in ConfigMap hook/flags; or label the namespace feature.sluice.dev/hook.Paused: enabled; or get the verb use on hook.paused of features.sluice.dev")
	c.inForce(timeout, "; or label the namespace feature.sluice.dev/hook.TasksTimeout: enabled; or get the verb use on hook.tasks-timeout of features.sluice.dev")
	eventually(t, "a warning", func(context.Context) error {
		c.warnings.Take()
		if _, err := try(waits); err != nil {
			return err
		}
		if w := c.warnings.Take(); strings.Count(w, "spec.template.spec.serviceAccountName") != 1 {
			return fmt.Errorf("the warnings are %q", w)
		}
		return c.audited("deployments", "try", "hook.warn.feature.sluice.dev/features", "ReadySeconds")
	})
	eventually(t, "a field to be dropped", func(context.Context) error {
		c.warnings.Take()
		d, err := try(hostname)
		if err != nil {
			return err
		}
		if w := c.warnings.Take(); d.Spec.Template.Spec.Hostname != "" || !strings.Contains(w, "dropped spec.template.spec.hostname") {
			return fmt.Errorf("it is %q; the warnings are %q", d.Spec.Template.Spec.Hostname, w)
		}
		return c.audited("deployments", "try", "hook.drop.feature.sluice.dev/features", "PodHostname")
	})
	eventually(t, "a use of what will go to be told", func(context.Context) error {
		c.warnings.Take()
		if _, err := try(subdomain); err != nil {
			return err
		}
		const text = ` is deprecated, as feature "PodSubdomain" of component "hook" is; it will go`
		if w := c.warnings.Take(); strings.Count(w, text) != 1 {
			return fmt.Errorf("the warnings are %q", w)
		}
		return c.audited("deployments", "try", "hook.warn.feature.sluice.dev/told", "PodSubdomain")
	})
	eventually(t, "a use of what will go to be told once, by the policy", func(context.Context) error {
		c.warnings.Take()
		if _, err := c.try("{script: s}"); err != nil {
			return err
		}
		const text = `spec.script: deprecated, as feature "OldScript" of component "hook" is; it will go`
		if w := c.warnings.Take(); strings.Count(w, text) != 1 || strings.Count(w, "OldScript") != 1 {
			return fmt.Errorf("the warnings are %q", w)
		}
		return nil
	})
	c.claimsAreRefused()
	if _, err := try(nil); err != nil {
		t.Errorf("an object that uses nothing: %v", err)
	}
	if _, err := kubernetes.NewForConfigOrDie(c.quiet).AppsV1().Deployments(systemNamespace).Create(t.Context(), deployment("try", paused), metav1.CreateOptions{DryRun: []string{dry}}); err != nil {
		t.Errorf("Sluice's own namespace: %v", err)
	}

	// Somebody takes the webhook out of the way.
	hooks := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	eventually(t, "what was added to a webhook to be taken back", func(ctx context.Context) error {
		cfg, err := hooks.Get(ctx, "sluice-features", metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The configuration has webhooks of other components too.
		i := slices.IndexFunc(cfg.Webhooks, func(h admissionregistrationv1.ValidatingWebhook) bool { return strings.HasPrefix(h.Name, "hook.") })
		if i < 0 {
			return errors.New("there is no webhook of the component")
		}
		name := cfg.Webhooks[i].Name
		cfg.Webhooks[i].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "never", Expression: "false"}}
		changed, err := hooks.Update(ctx, cfg, metav1.UpdateOptions{FieldManager: "somebody"})
		if err != nil {
			return err
		}
		eventually(t, "the condition to go", func(ctx context.Context) error {
			now, err := hooks.Get(ctx, "sluice-features", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if now.ResourceVersion == changed.ResourceVersion || slices.ContainsFunc(now.Webhooks, func(h admissionregistrationv1.ValidatingWebhook) bool {
				return h.Name == name && slices.ContainsFunc(h.MatchConditions, func(m admissionregistrationv1.MatchCondition) bool { return m.Name == "never" })
			}) {
				return fmt.Errorf("%s has it", name)
			}
			return nil
		})
		return nil
	})
	closed()

	// Stored objects go on.
	c.set(map[string]string{"paused": "true"})
	eventually(t, "the feature to be open", func(context.Context) error { _, err := try(paused); return err })
	if _, err := deployments.Create(t.Context(), deployment("used", paused), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.set(nil)
	closed()
	for what, patch := range map[string][]string{
		"label": {`{"metadata":{"labels":{"a":"b"}}}`}, "status": {`{"status":{"replicas":1}}`, "status"}, "scale": {`{"spec":{"replicas":2}}`, "scale"},
	} {
		if _, err := deployments.Patch(t.Context(), "used", "application/merge-patch+json", []byte(patch[0]), metav1.PatchOptions{}, patch[1:]...); err != nil {
			t.Errorf("%s of a stored object: %v", what, err)
		}
	}

	// Bad settings are refused by a policy, whether the webhook runs or not, and would change nothing.
	eventually(t, "bad settings to be refused", func(context.Context) error {
		return refused(c.trySet(map[string]string{"pausd": "true", "enable-api-fields": "alpa"}), "there is no key pausd", "paused")
	})
	closed()

	// A namespace opts in, and a user.
	nsPatch := func(value string, names ...string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"feature.sluice.dev/%s":%s,"feature.sluice.dev/%s":%s}}}`, names[0], value, names[1], value)
		c.warnings.Take()
		if _, err := kubernetes.NewForConfigOrDie(c.admin).CoreV1().Namespaces().Patch(t.Context(), "hook", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, names := range [][]string{{"hook.Paused", "hook.TasksTimeout"}, {"hook.paused", "hook.tasks-timeout"}} {
		nsPatch(`"enabled"`, names...)
		eventually(t, "the namespace to have opted in by "+names[0], func(context.Context) error { _, err := try(paused); return err })
		c.open(timeout)
		nsPatch("null", names...)
		closed()
		c.inForce(timeout)
	}
	c.optInByRole()

	// The webhook goes: what it enforces waits, policies hold, and what neither is asked about passes.
	stop(t, p)
	eventually(t, "what takes the webhook to wait for it", func(context.Context) error {
		_, err := try(paused)
		if !apierrors.IsInternalError(err) {
			return fmt.Errorf("no failure: %w", err)
		}
		return nil
	})
	c.inForce(timeout)
	c.open("{description: d}")
	if _, err := try(nil); err != nil {
		t.Errorf("an object that has none of the fields waits for the webhook: %v", err)
	}
	if _, err := c.kube.AppsV1().Deployments("hook").Patch(t.Context(), "used", "application/merge-patch+json", []byte(`{"status":{"replicas":2}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("a status: %v", err)
	}
	p, err = s.start(context.WithoutCancel(t.Context()), "feature-webhook")
	if err != nil {
		t.Fatal(err)
	}
	closed()
	// Others have Deployments too.
	if err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Delete(t.Context(), "hook", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the webhooks to go with the component", func(ctx context.Context) error {
		list, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "sluice-features", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // no other component has any
		}
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list.Webhooks, func(h admissionregistrationv1.ValidatingWebhook) bool { return strings.HasPrefix(h.Name, "hook.") }); i >= 0 {
			return fmt.Errorf("there is %s", list.Webhooks[i].Name)
		}
		return nil
	})
	stop(t, p)
}

// claimsAreRefused has objects of which a version is closed by the webhook, and managed fields that say they were written in it: in
// writes of the other version and of the status, where the webhook is asked about nothing else.
func (c *scene) claimsAreRefused() {
	t, ctx := c.t, c.t.Context()
	t.Helper()
	of := func(version string) dynamic.ResourceInterface {
		return dynamic.NewForConfigOrDie(c.quiet).Resource(schema.GroupVersionResource{Group: "autoscaling", Version: version, Resource: "horizontalpodautoscalers"}).Namespace(c.name)
	}
	scaler := func(version, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/" + version, "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"maxReplicas": int64(3), "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
		}}
	}
	dry := []string{metav1.DryRunAll}
	const closed = `autoscaling/v1 is alpha; needs feature "OldScaling" of component "hook"`
	eventually(t, "the version to be closed", func(ctx context.Context) error {
		_, err := of("v1").Create(ctx, scaler("v1", "try"), metav1.CreateOptions{DryRun: dry})
		return refused(err, "apiVersion: "+closed)
	})
	made, err := of("v2").Create(ctx, scaler("v2", "made"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forge := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		u = u.DeepCopy()
		u.SetManagedFields(append(u.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: "forger", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "autoscaling/v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:maxReplicas":{}}}`), Time: new(metav1.Now()),
		}))
		return u
	}
	eventually(t, "a claim to be refused", func(ctx context.Context) error {
		_, err := of("v2").Update(ctx, forge(made), metav1.UpdateOptions{DryRun: dry})
		return refused(err, "metadata.managedFields: "+closed)
	})
	if _, err := of("v2").Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a write of the other version that claims nothing: %v", err)
	}
	// Of the status: refused, or of no use.
	if _, err := of("v2").UpdateStatus(ctx, forge(made), metav1.UpdateOptions{}); err != nil {
		if err := refused(err, "metadata.managedFields: "+closed); err != nil {
			t.Error(err)
		}
	}
	if _, err := of("v2").Patch(ctx, "made", types.MergePatchType, []byte(`{"status":{"currentReplicas":1,"desiredReplicas":1}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("a status that claims nothing: %v", err)
	}
	_, err = of("v1").Patch(ctx, "made", types.MergePatchType, []byte(`{"spec":{"maxReplicas":4}}`), metav1.PatchOptions{})
	if err := refused(err, "apiVersion: "+closed); err != nil {
		t.Errorf("the version is still closed for the object: %v", err)
	}
}

// be has the scene's requests made by a user who may write what it has, and use no feature that is off: an administrator may use
// them all.
func (c *scene) be(user string) {
	c.t.Helper()
	c.role(user, "write", rbacv1.PolicyRule{APIGroups: []string{"apps", "autoscaling", c.group}, Resources: []string{"*"}, Verbs: []string{"*"}})
	c.quiet = rest.CopyConfig(c.quiet)
	c.quiet.Impersonate = rest.ImpersonationConfig{UserName: user}
	c.things = c.of("v1", c.quiet)
}

// role gives a user rights.
func (c *scene) role(user, name string, rules ...rbacv1.PolicyRule) {
	c.t.Helper()
	name = c.name + "-" + user + "-" + name
	_, err := c.kube.RbacV1().ClusterRoles().Create(c.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = c.kube.RbacV1().ClusterRoleBindings().Create(c.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	clustertest.AwaitRights(c.t, c.kube, "default")
}

// optInByRole lets another user use two features.
func (c *scene) optInByRole() {
	c.t.Helper()
	c.role("early", "use",
		rbacv1.PolicyRule{APIGroups: []string{"sluice.dev"}, Resources: []string{"features"}, ResourceNames: []string{c.name + ".paused", c.name + ".tasks-timeout"}, Verbs: []string{"use"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps", c.group}, Resources: []string{"deployments", "pipelines"}, Verbs: []string{"create"}})
	early := rest.CopyConfig(c.quiet)
	early.Impersonate = rest.ImpersonationConfig{UserName: "early"}
	eventually(c.t, "the user to have opted in", func(ctx context.Context) error {
		_, err := kubernetes.NewForConfigOrDie(early).AppsV1().Deployments(c.name).Create(ctx, deployment("early", paused), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		_, err = c.of("v1", early).Create(ctx, c.pipeline("early", timeout), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}
