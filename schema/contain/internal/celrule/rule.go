package celrule

// What is kept of a parsed rule? For example, its normal form and what it says by its form are made once, when they are needed.

// Limits of what [Parse] takes.
const (
	// MaxSize is the longest expression, in bytes.
	MaxSize = 100_000
	// maxNodes bounds the parts of an expression.
	maxNodes = 20_000
	// maxDepth bounds its nesting.
	maxDepth = 250
)

// Rule is a parsed rule. It is immutable and may be used by several goroutines at once.
type Rule struct {
	root  *expr
	canon func() string
	names func() map[string]bool
	said  func() [][]atom
	old   bool
}

const (
	self    = "self"
	oldSelf = "oldSelf"
)

// atom is a part that is not split further, in its normal form.
type atom struct {
	text string
	// op is <, <=, == or != for a comparison of the texts a and b.
	op, a, b string
	// left and right are the constants that a and b are, or nil.
	left, right any
	// parts are the operands of a conjunction.
	parts []atom
}
