package features

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/featureusage"
)

// How many stored objects use a feature? An operator wants to know before a feature goes away. The controller counts for all
// components at once, one resource after the other, and slowly, since nobody waits for the numbers. For example, two components that
// gate widgets cost one scan of the widgets in ten minutes.

const (
	// DefaultUsageInterval is the interval between counts of the objects that use features.
	DefaultUsageInterval = 10 * time.Minute
	// usageSettle is the pause between a change of a definition and a count. usageGap is the shortest time between two counts of a
	// resource because of such changes.
	usageSettle, usageGap = 5 * time.Second, 30 * time.Second
	// usageRetry is the pause before a resource that could not be read is tried again.
	usageRetry = time.Minute
	// usageFresh is the age of the written time at which an unchanged count is written again.
	usageFresh = time.Hour
	// usageKept is the number of intervals for which a count is valid while the next ones fail.
	usageKept = 3
	// Between two pages a scan waits for usageRest times as long as the page took, and maxRest at most: so it causes at most a fifth
	// of the load of one connection.
	usageRest = 4
	maxRest   = 10 * time.Second
)

func newUsage(c clock.Clock, interval time.Duration, namespace string, log *slog.Logger) *usage {
	return &usage{clock: c, interval: interval, namespace: namespace, log: log, poke: make(chan struct{}, 1), parts: map[string]*gatedBy{}, counts: map[string]*tally{}}
}

// setGated sets the resources of a component to count; nil if there are none, or if another process counts them.
//
// A change of a definition brings the next count forward, though not at once and not too often: definitions often change several
// times in a row.
func (u *usage) setGated(component string, of *gatedBy) {
	if u.interval <= 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.parts[component]
	if of == nil {
		if before == nil {
			return
		}
		delete(u.parts, component)
	} else {
		if before != nil && before.model == of.model && maps.Equal(before.resources, of.resources) {
			return
		}
		u.parts[component] = of
		for name := range of.resources {
			t := u.counts[name]
			if t == nil {
				t = &tally{due: u.clock.Now().Add(u.interval)}
				u.counts[name] = t
			}
			u.scanSoon(t)
		}
	}
	maps.DeleteFunc(u.counts, func(name string, _ *tally) bool { return len(u.componentsGating(name)) == 0 })
	select {
	case u.poke <- struct{}{}:
	default:
	}
}

// scanSoon makes the next scan of a resource begin soon after a change.
func (u *usage) scanSoon(t *tally) {
	due := u.clock.Now().Add(usageSettle)
	if next := t.tried.Add(min(usageGap, u.interval)); due.Before(next) {
		due = next
	}
	if due.Before(t.due) {
		t.due = due
	}
}

// componentsGating lists the components that gate a resource, sorted.
func (u *usage) componentsGating(name string) (out []string) {
	for _, component := range slices.Sorted(maps.Keys(u.parts)) {
		if _, ok := u.parts[component].resources[name]; ok {
			out = append(out, component)
		}
	}
	return out
}

// nextDue returns the resource that is due first, and in how long; empty if there is none.
func (u *usage) nextDue() (name string, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n, t := range u.counts {
		if first := u.counts[name]; first == nil || t.due.Before(first.due) || t.due.Equal(first.due) && n < name {
			name = n
		}
	}
	if name == "" {
		return "", 0
	}
	return name, max(0, u.counts[name].due.Sub(u.clock.Now()))
}

// runScans counts the due resources, one after the other, until ctx is done. It calls changed with the names of components whose
// numbers may have changed.
func (u *usage) runScans(ctx context.Context, scan func(context.Context, *featureusage.Scan) (*featureusage.Result, error), changed func(component string)) {
	if u.interval <= 0 {
		return
	}
	for ctx.Err() == nil {
		name, wait := u.nextDue()
		var at <-chan time.Time
		if name != "" {
			at = u.clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-u.poke:
			continue // something else may be due first
		case <-at:
		}
		components, s := u.beginScan(name)
		if components == nil {
			continue
		}
		result, err := scan(ctx, s)
		if ctx.Err() != nil {
			return
		}
		u.endScan(name, s.Models, result, err)
		for _, c := range components {
			changed(c)
		}
	}
}

