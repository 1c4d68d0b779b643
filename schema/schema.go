// Package schema holds an immutable, normalised form of the OpenAPI v3 schema of a CustomResourceDefinition. Every subtree has a
// hash, so that equal parts need no comparison.
//
// It promises that two nodes with the same [Node.Hash] accept, prune and default the same values. Neither the node nor the hash
// includes texts for people (description, title, example, external documentation) or the messages of validation rules. The package
// does not decide whether a schema is valid. It holds schemas that today's API server would refuse (non-structural ones, for
// example) as they are.
package schema

import (
	"errors"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Limits of [New].
const (
	// MaxDepth is the maximal nesting depth of a schema.
	MaxDepth = 1000
	// MaxNodes is the maximal number of nodes of a schema.
	MaxNodes = 2_000_000
)

// ErrTooLarge is the error of [New] for a schema beyond [MaxDepth] or [MaxNodes].
var ErrTooLarge = errors.New("schema is too large")

// Node is one schema. All fields are read-only after [New].
type Node struct {
	// Type is object, array, string, integer, number, boolean, or empty.
	Type        string
	Nullable    bool
	IntOrString bool
	// PreserveUnknown is x-kubernetes-preserve-unknown-fields.
	PreserveUnknown bool
	// Embedded is x-kubernetes-embedded-resource.
	Embedded bool

	// Default is the decoded default; it counts only if HasDefault is true. A default of null counts as none, as upstream
	// (k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting).
	Default    any
	HasDefault bool

	// Enum holds decoded values; nil if there is no enum.
	Enum      []any
	Format    string
	Pattern   string
	MinLength *int64
	MaxLength *int64

	Minimum          *float64
	Maximum          *float64
	ExclusiveMinimum bool
	ExclusiveMaximum bool
	MultipleOf       *float64

	Items       *Node
	MinItems    *int64
	MaxItems    *int64
	UniqueItems bool

	// Properties are in the order of their names.
	Properties []Property
	// Additional is additionalProperties if it is a schema.
	Additional *Node
	// AdditionalBool is additionalProperties if it is true or false; nil if it is absent or a schema.
	AdditionalBool *bool
	Required       []string // sorted, without duplicates
	MinProperties  *int64
	MaxProperties  *int64

	AllOf []*Node
	AnyOf []*Node
	OneOf []*Node
	Not   *Node

	// ListType is atomic, set, map, or empty; MapType is granular, atomic, or empty.
	ListType    string
	ListMapKeys []string
	MapType     string

	Rules []Rule

	// Odd names the keywords of this node that no valid CRD can have: id, $schema, $ref, patternProperties, dependencies,
	// definitions, additionalItems, an items list, x-kubernetes-preserve-unknown-fields: false. The model does not cover their
	// meaning.
	Odd []string

	odd   []byte // the contents of Odd, for the hash
	hash  Hash
	index map[string]*Node // by name, if there are many Properties
}

// Property is a named child of an object.
type Property struct {
	Name string
	Node *Node
}

// Rule is one entry of x-kubernetes-validations.
type Rule = apiextensionsv1.ValidationRule

// Hash identifies the meaning of a schema.
type Hash [16]byte

// Hash returns the hash of the subtree.
func (n *Node) Hash() Hash {
	if n == nil {
		return Hash{}
	}
	return n.hash
}

// Property returns the schema declared for the property name, or nil.
func (n *Node) Property(name string) *Node {
	if n == nil {
		return nil
	}
	if n.index != nil {
		return n.index[name]
	}
	i, ok := slices.BinarySearchFunc(n.Properties, name, func(p Property, s string) int { return strings.Compare(p.Name, s) })
	if !ok {
		return nil
	}
	return n.Properties[i].Node
}

// IsRequired reports whether required lists name.
func (n *Node) IsRequired(name string) bool {
	_, ok := slices.BinarySearch(n.Required, name)
	return ok
}

// decodeValue reads a JSON value as the API server does: numbers without fraction that fit are int64, others float64
// (k8s.io/apimachinery/pkg/util/json).
func decodeValue(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if s, ok := simpleString(raw); ok {
		return s, nil
	}
	var v any
	if err := utiljson.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// simpleString decodes a JSON string of printable ASCII without escapes: most enum values are such.
func simpleString(raw []byte) (string, bool) {
	n := len(raw)
	if n < 2 || raw[0] != '"' || raw[n-1] != '"' {
		return "", false
	}
	for _, c := range raw[1 : n-1] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(raw[1 : n-1]), true
}
