package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"sluice.dev/internal/cluster"
	"sluice.dev/report"
)

// scans tells whether stored objects are read.
func (c *checker) scans() bool {
	return c.cluster != nil && (c.flags.objects || c.old.live && !c.flags.noObjects)
}

// maxExamples is how many objects are named in a finding.
const maxExamples = 10

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
		tell(&r.CRDs[i], s)
	}
	return ctx.Err()
}

// tell adds what a scan found to the result of the CRD, and its counts to the findings that it bears out.
func tell(out *report.CRD, s cluster.Scan) {
	if s.Note != "" {
		out.Findings = append(out.Findings, report.Finding{
			Rule: ruleObjectsUnread, Outcome: report.Undecided, Severity: report.Fail, CRD: out.Name, Version: s.Version,
			Message: "the stored objects could not be judged", Reason: s.Note,
		})
		return
	}
	out.Objects = &report.ObjectScan{
		Version: s.Version, Checked: s.Checked, Refused: max(s.Refused, s.Strict), Pruned: s.Dropped, Changed: s.Defaulted,
	}
	add := func(rule string, level report.Level, n int64, message string, has func(cluster.Fate) (bool, string)) {
		if n == 0 {
			return
		}
		f := report.Finding{
			Rule: rule, Level: level, Outcome: report.Violation, CRD: out.Name, Version: s.Target,
			Objects: &report.Objects{Checked: s.Checked, Affected: n},
		}
		f.Severity, _ = level.Default()
		why := ""
		for _, fate := range s.Fates {
			ok, text := has(fate)
			if ok && why == "" {
				why = text
			}
			if ok && len(f.Objects.Examples) < maxExamples {
				f.Objects.Examples = append(f.Objects.Examples, fate.Name)
			}
		}
		f.Message = fmt.Sprintf("%d of %d stored objects %s", n, s.Checked, message)
		f.After = why
		out.Findings = append(out.Findings, f)
		if s, _ := level.Default(); s == report.Fail {
			out.Verdict = report.Unsafe
		}
	}
	add(ruleObjectsRefused, report.ObjectsStuck, s.Refused, "would be refused by any update", func(f cluster.Fate) (bool, string) {
		return len(f.Refused) > 0, strings.Join(f.Refused, "; ")
	})
	add(ruleObjectsRatcheted, report.ObjectsRatcheted, s.Strict-min(s.Refused, s.Strict),
		"would be refused by an update that touches the field", func(f cluster.Fate) (bool, string) {
			return len(f.Strict) > 0 && len(f.Refused) == 0, strings.Join(f.Strict, "; ")
		})
	add(ruleObjectsPruned, report.DataLost, s.Dropped, "would lose data", func(f cluster.Fate) (bool, string) {
		return len(f.Dropped) > 0, "loses " + strings.Join(f.Dropped, ", ")
	})
}
