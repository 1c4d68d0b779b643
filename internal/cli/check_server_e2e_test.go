//go:build e2e

package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/internal/cluster"
	"sluice.dev/report"
	"sluice.dev/tools/kube"
)

// What the API server of a cluster refuses is what it says itself, admission included; who may not ask is told.
func TestE2ECheckAsksTheAPIServerWhatItRefuses(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, dir := t.Context(), t.TempDir()
	text, err := os.ReadFile(upgrade + "v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	live := strings.NewReplacer("databases", "askeds", "Database", "Asked", "singular: database", "singular: asked").Replace(string(text))
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if err := k.Apply(ctx, write("live.yaml", live), false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.DeleteCRD(context.WithoutCancel(ctx), "askeds.example.sluice.dev"); err != nil {
			t.Error(err)
		}
	})
	check := func(kubeconfig, file string) (int, []report.Finding, string) {
		t.Helper()
		code, out, errs := sluice(t, "check", "--kubeconfig", kubeconfig, "-o", "json", "--objects=false", file)
		var doc struct{ CRDs []report.CRD }
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.CRDs) != 1 {
			t.Fatalf("exit code %d: %v %s%s", code, err, out, errs)
		}
		return code, doc.CRDs[0].Findings, errs
	}
	labelled := write("labelled.yaml", strings.Replace(live, "metadata:", "metadata:\n  labels: {asked: refused}", 1))
	if code, found, errs := check(c.Kubeconfig, labelled); code != ExitOK || len(found) > 0 || errs != "" {
		t.Errorf("exit code %d of an update that the server takes: %+v %s", code, found, errs)
	}
	bad := write("bad.yaml", strings.Replace(live, "metadata:", "metadata:\n  labels: {asked: not a label}", 1))
	if code, found, _ := check(c.Kubeconfig, bad); code != ExitFindings || len(found) != 1 || found[0].Level != report.RefusedByAPIServer ||
		!strings.HasPrefix(found[0].Message, `the API server of the cluster refuses this: metadata.labels: Invalid value: "not a label": a valid label`) {
		t.Errorf("exit code %d of a bad label: %+v", code, found)
	}

	for name, object := range map[string]string{
		"policy.yaml": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: asked}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [apiextensions.k8s.io], apiVersions: [v1], operations: [UPDATE], resources: [customresourcedefinitions]}]
  validations: [{expression: "object.?metadata.labels.?asked.orValue('') != 'refused'", message: nobody may say so}]
`,
		"binding.yaml": `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: asked}
spec: {policyName: asked, validationActions: [Deny]}
`,
	} {
		file := write(name, object)
		if err := k.Apply(ctx, file, false); err != nil {
			t.Fatal(err)
		}
		defer func() { // kubectl needs the context of the test
			if _, errs, err := c.Kubectl(t, "", "delete", "-f", file); err != nil {
				t.Error(err, errs)
			}
		}()
	}
	var found []report.Finding
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		var code int
		code, found, _ = check(c.Kubeconfig, labelled)
		return len(found) > 0 || code != ExitOK, nil
	}); err != nil {
		t.Fatalf("the policy is never heard: %v", err)
	}
	if code, found, _ := check(c.Kubeconfig, labelled); code != ExitOK || len(found) != 1 || !strings.Contains(found[0].Message, "admission in the cluster refuses this change") ||
		!strings.Contains(found[0].Message, "nobody may say so") || found[0].Outcome != report.Note {
		t.Errorf("exit code %d of what a policy refuses: %+v", code, found)
	}
	if code, found, _ := check(c.Kubeconfig, bad); code != ExitFindings || found[0].Level != report.RefusedByAPIServer {
		t.Errorf("exit code %d of a bad label beside a policy: %+v", code, found)
	}

	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = "reader", []string{"system:authenticated", "readers"}
	}
	reader := filepath.Join(dir, "reader")
	if err := clientcmd.WriteToFile(*config, reader); err != nil {
		t.Fatal(err)
	}
	roles := write("roles.yaml", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: asked-reader}
rules: [{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: asked-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: asked-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}]
`)
	if err := k.Apply(ctx, roles, false); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, errs, err := c.Kubectl(t, "", "delete", "-f", roles); err != nil {
			t.Error(err, errs)
		}
	}()
	if code, found, errs := check(reader, labelled); code != ExitOK || !strings.Contains(errs, "the credentials may not update CustomResourceDefinitions") {
		t.Errorf("exit code %d of who may only read: %+v %s", code, found, errs)
	}
	if code, found, _ := check(reader, bad); code != ExitFindings || len(found) != 1 || !strings.Contains(found[0].Message, " refuses this: metadata.labels") || strings.Contains(found[0].Message, "of the cluster") {
		t.Errorf("exit code %d of a bad label, by who may only read: %+v", code, found)
	}
	if out, errs, err := c.Kubectl(t, "", "get", "crd", "askeds.example.sluice.dev", "-o", "jsonpath={.metadata.labels}"); err != nil || out != "" {
		t.Errorf("asking has changed the CRD: labels %q %s %v", out, errs, err)
	}
}

// TestE2ETheServerDecidesWhatItTakes shows the API server a rule that the linked code refuses and an older API server takes: cel-go does
// not charge matches(text, pattern) for the length of the text before 0.29 (checker/cost.go), which Kubernetes 1.37 has.
func TestE2ETheServerDecidesWhatItTakes(t *testing.T) {
	c := shared.Get(t)
	k, err := kube.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	old, next := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: costs.example.sluice.dev}
spec:
  group: example.sluice.dev
  names: {kind: Cost, listKind: CostList, plural: costs, singular: cost}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              names: {type: array, items: {type: string}}
`
	rule := `              more: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "matches(self, '^[a-z]+$')"}]}}` + "\n"
	for file, text := range map[string]string{old: crd, next: crd + rule} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Apply(t.Context(), old, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.DeleteCRD(context.WithoutCancel(t.Context()), "costs.example.sluice.dev"); err != nil {
			t.Error(err)
		}
	})
	if code, out, _ := sluice(t, "check", old, next); code != ExitFindings || !strings.Contains(out, "the API server refuses this: ") || !strings.Contains(out, "estimated rule cost exceeds budget") {
		t.Errorf("the linked code: exit code %d: %s", code, out)
	}
	if code, out, _ := sluice(t, "check", "--kube-version=1.36", old, next); code != ExitFindings || !strings.Contains(out, "Kubernetes 1.36 may estimate the costs of rules differently") {
		t.Errorf("the linked code for 1.36: exit code %d: %s", code, out)
	}
	server, err := cluster.For(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	runs, err := server.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, words, refused := c.Kubectl(t, "", "apply", "--dry-run=server", "-f", next)
	if refused != nil && runs.LessThan(version.MajorMinor(1, 37)) {
		t.Errorf("Kubernetes %s refuses the rule: %s", runs, words)
	}
	code, out, errs := sluice(t, "check", "--kubeconfig", c.Kubeconfig, next)
	if want := map[bool]int{true: ExitFindings, false: ExitOK}[refused != nil]; code != want || strings.Contains(out, "refuses this") != (refused != nil) {
		t.Errorf("with the cluster: exit code %d, want %d: %s%s", code, want, out, errs)
	}
}
