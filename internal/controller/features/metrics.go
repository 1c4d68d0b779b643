package features

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/internal/fairqueue"
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
	waiting            fairqueue.Length
}

// NewMetrics registers the metrics of both roles.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		accepted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_features_definition_errors", Help: "Errors in the definitions of a component and its features. Only the process that works on it reports this.",
		}, []string{"component"}),
		settings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_features_settings_errors", Help: "Errors in the settings of a component.",
		}, []string{"component"}),
		features: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_features", Help: "Features of a component by state: enabled, enforced, not_enforced.",
		}, []string{"component", "state"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_features_writes_total", Help: "Writes of policies and webhooks that enforce features, by resource, verb (apply, delete) and outcome (done, failed).",
		}, []string{"resource", "verb", "outcome"}),
		restores: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_features_restored_total", Help: "Policies and bindings that the controller restored after somebody else had changed or deleted them.",
		}, []string{"component"}),
		planning: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_features_plan_seconds", Help: "Time to compute the policies and webhooks for a component.",
			Buckets: []float64{.0001, .001, .01, .1, .5, 1, 5, 10},
		}),
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_feature_webhook_requests_total", Help: "Answered reviews, by task (reject, warn, drop, settings) and by outcome: allowed, refused, warned, changed, error.",
		}, []string{"ask", "outcome"}),
		reviewing: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_feature_webhook_duration_seconds", Help: "Time of a review.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, 1},
		}, []string{"ask"}),
	}
	m.skew = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_features_skew", Help: "Features of a component about which its processes, the settings and the API server disagree.",
	}, []string{"component"})
	m.scans = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_features_scans_total", Help: "Scans of a resource for objects that use features, by outcome (done, failed).",
	}, []string{"outcome"})
	m.objects = prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_features_scanned_objects_total", Help: "Objects that these scans have read."})
	m.scanning = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "sluice_features_scan_seconds", Help: "Time of such a scan, pauses between pages included.", Buckets: []float64{.01, .1, 1, 10, 60, 300, 1800},
	})
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_features_queue_length", Help: "Components that are due and wait for a worker.",
	}, m.waiting.Value))
	r.MustRegister(m.scans, m.objects, m.scanning, m.skew, m.accepted, m.settings, m.features, m.writes, m.restores, m.planning, m.reviews, m.reviewing)
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
