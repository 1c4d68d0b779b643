package features

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"sluice.dev/feature"
)

// lookAgain is the interval of questions about existing resources: they may have other versions now.
const (
	lookAgain = 10 * time.Minute
	// lookAtServer is the interval of questions about the served kinds of policies, which are two small answers. After a change of the
	// served kinds, and before the next question, parts may not be enforced, or the webhook may be called needlessly.
	lookAtServer = 15 * time.Second
	// lookSoon is the interval of questions about a missing resource.
	lookSoon = 15 * time.Second
)

// server has the abilities of an API server.
type server struct {
	// version is major.minor.
	version string
	// validating and mutating say whether it serves admission policies v1 of that kind.
	validating, mutating bool
}

func (s server) String() string {
	return fmt.Sprintf("Kubernetes %s, validating policies %t, mutating policies %t", s.version, s.validating, s.mutating)
}

// matchConditions reports whether webhooks can have match conditions (beta and on since 1.28).
func (s server) matchConditions() bool {
	v, err := version.ParseGeneric(s.version)
	return err == nil && v.AtLeast(version.MajorMinor(1, 28))
}

// runSessions runs one session after another until ctx is done. Each is for the present abilities of the API server, and ends with
// [errServerChanged] when they have changed.
func (c *Cluster) runSessions(ctx context.Context, run func(ctx context.Context, can server) error) {
	failures := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	for ctx.Err() == nil {
		can, err := c.askServer(ctx)
		if err == nil {
			failures.Forget("")
			err = run(ctx, can)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errServerChanged):
			c.Log.Info("beginning anew", "reason", err)
			continue
		case err != nil:
			c.Log.Warn("cannot ask the API server what it can do", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-c.Clock.After(failures.When("")):
		}
	}
}

// followServer returns [errServerChanged] when the API server has other abilities, and nil when ctx is done.
func (c *Cluster) followServer(ctx context.Context, can server) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(lookAtServer):
		}
		now, err := c.askServer(ctx)
		if err == nil && now != can {
			return errServerChanged
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot ask the API server what it can do", "error", err)
		}
	}
}

// askServer asks the API server for its abilities.
func (c *Cluster) askServer(ctx context.Context) (server, error) {
	d := discovery.ToDiscoveryInterfaceWithContext(c.Kube.Discovery())
	info, err := d.ServerVersionWithContext(ctx)
	if err != nil {
		return server{}, err
	}
	v, err := version.ParseGeneric(info.Major + "." + strings.TrimRight(info.Minor, "+"))
	if err != nil {
		return server{}, err
	}
	s := server{version: fmt.Sprintf("%d.%d", v.Major(), v.Minor())}
	list, err := d.ServerResourcesForGroupVersionWithContext(ctx, "admissionregistration.k8s.io/v1")
	if err != nil {
		return server{}, err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
	}
	s.validating = has(validatingPolicies) && has(validatingBindings)
	s.mutating = has(mutatingPolicies) && has(mutatingBindings)
	return s, nil
}

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

// findVersions returns the versions of a resource; none if there is no such resource. Answers from before since do not count. During a question
// to the API server, only callers that need its answer wait.
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

// errServerChanged ends a session when the abilities of the API server have changed.
var errServerChanged = errors.New("the API server can do other things than before")
