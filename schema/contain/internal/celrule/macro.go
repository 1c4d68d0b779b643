package celrule

// What is the value of a macro? For example, self.l.all(x, x > 1) demands something of all items, and self.l.filter(x, x > 1).size() counts
// items.

import (
	"errors"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// compr is the range of a macro, filtered and mapped: the items of a list or the keys of a map at a place.
type compr struct {
	t     *translator
	of    ref
	scope scope // of an item, or of a key; the value of the key is the next scope
	elem  value // of an item
	pred  boolV // which items count
	// same is the size of a list of the items that are equal to another one; nothing else is known about that list.
	same value
	// strict: an error of pred or elem is an error of the whole, as in filter and map.
	strict bool
}

// newCompr makes a scope for the values in a list or a map. The caller drops it if it is not kept.
func (t *translator) newCompr(r ref) (*compr, error) {
	c := &compr{t: t, of: r, scope: len(t.nodes), pred: boolConst(true)}
	if len(t.nodes)+2 > maxScopes {
		return nil, errUnsupported
	}
	switch {
	case r.node.Type == "array" && r.node.Items != nil:
		t.nodes = append(t.nodes, r.node.Items)
		t.ranges = append(t.ranges, rangeOf{of: r})
	case isMap(r.node):
		t.nodes = append(t.nodes, &schema.Node{Type: "string"}, r.node.Additional)
		t.ranges = append(t.ranges, rangeOf{of: r, key: true}, rangeOf{of: r})
	default:
		return nil, errUnsupported
	}
	v, err := t.loadPlace(place{scope: c.scope}, t.nodes[c.scope])
	c.elem = v
	return c, err
}

// dropScopes forgets the scopes from c's on.
func (t *translator) dropScopes(c *compr) {
	t.nodes, t.ranges = t.nodes[:c.scope], t.ranges[:c.scope]
}

// newQuantifier goes over all of the list, counted or not.
func (c *compr) newQuantifier(all bool) quantifier {
	q := quantifier{all: all, mask: 1 << c.scope, spend: c.t.chargeWork}
	said := c.saidOfSome
	if all {
		said = c.saidOfAll
	}
	q.wrap = func(s scope, f logic.Formula) *cond { return leafCond(c.of.at, said(s == c.scope, f)) }
	if c.isList() {
		q.list = &c.of
	} else {
		q.mask |= 2 << c.scope // the keys, and the values
	}
	return q
}

func (c *compr) isList() bool { return c.of.node.Type == "array" }

// saidOfAll is true of the lists whose items all satisfy f, or of the maps whose keys or values do.
func (c *compr) saidOfAll(key bool, f logic.Formula) logic.Formula {
	switch {
	case isTrue(f):
		return logic.True
	case c.isList() && isFalse(f):
		return logic.NumItems{Min: 0, Max: 0}
	case c.isList():
		return logic.Items{F: f}
	case isFalse(f):
		return logic.NumProps{Min: 0, Max: 0}
	case key:
		return logic.AllKeys{F: f}
	}
	return logic.Rest{F: f}
}

// saidOfSome is true of the lists with an item that satisfies f, or of the maps with such a key or value.
func (c *compr) saidOfSome(key bool, f logic.Formula) logic.Formula {
	switch {
	case c.isList() && isTrue(f):
		return logic.NumItems{Min: 1, Max: logic.Unbounded}
	case c.isList():
		return logic.SomeItem{F: f}
	case isTrue(f):
		return logic.NumProps{Min: 1, Max: logic.Unbounded}
	case key:
		return logic.SomeKey{F: f}
	}
	return logic.SomeRest{F: f}
}

// whenValid says when a strict list is no error.
func (c *compr) whenValid() (*cond, error) {
	if !c.strict {
		return yes, nil
	}
	d, err := c.elem.whenDefined()
	if err != nil {
		return nil, err
	}
	return c.newQuantifier(true).quantifyCond(orConds(c.pred.f, andConds(c.pred.t, d)))
}

// evalQuantified evaluates all, exists or exists_one of the statement f about an element.
func (t *translator) evalQuantified(name string, c *compr, f func(value) (boolV, error)) (value, error) {
	if c.same != nil {
		return nil, errMixed
	}
	valid, err := c.whenValid()
	if err != nil {
		return nil, err
	}
	b, err := f(c.elem)
	if err != nil {
		return nil, err
	}
	// Items that do not count decide nothing.
	in, out := c.pred.t, c.pred.f
	whenTrue, whenFalse := c.newQuantifier(name == "all"), c.newQuantifier(name != "all")
	switch name {
	case "all":
		b = boolV{orConds(out, andConds(in, b.t)), andConds(in, b.f)}
	case "exists":
		b = boolV{andConds(in, b.t), orConds(out, andConds(in, b.f))}
	default:
		d := *c
		d.pred = boolV{andConds(in, b.t), orConds(out, andConds(in, b.f))}
		d.elem, d.strict = singleBranch(nullV{}), true
		n, err := t.comprSize(&d)
		if err != nil {
			return nil, err
		}
		v, err := t.eachBranch(n.guardedBy(valid), func(s sval) (value, error) {
			r, err := t.equalityOf(s, intV(1))
			return singleBranch(r), err
		})
		return v, err
	}
	var sure, maybe boolV
	if sure.t, maybe.t, err = whenTrue.quantifyBounds(b.t); err != nil {
		return nil, err
	}
	if sure.f, maybe.f, err = whenFalse.quantifyBounds(b.f); err != nil {
		return nil, err
	}
	if sure != maybe {
		return nil, mixed{
			boolV{andConds(valid, sure.t), andConds(valid, sure.f)},
			boolV{andConds(valid, maybe.t), andConds(valid, maybe.f)},
		}
	}
	return value{}.addBranch(valid, sure), nil
}

// evalMacro evaluates a call that binds variables.
func (t *translator) evalMacro(e *expr, env *variable) (value, error) {
	n := e.binders()
	for _, v := range e.args[1 : n+1] {
		if v.kind != ident {
			return nil, errUnsupported
		}
	}
	rng, err := t.evalValue(e.args[0], env)
	if err != nil {
		return nil, err
	}
	name, bodies := e.name, e.args[n+1:]
	if name == "optMap" || name == "optFlatMap" {
		return t.eachBranch(rng, func(s sval) (value, error) { return t.optMap(name, s, e.args[1].name, bodies[0], env) })
	}
	names := []string{e.args[1].name}
	if n == 2 {
		names = append(names, e.args[2].name)
	}
	return t.eachBranch(rng, func(s sval) (value, error) {
		if c, ok := s.(constV); ok {
			if l, ok := t.constList(c); ok {
				s = l
			}
		}
		if _, ok := s.(mapV); ok {
			s = listV{}
		}
		switch s := s.(type) {
		case listV:
			return t.macroList(name, s, names, bodies, env)
		case comprV:
			mark := len(t.asides)
			v, _, err := t.macroCompr(name, s.compr, bodies, bindVariables(names, s.elem, computed, env))
			if err != nil {
				t.asides = t.asides[:mark]
				return nil, err
			}
			// If nothing passes the filter, there is no error.
			return t.settleAssumptions(mark, s.scope, v, name, false, func() (boolV, error) { return t.opaqueStatement(e, env) })
		case refV:
			return t.macroAt(e, s.ref, names, bodies, env)
		}
		return nil, errUnsupported
	})
}

// macroAt evaluates a macro over a list or map at a place.
func (t *translator) macroAt(e *expr, over ref, names []string, bodies []*expr, env *variable) (value, error) {
	c, err := t.newCompr(over)
	if err != nil {
		return nil, err
	}
	mark := len(t.asides)
	vars := bindVariables(names, c.elem, c.scope, env)
	if len(names) == 2 && isMap(over.node) {
		elem, err := t.loadPlace(place{scope: c.scope + 1}, over.node.Additional)
		if err != nil {
			return nil, err
		}
		vars = bindVariables(names[:1], c.elem, c.scope, env)
		vars = bindVariables(names[1:], elem, c.scope+1, vars)
	}
	v, compares, err := t.macroCompr(e.name, c, bodies, vars)
	opaque := func() (boolV, error) { return t.opaqueStatement(e, env) }
	if errors.Is(err, errMixed) || errors.Is(err, errUnsupported) {
		if len(t.asides) > mark { // the bounds hold only under the assumptions
			err = errMixed
		}
		t.asides = t.asides[:mark]
		return t.decideFewItems(e, env, over, err)
	}
	if err != nil {
		return nil, err
	}
	return t.settleAssumptions(mark, c.scope, v, e.name, compares, opaque)
}

func (t *translator) optMap(name string, s sval, varName string, body *expr, env *variable) (value, error) {
	o, ok := s.(optV)
	if !ok {
		return nil, errUnsupported
	}
	if o.v == nil {
		return singleBranch(o), nil
	}
	v, err := t.evalValue(body, &variable{name: varName, val: singleBranch(o.v), scope: computed, up: env})
	if err != nil || name == "optFlatMap" {
		return v, err
	}
	return t.eachBranch(v, optionalWith)
}

// bindVariables binds the variables of a macro over a list: the item, and before it its index, about which nothing is known.
func bindVariables(names []string, elem value, s scope, env *variable) *variable {
	if len(names) == 2 {
		env = &variable{name: names[0], val: singleBranch(lostV{}), scope: computed, up: env}
		names = names[1:]
	}
	return &variable{name: names[0], val: elem, scope: s, up: env}
}

// macroCompr evaluates a macro over a list or a map at a place. compares is set if its statement only compares an item with the others.
func (t *translator) macroCompr(name string, c *compr, bodies []*expr, v *variable) (out value, compares bool, err error) {
	switch name {
	case "all", "exists", "exists_one", "existsOne":
		if v.scope != computed {
			defer t.dropScopes(c)
		}
		if name == "existsOne" {
			name = "exists_one"
		}
		out, err = t.evalQuantified(name, c, func(value) (boolV, error) {
			b, err := t.evalBoolean(bodies[0], v)
			compares = err == nil && b.t.alone != nil
			return b, err
		})
		return out, compares, err
	case "filter", "map":
		return t.filterOrMap(name, c, bodies, v)
	}
	return nil, false, errUnsupported
}

// filterOrMap evaluates filter or map over a list or a map at a place, with the second result of macroCompr.
func (t *translator) filterOrMap(name string, c *compr, bodies []*expr, v *variable) (out value, compares bool, err error) {
	if c.same != nil {
		return nil, false, errMixed
	}
	d := *c
	if name == "filter" || len(bodies) == 2 {
		p, err := t.evalBoolean(bodies[0], v)
		if err != nil {
			return nil, false, err
		}
		compares = p.t.alone != nil
		d.pred = boolV{andConds(c.pred.t, p.t), orConds(c.pred.f, andConds(c.pred.t, p.f))}
	}
	if name == "map" {
		if d.elem, err = t.evalValue(bodies[len(bodies)-1], v); err != nil {
			return nil, false, err
		}
	}
	d.strict = true
	valid, err := d.whenValid()
	if errors.Is(err, errMixed) && name == "filter" {
		if n, ok := t.countSame(&d); ok {
			d.same = n
			return singleBranch(comprV{&d}), compares, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	d.strict = false // said by the guard
	return value{}.addBranch(valid, comprV{&d}), compares, nil
}

// macroList evaluates a macro over a list written in the rule.
func (t *translator) macroList(name string, l listV, names []string, bodies []*expr, env *variable) (value, error) {
	switch name {
	case "all", "exists":
		return t.quantifyElements(name == "all", l, names, bodies[0], env)
	case "exists_one", "existsOne", "filter", "map":
	default:
		return nil, errUnsupported
	}
	guard, kept := yes, listV{}
	for i, e := range l.elems {
		next, valid, err := t.keepElement(name, e, bodies, l.bindElement(i, names, env))
		if err != nil {
			return nil, err
		}
		guard = andConds(guard, valid)
		kept.elems = append(kept.elems, next)
	}
	if name == "filter" || name == "map" {
		return value{}.addBranch(guard, kept), nil
	}
	n, err := t.countElements(kept)
	if err != nil {
		return nil, err
	}
	r, err := t.equalValues(n, singleBranch(intV(1)))
	return value{}.addBranch(guard, r), err
}

// bindElement binds the variables of a macro to the i-th element of a list, and to its index if there is a name for it.
func (l listV) bindElement(i int, names []string, env *variable) *variable {
	v := bindVariables(names, l.elems[i].v, computed, env)
	if len(names) == 2 && l.hasFixedElements() {
		v.up.val = singleBranch(intV(i))
	}
	return v
}

// quantifyElements evaluates all or exists over a list written in the rule.
func (t *translator) quantifyElements(all bool, l listV, names []string, body *expr, env *variable) (value, error) {
	var ts, fs []*cond
	for i, e := range l.elems {
		b, err := t.evalBoolean(body, l.bindElement(i, names, env))
		if err != nil {
			return nil, err
		}
		if all {
			ts, fs = append(ts, orConds(e.out, b.t)), append(fs, andConds(e.in, b.f))
		} else {
			ts, fs = append(ts, andConds(e.in, b.t)), append(fs, orConds(e.out, b.f))
		}
	}
	if all {
		return singleBranch(boolV{andConds(ts...), orConds(fs...)}), nil
	}
	return singleBranch(boolV{orConds(ts...), andConds(fs...)}), nil
}

// keepElement returns what filter, map or exists_one leave of an element of a list, and when that is no error.
func (t *translator) keepElement(name string, e element, bodies []*expr, v *variable) (next element, valid *cond, err error) {
	next, valid = e, yes
	if name != "map" || len(bodies) == 2 {
		b, err := t.evalBoolean(bodies[0], v)
		if err != nil {
			return next, nil, err
		}
		valid = orConds(e.out, b.t, b.f)
		next.in, next.out = andConds(e.in, b.t), orConds(e.out, b.f)
	}
	if name == "map" {
		if next.v, err = t.evalValue(bodies[len(bodies)-1], v); err != nil {
			return next, nil, err
		}
	}
	if name == "map" || name == "filter" {
		d, err := next.v.whenDefined()
		if err != nil {
			return next, nil, err
		}
		valid = andConds(valid, orConds(next.out, d))
	}
	return next, valid, nil
}

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
func (b countAt) numberAt(i int64) num        { return num{i: i} }
func (b countAt) asTerm() (termV, bool)       { return termV{}, false }

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
