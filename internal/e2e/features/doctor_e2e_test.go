//go:build e2e

package features

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/config"
	"sluice.dev/internal/installation"
	"sluice.dev/tools/clustertest"
)

// doctor runs the command and returns what it says by subject and the state, and the exit code.
func doctor(t *testing.T, c *rest.Config) (checks []installation.Check, code int) {
	t.Helper()
	code, out, errs := run(t, c, "doctor", "-o", "json")
	var d struct{ Checks []installation.Check }
	if err := json.Unmarshal([]byte(out), &d); err != nil || code == 2 {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	return d.Checks, code
}

// TestE2EDoctor breaks an installation in one way after the other. Each is found, with what to do, and nothing else is.
func TestE2EDoctor(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := clustertest.Start(t)
	admin := cluster.Config()
	if checks, code := doctor(t, admin); code != 1 || !told(checks, installation.Fail, "programs", "there is no Deployment of Sluice") || !mended(checks, "sluice manifests --image=IMAGE | kubectl apply --server-side -f -") {
		t.Errorf("an empty cluster: exit code %d, %+v", code, checks)
	}
	s, err := install(ctx, cluster)
	if err != nil {
		t.Fatal(err)
	}
	s.applyAll(t, config.Options{Image: "example.test/sluice:v1", Roles: []string{"all"}})
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	ca := authority(t, time.Now().Add(24*365*time.Hour))
	hooked := []string{"crd-guard", "resolution", "feature-webhook"}
	for _, role := range hooked {
		ready := true
		_, err := kube.DiscoveryV1().EndpointSlices("sluice-system").Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "sluice-" + role + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: "sluice-" + role}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	patch := func(what, name, text string, sub ...string) {
		t.Helper()
		var err error
		switch what {
		case "deployment":
			_, err = kube.AppsV1().Deployments("sluice-system").Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, sub...)
		case "arguments":
			_, err = kube.AppsV1().Deployments("sluice-system").Patch(ctx, name, types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		case "service":
			_, err = kube.CoreV1().Services("sluice-system").Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "lease":
			_, err = kube.CoordinationV1().Leases("sluice-system").Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "validatingwebhook":
			_, err = kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(ctx, name, types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		case "crd":
			_, err = s.dynamic.Resource(crds).Patch(ctx, name, types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		case "clusterrolebinding":
			_, err = kube.RbacV1().ClusterRoleBindings().Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "budget":
			_, err = kube.PolicyV1().PodDisruptionBudgets("sluice-system").Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "network":
			_, err = kube.NetworkingV1().NetworkPolicies("sluice-system").Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "policy":
			_, err = kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "policybinding":
			_, err = kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		case "clusterrole":
			_, err = kube.RbacV1().ClusterRoles().Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		}
		if err != nil {
			t.Fatalf("%s %s: %v", what, name, err)
		}
	}
	image := func(name string) {
		t.Helper()
		text := `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"` + name + `"}]`
		if _, err := kube.AppsV1().Deployments("sluice-system").Patch(ctx, "sluice-delivery", types.JSONPatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := kube.AppsV1().Deployments("sluice-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	works := func(name string, replicas int32) {
		patch("deployment", name, fmt.Sprintf(`{"status":{"replicas":%[1]d,"availableReplicas":%[1]d,"readyReplicas":%[1]d}}`, replicas), "status")
	}
	for i := range list.Items {
		works(list.Items[i].Name, *list.Items[i].Spec.Replicas)
	}
	trust := func(bundle string) {
		patch("validatingwebhook", "sluice-crd-guard", `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+bundle+`"},{"op":"add","path":"/webhooks/1/clientConfig/caBundle","value":"`+bundle+`"}]`)
	}
	trust(ca)
	patch("crd", "resolutionrequests.resolution.tekton.dev", `[{"op":"add","path":"/spec/conversion/webhook/clientConfig/caBundle","value":"`+ca+`"}]`)

	if checks, code := doctor(t, admin); code != 0 {
		t.Fatalf("all is well: exit code %d, %+v", code, slices.DeleteFunc(checks, func(c installation.Check) bool { return c.State == installation.OK }))
	}
	role, err := kube.RbacV1().Roles("sluice-system").Get(ctx, "sluice-member", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, "members.sluice.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease := func(ago time.Duration) {
		t.Helper()
		seconds, at := int32(15), metav1.NewMicroTime(time.Now().Add(ago))
		_, err := kube.CoordinationV1().Leases("sluice-system").Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "sluice-member-x", Labels: map[string]string{"sluice.dev/member": "x"}},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &at},
		}, metav1.CreateOptions{})
		must(err)
	}
	unlease := func() {
		must(kube.CoordinationV1().Leases("sluice-system").Delete(ctx, "sluice-member-x", metav1.DeleteOptions{}))
	}
	// pasted runs the fix that doctor prints.
	pasted := func(subject string) {
		t.Helper()
		checks, _ := doctor(t, admin)
		i := slices.IndexFunc(checks, func(c installation.Check) bool { return c.Subject == subject && c.State == installation.Warn })
		if i < 0 {
			t.Fatalf("%s is not told of: %+v", subject, checks)
		}
		command, patch, ok := strings.Cut(checks[i].Fix, " -p ")
		if !ok {
			t.Fatal(checks[i].Fix)
		}
		args := append(strings.Fields(command)[1:], "-p", strings.Trim(patch, "'"))
		if _, errs, err := cluster.Kubectl(t, "", args...); err != nil {
			t.Fatalf("%s: %v: %s", checks[i].Fix, err, errs)
		}
	}
	components := s.dynamic.Resource(schema.GroupVersionResource{Group: "sluice.dev", Version: "v1alpha1", Resource: "components"})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "guard-1", Labels: map[string]string{"app.kubernetes.io/component": "crd-guard"}},
		Spec:       list.Items[slices.IndexFunc(list.Items, func(d appsv1.Deployment) bool { return d.Name == "sluice-crd-guard" })].Spec.Template.Spec,
	}
	t.Run("a reader, and what operators set, find nothing", func(t *testing.T) {
		_, err := kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "reads-all"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}},
		}, metav1.CreateOptions{})
		must(err)
		_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reads-all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-all"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}},
		}, metav1.CreateOptions{})
		must(err)
		patch("arguments", "sluice-delivery", `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--log-level=debug"},
			{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"HTTPS_PROXY","value":"http://proxy.example.test:3128"}},
			{"op":"add","path":"/spec/template/spec/tolerations","value":[{"key":"a","operator":"Exists"}]}]`)
		reader := rest.CopyConfig(admin)
		reader.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
		for who, config := range map[string]*rest.Config{"the administrator": admin, "a reader": reader} {
			if checks, code := doctor(t, config); code != 0 {
				t.Errorf("%s: exit code %d, %+v", who, code, slices.DeleteFunc(checks, func(c installation.Check) bool { return c.State == installation.OK }))
			}
		}
	})
	for _, flag := range []string{"--namespace=other", "-nother", "--sluice-namespace=other"} {
		if code, out, _ := run(t, admin, "doctor", flag); code != 1 || !strings.Contains(out, "fix: sluice manifests --namespace=other --image=IMAGE |") {
			t.Errorf("%s: exit code %d\n%s", flag, code, out)
		}
	}
	for _, b := range []struct {
		name           string
		breakIt, mend  func()
		state          installation.State
		subject, words string
	}{
		{
			"no replica", func() { works("sluice-resolver-git", 0) }, func() { works("sluice-resolver-git", 1) },
			installation.Fail, "Deployment sluice-system/sluice-resolver-git", "0 of 1 replicas are available; it has no Pod",
		},
		{
			"a Pod that takes too much memory", func() {
				works("sluice-crd-guard", 1)
				made, err := kube.CoreV1().Pods("sluice-system").Create(ctx, pod, metav1.CreateOptions{})
				must(err)
				made.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "sluice", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}},
				}}
				_, err = kube.CoreV1().Pods("sluice-system").UpdateStatus(ctx, made, metav1.UpdateOptions{})
				must(err)
			}, func() {
				must(kube.CoreV1().Pods("sluice-system").Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0)))
				works("sluice-crd-guard", 2)
			},
			installation.Warn, "Deployment sluice-system/sluice-crd-guard", "1 of 2 replicas are available; Pod guard-1 took more memory than its limit",
		},
		{
			"two images", func() { image("example.test/sluice:v2") }, func() { image("example.test/sluice:v1") },
			installation.Warn, "images", "example.test/sluice:v2 (sluice-delivery)",
		},
		{
			"a missing Role", func() {
				must(kube.RbacV1().Roles("sluice-system").Delete(ctx, "sluice-member", metav1.DeleteOptions{}))
			}, func() {
				role.ResourceVersion = ""
				_, err := kube.RbacV1().Roles("sluice-system").Create(ctx, role, metav1.CreateOptions{})
				must(err)
			}, installation.Fail, "Role sluice-system/sluice-member", "it is missing",
		},
		{
			"rights that are not those of this version", func() { patch("clusterrole", "sluice-resolver", `{"rules":[]}`) },
			func() {
				s.applyAll(t, config.Options{Image: "example.test/sluice:v1", Roles: []string{"all"}})
				trust(ca)
			},
			installation.Warn, "ClusterRole sluice-resolver", "rules is missing, and should be",
		},
		{
			"rights of another account", func() {
				patch("clusterrolebinding", "sluice-resolver-git", `{"subjects":[{"kind":"ServiceAccount","name":"sluice-resolver-git","namespace":"other"}]}`)
			},
			func() {
				patch("clusterrolebinding", "sluice-resolver-git", `{"subjects":[{"kind":"User","name":"x"},{"kind":"ServiceAccount","name":"sluice-resolver-git","namespace":"sluice-system"}]}`)
			},
			installation.Warn, "ClusterRoleBinding sluice-resolver-git", "it is not as this version of sluice installs it",
		},
		{
			"a policy that refuses nothing", func() { patch("policybinding", "members.sluice.dev", `{"spec":{"validationActions":["Audit"]}}`) },
			func() { patch("policybinding", "members.sluice.dev", `{"spec":{"validationActions":["Deny"]}}`) },
			installation.Warn, "ValidatingAdmissionPolicyBinding members.sluice.dev", "it is not as this version of sluice installs it",
		},
		{
			"a webhook that lets all pass", func() {
				patch("validatingwebhook", "sluice-crd-guard", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`)
			}, func() {
				patch("validatingwebhook", "sluice-crd-guard", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`)
			},
			installation.Warn, "ValidatingWebhookConfiguration sluice-crd-guard", `webhooks[0].failurePolicy is "Ignore", and should be "Fail"`,
		},
		{
			"a webhook that a label takes CRDs away from", func() {
				patch("validatingwebhook", "sluice-crd-guard", `[{"op":"replace","path":"/webhooks/0/objectSelector","value":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}}]`)
			}, func() {
				patch("validatingwebhook", "sluice-crd-guard", `[{"op":"replace","path":"/webhooks/0/objectSelector","value":{}}]`)
			},
			installation.Warn, "ValidatingWebhookConfiguration sluice-crd-guard", "it is not as this version of sluice installs it",
		},
		{
			"a binding for some namespaces only", func() {
				patch("policybinding", "members.sluice.dev", `{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`)
			}, func() { patch("policybinding", "members.sluice.dev", `{"spec":{"matchResources":null}}`) },
			installation.Warn, "ValidatingAdmissionPolicyBinding members.sluice.dev", "it is not as this version of sluice installs it",
		},
		{
			"a policy with an exclusion", func() {
				patch("policy", "resolutionrequests.sluice.dev", `{"spec":{"matchConstraints":{"excludeResourceRules":[{"apiGroups":["resolution.tekton.dev"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]}}}`)
			}, func() {
				patch("policy", "resolutionrequests.sluice.dev", `{"spec":{"matchConstraints":{"excludeResourceRules":null}}}`)
			},
			installation.Warn, "ValidatingAdmissionPolicy resolutionrequests.sluice.dev", "it is not as this version of sluice installs it",
		},
		{
			"a policy with a condition more", func() {
				patch("policy", "members.sluice.dev", `{"spec":{"matchConditions":[{"name":"never","expression":"false"}]}}`)
			}, func() {
				patch("policy", "members.sluice.dev", `{"spec":{"matchConditions":null}}`)
				s.applyAll(t, config.Options{Image: "example.test/sluice:v1", Roles: []string{"all"}})
				trust(ca)
			},
			installation.Warn, "ValidatingAdmissionPolicy members.sluice.dev", "it is not as this version of sluice installs it",
		},
		{
			"the policy of who writes a status, failing open", func() {
				patch("policy", "resolutionrequests-status.sluice.dev", `{"spec":{"failurePolicy":"Ignore"}}`)
			}, func() { patch("policy", "resolutionrequests-status.sluice.dev", `{"spec":{"failurePolicy":"Fail"}}`) },
			installation.Warn, "ValidatingAdmissionPolicy resolutionrequests-status.sluice.dev", "it is not as this version of sluice installs it",
		},
		{
			"a webhook that is not asked about deletions", func() {
				patch("validatingwebhook", "sluice-crd-guard", `[{"op":"replace","path":"/webhooks/0/rules/0/operations","value":["UPDATE"]}]`)
			}, func() {
				patch("validatingwebhook", "sluice-crd-guard", `[{"op":"replace","path":"/webhooks/0/rules/0/operations","value":["UPDATE","DELETE"]}]`)
			},
			installation.Warn, "ValidatingWebhookConfiguration sluice-crd-guard", "webhooks[0].rules[0].operations",
		},
		{
			"a Service with more in its selector", func() {
				patch("service", "sluice-crd-guard", `{"spec":{"selector":{"a":"b"}}}`)
			}, func() {
				patch("service", "sluice-crd-guard", `{"spec":{"selector":{"a":null}}}`)
			},
			installation.Warn, "Service sluice-system/sluice-crd-guard", "it is not as this version of sluice installs it",
		},
		{
			"a Deployment without an argument", func() {
				patch("arguments", "sluice-crd-guard", `[{"op":"test","path":"/spec/template/spec/containers/0/args/2","value":"--namespace=sluice-system"},{"op":"remove","path":"/spec/template/spec/containers/0/args/2"}]`)
			}, func() {
				patch("arguments", "sluice-crd-guard", `[{"op":"add","path":"/spec/template/spec/containers/0/args/2","value":"--namespace=sluice-system"}]`)
			},
			installation.Warn, "Deployment sluice-system/sluice-crd-guard", "spec.template.spec.containers[0].args",
		},
		{
			"an argument, rights and a container more, and no probe", func() {
				patch("arguments", "sluice-crd-guard", `[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--foo"},{"op":"remove","path":"/spec/template/spec/containers/0/readinessProbe"},
					{"op":"add","path":"/spec/template/spec/hostNetwork","value":true},{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"more","image":"example.test/sluice:v1"}}]`)
			}, func() { pasted("Deployment sluice-system/sluice-crd-guard") },
			installation.Warn, "Deployment sluice-system/sluice-crd-guard", `spec.template.spec.containers[0].args[4] is "--foo", and should not be set; spec.template.spec.containers[0].readinessProbe is missing`,
		},
		{
			"a CRD with a limit more", func() {
				patch("crd", "deliveries.sluice.dev", `[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/maxProperties","value":90}]`)
			}, func() { pasted("CustomResourceDefinition deliveries.sluice.dev") },
			installation.Warn, "CustomResourceDefinition deliveries.sluice.dev", "spec.versions[0].schema.openAPIV3Schema.properties.spec.maxProperties is 90, and should not be set",
		},
		{
			"a budget that keeps no Pod", func() { patch("budget", "sluice-crd-guard", `{"spec":{"minAvailable":0}}`) },
			func() { pasted("PodDisruptionBudget sluice-system/sluice-crd-guard") },
			installation.Warn, "PodDisruptionBudget sluice-system/sluice-crd-guard", "spec.minAvailable is 0, and should be 1",
		},
		{
			"an open network", func() { patch("network", "sluice-crd-guard", `{"spec":{"ingress":[{}]}}`) },
			func() { pasted("NetworkPolicy sluice-system/sluice-crd-guard") },
			installation.Warn, "NetworkPolicy sluice-system/sluice-crd-guard", "spec.ingress",
		},
		{
			"a second installation", func() {
				second := list.Items[0].DeepCopy()
				second.Namespace, second.ResourceVersion = "default", ""
				_, err := kube.AppsV1().Deployments("default").Create(ctx, second, metav1.CreateOptions{})
				must(err)
			},
			func() {
				must(kube.AppsV1().Deployments("default").Delete(ctx, list.Items[0].Name, metav1.DeleteOptions{}))
			},
			installation.Warn, "installations", "default",
		},
		{
			"a certificate that has ended", func() { trust(authority(t, time.Now().Add(-time.Hour))) }, func() { trust(ca) },
			installation.Fail, "ValidatingWebhookConfiguration sluice-crd-guard", "its certificate ended at",
		},
		{
			"a certificate that was not renewed", func() { trust(authority(t, time.Now().Add(time.Hour))) }, func() { trust(ca) },
			installation.Fail, "ValidatingWebhookConfiguration sluice-crd-guard", "was not renewed",
		},
		{
			"nobody behind a webhook", func() {
				must(kube.DiscoveryV1().EndpointSlices("sluice-system").Delete(ctx, "sluice-crd-guard-x", metav1.DeleteOptions{}))
			}, func() {
				_, err := kube.DiscoveryV1().EndpointSlices("sluice-system").Create(ctx, &discoveryv1.EndpointSlice{
					ObjectMeta:  metav1.ObjectMeta{Name: "sluice-crd-guard-x", Labels: map[string]string{discoveryv1.LabelServiceName: "sluice-crd-guard"}},
					AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}},
				}, metav1.CreateOptions{})
				must(err)
			}, installation.Fail, "ValidatingWebhookConfiguration sluice-crd-guard", "no Pod behind its Service",
		},
		{
			"a policy without a binding", func() {
				must(kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}))
			}, func() {
				binding.ResourceVersion = ""
				_, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
				must(err)
			}, installation.Fail, "ValidatingAdmissionPolicy members.sluice.dev", "no binding names it",
		},
		{
			"a policy without its parameters", func() {
				p, b := parameterless()
				_, err := kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{})
				must(err)
				_, err = kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, b, metav1.CreateOptions{})
				must(err)
			}, func() {
				must(kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "x.sluice.dev", metav1.DeleteOptions{}))
				must(kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "x.sluice.dev", metav1.DeleteOptions{}))
			}, installation.Fail, "ValidatingAdmissionPolicyBinding x.sluice.dev", "its parameter ConfigMap sluice-system/gone does not exist",
		},
		{
			"a process that has stopped", func() { lease(-time.Hour) }, unlease,
			installation.Warn, "Lease sluice-system/sluice-member-x", "has not renewed it for 1h",
		},
		{
			"a process with a full volume", func() {
				lease(0)
				patch("lease", "sluice-member-x", `{"metadata":{"annotations":{"sluice.dev/trouble":"the volume has no room"}}}`)
			}, unlease,
			installation.Warn, "Lease sluice-system/sluice-member-x", "its process says: the volume has no room",
		},
		{
			"a process whose clock is ahead", func() { lease(time.Hour) }, unlease,
			installation.Warn, "Lease sluice-system/sluice-member-x", "in the future",
		},
		{
			"a Component that says nothing", func() {
				_, err := components.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "sluice.dev/v1alpha1", "kind": "Component", "metadata": map[string]any{"name": "acme"},
					"spec": map[string]any{"configMap": map[string]any{"namespace": "default", "name": "flags"}},
				}}, metav1.CreateOptions{})
				must(err)
			}, func() { must(components.Delete(ctx, "acme", metav1.DeleteOptions{})) },
			installation.Warn, "Component objects", "1 of 1 are not Enforced: Component acme: it has no condition Enforced yet",
		},
	} {
		b.breakIt()
		checks, code := doctor(t, admin)
		if code != 1 || !told(checks, b.state, b.subject, b.words) {
			t.Errorf("%s: exit code %d, %+v", b.name, code, checks)
		}
		if b.state == installation.Fail && b.words == "it is missing" && !mended(checks, "--image=example.test/sluice:v1 | kubectl apply --server-side -f -, with the other flags") {
			t.Errorf("%s: its command has another image: %+v", b.name, checks)
		}
		for _, c := range checks {
			if c.State != installation.OK && c.Fix == "" {
				t.Errorf("%s: nothing to do about %+v", b.name, c)
			}
		}
		b.mend()
	}
	if checks, code := doctor(t, admin); code != 0 {
		t.Fatalf("all is mended: exit code %d, %+v", code, slices.DeleteFunc(checks, func(c installation.Check) bool { return c.State == installation.OK }))
	}

	t.Run("a certificate of cert-manager's is no fault", func(t *testing.T) {
		roles := config.Options{Image: "example.test/sluice:v1", Roles: []string{config.GuardRole}, GuardCertManager: true}
		manifests, err := config.Manifests(roles)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range decoded(t, manifests) {
			if u.GroupVersionKind().Group == "cert-manager.io" {
				continue
			}
			if err := s.objects.ApplyObject(ctx, u, false); err != nil {
				t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
			}
		}
		trust(ca)
		if checks, _ := doctor(t, admin); told(checks, installation.Warn, "ClusterRole sluice-crd-guard", "") || told(checks, installation.Warn, "Role sluice-system/sluice-crd-guard", "") {
			t.Errorf("%+v", checks)
		}
	})

	t.Run("what Helm has installed is upgraded by Helm", func(t *testing.T) {
		patch("deployment", "sluice-delivery", `{"metadata":{"annotations":{"meta.helm.sh/release-name":"ours","meta.helm.sh/release-namespace":"sluice-system"}}}`)
		must(kube.RbacV1().ClusterRoles().Delete(ctx, "sluice-resolver", metav1.DeleteOptions{}))
		if checks, _ := doctor(t, admin); !mended(checks, "helm upgrade ours CHART --namespace sluice-system --reuse-values, with crd-guard and delivery and") {
			t.Errorf("%+v", checks)
		}
	})

	t.Run("without rights it says what it could not look at", func(t *testing.T) {
		anybody := rest.CopyConfig(admin)
		anybody.Impersonate = rest.ImpersonationConfig{UserName: "somebody"}
		checks, code := doctor(t, anybody)
		if code != 1 || !told(checks, installation.Warn, "Deployments in sluice-system", "not looked at") {
			t.Errorf("exit code %d, %+v", code, checks)
		}
	})
}

// mended tells whether a check says this of what to do.
func mended(checks []installation.Check, words string) bool {
	return slices.ContainsFunc(checks, func(c installation.Check) bool { return strings.Contains(c.Fix, words) })
}

func told(checks []installation.Check, state installation.State, subject, words string) bool {
	return slices.ContainsFunc(checks, func(c installation.Check) bool {
		return c.State == state && c.Subject == subject && strings.Contains(c.Message, words)
	})
}

// authority is a caBundle whose certificate ends at a time.
func authority(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-48 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// parameterless is a policy whose binding names a ConfigMap that does not exist.
func parameterless() (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	deny := admissionregistrationv1.DenyAction
	meta := metav1.ObjectMeta{Name: "x.sluice.dev", Labels: map[string]string{"app.kubernetes.io/part-of": "sluice"}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nones"}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
	}}
	return policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		ParamRef: &admissionregistrationv1.ParamRef{Name: "gone", Namespace: "sluice-system", ParameterNotFoundAction: &deny},
	}}
}
