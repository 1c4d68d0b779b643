package features

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/skew"
)

// A feature may need processes that have it on. Each process reports in a FeatureReport, which it renews. A report that was not
// renewed in time does not count, unless the API server is what does not answer: then its age says nothing, and old reports count on.

const (
	// contactEvery is the interval of checks for reports that are about to expire. contactAhead is the time before the expiry when the
	// API server is asked for the report. Its answer shows whether the process or the API server is gone.
	contactEvery, contactAhead = 500 * time.Millisecond, time.Second
)

// listenToReports calls changed for changes of reports. A renewal of the time alone is no change.
func (w *world) listenToReports() error {
	_, err := w.reports.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.recordReport(nil, o) }, UpdateFunc: w.recordReport,
		DeleteFunc: func(o any) {
			if r, ok := lastObject(o).(*v1alpha1.FeatureReport); ok {
				w.reported.Lock()
				w.follower.Delete(r.Namespace, r.Name)
				w.reported.Unlock()
				w.changed(r.Spec.Component)
			}
		},
	})
	return err
}

// recordReport records a report, and its earlier state.
//
// A report that did not count before, because it was too old, is a change too when it is renewed.
func (w *world) recordReport(before, after any) {
	r, ok := after.(*v1alpha1.FeatureReport)
	if !ok {
		return
	}
	now := w.Clock.Now()
	w.reported.Lock()
	counted := w.follower.Counts(r.Namespace, r.Name, now)
	w.follower.Put(r, now)
	w.reported.Unlock()
	if old, ok := before.(*v1alpha1.FeatureReport); ok {
		renewed := *r
		renewed.Spec.RenewTime = old.Spec.RenewTime
		if counted && equality.Semantic.DeepEqual(old.Spec, renewed.Spec) {
			return
		}
		w.changed(old.Spec.Component)
	}
	w.changed(r.Spec.Component)
}

// keepContact asks the API server for reports that are about to expire, until ctx is done. One question at a time is enough to find
// out whether the API server answers.
func (w *world) keepContact(ctx context.Context) {
	tick := w.Clock.NewTicker(contactEvery)
	defer tick.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		now := w.Clock.Now()
		w.reported.Lock()
		lost := w.follower.Lost()
		if lost {
			asked = time.Time{} // any report can be used
		}
		next, expires := w.follower.Next(asked)
		w.reported.Unlock()
		switch {
		case next == nil || !lost && expires.After(now.Add(contactAhead)):
		case !lost && !expires.After(now):
			asked = now // it was out of date when it was seen first
		default:
			asked = now.Add(contactAhead)
			w.refreshReport(ctx, next)
		}
	}
}

// refreshReport asks for one report.
func (w *world) refreshReport(ctx context.Context, r *v1alpha1.FeatureReport) {
	asking, cancel := context.WithTimeout(ctx, contactAhead-contactAhead/10)
	defer cancel()
	fresh := &v1alpha1.FeatureReport{}
	err := w.api.rest.Get().Resource(reportsResource).Namespace(r.Namespace).Name(r.Name).MaxRetries(0).Do(asking).Into(fresh)
	if ctx.Err() != nil {
		return
	}
	now := w.Clock.Now()
	w.reported.Lock()
	lost := w.follower.Lost()
	w.follower.Asked(err, now)
	if err == nil && fresh.UID == r.UID {
		w.follower.Put(fresh, now) // the watch may be behind
	}
	found := w.follower.Lost()
	w.reported.Unlock()
	if lost != found {
		w.Log.Info("what processes report is not judged by its age while the API server does not answer", "answers", !found)
	}
}

// untilExpiry returns in how long the first report expires of those that count for a component; 0: none does.
func (w *world) untilExpiry(m *feature.Model) (first time.Duration) {
	now := w.Clock.Now()
	for _, r := range skew.Live(m, w.reportsOf(m.Component()), now) {
		first = shorterWait(first, max(skew.Expires(&r).Sub(now), time.Millisecond))
	}
	return first
}

// judgeSkew returns the condition Skew: whether the processes of a component agree with each other, with the settings and with what is
// enforced.
func (s *session) judgeSkew(ctx context.Context, p *plan, done *outcome) *skew.Result {
	in := &skew.Input{
		Now: s.Clock.Now(), Model: p.model, Settings: p.settings, SettingsVersion: p.version, SettingsTime: p.since, Reports: s.reportsOf(p.component.Name),
	}
	if p.live && p.current.exists {
		in.SettingsVersion = p.current.version
	}
	before, err := p.enforcedAsBefore(ctx, done)
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("what a policy that is as it was before makes of the settings is not known", "component", p.component.Name, "error", err)
	}
	in.Enforced = append(p.enforcedNow(done), before...)
	return skew.Judge(in)
}
