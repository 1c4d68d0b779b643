package cli

import (
	"context"

	"sluice.dev/internal/controller/delivery"
)

// serveDelivery runs the controller of deliveries.
func (p *process) serveDelivery(ctx context.Context, ready func()) error {
	c := &delivery.Controller{
		Config: p.config, Kube: p.kube, Client: p.client, Namespace: p.flags.namespace, Members: p.members, Metrics: delivery.NewMetrics(p.registry),
		Recorder: p.recorder, Log: p.log, Clock: p.clock,
	}
	if p.flags.store != "" {
		store, err := p.flags.open()
		if err != nil {
			return err
		}
		c.Store = store
	}
	return c.Run(ctx, ready)
}
