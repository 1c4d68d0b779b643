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

// constant is a value that an expression has in all objects. Constants of one type have an order; those of different types have none here.
type constant struct {
	number   *float64
	integer  *int64
	text     *string
	length   *time.Duration
	at       *time.Time
	quantity *resource.Quantity
}

// plainQuantity are quantities that upstream's code reads in no time: others have exponents.
var plainQuantity = regexp.MustCompile(`\A[+-]?[0-9]{1,18}(?:[.][0-9]{1,9})?(?:[numkMGTPE]|[KMGTPE]i)?\z`)

// maxConstant bounds the length of a text that upstream's code reads.
const maxConstant = 64

// constantOf returns the constant that an expression is; nil if its form does not show one.
func constantOf(e *expr) *constant {
	if e.kind == literal {
		switch v := e.val.(type) {
		case int64:
			return &constant{integer: &v}
		case float64:
			return &constant{number: &v}
		case string:
			return &constant{text: &v}
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
			return &constant{length: &d}
		}
	case "timestamp":
		if at, err := time.Parse(time.RFC3339, s); err == nil {
			return &constant{at: &at}
		}
	case "quantity":
		if plainQuantity.MatchString(s) {
			if q, err := resource.ParseQuantity(s); err == nil {
				return &constant{quantity: &q}
			}
		}
	}
	return nil
}

func (c *constant) isNumber() bool { return c != nil && (c.number != nil || c.integer != nil) }

// writeSum writes a term that is compared with a number: then the two operands of a sum are numbers, and may change places.
func (p *printer) writeSum(e *expr) string {
	if e.kind != call || e.name != operators.Add || len(e.args) != 2 {
		return p.writeValue(e)
	}
	operands := []string{p.writeValue(e.args[0]), p.writeValue(e.args[1])}
	slices.Sort(operands)
	return strings.Join(operands, " + ")
}

// compareConstant compares two constants of one type: negative if c is less.
func (c *constant) compareConstant(d *constant) (order int, ok bool) {
	switch {
	case c == nil || d == nil:
		return 0, false
	case c.number != nil && d.number != nil:
		return cmp.Compare(*c.number, *d.number), true
	case c.integer != nil && d.integer != nil:
		return cmp.Compare(*c.integer, *d.integer), true
	case c.text != nil && d.text != nil:
		return strings.Compare(*c.text, *d.text), true
	case c.length != nil && d.length != nil:
		return cmp.Compare(*c.length, *d.length), true
	case c.at != nil && d.at != nil:
		return c.at.Compare(*d.at), true
	case c.quantity != nil && d.quantity != nil:
		return c.quantity.Cmp(*d.quantity), true
	}
	return 0, false
}

// impliesBound reports whether a comparison with a constant shows that another comparison of the same term is true.
func (a atom) impliesBound(b atom) bool {
	if a.op != "<" && a.op != "<=" || b.op != "<" && b.op != "<=" {
		return false
	}
	holds := func(order int, ok bool) bool { return ok && (order < 0 || order == 0 && (a.op == "<" || b.op == "<=")) }
	return a.a == b.a && holds(a.right.compareConstant(b.right)) || a.b == b.b && holds(b.left.compareConstant(a.left))
}
