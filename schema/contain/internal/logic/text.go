package logic

// How is a formula said to a person? For example, the trace of a comparison says "is of type string and has 1 to 5 characters".
//
// The text is for people who read a trace. Nothing else reads it, so its words may change.

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

// Text describes a formula in words: `is of type string and has 1 to 5 characters`. It cuts long texts. For a [Lazy] part it only writes a
// name.
func Text(f Formula) string {
	w := &wording{}
	w.writeFormula(f, 0)
	if w.isFull() {
		return strings.ToValidUTF8(w.String()[:maxText], "") + "…"
	}
	return w.String()
}

// wording writes the text of a formula.
type wording struct{ strings.Builder }

func (w *wording) isFull() bool { return w.Len() > maxText }

// writeFormula writes f as the end of a sentence that begins with "a value that". depth counts the parts of values
// that lead to it.
func (w *wording) writeFormula(f Formula, depth int) {
	switch f := f.(type) {
	case And:
		w.writeList(f, " and ", "is anything", depth)
	case Or:
		w.writeList(f, " or ", "is nothing", depth)
	case Has:
		w.WriteString("has ." + f.Name)
	case Lacks:
		w.WriteString("lacks ." + f.Name)
	case Prop:
		w.writePart("its ."+f.Name, f.F, depth)
	case Rest:
		w.writePart(otherFields("every", f.Except), f.F, depth)
	case SomeRest:
		w.writePart(otherFields("some", f.Except), f.F, depth)
	case AllKeys:
		w.writePart("every key", f.F, depth)
	case SomeKey:
		w.writePart("some key", f.F, depth)
	case Items:
		w.writePart("every item", f.F, depth)
	case SomeItem:
		w.writePart("some item", f.F, depth)
	case Lazy:
		w.writeLazy(f, depth)
	default:
		w.WriteString(plainText(f))
	}
}

// writeList writes formulas with a word between them, and junctions among them in parentheses. It stops once the text
// is long enough.
func (w *wording) writeList(fs []Formula, between, none string, depth int) {
	if len(fs) == 0 {
		w.WriteString(none)
		return
	}
	for i, f := range fs {
		if w.isFull() {
			return
		}
		if i > 0 {
			w.WriteString(between)
		}
		switch f.(type) {
		case And, Or:
			w.WriteByte('(')
			w.writeFormula(f, depth)
			w.WriteByte(')')
		default:
			w.writeFormula(f, depth)
		}
	}
}

// writePart writes what a part of the value is like. Below maxTextDepth it says no more than that there is a demand.
func (w *wording) writePart(name string, f Formula, depth int) {
	if depth == maxTextDepth {
		w.WriteString(name + " is as it has to be")
		return
	}
	w.WriteString(name + " (")
	w.writeFormula(f, depth+1)
	w.WriteByte(')')
}

// writeLazy writes what a short part stands for. A long one is a whole schema, which the reader has before her.
func (w *wording) writeLazy(f Lazy, depth int) {
	switch {
	case f.Small && depth < maxTextDepth:
		w.writeFormula(f.Expand(), depth+1)
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
		return "has " + rangeText(f.Min, f.Max, 0) + " characters"
	case Pattern:
		return wordFor(f.Neg, "matches ", "does not match ") + strconv.Quote(f.Expr)
	case Format:
		return wordFor(f.Neg, "has the", "has no") + " format " + f.Name
	case IntRange:
		return "is " + rangeText(f.Lo, f.Hi, math.MinInt64)
	case FloatRange:
		return "is in " + wordFor(f.LoOpen, "[", "(") + fmt.Sprint(f.Lo) + ", " + fmt.Sprint(f.Hi) + wordFor(f.HiOpen, "]", ")")
	case IntMultiple:
		return wordFor(f.Neg, "is", "is not") + " a multiple of " + strconv.FormatInt(f.N, 10)
	case FloatMultiple:
		return wordFor(f.Neg, "is", "is not") + " a multiple of " + fmt.Sprint(f.F)
	case Integral:
		return wordFor(f.Neg, "has no", "has a") + " fraction"
	case Enum:
		return wordFor(f.Neg, "is one of ", "is none of ") + jsonText(f.Values)
	case NumProps:
		return "has " + rangeText(f.Min, f.Max, 0) + " fields"
	case NumItems:
		return "has " + rangeText(f.Min, f.Max, 0) + " items"
	case Unique:
		return wordFor(f.Neg, "has no", "has") + " equal items"
	case Opaque:
		return wordFor(f.Neg, "fulfils ", "does not fulfil ") + strconv.Quote(f.ID)
	}
	return "is as it has to be"
}

// wordFor is the word for a formula, or for its negation.
func wordFor(neg bool, yes, no string) string {
	if neg {
		return no
	}
	return yes
}

// rangeText is a range of numbers from least, the smallest, to Unbounded, the largest.
func rangeText(lo, hi, least int64) string {
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

// otherFields names the fields that a statement is about: all, or all but the excepted ones.
func otherFields(which string, except []string) string {
	if len(except) == 0 {
		return which + " field"
	}
	return which + " field but " + strings.Join(except, ", ")
}

// jsonText writes the values of an enum as JSON.
func jsonText(values []any) string {
	b, err := json.Marshal(values)
	if err != nil { // a float that JSON does not have
		return fmt.Sprint(values)
	}
	return string(b)
}
