package upstream

// What does the API server say about an invalid value? The library is asked about the invalid parts alone. For example, if one of a thousand
// items is too long, it sees that item.

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// explainer asks k8s.io/kube-openapi/pkg/validation/validate why a value is not valid, but only for the invalid parts. It implements
// validation.SchemaCreateValidator.
type explainer struct{ node *valueNode }

// Validate implements validation.SchemaCreateValidator.
func (e explainer) Validate(value any, _ ...validation.ValidationOption) *validate.Result {
	result := &validate.Result{}
	e.node.explainInvalid(value, "", result)
	return result
}

// explained is a validator whose result is known. It implements validation.SchemaCreateValidator.
type explained struct{ result *validate.Result }

// Validate implements validation.SchemaCreateValidator.
func (e explained) Validate(any, ...validation.ValidationOption) *validate.Result { return e.result }

// explainInvalid adds to result why v, which stands at path, is not valid.
func (n *valueNode) explainInvalid(v any, path string, result *validate.Result) {
	if n.closed { // the error about fields that are not allowed depends on all fields
		askUpstream(n.spec, v, path, result)
		return
	}
	n.eachInvalidPart(v, path, func(_ any, child *valueNode, part any, at string) { child.explainInvalid(part, at, result) })
	if !n.validOwn(v) {
		n.explainOwn(v, path, result)
	}
}

// explainOwn adds to result why v is not valid, whatever its properties and items are.
func (n *valueNode) explainOwn(v any, path string, result *validate.Result) {
	shallow := *n.spec
	shallow.Properties, shallow.AdditionalProperties, shallow.Items = nil, nil, nil
	askUpstream(&shallow, v, path, result)
}

func askUpstream(schema *spec.Schema, v any, path string, result *validate.Result) {
	result.Merge(validate.NewSchemaValidator(schema, nil, path, strfmt.Default).Validate(v))
}

// eachInvalidPart calls f for each property (key is its name) and item (its index) that is not valid.
func (n *valueNode) eachInvalidPart(v any, path string, f func(key any, child *valueNode, part any, at string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			child := n.partNode(name)
			if child == nil || child.isValid(part) {
				continue
			}
			at := path + "." + name
			if _, declared := n.props[name]; declared && path == "" {
				at = name
			}
			f(name, child, part, at)
		}
	case []any:
		for i, item := range v {
			if n.items != nil && !n.items.isValid(item) {
				f(i, n.items, item, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
}
