package delivery

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/metric"
)

// Metrics have a value for each delivery that this process works on. When another process takes a delivery over, its values go here,
// or two processes would report different states of it.

// Metrics are the metrics of deliveries.
type Metrics struct {
	ready, blocked *prometheus.GaugeVec
	applies        *prometheus.CounterVec
	waiting        metric.Length
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	on := metric.On(r)
	m := &Metrics{
		ready:   on.Gauges("sluice_delivery_ready", "1 if the delivery is ready, else 0. Only the process that works on it reports this.", "namespace", "name"),
		blocked: on.Gauges("sluice_delivery_blocked", "1 if preflights block the delivery, else 0.", "namespace", "name"),
		applies: on.Counters("sluice_delivery_applies_total", "Applies, by outcome: applied, unchanged, blocked, failed.", "outcome"),
	}
	on.Follow("sluice_delivery_queue_length", "Deliveries that are due and wait for a worker.", m.waiting.Value)
	return m
}

// setGauges sets the values of a delivery from its conditions, as they are after a round.
func (m *Metrics) setGauges(d *v1alpha1.Delivery) {
	value := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	p := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionPreflightsPassed)
	m.ready.WithLabelValues(d.Namespace, d.Name).Set(value(isReady(d)))
	m.blocked.WithLabelValues(d.Namespace, d.Name).Set(value(p != nil && p.Status == metav1.ConditionFalse && p.Reason == v1alpha1.ReasonBlocked))
}

func (m *Metrics) forgetDelivery(k types.NamespacedName) {
	m.ready.DeleteLabelValues(k.Namespace, k.Name)
	m.blocked.DeleteLabelValues(k.Namespace, k.Name)
}
