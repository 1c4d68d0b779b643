package gate

// What does a process tell the cluster about its features? What it would do if all other processes agreed, and
// what is wrong with its settings. Package skew compares such reports.

import (
	"fmt"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
)

// Report returns the report of the process, see [v1alpha1.FeatureReportSpec], with SettingsVersion, SettingsErrors and Features.
func (g *Gates) Report() v1alpha1.FeatureReportSpec {
	g.state.Load().watched.All() // for observers: a report reads all features
	return g.reportSpec()
}

// Reporter returns a function that makes reports for others than the program itself: [Gates.Observe] ignores its reads.
func (g *Gates) Reporter() func() v1alpha1.FeatureReportSpec { return g.reportSpec }

// reportSpec makes the report. Its parts are bounded, since the API server keeps it in etcd: 20 errors, and
// 500 bytes of each text.
func (g *Gates) reportSpec() v1alpha1.FeatureReportSpec {
	const most, longest = 20, 500
	st := g.state.Load()
	out := v1alpha1.FeatureReportSpec{Component: g.declaration.Name, SettingsVersion: st.version}
	for i, p := range st.problems {
		if more := len(st.problems) - i; i == most-1 && more > 1 {
			out.SettingsErrors = append(out.SettingsErrors, fmt.Sprintf("and %d more", more))
			break
		}
		out.SettingsErrors = append(out.SettingsErrors, brief.Clip(p.String(), longest))
	}
	for _, s := range st.ready.All() {
		gate := s.Feature.Spec.Gate
		out.Features = append(out.Features, v1alpha1.ReportedFeature{Gate: gate, Enabled: s.Open, Pending: st.pendingValue(gate), Why: brief.Clip(s.Reason, longest)})
	}
	return out
}
