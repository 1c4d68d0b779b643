package skew

// How old is a report, if clocks differ and the API server can be away? A watcher measures by its own clock,
// from the moment when it saw the last renewal.

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// Follower remembers the reports that a watcher has seen, and knows their age by the watcher's own clock. A renewal counts from the
// moment when it was seen, whatever time the process wrote, as with the leases of leader election
// (k8s.io/client-go/tools/leaderelection). While the API server does not answer, no process can renew a report. So the reports that
// counted at its last answer continue to count, and for one lease after it answers again.
//
// The zero value is ready for use. It is not safe for concurrent use.
type Follower struct {
	reports map[types.NamespacedName]*followed
	// contact is the time of the last answer of the API server; lost is set if it has not answered since.
	contact time.Time
	lost    bool
}

type followed struct {
	report *v1alpha1.FeatureReport
	// seen is when a renewal was seen; zero: none was, and the time that the process wrote counts.
	seen time.Time
}

// Put records the current state of a report. It does not copy the report, so the caller must not modify it afterwards.
func (f *Follower) Put(r *v1alpha1.FeatureReport, now time.Time) {
	if f.reports == nil {
		f.reports = map[types.NamespacedName]*followed{}
	}
	f.Asked(nil, now)
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	x := &followed{report: r}
	if before := f.reports[key]; before != nil {
		x.seen = before.seen
		if !before.report.Spec.RenewTime.Equal(&r.Spec.RenewTime) {
			x.seen = now
		}
	}
	f.reports[key] = x
}

// Delete records that a report was deleted.
func (f *Follower) Delete(namespace, name string) {
	delete(f.reports, types.NamespacedName{Namespace: namespace, Name: name})
}

// serverErrors is the first status of HTTP that says that the server failed.
const serverErrors = 500

// Asked records the outcome of a request to the API server. An error without an answer means that it cannot be reached.
func (f *Follower) Asked(err error, now time.Time) {
	var status apierrors.APIStatus
	if err != nil && (!errors.As(err, &status) || status.Status().Code >= serverErrors || apierrors.IsTooManyRequests(err)) {
		f.lost = true
		return
	}
	if f.lost {
		for _, x := range f.reports {
			if x.countsAt(f.contact) {
				x.seen = now
			}
		}
		f.lost = false
	}
	f.contact = now
}

// Lost reports whether the API server did not answer the last request.
func (f *Follower) Lost() bool { return f.lost }

// Counts reports whether a report counts by its age.
func (f *Follower) Counts(namespace, name string, now time.Time) bool {
	x := f.reports[types.NamespacedName{Namespace: namespace, Name: name}]
	return x != nil && x.countsAt(f.measuredAt(now))
}

// measuredAt is the time that ages are measured by.
func (f *Follower) measuredAt(now time.Time) time.Time {
	if f.lost {
		return f.contact
	}
	return now
}

func (x *followed) countsAt(now time.Time) bool {
	r := x.datedReport()
	return Counts(&r, now)
}

// datedReport is the report with the time at which its renewal was seen.
func (x *followed) datedReport() v1alpha1.FeatureReport {
	r := *x.report
	if !x.seen.IsZero() {
		r.Spec.RenewTime = metav1.NewTime(x.seen)
	}
	return r
}

// Of returns the reports of a component in no order, each with a RenewTime by the watcher's own clock, for [Live] and [Judge]. They
// share memory with those that were put in.
func (f *Follower) Of(component string, now time.Time) []v1alpha1.FeatureReport {
	var out []v1alpha1.FeatureReport
	for _, x := range f.reports {
		if x.report.Spec.Component != component {
			continue
		}
		r := x.datedReport()
		if f.lost && Counts(&r, f.contact) {
			r.Spec.RenewTime = metav1.NewTime(now)
		}
		out = append(out, r)
	}
	return out
}

// Next returns the report that expires first of those that do so after a time; nil if there is none.
func (f *Follower) Next(after time.Time) (next *v1alpha1.FeatureReport, expires time.Time) {
	for _, x := range f.reports {
		r := x.datedReport()
		if at := Expires(&r); at.After(after) && (next == nil || at.Before(expires)) {
			next, expires = x.report, at
		}
	}
	return next, expires
}
