package celrule

// Is a rule true of values because they lack the fields that it speaks of? For example, !has(x.name) || size(x.name) > 3 is true of items
// that were stored before name was declared, whatever follows.

import (
	"maps"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/operators"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Item is the step of a path from a list to its items. Other steps are names of fields.
const Item = "[]"

// truth is what is known of a condition. The zero value is nothing.
type truth int8

const (
	surelyFalse truth = iota - 1
	notKnown
	surelyTrue
)

// Stored tells of the values that a rule is asked of. A path leads to them from self.
type Stored interface {
	// Lacks reports whether all values at the path are null or objects without the field.
	Lacks(path []string, field string) bool
	// Has reports whether all values at the path are objects with the field, and it is not null.
	Has(path []string, field string) bool
}

// TrueWithout reports whether the rule is true of all values, and no error, given the fields that they lack. False means nothing.
func (r *Rule) TrueWithout(values Stored) bool {
	return absence{Stored: values, macros: new(int)}.truthOf(r.root, &binding[located]{name: self}) == surelyTrue
}

// located is where the values of an expression stand. Two names for the items of one list have the same path, and not the same key: what is
// known of one item says nothing of another.
type located struct {
	path []string
	key  string
}

// inField is where a field of the values stands. The key quotes the name, because a name may have a dot in it.
func (l located) inField(name string) located {
	return located{append(slices.Clip(l.path), name), l.key + "." + strconv.Quote(name)}
}

// absence evaluates conditions with the fields that values lack, and those that are there.
type absence struct {
	Stored
	there  map[string]bool // keys of fields that an operand before has asked for
	macros *int            // numbers the macros
}

// truthOf is what is known of e: in CEL, an operand that decides && or || wins over an error of the other one.
func (a absence) truthOf(e *expr, bound *binding[located]) truth {
	if v, ok := e.val.(bool); ok && e.kind == literal {
		return truthIf(v)
	}
	if e.kind != call {
		return notKnown
	}
	if e.isHas() {
		if at, known := a.placeOf(e.args[0].args[0], bound); known && a.Lacks(at.path, fieldName(e.args[0])) {
			return surelyFalse
		}
		return notKnown
	}
	if list, x, body, ok := oneVariable(e); ok {
		return a.truthOfMacro(e.name, list, x, body, bound)
	}
	switch e.name {
	case operators.LogicalNot:
		return -a.truthOf(e.args[0], bound)
	case operators.LogicalAnd:
		return min(a.truthOf(e.args[0], bound), a.withKnownFields(e.args[0], true, bound).truthOf(e.args[1], bound))
	case operators.LogicalOr:
		return max(a.truthOf(e.args[0], bound), a.withKnownFields(e.args[0], false, bound).truthOf(e.args[1], bound))
	case operators.Conditional:
		then, otherwise := a.withKnownFields(e.args[0], true, bound).truthOf(e.args[1], bound), a.withKnownFields(e.args[0], false, bound).truthOf(e.args[2], bound)
		switch a.truthOf(e.args[0], bound) {
		case surelyTrue:
			return then
		case surelyFalse:
			return otherwise
		case notKnown:
		}
	}
	return notKnown
}

// truthOfMacro is truthOf for a macro over the items of a list.
func (a absence) truthOfMacro(name string, list, x, body *expr, bound *binding[located]) truth {
	at, known := a.placeOf(list, bound)
	if !known {
		return notKnown
	}
	*a.macros++
	item := located{append(slices.Clip(at.path), Item), at.key + "[" + strconv.Itoa(*a.macros) + "]"}
	inner := a.truthOf(body, &binding[located]{name: x.name, to: item, up: bound})
	switch {
	case name == "all" && inner == surelyTrue:
		return surelyTrue
	case (name == "exists" || name == "exists_one" || name == "existsOne") && inner == surelyFalse:
		return surelyFalse
	}
	return notKnown
}

// withKnownFields adds the fields that are there if e evaluates to a value.
func (a absence) withKnownFields(e *expr, value bool, bound *binding[located]) absence {
	for _, s := range heldParts(e, value) {
		if s.neg || !s.e.isHas() {
			continue
		}
		if at, known := a.placeOf(s.e.args[0].args[0], bound); known {
			a.there = maps.Clone(a.there)
			if a.there == nil {
				a.there = map[string]bool{}
			}
			a.there[at.inField(fieldName(s.e.args[0])).key] = true
		}
	}
	return a
}

// truthIf is the truth of a condition whose value is known.
func truthIf(v bool) truth {
	if v {
		return surelyTrue
	}
	return surelyFalse
}

// placeOf returns where the values of e stand, if their evaluation is no error: self, a name that a macro binds, or a field that is there.
func (a absence) placeOf(e *expr, bound *binding[located]) (at located, known bool) {
	switch e.kind {
	case ident:
		return bound.lookUp(e.name)
	case sel:
		if at, known = a.placeOf(e.args[0], bound); known {
			below := at.inField(fieldName(e))
			return below, a.there[below.key] || a.Has(at.path, fieldName(e))
		}
	case literal, call, list, mapping:
	}
	return located{}, false
}

// fieldName is the field that a selection selects.
func fieldName(e *expr) string {
	if name, ok := apiservercel.Unescape(e.name); ok {
		return name
	}
	return e.name
}
