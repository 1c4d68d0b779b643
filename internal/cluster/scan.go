package cluster

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
)

// How many stored objects does a new CRD harm, and which? A scan reads all of them once. The counts are exact, and examples are kept
// of each kind of harm. For example: 3 of 5,000 objects have a value over the new maximum, and Fates names them with the API server's
// words.

// Fate is the effect of the new CRD on one stored object.
type Fate struct {
	// Name is namespace/name, or name for cluster-scoped resources.
	Name string
	// Refused has the messages of the new schema if an update that only adds a label is refused. Only the beginning of this list
	// and the following ones is kept.
	Refused []string
	// Strict are its words where the object would be refused if ratcheting did not tolerate what is left alone.
	Strict []string
	// Repeats are the words about lists that hold an item twice: updates tolerate that, an apply of the same manifest and another
	// creation do not.
	Repeats string
	// Unappliable says why the API server would refuse every server-side apply to the object, though updates pass that leave it alone.
	Unappliable string
	// StatusRefused says why the API server would refuse every write of the status, though updates pass that leave the value alone.
	StatusRefused string
	// OwnersGone says which manager's fields are noted in a version that the new CRD does not have, so that the API server would
	// refuse every server-side apply to the object, or that only a new webhook converts.
	OwnersGone string
	// Dropped are the fields that would be pruned.
	Dropped []string
	// Defaulted is set where a default would be filled in that the object does not have.
	Defaulted bool
	// Unjudged says why the object could not be judged: the API server's code would take too long.
	Unjudged string
}

// Scan counts what a scan found.
type Scan struct {
	// Version is the API version that the objects were read in, Target the one whose new schema judged them.
	Version, Target string
	// Checked objects; Refused, Strict (or Repeats), Tolerated (Strict alone), Repeats, Unappliable, StatusRefused, OwnersGone,
	// Dropped, Defaulted and Unjudged of them have that fate. NoApply counts those that are Unappliable or whose OwnersGone is set.
	Checked, Refused, Strict, Tolerated, Repeats, Unappliable, StatusRefused, OwnersGone, NoApply, Dropped, Defaulted, Unjudged int64
	// Fates of the first bad objects of each kind, in the order of the listing.
	Fates []Fate
	// Renewed counts how often the listing continued with a newer state of the server, because it took longer than the server keeps
	// one. Objects that were written in between are judged in their new form, and new objects may be missing.
	Renewed int
	// Serial says why the pages were read one after the other, where more at once were asked for. It is empty for objects that
	// fit into one page.
	Serial string
	// Note says why objects could not be judged; the counts are then zero.
	Note string
}

const (
	// DefaultPages is the default number of pages of objects that are read at once.
	DefaultPages = 4
	// MaxPages is the largest allowed number.
	MaxPages = 64
)

// ScanOptions say how to scan.
type ScanOptions struct {
	KubeVersion *version.Version
	// Pages is the number of pages that are read at once, each of another namespace; 0 means DefaultPages, and MaxPages is the
	// limit. A page needs up to 5 MiB here, and up to 4 MiB of JSON in the API server.
	Pages int
	// PageSize fixes the number of objects per request. By default (0) it follows the size of the objects.
	PageSize int
	// Keep bounds the bad objects of each kind that are kept in Fates (default 100).
	Keep int
	// Progress, if not nil, is called now and then with the number of objects checked so far, and the number that remain (-1 if the
	// server does not say). Calls are sequential. The number of checked objects goes back at most twice: when reading by namespace
	// begins, by the objects of the first page, and if it fails.
	Progress func(checked, remaining int64)

	minSpread int // for tests; 0 means minSpread
}

// Scan pages through the objects stored under the live CRD and judges each by the new CRD, as an update that adds a label. It reads
// objects once, in the storage version. Memory does not depend on their number. If there is an error, it does not depend on timing,
// and there is no partial result.
func (c *Cluster) Scan(ctx context.Context, live, next *apiextensionsv1.CustomResourceDefinition, o ScanOptions) (Scan, error) {
	from, to, note := routeVersions(live, next)
	if note != "" {
		return Scan{Version: from, Note: note}, nil
	}
	j, err := newJudge(live, from, next, to.Name, o.KubeVersion)
	if err != nil {
		return Scan{}, err
	}
	if o.Keep <= 0 {
		o.Keep = 100
	}
	if o.Pages <= 0 {
		o.Pages = DefaultPages
	}
	o.Pages = min(o.Pages, MaxPages)
	if o.minSpread <= 0 {
		o.minSpread = minSpread
	}
	n := &scanner{c: c, live: live, version: from, j: j, o: o}
	all := n.pagerFor("")
	all.once = true
	found := n.newTally(0)
	if err := judgeLists(ctx, []*pager{all}, 1, j, found.countBatch); err != nil {
		if apierrors.IsNotFound(err) && apihelpers.IsCRDConditionFalse(live, apiextensionsv1.NamesAccepted) && !apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
			return Scan{Version: from}, nil // its names were never accepted, so it was never served, and has no objects
		}
		return Scan{}, err
	}
	serial := ""
	if all.last.Continue != "" {
		var spread *tally
		if o.Pages > 1 {
			if spread, err = n.listByNamespace(ctx, all); err != nil {
				serial = err.Error()
			}
		}
		switch {
		case ctx.Err() != nil:
			return Scan{}, context.Cause(ctx)
		case spread != nil:
			found = spread
		default:
			all.once = false
			if err := judgeLists(ctx, []*pager{all}, 1, j, found.countBatch); err != nil {
				return Scan{}, err
			}
		}
	}
	s := found.scanResult()
	s.Version, s.Target, s.Renewed, s.Serial = from, to.Name, all.renewed, serial
	return s, nil
}

// scanner is one scan.
type scanner struct {
	c       *Cluster
	live    *apiextensionsv1.CustomResourceDefinition
	version string
	j       *judge
	o       ScanOptions
}

// pagerFor lists the objects of a namespace, or all for the empty one.
func (n *scanner) pagerFor(namespace string) *pager {
	path := "/apis/" + n.live.Spec.Group + "/" + n.version + "/"
	if namespace != "" {
		path += "namespaces/" + namespace + "/"
	}
	return &pager{c: n.c, path: path + n.live.Spec.Names.Plural, size: n.o.PageSize}
}

func (n *scanner) newTally(total int64) *tally {
	return &tally{keep: n.o.Keep, progress: n.o.Progress, total: total}
}

// ListedVersion is the best version for listing the objects of a CRD: the storage version if it is served, otherwise another served
// version; empty if none is served.
func ListedVersion(crd *apiextensionsv1.CustomResourceDefinition) (version string) {
	for _, v := range crd.Spec.Versions {
		if v.Served && (v.Storage || version == "") {
			version = v.Name
		}
	}
	return version
}

// routeVersions returns the version in which the objects are read, and the version of the new CRD that judges them. The latter is its
// storage version, because the objects are stored in it again. A note says why that is impossible.
func routeVersions(live, next *apiextensionsv1.CustomResourceDefinition) (from string, to *apiextensionsv1.CustomResourceDefinitionVersion, note string) {
	served := ListedVersion(live)
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
	webhook := NamesWebhook(next)
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
