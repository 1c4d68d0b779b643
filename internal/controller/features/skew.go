package features

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/skew"
)

const reportsResource = "featurereports"

func indexReport(o any) ([]string, error) {
	if r, ok := o.(*v1alpha1.FeatureReport); ok {
		return []string{r.Spec.Component}, nil
	}
	return nil, nil
}

// listenToReports has changes of reports told. One that is only renewed in time says nothing new.
func (w *world) listenToReports() error {
	tell := func(o any) {
		if r, ok := last(o).(*v1alpha1.FeatureReport); ok {
			w.changed(r.Spec.Component)
		}
	}
	_, err := w.reports.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(a, b any) {
			x, okX := a.(*v1alpha1.FeatureReport)
			y, okY := b.(*v1alpha1.FeatureReport)
			if okX && okY && x.UID == y.UID && x.Generation == y.Generation {
				return
			}
			if okX && okY && x.UID == y.UID && w.renewed(x, y) {
				return
			}
			tell(a)
			tell(b)
		},
	})
	return err
}

// renewed tells whether a report that still counted was renewed, and nothing else.
func (w *world) renewed(before, after *v1alpha1.FeatureReport) bool {
	b := *after
	b.Spec.RenewTime = before.Spec.RenewTime
	now := w.Clock.Now()
	return skew.Counts(before, now) && skew.Counts(after, now) && equality.Semantic.DeepEqual(before.Spec, b.Spec)
}

func (w *world) reportsOf(component string) []v1alpha1.FeatureReport {
	list, err := w.reports.GetIndexer().ByIndex(byComponent, component)
	if err != nil {
		return nil // there is no such index, which a test would have told
	}
	out := make([]v1alpha1.FeatureReport, 0, len(list))
	for _, o := range list {
		if r, ok := o.(*v1alpha1.FeatureReport); ok {
			out = append(out, *r)
		}
	}
	return out
}

// runtime is what is known of the processes of a component.
func (w *world) runtime(m *feature.Model) feature.Runtime {
	return skew.Runtime(skew.Live(m, w.reportsOf(m.Component()), w.Clock.Now()))
}

// skewed says whether the processes of a component agree, with each other, with the settings and with what is enforced.
func (s *session) skewed(p *plan, done *outcome) *skew.Result {
	in := &skew.Input{
		Now: s.Clock.Now(), Model: p.model, Settings: p.settings, SettingsVersion: p.version, SettingsTime: p.since, Reports: s.reportsOf(p.component.Name),
	}
	if p.live && p.current.exists {
		in.SettingsVersion = p.current.version
	}
	in.Enforced = p.enforcement(done)
	return skew.Judge(in)
}

// tellSkew puts the condition into a list.
func (s *session) tellSkew(list *[]metav1.Condition, generation int64, c metav1.Condition) {
	setCondition(list, generation, s.Clock.Now(), v1alpha1.ConditionSkew, cmp.Or(c.Status, metav1.ConditionUnknown), cmp.Or(c.Reason, v1alpha1.ReasonNoReports), c.Message)
}
