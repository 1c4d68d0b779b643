package featuretest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
)

// Case is a choice for all features that can be set: neither locked, nor beyond maxLevel, nor yet to come.
type Case struct {
	// Name says which it is, for the name of a test.
	Name   string
	Values Values
}

// Run runs a test once for each case, as parts of t, one after the other, with all features set as the case says. A part that
// asks for a feature that the case does not name fails. A part that fails tells the case as --feature-gates takes it.
func Run(t *testing.T, g *gate.Gates, cases []Case, test func(t *testing.T)) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			c.begin(t, g)
			test(t)
		})
	}
}

// RunParallel runs a test once for each case as Run does, but with gates of its own for each, which it is given: the parts may be
// parallel ([testing.T.Parallel]). Cases are made of gates like those, by [All] for example.
func RunParallel(t *testing.T, d gate.Declaration, o gate.Options, cases func(*gate.Gates) []Case, test func(t *testing.T, g *gate.Gates)) {
	t.Helper()
	for _, c := range cases(New(t, d, o, nil)) {
		t.Run(c.Name, func(t *testing.T) {
			g := New(t, d, o, nil)
			c.begin(t, g)
			test(t, g)
		})
	}
}

// begin sets the features of the case.
func (c *Case) begin(t *testing.T, g *gate.Gates) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("featuretest: --feature-gates=%s", c.Values)
		}
	})
	NoDefaults(t, g)
	set(t, g, c.Values, true)
}

// All are all cases of the other functions, each choice once.
func All(g *gate.Gates) []Case {
	var out []Case
	for _, c := range slices.Concat(AllOff(g), AllOn(g), EachAlone(g), Pairs(g)) {
		if !slices.ContainsFunc(out, func(o Case) bool { return maps.Equal(o.Values, c.Values) }) {
			out = append(out, c)
		}
	}
	return out
}

// AllOff is one case: every feature off.
func AllOff(g *gate.Gates) []Case { return newChoices(g).constant("all off", false) }

// AllOn is one case: every feature on.
func AllOn(g *gate.Gates) []Case { return newChoices(g).constant("all on", true) }

// EachAlone has a case for each feature, in which it is on and all others are off but those that it requires.
func EachAlone(g *gate.Gates) []Case {
	c := newChoices(g)
	var out []Case
	for i, name := range c.names {
		row := c.row()
		row.set(i, on)
		row.fill(off)
		label := string(name)
		if with := c.with(i); with != nil {
			label += " with " + strings.Join(with, " and ")
		}
		out = append(out, Case{label, row.values()})
	}
	return out
}

// Pairs has cases such that each two features come together in all ways in which they can, on and off: whatever goes wrong
// because of two features goes wrong in one of them. Fewer than two features have no case. There are about two cases for each
// doubling of the number of features: some 10 cases for 20 features, some 20 for 500. Equal features give equal cases.
func Pairs(g *gate.Gates) []Case {
	c := newChoices(g)
	covered := newPairs(len(c.names))
	var out []Case
	for {
		row := c.start(covered)
		if row == nil {
			return out
		}
		for i := range c.names {
			if row.at[i] == open {
				row.set(i, covered.best(row.at, i, len(out)%2 == 0))
			}
		}
		covered.cover(row.at)
		values := row.values()
		out = append(out, Case{fmt.Sprintf("pairs/%d %s", len(out)+1, c.label(values)), values})
	}
}

// label says what is on where that is little, what is off where that is, and how many otherwise.
func (c *choices) label(values Values) string {
	const few = 5
	var is, not []string
	for _, name := range c.names {
		if values[name] {
			is = append(is, string(name))
		} else {
			not = append(not, string(name))
		}
	}
	switch {
	case len(is) == 0:
		return "none"
	case len(not) == 0:
		return "all"
	case len(is) <= few:
		return strings.Join(is, " and ")
	case len(not) <= few:
		return "all but " + strings.Join(not, " and ")
	}
	return fmt.Sprintf("%d of %d", len(is), len(c.names))
}

// choice is what is chosen for a feature.
type choice byte

const (
	open choice = iota
	off
	on
)

// choices are the features that can be set, with what they require of one another.
type choices struct {
	names    []featuregate.Feature // sorted
	requires [][]int               // all that each requires, of those that can be set
	needed   [][]int               // all that require each
}

func newChoices(g *gate.Gates) *choices {
	m := g.Model()
	c := &choices{}
	index := map[string]int{}
	for _, f := range m.Features() {
		if choosable(m, f) {
			index[f.Spec.Gate] = len(c.names)
			c.names = append(c.names, featuregate.Feature(f.Spec.Gate))
		}
	}
	c.requires, c.needed = make([][]int, len(c.names)), make([][]int, len(c.names))
	for i, name := range c.names {
		seen := map[int]bool{}
		var add func(gate string)
		add = func(gate string) {
			for _, r := range m.Feature(gate).Spec.Requires {
				if k, ok := index[r]; ok && !seen[k] {
					seen[k] = true
					add(r)
				}
			}
		}
		add(string(name))
		for _, k := range slices.Sorted(maps.Keys(seen)) {
			c.requires[i] = append(c.requires[i], k)
			c.needed[k] = append(c.needed[k], i)
		}
	}
	return c
}

