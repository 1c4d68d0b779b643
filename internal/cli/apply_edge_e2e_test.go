//go:build e2e

package cli

import (
	"strings"
	"testing"

	"sluice.dev/internal/cli/apply"
)

// TestE2EAnApplyBringsBackWhatReadsTheStoredObjects: the conversion webhook of a CRD is down, so its objects cannot be read. The change is
// undecided, the message names the way on, and that way leads on.
func TestE2EAnApplyBringsBackWhatReadsTheStoredObjects(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	crd := func(name, v1, conversion string, fields ...string) string {
		properties := ""
		for _, f := range fields {
			properties += f + ": {type: string}, "
		}
		version := "\n  - {name: %s, served: true, storage: %s, schema: {openAPIV3Schema: {type: object, properties: {" + properties + "}}}}"
		versions := strings.NewReplacer("%s, served", "v1beta1, served", "storage: %s", "storage: "+map[bool]string{true: "false", false: "true"}[v1 != ""]).Replace(version)
		if v1 != "" {
			versions += strings.NewReplacer("%s, served", "v1, served", "storage: %s", "storage: true").Replace(version)
		}
		return w.file(name, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: brokens."+group+"}\nspec:\n  group: "+group+
			"\n  scope: Namespaced\n  names: {kind: Broken, plural: brokens}\n"+conversion+"  versions:"+versions+"\n")
	}
	down := "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: nowhere, namespace: default}}}}\n"
	object := w.file("object.yaml", "apiVersion: "+group+"/v1beta1\nkind: Broken\nmetadata: {name: b}\na: x\n")
	w.apply(ExitOK, "--app", "x", "-f", crd("first.yaml", "", "", "a"), "-f", object)
	w.apply(ExitOK, "--app", "x", "-f", crd("second.yaml", "v1", down, "a"), "--preflight", "")

	next := crd("next.yaml", "v1", down, "a", "b")
	out, errs := w.run(ExitFindings, "apply", "--app", "x", "-f", next)
	told := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"conversion webhook", "could not be judged", "--fail-mode open"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	w.run(ExitFindings, "apply", "--app", "x", "-f", next, "--mode", "stored")
	if r := w.apply(ExitOK, "--app", "x", "-f", next, "--fail-mode", "open"); r.Outcome != apply.OutcomeApplied || !strings.Contains(string(r.Report), "stored-objects-unread") {
		t.Errorf("%+v", r)
	}
	if r := w.apply(ExitOK, "--app", "x", "-f", crd("more.yaml", "v1", down, "a", "b", "c"), "--mode", "warn"); r.Outcome != apply.OutcomeApplied {
		t.Errorf("%+v", r)
	}
}
