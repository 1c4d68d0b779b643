package policy

import (
	"context"
	"fmt"

	"sluice.dev/feature"
)

// CostsBySamples returns what each variable of the policies of a model costs with smallSample and sample items, as small samples and
// as large ones tell.
func CostsBySamples(ctx context.Context, m *feature.Model, o Options) (small, large map[string][2]int64, err error) {
	for _, costs := range []*map[string][2]int64{&small, &large} {
		c, err := newCompiler(m, o)
		if err != nil {
			return nil, nil, err
		}
		c.largeSamples = costs == &large
		*costs = map[string][2]int64{}
		for _, g := range c.policyGroups() {
			d := c.draftToMeasure(g)
			e, err := c.newExpressions(d.vars)
			if err != nil {
				return nil, nil, err
			}
			for i, meter := range c.metersOf(d, e) {
				// What does not compile is left to the webhook.
				_ = meter.fillIn(ctx, d, i, "")
				for name, cost := range meter.costs {
					(*costs)[fmt.Sprint(g.resource, " ", g.version, " ", g.kind, " ", i, " ", name)] = cost
				}
			}
		}
	}
	return small, large, nil
}
