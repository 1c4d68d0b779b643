package celrule

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// compr is a list of what a macro goes over, filtered and mapped: the items of a list or the keys of a map at a place.
type compr struct {
	of    ref
	scope scope // of an item, or of a key; the value of the key is the next scope
	elem  value // of an item
	pred  boolV // which items count
	// strict: an error of pred or elem is an error of the whole, as filter and map have it.
	strict bool
}

// newCompr makes a scope for what stands in a list or a map. Where it is not kept, drop it.
func (t *translator) newCompr(r ref) (*compr, error) {
	c := &compr{of: r, scope: len(t.nodes), pred: boolConst(true)}
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
	v, err := t.load(place{scope: c.scope}, t.nodes[c.scope])
	c.elem = v
	return c, err
}

// drop forgets the scopes from c's on.
func (t *translator) drop(c *compr) {
	t.nodes, t.ranges = t.nodes[:c.scope], t.ranges[:c.scope]
}

// quantifier goes over all of the list, counted or not.
func (c *compr) quantifier(all bool) quantifier {
	q := quantifier{all: all, mask: 1 << c.scope}
	if c.of.node.Type == "array" {
		q.wrap = func(_ scope, f logic.Formula) *cond {
			switch {
			case all && isFalse(f):
				return leaf(c.of.at, logic.NumItems{Min: 0, Max: 0})
			case !all && isTrue(f):
				return leaf(c.of.at, logic.NumItems{Min: 1, Max: logic.Unbounded})
			case all && isTrue(f):
				return leaf(c.of.at, logic.True)
			case all:
				return leaf(c.of.at, logic.Items{F: f})
			}
			return leaf(c.of.at, logic.SomeItem{F: f})
		}
		return q
	}
	q.mask |= 2 << c.scope
	q.wrap = func(s scope, f logic.Formula) *cond {
		key := s == c.scope
		switch {
		case all && isFalse(f):
			return leaf(c.of.at, logic.NumProps{Min: 0, Max: 0})
		case !all && isTrue(f):
			return leaf(c.of.at, logic.NumProps{Min: 1, Max: logic.Unbounded})
		case all && isTrue(f):
			return leaf(c.of.at, logic.True)
		case all && key:
			return leaf(c.of.at, logic.AllKeys{F: f})
		case all:
			return leaf(c.of.at, logic.Rest{F: f})
		case key:
			return leaf(c.of.at, logic.SomeKey{F: f})
		}
		return leaf(c.of.at, logic.SomeRest{F: f})
	}
	return q
}

// valid says where a strict list is no error.
func (c *compr) valid() (*cond, error) {
	if !c.strict {
		return yes, nil
	}
	return c.quantifier(true).over(or(c.pred.f, and(c.pred.t, c.elem.defined())))
}

// quantified evaluates all, exists or exists_one of what f says of an element.
func (t *translator) quantified(name string, c *compr, f func(value) (boolV, error)) (value, error) {
	valid, err := c.valid()
	if err != nil {
		return nil, err
	}
	b, err := f(c.elem)
	if err != nil {
		return nil, err
	}
	// What does not count decides nothing.
	in, out := c.pred.t, c.pred.f
	var r boolV
	switch name {
	case "all":
		r.t, err = c.quantifier(true).over(or(out, and(in, b.t)))
		if err == nil {
			r.f, err = c.quantifier(false).over(and(in, b.f))
		}
	case "exists":
		r.t, err = c.quantifier(false).over(and(in, b.t))
		if err == nil {
			r.f, err = c.quantifier(true).over(or(out, and(in, b.f)))
		}
	default:
		d := *c
		d.pred = boolV{and(in, b.t), or(out, and(in, b.f))}
		d.elem, d.strict = just(nullV{}), true
		n, err := t.comprSize(&d)
		if err != nil {
			return nil, err
		}
		v, err := t.each(n.under(valid), func(s sval) (value, error) {
			tr, fa := s.(numV).compareConst(eq, num{i: 1})
			return just(boolV{tr, fa}), nil
		})
		return v, err
	}
	if err != nil {
		return nil, err
	}
	return value{}.add(valid, r), nil
}

