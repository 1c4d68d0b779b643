package celrule

import (
	"math/bits"
	"slices"

	"sluice.dev/schema/contain/internal/logic"
)

// maxKeys bounds the keys of a map that are handled one by one.
const maxKeys = 6

// byKeys quantifies a statement about keys and values together, if it only compares the keys with constants.
func (q quantifier) byKeys(c *cond) (*cond, bool) {
	key := bits.TrailingZeros64(q.mask)
	if c.scopes != q.mask {
		return nil, false
	}
	keys := map[string]bool{}
	if !constantKeys(c, key, keys) || len(keys) > maxKeys {
		return nil, false
	}
	names := make([]string, 0, len(keys))
	for k := range keys {
		names = append(names, k)
	}
	slices.Sort(names)
	var parts []*cond
	for _, k := range names {
		f, ok := emitFormula(withKey(c, key, k, true))
		if !ok {
			return nil, false
		}
		there := leafCond(q.dict.at.withStep(step{name: k}), f)
		if q.all {
			there = orConds(leafCond(q.dict.at, logic.Lacks{Name: k}), there)
		}
		parts = append(parts, there)
	}
	f, ok := emitFormula(withKey(c, key, "", false))
	if !ok {
		return nil, false
	}
	if q.all {
		return andConds(append(parts, leafCond(q.dict.at, logic.Rest{Except: names, F: f}))...), true
	}
	return orConds(append(parts, leafCond(q.dict.at, logic.SomeRest{Except: names, F: f}))...), true
}

// constantKeys collects the constants that keys are compared with. It fails if the statement uses a key in another way.
func constantKeys(c *cond, key scope, out map[string]bool) bool {
	if c.scopes&(1<<key) == 0 {
		return true
	}
	if c.op == opLeaf {
		e, ok := c.f.(logic.Enum)
		if !ok || len(c.at.path) > 0 {
			return isTrue(c.f)
		}
		for _, v := range e.Values {
			s, ok := v.(string)
			if !ok {
				return false
			}
			out[s] = true
		}
		return true
	}
	for _, k := range c.kids {
		if !constantKeys(k, key, out) {
			return false
		}
	}
	return c.op == opAnd || c.op == opOr
}

// withKey decides the comparisons with the key: the key is name, or, if it is not known, none of the constants.
func withKey(c *cond, key scope, name string, known bool) *cond {
	if c.scopes&(1<<key) == 0 {
		return c
	}
	if c.op == opLeaf {
		e, ok := c.f.(logic.Enum)
		holds := !ok || e.Neg != (known && slices.Contains(e.Values, any(name)))
		if holds {
			return yes
		}
		return no
	}
	kids := make([]*cond, len(c.kids))
	for i, k := range c.kids {
		kids[i] = withKey(k, key, name, known)
	}
	if c.op == opAnd {
		return andConds(kids...)
	}
	return orConds(kids...)
}
