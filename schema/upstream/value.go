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
	spec     *spec.Schema
	types    []string
	nullable bool
	format   string
	// checked is true if strings are checked against the format.
	checked bool

	minLength, maxLength *int64
	pattern              string
	re                   *regexp.Regexp // nil with a pattern: the pattern does not compile, and no string matches

	number               bool // whether any of the following applies
	numberType           string
	numberFormat         string
	minimum, maximum     *float64
	exclusiveMin         bool
	exclusiveMax         bool
	multipleOf           *float64
	boundsOutOfRange     bool // a bound is outside of the type's range: no number is valid
	multipleOfOutOfRange bool

	enum    []any
	strings map[string]struct{} // the enum, where it is all strings

	items              *valueNode
	minItems, maxItems *int64
	unique             bool

	props               map[string]*valueNode
	additional          *valueNode
	closed              bool // additionalProperties: false
	required            []string
	minProps, maxProps  *int64
	allOf, anyOf, oneOf []*valueNode
	not                 *valueNode
}

// newValueNode makes the node of a schema. It returns nil for a schema with keywords that are not modelled.
func newValueNode(s *spec.Schema) *valueNode {
	if s.Ref.String() != "" || s.AdditionalItems != nil || len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 ||
		(s.Items != nil && (s.Items.Schema == nil || len(s.Items.Schemas) > 0)) {
		return nil
	}
	n := &valueNode{
		spec: s, types: s.Type, nullable: s.Nullable, format: s.Format, checked: strfmt.Default.ContainsName(s.Format),
		minLength: s.MinLength, maxLength: s.MaxLength, pattern: s.Pattern,
		minimum: s.Minimum, maximum: s.Maximum, exclusiveMin: s.ExclusiveMinimum, exclusiveMax: s.ExclusiveMaximum, multipleOf: s.MultipleOf,
		enum:     s.Enum,
		minItems: s.MinItems, maxItems: s.MaxItems, unique: s.UniqueItems,
		required: s.Required, minProps: s.MinProperties, maxProps: s.MaxProperties,
	}
	if s.Pattern != "" {
		if re, err := regexp.Compile(s.Pattern); err == nil {
			n.re = re
		}
	}
	n.setNumber(s)
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
func (n *valueNode) setNumber(s *spec.Schema) {
	if len(s.Type) == 1 {
		switch s.Type[0] {
		case "integer":
			n.numberType = "integer"
			if s.Format == "int32" || s.Format == "int64" {
				n.numberFormat = s.Format
			}
		case "number":
			n.numberType = "number"
			if s.Format == "float" || s.Format == "double" {
				n.numberFormat = s.Format
			}
		}
	}
	inRange := func(v *float64) bool {
		return v == nil || validate.IsValueValidAgainstRange(*v, n.numberType, n.numberFormat, "", "") == nil
	}
	n.boundsOutOfRange = !inRange(n.minimum) || !inRange(n.maximum)
	n.multipleOfOutOfRange = !inRange(n.multipleOf)
	n.number = n.minimum != nil || n.maximum != nil || n.multipleOf != nil
}

// setEnum makes a set of an enum that is all strings. A string then needs one look, however long the enum is. Any
// other enum is compared value by value, because the library converts values.
func (n *valueNode) setEnum() {
	if len(n.enum) == 0 {
		return
	}
	set := make(map[string]struct{}, len(n.enum))
	for _, e := range n.enum {
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
		return (len(n.types) == 0 || n.nullable || slices.Contains(n.types, "null")) && len(n.enum) == 0
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
	if len(n.types) == 0 && n.format == "" {
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

func (n *valueNode) hasType(name string) bool { return slices.Contains(n.types, name) }

// formatHidesType reports whether the library, by an oversight, takes strings and lists of any type, because there is a format.
func (n *valueNode) formatHidesType() bool {
	return n.format != "" && !n.hasType("number") && !n.hasType("integer")
}

// validEnum is basicCommonValidator.Validate: a value that Go can convert to an enum value counts as that value.
func (n *valueNode) validEnum(v any) bool {
	if len(n.enum) == 0 {
		return true
	}
	if s, ok := v.(string); ok && n.strings != nil {
		_, found := n.strings[s]
		return found
	}
	value := reflect.ValueOf(v)
	for _, e := range n.enum {
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
	if n.maxLength != nil || n.minLength != nil {
		length := int64(utf8.RuneCountInString(s))
		if (n.maxLength != nil && length > *n.maxLength) || (n.minLength != nil && length < *n.minLength) {
			return false
		}
	}
	if n.pattern != "" && (n.re == nil || !n.re.MatchString(s)) {
		return false
	}
	return !n.checked || strfmt.Default.Validates(n.format, s)
}

// validInteger checks an int64: the range of int32 or of a float format, then the bounds.
func (n *valueNode) validInteger(i int64) bool {
	if n.numberFormat != "" && n.numberFormat != "int64" && n.numberFormat != "double" &&
		validate.IsValueValidAgainstRange(i, n.numberType, n.numberFormat, "", "") != nil {
		return false
	}
	return !n.number || n.validNumber(i, float64(i))
}

// validFloat checks a float64. Of the type integer, its shortest decimal text has to be an integer within the range
// of the format; of the format float, it has to fit a float32.
func (n *valueNode) validFloat(f float64) bool {
	if (n.numberType == "integer" || n.numberFormat == "float") &&
		validate.IsValueValidAgainstRange(f, n.numberType, n.numberFormat, "", "") != nil {
		return false
	}
	return !n.number || n.validNumber(f, f)
}

// validNumber is the rest of numberValidator.Validate.
func (n *valueNode) validNumber(v any, f float64) bool {
	if n.boundsOutOfRange || n.multipleOfOutOfRange {
		return false
	}
	if n.multipleOf != nil && validate.MultipleOfNativeType("", "", v, *n.multipleOf) != nil {
		return false
	}
	if i, ok := v.(int64); ok {
		return n.withinBounds(i)
	}
	if n.maximum != nil && (f > *n.maximum || (n.exclusiveMax && f >= *n.maximum)) {
		return false
	}
	return n.minimum == nil || (f >= *n.minimum && (!n.exclusiveMin || f > *n.minimum))
}

// withinBounds compares an integer with the bounds, converted to integers.
func (n *valueNode) withinBounds(i int64) bool {
	if n.maximum != nil {
		if m := int64(*n.maximum); i > m || (n.exclusiveMax && i == m) {
			return false
		}
	}
	if n.minimum != nil {
		if m := int64(*n.minimum); i < m || (n.exclusiveMin && i == m) {
			return false
		}
	}
	return true
}

// validSize reports whether a list is valid apart from its items.
func (n *valueNode) validSize(l []any) bool {
	size := int64(len(l))
	if (n.minItems != nil && size < *n.minItems) || (n.maxItems != nil && size > *n.maxItems) {
		return false
	}
	return !n.unique || validate.UniqueItems("", "", l) == nil
}

// validShape reports whether an object is valid apart from the values of its properties.
func (n *valueNode) validShape(o map[string]any) bool {
	size := int64(len(o))
	if (n.minProps != nil && size < *n.minProps) || (n.maxProps != nil && size > *n.maxProps) {
		return false
	}
	for _, name := range n.required {
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
