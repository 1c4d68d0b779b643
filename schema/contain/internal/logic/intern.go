package logic

// Do two formulas say the same, as far as their form shows? Each gets a number for its meaning. For example, "a and b" and "b and a and a"
// have one number. The search remembers its results by these numbers, and finds contradictions by the number of a negation.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// ID is the number of a formula in a [Table]. Formulas with the same number mean the same.
type ID int32

// Table numbers formulas by their meaning: equal formulas, however they were made, have the same number. The order and repetition of
// parts of And and Or do not matter. It keeps all numbered formulas, so it should live for one comparison only. The zero value is ready
// for use.
type Table struct {
	byText map[string]ID
	lazies map[any]ID
	lists  map[listKey]ID
	nots   map[ID]ID
}

// listKey is the identity of an And or Or, which is immutable.
type listKey struct {
	first *Formula
	n     int
	or    bool
}

// The first byte of a text, by the type of the formula; those that never meet may share one.
const (
	tagAnd = iota
	tagOr
	tagKinds
	tagLength
	tagPattern
	tagFormat
	tagInts
	tagFloats
	tagIntMultiple
	tagFloatMultiple
	tagIntegral
	tagEnum
	tagHas
	tagLacks
	tagProp
	tagRest
	tagSomeRest
	tagAllKeys
	tagSomeKey
	tagNumProps
	tagItems
	tagSomeItem
	tagNumItems
	tagUnique
	tagOpaque
	tagLazy
	tagOther
)

// ID returns the number of the formula. w, which may be nil, is charged for new formulas.
func (t *Table) ID(f Formula, w *Work) ID {
	switch f := f.(type) {
	case And:
		return t.listID(f, false, w)
	case Or:
		return t.listID(f, true, w)
	case Lazy:
		if f.Small {
			if f.Neg {
				return t.Not(f.Make(), w)
			}
			return t.ID(f.Make(), w)
		}
		id, ok := t.lazies[f.ID]
		if !ok {
			if t.lazies == nil {
				t.lazies = map[any]ID{}
			}
			id = t.textID(fmt.Appendf([]byte{tagLazy}, "%d", len(t.lazies)))
			t.lazies[f.ID] = id
		}
		if f.Neg {
			return t.textID(appendNumber([]byte{tagOther, 1}, int64(id)))
		}
		return id
	}
	w.Charge(1)
	return t.textID(t.writeFormula(f, w))
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

func (t *Table) textID(b []byte) ID {
	if id, ok := t.byText[string(b)]; ok {
		return id
	}
	if t.byText == nil {
		t.byText = map[string]ID{}
	}
	id := ID(len(t.byText)) //nolint:gosec // far fewer than 1<<31: each was charged for
	t.byText[string(b)] = id
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
		b := []byte{tagAnd}
		if or {
			b[0] = tagOr
		}
		for _, x := range ids {
			b = appendNumber(b, int64(x))
		}
		id = t.textID(b)
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

func appendWords(b []byte, list []string) []byte {
	b = appendNumber(b, int64(len(list)))
	for _, s := range list {
		b = appendWord(b, s)
	}
	return b
}

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}

func taggedBounds(tag byte, lo, hi int64) []byte {
	return appendNumber(appendNumber([]byte{tag}, lo), hi)
}

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}

// writeFormula returns a text that no other formula of another meaning has.
func (t *Table) writeFormula(f Formula, w *Work) []byte {
	switch f := f.(type) {
	case Kinds:
		return []byte{tagKinds, byte(f)}
	case Length:
		return taggedBounds(tagLength, f.Min, f.Max)
	case Pattern:
		return appendFlag(appendWord([]byte{tagPattern}, f.Expr), f.Neg)
	case Format:
		return appendFlag(appendWord([]byte{tagFormat}, f.Name), f.Neg)
	case IntRange:
		return taggedBounds(tagInts, f.Lo, f.Hi)
	case FloatRange:
		return appendFlag(appendFlag(appendFloat(appendFloat([]byte{tagFloats}, f.Lo), f.Hi), f.LoOpen), f.HiOpen)
	case IntMultiple:
		return appendFlag(appendNumber([]byte{tagIntMultiple}, f.N), f.Neg)
	case FloatMultiple:
		return appendFlag(appendFloat([]byte{tagFloatMultiple}, f.F), f.Neg)
	case Integral:
		return appendFlag(appendFlag([]byte{tagIntegral}, f.Neg), f.Exact)
	case Enum:
		w.Charge(int64(len(f.Values)))
		b := appendFlag([]byte{tagEnum}, f.Neg)
		for _, v := range f.Values {
			b = appendValue(b, v)
		}
		return b
	case Opaque:
		return appendFlag(appendWord([]byte{tagOpaque}, f.ID), f.Neg)
	}
	return t.writeComposite(f, w)
}

// writeComposite writes a formula about objects or arrays.
func (t *Table) writeComposite(f Formula, w *Work) []byte {
	of := func(tag byte, f Formula) []byte { return appendNumber([]byte{tag}, int64(t.ID(f, w))) }
	switch f := f.(type) {
	case Has:
		return appendWord([]byte{tagHas}, f.Name)
	case Lacks:
		return appendWord([]byte{tagLacks}, f.Name)
	case Prop:
		return appendWord(of(tagProp, f.F), f.Name)
	case Rest:
		return appendWords(of(tagRest, f.F), f.Except)
	case SomeRest:
		return appendWords(of(tagSomeRest, f.F), f.Except)
	case AllKeys:
		return of(tagAllKeys, f.F)
	case SomeKey:
		return of(tagSomeKey, f.F)
	case NumProps:
		return taggedBounds(tagNumProps, f.Min, f.Max)
	case Items:
		return of(tagItems, f.F)
	case SomeItem:
		return of(tagSomeItem, f.F)
	case NumItems:
		return taggedBounds(tagNumItems, f.Min, f.Max)
	case Unique:
		return appendFlag(appendFlag(appendFlag(appendWord(appendWord([]byte{tagUnique}, f.By.Keys), f.By.Defaults), f.By.Text), f.By.Numbers), f.Neg)
	}
	return appendNumber([]byte{tagOther, 0}, int64(len(t.byText))) // equals nothing
}

// appendValue appends a value so that 1 and 1.0 differ.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		return appendFlag(append(b, 'b'), v)
	case int64:
		return appendNumber(append(b, 'i'), v)
	case float64:
		return appendFloat(append(b, 'f'), v)
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
