package celrule

import (
	"unicode/utf8"

	"sluice.dev/schema/contain/internal/logic"
)

// What is at an index? For example, self.l[0] is known of a list with one item, and self.m['a'] is a property.

// indexingBy translates a[b] and a[?b].
func indexingBy(optional bool) func(*translator, *expr, sval, sval) (value, error) {
	return func(t *translator, _ *expr, a, b sval) (value, error) { return t.evalIndex(a, b, optional) }
}

// evalIndex evaluates a[b] and a[?b].
func (t *translator) evalIndex(a, b sval, optional bool) (value, error) {
	switch x := a.(type) {
	case optV:
		if x.v == nil {
			return singleBranch(x), nil
		}
		return t.evalIndex(x.v, b, true)
	case mapV:
		return noElement(optional)
	case refV:
		if isMap(x.node) {
			return t.indexMap(x, b, optional)
		}
		return t.indexArray(x, b, optional)
	case constV:
		if s, ok := b.(strV); ok && isMap(x.node) {
			return t.selectField(a, string(s), optional)
		}
		if l, ok := t.constList(x); ok {
			return t.indexList(l, b, optional)
		}
	case listV:
		return t.indexList(x, b, optional)
	case termV:
		if x.split != nil && b == intV(0) && !optional { // what stands before the first separator
			r, _ := utf8.DecodeRuneInString(x.split.sep)
			return singleBranch(prefixAt{x.split.ref, allBut(r)}), nil
		}
	}
	return nil, errUnsupported
}

// noElement is the value at an index that is out of range: an error, or none with the optional syntax.
func noElement(optional bool) (value, error) {
	if optional {
		return singleBranch(optV{}), nil
	}
	return nil, nil
}

// indexMap evaluates an index into a map at a place.
func (t *translator) indexMap(m refV, b sval, optional bool) (value, error) {
	if s, ok := b.(strV); ok {
		return t.selectField(m, string(s), optional)
	}
	if k, ok := t.keyOf(b); ok && k.of.at.equalPlace(m.at) && !optional {
		return t.loadPlace(place{scope: k.scope + 1}, m.node.Additional)
	}
	return nil, errUnsupported
}

// indexArray evaluates an index into a list at a place. The result is known only if the list has one item or none.
func (t *translator) indexArray(l refV, b sval, optional bool) (value, error) {
	if l.node.Type != "array" || l.node.Items == nil {
		return nil, errUnsupported
	}
	// Only a list of one item says which item an index leads to: formulas speak of all items or of some item.
	first, beyond, rest, err := indexCases(sizeAt{l.ref, logic.Array}, b)
	if err != nil {
		return nil, err
	}
	var out value
	if first {
		v, err := t.loadPlace(l.at.withStep(step{only: true}), l.node.Items)
		if err != nil {
			return nil, err
		}
		for _, b := range v {
			if optional {
				b.v = optV{b.v}
			}
			out = out.addBranch(b.g, b.v)
		}
	}
	if optional {
		out = out.addBranch(beyond, optV{})
	}
	return out.addBranch(rest, lostV{}), nil
}

// indexCases says of an index into a list of some size whether it is that of the only item of a list with one, when it is out of range, and
// when it is that of an item of which nothing is known.
func indexCases(size sizeAt, index sval) (first bool, beyond, rest *cond, err error) {
	several := size.indexWithin(2, maxSize)
	switch i := index.(type) {
	case intV:
		switch {
		case i < 0:
			return false, yes, no, nil
		case i == 0:
			return true, size.indexWithin(0, 0), several, nil
		}
		return false, size.indexWithin(0, int64(i)), size.indexWithin(int64(i)+1, maxSize), nil
	case numV: // such as size(list) - 1
		if s, ok := i.base.(sizeAt); ok && s.at.equalPlace(size.at) && !i.numberAt(1).dbl {
			if i.numberAt(1).i == 0 {
				return true, size.indexWithin(0, 0), several, nil
			}
			return false, size.indexWithin(0, 1), several, nil
		}
	}
	return false, nil, nil, errUnsupported
}

// indexList evaluates an index into a list written in the rule. The index has to be a constant, and no element may be
// there only sometimes: otherwise the elements behind it move.
func (t *translator) indexList(l listV, b sval, optional bool) (value, error) {
	i, ok := b.(intV)
	if !ok || !l.hasFixedElements() {
		return nil, errUnsupported
	}
	if i < 0 || int(i) >= len(l.elems) {
		return noElement(optional)
	}
	v := l.elems[i].v
	if !optional {
		return v, nil
	}
	return t.eachBranch(v, optionalWith)
}

// optionalWith makes an optional value that has a value.
func optionalWith(s sval) (value, error) {
	if mayFail(s) {
		return nil, errUnsupported
	}
	return singleBranch(optV{s}), nil
}
