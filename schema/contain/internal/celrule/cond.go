package celrule

import (
	"errors"
	"math/bits"
	"reflect"

	"sluice.dev/schema/contain/internal/logic"
)

// scope numbers a value that a rule speaks of: 0 is self, others are bound by macros.
type scope = int

// maxScopes bounds how many variables may be bound at once.
const maxScopes = 64

// step leads from an object to one of its properties.
type step struct {
	name string
	// nullable: a null counts as absent here (nullable properties of objects).
	nullable bool
}

// place is a position in the value of a scope.
type place struct {
	scope scope
	path  []step
}

func (p place) down(s step) place {
	path := make([]step, len(p.path)+1)
	copy(path, p.path)
	path[len(p.path)] = s
	return place{p.scope, path}
}

func (p place) equal(q place) bool {
	if p.scope != q.scope || len(p.path) != len(q.path) {
		return false
	}
	for i, s := range p.path {
		if s != q.path[i] {
			return false
		}
	}
	return true
}

type condOp uint8

const (
	opTrue condOp = iota
	opFalse
	opAnd
	opOr
	opLeaf
	opRel
)

// cond is a statement about the values of several scopes. It is either true or false, never an error.
type cond struct {
	op     condOp
	kids   []*cond
	at     place         // of a leaf
	f      logic.Formula // of a leaf: the place is present, and this holds of the value there
	scopes uint64        // which scopes are mentioned
	id     string        // of a relation between several scopes, which cannot be expressed
	neg    bool
	size   int
}

var (
	yes = &cond{op: opTrue, size: 1}
	no  = &cond{op: opFalse, size: 1}
)

func leaf(at place, f logic.Formula) *cond {
	if isFalse(f) {
		return no
	}
	if len(at.path) == 0 && isTrue(f) {
		return yes
	}
	return &cond{op: opLeaf, at: at, f: f, scopes: 1 << at.scope, size: 1 + len(at.path)}
}

func isTrue(f logic.Formula) bool  { a, ok := f.(logic.And); return ok && len(a) == 0 }
func isFalse(f logic.Formula) bool { o, ok := f.(logic.Or); return ok && len(o) == 0 }

func rel(scopes uint64, id string, neg bool) *cond {
	return &cond{op: opRel, scopes: scopes, id: id, neg: neg, size: 1}
}

func and(cs ...*cond) *cond { return join(opAnd, opTrue, opFalse, yes, no, cs) }

func or(cs ...*cond) *cond { return join(opOr, opFalse, opTrue, no, yes, cs) }

// join makes a conjunction or a disjunction, flat, without repetition, and decided where two parts decide it.
func join(op, unit, zero condOp, one, none *cond, cs []*cond) *cond {
	var out []*cond
	var add func(cs []*cond) bool
	add = func(cs []*cond) bool {
	next:
		for _, c := range cs {
			switch c.op {
			case unit:
				continue
			case zero:
				return false
			case op:
				if !add(c.kids) {
					return false
				}
				continue
			}
			if len(out) <= 32 {
				for i, d := range out {
					switch relate(op, d, c) {
					case same:
						continue next
					case stronger:
						out[i] = c
						continue next
					case decides:
						return false
					}
				}
			}
			out = append(out, c)
		}
		return true
	}
	if !add(cs) {
		return none
	}
	switch len(out) {
	case 0:
		return one
	case 1:
		return out[0]
	}
	r := &cond{op: op, kids: out, size: 1}
	for _, c := range out {
		r.scopes |= c.scopes
		r.size += c.size
	}
	return r
}

type relation uint8

const (
	unrelated relation = iota
	same               // the second adds nothing
	stronger           // the second makes the first unnecessary
	decides            // both together decide
)

// relate says what the second of two parts of a junction does to the first.
func relate(op condOp, a, b *cond) relation {
	if a == b {
		return same
	}
	if a.op == opRel && b.op == opRel && a.id == b.id && a.scopes == b.scopes {
		if a.neg == b.neg {
			return same
		}
		return decides
	}
	if a.op != opLeaf || b.op != opLeaf || a.at.scope != b.at.scope {
		return unrelated
	}
	if a.at.equal(b.at) {
		r := relateFormulas(op, a.f, b.f)
		if r == decides && op == opOr && len(a.at.path) > 0 {
			return unrelated // both are false where the place is absent
		}
		return r
	}
	// A leaf further down says that the properties on the way are there.
	switch {
	case op == opAnd && below(b, a):
		if h, ok := a.f.(logic.Has); ok && h.Name == b.at.path[len(a.at.path)].name {
			return stronger
		}
		if l, ok := a.f.(logic.Lacks); ok && l.Name == b.at.path[len(a.at.path)].name {
			return decides
		}
	case op == opAnd && below(a, b):
		switch relate(op, b, a) {
		case stronger:
			return same
		case decides:
			return decides
		}
	}
	return unrelated
}

// below tells whether a's place is within one of b's place's properties.
func below(a, b *cond) bool {
	return len(a.at.path) > len(b.at.path) && place{a.at.scope, a.at.path[:len(b.at.path)]}.equal(b.at)
}

