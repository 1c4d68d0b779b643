package process

// How does the cluster know what a process runs with? It keeps a FeatureReport that expires soon after the
// process has ended. Most writes are renewals, which patch the time only.

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/skew"
)

// ComponentLabel is the label of reports with the name of the component.
const ComponentLabel = "feature.sluice.dev/component"

const (
	fieldManager = "sluice-feature-report"
	// retry is when a report that could not be written is tried again; goodbye is how long its deletion may take at the end.
	retry   = 2 * time.Second
	goodbye = 5 * time.Second
)

var reports = v1alpha1.SchemeGroupVersion.WithResource("featurereports")

// keepReporting writes the report whenever it changes, and renews it, until ctx ends. It also checks the file and the reports of others,
// because both may change without an event.
func (p *Process) keepReporting(ctx context.Context) {
	tick := p.options.Clock.NewTicker(p.options.Renew)
	defer tick.Stop()
	w := &writer{process: p}
	for {
		again := w.writeReport(ctx)
		var retry, expires <-chan time.Time
		if again > 0 {
			retry = p.options.Clock.After(again)
		}
		if next := p.untilExpiry(); next > 0 {
			expires = p.options.Clock.After(next)
		}
		select {
		case <-ctx.Done():
			w.removeReport(context.WithoutCancel(ctx))
			return
		case <-p.poke:
		case <-retry:
		case <-expires:
			p.weighReports()
		case <-tick.C():
			if p.options.File != "" {
				p.readFile()
			}
			p.weighReports()
		}
	}
}

// writer writes one report.
type writer struct {
	process *Process
	last    *v1alpha1.FeatureReportSpec // nil if no written report is known
	sent    bool                        // a write was sent: the report may be there, whatever was answered
	stored  metav1.ObjectMeta           // the metadata of the last written report
	failed  string
}

// writeReport writes the report if it has changed or needs a renewal. It returns when to try again; 0: not before something changes.
func (w *writer) writeReport(ctx context.Context) time.Duration {
	p := w.process
	if p.options.NoReport {
		return 0
	}
	spec := p.reportSpec()
	now := p.options.Clock.Now()
	same := false
	if w.last != nil {
		before := *w.last
		before.RenewTime = spec.RenewTime
		same = equality.Semantic.DeepEqual(before, spec)
		if same && now.Sub(w.last.RenewTime.Time) < p.options.Renew-time.Second/2 {
			return 0
		}
	}
	// The end of the process does not cut the request short: the server may store the report all the same, after its deletion even.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(p.options.Renew, retry))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(goodbye, cancel) })()
	w.sent = true
	err := errRenew
	if same {
		err = w.renewReport(asking, &spec)
	}
	if errors.Is(err, errRenew) {
		err = w.applyReport(asking, &spec)
	}
	if ctx.Err() == nil {
		p.mu.Lock()
		p.follower.Asked(err, p.options.Clock.Now())
		p.mu.Unlock()
	}
	switch {
	case err == nil:
		w.last, w.failed = &spec, ""
		return 0
	case ctx.Err() != nil:
		return 0
	case apierrors.IsNotFound(err):
		// The next renewal tries again: the kind may be installed by then.
		err = errNoReports
	}
	w.last = nil
	if text := err.Error(); text != w.failed {
		p.options.Logger.Error(err, "the features of this process cannot be reported")
		w.failed = text
	}
	if err == errNoReports { //nolint:errorlint // it is ours
		return 0
	}
	return retry
}

// removeReport deletes the report of a process that ends.
func (w *writer) removeReport(ctx context.Context) {
	p := w.process
	if !w.sent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	err := p.dynamic.Resource(reports).Namespace(p.options.Namespace).Delete(ctx, p.Name(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		p.options.Logger.Error(err, "the report of this process stays until it expires")
	}
}

// reportSpec is the present report.
func (p *Process) reportSpec() v1alpha1.FeatureReportSpec {
	const leases = 3 // a report is renewed this often before it expires
	o := &p.options
	s := p.reporter()
	s.Process, s.Instance, s.Release, s.Revision = o.Process, o.Instance, o.Release, o.Revision
	s.StartTime = &p.started
	s.RenewTime = metav1.NewTime(o.Clock.Now())
	s.LeaseDurationSeconds = int32(min(leases*o.Renew, time.Hour) / time.Second) //nolint:gosec // 3600 at most
	return s
}

// errRenew means that the stored report is missing, or differs from the last written one.
var errRenew = errors.New("the report is another than before")

// renewReport writes the time and nothing else, if the report is as it was written last.
func (w *writer) renewReport(ctx context.Context, spec *v1alpha1.FeatureReportSpec) error {
	p := w.process
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.stored.UID, "resourceVersion": w.stored.ResourceVersion}, "spec": map[string]any{"renewTime": spec.RenewTime},
	})
	if err != nil {
		return err
	}
	m, err := p.metadata.Resource(reports).Namespace(p.options.Namespace).Patch(ctx, p.Name(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return errRenew
	case err == nil:
		w.stored = m.ObjectMeta
	}
	return err
}

// applyReport writes the report by server-side apply: one request, whether it is there or not.
func (w *writer) applyReport(ctx context.Context, spec *v1alpha1.FeatureReportSpec) error {
	p := w.process
	r := &v1alpha1.FeatureReport{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "FeatureReport"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.options.Namespace, Name: p.Name(), Labels: map[string]string{ComponentLabel: spec.Component},
		},
		Spec: *spec,
	}
	if p.options.Owner != nil {
		r.OwnerReferences = []metav1.OwnerReference{*p.options.Owner}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return err
	}
	u, err := p.dynamic.Resource(reports).Namespace(p.options.Namespace).Apply(ctx, p.Name(), &unstructured.Unstructured{Object: object},
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err == nil {
		w.stored = metav1.ObjectMeta{UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}
	}
	return err
}

// weighReports decides again what other processes report: some may have expired.
func (p *Process) weighReports() {
	if !p.needsOthers() {
		return
	}
	p.weighing.Lock()
	defer p.weighing.Unlock()
	p.mu.Lock()
	now := p.options.Clock.Now()
	list := p.follower.Of(p.gates.Model().Component(), now)
	p.mu.Unlock()
	p.gates.SetRuntime(skew.Runtime(skew.Live(p.gates.Model(), list, now)))
}

// untilExpiry returns in how long the first report of another process expires; 0: none does.
func (p *Process) untilExpiry() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	next, at := p.follower.Next(now)
	if next == nil {
		return 0
	}
	return at.Sub(now)
}
