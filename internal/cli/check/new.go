package check

import (
	"fmt"
	"strings"
	"time"

	"sluice.dev/internal/crdcheck"
	"sluice.dev/report"
)

// Values of --new-crds, for CRDs that the cluster does not have.
const (
	newFail  = "fail"
	newSome  = "some"
	newAllow = "allow"
)

// newToCluster is an error where the cluster lacks CRDs that it should have: all of them, as a cluster does that a wrong
// context leads to, or any with --new-crds=fail.
func (c *checker) newToCluster(pairs []pair) error {
	var missing []string
	for _, p := range pairs {
		if c.old.live && p.old == nil {
			missing = append(missing, p.name)
		}
	}
	switch {
	case c.flags.newCRDs != newFail && c.flags.newCRDs != newSome && c.flags.newCRDs != newAllow:
		return fmt.Errorf("--new-crds %q: it is %s, %s or %s", c.flags.newCRDs, newFail, newSome, newAllow)
	case len(missing) == 0 || c.flags.newCRDs == newAllow:
		return nil
	case len(missing) == len(pairs):
		return fmt.Errorf("the %s has none of the CRDs (%s): check the context; if they are new to it, say --new-crds=allow", c.old.name, someOf(missing))
	case c.flags.newCRDs == newFail:
		return fmt.Errorf("the %s does not have %s, and --new-crds=fail wants every CRD to be there", c.old.name, someOf(missing))
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
		case live.DeletionTimestamp != nil:
			f.Rule = crdcheck.RuleDeleted
			f.Message = "the " + old + " is deleting this CRD since " + live.DeletionTimestamp.UTC().Format(time.RFC3339) + ", and its objects with it; an update does not stop that"
		default:
			continue
		}
		crds[i].Findings = append(crds[i].Findings, f)
	}
}

func someOf(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
