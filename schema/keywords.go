package schema

// What does each keyword of a schema do? For example, maximum restricts values, default fills them in, and description does neither.

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Role is the effect of a keyword. It decides what to compare when the keyword changes.
type Role string

// The roles.
const (
	// Text is for people: it changes neither validation nor pruning nor defaulting.
	Text Role = "text"
	// Structure decides which fields exist: their types, and what is pruned.
	Structure Role = "structure"
	// Value restricts values.
	Value Role = "value"
	// Junctor combines other schemas.
	Junctor Role = "junctor"
	// Defaulting fills in values that are left out.
	Defaulting Role = "defaulting"
	// Topology decides how lists and maps are merged, and which items of a list are equal.
	Topology Role = "topology"
	// Forbidden keywords are not allowed in a structural schema. The model does not cover a schema with one.
	Forbidden Role = "forbidden"
)

// Keyword is one field of [apiextensionsv1.JSONSchemaProps] and its treatment. The list is complete: a test walks the fields of
// that type and fails for a field without a row.
type Keyword struct {
	// Field is the Go name of the field, JSON its name in a manifest.
	Field string
	JSON  string
	Role  Role
	// read copies the keyword into the node; nil for texts and for keywords with child schemas.
	read func(*Node, *apiextensionsv1.JSONSchemaProps) error
}

type props = apiextensionsv1.JSONSchemaProps

