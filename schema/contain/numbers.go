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
	typeName := n.Type
	if n.IntOrString {
		typeName = ""
	}
	refuseAll := logic.Kinds(logic.AnyKind &^ logic.Number)
	fits := func(float64) bool { return true }
	format := n.Format
	if !upstream.ChecksNumbers(t.opts.KubeVersion) {
		format = ""
	}
	switch {
	case typeName == "integer" && format == "int32":
		fits = func(f float64) bool { return fitsInt(f, 32) }
		add("format", logic.And{
			logic.IntRange{Lo: math.MinInt32, Hi: math.MaxInt32}, logic.FloatRange{Lo: math.MinInt32, Hi: math.MaxInt32},
		}, n.Format)
	case typeName == "integer":
		fits = func(f float64) bool { return fitsInt(f, 64) }
	case typeName == "number" && format == "float":
		fits = func(f float64) bool { return math.Abs(f) <= lastFloat32 }
		add("format", logic.FloatRange{Lo: -lastFloat32, Hi: lastFloat32}, n.Format)
	}
	if m := n.Minimum; m != nil {
		lo := int64(*m)
		var ints logic.Formula = logic.IntRange{Lo: lo, Hi: math.MaxInt64}
		if n.ExclusiveMinimum {
			ints = logic.IntRange{Lo: lo + 1, Hi: math.MaxInt64}
			if lo == math.MaxInt64 {
				ints = logic.Kinds(logic.AnyKind &^ logic.Int)
			}
		}
		f := logic.Formula(logic.And{ints, logic.FloatRange{Lo: *m, LoOpen: n.ExclusiveMinimum, Hi: math.Inf(1)}})
		if !fits(*m) {
			f = refuseAll
		}
		add("minimum", f, *m)
	}
	if m := n.Maximum; m != nil {
		hi := int64(*m)
		var ints logic.Formula = logic.IntRange{Lo: math.MinInt64, Hi: hi}
		if n.ExclusiveMaximum {
			ints = logic.IntRange{Lo: math.MinInt64, Hi: hi - 1}
			if hi == math.MinInt64 {
				ints = logic.Kinds(logic.AnyKind &^ logic.Int)
			}
		}
		f := logic.Formula(logic.And{ints, logic.FloatRange{Lo: math.Inf(-1), Hi: *m, HiOpen: n.ExclusiveMaximum}})
		if !fits(*m) {
			f = refuseAll
		}
		add("maximum", f, *m)
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
		f := logic.Formula(logic.And{ints, floats})
		if !fits(*m) {
			f = refuseAll
		}
		add("multipleOf", f, *m)
	}
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
