package contain

// What does the translation of schemas remember? A translator keeps the formula of each place, and of each keyword. For example, two fields
// with the same schema share one formula.

import (
	"strconv"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// translator turns places into formulas. The formulas are about raw values: as a client sends them, after unknown fields and nulls
// are dropped, and before defaults are filled in.
type translator struct {
	opts  *Options
	cache map[placeKey]logic.Formula
	// branches caches the branches of junctors.
	branches map[nestedKey]logic.Formula
	odd      map[*schema.Node]bool      // the results of hasOdd
	writes   map[placeKey]logic.Formula // the results of written
	// parts has the results of pieces. Its key has the node, too, because the messages of rules are not part of the hash.
	parts map[pieceKey][]piece
}

func newTranslator(o *Options) *translator {
	return &translator{opts: o, cache: map[placeKey]logic.Formula{}, branches: map[nestedKey]logic.Formula{}, odd: map[*schema.Node]bool{}, writes: map[placeKey]logic.Formula{}, parts: map[pieceKey][]piece{}}
}

// A piece is one keyword of a node as a formula.
type piece struct {
	keyword string
	// detail distinguishes pieces of one keyword: the property that is required, the text of a rule.
	detail  string
	formula logic.Formula
	before  any
	rule    *schema.Rule
	index   int // of a rule or a junctor's branch
}

// detailOrIndex distinguishes the pieces of one keyword at one place.
func (x piece) detailOrIndex() string {
	if x.keyword == "allOf" {
		return strconv.Itoa(x.index)
	}
	return x.detail
}

type pieceKey struct {
	placeKey
	node *schema.Node
}

// nestedKey identifies the meaning of a branch of a junctor. It depends on the structural schema at its place, whose defaults are
// filled in before.
type nestedKey struct {
	branch  schema.Hash
	place   placeKey
	inAllOf bool
}

// writtenKey is the key of the formula that written returns for a place.
type writtenKey struct{ place placeKey }
