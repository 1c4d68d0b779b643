package regular

import "fmt"

// Verdict is the outcome of a decision about a claim.
type Verdict int

const (
	// Unknown means that the claim could not be decided within the budget. It is the
	// zero value, so that a forgotten answer is never taken for a proof.
	Unknown Verdict = iota
	// Proved means that the claim holds for all strings.
	Proved
	// Refuted means that the claim fails, and that Answer.Witness shows it.
	Refuted
)

// String returns "Unknown", "Proved" or "Refuted".
func (v Verdict) String() string {
	switch v {
	case Unknown:
		return "Unknown"
	case Proved:
		return "Proved"
	case Refuted:
		return "Refuted"
	default:
		return fmt.Sprintf("Verdict(%d)", int(v))
	}
}

// Answer is the outcome of a decision.
type Answer struct {
	// Verdict is the outcome.
	Verdict Verdict
	// Witness is the string that refutes the claim. It is meaningful only when
	// Verdict is Refuted; there the empty string is a witness like any other.
	Witness string
	// Shortest reports that no string with fewer runes refutes the claim. It is false
	// only when a part of the search ran out of budget and another found a witness.
	Shortest bool
	// Reason says, when Verdict is Unknown, which budget was spent, and on what. It is a phrase without a final stop, of a few hundred
	// bytes at most.
	Reason string
	// Spent is the work that went into the answer.
	Spent Spent
}

// Spent counts the work of one decision, in the units of Budget.
type Spent struct {
	// States counts automaton states: the determinised ones of each pattern and those
	// of their product.
	States int
	// Steps counts elementary steps: instructions visited, transitions followed, and
	// cells of tables that were set up.
	Steps int
}

// Defaults and ceilings of a Budget. The defaults are enough for every pattern found
// in real CRDs, and are spent within a few tens of milliseconds by those that are made
// to explode.
const (
	DefaultStates = 20_000
	DefaultSteps  = 4_000_000
	DefaultRunes  = 1 << 20

	maxStates = 1 << 24
	maxSteps  = 1 << 30
)

// Budget bounds the work of one decision. It contains no time, so that an answer does not depend on the machine. A field that is zero
// or negative gets its default. The limits are 16 million states and a billion steps; larger values are cut to them.
type Budget struct {
	// States is the most automaton states to build.
	States int
	// Steps is the most elementary steps to take. A step takes a few nanoseconds and
	// at most a few bytes of memory.
	Steps int
	// Runes is the longest string to return, in runes. If only longer ones exist, the answer is Unknown.
	Runes int
	// Total, if not nil, adds up the work.
	Total *Spent
}

// count adds s to Total.
func (b Budget) count(s Spent) {
	if b.Total != nil {
		b.Total.States += s.States
		b.Total.Steps += s.Steps
	}
}

func (b Budget) orDefault() Budget {
	if b.States <= 0 {
		b.States = DefaultStates
	}
	if b.Steps <= 0 {
		b.Steps = DefaultSteps
	}
	if b.Runes <= 0 {
		b.Runes = DefaultRunes
	}
	b.States, b.Steps = min(b.States, maxStates), min(b.Steps, maxSteps)
	return b
}

// meter counts the work of a part of a decision. Once it is over its limit, it stays over, and later results must not be used: a
// machine without budget returns an arbitrary state.
type meter struct {
	spent Spent
	limit Spent
	over  bool
}

func (m *meter) state() {
	m.spent.States++
	if m.spent.States > m.limit.States {
		m.over = true
	}
}

func (m *meter) step(n int) {
	m.spent.Steps += n
	if m.spent.Steps > m.limit.Steps {
		m.over = true
	}
}

// share returns a meter for one of n parts of the work that is left.
func (m *meter) share(n int) *meter {
	return &meter{limit: Spent{
		States: max(0, m.limit.States-m.spent.States) / n,
		Steps:  max(0, m.limit.Steps-m.spent.Steps) / n,
	}}
}

// add books the spendings of a part.
func (m *meter) add(part *meter) {
	m.spent.States += part.spent.States
	m.spent.Steps += part.spent.Steps
}

// spentOf says which part of budget b is spent; m was a part of it.
func (m *meter) spentOf(b Budget) string {
	if m.spent.States > m.limit.States {
		return fmt.Sprintf("the budget of %d automaton states is spent", b.States)
	}
	return fmt.Sprintf("the budget of %d steps is spent", b.Steps)
}