// Keywords has one row for each field of JSONSchemaProps. docs/containment.md describes how each is decided.
var Keywords = []Keyword{
	{"ID", "id", Forbidden, oddKeyword("id", func(p *props) bool { return p.ID != "" })},
	{"Schema", "$schema", Forbidden, oddKeyword("$schema", func(p *props) bool { return p.Schema != "" })},
	{"Ref", "$ref", Forbidden, oddKeyword("$ref", func(p *props) bool { return p.Ref != nil })},
	{"Description", "description", Text, nil},
	{"Type", "type", Structure, func(n *Node, p *props) error { n.Type = p.Type; return nil }},
	{"Format", "format", Value, func(n *Node, p *props) error { n.Format = p.Format; return nil }},
	{"Title", "title", Text, nil},
	{"Default", "default", Defaulting, readDefault},
	{"Maximum", "maximum", Value, func(n *Node, p *props) error { n.Maximum = p.Maximum; return nil }},
	{"ExclusiveMaximum", "exclusiveMaximum", Value, func(n *Node, p *props) error { n.ExclusiveMaximum = p.ExclusiveMaximum; return nil }},
	{"Minimum", "minimum", Value, func(n *Node, p *props) error { n.Minimum = p.Minimum; return nil }},
	{"ExclusiveMinimum", "exclusiveMinimum", Value, func(n *Node, p *props) error { n.ExclusiveMinimum = p.ExclusiveMinimum; return nil }},
	{"MaxLength", "maxLength", Value, func(n *Node, p *props) error { n.MaxLength = p.MaxLength; return nil }},
	{"MinLength", "minLength", Value, func(n *Node, p *props) error { n.MinLength = p.MinLength; return nil }},
	{"Pattern", "pattern", Value, func(n *Node, p *props) error { n.Pattern = p.Pattern; return nil }},
	{"MaxItems", "maxItems", Value, func(n *Node, p *props) error { n.MaxItems = p.MaxItems; return nil }},
	{"MinItems", "minItems", Value, func(n *Node, p *props) error { n.MinItems = p.MinItems; return nil }},
	{"UniqueItems", "uniqueItems", Value, func(n *Node, p *props) error { n.UniqueItems = p.UniqueItems; return nil }},
	{"MultipleOf", "multipleOf", Value, func(n *Node, p *props) error { n.MultipleOf = p.MultipleOf; return nil }},
	{"Enum", "enum", Value, readEnum},
	{"MaxProperties", "maxProperties", Value, func(n *Node, p *props) error { n.MaxProperties = p.MaxProperties; return nil }},
	{"MinProperties", "minProperties", Value, func(n *Node, p *props) error { n.MinProperties = p.MinProperties; return nil }},
	{"Required", "required", Value, readRequired},
	{"Items", "items", Structure, nil},
	{"AllOf", "allOf", Junctor, nil},
	{"OneOf", "oneOf", Junctor, nil},
	{"AnyOf", "anyOf", Junctor, nil},
	{"Not", "not", Junctor, nil},
	{"Properties", "properties", Structure, nil},
	{"AdditionalProperties", "additionalProperties", Structure, nil},
	{"PatternProperties", "patternProperties", Forbidden, oddKeyword("patternProperties", func(p *props) bool { return len(p.PatternProperties) > 0 })},
	{"Dependencies", "dependencies", Forbidden, oddKeyword("dependencies", func(p *props) bool { return len(p.Dependencies) > 0 })},
	{"AdditionalItems", "additionalItems", Forbidden, oddKeyword("additionalItems", func(p *props) bool { return p.AdditionalItems != nil })},
	{"Definitions", "definitions", Forbidden, oddKeyword("definitions", func(p *props) bool { return len(p.Definitions) > 0 })},
	{"ExternalDocs", "externalDocs", Text, nil},
	{"Example", "example", Text, nil},
	{"Nullable", "nullable", Structure, func(n *Node, p *props) error { n.Nullable = p.Nullable; return nil }},
	{"XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Structure, readPreserve},
	{"XEmbeddedResource", "x-kubernetes-embedded-resource", Structure, func(n *Node, p *props) error { n.Embedded = p.XEmbeddedResource; return nil }},
	{"XIntOrString", "x-kubernetes-int-or-string", Structure, func(n *Node, p *props) error { n.IntOrString = p.XIntOrString; return nil }},
	{"XListMapKeys", "x-kubernetes-list-map-keys", Topology, func(n *Node, p *props) error { n.ListMapKeys = slices.Clone(p.XListMapKeys); return nil }},
	{"XListType", "x-kubernetes-list-type", Topology, readListType},
	{"XMapType", "x-kubernetes-map-type", Topology, readMapType},
	{"XValidations", "x-kubernetes-validations", Value, func(n *Node, p *props) error { n.Rules = slices.Clone(p.XValidations); return nil }},
}

// oddKeyword returns the reader of a keyword that no structural schema has. It notes the name only; [Node.readOdd]
// puts the contents into the hash.
func oddKeyword(name string, has func(*props) bool) func(*Node, *props) error {
	return func(n *Node, p *props) error {
		if has(p) {
			n.Odd = append(n.Odd, name)
		}
		return nil
	}
}

// readDefault decodes the default. A default of null counts as none, as it does in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.
func readDefault(n *Node, p *props) error {
	if p.Default == nil {
		return nil
	}
	v, err := decodeValue(p.Default.Raw)
	if err != nil {
		return err
	}
	n.Default, n.HasDefault = v, v != nil
	return nil
}

// readEnum decodes the values of the enum, in their order. The error names the index of a value that is no JSON.
func readEnum(n *Node, p *props) error {
	for i, e := range p.Enum {
		v, err := decodeValue(e.Raw)
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		n.Enum = append(n.Enum, v)
	}
	return nil
}

// readRequired sorts the names and drops repetitions, which change nothing: the order must not count for the hash.
func readRequired(n *Node, p *props) error {
	n.Required = slices.Compact(slices.Sorted(slices.Values(p.Required)))
	return nil
}

// readPreserve reads x-kubernetes-preserve-unknown-fields. The API server takes no CRD with the value false, so that
// value is odd.
func readPreserve(n *Node, p *props) error {
	if p.XPreserveUnknownFields != nil {
		n.PreserveUnknown = *p.XPreserveUnknownFields
		if !n.PreserveUnknown {
			n.Odd = append(n.Odd, "x-kubernetes-preserve-unknown-fields: false")
		}
	}
	return nil
}

// readListType reads x-kubernetes-list-type; an absent one stays empty and means atomic.
func readListType(n *Node, p *props) error {
	if p.XListType != nil {
		n.ListType = *p.XListType
	}
	return nil
}

// readMapType reads x-kubernetes-map-type; an absent one stays empty and means granular.
func readMapType(n *Node, p *props) error {
	if p.XMapType != nil {
		n.MapType = *p.XMapType
	}
	return nil
}
