//go:build e2e

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// unready are manifests, without names, of each kind that kstatus has rules of its own for, so that none is ready in a cluster
// without nodes.
var unready = map[string]string{
	"Pod":                   `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i"}]}}`,
	"PersistentVolumeClaim": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
	"StatefulSet.apps":      `{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"DaemonSet.apps":        `{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"Deployment.apps":       `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"ReplicaSet.apps":       `{"apiVersion":"apps/v1","kind":"ReplicaSet","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"Job.batch":             `{"apiVersion":"batch/v1","kind":"Job","spec":{"suspend":false,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`,
}

// alwaysReady are the kinds that kstatus takes for ready as soon as the server has them, and CRDs, for which an apply waits in its
// first stage.
var alwaysReady = []string{
	"Secret", "ConfigMap", "Service", "CronJob.batch", "PodDisruptionBudget.policy", "CustomResourceDefinition.apiextensions.k8s.io",
}

func TestE2EReadinessIsCheckedOfOneAndOfSeveralObjectsOfAKind(t *testing.T) {
	kube, err := kubernetes.NewForConfig(shared.Get(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	_, served, err := kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, list := range served {
		for _, r := range list.APIResources {
			u := &unstructured.Unstructured{}
			u.SetAPIVersion(list.GroupVersion)
			u.SetKind(r.Kind)
			id := ID{Group: u.GroupVersionKind().Group, Kind: r.Kind}
			name := strings.TrimSpace(id.String())
			if strings.Contains(r.Name, "/") || status.GetLegacyConditionsFn(u) == nil || slices.Contains(alwaysReady, name) {
				continue
			}
			known++
			if unready[name] == "" {
				t.Errorf("kstatus has a rule for %s, and this test has no object of that kind", name)
			}
		}
	}
	if known != len(unready) {
		t.Errorf("kstatus has rules for %d kinds, this test has objects of %d", known, len(unready))
	}
	for kind, text := range unready {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ready-"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			waits := func() {}
			a, err := New(shared.Get(t).Config(), Options{Namespace: ns.Name, Now: time.Now, Observe: func(e Event) {
				if e.Phase == "waiting until all is ready" {
					waits()
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			var objects []Object
			for n := range 3 {
				content, err := decodeObject([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				content["metadata"] = map[string]any{"name": fmt.Sprintf("x%d", n)}
				if objects = append(objects, objectFrom(t, content)); n == 1 {
					continue // one, and then three: written just now, and found as they are to be
				}
				for _, want := range []Action{Create, Unchanged} {
					resumed, unlock, err := a.Resume(t.Context(), ns.Name, "ready")
					if err != nil {
						t.Fatal(err)
					}
					p, err := resumed.Plan(t.Context(), Request{Objects: objects, App: "ready", Wait: true})
					if err != nil {
						t.Fatal(err)
					}
					if last := p.Items[len(p.Items)-1].Action; last != want {
						t.Errorf("%d objects: %s, want %s", len(objects), last, want)
					}
					ctx, cancel := context.WithCancel(t.Context())
					waits = cancel
					unready, ok := errors.AsType[*NotReadyError](resumed.Apply(ctx, p))
					cancel()
					unlock()
					if !ok || len(unready.Objects) != len(objects) {
						t.Errorf("%d objects: %v are not ready", len(objects), unready)
					}
				}
			}
			v, err := a.App(t.Context(), ns.Name, "ready")
			if err != nil {
				t.Fatal(err)
			}
			states, err := a.Status(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range states {
				if s.Status != string(status.InProgressStatus) {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}
