package features

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"sluice.dev/feature"
)

// Features can gate resources that no CRD defines, such as Pods. Only discovery knows which versions these have. A plan is made for
// each event of a component, so the answers are kept for some minutes.

// builtIns knows the resources that no CRD defines: Kubernetes' own, and those of aggregated API servers. Their schemas are not known.
type builtIns struct {
	discovery discovery.DiscoveryInterface
	clock     clock.PassiveClock

	mu     sync.Mutex
	groups map[string]*builtInGroup
}

type builtInGroup struct {
	asked     time.Time
	resources map[string][]feature.Version
}

// findVersions returns the versions of a resource; none if there is no such resource. Answers from before since do not count. During a
// question to the API server, only callers that need its answer wait.
//
// A resource that was found counts for [lookAgain], one that was not for [lookSoon]: somebody may be waiting for it.
func (b *builtIns) findVersions(ctx context.Context, group, resource string, since time.Time) ([]feature.Version, error) {
	b.mu.Lock()
	g := b.groups[group]
	b.mu.Unlock()
	if g != nil && !g.asked.Before(since) {
		found, age := g.resources[resource], b.clock.Since(g.asked)
		if age < lookSoon || found != nil && age < lookAgain {
			return found, nil
		}
	}
	g, err := b.askGroup(ctx, group)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.groups == nil {
		b.groups = map[string]*builtInGroup{}
	}
	b.groups[group] = g
	return g.resources[resource], nil
}

// askGroup asks the API server for the resources of a group.
func (b *builtIns) askGroup(ctx context.Context, group string) (*builtInGroup, error) {
	g := &builtInGroup{asked: b.clock.Now(), resources: map[string][]feature.Version{}}
	d := discovery.ToDiscoveryInterfaceWithContext(b.discovery)
	groups, err := d.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	for _, found := range groups.Groups {
		if found.Name != group {
			continue
		}
		for _, v := range found.Versions {
			list, err := d.ServerResourcesForGroupVersionWithContext(ctx, v.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, r := range list.APIResources {
				g.resources[r.Name] = append(g.resources[r.Name], feature.Version{Name: v.Version})
			}
		}
	}
	return g, nil
}
