package input

import (
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schemaMapper turns trees into JSONSchemaProps, and gives what the API server's own decoding of the same JSON gives
// (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/marshal.go and sigs.k8s.io/json). It exists because nearly
// all of a CRD is schema, and because it knows where a value of the wrong type stands. A test fills every field of
// JSONSchemaProps and fails when Kubernetes adds one that is missing here.
//
// The first value of a wrong type stops it; unknown fields are collected.
type schemaMapper struct {
	t *tree
	// bad is the node of the wrong type, and want what it should have been; empty while there is none.
	bad  int32
	want string
	// unknown are the nodes of fields that do not exist.
	unknown []int32
}

func (m *schemaMapper) fail(n int32, want string) {
	if m.want == "" {
		m.bad, m.want = n, want
	}
}

// err is the first wrong value as an error, nil where there is none; root is where its path begins.
func (m *schemaMapper) err(root int32) error {
	if m.want == "" {
		return nil
	}
	nd := m.t.nodes[m.bad]
	got := nd.kind.words()
	if nd.kind == kindNumber {
		got = "the number " + nd.str
	}
	return &valueError{node: m.bad, msg: fmt.Sprintf("%s must be %s, not %s", m.t.path(root, m.bad), m.want, got)}
}

// schema decodes n into s. Null leaves s as it is, here and in the methods below, except where they say otherwise.
func (m *schemaMapper) schema(n int32, s *apiextensionsv1.JSONSchemaProps) {
	m.fields(n, "an object (a schema)", func(c int32) bool {
		return m.value(c, s) || m.constraint(c, s) || m.composite(c, s) || m.extension(c, s)
	})
}

// value decodes the keywords that describe one value. It returns false where c is another field, as do the next three.
func (m *schemaMapper) value(c int32, s *apiextensionsv1.JSONSchemaProps) bool {
	switch m.t.nodes[c].key {
	case "id":
		m.text(c, &s.ID)
	case "$schema":
		m.text(c, (*string)(&s.Schema))
	case "$ref":
		s.Ref = m.textPointer(c)
	case "description":
		m.text(c, &s.Description)
	case "type":
		m.text(c, &s.Type)
	case "format":
		m.text(c, &s.Format)
	case "title":
		m.text(c, &s.Title)
	case "default":
		s.Default = m.json(c)
	case "example":
		s.Example = m.json(c)
	case "nullable":
		m.boolean(c, &s.Nullable)
	case "enum":
		s.Enum = list(m, c, func(c int32, v *apiextensionsv1.JSON) {
			if j := m.json(c); j != nil {
				*v = *j
			}
		})
	case "externalDocs":
		s.ExternalDocs = m.docs(c)
	default:
		return false
	}
	return true
}

// constraint decodes the keywords that bound a value.
func (m *schemaMapper) constraint(c int32, s *apiextensionsv1.JSONSchemaProps) bool {
	switch m.t.nodes[c].key {
	case "maximum":
		s.Maximum = m.float(c)
	case "exclusiveMaximum":
		m.boolean(c, &s.ExclusiveMaximum)
	case "minimum":
		s.Minimum = m.float(c)
	case "exclusiveMinimum":
		m.boolean(c, &s.ExclusiveMinimum)
	case "multipleOf":
		s.MultipleOf = m.float(c)
	case "maxLength":
		s.MaxLength = m.integer(c)
	case "minLength":
		s.MinLength = m.integer(c)
	case "pattern":
		m.text(c, &s.Pattern)
	case "maxItems":
		s.MaxItems = m.integer(c)
	case "minItems":
		s.MinItems = m.integer(c)
	case "uniqueItems":
		m.boolean(c, &s.UniqueItems)
	case "maxProperties":
		s.MaxProperties = m.integer(c)
	case "minProperties":
		s.MinProperties = m.integer(c)
	case "required":
		s.Required = list(m, c, m.text)
	default:
		return false
	}
	return true
}

// composite decodes the keywords that hold other schemas.
func (m *schemaMapper) composite(c int32, s *apiextensionsv1.JSONSchemaProps) bool {
	switch m.t.nodes[c].key {
	case "properties":
		s.Properties = object(m, c, m.schema)
	case "additionalProperties":
		s.AdditionalProperties = m.orBool(c)
	case "items":
		s.Items = m.orArray(c)
	case "allOf":
		s.AllOf = list(m, c, m.schema)
	case "oneOf":
		s.OneOf = list(m, c, m.schema)
	case "anyOf":
		s.AnyOf = list(m, c, m.schema)
	case "not":
		if m.t.nodes[c].kind != kindNull {
			s.Not = &apiextensionsv1.JSONSchemaProps{}
			m.schema(c, s.Not)
		}
	case "patternProperties":
		s.PatternProperties = object(m, c, m.schema)
	case "dependencies":
		s.Dependencies = object(m, c, m.orStrings)
	case "additionalItems":
		s.AdditionalItems = m.orBool(c)
	case "definitions":
		s.Definitions = object(m, c, m.schema)
	default:
		return false
	}
	return true
}

// extension decodes the keywords of Kubernetes.
func (m *schemaMapper) extension(c int32, s *apiextensionsv1.JSONSchemaProps) bool {
	switch m.t.nodes[c].key {
	case "x-kubernetes-preserve-unknown-fields":
		s.XPreserveUnknownFields = m.booleanPointer(c)
	case "x-kubernetes-embedded-resource":
		m.boolean(c, &s.XEmbeddedResource)
	case "x-kubernetes-int-or-string":
		m.boolean(c, &s.XIntOrString)
	case "x-kubernetes-list-map-keys":
		s.XListMapKeys = list(m, c, m.text)
	case "x-kubernetes-list-type":
		s.XListType = m.textPointer(c)
	case "x-kubernetes-map-type":
		s.XMapType = m.textPointer(c)
	case "x-kubernetes-validations":
		s.XValidations = list(m, c, m.rule)
	default:
		return false
	}
	return true
}

func (m *schemaMapper) rule(n int32, r *apiextensionsv1.ValidationRule) {
	m.fields(n, "an object (a validation rule)", func(c int32) bool {
		switch m.t.nodes[c].key {
		case "rule":
			m.text(c, &r.Rule)
		case "message":
			m.text(c, &r.Message)
		case "messageExpression":
			m.text(c, &r.MessageExpression)
		case "reason":
			r.Reason = (*apiextensionsv1.FieldValueErrorReason)(m.textPointer(c))
		case "fieldPath":
			m.text(c, &r.FieldPath)
		case "optionalOldSelf":
			r.OptionalOldSelf = m.booleanPointer(c)
		default:
			return false
		}
		return true
	})
}

func (m *schemaMapper) docs(n int32) *apiextensionsv1.ExternalDocumentation {
	if m.t.nodes[n].kind == kindNull {
		return nil
	}
	d := &apiextensionsv1.ExternalDocumentation{}
	m.fields(n, "an object", func(c int32) bool {
		switch m.t.nodes[c].key {
		case "description":
			m.text(c, &d.Description)
		case "url":
			m.text(c, &d.URL)
		default:
			return false
		}
		return true
	})
	return d
}

// fields calls known with every field of the object n; where it returns false the field is unknown.
func (m *schemaMapper) fields(n int32, want string, known func(c int32) bool) {
	if !m.holds(n, want, kindMap, kindMap) {
		return
	}
	for c := m.t.nodes[n].first; c != none && m.want == ""; c = m.t.nodes[c].next {
		if !known(c) {
			m.unknown = append(m.unknown, c)
		}
	}
}

// holds is true where n is of one of the two kinds. It is false for null, and for all else, which fails.
func (m *schemaMapper) holds(n int32, want string, a, b kind) bool {
	k := m.t.nodes[n].kind
	if k == a || k == b {
		return true
	}
	if k != kindNull {
		m.fail(n, want)
	}
	return false
}

// orBool decodes additionalProperties and additionalItems; nil for null.
func (m *schemaMapper) orBool(n int32) *apiextensionsv1.JSONSchemaPropsOrBool {
	switch m.t.nodes[n].kind {
	case kindNull:
		return nil
	case kindTrue:
		return &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}
	case kindFalse:
		return &apiextensionsv1.JSONSchemaPropsOrBool{}
	case kindMap:
		s := &apiextensionsv1.JSONSchemaProps{}
		m.schema(n, s)
		return &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: s}
	case kindNumber, kindString, kindList:
	}
	m.fail(n, "a boolean or an object (a schema)")
	return nil
}

