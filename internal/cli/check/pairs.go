package check

// Which CRDs of both sides belong together? Those of the same name. A repository may have a CRD in several folders, for example in the
// channels standard and experimental: then those at the same place belong together, and what moved is compared with the nearest place.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice.dev/internal/brief"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/input"
	"sluice.dev/report"
)

// pair is one CRD on both sides; either may be nil. place is the file if there are several of that name.
type pair struct {
	name, place string
	old, next   *input.Document
}

// pairCRDs brings the CRDs of both sides together. Two sources without a name in common are a mistake of the
// user's, not two safe sets. The pairs are sorted by name. CRDs of the cluster and of a filter that the new side
// lacks make no pair. It also tells which CRDs are compared with a file at another place, and judges --new-crds.
func (c *checker) pairCRDs() ([]pair, error) {
	var out []pair
	both := 0
	names := slices.Collect(maps.Keys(c.next.crds))
	for name := range c.old.crds {
		if _, ok := c.next.crds[name]; !ok && !c.partly {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		copies := c.pairCopies(name, c.old.crds[name], c.next.crds[name])
		if copies[0].old != nil && copies[0].next != nil {
			both++
		}
		out = append(out, copies...)
	}
	const most = 5
	for i, text := range c.moved {
		if i == most && !c.flags.verbose {
			fmt.Fprintf(c.Err, "note: %d more CRDs are compared with another file; -v names them\n", len(c.moved)-most)
			break
		}
		fmt.Fprintln(c.Err, "note:", text)
	}
	if err := c.refuseNew(out); err != nil {
		return nil, err
	}
	if len(out) == 0 && c.unchanged == 0 {
		return nil, fmt.Errorf("no CustomResourceDefinition in %s, and none in %s%s", c.old.name, c.next.name, goTypesHint())
	}
	if both == 0 && c.needsCommon() {
		return nil, fmt.Errorf("OLD and NEW have no CRD in common: %s has %s; %s has %s",
			c.old.name, someNames(c.old.crds), c.next.name, someNames(c.next.crds))
	}
	return out, nil
}

// needsCommon reports whether sides without a CRD in common are a mistake. Of texts, one may be empty.
func (c *checker) needsCommon() bool {
	return len(c.old.crds) > 0 && len(c.next.crds) > 0 && !c.old.live && !c.next.live && c.flags.git == "" && !c.partly && c.unchanged == 0
}

// pairCopies pairs the CRDs of one name: first those at the same place, then the rest with the nearest of the
// other side. Pairs that are alike on both sides are kept once. There is at least one pair. With several, each has
// the place of its file, so that the report can tell them apart.
func (c *checker) pairCopies(name string, old, next []input.Document) []pair {
	var out []pair
	taken := map[string]bool{}
	add := func(o, n *input.Document) {
		p := pair{name: name, old: o, next: n}
		if !slices.ContainsFunc(out, p.isLike) {
			out = append(out, p)
		}
	}
	var moved, gone []*input.Document
	for i := range next {
		at := slices.IndexFunc(old, func(d input.Document) bool { return d.Key == next[i].Key })
		if at < 0 {
			moved = append(moved, &next[i])
			continue
		}
		taken[old[at].Key] = true
		add(&old[at], &next[i])
	}
	for i := range old {
		if !taken[old[i].Key] {
			gone = append(gone, &old[i])
		}
	}
	// With one file on each side, that it moved is no news: there is nothing else to compare with.
	several := len(old) > 1 || len(next) > 1
	for _, n := range moved {
		o := nearest(n, gone)
		gone = slices.DeleteFunc(gone, func(d *input.Document) bool { return d == o })
		if o == nil {
			// All that are gone were taken: a copy that is new is compared with one that stays.
			o = nearest(n, pointersTo(old))
		}
		c.tellMoved(several, o, n)
		add(o, n)
	}
	for _, o := range gone {
		n := nearest(o, pointersTo(next))
		c.tellMoved(several, o, n)
		add(o, n)
	}
	if len(out) > 1 {
		for i := range out {
			out[i].place = cmp.Or(out[i].next, out[i].old).File
		}
	}
	return out
}

// isLike reports whether two pairs have the same CRDs.
func (p pair) isLike(other pair) bool {
	same := func(a, b *input.Document) bool {
		return a == nil && b == nil || a != nil && b != nil && reflect.DeepEqual(a.CRD, b.CRD)
	}
	return same(p.old, other.old) && same(p.next, other.next)
}

// tellMoved notes with which file a CRD is compared, if there are several to compare it with.
func (c *checker) tellMoved(several bool, o, n *input.Document) {
	if several && o != nil && n != nil {
		c.moved = append(c.moved, fmt.Sprintf("%s in %s is compared with %s of %s", n.CRD.Name, n.File, o.File, c.old.name))
	}
}

// pointersTo returns pointers into the list, in its order.
func pointersTo(docs []input.Document) []*input.Document {
	out := make([]*input.Document, len(docs))
	for i := range docs {
		out[i] = &docs[i]
	}
	return out
}

// nearest returns the document whose file has the most folders and the name in common with that of d, then the
// most of the beginning of its path, and then the highest numbers: among the manifests of all releases, that is
// the release before. It is nil if there is none. For example, config/v2/crd.yaml is nearer to config/v1/crd.yaml
// than to test/crd.yaml.
func nearest(d *input.Document, among []*input.Document) *input.Document {
	var out *input.Document
	mostSteps, mostBytes := -1, -1
	for _, candidate := range among {
		steps := sharedSteps(d.File, candidate.File)
		if steps < mostSteps {
			continue
		}
		bytes := sharedBeginning(d.File, candidate.File)
		if steps > mostSteps || bytes > mostBytes || bytes == mostBytes && compareNumbered(candidate.File, out.File) > 0 {
			out, mostSteps, mostBytes = candidate, steps, bytes
		}
	}
	return out
}

// sharedBeginning counts the bytes that two texts share at their beginning. A number counts as a whole. So v1.9
// and v1.10 share "v1.".
func sharedBeginning(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	inNumber := func(s string) bool { return n < len(s) && isDigit(s[n]) }
	for inNumber(a) || inNumber(b) {
		if n == 0 || !isDigit(a[n-1]) {
			break
		}
		n--
	}
	return n
}

// numbersAndLetters matches the parts of a text that compareNumbered compares: a number as a whole, or another byte.
var numbersAndLetters = regexp.MustCompile(`[0-9]+|(?s:.)`)

// compareNumbered orders texts by the numbers in them, so that 1.9 comes before 1.10.
func compareNumbered(a, b string) int {
	return slices.CompareFunc(numbersAndLetters.FindAllString(a, -1), numbersAndLetters.FindAllString(b, -1), func(x, y string) int {
		if !isDigit(x[0]) || !isDigit(y[0]) {
			return cmp.Compare(x, y)
		}
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// sharedSteps counts the steps that two paths share at their beginning and at their end. For example, a/b/x.yaml
// and a/c/x.yaml share two: a and x.yaml.
func sharedSteps(a, b string) int {
	x, y := strings.Split(path.Clean(a), "/"), strings.Split(path.Clean(b), "/")
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	x, y = x[n:], y[n:]
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
		n++
	}
	return n
}

// settleUnread decides about files that could not be read. What has the same content on both sides stops nothing,
// and CRDs that the other side could read in such a file are left out. The rest is an error that names each file,
// because a change of a CRD may be in it.
func (c *checker) settleUnread() error {
	var changed, same []string
	helm := ""
	wayOut := "compare with an earlier revision that has the file in order, or leave it out with --exclude"
	for _, s := range []struct{ side, other *side }{{&c.next, &c.old}, {&c.old, &c.next}} {
		for _, u := range s.side.Unread {
			switch file := u.Err.Position.File; {
			case !s.other.hasFile(u) && s.side == &c.old && slices.ContainsFunc(c.next.Unread, func(o input.Unread) bool { return o.Key == u.Key }):
				// it is named with what it is now
			case !s.other.hasFile(u) && s.side == &c.old:
				changed = append(changed, "the old side: "+brief.OneLine(u.Err.Error()))
			case !s.other.hasFile(u):
				changed = append(changed, brief.OneLine(u.Err.Error()))
				wayOut = "repair the file, or leave it out with --exclude"
				if _, err := exec.LookPath("helm"); err != nil && strings.Contains(filepath.ToSlash(file), "/templates/") {
					helm = "; to have the templates of charts rendered, install helm"
				}
			case s.side == &c.next || !s.other.isUnread(u): // otherwise it is counted already
				same = append(same, file)
				s.other.dropFile(u.Key)
			}
		}
	}
	if c.unchanged = len(same); len(same) > 0 {
		fmt.Fprintf(c.Err, "note: files that cannot be read and are the same on both sides: %s\n", firstNames(same))
	}
	if len(changed) == 0 {
		return nil
	}
	slices.Sort(changed)
	if len(changed) == 1 {
		return fmt.Errorf("%s; %s%s", changed[0], wayOut, helm)
	}
	for _, why := range changed {
		fmt.Fprintln(c.Err, "cannot be read:", why)
	}
	return fmt.Errorf("%d files cannot be read, and changed: repair them, or leave them out with --exclude%s", len(changed), helm)
}

// hasFile reports whether a side has a file with the content of one that could not be read.
func (s *side) hasFile(u input.Unread) bool {
	if s.isUnread(u) {
		return true
	}
	for _, docs := range s.crds {
		if slices.ContainsFunc(docs, func(d input.Document) bool { return d.Key == u.Key && d.Sum == u.Sum && u.Sum != "" }) {
			return true
		}
	}
	return false
}

// isUnread reports whether a side could not read a file with the same content either, which may have been elsewhere.
func (s *side) isUnread(u input.Unread) bool {
	return slices.ContainsFunc(s.Unread, func(o input.Unread) bool { return o.Sum == u.Sum && u.Sum != "" })
}

// dropFile leaves out the CRDs of a file that cannot be read on the other side and has not changed.
func (s *side) dropFile(key string) {
	for name, docs := range s.crds {
		if rest := slices.DeleteFunc(docs, func(d input.Document) bool { return d.Key == key }); len(rest) > 0 {
			s.crds[name] = rest
		} else {
			delete(s.crds, name)
		}
	}
}

// someNames names a few of the CRDs of a side, sorted.
func someNames(crds map[string][]input.Document) string {
	return firstNames(slices.Sorted(maps.Keys(crds)))
}

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
	// A cluster has its CRDs installed, so none of them being there is suspicious; files may hold new ones.
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
	// The whole revision is searched once for all of them.
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
