package contain

// What does an answer say? For example, a gap names the place, the keyword, the harm and an object that shows it.

import (
	"strconv"
	"strings"

	"sluice.dev/schema/contain/internal/logic"
)

// Verdict is the answer to a question of containment.
type Verdict int

// The verdicts. There is no fourth.
const (
	// Unknown: neither was shown; a reason names the obstacle. It is the zero value, so that a forgotten answer never counts as a
	// proof.
	Unknown Verdict = iota
	// Contained: it is proven that every object fares the same under both schemas.
	Contained
	// NotContained: a witness shows the contrary.
	NotContained
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case Contained:
		return "contained"
	case NotContained:
		return "not contained"
	case Unknown:
	}
	return "unknown"
}

// Harm is the effect of the new schema on a value that the old one accepts.
type Harm int

// The harms.
const (
	// Refused: the new schema does not accept it.
	Refused Harm = iota
	// Pruned: the new schema drops it, or a null in its place.
	Pruned
	// Redefaulted: another default, or none, is filled in for a missing value.
	Redefaulted
	// RefusedTransition: an update that the old schema allows is refused, although its object is accepted.
	RefusedTransition
)

// StepKind is the kind of a [Step].
type StepKind uint8

// The kinds of steps.
const (
	// Field is a named property.
	Field StepKind = iota
	// AnyKey is any property that is not declared (additionalProperties, or unknown fields that are kept).
	AnyKey
	// AnyItem is any item of a list.
	AnyItem
)

// Step is one step from a value to a part of it.
type Step struct {
	Kind StepKind
	Name string // of a Field
}

// Path leads from the object to a part of it. The empty path leads to the object itself.
type Path []Step

// String writes a path as people do: .spec.tasks[*].timeout, .data.* for any key, and .spec["a.b"] for names that are no
// plain words. The empty path is "".
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		switch {
		case s.Kind == AnyItem:
			b.WriteString("[*]")
		case s.Kind == AnyKey:
			b.WriteString(".*")
		case isPlainName(s.Name):
			b.WriteString("." + s.Name)
		default:
			b.WriteString("[" + strconv.Quote(s.Name) + "]")
		}
	}
	return b.String()
}

// isPlainName reports whether a name can stand in a path without quotes: it is not empty, and has letters, digits, _,
// - and $ only.
func isPlainName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '$' {
			return false
		}
	}
	return name != ""
}

// InStatus reports whether the path is in the status of the object.
func (p Path) InStatus() bool {
	return len(p) > 0 && p[0] == Step{Field, "status"}
}

// Gap is one place where containment is not proven.
type Gap struct {
	// Path leads to the value whose schema differs.
	Path Path
	// Keyword is the JSON name of the keyword of the new schema that causes the gap; for pruned fields it is properties.
	Keyword string
	// Detail distinguishes gaps of one keyword: the property that became required or was removed, the text of a rule.
	Detail string
	Harm   Harm
	// Verdict is NotContained or Unknown.
	Verdict Verdict
	// Reason says, for Unknown, what stopped the proof.
	Reason string
	// Cause names another change if the keyword is the same on both sides: ".spec.type has lost its default".
	Cause string
	// Before and After are the keyword's values on both sides, nil where absent.
	Before, After any
	// Rule is the index of the validation rule in the new node, -1 for other keywords.
	Rule int
	// OddAlone is true if it is proven that the gap concerns only odd values. These are numbers that storage and nearly all clients write
	// in another way: 1.0 for an integer, or, with int-or-string, a number with a fraction of less than a billionth, which the API server
	// ignores. They are also lists in place of strings that have a format ([ListsLetThrough]), and times such as 2020-01-01t00:00:00z,
	// which the API server accepts and CEL cannot read.
	OddAlone bool
	// StatusWrites is set by callers: the gap concerns only objects whose status was written through the status subresource
	// ([Side.StatusUnchecked]).
	StatusWrites bool
	// Witness is set for NotContained.
	Witness *Witness
	// Worst is for a gap with a refused witness: the worst fate that is not ruled out. If it is proven that no object fares worse, it is
	// the witness's own fate.
	Worst Fate
}

// OutOfBudget reports whether the gap is Unknown because the budget was spent before the usual search.
func (g *Gap) OutOfBudget() bool {
	return g.Verdict == Unknown && (strings.HasSuffix(g.Reason, TooMuch) || g.Reason == logic.Spent)
}

// ListsLetThrough is the Detail of a gap of the keyword format that concerns only lists. If a string has a format that is checked,
// the API server accepts lists as well, by an oversight of k8s.io/kube-openapi/pkg/validation/validate (typeValidator). Hardly any
// client relies on it.
const ListsLetThrough = "lists"

// Witness is an object that the upstream code has confirmed: the old schema accepts it, and the new one harms it as the gap says.
type Witness struct {
	// Object is the whole object as a client would send it.
	Object map[string]any
	// Old is, for RefusedTransition, the stored object that Object updates.
	Old map[string]any
	// Errors are the API server's messages if the new schema refuses the object. Of an object that is only Unappliable they have that message.
	Errors []string
	// Masked has the messages of the gap's rule if the API server does not evaluate it, because every object that was found has
	// another error. Errors then has those other errors.
	Masked []string
	// PrunedPaths are the fields that the new schema drops.
	PrunedPaths []string
	// Stuck is true if, once the object is stored, even an update that changes only a label is refused under the rules of the target
	// version, ratcheting included. Ratcheted is true if only ratcheting allows such an update.
	Stuck, Ratcheted bool
	// StuckErrors are the messages of that refusal if Stuck is set.
	StuckErrors []string
	// Unappliable is the message of every server-side apply to the stored object, whatever is applied, if that alone is refused. Stuck is
	// then set.
	Unappliable string
	// StatusRefused is the message of every write of the stored object's status, whatever it changes, if updates pass that leave the value
	// alone ([Options.StatusWrites]). Stuck is then set.
	StatusRefused string
	// WritersOnly is true if no stored object is harmed. Either the new schema accepts the stored form of the object, with the old
	// defaults, and refuses only requests that leave them out. Or the rule itself tolerates stored values (optionalOldSelf), without the
	// help of ratcheting.
	WritersOnly bool
	// Lost is true if the value is not only refused: its fields are pruned, because its type does not know them.
	Lost bool
	// Before and After are, for Redefaulted, the value that each side fills in.
	Before, After any
}

// Fate is the fate of refused objects once they are stored, from the best to the worst.
type Fate int

// The fates.
const (
	// Spared: no stored object is harmed.
	Spared Fate = iota
	// Tolerated: an update that changes only a label passes, thanks to ratcheting alone.
	Tolerated
	// Stuck: even such an update is refused.
	Stuck
	// Lost: fields are pruned as well.
	Lost
)

// Fate is that of the witness.
func (w *Witness) Fate() Fate {
	switch {
	case w.Lost:
		return Lost
	case w.Stuck:
		return Stuck
	case w.Ratcheted:
		return Tolerated
	}
	return Spared
}

// TooMuch is the reason for undecided changes when the budget is spent.
const TooMuch = "the schemas differ in too much: the budget of the comparison is spent; a larger one (--budget) may decide this"

// Event is a step of a comparison, for [Options.Trace].
type Event struct {
	// Path leads to the place that the step is about.
	Path Path
	// Keyword and Detail are those of a [Gap], or of a demand of the new schema that is proven.
	Keyword, Detail string
	// Text is the question or the result, in the words of docs/containment.md.
	Text string
	// Object is the candidate that Text is about, nil if there is none.
	Object map[string]any
	// Below is true if the step decides all places below its path as well.
	Below bool
}