// orArray decodes items. Values that are neither an object nor a list are taken for an empty one, as upstream does.
func (m *schemaMapper) orArray(n int32) *apiextensionsv1.JSONSchemaPropsOrArray {
	s := &apiextensionsv1.JSONSchemaPropsOrArray{}
	switch m.t.nodes[n].kind {
	case kindNull:
		return nil
	case kindMap:
		s.Schema = &apiextensionsv1.JSONSchemaProps{}
		m.schema(n, s.Schema)
	case kindList:
		s.JSONSchemas = list(m, n, m.schema)
	case kindFalse, kindTrue, kindNumber, kindString:
	}
	return s
}

// orStrings decodes one of dependencies, with the same tolerance.
func (m *schemaMapper) orStrings(n int32, s *apiextensionsv1.JSONSchemaPropsOrStringArray) {
	switch m.t.nodes[n].kind {
	case kindMap:
		s.Schema = &apiextensionsv1.JSONSchemaProps{}
		m.schema(n, s.Schema)
	case kindList:
		s.Property = list(m, n, m.text)
	case kindNull, kindFalse, kindTrue, kindNumber, kindString:
	}
}

// list decodes a list; nil for null, empty but not nil for [].
func list[T any](m *schemaMapper, n int32, item func(int32, *T)) []T {
	if !m.holds(n, "a list", kindList, kindList) {
		return nil
	}
	out := make([]T, m.t.nodes[n].count)
	i := 0
	for c := m.t.nodes[n].first; c != none && m.want == ""; c = m.t.nodes[c].next {
		item(c, &out[i])
		i++
	}
	return out
}