// macro evaluates a call that binds variables.
func (t *translator) macro(e *expr, env *variable) (value, error) {
	n := e.binders()
	for _, v := range e.args[1 : n+1] {
		if v.kind != ident {
			return nil, errUnsupported
		}
	}
	rng, err := t.value(e.args[0], env)
	if err != nil {
		return nil, err
	}
	name, bodies := e.name, e.args[n+1:]
	if name == "optMap" || name == "optFlatMap" {
		return t.each(rng, func(s sval) (value, error) { return t.optMap(name, s, e.args[1].name, bodies[0], env) })
	}
	if n == 2 {
		return nil, errUnsupported
	}
	variableName := e.args[1].name
	return t.each(rng, func(s sval) (value, error) {
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
			return t.macroList(name, s, variableName, bodies, env)
		case comprV:
			return t.macroCompr(name, s.compr, variableName, bodies, &variable{scope: computed, up: env})
		case refV:
			c, err := t.newCompr(s.ref)
			if err != nil {
				return nil, err
			}
			return t.macroCompr(name, c, variableName, bodies, &variable{scope: c.scope, up: env})
		}
		return nil, errUnsupported
	})
}

func (t *translator) optMap(name string, s sval, varName string, body *expr, env *variable) (value, error) {
	o, ok := s.(optV)
	if !ok {
		return nil, errUnsupported
	}
	if o.v == nil {
		return just(o), nil
	}
	v, err := t.value(body, &variable{name: varName, val: just(o.v), scope: computed, up: env})
	if err != nil || name == "optFlatMap" {
		return v, err
	}
	return t.each(v, func(s sval) (value, error) { return just(optV{s}), nil })
}

// macroCompr evaluates a macro over a list or a map at a place. The variable comes without its name and value.
func (t *translator) macroCompr(name string, c *compr, varName string, bodies []*expr, v *variable) (value, error) {
	v.name, v.val = varName, c.elem
	switch name {
	case "all", "exists", "exists_one", "existsOne":
		if v.scope != computed {
			defer t.drop(c)
		}
		if name == "existsOne" {
			name = "exists_one"
		}
		return t.quantified(name, c, func(value) (boolV, error) { return t.boolean(bodies[0], v) })
	case "filter", "map":
		d := *c
		if name == "filter" || len(bodies) == 2 {
			p, err := t.boolean(bodies[0], v)
			if err != nil {
				return nil, err
			}
			d.pred = boolV{and(c.pred.t, p.t), or(c.pred.f, and(c.pred.t, p.f))}
		}
		if name == "map" {
			elem, err := t.value(bodies[len(bodies)-1], v)
			if err != nil {
				return nil, err
			}
			d.elem = elem
		}
		d.strict = true
		valid, err := d.valid()
		if err != nil {
			return nil, err
		}
		d.strict = false // said by the guard
		return value{}.add(valid, comprV{&d}), nil
	}
	return nil, errUnsupported
}

