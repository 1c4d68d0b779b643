//go:build e2e

package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestE2EANamespaceThatWasThereBeforeStaysAfterTheAppHasForgottenIt(t *testing.T) {
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "before-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := newApplier(t)
	namespace := objectFrom(t, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns.Name}})
	inside := objectFrom(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "inside", "namespace": ns.Name}})
	for _, objects := range [][]Object{{namespace, inside}, {inside}, {namespace, inside}} {
		p, err := a.Plan(t.Context(), Request{Objects: objects, App: ns.Name, Prune: true})
		if err == nil {
			err = a.Apply(t.Context(), p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := a.PlanDeletion(t.Context(), DeletionRequest{App: ns.Name, Namespace: "default"})
	if err == nil {
		err = a.Delete(t.Context(), d)
	}
	if err != nil {
		t.Fatal(err)
	}
	if now, err := kube.CoreV1().Namespaces().Get(t.Context(), ns.Name, metav1.GetOptions{}); err != nil || now.DeletionTimestamp != nil {
		t.Errorf("the namespace is gone, or going: %v", err)
	}
}