// object decodes an object; nil for null, empty but not nil for {}.
func object[T any](m *schemaMapper, n int32, value func(int32, *T)) map[string]T {
	if !m.holds(n, "an object", kindMap, kindMap) {
		return nil
	}
	out := make(map[string]T, m.t.nodes[n].count)
	var zero T
	v := new(T)
	for c := m.t.nodes[n].first; c != none && m.want == ""; c = m.t.nodes[c].next {
		*v = zero
		value(c, v)
		out[m.t.nodes[c].key] = *v
	}
	return out
}

func (m *schemaMapper) text(n int32, s *string) {
	if m.holds(n, "a string", kindString, kindString) {
		*s = m.t.nodes[n].str
	}
}

func (m *schemaMapper) textPointer(n int32) *string {
	if m.t.nodes[n].kind == kindNull {
		return nil
	}
	s := new(string)
	m.text(n, s)
	return s
}

func (m *schemaMapper) boolean(n int32, b *bool) {
	if m.holds(n, "a boolean", kindTrue, kindFalse) {
		*b = m.t.nodes[n].kind == kindTrue
	}
}

func (m *schemaMapper) booleanPointer(n int32) *bool {
	if m.t.nodes[n].kind == kindNull {
		return nil
	}
	b := new(bool)
	m.boolean(n, b)
	return b
}

func (m *schemaMapper) float(n int32) *float64 {
	if !m.holds(n, "a number", kindNumber, kindNumber) {
		return nil
	}
	f, err := strconv.ParseFloat(m.t.nodes[n].str, 64)
	if err != nil {
		m.fail(n, "a number that fits in 64 bits")
	}
	return &f
}

func (m *schemaMapper) integer(n int32) *int64 {
	if !m.holds(n, "an integer", kindNumber, kindNumber) {
		return nil
	}
	i, err := strconv.ParseInt(m.t.nodes[n].str, 10, 64)
	if err != nil {
		m.fail(n, "an integer that fits in 64 bits")
	}
	return &i
}

// json keeps n as compact JSON with sorted keys; nil for null.
func (m *schemaMapper) json(n int32) *apiextensionsv1.JSON {
	if m.t.nodes[n].kind == kindNull {
		return nil
	}
	r := renderer{t: m.t}
	r.value(n)
	return &apiextensionsv1.JSON{Raw: r.out}
}
