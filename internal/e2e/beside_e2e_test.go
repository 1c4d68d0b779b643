//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/api/resolution/v1beta1"
	"sluice.dev/client/versioned"
	"sluice.dev/config"
	"sluice.dev/internal/controller/resolution"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/gittest"
	"sluice.dev/tools/kube"
)

// tektonCRD is Tekton's ResolutionRequest as the API server sees it: what a status must have, and what is pruned. The webhook
// that converts it stands in for Tekton's.
const tektonCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: resolutionrequests.resolution.tekton.dev}
spec:
  group: resolution.tekton.dev
  scope: Namespaced
  names: {kind: ResolutionRequest, listKind: ResolutionRequestList, plural: resolutionrequests, singular: resolutionrequest}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1, v1beta1]
      clientConfig: {url: %[1]q, caBundle: %[2]s}
  versions:
  - name: v1alpha1
    served: true
    storage: false
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {params: {type: object, additionalProperties: {type: string}}}}
          status: {type: object, required: [data, refSource], properties: {%[3]s}}
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              url: {type: string}
              params:
                type: array
                x-kubernetes-list-type: atomic
                items: {type: object, required: [name, value], properties: {name: {type: string}, value: {x-kubernetes-preserve-unknown-fields: true}}}
          status: {type: object, required: [data, refSource, source], properties: {source: {x-kubernetes-preserve-unknown-fields: true}, %[3]s}}
