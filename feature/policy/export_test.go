package policy

import (
	"context"

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
			_, meter, _ := c.measureVariables(ctx, g)
			if meter == nil {
				continue
			}
			for name, cost := range meter.costs {
				(*costs)[g.resource+" "+g.version+" "+string(g.kind)+" "+name] = cost
			}
		}
	}
	return small, large, nil
}