// macroList evaluates a macro over a list written in the rule.
func (t *translator) macroList(name string, l listV, varName string, bodies []*expr, env *variable) (value, error) {
	var ts, fs []*cond
	var elems []element
	guard := yes
	for _, e := range l.elems {
		v := &variable{name: varName, val: e.v, scope: computed, up: env}
		switch name {
		case "all", "exists":
			b, err := t.boolean(bodies[0], v)
			if err != nil {
				return nil, err
			}
			out := not(e.in)
			if name == "all" {
				ts, fs = append(ts, or(out, b.t)), append(fs, and(e.in, b.f))
			} else {
				ts, fs = append(ts, and(e.in, b.t)), append(fs, or(out, b.f))
			}
		case "exists_one", "existsOne", "filter", "map":
			next := element{e.v, e.in}
			if name != "map" || len(bodies) == 2 {
				b, err := t.boolean(bodies[0], v)
				if err != nil {
					return nil, err
				}
				guard = and(guard, or(not(e.in), b.t, b.f))
				next.in = and(e.in, b.t)
			}
			if name == "map" {
				m, err := t.value(bodies[len(bodies)-1], v)
				if err != nil {
					return nil, err
				}
				next.v = m
			}
			if name == "map" || name == "filter" {
				guard = and(guard, or(not(next.in), next.v.defined()))
			}
			elems = append(elems, next)
		default:
			return nil, errUnsupported
		}
	}
	switch name {
	case "all":
		return just(boolV{and(ts...), or(fs...)}), nil
	case "exists":
		return just(boolV{or(ts...), and(fs...)}), nil
	case "filter", "map":
		return value{}.add(guard, listV{elems}), nil
	}
	counts, err := t.counts(listV{elems})
	if err != nil {
		return nil, err
	}
	one, others := no, no
	for _, c := range counts {
		if c.v == intV(1) {
			one = c.g
		} else {
			others = or(others, c.g)
		}
	}
	return value{}.add(guard, boolV{one, others}), nil
}

// counts returns how many elements a list written in the rule may have.
func (t *translator) counts(l listV) (value, error) {
	out := []*cond{yes}
	for _, e := range l.elems {
		if e.in.op == opTrue {
			out = slices.Insert(out, 0, no)
			continue
		}
		absent := not(e.in)
		next := make([]*cond, len(out)+1)
		size := 0
		for i := range next {
			next[i] = no
			if i < len(out) {
				next[i] = and(out[i], absent)
			}
			if i > 0 {
				next[i] = or(next[i], and(out[i-1], e.in))
			}
			size += next[i].size
		}
		if size > maxCond {
			return nil, errUnsupported
		}
		out = next
	}
	var v value
	for i, c := range out {
		v = v.add(c, intV(i))
	}
	return v, nil
}

// comprSize evaluates the size of a filtered list: how many items count.
func (t *translator) comprSize(c *compr) (value, error) {
	valid, err := c.valid()
	if err != nil {
		return nil, err
	}
	kind := logic.Array
	if isMap(c.of.node) {
		kind = logic.Object
	}
	if c.pred.t.op == opTrue {
		return value{}.add(valid, newNum(sizeAt{c.of, kind})), nil
	}
	b := countAt{size: sizeAt{c.of, kind}}
	if b.all, err = c.quantifier(true).over(c.pred.t); err != nil {
		return nil, err
	}
	if b.some, err = c.quantifier(false).over(c.pred.t); err != nil {
		return nil, err
	}
	f, ok := emit(c.pred.t)
	if !ok || c.pred.t.scopes != 1<<c.scope {
		return nil, errMixed
	}
	b.id = digest(formulaText(f))
	return value{}.add(valid, newNum(b)), nil
}

// countAt is how many items of a list are as a formula says.
type countAt struct {
	size      sizeAt
	all, some *cond // that all are, that one is
	id        string
}

func (b countAt) bounds() (int64, int64) { return 0, 1<<63 - 1 }
func (b countAt) at(i int64) num         { return num{i: i} }
func (b countAt) term() (termV, bool)    { return termV{}, false }

func (b countAt) within(lo, hi int64) *cond {
	if hi == 1<<63-1 {
		return b.atLeast(lo)
	}
	return and(b.atLeast(lo), not(b.atLeast(hi+1)))
}

// atLeast says that n items or more are as the formula says. For n over 1 no formula can say it.
func (b countAt) atLeast(n int64) *cond {
	switch {
	case n <= 0:
		return yes
	case n == 1:
		return b.some
	}
	// At least n says at least 2, 3 and so on: so that one bound implies another.
	var unknown []*cond
	for k := int64(2); k <= n && k <= 9; k++ {
		m := k
		if k == 9 {
			m = n
		}
		unknown = append(unknown, leaf(b.size.ref.at, logic.Opaque{ID: "at least " + writeConst(m) + " of " + b.id}))
	}
	return and(b.size.within(n, 1<<63-1), b.some, or(b.all, and(unknown...)))
}
