package skew

// What does a process run with that writes no report? Programs with a gate of k8s.io/component-base tell it in
// a metric.

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sluice.dev/api/v1alpha1"
)

// Metric is the name of the metric that processes with a gate of k8s.io/component-base expose.
const Metric = "kubernetes_feature_enabled"

// FromMetrics reads, from metrics in Prometheus' text format, which gates a process runs with: those of the metric
// kubernetes_feature_enabled, sorted, AllAlpha and AllBeta left out. Other metrics are passed over. It is an error if the text
// cannot be read or has no such metric: the process exposes none then.
func FromMetrics(text []byte) ([]v1alpha1.ReportedFeature, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("metrics that cannot be read: %w", err)
	}
	family := families[Metric]
	if family == nil {
		return nil, fmt.Errorf("there is no metric %s", Metric)
	}
	var out []v1alpha1.ReportedFeature
	for _, m := range family.GetMetric() {
		gate := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == "name" {
				gate = l.GetValue()
			}
		}
		if gate == "" || gate == "AllAlpha" || gate == "AllBeta" {
			continue
		}
		on := m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		out = append(out, v1alpha1.ReportedFeature{Gate: gate, Enabled: on != 0})
	}
	// A gate whose stage changed while the process ran occurs once for each stage. It is on if it is on in one of them.
	slices.SortFunc(out, func(a, b v1alpha1.ReportedFeature) int {
		if a.Gate == b.Gate && a.Enabled != b.Enabled {
			if a.Enabled {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Gate, b.Gate)
	})
	return slices.CompactFunc(out, func(a, b v1alpha1.ReportedFeature) bool { return a.Gate == b.Gate }), nil
}
