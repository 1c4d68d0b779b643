package logic

// Do two formulas say the same, as far as their form shows? Each gets a number for its meaning. For example, "a and b" and "b and a and a"
// have one number. The search remembers its results by these numbers, and finds contradictions by the number of a negation.

import (
	"encoding/binary"
	"maps"
	"math"
	"reflect"
	"slices"
)

// ID is the number of a formula in a [Table]. Formulas with the same number mean the same.
type ID int32

// Table numbers formulas by their meaning: equal formulas, however they were made, have the same number. The order and repetition of
// parts of And and Or do not matter. It keeps all numbered formulas, so it should live for one comparison only. The zero value is ready
// for use.
type Table struct {
	ids   map[any]ID // by their keys, see keyOf
	lists map[listKey]ID
	nots  map[ID]ID
}

// listKey is the identity of an And or Or, which is immutable.
type listKey struct {
	first *Formula
	n     int
	or    bool
}

// The keys of formulas that have parts, and of lists.
type (
	junctionKey struct {
		ids string // of the parts, sorted
		or  bool
	}
	lazyKey struct {
		id  any
		neg bool
	}
	enumKey struct {
		values string
		neg    bool
	}
	partKey struct {
		of    reflect.Type // of the formula
		id    ID           // of its part
		names string
	}
)

// ID returns the number of the formula. w, which may be nil, is charged for new formulas.
func (t *Table) ID(f Formula, w *Work) ID {
	switch f := f.(type) {
	case And:
		return t.listID(f, false, w)
	case Or:
		return t.listID(f, true, w)
	case Lazy:
		switch {
		case !f.Small:
			return t.numberOf(lazyKey{f.ID, f.Neg})
		case f.Neg:
			return t.Not(f.Make(), w)
		}
		return t.ID(f.Make(), w)
	}
	w.Charge(1)
	return t.numberOf(t.keyOf(f, w))
}

// Not returns the number of the negation.
func (t *Table) Not(f Formula, w *Work) ID {
	id := t.ID(f, w)
	n, ok := t.nots[id]
	if !ok {
		n = t.ID(Not(f), w)
		if t.nots == nil {
			t.nots = map[ID]ID{}
		}
		t.nots[id] = n
		if _, ok := t.nots[n]; !ok {
			t.nots[n] = id
		}
	}
	return n
}

// numberOf returns the number of a key, a new one at its first use.
func (t *Table) numberOf(key any) ID {
	if id, ok := t.ids[key]; ok {
		return id
	}
	if t.ids == nil {
		t.ids = map[any]ID{}
	}
	id := ID(len(t.ids)) //nolint:gosec // far fewer than 1<<31: each was charged for
	t.ids[key] = id
	return id
}

// listID numbers an And or Or by the numbers of its parts, sorted and without repetition. The slice itself is remembered too, because the same
// one is numbered many times.
func (t *Table) listID(fs []Formula, or bool, w *Work) ID {
	var key listKey
	if len(fs) > 0 {
		key = listKey{&fs[0], len(fs), or}
		if id, ok := t.lists[key]; ok {
			return id
		}
	}
	ids := t.appendPartIDs(nil, fs, or, w)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	w.Charge(int64(1 + len(ids)))
	var id ID
	if len(ids) == 1 {
		id = ids[0]
	} else {
		var b []byte
		for _, x := range ids {
			b = appendNumber(b, int64(x))
		}
		id = t.numberOf(junctionKey{string(b), or})
	}
	if len(fs) > 0 {
		if t.lists == nil {
			t.lists = map[listKey]ID{}
		}
		t.lists[key] = id
	}
	return id
}

// appendPartIDs appends the numbers of the parts, and flattens inner lists of the same kind.
func (t *Table) appendPartIDs(ids []ID, fs []Formula, or bool, w *Work) []ID {
	for _, f := range fs {
		switch g := f.(type) {
		case And:
			if !or {
				ids = t.appendPartIDs(ids, g, or, w)
				continue
			}
		case Or:
			if or {
				ids = t.appendPartIDs(ids, g, or, w)
				continue
			}
		}
		ids = append(ids, t.ID(f, w))
	}
	return ids
}

func appendNumber(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

func appendWord(b []byte, s string) []byte { return append(appendNumber(b, int64(len(s))), s...) }

// keyOf returns a comparable value that no formula of another meaning has. A formula without parts is its own key.
func (t *Table) keyOf(f Formula, w *Work) any {
	with := func(part Formula, names ...string) any {
		var b []byte
		for _, name := range names {
			b = appendWord(b, name)
		}
		return partKey{reflect.TypeOf(f), t.ID(part, w), string(b)}
	}
	switch f := f.(type) {
	case Enum:
		w.Charge(int64(len(f.Values)))
		return enumKey{string(appendValue(nil, f.Values)), f.Neg}
	case Prop:
		return with(f.F, f.Name)
	case Rest:
		return with(f.F, f.Except...)
	case SomeRest:
		return with(f.F, f.Except...)
	case AllKeys:
		return with(f.F)
	case SomeKey:
		return with(f.F)
	case Items:
		return with(f.F)
	case SomeItem:
		return with(f.F)
	}
	return f
}

// appendValue appends a value so that 1 and 1.0 differ.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case int64:
		return appendNumber(append(b, 'i'), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case string:
		return appendWord(append(b, 's'), v)
	case []any:
		b = appendNumber(append(b, 'l'), int64(len(v)))
		for _, x := range v {
			b = appendValue(b, x)
		}
	case map[string]any:
		b = appendNumber(append(b, 'm'), int64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = appendValue(appendWord(b, k), v[k])
		}
	}
	return b
}
