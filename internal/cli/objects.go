package cli

import (
	"context"
	"fmt"
	"runtime/debug"

	"sluice.dev/internal/cluster"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// scans tells whether stored objects are read.
func (c *checker) scans() bool {
	return c.cluster != nil && (c.flags.objects || c.old.live && !c.flags.noObjects)
}

// scanGCPercent takes the place of [GCPercent] while objects are read: their garbage goes on for as long as there are objects,
// and collecting it more often costs some microseconds per object, for half the memory.
const scanGCPercent = 150

// scan reads the stored objects of every CRD that is on both sides.
func (c *checker) scan(ctx context.Context, pairs []pair, r *report.Report) error {
	if c.getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(scanGCPercent))
	}
	for i, p := range pairs {
		if p.next == nil {
			continue
		}
		live := p.old
		if !c.old.live {
			var err error
			if live, err = c.cluster.CRD(ctx, p.name); err != nil {
				return err
			}
		}
		if live == nil {
			continue
		}
		bar := c.progress("reading "+p.name, 0)
		s, err := c.cluster.Scan(ctx, live, p.next, cluster.ScanOptions{
			KubeVersion: c.kube,
			Progress: func(checked, remaining int64) {
				total := int64(0)
				if remaining >= 0 {
					total = checked + remaining
				}
				bar.setOf(checked, total)
			},
		})
		bar.done()
		if err != nil {
			return fmt.Errorf("objects of %s: %w", p.name, err)
		}
		if s.Renewed > 0 {
			fmt.Fprintf(c.err, "warning: objects of %s: the listing took longer than the server keeps its state: of what was written meanwhile, some may not have been checked\n", p.name)
		}
		crdcheck.Tell(&r.CRDs[i], s)
	}
	return ctx.Err()
}
