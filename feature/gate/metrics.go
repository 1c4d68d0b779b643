package gate

// What does a monitoring system see? The stage and state of each feature, as component-base names them, and
// the features whose settings wait for a restart of the process.

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/feature/skew"
)

// RestartMetric is the name of a metric about features that may need a restart of the process (see [feature.Model.Restart]), and
// those that require one. It is 1 for a feature whose settings wait for a restart, and 0 for the others.
const RestartMetric = "sluice_feature_restart_pending"

// Collector returns the metric kubernetes_feature_enabled for a registry of its own choice, with the stages as component-base
// writes them, and [RestartMetric]. Component-base's own registry has the former anyway, from [Gates.Begin] on: register
// [Gates.RestartCollector] there.
func (g *Gates) Collector() prometheus.Collector { return collector{gates: g, enabled: true} }

// RestartCollector returns [RestartMetric] alone.
func (g *Gates) RestartCollector() prometheus.Collector { return collector{gates: g} }

type collector struct {
	gates   *Gates
	enabled bool
}

var (
	enabledMetric = prometheus.NewDesc(skew.Metric,
		"This metric tells the stage of a feature, and whether it is on.", []string{"name", "stage"}, nil)
	restartMetric = prometheus.NewDesc(RestartMetric,
		"Whether the settings of a feature take a restart of this process.", []string{"component", "name"}, nil)
)

// Describe implements [prometheus.Collector].
func (c collector) Describe(to chan<- *prometheus.Desc) {
	to <- restartMetric
	if c.enabled {
		to <- enabledMetric
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	st := c.gates.state.Load()
	gauge := func(desc *prometheus.Desc, on bool, labels ...string) {
		value := 0.0
		if on {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	restart := map[string]bool{}
	for _, gate := range st.model.Restart() {
		restart[gate] = true
	}
	for _, s := range st.effective.All() {
		gate := s.Feature.Spec.Gate
		if pending := st.pendingValue(gate); pending != nil || restart[gate] {
			gauge(restartMetric, pending != nil, c.gates.declaration.Name, gate)
		}
		if c.enabled && s.Feature.Entry >= 0 {
			gauge(enabledMetric, s.Open, gate, string(featureSpec(s.Feature.Stage, false, false).PreRelease))
		}
	}
}

// pendingValue returns the value that a feature will have when the process starts the next time; nil if that is no other.
func (st *state) pendingValue(gate string) *bool {
	ready, _ := st.ready.State(gate)
	will, _ := st.settings.State(gate)
	if ready.Open == will.Open {
		return nil
	}
	return &will.Open
}
