package celrule

// What does it mean that two values of a schema are equal in CEL? For example, two objects that differ in a null only may be equal, so that
// equality says less about a nullable property.

import (
	"slices"

	apiservercel "k8s.io/apiserver/pkg/cel"

	"sluice.dev/schema"
)

// comparedByParts reports whether CEL compares values of the node part by part, as their JSON is, and accepts is true of the node and of all
// nodes below. depth is 0 for the node itself.
func comparedByParts(n *schema.Node, depth int, accepts func(n *schema.Node, depth int) bool) bool {
	if n == nil || n.IntOrString || n.PreserveUnknown || n.Embedded || depth > schema.MaxDepth || !accepts(n, depth) {
		return false
	}
	switch n.Type {
	case "boolean", "integer": // CEL takes no integer that is a float
		return true
	case "string":
		return celTypeOfFormat(n) == ""
	case "array": // a set or a map is compared without the order
		return (n.ListType == "" || n.ListType == "atomic") && comparedByParts(n.Items, depth+1, accepts)
	case "object":
		if isMap(n) {
			return comparedByParts(n.Additional, depth+1, accepts)
		}
		return !slices.ContainsFunc(n.Properties, func(p schema.Property) bool {
			return !sameInCEL(p.Name) || !comparedByParts(p.Node, depth+1, accepts)
		})
	}
	return false
}

// sameInCEL reports whether a property is found in CEL by its own name.
func sameInCEL(name string) bool {
	s, ok := apiservercel.Unescape(name)
	return ok && s == name
}

// rawEqual tells whether two values of the node are equal in CEL exactly where they are deeply equal, without an error
// (integers are an error where they are floats without fraction, which is said elsewhere for an integer by itself).
func rawEqual(n *schema.Node) bool {
	return n.Type == "integer" && !n.IntOrString || comparedByParts(n, 0, func(n *schema.Node, depth int) bool {
		return !n.Nullable && n.Type != "integer" && (depth == 0 || !n.HasDefault) &&
			(n.Type != "object" || isMap(n) || len(n.Properties) > 0 && n.Additional == nil)
	})
}

// equalsItself reports whether every value of the node that is not null equals itself in CEL, without an error.
func equalsItself(n *schema.Node) bool {
	return comparedByParts(n, 0, func(n *schema.Node, depth int) bool { return n.AdditionalBool == nil && (depth == 0 || !n.Nullable) })
}

// sameWhereEqual reports whether values of the node that are equal in CEL are deeply equal.
func sameWhereEqual(n *schema.Node) bool {
	return comparedByParts(n, 0, func(n *schema.Node, _ int) bool {
		return !n.Nullable && !n.HasDefault && (n.Type != "object" || isMap(n) || ToldApart(n))
	})
}

// ToldApart reports whether objects of the node with properties that are equal in CEL have the same properties, and these are equal. That
// is false if one may be null, which counts as a property and equals a missing one, or if CEL does not know its name
// (unstructuredMap.Equal in k8s.io/apiserver/pkg/cel/common).
func ToldApart(n *schema.Node) bool {
	return n.Type == "object" && !n.Nullable && !n.IntOrString && !n.PreserveUnknown && !n.Embedded && !n.HasDefault &&
		n.Additional == nil && n.AdditionalBool == nil &&
		!slices.ContainsFunc(n.Properties, func(p schema.Property) bool { return p.Node.Nullable || !sameInCEL(p.Name) })
}