// beginScan returns the scan of a resource; nil if no component gates it any more.
func (u *usage) beginScan(name string) (components []string, s *featureusage.Scan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	components = u.componentsGating(name)
	if components == nil {
		return nil, nil
	}
	s = &featureusage.Scan{Between: u.restBetweenPages()}
	for _, c := range components {
		s.Models = append(s.Models, u.parts[c].model)
		s.Resources = []featureusage.Resource{u.parts[c].resources[name]}
	}
	return components, s
}

// restBetweenPages returns the function that waits between pages.
func (u *usage) restBetweenPages() func(context.Context) error {
	began := u.clock.Now()
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.clock.After(min(usageRest*u.clock.Since(began), maxRest)):
		}
		began = u.clock.Now()
		return nil
	}
}

// endScan records the result of a scan. It logs a failure that is not the one of the scan before.
func (u *usage) endScan(name string, models []*feature.Model, result *featureusage.Result, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.counts[name]
	if t == nil {
		return // nobody gates it any more
	}
	now := u.clock.Now()
	if err != nil && (t.err == nil || t.err.Error() != err.Error()) {
		u.log.Info("the objects that use features cannot be counted", "error", err)
	}
	t.tried, t.err = now, err
	if err != nil {
		t.due = now.Add(min(u.interval, usageRetry))
		return
	}
	t.at, t.due = now, now.Add(u.interval)
	t.of, t.objects = map[string]*feature.Model{}, map[gateOf]int64{}
	for _, m := range models {
		t.of[m.Component()] = m
		if p := u.parts[m.Component()]; p != nil && p.model != m {
			u.scanSoon(t) // its definition has changed in the meantime
		}
	}
	for _, x := range result.Usage {
		if x.Objects > 0 {
			t.objects[gateOf{x.Component, x.Gate}] = x.Objects
		}
	}
}

// counted is the known use of one feature.
type counted struct {
	// known is set if all its resources have been counted with the present definition.
	known   bool
	objects int64
	// at is the time of the first of these counts.
	at time.Time
	// failed has the reasons why resources cannot be counted, sorted by resource; forbidden is set if rights are missing.
	failed    []string
	forbidden bool
}

// countedUse returns the known use of a feature of a model.
//
// The number of a feature is the sum over its resources, and is as old as the oldest count among them. It is known only if each
// resource was counted with the model of now.
func (u *usage) countedUse(m *feature.Model, f *feature.Feature) (out counted) {
	u.mu.Lock()
	defer u.mu.Unlock()
	out.known = true
	seen := map[string]bool{}
	for i := range f.Targets {
		name := crdName(f.Targets[i].Group, f.Targets[i].Resource)
		if seen[name] {
			continue
		}
		seen[name] = true
		t := u.counts[name]
		if t == nil {
			out.known = false
			continue
		}
		// A temporary failure does not invalidate the earlier count.
		kept := t.of[m.Component()] == m && u.clock.Since(t.at) < usageKept*u.interval && !apierrors.IsForbidden(t.err)
		if t.err != nil && !kept {
			out.known = false
			out.forbidden = out.forbidden || apierrors.IsForbidden(t.err)
			out.failed = append(out.failed, brief.Clip(u.whyNot(name, t.err), maxEvent))
			continue
		}
		if t.of[m.Component()] != m {
			out.known = false
			continue
		}
		out.objects += t.objects[gateOf{m.Component(), f.Spec.Gate}]
		if out.at.IsZero() || t.at.Before(out.at) {
			out.at = t.at
		}
	}
	slices.Sort(out.failed)
	return out
}

func (u *usage) whyNot(name string, err error) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("%s may not be listed; %s", name, letCount(u.namespace, name))
	}
	return err.Error()
}

