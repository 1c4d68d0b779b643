//go:build e2e

package cli

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object is deleted for its replacement only if the server would create the new one. If the server refuses it after all, the former one
// comes back.
func TestE2EWhatCannotBeCreatedAgainIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	const versions = "properties: {a: {type: string, maxLength: 3}, b: {type: string}, c: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}, " +
		`d: {type: string, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || self != 'legacy'", optionalOldSelf: true}]}}`
	foo := func(spec string) string { return schemaSource(group, only(versions), "v1", "{"+spec+"}") + "---\n" }
	immutable := func(name, data string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {sluice.dev/on-immutable: replace}}\nimmutable: true\ndata: {a: %s}\n---\n", name, data)
	}
	service := func(ip string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: NodePort, %sports: [{port: 80, nodePort: 30765}]}\n---\n", ip)
	}
	w.apply(ExitOK, "--app", "x", "--wait=false", "-f", w.file("a.yaml", foo(`a: x, c: "1", d: new`)+immutable("denied", "old")+immutable("late", "old")+service("")))
	defer w.run(ExitOK, "delete", "x")
	uidOf := func(name string) string {
		t.Helper()
		o, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(o.UID) + o.Data["a"]
	}
	spec := func() string {
		t.Helper()
		raw, err := w.kube.CoreV1().RESTClient().Get().AbsPath("/apis/" + group + "/v1/namespaces/" + w.namespace + "/foos/f").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, next := range map[string]string{
		"an apply refuses null":                  `a: y, b: null, c: "1", d: new`,
		"null, and a field that cannot change":   `a: x, b: null, c: "2", d: new`,
		"a rule for new objects":                 `a: x, c: "2", d: legacy`,
		"a rule for new objects, and its length": `a: toolong, c: "2", d: legacy`,
	} {
		r := w.apply(ExitFailed, "--app", "x", "--wait=false", "--prune=false", "--replace", "-f", w.file("b.yaml", foo(next)))
		if r.Summary["replace"] != 0 || !strings.Contains(spec(), `"c":"1"`) {
			t.Errorf("%s: %+v", name, r)
		}
	}

	policy := func(name, expression string) string {
		return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s.%[2]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "%[3]s"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s.%[2]s}
spec: {policyName: %[1]s.%[2]s, validationActions: [Deny]}
---
`, name, w.namespace, expression)
	}
	w.run(ExitOK, "apply", "--app", "policies", "-f", w.file("p.yaml",
		policy("denied", "object.metadata.name != 'denied'")+policy("late", "object.metadata.name != 'late' || request.dryRun || object.data.a == 'old'")))
	defer w.run(ExitOK, "delete", "policies")
	until(t, "the policies to be in force", func() error {
		_, errs, err := w.Kubectl(t, configMap("denied"), "-n", w.namespace, "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(errs, "denied request") {
			return fmt.Errorf("the server says %s", errs)
		}
		return nil
	})
	denied, late := uidOf("denied"), uidOf("late")
	r := w.apply(ExitFailed, "--app", "x", "--wait=false", "--prune=false", "-f", w.file("c.yaml", immutable("denied", "new")))
	if uidOf("denied") != denied || !strings.Contains(r.Error, "the server would refuse the new object") {
		t.Errorf("%+v", r)
	}
	r = w.apply(ExitFailed, "--app", "x", "--wait=false", "--prune=false", "-f", w.file("d.yaml", immutable("late", "new")))
	if after := uidOf("late"); after == late || !strings.HasSuffix(after, "old") || !strings.Contains(r.Error, "the former object, which was deleted for it, was created again") {
		t.Errorf("%s: %+v", after, r)
	}

	// What two Services cannot have in common keeps none from being replaced.
	r = w.apply(ExitOK, "--app", "x", "--wait=false", "--prune=false", "--replace", "-f", w.file("e.yaml", service("clusterIP: 10.96.77.77, ")))
	if r.Summary["replace"] != 1 {
		t.Errorf("%+v", r)
	}
}
