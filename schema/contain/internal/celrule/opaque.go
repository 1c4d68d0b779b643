package celrule

// What is a part called that is not understood? Equal names mean equal values. For example, self.a.trim() == 'x' is named by its normal
// form and the types of what it reads.
//
// A name is also a promise: the solver takes two opaque parts with one name to be true of the same values. So a name
// has the normal form of the part, and the shape of everything that it reads, defaults included.

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice.dev/schema/contain/internal/logic"
)

// termOf names a value.
func (t *translator) termOf(v sval) (termV, bool) {
	switch v := v.(type) {
	case termV:
		return v, true
	case strAt:
		return termV{text: v.idText(), refs: []ref{v.ref}, typ: "string"}, true
	case prefixAt:
		return termV{text: v.idText(), refs: []ref{v.ref}, typ: "string"}, true
	case schemeAt:
		return termV{text: operatorText("getScheme", operatorText("url", mark)), refs: []ref{v.of.ref}, typ: "string"}, true
	case numV:
		x, ok := v.base.asTerm()
		if !ok {
			return x, false
		}
		for _, op := range v.ops {
			x.text = operatorText(op.text, x.text)
		}
		x.typ = v.typeName()
		return x, true
	case refV:
		return termV{text: mark, refs: []ref{v.ref}, typ: v.typeName()}, true
	case constV:
		return termV{text: operatorText("const", writeJSON(v.val), t.wholeShape(v.node)), typ: v.typeName()}, true
	case listV:
		return t.termOfList(v)
	}
	return constantTerm(v)
}

// termOfList names a list written in the rule by its elements; not ok if an element is there only sometimes or has
// several values.
func (t *translator) termOfList(l listV) (termV, bool) {
	parts := make([]termV, len(l.elems))
	for i, e := range l.elems {
		v, ok := e.onlyValue()
		if !ok {
			return termV{}, false
		}
		if parts[i], ok = t.termOf(v); !ok {
			return termV{}, false
		}
	}
	return functionTerm("list", "list", false, parts...), true
}

// constantTerm names a value that comes from no place.
func constantTerm(v sval) (termV, bool) {
	switch v := v.(type) {
	case nullV:
		return termV{text: "null", typ: "null_type"}, true
	case intV:
		return termV{text: writeConst(int64(v)), typ: "int"}, true
	case dblV:
		return termV{text: writeConst(float64(v)), typ: "double"}, true
	case strV:
		return termV{text: writeConst(string(v)), typ: "string"}, true
	case typeV:
		return termV{text: "type " + string(v), typ: "type"}, true
	case formatV:
		return termV{text: "format " + string(v)}, true
	case durV:
		return termV{text: time.Duration(v).String(), typ: durationType}, true
	case mapV:
		return termV{text: "{}", typ: "map"}, true
	case boolV:
		switch {
		case v.t.op == opTrue:
			return termV{text: "true", typ: "bool"}, true
		case v.f.op == opTrue:
			return termV{text: "false", typ: "bool"}, true
		}
	}
	return termV{}, false
}

// functionTerm names the value of a function.
func functionTerm(name, typ string, partial bool, args ...termV) termV {
	out := termV{typ: typ, partial: partial}
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.text
		out.refs = append(out.refs, a.refs...)
		out.partial = out.partial || a.partial
	}
	out.text = operatorText(name, texts...)
	return out
}

// sortText is a text to sort terms by.
func (x termV) sortText() string {
	var b strings.Builder
	b.WriteString(x.text)
	for _, r := range x.refs {
		b.WriteString(" " + strconv.Itoa(r.at.scope))
		for _, s := range r.at.path {
			b.WriteString(s.idText())
		}
	}
	return b.String()
}

// predicateOf makes an opaque statement of a term that is a boolean.
func (t *translator) predicateOf(x termV) boolV {
	var scopes uint64
	for _, r := range x.refs {
		scopes |= 1 << r.at.scope
	}
	if len(x.refs) == 0 {
		return opaqueAt(place{}, x.text, x.partial)
	}
	// The statement is about the nearest place above all of them.
	at := x.refs[0].at
	if at.scope >= 0 {
		for _, r := range x.refs[1:] {
			n := min(len(at.path), len(r.at.path))
			for i := range n {
				if at.path[i] != r.at.path[i] {
					n = i
					break
				}
			}
			at.path = at.path[:n]
		}
	}
	var b strings.Builder
	// Each mark in the text becomes the path to its place and the shape of what is there: equal texts then mean equal
	// values.
	rest := x.text
	for _, r := range x.refs {
		i := strings.Index(rest, mark)
		b.WriteString(rest[:i])
		rest = rest[i+len(mark):]
		b.WriteString("<")
		if scopes != 1<<at.scope {
			b.WriteString(strconv.Itoa(r.at.scope))
		}
		path := r.at.path
		if scopes == 1<<at.scope {
			path = path[len(at.path):]
		}
		for _, s := range path {
			b.WriteString(s.idText())
		}
		b.WriteString(" " + t.wholeShape(r.node) + ">")
	}
	b.WriteString(rest)
	if scopes != 1<<at.scope {
		return opaqueRel(scopes, b.String(), x.partial)
	}
	return opaqueAt(at, b.String(), x.partial)
}

// opaqueAt makes the two statements "is true" and "is false". A total one is false whenever it is not true.
func opaqueAt(at place, id string, partial bool) boolV {
	if !partial {
		return boolV{leafCond(at, logic.Opaque{ID: id}), leafCond(at, logic.Opaque{ID: id, Neg: true})}
	}
	return boolV{
		leafCond(at, logic.Opaque{ID: "T " + id}),
		leafCond(at, logic.And{logic.Opaque{ID: "F " + id}, logic.Opaque{ID: "T " + id, Neg: true}}),
	}
}

