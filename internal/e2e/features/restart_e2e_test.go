//go:build e2e

package features

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/draws"
)

// TestE2ERestarts is scenario 18: an API server that was restarted refuses no object that uses no gate, from the first request
// that it answers on, and refuses what is closed.
func TestE2ERestarts(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t, clustertest.WithoutControllers())
	s, err := install(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.start(context.WithoutCancel(t.Context()), "features")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	live := newScene(t, s, "live", sceneOptions{gates: []string{"TasksTimeout", "TaskTimeout"}})
	baked := newScene(t, s, "baked", sceneOptions{mode: "Baked", whenDisabled: "Drop", gates: []string{"TasksTimeout", "TaskTimeout"}})
	live.inForce(timeout)
	for range draws.Count(30) {
		cluster.Crash(t)
		for _, c := range []*scene{live, baked} {
			// Until it serves the kind there is nothing that a policy could refuse.
			eventually(t, "the kind to be served", func(ctx context.Context) error {
				_, err := c.things.List(ctx, metav1.ListOptions{Limit: 1})
				return err
			})
			if _, err := c.try("{description: d, tasks: [{name: a}]}"); err != nil {
				t.Errorf("%s: an object that uses no gate: %v", c.name, err)
			}
		}
		live.inForce(timeout)
		eventually(t, "what is closed to be dropped", func(context.Context) error {
			u, err := baked.try(timeout)
			if err != nil {
				return err
			}
			if spec, ok := u.Object["spec"].(map[string]any); ok && spec["tasksTimeout"] != nil {
				return errors.New("it is written")
			}
			return nil
		})
	}
	// The controller has not noticed, or has got over it.
	live.set(map[string]string{"tasks-timeout": "true"})
	live.open(timeout)
	baked.set(map[string]string{"tasks-timeout": "true"})
	baked.open(timeout)
}