// countedStatus fills in how many objects use a feature. The status keeps its number until there is one for the present definition.
func (s *session) countedStatus(p *plan, f *v1alpha1.Feature, m *feature.Feature) {
	st := &f.Status
	if s.usage.interval <= 0 || len(m.Targets) == 0 {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionCounted)
		return
	}
	now := s.Clock.Now()
	set := func(status metav1.ConditionStatus, reason, message string) {
		setCondition(&st.Conditions, f.Generation, now, v1alpha1.ConditionCounted, status, reason, message)
	}
	n := s.usage.countedUse(p.model, m)
	before := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionCounted)
	switch {
	case n.failed != nil:
		if before != nil && before.Status == metav1.ConditionTrue {
			// Remove the outdated number. A number that another client has recorded since then stays.
			st.InUse, st.InUseTime = nil, nil
		}
		reason := v1alpha1.ReasonCountFailed
		if n.forbidden {
			reason = v1alpha1.ReasonCountForbidden
		}
		set(metav1.ConditionUnknown, reason, strings.Join(n.failed, "; "))
	case !n.known:
		if before == nil || before.Status != metav1.ConditionTrue {
			set(metav1.ConditionUnknown, v1alpha1.ReasonNotCounted, "the stored objects have not been counted yet")
		}
	default:
		set(metav1.ConditionTrue, v1alpha1.ReasonCounted, fmt.Sprintf("all stored objects are counted every %s", s.usage.interval))
		if t := st.InUseTime; t != nil && t.After(n.at) && !t.After(now) {
			return // another client has recorded a newer count
		}
		if st.InUse == nil || *st.InUse != n.objects || st.InUseTime == nil || n.at.Sub(st.InUseTime.Time) >= usageFresh {
			st.InUse, st.InUseTime = new(n.objects), new(metav1.NewTime(n.at.Truncate(time.Second)))
		}
	}
}

// gatedResources returns the resources to count for a component.
func (p *plan) gatedResources() *gatedBy {
	out := &gatedBy{model: p.model, resources: map[string]featureusage.Resource{}}
	used := map[string]bool{}
	for _, f := range p.model.Features() {
		for i := range f.Targets {
			used[crdName(f.Targets[i].Group, f.Targets[i].Resource)] = true
		}
	}
	for _, c := range p.gated.crds {
		if name := crdName(c.usage.Group, c.usage.Resource); used[name] {
			out.resources[name] = c.usage
		}
	}
	for _, r := range p.gated.others {
		if name := crdName(r.Group, r.Resource); used[name] {
			out.resources[name] = featureusage.Resource{Group: r.Group, Resource: r.Resource}
		}
	}
	return out
}

// mayList asks whether this role may list resources; the error is Forbidden if it may not. Trying would cause a refused request at
// each count, which would look like an attack in the audit log.
func (s *session) mayList(ctx context.Context, resources []featureusage.Resource) error {
	for _, r := range resources {
		review, err := s.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: r.Group, Resource: r.Resource}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if !review.Status.Allowed {
			return apierrors.NewForbidden(schema.GroupResource{Group: r.Group, Resource: r.Resource}, "", errors.New("the role has no right to list them"))
		}
	}
	return nil
}

// countUse counts until ctx is done.
func (s *session) countUse(ctx context.Context) error {
	c, err := cluster.For(s.Config)
	if err != nil {
		return err
	}
	s.usage.runScans(ctx, func(ctx context.Context, scan *featureusage.Scan) (*featureusage.Result, error) {
		scan.Cluster = c
		start := s.Clock.Now()
		var result *featureusage.Result
		err := s.mayList(ctx, scan.Resources)
		if err == nil {
			result, err = scan.Run(ctx)
		}
		switch {
		case errors.Is(err, context.Canceled):
		case err != nil:
			s.Metrics.countScan("failed", 0, s.Clock.Since(start))
		default:
			s.Metrics.countScan("done", result.Scanned, s.Clock.Since(start))
		}
		return result, err
	}, s.queue.Add)
	return nil
}
