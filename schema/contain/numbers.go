package contain

// Which numbers pass the bounds of a node? For example, for an integer a maximum of 1.5 is one of 1.

import (
	"math"
	"strconv"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
)

// addNumberBounds translates bounds, multipleOf and the ranges of formats as kube-openapi's numberValidator applies them: for integers a bound
// is cut to an integer, and a bound outside the type and format refuses every number.
func (t *translator) addNumberBounds(n *schema.Node, add func(string, logic.Formula, any)) {
	fits, format := t.numberRange(n)
	if format != nil {
		add("format", format, n.Format)
	}
	bound := func(keyword string, value *float64, ints, floats logic.Formula) {
		f := logic.Formula(logic.And{ints, floats})
		if !fits(*value) {
			f = logic.Kinds(logic.AnyKind &^ logic.Number)
		}
		add(keyword, f, *value)
	}
	if m := n.Minimum; m != nil {
		bound("minimum", m, integersFrom(int64(*m), n.ExclusiveMinimum), logic.FloatRange{Lo: *m, LoOpen: n.ExclusiveMinimum, Hi: math.Inf(1)})
	}
	if m := n.Maximum; m != nil {
		bound("maximum", m, integersUpTo(int64(*m), n.ExclusiveMaximum), logic.FloatRange{Lo: math.Inf(-1), Hi: *m, HiOpen: n.ExclusiveMaximum})
	}
	if m := n.MultipleOf; m != nil {
		ints := logic.Formula(logic.Kinds(logic.AnyKind &^ logic.Int))
		if int64(*m) > 0 {
			ints = logic.IntMultiple{N: int64(*m)}
		}
		floats := logic.Formula(logic.Kinds(logic.AnyKind &^ logic.Float))
		if *m > 0 {
			floats = logic.FloatMultiple{F: *m}
		}
		bound("multipleOf", m, ints, floats)
	}
}

// numberRange says which bounds fit the type and format of a node, and which numbers the format allows; nil for all.
func (t *translator) numberRange(n *schema.Node) (fits func(float64) bool, format logic.Formula) {
	checked := upstream.ChecksNumbers(t.opts.KubeVersion)
	switch {
	case n.IntOrString || !checked: // every bound is taken as a number, without regard to the type
	case n.Type == "integer" && n.Format == "int32":
		return func(f float64) bool { return fitsInt(f, 32) }, logic.And{
			logic.IntRange{Lo: math.MinInt32, Hi: math.MaxInt32}, logic.FloatRange{Lo: math.MinInt32, Hi: math.MaxInt32},
		}
	case n.Type == "integer":
		return func(f float64) bool { return fitsInt(f, 64) }, nil
	case n.Type == "number" && n.Format == "float":
		return func(f float64) bool { return math.Abs(f) <= lastFloat32 }, logic.FloatRange{Lo: -lastFloat32, Hi: lastFloat32}
	}
	return func(float64) bool { return true }, nil
}

// integersFrom is true of the integers from lo on, or after it.
func integersFrom(lo int64, exclusive bool) logic.Formula {
	switch {
	case !exclusive:
		return logic.IntRange{Lo: lo, Hi: math.MaxInt64}
	case lo == math.MaxInt64:
		return logic.Kinds(logic.AnyKind &^ logic.Int)
	}
	return logic.IntRange{Lo: lo + 1, Hi: math.MaxInt64}
}

// integersUpTo is true of the integers up to hi, or before it.
func integersUpTo(hi int64, exclusive bool) logic.Formula {
	switch {
	case !exclusive:
		return logic.IntRange{Lo: math.MinInt64, Hi: hi}
	case hi == math.MinInt64:
		return logic.Kinds(logic.AnyKind &^ logic.Int)
	}
	return logic.IntRange{Lo: math.MinInt64, Hi: hi - 1}
}

// lastFloat32 is the greatest number that upstream accepts as a float32. It is half-way between the greatest float32 and the next
// step. Upstream compares its shortest decimal text, which is a little less and is rounded down (IsValueValidAgainstRange in
// k8s.io/kube-openapi/pkg/validation/validate).
const lastFloat32 = math.MaxFloat32 + 1<<103

// fitsInt reports whether a bound fits the type, as upstream decides it: by its shortest decimal text (IsValueValidAgainstRange in
// k8s.io/kube-openapi/pkg/validation/validate). So -2^63, whose text is rounded, does not.
func fitsInt(f float64, bits int) bool {
	_, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, bits)
	return err == nil
}
