//go:build e2e

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/internal/cli/apply"
)

const scaled = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: c, image: "example.com/c:1"}]}
`

func job(name, image string, annotations string) string {
	return fmt.Sprintf(`---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {%s}}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: "example.com/%s"}]}
`, name, annotations, image)
}

const claim = `---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: "%s", resources: {requests: {storage: 1Gi}}}
`

// refuse has the API server refuse the ConfigMaps of a world: to write those whose data has the key bad, and to delete those that are
// called stays. It returns when that holds.
func (w *world) refuse() {
	w.t.Helper()
	ctx := w.t.Context()
	api := w.kube.AdmissionregistrationV1()
	match := &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.OperationAll},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}}},
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: match, Validations: []admissionv1.Validation{{
			Expression: `object == null ? oldObject.metadata.name != "stays" : !has(object.data) || !("bad" in object.data)`, Message: "house rule",
		}}},
	}
	if _, err := api.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: w.namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), w.namespace, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), w.namespace, metav1.DeleteOptions{})
	})
	until(w.t, "the policy to be in force", func() error {
		_, _, err := w.Kubectl(w.t, strings.ReplaceAll(configMap("probe"), "always: same", "bad: probe"), "-n", w.namespace, "create", "--dry-run=server", "-f", "-")
		if err == nil {
			return errors.New("the server takes what it is to refuse")
		}
		return nil
	})
}

// Whatever the server would refuse of any object is told before anything is written.
func TestE2ENothingIsWrittenWhereTheServerRefusesAnyObject(t *testing.T) {
	w := newWorld(t)
	start := w.file("start.yaml", scaled+job("j", "a", "")+configMap("stays"))
	w.apply(ExitOK, "--app", "x", "-f", start, "--wait=false")
	if _, errs, err := w.Kubectl(t, "", "-n", w.namespace, "scale", "deployment", "d", "--replicas=3"); err != nil {
		t.Fatal(err, errs)
	}
	w.refuse()
	bad := strings.ReplaceAll(configMap("bad"), "always: same", `bad: value`)
	for _, c := range []struct {
		name, source string
		args         []string
		code         int
		says         []string
	}{
		{"a field of the subresource scale", scaled + job("j", "a", "") + configMap("stays"), nil, ExitFindings, []string{".spec.replicas", `kubectl with subresource "scale"`}},
		{"fields that cannot change", job("j", "b", "") + configMap("stays"), nil, ExitFailed, []string{"field is immutable", "--replace, or the annotation sluice.dev/on-immutable: replace"}},
		{"a policy", bad + configMap("stays"), nil, ExitFailed, []string{"house rule"}},
		{"a policy about deletions", job("j", "a", ""), []string{"--prune"}, ExitFailed, []string{"ConfigMap " + w.namespace + "/stays: cannot be deleted", "house rule"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := w.versions()
			r := w.apply(c.code, append([]string{"--app", "x", "--wait=false", "-f", w.file("next.yaml", configMap("first")+c.source)}, c.args...)...)
			text := fmt.Sprintf("%+v", r)
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("does not say %q:\n%s", want, text)
				}
			}
			if diff := cmp.Diff(before, w.versions()); diff != "" {
				t.Errorf("written all the same: %s", diff)
			}
		})
	}
}

// An object with fields that cannot change is replaced where that is asked for: by the flag, unless it holds data, or by its annotation.
func TestE2EReplace(t *testing.T) {
	w := newWorld(t)
	const mark = "sluice.dev/on-immutable: replace"
	uid := func(name string) string {
		t.Helper()
		j, err := w.kube.BatchV1().Jobs(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(j.UID)
	}
	w.apply(ExitOK, "--app", "x", "--wait=false", "-f", w.file("a.yaml", job("flag", "a", "")+job("note", "a", mark)+fmt.Sprintf(claim, "a")))
	flag, note := uid("flag"), uid("note")
	next := w.file("b.yaml", job("flag", "b", "")+job("note", "b", mark)+fmt.Sprintf(claim, "a"))
	out, errs := w.run(ExitFindings, "diff", "--app", "x", "-f", next, "--replace")
	if !strings.Contains(out, "2 to be replaced") || !strings.Contains(out, "+        image: example.com/b") && !strings.Contains(out, "image: example.com/b") || !strings.Contains(errs, "it is deleted and created again: ") {
		t.Errorf("%s%s", out, errs)
	}
	out, _ = w.run(ExitOK, "apply", "--app", "x", "-f", next, "--replace", "--dry-run=server")
	if !strings.Contains(out, "would replace Job.batch "+w.namespace+"/flag: ") {
		t.Error(out)
	}
	if uid("flag") != flag {
		t.Fatal("a dry run replaced it")
	}
	r := w.apply(ExitOK, "--app", "x", "--wait=false", "-f", next, "--replace")
	if r.Summary["replace"] != 2 || uid("flag") == flag || uid("note") == note {
		t.Errorf("%+v", r)
	}
	if r := w.apply(ExitOK, "--app", "x", "--wait=false", "-f", next, "--replace"); r.Outcome != apply.OutcomeUnchanged {
		t.Errorf("again: %+v", r)
	}
	// The annotation does without the flag.
	note = uid("note")
	w.apply(ExitOK, "--app", "x", "--wait=false", "-f", w.file("c.yaml", job("flag", "b", "")+job("note", "c", mark)+fmt.Sprintf(claim, "a")))
	if uid("note") == note {
		t.Error("the annotation did not replace it")
	}
	r = w.apply(ExitFailed, "--app", "x", "--wait=false", "--replace", "-f", w.file("d.yaml", job("flag", "b", "")+job("note", "c", mark)+fmt.Sprintf(claim, "b")))
	if !strings.Contains(r.Error, "it holds data, so only the annotation") {
		t.Errorf("%+v", r)
	}
	// What would be refused as a new object, too, is not replaced.
	r = w.apply(ExitFailed, "--app", "x", "--wait=false", "--replace", "-f", w.file("e.yaml", strings.Replace(job("flag", "d", ""), "Never", "Sometimes", 1)))
	if r.Summary["replace"] != 0 || strings.Contains(r.Error, "creates it again") {
		t.Errorf("%+v", r)
	}
	if _, errs := w.run(ExitFailed, "apply", "-f", w.file("f.yaml", job("flag", "d", "sluice.dev/on-immutable: recreate"))); !strings.Contains(errs, `f.yaml:2: Job.batch flag: annotation sluice.dev/on-immutable is "recreate": its one value is replace`) {
		t.Error(errs)
	}
}

// What depends on something that the same source brings cannot be tried; it is named, and applied.
func TestE2EWhatCannotBeTriedIsNamedAndApplied(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	inner := w.namespace + "-inner"
	source := w.file("a.yaml", widget(group, "small")+
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: "+inner+"}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: "+inner+"}\n"+
		"---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: runner}\n"+
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {serviceAccountName: runner, containers: [{name: c, image: \"example.com/c\"}]}\n")
	r := w.apply(ExitOK, "--app", "x", "-f", source, "--wait=false")
	defer w.run(ExitOK, "delete", "x")
	got := map[string]string{}
	for _, u := range r.Untried {
		got[u.ID.Kind+" "+u.ID.Name] = u.Reason
	}
	if diff := cmp.Diff(map[string]string{
		"Widget w":    "its CRD is not served yet, so the server was not asked",
		"ConfigMap c": "its namespace does not exist yet, so the server was not asked",
		"Pod p":       "its ServiceAccount runner does not exist yet, so the server was not asked",
	}, got); diff != "" {
		t.Error(diff)
	}
	if r.Summary["create"] != 6 {
		t.Errorf("%+v", r)
	}
	second := w.file("b.yaml", configMap("later")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: "+w.namespace+"-none}\n")
	r = w.apply(ExitFailed, "-f", second)
	if !strings.Contains(r.Error, "namespace "+w.namespace+"-none does not exist and is not in the source") || len(r.Written) > 0 {
		t.Errorf("%+v", r)
	}
	if _, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "later", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error("written although another one's namespace is missing:", err)
	}
	if !slices.ContainsFunc(r.Objects, func(o apply.ObjectResult) bool { return o.Name == "later" }) {
		t.Error("the document does not name it")
	}
}

// A quota that leaves no room for the inventory is found with the first write. What the server has refused is not told as done.
func TestE2EWhatTheServerHasRefusedIsNotToldAsDone(t *testing.T) {
	w := newWorld(t)
	hard := corev1.ResourceList{"configmaps": resource.MustParse("0")}
	quotas := w.kube.CoreV1().ResourceQuotas(w.namespace)
	q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err == nil {
		q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard} // which a controller does elsewhere
		_, err = quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	source := w.file("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
	_, errs := w.run(ExitFailed, "apply", "--app", "x", "-f", source)
	if !strings.Contains(errs, "exceeded quota") || strings.Contains(errs, "stays") {
		t.Errorf("%s", errs)
	}
	if list, err := w.kube.CoreV1().Secrets(w.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := quotas.Delete(t.Context(), "none", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run(ExitOK, "apply", "--app", "x", "-f", source)
}
