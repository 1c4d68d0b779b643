// Package skew finds out whether the processes of a component agree about its features: with each other, with the settings, and
// with the API server's enforcement.
//
// It takes values and returns values. Reports come from FeatureReport objects, which package feature/process writes, or from the
// metric kubernetes_feature_enabled ([FromMetrics]). [Runtime] turns them into the input of [feature.Model.Resolve] for features
// that name required processes. [Judge] makes conditions of everything. Equal input gives equal output, in any order of the
// reports.
//
// It does not decide what follows from a disagreement: the writers of conditions, events and metrics do.
package skew

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Grace is the time after a change of the settings in which a process may still report the previous ones.
const Grace = 5 * time.Second

// Input is the knowledge at one moment.
type Input struct {
	// Now is the time by which reports have expired or not.
	Now time.Time
	// Model is the component with its features.
	Model *feature.Model
	// Settings are those in force; nil says nothing, as it does to [feature.Model.Resolve].
	Settings *feature.Settings
	// SettingsVersion is the resourceVersion of the ConfigMap that Settings were read from; empty if there is none.
	SettingsVersion string
	// SettingsTime is since when they have been in force; zero stands for long ago. Within [Grace] of it, a process that reports another
	// SettingsVersion does not count as a disagreement.
	SettingsTime time.Time
	// Reports are sorted out here: those of other components or namespaces ([Namespaces]), and expired ones, count for nothing.
	Reports []v1alpha1.FeatureReport
	// Enforced has the enforced state of features that gate parts; other gates are ignored.
	Enforced []Enforced
}

// Enforced is the enforced state of a feature.
type Enforced struct {
	Gate string
	// Open is true if uses of the feature pass.
	Open bool
	// By names what enforces it, for example policy features.demo.widgets.demo.dev.reject.v1.
	By string
}

// Result is the result of [Judge].
type Result struct {
	// States are the states in effect, with features that wait for processes closed.
	States *feature.States
	// Component is the condition of the Component, of type [v1alpha1.ConditionSkew]. ObservedGeneration and
	// LastTransitionTime are for the caller to fill in (meta.SetStatusCondition does the latter).
	Component metav1.Condition
	// Features are the same for each feature of the model, by gate.
	Features map[string]metav1.Condition
	// Disagreements are in the order of the gates; nil if all agree.
	Disagreements []Disagreement
	// Live are the reports that count, sorted by process, instance, namespace and name.
	Live []v1alpha1.FeatureReport
	// Again is the time for which the result is valid if nothing changes: then a report expires, or the grace of a change ends.
	// Zero means for ever.
	Again time.Duration
}

// Namespaces returns the namespaces whose reports count for a component: those that it names, or else that of its ConfigMap.
// Reports in other namespaces have no effect. If a component names neither, no reports count.
func Namespaces(m *feature.Model) []string {
	switch spec := m.Spec(); {
	case len(spec.Namespaces) > 0:
		return spec.Namespaces
	case spec.ConfigMap != nil:
		return []string{spec.ConfigMap.Namespace}
	}
	return nil
}

// Live returns the reports that count for a component at a time: those in its namespaces ([Namespaces]) that have not expired
// ([Counts]), and only the newest of each instance. They are sorted by process, instance, namespace and name.
func Live(m *feature.Model, reports []v1alpha1.FeatureReport, now time.Time) []v1alpha1.FeatureReport {
	namespaces := Namespaces(m)
	var out []v1alpha1.FeatureReport
	for i := range reports {
		r := &reports[i]
		if r.Spec.Component == m.Component() && slices.Contains(namespaces, r.Namespace) && Counts(r, now) {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.FeatureReport) int {
		return cmp.Or(cmp.Compare(a.Spec.Process, b.Spec.Process), cmp.Compare(a.Spec.Instance, b.Spec.Instance), cmp.Compare(a.Namespace, b.Namespace),
			b.Spec.RenewTime.Compare(a.Spec.RenewTime.Time), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(out, func(a, b v1alpha1.FeatureReport) bool {
		return a.Spec.Process == b.Spec.Process && a.Spec.Instance == b.Spec.Instance && a.Namespace == b.Namespace
	})
}

// Counts reports whether a report counts at a time: it has not expired, and its renewal is not further in the future than a report
// is valid. Otherwise such a report would count for ever, even if its process ends.
func Counts(r *v1alpha1.FeatureReport, now time.Time) bool {
	lease := time.Duration(r.Spec.LeaseDurationSeconds) * time.Second
	return now.Before(Expires(r)) && !r.Spec.RenewTime.After(now.Add(lease))
}

// Expires is when a report ceases to count.
func Expires(r *v1alpha1.FeatureReport) time.Time {
	return r.Spec.RenewTime.Add(time.Duration(r.Spec.LeaseDurationSeconds) * time.Second)
}

// Runtime returns the state of processes for [feature.Model.Resolve]: a process has a feature on if each of its instances does. The
// reports are those of [Live].
func Runtime(live []v1alpha1.FeatureReport) feature.Runtime {
	rt := feature.Runtime{Processes: map[string]map[string]bool{}}
	instances, on := map[string]int{}, map[string]map[string]int{}
	for i := range live {
		s := &live[i].Spec
		instances[s.Process]++
		if on[s.Process] == nil {
			on[s.Process] = map[string]int{}
		}
		for _, f := range s.Features {
			if f.Enabled {
				on[s.Process][f.Gate]++
			}
		}
	}
	for process, n := range instances {
		gates := map[string]bool{}
		for gate, k := range on[process] {
			gates[gate] = k == n
		}
		rt.Processes[process] = gates
	}
	return rt
}
