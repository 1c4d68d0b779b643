// Package metric makes the metrics of Sluice's processes and registers them. It does not decide what they count.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Maker makes metrics by name, help and names of labels.
type Maker struct{ promauto.Factory }

// On returns a maker that registers each metric.
func On(r prometheus.Registerer) Maker { return Maker{promauto.With(r)} }

// Counters has a counter for each combination of labels.
func (m Maker) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return m.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauges has a gauge for each combination of labels.
func (m Maker) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return m.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Histograms has a histogram for each combination of labels.
func (m Maker) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return m.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Follow makes a gauge whose value a function returns.
func (m Maker) Follow(name, help string, value func() float64) {
	m.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}
