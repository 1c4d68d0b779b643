package logic

// Is a formula true of a value? For example, "all items are over 5" is true of [6, 7], of [] and of "text", which has no items. The answer is
// Unsure only because of opaque parts. Numbers, enums and equal items count as the API server counts them, with the same libraries.

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-openapi/swag/conv"
)

// Truth is what an evaluation found.
type Truth uint8

// The truths. Unsure comes from opaque parts only.
const (
	No Truth = iota
	Unsure
	Yes
)

// truthOf is Yes or No, for statements that have no opaque part.
func truthOf(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// Checker answers the questions for which the API server's libraries are needed.
type Checker interface {
	// MatchPattern reports whether expr finds a match in s; an expression that does not compile matches nothing.
	MatchPattern(expr, s string) bool
	// MatchFormat reports whether s is of the format.
	MatchFormat(name, s string) bool
}

// Eval evaluates f on v.
func Eval(f Formula, v any, c Checker) Truth { return evaluator{Checker: c}.evalFormula(f, v) }

// evaluator evaluates formulas, and charges for each that it visits. When the work is spent, the result is Unsure.
type evaluator struct {
	Checker
	work *Work
}

// evalFormula evaluates what is about all kinds, and leaves the rest to the function for the kind of v. A formula about another kind is true.
func (c evaluator) evalFormula(f Formula, v any) Truth {
	if !c.work.Charge(1) {
		return Unsure
	}
	switch f := f.(type) {
	case And:
		return c.evalParts(f, v, No)
	case Or:
		return c.evalParts(f, v, Yes)
	case Kinds:
		return truthOf(KindOf(v)&Kind(f) != 0)
	case Enum:
		return truthOf(c.work.enumHolds(f.Values, v) != f.Neg)
	case Opaque:
		return Unsure
	case Lazy:
		t := c.evalFormula(f.Make(), v)
		if f.Neg {
			t = Yes - t
		}
		return t
	}
	switch v := v.(type) {
	case string:
		return c.evalString(f, v)
	case int64:
		return evalInt(f, v)
	case float64:
		return evalFloat(f, v)
	case map[string]any:
		return c.evalObject(f, v)
	case []any:
		return c.evalArray(f, v)
	}
	return Yes
}

// evalParts evaluates a conjunction, which one part that is No decides, or a disjunction, which one that is Yes decides.
func (c evaluator) evalParts(fs []Formula, v any, decides Truth) Truth {
	t := Yes - decides
	for _, g := range fs {
		if t = joinTruths(decides == No, t, c.evalFormula(g, v)); t == decides {
			break
		}
	}
	return t
}

// bytesCounted is the number of bytes of a string that a unit of work pays to count.
const bytesCounted = 512

// evalString evaluates a formula about strings. It charges for long strings, and for a pattern by the lengths of
// both.
func (c evaluator) evalString(f Formula, v string) Truth {
	switch f := f.(type) {
	case Length:
		c.work.Charge(int64(len(v) / bytesCounted))
		n := int64(utf8.RuneCountInString(v))
		return truthOf(n >= f.Min && n <= f.Max)
	case Pattern:
		c.work.Charge(int64(len(v)/16 + len(f.Expr)/8))
		return truthOf(c.MatchPattern(f.Expr, v) != f.Neg)
	case Format:
		return truthOf(c.MatchFormat(f.Name, v) != f.Neg)
	}
	return Yes
}

// evalInt evaluates a formula about integers that were decoded as int64.
func evalInt(f Formula, v int64) Truth {
	switch f := f.(type) {
	case IntRange:
		return truthOf(v >= f.Lo && v <= f.Hi)
	case IntMultiple:
		return truthOf((v%f.N == 0) != f.Neg)
	}
	return Yes
}

// evalFloat evaluates a formula about numbers that were decoded as float64, 1.0 among them.
func evalFloat(f Formula, v float64) Truth {
	switch f := f.(type) {
	case FloatRange:
		return truthOf(f.containsNumber(v))
	case FloatMultiple:
		return truthOf(IsFloatMultiple(v, f.F) != f.Neg)
	case Integral:
		return truthOf(f.holdsFor(v) != f.Neg)
	}
	return Yes
}

// evalObject evaluates a formula about objects. Has and Lacks see a property whose value is null, too.
func (c evaluator) evalObject(f Formula, v map[string]any) Truth {
	switch f := f.(type) {
	case Has:
		_, ok := v[f.Name]
		return truthOf(ok)
	case Lacks:
		_, ok := v[f.Name]
		return truthOf(!ok)
	case Prop:
		if x, ok := v[f.Name]; ok {
			return c.evalFormula(f.F, x)
		}
	case NumProps:
		return truthOf(int64(len(v)) >= f.Min && int64(len(v)) <= f.Max)
	case Rest:
		return c.evalOthers(f.Except, f.F, v, true)
	case SomeRest:
		return c.evalOthers(f.Except, f.F, v, false)
	case AllKeys:
		return c.evalKeys(f.F, v, true)
	case SomeKey:
		return c.evalKeys(f.F, v, false)
	}
	return Yes
}

// evalOthers evaluates f on the properties that are not in except: whether all satisfy it, or some.
func (c evaluator) evalOthers(except []string, f Formula, v map[string]any, all bool) Truth {
	t := truthOf(all)
	for k, x := range v {
		if !inSorted(except, k) {
			t = joinTruths(all, t, c.evalFormula(f, x))
		}
	}
	return t
}

// evalKeys evaluates f on the keys: whether all satisfy it, or some.
func (c evaluator) evalKeys(f Formula, v map[string]any, all bool) Truth {
	t := truthOf(all)
	for k := range v {
		t = joinTruths(all, t, c.evalFormula(f, k))
	}
	return t
}

// evalItems evaluates f on the items: whether all satisfy it, or some.
func (c evaluator) evalItems(f Formula, v []any, all bool) Truth {
	t := truthOf(all)
	for _, x := range v {
		t = joinTruths(all, t, c.evalFormula(f, x))
	}
	return t
}

// joinTruths is "and" or "or".
func joinTruths(all bool, a, b Truth) Truth {
	if all {
		return min(a, b)
	}
	return max(a, b)
}

// evalArray evaluates a formula about lists. Whether items are equal is quick to tell for strings; otherwise each two
// of them are compared, which is charged. If defaults are filled in inside of the items, items that differ may become
// equal, so the answer is Unsure.
func (c evaluator) evalArray(f Formula, v []any) Truth {
	switch f := f.(type) {
	case Items:
		return c.evalItems(f.F, v, true)
	case SomeItem:
		return c.evalItems(f.F, v, false)
	case NumItems:
		return truthOf(int64(len(v)) >= f.Min && int64(len(v)) <= f.Max)
	case Unique:
		texts, plain := f.By.textKeys(v)
		work := int64(len(v))
		if !plain {
			work *= work / 2
		}
		c.work.Charge(work)
		switch {
		case plain && hasEqualTexts(texts), !plain && f.By.hasDuplicates(v):
			return truthOf(f.Neg)
		case f.By.Defaults != "" && len(v) > 1:
			return Unsure // defaulting may make items equal
		}
		return truthOf(!f.Neg)
	}
	return Yes
}

// holdsFor reports whether v has no fraction.
func (f Integral) holdsFor(v float64) bool {
	return IsIntegral(v) && (!f.Exact || v == math.Trunc(v))
}

// IsIntegral reports whether a float counts as an integer upstream.
func IsIntegral(f float64) bool { return conv.IsFloat64AJSONInteger(f) }

// IsFloatMultiple reports whether v is a multiple of factor as upstream computes it.
func IsFloatMultiple(v, factor float64) bool {
	if factor <= 0 {
		return false
	}
	m := v / factor
	if factor < 1 {
		m = 1 / factor * v
	}
	return conv.IsFloat64AJSONInteger(m)
}

// containsNumber reports whether v is in the range, whose ends may be left out.
func (r FloatRange) containsNumber(v float64) bool {
	if r.LoOpen && v <= r.Lo || v < r.Lo {
		return false
	}
	return !(r.HiOpen && v >= r.Hi || v > r.Hi)
}

// keyNames returns the key names of a list-type map, nil for plain equality.
func (u UniqueBy) keyNames() []string {
	if u.Keys == "" {
		return nil
	}
	return strings.Split(u.Keys, "\x00")
}

// impliesUnique reports whether items that are distinct in the sense of u are distinct in the sense of v, because items that are
// equal in the sense of v have keys that are equal in the sense of u.
func (u UniqueBy) impliesUnique(v UniqueBy) bool {
	if u == v {
		return true
	}
	if u.Keys == "" || v.Text && !u.Text || v.Numbers && !u.Numbers {
		return false
	}
	names := v.keyNames()
	if names == nil {
		return u.Defaults == "" && v.Defaults == "" && (!v.Text || u.Numbers)
	}
	return !slices.ContainsFunc(u.keyNames(), func(n string) bool {
		return !slices.Contains(names, n) || u.defaultOf(n) != v.defaultOf(n)
	})
}

// defaultOf returns the default of a key in Defaults.
func (u UniqueBy) defaultOf(key string) string {
	for part := range strings.SplitSeq(u.Defaults, "\x00") {
		if value, ok := strings.CutPrefix(part, key+"="); ok {
			return value
		}
	}
	return ""
}

// hasEqualTexts sorts the texts.
func hasEqualTexts(texts []string) bool {
	n := len(texts)
	slices.Sort(texts)
	return len(slices.Compact(texts)) < n
}

// textKeys returns a text for the keys of each item, by which items are equal; not ok if some key is no string or has the separator in it.
func (u UniqueBy) textKeys(items []any) (out []string, ok bool) {
	names := u.keyNames()
	for _, item := range items {
		var keys []any
		m, _ := item.(map[string]any)
		for _, name := range names {
			keys = append(keys, m[name])
		}
		if names == nil {
			keys = []any{item}
		}
		var text strings.Builder
		for _, key := range keys {
			s, is := key.(string)
			if !is || strings.Contains(s, "\x00") {
				return nil, false
			}
			text.WriteString(s + "\x00")
		}
		out = append(out, text.String())
	}
	return out, true
}

// hasDuplicates compares each two items.
func (u UniqueBy) hasDuplicates(items []any) bool {
	names := u.keyNames()
	for i, a := range items {
		for _, b := range items[:i] {
			if u.equalItems(names, a, b) {
				return true
			}
		}
	}
	return false
}

// equalItems compares two items. Items of a list-type map that are no objects count as objects without keys
// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype).
func (u UniqueBy) equalItems(names []string, a, b any) bool {
	if names == nil {
		return u.sameValue(a, b)
	}
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	for _, n := range names {
		p, okp := x[n]
		q, okq := y[n]
		same := u.sameValue(p, q) || u.Numbers && KindOf(p)&Number != 0 && KindOf(q)&Number != 0 && sameText(p, q)
		if okp != okq || okp && !same {
			return false
		}
	}
	return true
}

// sameValue compares two keys, or two items without keys: lists and objects by their JSON text if u says so, all else
// deeply.
func (u UniqueBy) sameValue(a, b any) bool {
	if u.Text && KindOf(a)&(Array|Object) != 0 && KindOf(a) == KindOf(b) {
		return sameText(a, b)
	}
	return reflect.DeepEqual(a, b)
}

// sameText reports whether two values have the same JSON text.
func sameText(a, b any) bool {
	p, errP := json.Marshal(a)
	q, errQ := json.Marshal(b)
	return errP == nil && errQ == nil && bytes.Equal(p, q)
}
