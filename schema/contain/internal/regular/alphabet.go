package regular

import (
	"encoding/binary"
	"slices"
	"unicode"
)

// alphabet partitions the runes into classes. A machine does not distinguish the runes of a class.
type alphabet struct {
	// from[i] is the first rune of the i-th interval, which ends before from[i+1];
	// from[0] is 0 and the last interval ends at unicode.MaxRune.
	from []rune
	// class[i] is the class of the i-th interval; classes count from 0.
	class []int32
	// n is the number of classes.
	n int32
}

// of returns the class of r.
func (a *alphabet) of(r rune) int32 {
	lo, hi := 0, len(a.from)
	for hi-lo > 1 {
		if m := int(uint(lo+hi) >> 1); a.from[m] <= r {
			lo = m
		} else {
			hi = m
		}
	}
	return a.class[lo]
}

// maxTable bounds the work of merging intervals into classes, and the table of which
// set contains which class. Beyond it each interval is a class of its own, which is
// as correct, but slower.
const maxTable = 1 << 22

// newAlphabet returns the partition that distinguishes the given sets of runes. A set is a sorted list of pairs (first, last) of
// disjoint ranges.
func newAlphabet(sets [][]rune) *alphabet {
	cuts := []rune{0}
	for _, set := range sets {
		for i := 0; i+1 < len(set); i += 2 {
			cuts = append(cuts, set[i])
			if set[i+1] < unicode.MaxRune {
				cuts = append(cuts, set[i+1]+1)
			}
		}
	}
	slices.Sort(cuts)
	a := &alphabet{from: slices.Compact(cuts)}
	a.class = make([]int32, len(a.from))
	if len(a.from)*len(sets) > maxTable {
		for i := range a.class {
			a.class[i] = int32(i)
		}
		a.n = i32(len(a.from))
		return a
	}
	// The signature of an interval is the set of sets that contain it.
	words := (len(sets) + 63) / 64
	sig := make([]uint64, words*len(a.from))
	for id, set := range sets {
		for i := 0; i+1 < len(set); i += 2 {
			at, _ := slices.BinarySearch(a.from, set[i])
			for ; at < len(a.from) && a.from[at] <= set[i+1]; at++ {
				sig[at*words+id/64] |= 1 << (id % 64)
			}
		}
	}
	if words <= 1 {
		a.mergeSmall(sig)
	} else {
		a.mergeLarge(sig, words)
	}
	return a
}

func (a *alphabet) mergeSmall(sig []uint64) {
	if len(sig) == 0 {
		a.n = 1
		return
	}
	seen := make([]uint64, 0, 16)
	for i, s := range sig {
		c := slices.Index(seen, s)
		if c < 0 {
			c, seen = len(seen), append(seen, s)
		}
		a.class[i] = i32(c)
	}
	a.n = i32(len(seen))
}

func (a *alphabet) mergeLarge(sig []uint64, words int) {
	seen := map[string]int32{}
	key := make([]byte, 8*words)
	for i := range a.class {
		for w, s := range sig[i*words : (i+1)*words] {
			binary.LittleEndian.PutUint64(key[8*w:], s)
		}
		c, ok := seen[string(key)]
		if !ok {
			c = i32(len(seen))
			seen[string(key)] = c
		}
		a.class[i] = c
	}
	a.n = i32(len(seen))
}

// inSet reports whether the sorted pairs in set contain r.
func inSet(set []rune, r rune) bool {
	lo, hi := 0, len(set)/2
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		switch {
		case r < set[2*m]:
			hi = m
		case r > set[2*m+1]:
			lo = m + 1
		default:
			return true
		}
	}
	return false
}
