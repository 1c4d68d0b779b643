package skew

// What does a process run with that writes no report? Programs with a gate of k8s.io/component-base tell it in
// a metric.

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
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
	on := map[string]bool{}
	for _, m := range family.GetMetric() {
		gate := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == "name" {
				gate = l.GetValue()
			}
		}
		if gate == "" || gate == feature.AllAlpha || gate == feature.AllBeta {
			continue
		}
		// A gate whose stage changed while the process ran occurs once for each stage. It is on if it is on in one of them.
		on[gate] = on[gate] || m.GetGauge().GetValue()+m.GetUntyped().GetValue() != 0
	}
	var out []v1alpha1.ReportedFeature
	for _, gate := range slices.Sorted(maps.Keys(on)) {
		out = append(out, v1alpha1.ReportedFeature{Gate: gate, Enabled: on[gate]})
	}
	return out, nil
}
