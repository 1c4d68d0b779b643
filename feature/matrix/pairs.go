package matrix

// How few cases show each two features together in all four ways? A known design covers them if no feature
// requires another. Where one does, some of its rows are repaired, and further rows are added for what is
// lost. Of three ways to do that the shortest is taken.

import (
	"fmt"
	"slices"

	"sluice.dev/feature"
)

// Pairs has cases such that each two features come together in all ways in which they can, on and off: whatever goes wrong
// because of two features goes wrong in one of them. Fewer than two features have no case. If no feature requires another, no fewer
// cases do it ([Fewest]): 8 for 20 features, 10 for 100.
func Pairs(m *feature.Model) []Case {
	c := newChoices(m)
	if len(c.names) < 2 {
		return nil
	}
	var rows [][]choice
	for _, repair := range []choice{open, on, off} {
		if some := c.pairRows(repair); rows == nil || len(some) < len(rows) {
			rows = some
		}
	}
	out := make([]Case, len(rows))
	for i, at := range rows {
		out[i] = Case{fmt.Sprintf("pairs/%d %s", i+1, c.labelOf(at)), c.level, (&row{c, at}).valuesByName()}
	}
	return out
}

// Fewest is the least number of cases in which each two of n features come together in all four ways, if no feature requires
// another. G. Katona, and D. Kleitman and J. Spencer, proved in 1973 that r cases do it for up to C(r-1, r/2) features, r/2 rounded
// up, and for no more.
func Fewest(n int) int {
	if n < 2 {
		return 0
	}
	rows := 4
	for binomial(rows-1, (rows+1)/2, n) < n {
		rows++
	}
	return rows
}

// binomial is the number of subsets of size k of a set of size n, or something above most.
func binomial(n, k, most int) int {
	out := 1
	for i := range min(k, n-k) {
		if out = out * (n - i) / (i + 1); out > most {
			return out
		}
	}
	return out
}

// pairRows makes rows that cover all pairs. They begin with the rows of [fewestRows]. If a row breaks a requirement, the choice repair (on or
// off) wins. With repair open, they begin with nothing.
func (c *choices) pairRows(repair choice) (rows [][]choice) {
	covered := newPairs(len(c.names))
	if repair != open {
		for _, first := range fewestRows(len(c.names)) {
			row := c.newRow()
			for _, v := range []choice{on + off - repair, repair} {
				for i := range first {
					if first[i] == v {
						row.setChoice(i, v)
					}
				}
			}
			covered.coverRow(row.at)
			rows = append(rows, row.at)
		}
	}
	for row := c.startRow(covered); row != nil; row = c.startRow(covered) {
		for i := range c.names {
			if row.at[i] == open {
				row.setChoice(i, covered.bestChoice(row.at, i, len(rows)%2 == 0))
			}
		}
		covered.coverRow(row.at)
		rows = append(rows, row.at)
	}
	return neededRows(rows)
}

// fewestRows are as few rows as can cover all pairs of n features. The first has all off. In the others, each feature is on in another
// set of rows; as all sets have the same size, none is part of another, and as they have more than half of the rows, each two meet.
func fewestRows(n int) [][]choice {
	rows := make([][]choice, Fewest(n))
	for i := range rows {
		rows[i] = slices.Repeat([]choice{off}, n)
	}
	size := (len(rows) + 1) / 2
	set := make([]int, size) // rows, in rising order
	for i := range set {
		set[i] = i + 1
	}
	for f := range n {
		for _, i := range set {
			rows[i][f] = on
		}
		// The next set: the last row of it that can move up does, and those behind it follow.
		for k := size - 1; k >= 0; k-- {
			if set[k] < len(rows)-size+k {
				for j, from := k, set[k]; j < size; j++ {
					set[j] = from + 1 + j - k
				}
				break
			}
		}
	}
	return rows
}

// neededRows leaves out rows all of whose pairs others have, the last ones first.
func neededRows(rows [][]choice) [][]choice {
	for i := range slices.Backward(rows) {
		others := newPairs(len(rows[i]))
		for k, at := range rows {
			if k != i {
				others.coverRow(at)
			}
		}
		if !others.coverRow(rows[i]) {
			rows = slices.Delete(rows, i, i+1)
		}
	}
	return rows
}

// startRow returns a row with the first two features chosen in a way that has not come yet; nil if all have.
func (c *choices) startRow(p *pairs) *row {
	for {
		i, k, a, b, ok := p.nextMissing()
		if !ok {
			return nil
		}
		row := c.newRow()
		row.setChoice(i, a)
		if row.at[k] != open && row.at[k] != b {
			p.markPair(i, k, a, b) // what one requires rules it out
			continue
		}
		row.setChoice(k, b)
		return row
	}
}

// pairs records the combinations of two features that are covered.
type pairs struct {
	n    int
	done []byte // by i*n+k with i < k: a bit for each of the four ways
	from int    // all before are done
}

func newPairs(n int) *pairs { return &pairs{n: n, done: make([]byte, n*n)} }

// cellOf returns where the ways of two features are recorded, in any order of both, and the bit of one way.
func (p *pairs) cellOf(i, k int, a, b choice) (at *byte, bit byte) {
	if i > k {
		i, k, a, b = k, i, b, a
	}
	return &p.done[i*p.n+k], 1 << ((a-off)*2 + (b - off))
}

func (p *pairs) markPair(i, k int, a, b choice) {
	at, bit := p.cellOf(i, k, a, b)
	*at |= bit
}

func (p *pairs) hasPair(i, k int, a, b choice) bool {
	at, bit := p.cellOf(i, k, a, b)
	return *at&bit != 0
}

// nextMissing returns a way that has not come.
func (p *pairs) nextMissing() (i, k int, a, b choice, ok bool) {
	for ; p.from < len(p.done); p.from++ {
		i, k = p.from/p.n, p.from%p.n
		if i >= k {
			continue
		}
		for _, a := range []choice{on, off} {
			for _, b := range []choice{on, off} {
				if !p.hasPair(i, k, a, b) {
					return i, k, a, b, true
				}
			}
		}
	}
	return 0, 0, open, open, false
}

// bestChoice returns the choice for a feature that brings more new ways with those that are chosen; on or off if they are equal.
func (p *pairs) bestChoice(at []choice, i int, tie bool) choice {
	gain := 0
	for k, v := range at {
		if k == i || v == open {
			continue
		}
		if !p.hasPair(i, k, on, v) {
			gain++
		}
		if !p.hasPair(i, k, off, v) {
			gain--
		}
	}
	if gain > 0 || gain == 0 && tie {
		return on
	}
	return off
}

// coverRow marks the pairs of a row. It reports whether one of them is new.
func (p *pairs) coverRow(at []choice) (added bool) {
	for i := range at {
		for k := i + 1; k < len(at); k++ {
			added = added || !p.hasPair(i, k, at[i], at[k])
			p.markPair(i, k, at[i], at[k])
		}
	}
	return added
}
