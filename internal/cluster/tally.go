package cluster

import "slices"

// Results of a scan come in any order. The tally counts them, and keeps the first bad objects in the order of the listing, so that
// two scans of the same objects say the same.

// placed is the fate of an object, and where in the listing that object stands.
type placed struct {
	at   place
	fate Fate
}

func (p placed) comparePlaced(q placed) int { return p.at.comparePlace(q.at) }

// kinds of bad objects. Each has examples of its own, also where another kind comes first.
const (
	refused = iota
	strict
	unappliable
	statusRefused
	ownersGone
	dropped
	unjudged
	kinds
	noExample
)

// tally counts the fates of objects. Batches may come in any order; the result is the same.
type tally struct {
	keep     int
	progress func(checked, remaining int64)
	// total is the number of all objects where it is known from the beginning; 0 leaves it to the batches.
	total int64

	count Scan
	first [kinds][]placed
}

// countBatch counts a batch, and tells how far the scan is.
func (t *tally) countBatch(b *batch) {
	for i, f := range b.fates {
		t.count.Checked++
		if len(f.Strict) > 0 && len(f.Refused) == 0 && f.Unappliable == "" && f.StatusRefused == "" {
			t.count.Tolerated++
		}
		at := placed{place{b.at.list, b.at.batch, i}, f}
		for _, x := range []struct {
			has   bool
			count *int64
			kind  int // of the examples
		}{
			{len(f.Refused) > 0, &t.count.Refused, refused},
			{len(f.Strict) > 0 || f.Repeats != "", &t.count.Strict, strict},
			{f.Repeats != "", &t.count.Repeats, noExample}, // as Strict it has one
			{f.Unappliable != "" || f.OwnersGone != "", &t.count.NoApply, noExample},
			{f.Unappliable != "", &t.count.Unappliable, unappliable},
			{f.StatusRefused != "", &t.count.StatusRefused, statusRefused},
			{f.OwnersGone != "", &t.count.OwnersGone, ownersGone},
			{len(f.Dropped) > 0, &t.count.Dropped, dropped},
			{f.Unjudged != "", &t.count.Unjudged, unjudged},
			{f.Defaulted, &t.count.Defaulted, noExample},
		} {
			if !x.has {
				continue
			}
			*x.count++
			if x.kind != noExample {
				t.keepExample(x.kind, at)
			}
		}
	}
	if t.progress == nil {
		return
	}
	total := b.total
	if t.total > 0 {
		total = t.total
	}
	remaining := int64(-1)
	if total >= 0 {
		remaining = max(0, total-t.count.Checked)
	}
	t.progress(t.count.Checked, remaining)
}

// keepExample keeps the object if it is among the first of its kind.
func (t *tally) keepExample(kind int, p placed) {
	kept := t.first[kind]
	i, _ := slices.BinarySearchFunc(kept, p, placed.comparePlaced)
	if i == t.keep {
		return
	}
	if len(kept) == t.keep {
		kept = kept[:t.keep-1]
	}
	t.first[kind] = slices.Insert(kept, i, p)
}

// scanResult returns the counts, with the examples in the order of the listing.
func (t *tally) scanResult() Scan {
	all := slices.SortedFunc(slices.Values(slices.Concat(t.first[:]...)), placed.comparePlaced)
	all = slices.CompactFunc(all, func(a, b placed) bool { return a.at == b.at })
	s := t.count
	for _, p := range all {
		s.Fates = append(s.Fates, p.fate)
	}
	return s
}
