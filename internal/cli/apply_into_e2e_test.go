//go:build e2e

package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestE2EASourceIsMovedIntoOneNamespace(t *testing.T) {
	w := newWorld(t)
	to := w.namespace + "-to"
	role := w.namespace + "-binding"
	all := w.file("all.yaml", namespaceText("somewhere")+in("somewhere", "a")+configMap("b")+`---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: somewhere}
---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: somewhere}
spec: {ports: [{port: 443}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: `+role+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
  - {kind: ServiceAccount, name: robot, namespace: somewhere}
  - {kind: ServiceAccount, name: stranger, namespace: elsewhere}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: `+role+`}
webhooks:
  - name: hook.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig: {service: {name: hook, namespace: somewhere}}
    rules: [{apiGroups: [nobody.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
`)
	w.run(ExitFindings, "diff", "--app", "x", "-f", all, "--into-namespace", to)
	w.run(ExitOK, "apply", "--app", "x", "-f", all, "--into-namespace", to)
	defer w.run(ExitOK, "delete", "x")
	for _, name := range []string{to, to + "/a", to + "/b"} {
		if !w.exists(name) {
			t.Errorf("%s is not there", name)
		}
	}
	if w.exists("somewhere") {
		t.Error("the namespace of the source was made")
	}
	binding, err := w.kube.RbacV1().ClusterRoleBindings().Get(t.Context(), role, metav1.GetOptions{})
	if err != nil || binding.Subjects[0].Namespace != to || binding.Subjects[1].Namespace != "elsewhere" {
		t.Errorf("%v: subjects %+v", err, binding.Subjects)
	}
	hook, err := w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), role, metav1.GetOptions{})
	if err != nil || hook.Webhooks[0].ClientConfig.Service.Namespace != to {
		t.Errorf("%v: %+v", err, hook.Webhooks)
	}
	w.run(ExitOK, "diff", "--app", "x", "-f", all, "--into-namespace", to)
	// Two that would become one are refused, before anything is written.
	two := w.file("two.yaml", in("one", "same")+in("two", "same")+in("one", "other"))
	_, errs := w.run(ExitFailed, "apply", "--app", "y", "-f", two, "--into-namespace", to)
	if !strings.Contains(errs, "ConfigMap two/same: would be the same object as ConfigMap one/same") || w.exists(to+"/other") {
		t.Errorf("%s", errs)
	}
	w.run(ExitFailed, "apply", "--app", "y", "-f", two, "--into-namespace", "No_Name")
}

func TestE2EHowADifferenceIsShown(t *testing.T) {
	w := newWorld(t)
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1', b: '2', c: '3', d: '4', e: '5', password: PASS, token: same}\n"
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("old.yaml", strings.Replace(text, "PASS", "first", 1)+configMap("gone")))
	changed := strings.NewReplacer("PASS", "second", "c: '3'", "c: 'x'").Replace(text)
	args := []string{"--app", "x", "--prune", "-f", w.file("new.yaml", changed+configMap("fresh"))}
	diff := func(want int, more ...string) string {
		t.Helper()
		out, errs := w.run(want, "diff", append(args, more...)...)
		return out + errs
	}
	for _, c := range []struct {
		args        []string
		has, hasNot []string
	}{
		{nil, []string{"-  password: first", "+  password: second", "  b: \"2\""}, []string{"hidden"}},
		{[]string{"--unified", "0"}, []string{"-  c: \"3\"", "+  c: x"}, []string{"  b: \"2\"", "  d: \"4\""}},
		{[]string{"--unified", "-1"}, []string{" apiVersion: v1", "  a: \"1\""}, nil},
		{[]string{"--only-changes"}, []string{"+  password: second", "/fresh will be created", "/gone will be deleted"}, []string{"+kind: ConfigMap"}},
		{[]string{"--mask", "/data/password"}, []string{"(hidden, another value)", "+  c: x"}, []string{"first", "second"}},
		{[]string{"--mask", "/data/*", "-o", "json"}, []string{"(hidden, another value)", "token: (hidden)"}, []string{"first", "second", "same"}},
	} {
		out := diff(ExitFindings, c.args...)
		for _, want := range c.has {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, out)
			}
		}
		for _, no := range c.hasNot {
			if strings.Contains(out, no) {
				t.Errorf("%v: %q in\n%s", c.args, no, out)
			}
		}
	}
	diff(ExitFailed, "--unified", "-2")
	diff(ExitFailed, "--mask", "data.password")
}
