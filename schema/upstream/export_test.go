package upstream

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// NewExact is New for a validator that asks the API server's code for everything.
func NewExact(props *props, o Options) (*Validator, error) {
	v, err := New(props, o)
	if v != nil {
		v = v.Exact()
	}
	return v, err
}

// Project returns the schema without the parts that cannot influence the verdict on the given objects. For requests made of these
// objects, a [Validator] of the result gives the same results as one of the whole schema, in a time that depends on the objects.
// Project leaves out texts for people, properties that none of the objects has at that place and no default fills in, and validation
// rules at places that none of the objects has. It always keeps properties that a rule at that place or above mentions by name.
//
// The result shares parts with the schema: change neither. It may not be a valid schema of a CRD: an empty rule at the root stands for
// rules that were left out. The projection of nil is nil. That of a schema that is too deep for [New] is the schema itself. For many
// projections of one schema, a [Projector] is faster.
func Project(schema *apiextensionsv1.JSONSchemaProps, objects ...map[string]any) *apiextensionsv1.JSONSchemaProps {
	if checkSchema(schema, 0) != nil || schema == nil {
		return schema
	}
	out, ok := projectSchema(schema, objects)
	if !ok {
		return schema
	}
	if len(out.XValidations) == 0 && hasRules(schema, schema, true) {
		// If a schema has rules, the API server adds to other errors that rules were not checked. An empty rule keeps that message. It needs
		// a place with a CEL type.
		if declaredKind(out) != declaresObject {
			return schema
		}
		out.XValidations = apiextensionsv1.ValidationRules{{}}
	}
	return out
}
