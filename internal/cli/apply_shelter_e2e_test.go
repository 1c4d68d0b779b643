//go:build e2e

package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is to stay does not go with its namespace or its CRD.
func TestE2EWhatStaysIsNotDeletedWithItsNamespaceOrItsCRD(t *testing.T) {
	w := newWorld(t)
	group, made := w.namespace+".example.com", w.namespace+"-made"
	space := "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + made + "}\n"
	inside := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: " + made + "}\n"
	kept := strings.Replace(inside, "name: a,", "name: kept, annotations: {helm.sh/resource-policy: keep},", 1)
	instance := strings.Replace(gadget(group, "v1", "{size: small}"), "{name: g}", "{name: g, annotations: {helm.sh/resource-policy: keep}}", 1)
	there := func(name string) {
		t.Helper()
		if o, err := w.kube.CoreV1().ConfigMaps(made).Get(t.Context(), name, metav1.GetOptions{}); err != nil || o.DeletionTimestamp != nil {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
	says := func(out string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if !strings.Contains(out, line+"\n") {
				t.Errorf("no %q in %s", line, out)
			}
		}
	}

	// The source does not bring the namespace any more, and still has something in it.
	w.apply(ExitOK, "--app", "x", "-f", w.file("a.yaml", space+inside))
	out, _ := w.run(ExitOK, "apply", "--app", "x", "-f", w.file("b.yaml", inside), "--prune")
	says(out, "will be left alone: Namespace "+made+": the source has objects in it, such as ConfigMap "+made+"/a")
	there("a")

	// What the annotation keeps stays, though its namespace and its CRD go.
	w.apply(ExitOK, "--app", "x", "-f", w.file("c.yaml", space+inside+kept+gadgetCRD(group, "v1")+instance))
	out, _ = w.run(ExitOK, "delete", "x", "--allow-delete-crds")
	says(out, "deleted ConfigMap "+made+"/a", "left alone: Namespace "+made+": ConfigMap "+made+"/kept in it is left alone",
		"left alone: CustomResourceDefinition.apiextensions.k8s.io gadgets."+group+": Gadget."+group+" "+w.namespace+"/g is left alone, which it defines")
	there("kept")
	gadgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}
	if o, err := w.dynamic.Resource(gadgets).Namespace(w.namespace).Get(t.Context(), "g", metav1.GetOptions{}); err != nil || o.GetDeletionTimestamp() != nil {
		t.Errorf("%v, %v", o, err)
	}

	// A CRD that the source leaves out, and of which it still has objects.
	w.apply(ExitOK, "--app", "y", "--force-conflicts", "-f", w.file("d.yaml", gadgetCRD(group, "v1")+instance))
	out, _ = w.run(ExitFindings, "apply", "--app", "y", "-f", w.file("e.yaml", instance), "--prune", "--allow-delete-crds")
	says(out, "will be kept: CustomResourceDefinition.apiextensions.k8s.io gadgets."+group+": the source has objects that it defines, such as Gadget."+group+" "+w.namespace+"/g")
}