func relateFormulas(op condOp, f, g logic.Formula) relation {
	switch f := f.(type) {
	case logic.Has:
		switch g := g.(type) {
		case logic.Has:
			if f == g {
				return same
			}
		case logic.Lacks:
			if f.Name == g.Name {
				return decides
			}
		}
	case logic.Lacks:
		switch g := g.(type) {
		case logic.Lacks:
			if f == g {
				return same
			}
		case logic.Has:
			if f.Name == g.Name {
				return decides
			}
		}
	case logic.Kinds:
		if g, ok := g.(logic.Kinds); ok {
			switch {
			case f == g:
				return same
			case op == opAnd && f&g == 0:
				return decides
			}
		}
	case logic.Opaque:
		if g, ok := g.(logic.Opaque); ok && f.ID == g.ID {
			if f.Neg == g.Neg {
				return same
			}
			return decides
		}
	case logic.Pattern, logic.IntRange, logic.FloatRange, logic.NumItems, logic.NumProps, logic.Length:
		if f == g {
			return same
		}
	case logic.Enum:
		if g, ok := g.(logic.Enum); ok && reflect.DeepEqual(f.Values, g.Values) {
			if f.Neg == g.Neg {
				return same
			}
			return decides
		}
	}
	return unrelated
}

// not negates: true where the place is absent or the formula does not hold there.
func not(c *cond) *cond {
	switch c.op {
	case opTrue:
		return no
	case opFalse:
		return yes
	case opAnd, opOr:
		kids := make([]*cond, len(c.kids))
		for i, k := range c.kids {
			kids[i] = not(k)
		}
		if c.op == opAnd {
			return or(kids...)
		}
		return and(kids...)
	case opRel:
		return rel(c.scopes, c.id, !c.neg)
	}
	parts := []*cond{leaf(c.at, logic.Not(c.f))}
	for i := len(c.at.path) - 1; i >= 0; i-- {
		up := place{c.at.scope, c.at.path[:i]}
		parts = append(parts, leaf(up, logic.Lacks{Name: c.at.path[i].name}))
		if c.at.path[i].nullable {
			parts = append(parts, nullAt(up, c.at.path[i].name))
		}
	}
	return or(parts...)
}

// nullAt says that a property is there and null.
func nullAt(at place, name string) *cond {
	return leaf(at, logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Kinds(logic.Null)}})
}

// errMixed says that a statement relates several scopes in a way that no formula can express.
var errMixed = errors.New("relates two values")

// maxSplit bounds how many statements about outer scopes are split upon under one macro.
const maxSplit = 8

// quantifier says "for all" or "for some" of the values of one scope, or of the keys and values of a map, which are two.
type quantifier struct {
	all  bool
	mask uint64
	// wrap makes the statement about the range out of a formula about a value of the scope.
	wrap func(s scope, f logic.Formula) *cond
}

// over returns the quantified statement. It fails with errMixed where the statement relates values in a way that no
// formula can express.
func (q quantifier) over(c *cond) (*cond, error) { return q.split(c, maxSplit) }

func (q quantifier) split(c *cond, budget int) (*cond, error) {
	if c.scopes&q.mask == 0 {
		s := bits.TrailingZeros64(q.mask)
		// True of an empty range as well for all, false of it for some.
		if q.all {
			if c.op == opTrue {
				return c, nil
			}
			return or(c, q.wrap(s, logic.False)), nil
		}
		if c.op == opFalse {
			return c, nil
		}
		return and(c, q.wrap(s, logic.True)), nil
	}
	if bits.OnesCount64(c.scopes) == 1 {
		f, ok := emit(c)
		if !ok {
			return nil, errMixed
		}
		return q.wrap(bits.TrailingZeros64(c.scopes), f), nil
	}
	op, joined, other := opOr, or, and
	if q.all {
		op, joined, other = opAnd, and, or
	}
	if c.op == op {
		parts := make([]*cond, len(c.kids))
		for i, k := range c.kids {
			p, err := q.split(k, budget)
			if err != nil {
				return nil, err
			}
			parts[i] = p
		}
		return joined(parts...), nil
	}
	if len(c.kids) == 0 {
		return nil, errMixed
	}
	// The other junction: what does not mention the scope stands outside.
	var outer, inner []*cond
	for _, k := range c.kids {
		if k.scopes&q.mask == 0 {
			outer = append(outer, k)
		} else {
			inner = append(inner, k)
		}
	}
	if len(outer) > 0 {
		p, err := q.split(other(inner...), budget)
		if err != nil {
			return nil, err
		}
		return other(append(outer, p)...), nil
	}
	atom := foreign(c, q.mask)
	if budget == 0 || atom == nil {
		return nil, errMixed
	}
	t, err := q.split(assume(c, atom, true), budget-1)
	if err != nil {
		return nil, err
	}
	f, err := q.split(assume(c, atom, false), budget-1)
	if err != nil {
		return nil, err
	}
	return or(and(atom, t), and(not(atom), f)), nil
}

// foreign finds a largest part of c that does not mention the scope.
func foreign(c *cond, mask uint64) *cond {
	if c.scopes&mask == 0 && c.scopes != 0 {
		return c
	}
	for _, k := range c.kids {
		if f := foreign(k, mask); f != nil {
			return f
		}
	}
	return nil
}

// assume replaces the part atom.
func assume(c, atom *cond, value bool) *cond {
	if c == atom || c.op == opLeaf && atom.op == opLeaf && c.at.equal(atom.at) && relateFormulas(opAnd, c.f, atom.f) == same {
		if value {
			return yes
		}
		return no
	}
	if c.scopes&atom.scopes == 0 || len(c.kids) == 0 {
		return c
	}
	kids := make([]*cond, len(c.kids))
	for i, k := range c.kids {
		kids[i] = assume(k, atom, value)
	}
	if c.op == opAnd {
		return and(kids...)
	}
	return or(kids...)
}
