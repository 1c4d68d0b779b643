package features

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/internal/metric"
)

// Metrics are the metrics of components and their features.
type Metrics struct {
	accepted, features *prometheus.GaugeVec
	writes, restores   *prometheus.CounterVec
	planning           prometheus.Histogram
	reviews            *prometheus.CounterVec
	reviewing          *prometheus.HistogramVec
	settings, skew     *prometheus.GaugeVec
	scans              *prometheus.CounterVec
	objects            prometheus.Counter
	scanning           prometheus.Histogram
	waiting            metric.Length
}

// NewMetrics registers the metrics of both roles.
func NewMetrics(r prometheus.Registerer) *Metrics {
	on := metric.On(r)
	m := &Metrics{
		accepted: on.Gauges("sluice_features_definition_errors", "Errors in the definitions of a component and its features. Only the process that works on it reports this.", "component"),
		settings: on.Gauges("sluice_features_settings_errors", "Errors in the settings of a component.", "component"),
		features: on.Gauges("sluice_features", "Features of a component by state: enabled, enforced, not_enforced.", "component", "state"),
		writes:   on.Counters("sluice_features_writes_total", "Writes of policies and webhooks that enforce features, by resource, verb (apply, delete) and outcome (done, failed).", "resource", "verb", "outcome"),
		restores: on.Counters("sluice_features_restored_total", "Policies and bindings that the controller restored after somebody else had changed or deleted them.", "component"),
		planning: on.NewHistogram(prometheus.HistogramOpts{Name: "sluice_features_plan_seconds", Help: "Time to compute the policies and webhooks for a component.", Buckets: []float64{.0001, .001, .01, .1, .5, 1, 5, 10}}),
		reviews:  on.Counters("sluice_feature_webhook_requests_total", "Answered reviews, by task (reject, warn, drop, settings) and by outcome: allowed, refused, warned, changed, error.", "ask", "outcome"),
		reviewing: on.Histograms("sluice_feature_webhook_duration_seconds", "Time of a review.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, 1}, "ask"),
		skew:     on.Gauges("sluice_features_skew", "Features of a component about which its processes, the settings and the API server disagree.", "component"),
		scans:    on.Counters("sluice_features_scans_total", "Scans of a resource for objects that use features, by outcome (done, failed).", "outcome"),
		objects:  on.NewCounter(prometheus.CounterOpts{Name: "sluice_features_scanned_objects_total", Help: "Objects that these scans have read."}),
		scanning: on.NewHistogram(prometheus.HistogramOpts{Name: "sluice_features_scan_seconds", Help: "Time of such a scan, pauses between pages included.", Buckets: []float64{.01, .1, 1, 10, 60, 300, 1800}}),
	}
	on.Follow("sluice_features_queue_length", "Components that are due and wait for a worker.", m.waiting.Value)
	return m
}

func (m *Metrics) countScan(outcome string, objects int64, d time.Duration) {
	m.scans.WithLabelValues(outcome).Inc()
	m.objects.Add(float64(objects))
	m.scanning.Observe(max(d, 0).Seconds())
}

func (m *Metrics) observePlan(d time.Duration) { m.planning.Observe(max(d, 0).Seconds()) }

func (m *Metrics) countWrite(resource, verb string, err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	m.writes.WithLabelValues(resource, verb, outcome).Inc()
}

func (m *Metrics) countRestore(component string) { m.restores.WithLabelValues(component).Inc() }

func (m *Metrics) setGauges(component string, p *plan, open, enforced, notEnforced, disagreements int) {
	m.skew.WithLabelValues(component).Set(float64(disagreements))
	m.accepted.WithLabelValues(component).Set(float64(errorsIn(p.definition)))
	m.settings.WithLabelValues(component).Set(float64(errorsIn(p.wrong)))
	m.features.WithLabelValues(component, "enabled").Set(float64(open))
	m.features.WithLabelValues(component, "enforced").Set(float64(enforced))
	m.features.WithLabelValues(component, "not_enforced").Set(float64(notEnforced))
}

func (m *Metrics) dropComponent(component string) {
	m.accepted.DeleteLabelValues(component)
	m.settings.DeleteLabelValues(component)
	m.skew.DeleteLabelValues(component)
	m.features.DeletePartialMatch(prometheus.Labels{"component": component})
}

func (m *Metrics) countReview(ask, outcome string, d time.Duration) {
	m.reviews.WithLabelValues(ask, outcome).Inc()
	m.reviewing.WithLabelValues(ask).Observe(max(d, 0).Seconds())
}
