package resolution

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of the adapters and the lifecycle controller of a process.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	retries  *prometheus.CounterVec
	writes   *prometheus.CounterVec
}

// Phases of a request, as the label phase has them.
const (
	phaseQueue   = "queue"
	phaseResolve = "resolve"
	phaseWrite   = "write"
	phaseTotal   = "total"
)

// NewMetrics makes the metrics and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_resolution_requests_total", Help: "Requests that ended, by resolver and by outcome: succeeded, failed, timed_out, canceled; reason is the exact one.",
		}, []string{"resolver", "outcome", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_resolution_duration_seconds", Help: "Time that requests spent, by phase: queue (from creation), resolve, write, total.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"resolver", "phase"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_resolution_bytes_total", Help: "Bytes of content that were written to requests.",
		}, []string{"resolver"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_resolution_in_flight", Help: "Requests that are being resolved now.",
		}, []string{"resolver"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_resolution_write_retries_total", Help: "Status writes that were tried again, by cause: conflict, unavailable.",
		}, []string{"resolver", "cause"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_resolution_writes_total", Help: "Calls to the API server that write, by what they write: result, in_progress, timed_out, refused, finished, deleted.",
		}, []string{"what"}),
	}
	reg.MustRegister(m.requests, m.duration, m.bytes, m.inFlight, m.retries, m.writes)
	return m
}

func (m *Metrics) observe(resolver, phase string, d time.Duration) {
	m.duration.WithLabelValues(resolver, phase).Observe(max(d, 0).Seconds())
}