`

// tektonStatus are the properties that a status has in both versions.
const tektonStatus = `data: {type: string}, observedGeneration: {type: integer, format: int64}, refSource: {x-kubernetes-preserve-unknown-fields: true},
 annotations: {type: object, additionalProperties: {type: string}},
 conditions: {type: array, items: {type: object, required: [status, type],
  properties: {lastTransitionTime: {type: string}, message: {type: string}, reason: {type: string}, severity: {type: string}, status: {type: string}, type: {type: string}}}}`

// besideTekton is a cluster in which Tekton Pipelines runs, as far as resolution sees it, and Sluice in place of its
// resolvers.
func besideTekton(t *testing.T) *system {
	t.Helper()
	cluster := clustertest.Start(t)
	objects, err := kube.New(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	before := &system{objects: objects}
	for _, ns := range []string{tektonNamespace, "tekton-pipelines-resolvers"} {
		before.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+"}\n")
	}
	webhook := httptest.NewTLSServer(resolution.NewConverter())
	t.Cleanup(webhook.Close)
	ca, err := json.Marshal([]byte(gittest.PEM(webhook.Certificate().Raw)))
	if err != nil {
		t.Fatal(err)
	}
	before.apply(t, fmt.Sprintf(tektonCRD, webhook.URL+"/convert", ca, tektonStatus))
	s, err := install(t.Context(), cluster, config.Options{BesideTekton: true, WideCredentials: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lifecycle does what Tekton's own controller does to every request, until the test ends: it begins the conditions, again
// where they are of another generation, marks as succeeded what has data, ends what is older than the time-out, and
// writes the whole status. It returns how often it has written.
func (k *tekton) lifecycle(t *testing.T) *counters {
	t.Helper()
	client, err := versioned.NewForConfig(k.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	out := &counters{n: map[string]int{}}
	wg.Go(func() {
		for ctx.Err() == nil {
			w, err := client.ResolutionV1beta1().ResolutionRequests("").Watch(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for event := range w.ResultChan() {
				if r, ok := event.Object.(*v1beta1.ResolutionRequest); ok && event.Type != "DELETED" {
					k.reconcile(ctx, client, r, out)
				}
			}
		}
	})
	return out
}

type counters struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counters) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

func (k *tekton) reconcile(ctx context.Context, client *versioned.Clientset, r *v1beta1.ResolutionRequest, out *counters) {
	c := r.Status.Succeeded()
	reset := r.Status.ObservedGeneration != r.Generation
	if c != nil && c.Status != metav1.ConditionUnknown && !reset {
		return
	}
	if c != nil && c.Status != metav1.ConditionUnknown {
		out.add("conditions of another generation")
	}
	next := v1beta1.Condition{Type: "Succeeded", Status: metav1.ConditionUnknown, Reason: "ResolutionInProgress", Message: "waiting for resolver", LastTransitionTime: metav1.Now()}
	switch {
	case r.Status.Data != "":
		next.Status, next.Reason, next.Message = metav1.ConditionTrue, "", ""
	case time.Since(r.CreationTimestamp.Time) > time.Minute:
		next.Status, next.Reason, next.Message = metav1.ConditionFalse, "ResolutionTimedOut", "resolution took longer than global timeout of 1m0s"
	case c != nil && !reset:
		return
	}
	r.Status.ObservedGeneration, r.Status.Conditions = r.Generation, []v1beta1.Condition{next}
	// The CRD demands them, and the API server drops null. That Tekton's own controller gets by is its webhook's doing.
	if r.Status.RefSource == nil {
		r.Status.Source, r.Status.RefSource = &v1beta1.RefSource{}, &v1beta1.RefSource{}
	}
	_, err := client.ResolutionV1beta1().ResolutionRequests(r.Namespace).UpdateStatus(ctx, r, metav1.UpdateOptions{})
	switch {
	case err == nil:
		out.add("written")
	case apierrors.IsConflict(err):
		// The next event has the newer version.
		out.add("conflicts")
	case apierrors.IsNotFound(err) || ctx.Err() != nil:
	default:
		out.add(err.Error())
	}
}

func TestE2EBesideTekton(t *testing.T) {
	// Beside the one test on the shared cluster that does so too, which waits for most of its time.
	t.Parallel()
	s := besideTekton(t)
	s.tektonCRDs(t)
	k := s.standIn(t)
	written := k.lifecycle(t)
	t.Run("requests", k.dropIn)
	written.mu.Lock()
	t.Logf("the stand-in for Tekton's controller: %v", written.n)
	for what := range written.n {
		if what != "written" && what != "conflicts" {
			t.Errorf("the stand-in for Tekton's controller meets: %s", what)
		}
	}
	written.mu.Unlock()

	t.Run("credentials are read without a RoleBinding, as Tekton does it", func(t *testing.T) {
		locked := gittest.NewServer(t, true)
		gittest.NewOrigin(t, locked.Root, "r.git", map[string]string{"task.yaml": taskText})
		locked.Set(demand("Authorization", basic("git", "tok")))
		s.configure(t, "git-resolver-config", map[string]string{"allowed-addresses": "127.0.0.1", "ca-bundle": locked.CA})
		s.start(t, "resolver-git")
		ns := s.namespace(t)
		s.secret(t, ns, "mine", corev1.SecretTypeOpaque, map[string][]byte{"token": []byte("tok")})
		name := k.submit(t, ns, "run", "git", "url", locked.URL+"/r.git", "pathInRepo", "task.yaml", "gitToken", "mine", "gitTokenKey", "token")
		wantContent(t, k.end(t, &v1beta1.ResolutionRequest{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}), taskText)
	})

	t.Run("others write no status", func(t *testing.T) {
		ns := s.namespace(t)
		c := s.as(t, ns, "attacker")
		s.bind(t, ns, "attacker", "stand-in-for-tekton", ns, "attacker")
		client, err := versioned.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		name := k.submit(t, ns, "run", "nobody", "x", "y")
		for _, patch := range []string{
			// Each is valid by Tekton's schema, so that only admission can refuse it.
			`{"status":{"data":"ZXZpbA==","refSource":{},"source":{}}}`,
			`{"status":{"data":"ZXZpbA==","refSource":{},"source":{},"conditions":[{"type":"Succeeded","status":"True"}]}}`, `{"status":null}`,
		} {
			if _, err := client.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", patch, err)
			}
			if _, err := client.ResolutionV1alpha1().ResolutionRequests(ns).Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); !apierrors.IsForbidden(err) {
				t.Errorf("%s by v1alpha1: %v", patch, err)
			}
		}
		for _, patch := range []string{`{"spec":{"params":[{"name":"x","value":"z"}]}}`, `{"metadata":{"labels":{"resolution.tekton.dev/type":"git"}}}`} {
			if _, err := client.ResolutionV1beta1().ResolutionRequests(ns).Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err == nil {
				t.Errorf("%s is accepted", patch)
			}
		}
	})

	t.Run("wide defaults are defaults", func(t *testing.T) { wideDefaults(t, s) })
	t.Run("what is Tekton's is left alone", func(t *testing.T) {
		leases, err := kubernetes.NewForConfigOrDie(s.admin).CoordinationV1().Leases(tektonNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(leases.Items) > 0 {
			t.Errorf("Leases in Tekton's namespace: %v, %v", leases, err)
		}
		events, err := s.kube.CoreV1().Events("tekton-pipelines-resolvers").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			t.Errorf("Tekton's configuration is complained of: %s", e.Message)
		}
	})
	many := max(200, draws.Count(500))
	t.Run("a resolver is killed in the middle of many", func(t *testing.T) { killInTheMiddle(t, s, many) })
	t.Run("the API server is restarted with many pending", func(t *testing.T) { restartTheAPIServer(t, s, many) })
	t.Run("the operator's settings stay", func(t *testing.T) { settingsStay(t, s) })
}
