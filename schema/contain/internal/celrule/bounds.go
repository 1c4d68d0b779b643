package celrule

// Does a comparison with one constant show another comparison of the same term? For example, duration(self.d) <= duration('1h') implies
// duration(self.d) <= duration('2h'), whatever self.d is.

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/operators"
	"k8s.io/apimachinery/pkg/api/resource"
)

// plainQuantity are quantities that upstream's code reads in no time: others have exponents.
var plainQuantity = regexp.MustCompile(`\A[+-]?[0-9]{1,18}(?:[.][0-9]{1,9})?(?:[numkMGTPE]|[KMGTPE]i)?\z`)

// maxConstant bounds the length of a text that upstream's code reads.
const maxConstant = 64

// constantOf returns the constant that an expression is in all objects: an int64, float64, string, time.Duration, time.Time or
// resource.Quantity; nil if its form does not show one.
func constantOf(e *expr) any {
	if e.kind == literal {
		switch e.val.(type) {
		case int64, float64, string:
			return e.val
		}
		return nil
	}
	if e.kind != call || e.member || len(e.args) != 1 || e.args[0].kind != literal {
		return nil
	}
	s, ok := e.args[0].val.(string)
	if !ok || len(s) > maxConstant {
		return nil
	}
	switch e.name {
	case "duration":
		if d, err := time.ParseDuration(s); err == nil {
			return d
		}
	case "timestamp":
		if at, err := time.Parse(time.RFC3339, s); err == nil {
			return at
		}
	case "quantity":
		if plainQuantity.MatchString(s) {
			if q, err := resource.ParseQuantity(s); err == nil {
				return q
			}
		}
	}
	return nil
}

// isNumber reports whether a constant is an int or a double. nil, which stands for no constant, is none.
func isNumber(constant any) bool {
	switch constant.(type) {
	case int64, float64:
		return true
	}
	return false
}

// writeSum writes a term that is compared with a number: then the two operands of a sum are numbers, and may change places.
func (p *printer) writeSum(e *expr) string {
	if e.kind != call || e.name != operators.Add || len(e.args) != 2 {
		return p.writeValue(e)
	}
	operands := []string{p.writeValue(e.args[0]), p.writeValue(e.args[1])}
	slices.Sort(operands)
	return strings.Join(operands, " + ")
}

// compareConstants compares two constants of one type: negative if a is less. Those of different types have no order here.
func compareConstants(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case float64:
		return compareAs(a, b, cmp.Compare)
	case int64:
		return compareAs(a, b, cmp.Compare)
	case string:
		return compareAs(a, b, cmp.Compare)
	case time.Duration:
		return compareAs(a, b, cmp.Compare)
	case time.Time:
		return compareAs(a, b, time.Time.Compare)
	case resource.Quantity:
		return compareAs(a, b, func(x, y resource.Quantity) int { return x.Cmp(y) })
	}
	return 0, false
}

// compareAs compares a with b if b is of the same type; not ok if it is not.
func compareAs[T any](a T, b any, compare func(a, b T) int) (order int, ok bool) {
	c, ok := b.(T)
	if !ok {
		return 0, false
	}
	return compare(a, c), true
}

// impliesBound reports whether a comparison with a constant shows that another comparison of the same term is true.
func (a atom) impliesBound(b atom) bool {
	if a.op != "<" && a.op != "<=" || b.op != "<" && b.op != "<=" {
		return false
	}
	holds := func(order int, ok bool) bool { return ok && (order < 0 || order == 0 && (a.op == "<" || b.op == "<=")) }
	return a.a == b.a && holds(compareConstants(a.right, b.right)) || a.b == b.b && holds(compareConstants(b.left, a.left))
}
