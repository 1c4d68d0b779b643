// Package schema holds an immutable, normalised form of the OpenAPI v3 schema of a CustomResourceDefinition. Every subtree has a
// hash, so that equal parts need no comparison.
//
// It promises that two nodes with the same [Node.Hash] accept, prune and default the same values. Neither the node nor the hash
// includes texts for people (description, title, example, external documentation) or the messages of validation rules. The package
// does not decide whether a schema is valid. It holds schemas that today's API server would refuse (non-structural ones, for
// example) as they are.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
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
type Rule struct {
	Rule              string
	Message           string
	MessageExpression string
	Reason            string
	FieldPath         string
	OptionalOldSelf   *bool
}

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

// New builds the node of a schema. nil means no schema: the result is an empty node that keeps unknown fields, as the API server
// treats a version without a schema. The error is [ErrTooLarge], or names a JSON value that could not be decoded, and its place.
func New(props *apiextensionsv1.JSONSchemaProps) (*Node, error) {
	if props == nil {
		n := &Node{PreserveUnknown: true}
		n.hash = n.computeHash()
		return n, nil
	}
	return (&builder{}).buildNode(props, 0)
}

// badValue says which JSON value could not be decoded. The path is put together only on the way out, so that schemas without
// such a value take no time for their paths.
type badValue struct {
	path string
	err  error
}

// Error implements error.
func (e *badValue) Error() string { return e.path + ": " + e.err.Error() }

// Unwrap returns what is wrong with the value.
func (e *badValue) Unwrap() error { return e.err }

// prependStep adds a step to the front of the path of err.
func prependStep(step string, err error) error {
	if bad, ok := errors.AsType[*badValue](err); ok {
		bad.path = step + bad.path
	}
	return err
}

type builder struct {
	nodes int
}

func (b *builder) buildNode(p *apiextensionsv1.JSONSchemaProps, depth int) (*Node, error) {
	if b.nodes++; b.nodes > MaxNodes {
		return nil, fmt.Errorf("%w: more than %d schema nodes", ErrTooLarge, MaxNodes)
	}
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: more than %d levels deep", ErrTooLarge, MaxDepth)
	}
	n := &Node{}
	for i := range Keywords {
		if k := &Keywords[i]; k.read != nil {
			if err := k.read(n, p); err != nil {
				return nil, &badValue{"." + k.JSON, err}
			}
		}
	}
	if err := b.buildChildren(n, p, depth+1); err != nil {
		return nil, err
	}
	if len(n.Odd) > 0 {
		if err := n.readOdd(p); err != nil {
			return nil, &badValue{"", err}
		}
	}
	n.hash = n.computeHash()
	return n, nil
}

// readOdd records the odd keywords and their contents.
func (n *Node) readOdd(p *apiextensionsv1.JSONSchemaProps) error {
	only := apiextensionsv1.JSONSchemaProps{
		ID: p.ID, Schema: p.Schema, Ref: p.Ref, PatternProperties: p.PatternProperties, Dependencies: p.Dependencies,
		AdditionalItems: p.AdditionalItems, Definitions: p.Definitions,
	}
	if p.Items != nil && p.Items.Schema == nil {
		only.Items = p.Items
	}
	var err error
	n.odd, err = json.Marshal(only)
	return err
}

// buildChildren builds the nodes below n, which are depth levels deep.
func (b *builder) buildChildren(n *Node, p *apiextensionsv1.JSONSchemaProps, depth int) error {
	err := b.buildProperties(n, p.Properties, depth)
	if err != nil {
		return err
	}
	if ap := p.AdditionalProperties; ap != nil {
		if ap.Schema != nil {
			if n.Additional, err = b.buildNode(ap.Schema, depth); err != nil {
				return prependStep(".additionalProperties", err)
			}
		} else {
			allows := ap.Allows
			n.AdditionalBool = &allows
		}
	}
	if p.Items != nil {
		switch {
		case p.Items.Schema != nil:
			if n.Items, err = b.buildNode(p.Items.Schema, depth); err != nil {
				return prependStep(".items", err)
			}
		case len(p.Items.JSONSchemas) > 0:
			n.Odd = append(n.Odd, "items")
		}
	}
	if n.AllOf, err = b.buildList(p.AllOf, ".allOf", depth); err != nil {
		return err
	}
	if n.AnyOf, err = b.buildList(p.AnyOf, ".anyOf", depth); err != nil {
		return err
	}
	if n.OneOf, err = b.buildList(p.OneOf, ".oneOf", depth); err != nil {
		return err
	}
	if p.Not != nil {
		if n.Not, err = b.buildNode(p.Not, depth); err != nil {
			return prependStep(".not", err)
		}
	}
	return nil
}

func (b *builder) buildProperties(n *Node, properties map[string]apiextensionsv1.JSONSchemaProps, depth int) error {
	if len(properties) == 0 {
		return nil
	}
	n.Properties = make([]Property, 0, len(properties))
	var sub apiextensionsv1.JSONSchemaProps // one for all: a schema is large, and not kept
	for name := range properties {
		sub = properties[name]
		child, err := b.buildNode(&sub, depth)
		if err != nil {
			return prependStep(".properties["+name+"]", err)
		}
		n.Properties = append(n.Properties, Property{name, child})
	}
	slices.SortFunc(n.Properties, func(x, y Property) int { return strings.Compare(x.Name, y.Name) })
	if len(n.Properties) > 16 {
		n.index = make(map[string]*Node, len(n.Properties))
		for _, c := range n.Properties {
			n.index[c.Name] = c.Node
		}
	}
	return nil
}

func (b *builder) buildList(ps []apiextensionsv1.JSONSchemaProps, keyword string, depth int) ([]*Node, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	ns := make([]*Node, len(ps))
	for i := range ps {
		n, err := b.buildNode(&ps[i], depth)
		if err != nil {
			return nil, prependStep(fmt.Sprintf("%s[%d]", keyword, i), err)
		}
		ns[i] = n
	}
	return ns, nil
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
