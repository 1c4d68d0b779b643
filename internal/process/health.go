package process

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A process may run many roles, and is ready when all of them are. A role whose CRD is not installed cannot begin. If the operator
// has named the role, the process is not ready, so that a rollout stops. If all roles were asked for, the role is idle, and the
// others work.

// servedLook is how often a part that waits for a CRD looks for it.
const servedLook = 2 * time.Second

// health tells which parts are not ready yet, and which have nothing to do.
type health struct {
	mu sync.Mutex
	// waiting and idle have what is to be said of parts, by their names.
	waiting, idle map[string]string
}

// registerPart registers a part and returns what makes it ready.
func (h *health) registerPart(name string) func() {
	h.setPartState(name, name, "")
	return func() { h.setPartState(name, "", "") }
}

// setPartState says what of a part is to be told: why it is not ready, or why it is idle.
func (h *health) setPartState(name, waiting, idle string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting, h.idle = map[string]string{}, map[string]string{}
	}
	delete(h.waiting, name)
	delete(h.idle, name)
	if waiting != "" {
		h.waiting[name] = waiting
	}
	if idle != "" {
		h.idle[name] = idle
	}
}

// waitingAndIdle lists what is not ready, and what is ready but idle, each sorted.
func (h *health) waitingAndIdle() (waiting, idle []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Values(h.waiting)), slices.Sorted(maps.Values(h.idle))
}

// WhenServed makes a part wait until the API server serves what it works on. Until then a part whose role was named is not ready,
// and says which CRD is missing. Where all roles were asked for, one that cannot begin is idle and keeps the others from nothing.
func (p *Process) WhenServed(name string, resources []schema.GroupVersionResource, part func(ctx context.Context, ready func()) error) func(ctx context.Context, ready func()) error {
	return func(ctx context.Context, ready func()) error {
		told := ""
		for {
			missing := p.notServed(ctx, resources)
			if missing == "" {
				break
			}
			why := fmt.Sprintf("%s waits for the CRD %s", name, missing)
			if p.Idles {
				p.health.setPartState(name, "", "idle: "+why)
			} else {
				p.health.setPartState(name, why, "")
			}
			if missing != told {
				told = missing
				p.Log.Warn("a role waits for a CRD", "role", name, "crd", missing)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-p.Clock.After(servedLook):
			}
		}
		if told != "" && !p.Idles {
			p.health.setPartState(name, name, "")
		}
		return part(ctx, func() {
			p.health.setPartState(name, "", "")
			ready()
		})
	}
}

// notServed names the first CRD that is missing. While that cannot be told none is: the part itself copes with that.
func (p *Process) notServed(ctx context.Context, resources []schema.GroupVersionResource) string {
	for _, r := range resources {
		list, err := p.Kube.Discovery().ServerResourcesForGroupVersion(r.GroupVersion().String())
		if ctx.Err() != nil || err != nil && !apierrors.IsNotFound(err) {
			continue
		}
		if err != nil || !slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Resource }) {
			return r.GroupResource().String()
		}
	}
	return ""
}
