package upstream

// Has a schema rules that the API server evaluates? For example, rules of a property without a type are not, because CEL has no type for its
// values.

import (
	apiservercel "k8s.io/apiserver/pkg/cel"

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

// hasRules reports whether the API server compiles rules for the schema s (NewValidator in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel). Rules only inside of junctors do not count, nor do those of properties
// without a CEL type. typed is the schema whose CEL type stands for s, nil if there is none; resource reports whether that is the root
// of a resource.
func hasRules(s, typed *props, resource bool) bool {
	if s == nil {
		return false
	}
	if len(s.XValidations) > 0 {
		return true
	}
	if s.Items != nil && hasRules(s.Items.Schema, elementSchema(typed), s.Items.Schema != nil && s.Items.Schema.XEmbeddedResource) {
		return true
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil &&
		hasRules(s.AdditionalProperties.Schema, elementSchema(typed), s.AdditionalProperties.Schema.XEmbeddedResource) {
		return true
	}
	for name := range s.Properties {
		child := s.Properties[name]
		var childType *props
		if _, ok := apiservercel.Escape(name); ok {
			childType = propertySchema(typed, name, resource)
		} else if declaredKind(&child) != declaresNothing {
			childType = &child
		}
		if childType != nil && hasRules(&child, childType, child.XEmbeddedResource) {
			return true
		}
	}
	return false
}

// elementSchema is the schema of the elements of a list or map type, nil for any other.
func elementSchema(typed *props) *props {
	kind := declaredKind(typed)
	if kind == declaresList {
		return typed.Items.Schema
	}
	if kind == declaresMap {
		return typed.AdditionalProperties.Schema
	}
	return nil
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
