//go:build e2e

package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/internal/cli/apply"
)

const notReady = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: "example.com/c:1"}]}
`

func TestE2EObjectsAreAppliedInOrderAndToldInPlainLines(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	policy := w.namespace + "-policy"
	text := unboundPolicy(policy) + gadget(group, "v1", "{size: small}") + configMap("a") + gadgetCRD(group, "v1") +
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + w.namespace + "-more}\n"
	out, errs := w.run(ExitOK, "apply", "--app", "x", "-f", w.file("a.yaml", text))
	var order []string
	for line := range strings.Lines(out) {
		if what, ok := strings.CutPrefix(line, "created "); ok {
			order = append(order, strings.TrimSpace(what))
		}
	}
	slices.Sort(order[:min(len(order), 2)]) // of one stage, in any order
	want := []string{
		"CustomResourceDefinition.apiextensions.k8s.io gadgets." + group, "Namespace " + w.namespace + "-more", "ConfigMap " + w.namespace + "/a",
		"Gadget." + group + " " + w.namespace + "/g", "ValidatingAdmissionPolicy.admissionregistration.k8s.io " + policy,
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	last := -1
	for _, phase := range []string{"applying namespaces and definitions: 2\n", "waiting until definitions are served: 1\n", "applying settings: 1\n", "applying objects: 1\n", "applying admission configuration: 1\n"} {
		at := strings.Index(errs, phase)
		if at <= last {
			t.Errorf("%q at %d of %s", phase, at, errs)
		}
		last = at
	}
	if strings.ContainsAny(out+errs, "\r\x1b") {
		t.Errorf("no plain lines: %q", out+errs)
	}
}

func TestE2EAdmissionConfigurationWaitsForWhatItNeeds(t *testing.T) {
	w := newWorld(t)
	policy := w.namespace + "-policy"
	f := w.file("a.yaml", unboundPolicy(policy)+notReady)
	if r := w.apply(ExitFailed, "--app", "x", "-f", f, "--timeout", "3s"); len(r.NotReady) != 1 || r.NotReady[0].ID.Kind != "Deployment" {
		t.Errorf("%+v", r)
	}
	policies := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if _, err := policies.Get(t.Context(), policy, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the policy came before what it needs was ready: %v", err)
	}
	_, err := w.kube.AppsV1().Deployments(w.namespace).Patch(t.Context(), "d", types.MergePatchType, []byte(
		`{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(ExitOK, "--app", "x", "-f", f, "--timeout", "1m")
	if _, err := policies.Get(t.Context(), policy, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestE2EModesOfPreflightsAndAllTheirFindingsAtOnce(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	group := w.namespace + ".example.com"
	w.apply(ExitOK, "--app", "x", "-f", w.file("v1.yaml", widget(group, "small, large")))
	unsafe := w.file("unsafe.yaml", configMap("new")+"---\n"+strings.Split(widget(group, "large"), "---\n")[2])

	// One who may read all of it and write nothing: both preflights find something, and it is told together.
	name := w.namespace + "-reader"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apiextensions.k8s.io", group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
	}}
	if _, err := w.kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: w.namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	both := w.file("both.yaml", "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\npreflightRules:\n- name: PermissionValidation\n- name: CRDUpgradeSafety\n")
	code, out, errs := sluice(t, "apply", "--kubeconfig", w.impersonating("system:serviceaccount:"+w.namespace+":default"), "-n", w.namespace, "--app", "x", "-f", unsafe, "-c", both)
	told := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"enum-value-removed", "1 of 1 stored object", "may not create configmaps", "may not patch customresourcedefinitions.apiextensions.k8s.io widgets." + group} {
		if code != ExitFindings || !strings.Contains(told, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}

	rules := func(text string) string {
		return w.file("rules.yaml", "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\npreflightRules:\n"+text)
	}
	dry := func(want int, args ...string) apply.Result {
		t.Helper()
		return w.apply(want, append([]string{"--app", "x", "-f", unsafe, "--dry-run", "client"}, args...)...)
	}
	for name, test := range map[string]struct {
		args []string
		want int
		ran  []string
	}{
		"as it is":                           {nil, ExitFindings, []string{"CRDUpgradeSafety"}},
		"warned of":                          {[]string{"--mode", "warn"}, ExitOK, []string{"CRDUpgradeSafety"}},
		"warned of, as a file says":          {[]string{"-c", rules("- name: CRDUpgradeSafety\n  config: {mode: warn}\n")}, ExitOK, []string{"CRDUpgradeSafety"}},
		"not named in a file":                {[]string{"-c", both, "--preflight", "PermissionValidation"}, ExitOK, []string{"PermissionValidation"}},
		"named beside what the file has":     {[]string{"-c", both, "--preflight", "CRDUpgradeSafety"}, ExitFindings, []string{"CRDUpgradeSafety"}},
		"none":                               {[]string{"--preflight", ""}, ExitOK, []string{}},
		"all that the file names, and fails": {[]string{"-c", both}, ExitFindings, []string{"CRDUpgradeSafety", "PermissionValidation"}},
	} {
		if r := dry(test.want, test.args...); !cmp.Equal(test.ran, r.Ran) {
			t.Errorf("%s: ran %v, want %v", name, r.Ran, test.ran)
		}
	}
	// What the mode lets pass is applied, and told all the same.
	if r := w.apply(ExitOK, "--app", "x", "-f", unsafe, "--mode", "warn"); r.Outcome != apply.OutcomeApplied || !strings.Contains(string(r.Report), "enum-value-removed") {
		t.Errorf("%+v", r)
	}
}
