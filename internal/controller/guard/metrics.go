package guard

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/internal/metric"
)

// Metrics are those of the guard.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bypasses *prometheus.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	on := metric.On(reg)
	return &Metrics{
		requests: on.Counters("sluice_crd_guard_requests_total", "Changes of CRDs that the guard has judged, by operation and by outcome: untouched, safe, warned, refused, bypassed, busy, error.", "operation", "outcome"),
		duration: on.Histograms("sluice_crd_guard_duration_seconds", "Time to judge a change, by outcome.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "outcome"),
		bypasses: on.Counters("sluice_crd_guard_bypasses_total", "Unsafe changes that the guard allowed because of an annotation and a permission.", "operation"),
	}
}

func (m *Metrics) observeRequest(operation, outcome string, d time.Duration) {
	m.requests.WithLabelValues(knownOperation(operation), outcome).Inc()
	m.duration.WithLabelValues(outcome).Observe(max(d, 0).Seconds())
}

func (m *Metrics) countBypass(operation string) {
	m.bypasses.WithLabelValues(knownOperation(operation)).Inc()
}

// knownOperation keeps invented operations of callers out of the labels.
func knownOperation(operation string) string {
	switch operation {
	case "UPDATE", "DELETE":
		return strings.ToLower(operation)
	}
	return "other"
}
