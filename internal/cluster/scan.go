package cluster

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// Fate is what the new CRD does to one stored object.
type Fate struct {
	// Name is namespace/name, or name for cluster-scoped resources.
	Name string
	// Refused are the new schema's words where an update that leaves the object alone but for a label is refused. Of these
	// and the following lists only the beginning is kept.
	Refused []string
	// Strict are its words where the object would be refused if ratcheting did not tolerate what is left alone.
	Strict []string
	// Dropped are the fields that would be pruned.
	Dropped []string
	// Defaulted is set where a default would be filled in that the object does not have.
	Defaulted bool
}

// Bad tells whether anything is wrong with the object.
func (f Fate) Bad() bool {
	return len(f.Refused) > 0 || len(f.Strict) > 0 || len(f.Dropped) > 0
}

// Scan counts what a scan found.
type Scan struct {
	// Version is the API version that the objects were read in, Target the one whose new schema judged them.
	Version, Target string
	// Checked objects; Refused, Strict, Dropped and Defaulted of them have that fate.
	Checked, Refused, Strict, Dropped, Defaulted int64
	// Fates of the first bad objects of each kind, in the order of the listing.
	Fates []Fate
	// Renewed is how often the listing went on with a newer state of the server, because it took longer than the server keeps
	// one. Objects that were written meanwhile are then judged in their new form or, where they are new, perhaps not at all.
	Renewed int
	// Note says why objects could not be judged; the counts are then zero.
	Note string
}

// ScanOptions say how to scan.
type ScanOptions struct {
	KubeVersion *version.Version
	// PageSize fixes the number of objects per request. By default (0) it follows the size of the objects.
	PageSize int
	// Keep is how many bad objects of each kind are kept in Fates (default 100).
	Keep int
	// Progress, where not nil, is called now and then with the number of objects checked so far, and the number that remain
	// as far as the server tells (-1 where it does not). Calls are one after the other.
	Progress func(checked, remaining int64)
}

// Scan pages through the objects stored under the live CRD and judges each by the new CRD, as an update that adds a label
// would be. Objects are read once, in the storage version. Memory does not depend on their number. With an error, which is
// the same whatever the timing, there is no part of a result.
func (c *Cluster) Scan(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition, o ScanOptions) (Scan, error) {
	from, to, note := route(live, next)
	s := Scan{Version: from, Note: note}
	if note != "" {
		return s, nil
	}
	s.Target = to.Name
	j, err := newJudge(next, to.Name, o.KubeVersion)
	if err != nil {
		return Scan{}, err
	}
	if o.Keep <= 0 {
		o.Keep = 100
	}
	p := &pager{c: c, path: "/apis/" + live.Spec.Group + "/" + from + "/" + live.Spec.Names.Plural, size: o.PageSize}
	err = flow(ctx, p, j, func(b *batch) {
		s.count(b.fates, o.Keep)
		if o.Progress != nil {
			remaining := int64(-1)
			if b.total >= 0 {
				remaining = max(0, b.total-s.Checked)
			}
			o.Progress(s.Checked, remaining)
		}
	})
	if err != nil {
		return Scan{}, err
	}
	s.Renewed = p.renewed
	return s, nil
}

func (s *Scan) count(fates []Fate, keep int) {
	for _, f := range fates {
		s.Checked++
		if len(f.Refused) > 0 {
			s.Refused++
		}
		if len(f.Strict) > 0 {
			s.Strict++
		}
		if len(f.Dropped) > 0 {
			s.Dropped++
		}
		if f.Defaulted {
			s.Defaulted++
		}
		// Every kind has its examples, also where another one comes first.
		if len(f.Refused) > 0 && s.Refused <= int64(keep) || len(f.Strict) > 0 && s.Strict <= int64(keep) ||
			len(f.Dropped) > 0 && s.Dropped <= int64(keep) {
			s.Fates = append(s.Fates, f)
		}
	}
}

// route says in which version the objects are read, and by which version of the new CRD they are judged: its storage
// version, for that is the one that they are stored in again. A note says why that cannot be done.
func route(live, next *apiextensionsv1.CustomResourceDefinition) (from string, to *apiextensionsv1.CustomResourceDefinitionVersion, note string) {
	served := ""
	for _, v := range live.Spec.Versions {
		if v.Served && (v.Storage || served == "") {
			served = v.Name
		}
	}
	if served == "" {
		return "", nil, "the live CRD serves no version, so its objects cannot be read"
	}
	for i := range next.Spec.Versions {
		if next.Spec.Versions[i].Storage {
			to = &next.Spec.Versions[i]
		}
	}
	if to == nil {
		return served, nil, "the new CRD has no storage version"
	}
	webhook := next.Spec.Conversion != nil && next.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
	if to.Name != served && webhook {
		for i := range next.Spec.Versions {
			if v := &next.Spec.Versions[i]; v.Name == served {
				return served, v, ""
			}
		}
		return served, nil, "objects of version " + served + " reach version " + to.Name + " through a conversion webhook, which is not run here"
	}
	return served, to, ""
}
