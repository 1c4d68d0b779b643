package celrule

// What values can an expression have? For example, has(self.a) ? self.a : 0 has two: the property a, and 0, each with its guard.

import (
	"sluice.dev/schema"
)

// ref is a place and the schema of its value.
type ref struct {
	at   place
	node *schema.Node
}

// sval is one possible value of an expression.
type sval interface{ isSval() }

type (
	nullV struct{}
	intV  int64
	dblV  float64
	strV  string
	typeV string
	// boolV is true if t holds, false if f holds, and otherwise an error.
	boolV struct{ t, f *cond }
	// lostV is a value about which nothing is known, or an error.
	lostV struct{}
	// strAt is a string made of one at a place: the code points from lo to before hi (all from lo, where hi is negative),
	// with ASCII letters in lower ('l') or upper ('u') case, between two constant strings.
	strAt struct {
		ref
		lo, hi        int
		fold          byte
		before, after string
		dyn           bool // its type is known at run time only
	}
	// schemeAt is the scheme of the URL in a string.
	schemeAt struct{ of strAt }
	// refV is an object, a map or a list at a place.
	refV struct{ ref }
	// constV is an object, a map or a list that comes from a default, with the schema of its place.
	constV struct {
		val  any
		node *schema.Node
	}
	// listV is a list written in the rule. Its elements have no errors if the list has none.
	listV struct{ elems []element }
	// mapV is the empty map written in the rule.
	mapV struct{}
	// comprV is filter or map over a list or the keys of a map.
	comprV struct{ *compr }
	// optV is an optional value; a nil v is none.
	optV struct{ v sval }
	// formatV is a format of the format library.
	formatV string
	// termV is a value that can only be named: a function of values at places.
	termV struct {
		text string // with a mark for each place
		refs []ref  // of the marks
		typ  string // the name of its type in CEL, empty where not known
		// partial is set if it may be an error although none of its parts is.
		partial bool
		of      *strAt   // of a URL: the string that it was converted from
		split   *partsOf // of a list: the string that was split
	}
)

func (nullV) isSval()    {}
func (lostV) isSval()    {}
func (intV) isSval()     {}
func (dblV) isSval()     {}
func (strV) isSval()     {}
func (typeV) isSval()    {}
func (boolV) isSval()    {}
func (numV) isSval()     {}
func (strAt) isSval()    {}
func (schemeAt) isSval() {}
func (refV) isSval()     {}
func (constV) isSval()   {}
func (listV) isSval()    {}
func (mapV) isSval()     {}
func (comprV) isSval()   {}
func (optV) isSval()     {}
func (formatV) isSval()  {}
func (termV) isSval()    {}

// element is an element of a list written in the rule. The list has it if the condition holds.
type element struct {
	v       value
	in, out *cond // it is in the list, it is not
}

// branch is the value of an expression if the guard holds.
type branch struct {
	g *cond
	v sval
}

// value is the result of an expression: at most one guard holds; if none does, it is an error.
type value []branch

func singleBranch(v sval) value { return value{{yes, v}} }

// addBranch appends a branch, unless its guard never holds.
func (v value) addBranch(g *cond, s sval) value {
	if g.op == opFalse {
		return v
	}
	return append(v, branch{g, s})
}

// guardedBy restricts the guards.
func (v value) guardedBy(g *cond) value {
	if g.op == opTrue {
		return v
	}
	if g.op == opFalse {
		return nil
	}
	out := make(value, 0, len(v))
	for _, b := range v {
		out = out.addBranch(andConds(g, b.g), b.v)
	}
	return out
}

// whenDefined says when the value is no error. It fails if that is not known.
func (v value) whenDefined() (*cond, error) {
	var parts []*cond
	for _, b := range v {
		g := b.g
		switch bv := b.v.(type) {
		case boolV:
			g = andConds(g, orConds(bv.t, bv.f))
		case lostV:
			return nil, errUnsupported
		case termV:
			if bv.partial {
				return nil, errUnsupported
			}
		}
		parts = append(parts, g)
	}
	return orConds(parts...), nil
}

// mergeBranches joins branches with the same constant. If all are booleans, it joins them into one.
func (v value) mergeBranches() value {
	if len(v) < 2 {
		return v
	}
	var out value
	var ts, fs []*cond
next:
	for _, b := range v {
		switch x := b.v.(type) {
		case intV, strV, dblV, nullV, lostV:
			for i := range out {
				if out[i].v == b.v {
					out[i].g = orConds(out[i].g, b.g)
					continue next
				}
			}
		case boolV:
			ts, fs = append(ts, andConds(b.g, x.t)), append(fs, andConds(b.g, x.f))
		}
		out = append(out, b)
	}
	if len(ts) == len(v) {
		return singleBranch(boolV{orConds(ts...), orConds(fs...)})
	}
	return out
}

// isDyn reports whether the type of the value is known only at run time, so that a wrong operator is an error of the evaluation, not of
// the compilation.
func isDyn(v sval) bool {
	switch v := v.(type) {
	case strAt:
		return v.dyn
	case numV:
		return v.dyn
	}
	return false
}