// opaqueRel is opaqueAt for a statement about several scopes, which no formula expresses: only a macro that takes it
// apart, or decides short lists, makes something of it.
func opaqueRel(scopes uint64, id string, partial bool) boolV {
	if !partial {
		return boolV{relationCond(scopes, id, false), relationCond(scopes, id, true)}
	}
	return boolV{relationCond(scopes, "T "+id, false), andConds(relationCond(scopes, "F "+id, false), relationCond(scopes, "T "+id, true))}
}

// totalPredicate is an opaque function that is never an error.
func (t *translator) totalPredicate(name string, args ...sval) (value, error) {
	return t.namedTerm(name, "bool", false, args)
}

// partialPredicate is an opaque function that may be an error.
func (t *translator) partialPredicate(name string, args ...sval) (value, error) {
	return t.namedTerm(name, "bool", true, args)
}

// namedTerm names a call by its function and the names of its arguments. It has a value only where numbers among the arguments have one.
func (t *translator) namedTerm(name, typ string, partial bool, args []sval) (value, error) {
	terms := make([]termV, len(args))
	valid := yes
	for i, a := range args {
		x, ok := t.termOf(a)
		if !ok {
			return nil, errUnsupported
		}
		if n, ok := a.(numV); ok {
			valid = andConds(valid, n.whenValid())
		}
		terms[i] = x
	}
	x := functionTerm(name, typ, partial, terms...)
	if typ == "bool" {
		return value{}.addBranch(valid, t.predicateOf(x)), nil
	}
	return value{}.addBranch(valid, x), nil
}

// opaqueStatement makes a statement from a whole expression that is not understood.
func (t *translator) opaqueStatement(e *expr, env *variable) (boolV, error) {
	free := map[string]bool{}
	freeNames(e, nil, free)
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range free {
			if !yield(n) {
				return
			}
		}
	})
	p := &printer{dyn: usesDyn(e), free: map[string]string{}}
	var scopes uint64
	at := place{}
	touched := &toucher{t: t, roots: map[string]*touch{}}
	for _, n := range names {
		v := env.findVariable(n)
		if v == nil || v.scope == fixed {
			continue
		}
		// A computed value has no place, so two statements about it might look alike and mean different values.
		if v.scope == computed {
			return boolV{}, errUnsupported
		}
		scopes |= 1 << v.scope
		at.scope = v.scope
		p.free[n] = "@" + strconv.Itoa(v.scope)
		touched.roots[n] = &touch{node: t.seenAsChild(t.nodes[v.scope])}
	}
	// A statement about one scope does not name it, so that it has one name in each macro that makes it.
	several := scopes&(scopes-1) != 0
	if !several {
		for n := range p.free {
			p.free[n] = "@"
		}
	}
	touched.markWhole(e, nil)
	parts := []string{p.writeBoolean(e, false)}
	for _, n := range names {
		if r := touched.roots[n]; r != nil {
			parts = append(parts, p.free[n]+r.shapeText(t))
		}
	}
	id := strings.Join(parts, " ")
	if several {
		return opaqueRel(scopes, id, true), nil
	}
	return opaqueAt(at, id, true), nil
}

// freeNames collects the names that e does not bind itself.
func freeNames(e *expr, bound []string, out map[string]bool) {
	if e.kind == ident {
		if !slices.Contains(bound, e.name) {
			out[e.name] = true
		}
		return
	}
	n := e.binders()
	for i, a := range e.args {
		switch {
		case i == 0 || n == 0:
			freeNames(a, bound, out)
		case i > n:
			inner := slices.Clone(bound)
			for _, v := range e.args[1 : n+1] {
				inner = append(inner, v.name)
			}
			freeNames(a, inner, out)
		}
	}
}

// opaqueFunction makes a term for the value of a function that is not understood.
func (t *translator) opaqueFunction(e *expr, args ...sval) (value, error) {
	name := e.name
	if e.member {
		name = "." + name
	}
	f := functionsByName()[e.name]
	return t.namedTerm(name, f.typ, !f.total, args)
}

// asBool joins the branches of a boolean value. If the value is lost, the opaque statement decides.
func (t *translator) asBool(v value, opaque func() (boolV, error)) (boolV, error) {
	var ts, fs []*cond
	for _, b := range v {
		var bv boolV
		switch x := b.v.(type) {
		case boolV:
			bv = x
		case termV:
			if x.typ != "" && x.typ != "bool" {
				return boolV{}, errUnsupported
			}
			bv = t.predicateOf(x)
		case lostV:
			if opaque == nil {
				return boolV{}, errUnsupported
			}
			o, err := opaque()
			if err != nil {
				return boolV{}, err
			}
			bv = o
		default:
			// A value of another type at a place that needs a boolean is an error of the evaluation: neither true nor
			// false.
			if isDyn(b.v) {
				continue
			}
			return boolV{}, errUnsupported
		}
		ts = append(ts, andConds(b.g, bv.t))
		fs = append(fs, andConds(b.g, bv.f))
	}
	return boolV{orConds(ts...), orConds(fs...)}, nil
}

// termsInOrder names two values. The order of the names does not depend on that of the values: swapped says that it is the other one.
func (t *translator) termsInOrder(a, b sval) (x, y termV, swapped, ok bool) {
	x, ok = t.termOf(a)
	y, ok2 := t.termOf(b)
	if y.sortText() < x.sortText() {
		return y, x, true, ok && ok2
	}
	return x, y, false, ok && ok2
}
