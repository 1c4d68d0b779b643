package logic

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxText bounds the text of a formula, in bytes, and maxTextDepth how deep it goes into the parts of a value.
const (
	maxText      = 400
	maxTextDepth = 4
)

// Text describes a formula in words: `is a string and has 1 to 5 characters`. It cuts long texts. For a [Lazy] part it only writes a
// name.
func Text(f Formula) string {
	w := &wording{}
	w.say(f, 0)
	if w.full() {
		return strings.ToValidUTF8(w.String()[:maxText], "") + "…"
	}
	return w.String()
}

// wording writes the text of a formula.
type wording struct{ strings.Builder }

func (w *wording) full() bool { return w.Len() > maxText }

func (w *wording) say(f Formula, depth int) {
	switch f := f.(type) {
	case And:
		w.list(f, " and ", "is anything", depth)
	case Or:
		w.list(f, " or ", "is nothing", depth)
	case Has:
		w.WriteString("has ." + f.Name)
	case Lacks:
		w.WriteString("lacks ." + f.Name)
	case Prop:
		w.part("its ."+f.Name, f.F, depth)
	case Rest:
		w.part(others("every", f.Except), f.F, depth)
	case SomeRest:
		w.part(others("some", f.Except), f.F, depth)
	case AllKeys:
		w.part("every key", f.F, depth)
	case SomeKey:
		w.part("some key", f.F, depth)
	case Items:
		w.part("every item", f.F, depth)
	case SomeItem:
		w.part("some item", f.F, depth)
	case Lazy:
		w.lazy(f, depth)
	default:
		w.WriteString(plainText(f))
	}
}

func (w *wording) list(fs []Formula, between, none string, depth int) {
	if len(fs) == 0 {
		w.WriteString(none)
		return
	}
	for i, f := range fs {
		if w.full() {
			return
		}
		if i > 0 {
			w.WriteString(between)
		}
		switch f.(type) {
		case And, Or:
			w.WriteByte('(')
			w.say(f, depth)
			w.WriteByte(')')
		default:
			w.say(f, depth)
		}
	}
}

func (w *wording) part(name string, f Formula, depth int) {
	if depth == maxTextDepth {
		w.WriteString(name + " is as it has to be")
		return
	}
	w.WriteString(name + " (")
	w.say(f, depth+1)
	w.WriteByte(')')
}

func (w *wording) lazy(f Lazy, depth int) {
	switch {
	case f.Small && depth < maxTextDepth:
		w.say(f.Expand(), depth+1)
	case f.Neg:
		w.WriteString("is not as the schema says")
	default:
		w.WriteString("is as the schema says")
	}
}

// plainText is the text of a formula that has no parts.
func plainText(f Formula) string {
	switch f := f.(type) {
	case Kinds:
		return "is of type " + kindNames(Kind(f))
	case Length:
		return "has " + between(f.Min, f.Max, 0) + " characters"
	case Pattern:
		return not(f.Neg, "matches ", "does not match ") + strconv.Quote(f.Expr)
	case Format:
		return not(f.Neg, "has the", "has no") + " format " + f.Name
	case IntRange:
		return "is " + between(f.Lo, f.Hi, math.MinInt64)
	case FloatRange:
		return "is in " + not(f.LoOpen, "[", "(") + fmt.Sprint(f.Lo) + ", " + fmt.Sprint(f.Hi) + not(f.HiOpen, "]", ")")
	case IntMultiple:
		return not(f.Neg, "is", "is not") + " a multiple of " + strconv.FormatInt(f.N, 10)
	case FloatMultiple:
		return not(f.Neg, "is", "is not") + " a multiple of " + fmt.Sprint(f.F)
	case Integral:
		return not(f.Neg, "has no", "has a") + " fraction"
	case Enum:
		return not(f.Neg, "is one of ", "is none of ") + jsonText(f.Values)
	case NumProps:
		return "has " + between(f.Min, f.Max, 0) + " fields"
	case NumItems:
		return "has " + between(f.Min, f.Max, 0) + " items"
	case Unique:
		return not(f.Neg, "has no", "has") + " equal items"
	case Opaque:
		return not(f.Neg, "fulfils ", "does not fulfil ") + strconv.Quote(f.ID)
	}
	return "is as it has to be"
}

func not(neg bool, yes, no string) string {
	if neg {
		return no
	}
	return yes
}

// between is a range of numbers from least, the smallest, to Unbounded, the largest.
func between(lo, hi, least int64) string {
	switch {
	case lo > least && hi < Unbounded:
		return fmt.Sprintf("%d to %d", lo, hi)
	case hi < Unbounded:
		return fmt.Sprintf("at most %d", hi)
	}
	return fmt.Sprintf("at least %d", lo)
}

// kindNames are the JSON types of kinds.
func kindNames(k Kind) string {
	var names []string
	for i, name := range [nKinds]string{"null", "boolean", "integer", "number", "string", "array", "object"} {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

func others(which string, except []string) string {
	if len(except) == 0 {
		return which + " field"
	}
	return which + " field but " + strings.Join(except, ", ")
}

func jsonText(values []any) string {
	b, err := json.Marshal(values)
	if err != nil { // a float that JSON does not have
		return fmt.Sprint(values)
	}
	return string(b)
}
