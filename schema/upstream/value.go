package upstream

// Is a value valid? For example, 5 is for {type: integer, maximum: 5}. The answer is that of the library, without the validators that it makes
// for each value; why a value is not valid, the library says itself.
//
// The tree is made once for a schema, from the one that the library gets. It has to agree with the library in every
// oversight, too: see formatHidesType and validEnum.

import (
	"reflect"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/go-openapi/swag/conv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// valueNode decides whether a value is valid, exactly as k8s.io/kube-openapi/pkg/validation/validate does. It gives no reasons, and
// does not build a tree of validators for every value. It is made from the same schema as the library's validator. A differential fuzz
// test (FuzzFast) compares the two.
type valueNode struct {
	*spec.Schema

	// checked is true if strings are checked against the format.
	checked bool
	re      *regexp.Regexp // nil with a pattern: the pattern does not compile, and no string matches

	numberType, numberFormat string
	boundsOutOfRange         bool // a bound or a divisor is outside of the type's range: no number is valid

	strings map[string]struct{} // the enum, where it is all strings

	items               *valueNode
	props               map[string]*valueNode
	additional          *valueNode
	closed              bool // additionalProperties: false
	allOf, anyOf, oneOf []*valueNode
	not                 *valueNode
}

// newValueNode makes the node of a schema. It returns nil for a schema with keywords that are not modelled.
func newValueNode(s *spec.Schema) *valueNode {
	if s.Ref.String() != "" || s.AdditionalItems != nil || len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 ||
		(s.Items != nil && (s.Items.Schema == nil || len(s.Items.Schemas) > 0)) {
		return nil
	}
	n := &valueNode{Schema: s, checked: strfmt.Default.ContainsName(s.Format)}
	if s.Pattern != "" {
		if re, err := regexp.Compile(s.Pattern); err == nil {
			n.re = re
		}
	}
	n.setNumber()
	n.setEnum()
	if !n.setParts(s) {
		return nil
	}
	return n
}

// setParts makes the nodes below n. It returns false if one has a keyword that is not modelled.
func (n *valueNode) setParts(s *spec.Schema) bool {
	ok := true
	child := func(s *spec.Schema) *valueNode {
		c := newValueNode(s)
		ok = ok && c != nil
		return c
	}
	children := func(list []spec.Schema) []*valueNode {
		var out []*valueNode
		for i := range list {
			out = append(out, child(&list[i]))
		}
		return out
	}
	if s.Items != nil {
		n.items = child(s.Items.Schema)
	}
	if len(s.Properties) > 0 {
		n.props = make(map[string]*valueNode, len(s.Properties))
		for name := range s.Properties {
			p := s.Properties[name]
			n.props[name] = child(&p)
		}
	}
	if a := s.AdditionalProperties; a != nil {
		n.closed = !a.Allows
		if a.Allows && a.Schema != nil {
			n.additional = child(a.Schema)
		}
	}
	n.allOf, n.anyOf, n.oneOf = children(s.AllOf), children(s.AnyOf), children(s.OneOf)
	if s.Not != nil {
		n.not = child(s.Not)
	}
	return ok
}

// setNumber is SchemaValidator.numberValidator.
func (n *valueNode) setNumber() {
	if len(n.Type) == 1 {
		switch n.Type[0] {
		case "integer":
			n.numberType = "integer"
			if n.Format == "int32" || n.Format == "int64" {
				n.numberFormat = n.Format
			}
		case "number":
			n.numberType = "number"
			if n.Format == "float" || n.Format == "double" {
				n.numberFormat = n.Format
			}
		}
	}
	inRange := func(v *float64) bool {
		return v == nil || validate.IsValueValidAgainstRange(*v, n.numberType, n.numberFormat, "", "") == nil
	}
	n.boundsOutOfRange = !inRange(n.Minimum) || !inRange(n.Maximum) || !inRange(n.MultipleOf)
}

// setEnum makes a set of an enum that is all strings. A string then needs one look, however long the enum is. Any
// other enum is compared value by value, because the library converts values.
func (n *valueNode) setEnum() {
	if len(n.Enum) == 0 {
		return
	}
	set := make(map[string]struct{}, len(n.Enum))
	for _, e := range n.Enum {
		s, ok := e.(string)
		if !ok {
			return
		}
		set[s] = struct{}{}
	}
	n.strings = set
}

// isValid reports whether v is valid.
func (n *valueNode) isValid(v any) bool { return n.validParts(v) && n.validOwn(v) }

// validOwn reports whether v is valid, whatever its properties and items are.
func (n *valueNode) validOwn(v any) bool {
	if v == nil {
		return (len(n.Type) == 0 || n.Nullable || slices.Contains(n.Type, "null")) && len(n.Enum) == 0
	}
	if !n.validType(v) || !n.validEnum(v) {
		return false
	}
	ok := true
	switch v := v.(type) {
	case string:
		ok = n.validString(v)
	case int64:
		ok = n.validInteger(v)
	case float64:
		ok = n.validFloat(v)
	case []any:
		ok = n.validSize(v)
	case map[string]any:
		ok = n.validShape(v)
	}
	return ok && n.validJunctors(v)
}

// validParts reports whether the properties and items of v are valid.
func (n *valueNode) validParts(v any) bool {
	switch v := v.(type) {
	case []any:
		if n.items != nil {
			for _, item := range v {
				if !n.items.isValid(item) {
					return false
				}
			}
		}
	case map[string]any:
		for name, part := range v {
			if child := n.partNode(name); child != nil && !child.isValid(part) {
				return false
			}
		}
	}
	return true
}

// partNode is the node of a property, nil if the schema does not mention it.
func (n *valueNode) partNode(name string) *valueNode {
	if child, ok := n.props[name]; ok {
		return child
	}
	return n.additional
}

// validType is typeValidator.Validate.
func (n *valueNode) validType(v any) bool {
	if len(n.Type) == 0 && n.Format == "" {
		return true
	}
	switch v := v.(type) {
	case string:
		return n.formatHidesType() || n.hasType("string")
	case []any:
		return n.formatHidesType() || n.hasType("array")
	case map[string]any:
		return n.hasType("object")
	case bool:
		return n.hasType("boolean")
	case int64:
		return n.hasType("integer") || n.hasType("number")
	case float64:
		return n.hasType("number") || (n.hasType("integer") && conv.IsFloat64AJSONInteger(v))
	}
	return false
}

func (n *valueNode) hasType(name string) bool { return slices.Contains(n.Type, name) }

// formatHidesType reports whether the library, by an oversight, takes strings and lists of any type, because there is a format.
func (n *valueNode) formatHidesType() bool {
	return n.Format != "" && !n.hasType("number") && !n.hasType("integer")
}

// validEnum is basicCommonValidator.Validate: a value that Go can convert to an enum value counts as that value.
func (n *valueNode) validEnum(v any) bool {
	if len(n.Enum) == 0 {
		return true
	}
	if s, ok := v.(string); ok && n.strings != nil {
		_, found := n.strings[s]
		return found
	}
	value := reflect.ValueOf(v)
	for _, e := range n.Enum {
		if e == nil {
			continue
		}
		t := reflect.TypeOf(e)
		if value.Type().ConvertibleTo(t) && reflect.DeepEqual(value.Convert(t).Interface(), e) {
			return true
		}
	}
	return false
}

// validString checks length, pattern and format. The length counts code points, as utf8.RuneCount does.
func (n *valueNode) validString(s string) bool {
	if n.MaxLength != nil || n.MinLength != nil {
		length := int64(utf8.RuneCountInString(s))
		if (n.MaxLength != nil && length > *n.MaxLength) || (n.MinLength != nil && length < *n.MinLength) {
			return false
		}
	}
	if n.Pattern != "" && (n.re == nil || !n.re.MatchString(s)) {
		return false
	}
	return !n.checked || strfmt.Default.Validates(n.Format, s)
}

// validInteger checks an int64: the range of int32 or of a float format, then the bounds.
func (n *valueNode) validInteger(i int64) bool {
	if n.numberFormat != "" && n.numberFormat != "int64" && n.numberFormat != "double" &&
		validate.IsValueValidAgainstRange(i, n.numberType, n.numberFormat, "", "") != nil {
		return false
	}
	return n.validNumber(i, float64(i))
}

// validFloat checks a float64. Of the type integer, its shortest decimal text has to be an integer within the range
// of the format; of the format float, it has to fit a float32.
func (n *valueNode) validFloat(f float64) bool {
	if (n.numberType == "integer" || n.numberFormat == "float") &&
		validate.IsValueValidAgainstRange(f, n.numberType, n.numberFormat, "", "") != nil {
		return false
	}
	return n.validNumber(f, f)
}

// validNumber is the rest of numberValidator.Validate.
func (n *valueNode) validNumber(v any, f float64) bool {
	if n.boundsOutOfRange {
		return false
	}
	if n.MultipleOf != nil && validate.MultipleOfNativeType("", "", v, *n.MultipleOf) != nil {
		return false
	}
	if i, ok := v.(int64); ok {
		return n.withinBounds(i)
	}
	if n.Maximum != nil && (f > *n.Maximum || (n.ExclusiveMaximum && f >= *n.Maximum)) {
		return false
	}
	return n.Minimum == nil || (f >= *n.Minimum && (!n.ExclusiveMinimum || f > *n.Minimum))
}

// withinBounds compares an integer with the bounds, converted to integers.
func (n *valueNode) withinBounds(i int64) bool {
	if n.Maximum != nil {
		if m := int64(*n.Maximum); i > m || (n.ExclusiveMaximum && i == m) {
			return false
		}
	}
	if n.Minimum != nil {
		if m := int64(*n.Minimum); i < m || (n.ExclusiveMinimum && i == m) {
			return false
		}
	}
	return true
}

// validSize reports whether a list is valid apart from its items.
func (n *valueNode) validSize(l []any) bool {
	size := int64(len(l))
	if (n.MinItems != nil && size < *n.MinItems) || (n.MaxItems != nil && size > *n.MaxItems) {
		return false
	}
	return !n.UniqueItems || validate.UniqueItems("", "", l) == nil
}

// validShape reports whether an object is valid apart from the values of its properties.
func (n *valueNode) validShape(o map[string]any) bool {
	size := int64(len(o))
	if (n.MinProperties != nil && size < *n.MinProperties) || (n.MaxProperties != nil && size > *n.MaxProperties) {
		return false
	}
	for _, name := range n.Required {
		if _, ok := o[name]; !ok {
			return false
		}
	}
	if n.closed {
		for name := range o {
			if _, ok := n.props[name]; !ok {
				return false
			}
		}
	}
	return true
}

// validJunctors is schemaPropsValidator.Validate.
func (n *valueNode) validJunctors(v any) bool {
	for _, c := range n.allOf {
		if !c.isValid(v) {
			return false
		}
	}
	if len(n.anyOf) > 0 && !slices.ContainsFunc(n.anyOf, func(c *valueNode) bool { return c.isValid(v) }) {
		return false
	}
	if len(n.oneOf) > 0 {
		count := 0
		for _, c := range n.oneOf {
			if c.isValid(v) {
				count++
			}
		}
		if count != 1 {
			return false
		}
	}
	return n.not == nil || !n.not.isValid(v)
}
