package upstream

// Has a schema rules that the API server evaluates? For example, rules of a property without a type are not, because CEL has no type for its
// values.

import (
	"sluice.dev/schema"
)

// declared is what kind of CEL type stands for a schema (SchemaDeclType in k8s.io/apiserver/pkg/cel/common).
type declared int

const (
	declaresNothing declared = iota
	declaresScalar
	declaresList
	declaresMap
	declaresObject
)

// declaredKind follows SchemaDeclType step by step.
func declaredKind(s *props) declared {
	switch {
	case s == nil:
		return declaresNothing
	case s.XIntOrString:
		return declaresScalar
	}
	switch s.Type {
	case "array":
		if s.Items != nil && declaredKind(s.Items.Schema) != declaresNothing {
			return declaresList
		}
	case "object":
		if s.AdditionalProperties == nil || s.AdditionalProperties.Schema == nil {
			return declaresObject
		}
		if declaredKind(s.AdditionalProperties.Schema) != declaresNothing {
			return declaresMap
		}
	case "string", "boolean", "number", "integer":
		return declaresScalar
	}
	return declaresNothing
}

// propertySchema is the schema of a field of an object type, nil where CEL does not know the field. In a resource, CEL always
// knows kind, apiVersion and the name.
func propertySchema(typed *props, name string, resource bool) *props {
	if declaredKind(typed) != declaresObject {
		return nil
	}
	if resource && isMetaField(name) && !knowsMetadata(typed) {
		if name != "metadata" {
			return &props{Type: "string"}
		}
		return &props{Type: "object", Properties: map[string]props{"name": {Type: "string"}, "generateName": {Type: "string"}}}
	}
	child, ok := typed.Properties[name]
	if !ok || declaredKind(&child) == declaresNothing {
		return nil
	}
	return &child
}

// knowsMetadata reports whether a resource's schema declares all fields that CEL would add (model.WithTypeAndObjectMeta).
func knowsMetadata(s *props) bool {
	meta := s.Properties["metadata"]
	return s.Properties["kind"].Type == "string" && s.Properties["apiVersion"].Type == "string" && meta.Type == "object" &&
		meta.Properties["name"].Type == "string" && meta.Properties["generateName"].Type == "string"
}

// rulesInJunctors reports whether there are rules in the junctors of a schema.
func rulesInJunctors(s *props) bool {
	for branch := range schema.Children(s, schema.InJunctors) {
		for p := range schema.Walk(branch, schema.InStructure|schema.InJunctors|schema.InItemLists) {
			if len(p.XValidations) > 0 {
				return true
			}
		}
	}
	return false
}
