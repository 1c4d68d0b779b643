//go:build e2e

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/feature/policy"
	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/draws"
)

const restartsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.restarts.e2e.dev}
spec:
  group: restarts.e2e.dev
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {plain: {type: string}, alpha: {type: string}}}}}}
`

// stream is a kind of write that is sent again and again.
type stream struct {
	what   string
	closed bool // it uses what is off
	write  func(ctx context.Context, i int) error
	judged atomic.Int64 // how many were answered as they are to be
}

// TestE2ERestartsUnderSteadyWrites restarts the API server twice, or five times, while clients write without a pause. What uses nothing is never
// refused, and what is off never gets in, from the first request on that the server answers. Where no server answers, or one that does
// not know the kind yet, nothing is judged.
func TestE2ERestartsUnderSteadyWrites(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t, clustertest.WithoutControllers())
	s := connectTo(t, cluster)
	const namespace = "restarts"
	s.namespace(namespace, nil)
	s.settings(namespace, nil)
	s.applyYAML(restartsCRD)
	things := s.dynamic.Resource(schema.GroupVersionResource{Group: "restarts.e2e.dev", Version: "v1", Resource: "things"}).Namespace(namespace)
	plainMaps := s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	thing := func(name, spec string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: read(t, fmt.Sprintf("{apiVersion: restarts.e2e.dev/v1, kind: Thing, metadata: {name: %s}, spec: %s}", name, spec))}
	}
	_, err := things.Create(t.Context(), thing("stored", "{plain: p, alpha: x}"), metav1.CreateOptions{})
	_, also := plainMaps.Create(t.Context(), &unstructured.Unstructured{Object: read(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}")}, metav1.CreateOptions{})
	if err := errors.Join(err, also); err != nil {
		t.Fatal(err)
	}
	m := model(t, "{metadata: {name: restarts}, spec: {release: v1.0.0, configMap: {namespace: restarts, name: feature-flags}}}",
		"[{gate: Alpha, parts: [{group: restarts.e2e.dev, resource: things, field: spec.alpha}]}]", restartsCRD)
	set, err := policy.Compile(t.Context(), m, policy.Options{Kubernetes: "1.36"})
	if err != nil {
		t.Fatal(err)
	}
	s.enforce(set)
	closed := func(ctx context.Context, i int) error {
		_, err := things.Create(ctx, thing(fmt.Sprintf("closed-%d", i), "{alpha: x}"), metav1.CreateOptions{})
		return err
	}
	until(t, "the policies", func(ctx context.Context) error {
		_, err := things.Create(ctx, thing("probe", "{alpha: x}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("they are not in force: %w", err)
		}
		return nil
	})
	label := func(i int) []byte { return fmt.Appendf(nil, `{"metadata":{"labels":{"a":"%d"}}}`, i) }
	streams := []*stream{
		{what: "a label of what is stored", write: func(ctx context.Context, i int) error {
			_, err := things.Patch(ctx, "stored", types.MergePatchType, label(i), metav1.PatchOptions{})
			return err
		}},
		{what: "an object that uses nothing", write: func(ctx context.Context, i int) error {
			_, err := things.Create(ctx, thing(fmt.Sprintf("fine-%d", i), "{plain: p}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		{what: "an object of another kind", write: func(ctx context.Context, i int) error {
			_, err := plainMaps.Patch(ctx, "other", types.MergePatchType, label(i), metav1.PatchOptions{})
			return err
		}},
		{what: "what is off", closed: true, write: closed},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, w := range streams {
		wg.Go(func() {
			pause := time.NewTicker(time.Millisecond)
			defer pause.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				switch err := w.write(ctx, i); {
				case (err == nil) != w.closed && (err == nil || apierrors.IsInvalid(err)):
					w.judged.Add(1)
				case err == nil:
					t.Errorf("%s is stored", w.what)
				case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && !w.closed:
					t.Errorf("%s is refused: %v", w.what, err)
				default: // no answer; the server that starts needs the processor
					<-pause.C
				}
			}
		})
	}
	for range max(2, draws.Count(5)) {
		cluster.Crash(t)
		for _, w := range streams {
			had := w.judged.Load()
			until(t, w.what+" to be judged again", func(context.Context) error {
				if n := w.judged.Load() - had; n < 5 {
					return fmt.Errorf("%d were", n)
				}
				return nil
			})
		}
	}
	cancel()
	wg.Wait()
	for _, w := range streams {
		t.Logf("%s: %d writes", w.what, w.judged.Load())
	}
	list, err := things.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if name := list.Items[i].GetName(); name != "stored" {
			t.Errorf("%s is there", name)
		}
	}
}
