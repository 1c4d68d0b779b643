// Package regular finds strings that match some patterns and do not match others, or proves that there are none. It asks, for example,
// whether some string of at most 63 runes matches ^[a-z.]+$ and not ^[a-z]+$, and answers ".".
//
// It runs all patterns at once over the strings, shorter ones first, as a product of automata. A state of the product says, for each
// pattern, at which instructions a match may go on, and what kind of rune came last, which ^, $ and \b see. Two strings that lead to the same state
// have the same continuations, so each state needs one visit. If the visits end without a string, there is none.
//
// Strings are sequences of Unicode scalar values, as JSON carries them into Go. A number of runes is what minLength and maxLength
// count. The same question has the same answer on every machine. No input makes the package panic, and the caller's budget bounds time and memory.
// docs/containment-patterns.md argues why this is sound.
package regular

// Which strings match all of some patterns and none of others? The search walks through the product of their automata, the shortest strings
// first. For example, for ^a and not b$ it finds a, then aa.

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// Question describes a set of strings.
type Question struct {
	// Each string matches all of Match and none of Avoid.
	Match, Avoid []*Pattern
	// Least and Most bound the number of runes; Most is included.
	Least, Most int64
	// Charge counts steps, each of about 20 ns and 16 bytes. It returns false once the budget is spent.
	Charge func(steps int) bool
}

// Strings returns up to n strings of the set, shorter ones first, and of those that are equally long more readable ones. If there are none, none says
// whether that is proven; it is not if the budget was spent.
func (q *Question) Strings(n int) (found []string, none bool) {
	p := &product{Question: q, patterns: slices.Concat(q.Match, q.Avoid), ids: map[string]int32{}}
	p.alphabet = alphabetOf(p.patterns)
	p.chargeSteps(20 * len(p.alphabet))
	for _, x := range p.patterns {
		p.asserts |= x.asserts
	}
	start := p.stateOf(slices.Repeat([]threads{""}, len(p.patterns)), noText)
	// One visit of each state decides whether there is a string. More visits find more strings.
	if found, none = p.searchStates(start, 1, n); len(found) == 0 || len(found) >= n {
		return found, none
	}
	more, _ := p.searchStates(start, n, n)
	if len(more) < len(found) { // the budget is spent
		return found, false
	}
	return more, false
}

// product is the automaton of all patterns, as far as it was needed.
type product struct {
	*Question
	patterns []*Pattern
	alphabet []rune
	asserts  syntax.EmptyOp // what any of the patterns asserts
	ids      map[string]int32
	states   []state
	spent    bool
	key      []byte // of the last state that was asked for
	use      scratch
}

type state struct {
	sets    []threads // of each pattern
	last    rune      // a rune of the kind that came last
	accepts bool
	edges   []edge
	known   bool // whether edges are
}

// edge leads from a state to another one.
type edge struct {
	by rune
	to int32
}

func (p *product) chargeSteps(steps int) {
	p.spent = !p.Charge(steps+p.use.steps) || p.spent
	p.use.steps = 0
}

// kindOf returns a rune that the assertions of the patterns do not tell apart from r.
func (p *product) kindOf(r rune) rune {
	switch {
	case r == '\n' && p.asserts&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0:
		return '\n'
	case p.asserts&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 && syntax.IsWordChar(r):
		return 'a'
	}
	return '-'
}

// stateOf returns the number of a state.
func (p *product) stateOf(sets []threads, last rune) int32 {
	p.key = p.key[:0]
	for _, s := range sets {
		p.key = append(append(p.key, s...), 0xFF) // in no thread: they are valid UTF-8
	}
	p.key = utf8.AppendRune(p.key, last+1)
	if id, ok := p.ids[string(p.key)]; ok {
		return id
	}
	s := state{sets: slices.Clone(sets), last: last, accepts: true}
	for i := range sets {
		_, found := p.patterns[i].beforeRune(sets[i], last, noText, &p.use)
		s.accepts = s.accepts && found == (i < len(p.Match))
	}
	id := int32(len(p.states)) //nolint:gosec // the budget bounds it
	p.ids[string(p.key)] = id
	p.states = append(p.states, s)
	p.chargeSteps(20 + len(sets) + len(p.key)/8)
	return id
}

// edgesOf returns the edges of a state, without those after which no string can be in the set.
func (p *product) edgesOf(id int32) []edge {
	if p.states[id].known {
		return p.states[id].edges
	}
	from := p.states[id]
	type front struct {
		takesRune []uint32
		found     bool
	}
	fronts := map[rune][]front{}
	for _, kind := range [...]rune{p.kindOf('a'), p.kindOf('-'), p.kindOf('\n')} {
		if fronts[kind] != nil {
			continue
		}
		for i, s := range from.sets {
			takesRune, found := p.patterns[i].beforeRune(s, from.last, kind, &p.use)
			fronts[kind] = append(fronts[kind], front{takesRune, found})
		}
	}
	var edges []edge
	sets := make([]threads, len(from.sets))
letters:
	for _, by := range p.alphabet {
		kind := p.kindOf(by)
		for i, f := range fronts[kind] {
			p.use.steps += 1 + len(f.takesRune)
			if sets[i] = matched; !f.found {
				sets[i] = p.patterns[i].afterRune(f.takesRune, by, &p.use)
			}
			if i >= len(p.Match) && f.found || i < len(p.Match) && sets[i] == "" && p.patterns[i].fromStart {
				continue letters
			}
		}
		edges = append(edges, edge{by, p.stateOf(sets, kind)})
		if p.chargeSteps(0); p.spent {
			break
		}
	}
	p.chargeSteps(len(edges))
	p.states[id].edges, p.states[id].known = edges, true
	return edges
}

// visit is a state after some runes, up to the least number of runes of a string.
type visit struct {
	state int32
	runes int64
}

// node is the last step of a way through the product.
type node struct {
	state, parent int32
	by            rune
}

// searchStates visits each state up to a number of times, and returns the first n strings. none is true if it visited all states and there
// are none.
func (p *product) searchStates(start int32, visits, n int) (found []string, none bool) {
	nodes := []node{{state: start, parent: -1}}
	seen := map[visit]int{}
	for length, level := int64(0), 0; level < len(nodes) && length <= p.Most; length++ {
		end := len(nodes)
		for at := level; at < end; at++ {
			if length >= p.Least && p.states[nodes[at].state].accepts {
				if found = append(found, textOf(nodes, at, length)); len(found) >= n {
					return found, false
				}
			}
			if length == p.Most {
				continue
			}
			for _, e := range p.edgesOf(nodes[at].state) {
				v := visit{e.to, min(length+1, p.Least)}
				if count := seen[v]; count < visits {
					seen[v] = count + 1
					nodes = append(nodes, node{e.to, int32(at), e.by})
					p.chargeSteps(5)
				}
			}
			if p.spent {
				return found, false
			}
		}
		level = end
	}
	return found, len(found) == 0
}

// textOf returns the string of a way.
func textOf(nodes []node, at int, length int64) string {
	runes := make([]rune, length)
	for i := range slices.Backward(runes) {
		runes[i], at = nodes[at].by, int(nodes[at].parent)
	}
	return string(runes)
}
