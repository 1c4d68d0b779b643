package resolution

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice.dev/internal/metric"
	"sluice.dev/resolve"
)

// Metrics are those of the adapters and the lifecycle controller of a process.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	placed   *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	retries  *prometheus.CounterVec
	writes   *prometheus.CounterVec
	// waiting is the length of the queue.
	waiting metric.Length

	fetches  *prometheus.HistogramVec
	cache    *prometheus.CounterVec
	shared   *prometheus.CounterVec
	fetching *prometheus.GaugeVec
	fetched  *prometheus.CounterVec
	again    *prometheus.CounterVec
	// full is 1 while the cache of the resolver git cannot be used.
	full prometheus.Gauge
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
	on := metric.On(reg)
	m := &Metrics{
		requests: on.Counters("sluice_resolution_requests_total", "Requests that ended, by resolver, by outcome (succeeded, failed, timed_out, canceled) and by exact reason.", "resolver", "outcome", "reason"),
		duration: on.Histograms("sluice_resolution_duration_seconds", "Time of requests, by phase: queue (from creation), resolve, write, total.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}, "resolver", "phase"),
		bytes:    on.Counters("sluice_resolution_bytes_total", "Bytes of content written to requests.", "resolver"),
		placed:   on.Counters("sluice_resolution_contents_total", "Contents of successful requests, by place: request, gzip (compressed in the request), store.", "resolver", "place"),
		inFlight: on.Gauges("sluice_resolution_in_flight", "Requests that are being resolved.", "resolver"),
		retries:  on.Counters("sluice_resolution_write_retries_total", "Retries of status writes, by cause: conflict, forbidden, unavailable.", "resolver", "cause"),
		writes:   on.Counters("sluice_resolution_writes_total", "Writes to the API server, by content: result, in_progress, timed_out, refused, finished, deleted.", "what"),
		// The rest is of the framework below the adapter, where several requests share one fetch.
		fetches: on.Histograms("sluice_resolution_fetch_duration_seconds", "Time of fetches, by phase: queue, fetch, and phases of the resolver.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}, "resolver", "phase"),
		cache:    on.Counters("sluice_resolution_cache_total", "Events of the cache: hit, miss, stored, evicted.", "resolver", "event"),
		shared:   on.Counters("sluice_resolution_shared_total", "Requests that waited for a fetch that another request had begun.", "resolver"),
		fetching: on.Gauges("sluice_resolution_fetches_in_flight", "Fetches that are running.", "resolver"),
		fetched:  on.Counters("sluice_resolution_fetched_bytes_total", "Bytes of content that fetches returned.", "resolver"),
		again:    on.Counters("sluice_resolution_fetch_retries_total", "Retries of fetches after a transient error, by its reason.", "resolver", "reason"),
		full:     on.NewGauge(prometheus.GaugeOpts{Name: "sluice_resolution_cache_full", Help: "1 while the volume of the git resolver's cache has no room or cannot be written, otherwise 0."}),
	}
	on.Follow("sluice_resolution_queue_length", "Requests that are due and wait for a slot.", m.waiting.Value)
	return m
}

// SetCacheFull says whether the cache of the resolver git cannot be used.
func (m *Metrics) SetCacheFull(full bool) {
	value := 0.0
	if full {
		value = 1
	}
	m.full.Set(value)
}

// Observer counts the events of a runner. Retries and panics go to the log as well.
func (m *Metrics) Observer(log *slog.Logger) resolve.Observer {
	return resolve.Observer{
		Cache:    func(resolver string, e resolve.CacheEvent) { m.cache.WithLabelValues(resolver, string(e)).Inc() },
		Shared:   func(resolver string) { m.shared.WithLabelValues(resolver).Inc() },
		InFlight: func(resolver string, delta int) { m.fetching.WithLabelValues(resolver).Add(float64(delta)) },
		Phase: func(resolver, phase string, d time.Duration) {
			m.fetches.WithLabelValues(resolver, phase).Observe(max(d, 0).Seconds())
		},
		Bytes: func(resolver string, n int) { m.fetched.WithLabelValues(resolver).Add(float64(n)) },
		Retried: func(resolver string, err *resolve.Error, wait time.Duration) {
			m.again.WithLabelValues(resolver, string(err.Reason)).Inc()
			log.Debug("trying again", "resolver", resolver, "wait", wait, "error", err)
		},
		Panicked: func(resolver string, value any, stack []byte) {
			log.Error("a resolver panicked", "resolver", resolver, "panic", value, "stack", string(stack))
		},
	}
}

func (m *Metrics) observePhase(resolver, phase string, d time.Duration) {
	m.duration.WithLabelValues(resolver, phase).Observe(max(d, 0).Seconds())
}
