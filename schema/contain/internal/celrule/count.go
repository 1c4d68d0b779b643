package celrule

import "sluice.dev/schema/contain/internal/logic"

// How many items pass a filter? For example, of self.l.filter(x, x > 1).size() >= 1 a formula says all, and of >= 2 only some certain cases.

// countElements returns the number of elements of a list written in the rule.
func (t *translator) countElements(l listV) (value, error) {
	var bits []bit
	always := 0
	for _, e := range l.elems {
		if e.in.op == opTrue {
			always++
		} else {
			bits = append(bits, bit{e.in, e.out})
		}
	}
	if len(bits) == 0 {
		return singleBranch(intV(always)), nil
	}
	if len(bits) > maxBits {
		return nil, errUnsupported
	}
	n := newNum(sumOf{bits})
	if always > 0 {
		n, _ = n.withConst('+', int64(always), false)
	}
	return singleBranch(n), nil
}

// comprSize evaluates the size of a filtered list: the number of items that count.
func (t *translator) comprSize(c *compr) (value, error) {
	if c.same != nil {
		return c.same, nil
	}
	if v, ok := t.countSame(c); ok {
		return v, nil
	}
	valid, err := c.whenValid()
	if err != nil {
		return nil, err
	}
	kind := logic.Array
	if isMap(c.of.node) {
		kind = logic.Object
	}
	if c.pred.t.op == opTrue {
		return value{}.addBranch(valid, newNum(sizeAt{c.of, kind})), nil
	}
	b := countAt{size: sizeAt{c.of, kind}}
	if b.some, err = c.newQuantifier(false).quantifyCond(c.pred.t); err != nil {
		return nil, err
	}
	if all, err := c.newQuantifier(true).quantifyCond(c.pred.t); err == nil && c.pred.t.scopes == 1<<c.scope {
		if f, ok := emitFormula(c.pred.t); ok {
			b.all, b.id = all, shortDigest(formulaText(f))
		}
	}
	return value{}.addBranch(valid, newNum(b)), nil
}

// countAt is the number of items of a list that satisfy a formula.
type countAt struct {
	size      sizeAt
	all, some *cond // all items do, some item does; all is nil if only the latter can be expressed
	id        string
}

func (b countAt) indexBounds() (int64, int64) { return 0, maxSize }

func (b countAt) numberAt(i int64) num { return num{i: i} }

func (b countAt) asTerm() (termV, bool) { return termV{}, false }

// indexWithin says that from lo to hi items satisfy the formula: at least lo do, and not at least hi+1.
func (b countAt) indexWithin(lo, hi int64) *cond {
	least := b.atLeast(lo)
	if hi >= maxSize || least == nil {
		return least
	}
	more := b.atLeast(hi + 1)
	if more == nil {
		return nil
	}
	return andConds(least, notCond(more))
}

// atLeast says that at least n items satisfy the formula. For n over 1, no formula can express that: an opaque part decides, or the result
// is nil if not even the bounds of that part can be said.
func (b countAt) atLeast(n int64) *cond {
	switch {
	case n <= 0:
		return yes
	case n == 1:
		return b.some
	}
	if b.all == nil {
		return nil
	}
	// At least n says at least 2, 3 and so on: so that one bound implies another.
	var unknown []*cond
	for k := int64(2); k <= n && k <= 9; k++ {
		m := k
		if k == 9 {
			m = n
		}
		unknown = append(unknown, leafCond(b.size.at, logic.Opaque{ID: "at least " + writeConst(m) + " of " + b.id}))
	}
	return andConds(b.size.indexWithin(n, maxSize), b.some, orConds(b.all, andConds(unknown...)))
}
