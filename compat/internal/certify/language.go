package certify

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func compiled(expr string) (*regexp.Regexp, error) { return regexp.Compile(expr) }

// maxStates bounds the states of a product of automata that are visited.
const maxStates = 20_000

// machine runs an expression over a string, rune by rune, and searches for a match anywhere.
type machine struct {
	prog *syntax.Prog
	neg  bool
}

// noString reports whether it is proven that no string of lo to hi runes satisfies all the machines. It runs their product, shortest
// strings first.
func noString(say []matches, lo, hi int64) bool {
	var ms []machine
	for _, s := range say {
		tree, err := syntax.Parse(s.expr, syntax.Perl)
		if err != nil {
			return !s.neg
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			return !s.neg
		}
		if ms = append(ms, machine{prog, s.neg}); len(prog.Inst) > maxStates {
			return false
		}
	}
	alphabet := alphabetOf(ms)
	type state struct {
		sets []string // of each machine, ":" and the instructions it may be at; "+" once it has found a match
		last rune
		n    int64
	}
	seen := map[string]bool{}
	level := []state{{sets: slices.Repeat([]string{":"}, len(ms)), last: -1}}
	for length := int64(0); len(level) > 0 && length <= hi; length++ {
		var next []state
		for _, s := range level {
			all := s.n >= lo
			for i, m := range ms {
				all = all && m.ends(s.sets[i], s.last) != m.neg
			}
			if all {
				return false
			}
			for _, r := range alphabet {
				t := state{sets: make([]string, len(ms)), last: r, n: min(s.n+1, lo)}
				dead := false
				for i, m := range ms {
					t.sets[i] = m.step(s.sets[i], s.last, r)
					dead = dead || m.neg && t.sets[i] == "+"
				}
				k := strings.Join(t.sets, "\x00") + "\x00" + class(r) + strconv.FormatInt(t.n, 10)
				if dead || seen[k] {
					continue
				}
				if seen[k] = true; len(seen) > maxStates {
					return false
				}
				next = append(next, t)
			}
		}
		level = next
	}
	return true
}

// alphabetOf returns one rune, at least, of each set of runes that no machine tells apart.
func alphabetOf(ms []machine) (out []rune) {
	points := map[rune]bool{0: true, '\n': true, '\n' + 1: true}
	for _, r := range "09AZ__az" { // where \b changes its mind
		points[r], points[r+1] = true, true
	}
	for _, m := range ms {
		for _, inst := range m.prog.Inst {
			for i, r := range inst.Rune {
				points[r+rune(i%2)] = true
				if len(inst.Rune) == 1 {
					for f := r; ; { // the letters that count as the same
						points[f], points[f+1] = true, true
						if f = unicode.SimpleFold(f); f == r {
							break
						}
					}
				}
			}
		}
	}
	for r := range points {
		if r <= unicode.MaxRune && (r < 0xD800 || r > 0xDFFF) {
			out = append(out, r)
		}
	}
	slices.Sort(out)
	return out
}

// class is what the next rune's empty-width tests see of the last one.
func class(r rune) string {
	switch {
	case r == '\n':
		return "n"
	case syntax.IsWordChar(r):
		return "w"
	}
	return "-"
}

// reach follows the instructions that take no rune, between the runes last and next. It reports whether a match is found.
func (m machine) reach(set string, last, next rune) (pcs []uint32, found bool) {
	flags := syntax.EmptyOpContext(last, next)
	seen := make([]bool, len(m.prog.Inst))
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch inst := &m.prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(inst.Out)
			visit(inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 { //nolint:gosec // eight bits by its definition
				visit(inst.Out)
			}
		case syntax.InstMatch:
			found = true
		case syntax.InstFail:
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			pcs = append(pcs, pc)
		}
	}
	for _, pc := range set[1:] {
		visit(uint32(pc)) //nolint:gosec // written by step
	}
	visit(uint32(m.prog.Start)) //nolint:gosec // a match may begin anywhere
	return pcs, found
}

func (m machine) ends(set string, last rune) bool {
	if set == "+" {
		return true
	}
	_, found := m.reach(set, last, -1)
	return found
}

func (m machine) step(set string, last, r rune) string {
	if set == "+" {
		return set
	}
	pcs, found := m.reach(set, last, r)
	if found {
		return "+"
	}
	var out []rune
	for _, pc := range pcs {
		if inst := &m.prog.Inst[pc]; inst.MatchRune(r) {
			out = append(out, rune(inst.Out)) //nolint:gosec // few instructions
		}
	}
	slices.Sort(out)
	return ":" + string(slices.Compact(out))
}
