package skew

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// Follower remembers the reports that somebody who watches them has seen, and tells how old they are by the watcher's own
// clock: a renewal that was seen counts from then on, whatever time the process wrote, as with the leases of leader election
// (k8s.io/client-go/tools/leaderelection). While the API server does not answer, no process can renew anything: the reports
// that counted when it answered last go on to count then, and for one lease after it answers again.
//
// The zero value is ready for use. It is not safe for concurrent use.
type Follower struct {
	reports map[types.NamespacedName]*followed
	// contact is when something was heard of the API server last; lost tells that it does not answer since.
	contact time.Time
	lost    bool
}

type followed struct {
	report *v1alpha1.FeatureReport
	// seen is when a renewal was seen; zero: none was, and the time that the process wrote counts.
	seen time.Time
}

// Put notes a report as it is now. It is not copied, and must not be modified afterwards.
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

// Delete notes that a report is gone.
func (f *Follower) Delete(namespace, name string) {
	delete(f.reports, types.NamespacedName{Namespace: namespace, Name: name})
}

// serverErrors is the first status of HTTP that says that the server failed.
const serverErrors = 500

// Asked notes what came of a request to the API server: an error that is no answer of it means that it cannot be reached.
func (f *Follower) Asked(err error, now time.Time) {
	var status apierrors.APIStatus
	if err != nil && (!errors.As(err, &status) || status.Status().Code >= serverErrors || apierrors.IsTooManyRequests(err)) {
		f.lost = true
		return
	}
	if f.lost {
		for _, x := range f.reports {
			if x.counts(f.contact) {
				x.seen = now
			}
		}
		f.lost = false
	}
	f.contact = now
}

// Lost tells whether the API server did not answer when it was asked last.
func (f *Follower) Lost() bool { return f.lost }

// Counts tells whether a report counts, as far as its age goes.
func (f *Follower) Counts(namespace, name string, now time.Time) bool {
	x := f.reports[types.NamespacedName{Namespace: namespace, Name: name}]
	return x != nil && x.counts(f.at(now))
}

// at is the time by which ages are told.
func (f *Follower) at(now time.Time) time.Time {
	if f.lost {
		return f.contact
	}
	return now
}

func (x *followed) counts(now time.Time) bool {
	r := x.dated()
	return Counts(&r, now)
}

// dated is the report with the time at which its renewal was seen.
func (x *followed) dated() v1alpha1.FeatureReport {
	r := *x.report
	if !x.seen.IsZero() {
		r.Spec.RenewTime = metav1.NewTime(x.seen)
	}
	return r
}

// Of returns the reports of a component in no order, each with a RenewTime by the watcher's own clock, as [Live] and [Judge]
// take them. They share what they hold with those that were put in.
func (f *Follower) Of(component string, now time.Time) []v1alpha1.FeatureReport {
	var out []v1alpha1.FeatureReport
	for _, x := range f.reports {
		if x.report.Spec.Component != component {
			continue
		}
		r := x.dated()
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
		r := x.dated()
		if at := Expires(&r); at.After(after) && (next == nil || at.Before(expires)) {
			next, expires = x.report, at
		}
	}
	return next, expires
}
