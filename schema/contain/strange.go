package contain

// Has a schema a keyword that no structural schema has? Nothing is proven about such a schema. For example, it may have $ref.

import (
	"strings"

	"sluice.dev/schema"
)

// nonStructuralKeyword returns the keyword of one of the schemas that no structural schema can have. Nothing is proven about such a schema:
// upstream's code reads no structure from it, and neither prunes nor fills in defaults.
func nonStructuralKeyword(old, new *schema.Node) string {
	for _, side := range []struct {
		name string
		node *schema.Node
	}{{"old", old}, {"new", new}} {
		if odd := oddBelow(side.node); len(odd) > 0 {
			return "the " + side.name + " schema is not structural: it has " + strings.Join(odd, ", ")
		}
	}
	return ""
}

// oddBelow returns the odd keywords of the first node that has any.
func oddBelow(n *schema.Node) []string {
	if n == nil {
		return nil
	}
	if len(n.Odd) > 0 {
		return n.Odd
	}
	for _, c := range n.Properties {
		if odd := oddBelow(c.Node); odd != nil {
			return odd
		}
	}
	for _, group := range [][]*schema.Node{{n.Items, n.Additional, n.Not}, n.AllOf, n.AnyOf, n.OneOf} {
		for _, c := range group {
			if odd := oddBelow(c); odd != nil {
				return odd
			}
		}
	}
	return nil
}