// choosable tells whether a feature can be turned on and off.
func choosable(m *feature.Model, f *feature.Feature) bool {
	return f.Free() && !stuck(f) && !hopeless(m, f, map[string]bool{})
}

// stuck tells whether every level opens the feature, whatever its key says.
func stuck(f *feature.Feature) bool {
	return f.Spec.ImpliedByLevel && f.Level == v1alpha1.LevelStable
}

// hopeless tells whether the feature requires one that is off for good.
func hopeless(m *feature.Model, f *feature.Feature, seen map[string]bool) bool {
	for _, gate := range f.Spec.Requires {
		r := m.Feature(gate)
		if r == nil {
			return true
		}
		if seen[gate] {
			continue
		}
		seen[gate] = true
		if !r.Free() && (!r.Locked || !r.Default) || hopeless(m, r, seen) {
			return true
		}
	}
	return false
}

func (c *choices) constant(name string, value bool) []Case {
	row := c.row()
	row.fill(map[bool]choice{false: off, true: on}[value])
	return []Case{{name, row.values()}}
}

// with names what a feature requires.
func (c *choices) with(i int) (out []string) {
	for _, k := range c.requires[i] {
		out = append(out, string(c.names[k]))
	}
	return out
}

func (c *choices) row() *row { return &row{c, make([]choice, len(c.names))} }

// start returns a row with the first two features chosen in a way that has not come yet; nil if all have.
func (c *choices) start(p *pairs) *row {
	for {
		i, k, a, b, ok := p.next()
		if !ok {
			return nil
		}
		row := c.row()
		row.set(i, a)
		if row.at[k] != open && row.at[k] != b {
			p.mark(i, k, a, b) // what one requires rules it out
			continue
		}
		row.set(k, b)
		return row
	}
}

// row is a choice that is being made. What is open can be chosen freely: a choice brings along what it requires.
type row struct {
	choices *choices
	at      []choice
}

func (r *row) set(i int, v choice) {
	r.at[i] = v
	along := r.choices.requires[i]
	if v == off {
		along = r.choices.needed[i]
	}
	for _, k := range along {
		r.at[k] = v
	}
}

func (r *row) fill(v choice) {
	for i := range r.at {
		if r.at[i] == open {
			r.set(i, v)
		}
	}
}

func (r *row) values() Values {
	out := Values{}
	for i, name := range r.choices.names {
		out[name] = r.at[i] == on
	}
	return out
}

// pairs notes which ways of choosing two features have come.
type pairs struct {
	n    int
	done []byte // by i*n+k with i < k: a bit for each of the four ways
	from int    // all before are done
}

func newPairs(n int) *pairs { return &pairs{n: n, done: make([]byte, n*n)} }

func bit(a, b choice) byte { return 1 << ((a-off)*2 + (b - off)) }

func (p *pairs) mark(i, k int, a, b choice) {
	if i > k {
		i, k, a, b = k, i, b, a
	}
	p.done[i*p.n+k] |= bit(a, b)
}

func (p *pairs) has(i, k int, a, b choice) bool {
	if i > k {
		i, k, a, b = k, i, b, a
	}
	return p.done[i*p.n+k]&bit(a, b) != 0
}

// next returns a way that has not come.
func (p *pairs) next() (i, k int, a, b choice, ok bool) {
	for ; p.from < len(p.done); p.from++ {
		i, k = p.from/p.n, p.from%p.n
		if i >= k {
			continue
		}
		for _, a := range []choice{on, off} {
			for _, b := range []choice{on, off} {
				if !p.has(i, k, a, b) {
					return i, k, a, b, true
				}
			}
		}
	}
	return 0, 0, open, open, false
}

// best returns the choice for a feature that brings more new ways with those that are chosen; on or off if they are equal.
func (p *pairs) best(at []choice, i int, tie bool) choice {
	gain := 0
	for k, v := range at {
		if k == i || v == open {
			continue
		}
		if !p.has(i, k, on, v) {
			gain++
		}
		if !p.has(i, k, off, v) {
			gain--
		}
	}
	if gain > 0 || gain == 0 && tie {
		return on
	}
	return off
}

func (p *pairs) cover(at []choice) {
	for i := range at {
		for k := i + 1; k < len(at); k++ {
			p.mark(i, k, at[i], at[k])
		}
	}
}
