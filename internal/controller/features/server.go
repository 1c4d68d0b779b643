package features

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
)

// What can the API server do? Policies of a kind may not be served, or may be served since an upgrade. A session is for one answer to
// that question: when the answer changes, everything begins anew, as after a restart.

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

// errServerChanged ends a session when the abilities of the API server have changed.
var errServerChanged = errors.New("the API server can do other things than before")

// firstRetry and lastRetry bound the pause before a retry after a failure; it doubles.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Resources of admissionregistration.k8s.io/v1.
const (
	validatingPolicies = "validatingadmissionpolicies"
	validatingBindings = "validatingadmissionpolicybindings"
	mutatingPolicies   = "mutatingadmissionpolicies"
	mutatingBindings   = "mutatingadmissionpolicybindings"
)
