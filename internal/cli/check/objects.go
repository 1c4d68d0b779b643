package check

// Which stored objects would the new CRDs harm? If a cluster is at hand, each of its objects is judged by the
// schemas: refused, pruned, or tolerated as long as it stays as it is. This file reads them CRD by CRD; package
// cluster judges them, and internal/crdcheck makes findings of the counts.

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/cluster"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// scansObjects tells whether stored objects are read.
func (c *checker) scansObjects() bool {
	return c.cluster != nil && (c.flags.objects || c.old.live && !c.flags.noObjects)
}

// scanGCPercent takes the place of [gcpercent.Command] while objects are read: their garbage goes on for as long as there are objects,
// and collecting it more often costs some microseconds per object, for half the memory.
const scanGCPercent = 150

// scanObjects reads the stored objects of every CRD that is on both sides. A CRD that the cluster does not have
// has no objects. If OLD is not the cluster, the live CRD says in which versions the objects can be read.
func (c *checker) scanObjects(ctx context.Context, pairs []pair, r *report.Report) error {
	if c.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(scanGCPercent))
	}
	for i, p := range pairs {
		if p.next == nil {
			continue
		}
		live := crdOf(p.old)
		if !c.old.live {
			var err error
			if live, err = c.cluster.CRD(ctx, p.name); err != nil {
				return err
			}
		}
		if live == nil {
			continue
		}
		bar := c.Progress("reading "+p.name, 0)
		s, err := c.cluster.Scan(ctx, live, p.next.CRD, cluster.ScanOptions{
			KubeVersion: c.kube, Pages: c.flags.objectPages,
			Progress: func(checked, remaining int64) {
				total := int64(0)
				if remaining >= 0 {
					total = checked + remaining
				}
				bar.SetOf(checked, total)
			},
		})
		bar.Done()
		if err != nil {
			return fmt.Errorf("objects of %s: %w%s", p.name, err, withoutObjects(err))
		}
		if s.Renewed > 0 {
			fmt.Fprintf(c.Err, "warning: objects of %s: the listing took longer than the server keeps its state, so some objects written meanwhile may not have been checked\n", p.name)
		}
		if s.Serial != "" && c.flags.verbose {
			fmt.Fprintf(c.Err, "note: objects of %s: read one page after the other, because %s\n", p.name, brief.OneLine(s.Serial))
		}
		crdcheck.Tell(&r.CRDs[i], s)
	}
	return ctx.Err()
}

// withoutObjects returns advice for an error of the API server while it lists stored objects. It is empty for
// other errors, such as a cluster that does not answer.
func withoutObjects(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	if apierrors.IsForbidden(err) {
		return "; allow the verb list, or check without stored objects: --objects=false"
	}
	return "; to check without stored objects: --objects=false"
}
