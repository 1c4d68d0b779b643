package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// How is the node of a schema made? Each keyword is read by its row in keywords.go, and the schemas below become nodes first. For example, the
// error of a default that is no JSON says at which property it stands.
//
// A schema comes from strangers, so the depth and the number of nodes are bounded, and no path is put together unless
// there is an error.

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

// prependStep adds a step to the front of the path of err, on the way from the value to the root. Other errors, such
// as [ErrTooLarge], have no path and stay as they are.
func prependStep(step string, err error) error {
	if bad, ok := errors.AsType[*badValue](err); ok {
		bad.path = step + bad.path
	}
	return err
}

type builder struct {
	nodes int
}

// buildNode builds the node of one schema and of all below it; depth is the number of levels above. The hash comes
// last, because it depends on the children. The error is [ErrTooLarge], or a badValue whose path begins at this
// schema.
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

// buildProperties builds the nodes of the properties and sorts them by name, so that the order in a manifest never
// matters. A node of many properties gets an index, because [Node.Property] is asked for each name of each object.
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

// buildList builds the branches of a junctor. The keyword, such as .allOf, is for the path of an error; an empty list
// stays nil.
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
