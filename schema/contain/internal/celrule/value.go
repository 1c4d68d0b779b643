package celrule

// What values can an expression have? For example, has(self.a) ? self.a : 0 has two: the property a, and 0, each with its guard.

import (
	"errors"

	"sluice.dev/schema"
)

// mark stands for a value at a place in the text of a term. It has no other use there, because names and strings are quoted.
const mark = "\x01"

var (
	// errUnsupported says that a part has no exact translation: the smallest boolean expression around it becomes
	// opaque.
	errUnsupported = errors.New("not supported")
	// errBudget says that the whole rule becomes opaque.
	errBudget = errors.New("budget spent")
)

// errMixed says that a statement relates several scopes in a way that no formula can express.
var errMixed = errors.New("relates two values")

// mixed is errMixed with bounds: when the result is certainly true, and when it may be true.
type mixed struct{ sure, maybe boolV }

func (mixed) Error() string { return errMixed.Error() }

func (mixed) Is(target error) bool { return target == errMixed }

// unsupportedUnless is errUnsupported unless ok is set.
func unsupportedUnless(ok bool) error {
	if ok {
		return nil
	}
	return errUnsupported
}

// sval is one possible value of an expression.
type sval interface {
	// typeName returns the name of its type in CEL, empty if that is not known.
	typeName() string
}

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
	// strAt is a string made of one at a place: the code points from lo to before hi (all from lo, where hi is negative), changed as fold says,
	// between two constant strings.
	strAt struct {
		ref
		lo, hi        int
		fold          textChange
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

// num is an int or a double of CEL.
type num struct {
	dbl bool
	i   int64
	d   float64
}

// numBase is a number that a value has, or its size. Each number has an index, in the same order.
type numBase interface {
	// indexBounds returns the smallest and the largest index.
	indexBounds() (lo, hi int64)
	// indexWithin says that the number exists and its index is between both, inclusive. It is nil where no formula can say that.
	indexWithin(lo, hi int64) *cond
	// numberAt returns the number with the index.
	numberAt(index int64) num
	// asTerm returns its text in IDs.
	asTerm() (termV, bool)
}

// numOp is one arithmetic step with a constant.
type numOp struct {
	f    func(num) (num, bool) // false: an error
	text string
}

// numV is a number that monotone steps compute from one base.
type numV struct {
	base   numBase
	lo, hi int64 // indices without an error
	ops    []numOp
	down   bool   // decreasing
	dyn    bool   // its type is known at run time only
	typ    string // in CEL, empty for int and double
}

// durV is a constant duration in nanoseconds.
type durV int64

const durationType = "google.protobuf.Duration"

// prefixAt is the longest prefix of a string at a place with only code points of a class: the result of s.find('^[class]+'), or of
// s.split(c)[0].
type prefixAt struct {
	ref
	class []rune // pairs of first and last
}

// partsOf is the number of parts of a string between separators of one code point.
type partsOf struct {
	ref
	t   *translator
	sep string
}

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

func (nullV) typeName() string    { return "null_type" }
func (intV) typeName() string     { return "int" }
func (dblV) typeName() string     { return "double" }
func (strV) typeName() string     { return "string" }
func (strAt) typeName() string    { return "string" }
func (schemeAt) typeName() string { return "string" }
func (prefixAt) typeName() string { return "string" }
func (boolV) typeName() string    { return "bool" }
func (durV) typeName() string     { return durationType }
func (typeV) typeName() string    { return "type" }
func (listV) typeName() string    { return "list" }
func (comprV) typeName() string   { return "list" }
func (mapV) typeName() string     { return "map" }
func (r refV) typeName() string   { return listOrMap(r.node.Type == "array") }
func (v termV) typeName() string  { return v.typ }
func (lostV) typeName() string    { return "" }
func (optV) typeName() string     { return "" }
func (formatV) typeName() string  { return "" }

func (v constV) typeName() string {
	_, isList := v.val.([]any)
	return listOrMap(isList)
}

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

// boolConst is the value true or false, which is never an error.
func boolConst(b bool) boolV {
	if b {
		return boolV{yes, no}
	}
	return boolV{no, yes}
}

// typeName is the type of all numbers that n can be: steps do not mix ints and doubles, so one number shows it.
func (n numV) typeName() string {
	switch {
	case n.typ != "":
		return n.typ
	case n.numberAt(n.lo).dbl:
		return "double"
	}
	return "int"
}

// listOrMap is the type of a value with parts: CEL calls an object a map, too.
func listOrMap(isList bool) string {
	if isList {
		return "list"
	}
	return "map"
}

// mayFail reports whether the value may be an error.
func mayFail(s sval) bool {
	x, ok := s.(termV)
	return ok && x.partial
}

// newNum is the number of a base without a step; each of its indices is valid.
func newNum(b numBase) numV {
	lo, hi := b.indexBounds()
	return numV{base: b, lo: lo, hi: hi}
}

// numberAt is the number that the steps make of that of the base with the index, which has to be from lo to hi.
func (n numV) numberAt(index int64) num {
	x := n.base.numberAt(index)
	for _, op := range n.ops {
		x, _ = op.f(x)
	}
	return x
}

// onlyValue returns the value of an element that is always in its list and has one value.
func (e element) onlyValue() (sval, bool) {
	if len(e.v) != 1 || e.v[0].g.op != opTrue || e.in.op != opTrue {
		return nil, false
	}
	return e.v[0].v, true
}

// hasFixedElements reports whether all elements of the list are always in it.
func (l listV) hasFixedElements() bool {
	for _, e := range l.elems {
		if e.in.op != opTrue {
			return false
		}
	}
	return true
}

// isConstant reports whether the value is the same for all objects. Booleans are left out: they may be statements.
func isConstant(v sval) bool {
	switch v.(type) {
	case intV, dblV, strV, typeV, nullV, durV:
		return true
	}
	return false
}

func isNumericType(typ string) bool { return typ == "int" || typ == "double" || typ == "uint" }
