package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// Values of --new-crds, for CRDs that OLD does not have.
const (
	newFail  = "fail"
	newSome  = "some"
	newAllow = "allow"
)

// refuseNew is an error if OLD lacks CRDs that --new-crds wants there: all of them, as in a cluster that a wrong context leads to, or any
// with fail.
func (c *checker) refuseNew(pairs []pair) error {
	var missing []string
	for _, p := range pairs {
		if p.old == nil {
			missing = append(missing, p.name)
		}
	}
	mode := cmp.Or(c.flags.newCRDs, newAllow)
	if c.old.live {
		mode = cmp.Or(c.flags.newCRDs, newSome)
	}
	switch {
	case mode != newFail && mode != newSome && mode != newAllow:
		return fmt.Errorf("--new-crds %q: it is %s, %s or %s", mode, newFail, newSome, newAllow)
	case len(missing) == 0 || mode == newAllow:
		return nil
	case len(missing) == len(pairs) && c.old.live:
		return fmt.Errorf("the %s has none of the CRDs (%s): check the context; if they are new to it, say --new-crds=allow", c.old.name, firstNames(missing))
	case len(missing) == len(pairs):
		return fmt.Errorf("%s has none of the CRDs (%s): check the path; if they are new, say --new-crds=allow", c.old.name, firstNames(missing))
	case mode == newFail:
		return fmt.Errorf("%s does not have %s, and --new-crds=fail wants every CRD to be there", c.old.name, firstNames(missing))
	}
	return nil
}

// findElsewhere looks in the whole old revision for CRDs that are not in its paths: their files may have moved. Of several, one that the new
// side no longer has at its place is the one that moved.
func (c *checker) findElsewhere(ctx context.Context, from, to input.Source, o input.Options) error {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.next.crds)) {
		if _, ok := c.old.crds[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := input.FindInRevision(ctx, from.Rev, missing, o)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		fmt.Fprintf(c.Err, "warning: nobody looked for %s in the rest of the old revision: %s\n", firstNames(missing), brief.OneLine(err.Error()))
	}
	for _, name := range missing {
		docs := found[name]
		if len(docs) > 1 {
			moved, err := input.Gone(ctx, to, docs, o)
			if err != nil {
				return err
			}
			if len(moved) > 0 {
				docs = moved
			}
		}
		for i := range c.next.crds[name] {
			o := nearest(&c.next.crds[name][i], pointersTo(docs))
			if o == nil || slices.ContainsFunc(c.old.crds[name], func(d input.Document) bool { return d.File == o.File && d.Line == o.Line }) {
				continue
			}
			fmt.Fprintf(c.Err, "note: %s is not in %s; it is compared with %s of that revision\n", name, from, o.File)
			c.old.crds[name] = append(c.old.crds[name], *o)
		}
	}
	return nil
}

// tellLive says in the report which CRDs the cluster does not have, or will not have for long.
func tellLive(crds []report.CRD, pairs []pair, old string) {
	for i := range crds {
		f := report.Finding{Outcome: report.Note, Severity: report.Warn, CRD: crds[i].Name}
		switch live := pairs[i].old; {
		case live == nil:
			f.Rule, f.Message = crdcheck.RuleNew, "the "+old+" does not have this CRD: it is new there, and was compared with nothing"
		case live.CRD.DeletionTimestamp != nil:
			f.Rule = crdcheck.RuleDeleted
			f.Message = "the " + old + " is deleting this CRD since " + live.CRD.DeletionTimestamp.UTC().Format(time.RFC3339) + ", and its objects with it; an update does not stop that"
		default:
			continue
		}
		crds[i].Findings = append(crds[i].Findings, f)
	}
}
