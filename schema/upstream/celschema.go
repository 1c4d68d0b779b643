package upstream

// What does CEL know of a schema? For example, it knows metadata.name of every resource. The answers are those of the API server, made once:
// its own code makes the schemas of all properties again whenever it needs one.

import (
	"sync"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiserver/pkg/cel/common"
)

// celSchema is a schema for the API server's CEL code, like model.Structural. It makes the schemas of its parts only once, because that
// code asks for all properties of an object whenever it needs one of them. It is safe for concurrent use.
type celSchema struct {
	model.Structural // the methods that celSchema does not override

	parts    sync.Once
	props    map[string]common.Schema
	items    common.Schema
	others   common.SchemaOrBool
	meta     sync.Once
	withMeta *celSchema
}

var _ common.Schema = (*celSchema)(nil)

func newCELSchema(s *structuralschema.Structural) *celSchema {
	return &celSchema{Structural: model.Structural{Structural: s}}
}

// makeParts makes the schemas of all parts at once, at the first question about any of them.
func (s *celSchema) makeParts() {
	s.parts.Do(func() {
		in := s.Structural.Structural
		if in.Items != nil {
			s.items = newCELSchema(in.Items)
		}
		if in.AdditionalProperties != nil {
			others := &celSchemaOrBool{allows: in.AdditionalProperties.Bool}
			if in.AdditionalProperties.Structural != nil {
				others.schema = newCELSchema(in.AdditionalProperties.Structural)
			}
			s.others = others
		}
		if in.Properties != nil {
			s.props = make(map[string]common.Schema, len(in.Properties))
			for name := range in.Properties {
				p := in.Properties[name]
				s.props[name] = newCELSchema(&p)
			}
		}
	})
}

// Properties implements common.Schema.
func (s *celSchema) Properties() map[string]common.Schema {
	s.makeParts()
	return s.props
}

// Items implements common.Schema.
func (s *celSchema) Items() common.Schema {
	s.makeParts()
	return s.items
}

// AdditionalProperties implements common.Schema.
func (s *celSchema) AdditionalProperties() common.SchemaOrBool {
	s.makeParts()
	return s.others
}

// WithTypeAndObjectMeta implements common.Schema.
func (s *celSchema) WithTypeAndObjectMeta() common.Schema { return s.asResource() }

// asResource is the schema with the fields that CEL knows for every resource.
func (s *celSchema) asResource() *celSchema {
	s.meta.Do(func() {
		in := s.Structural.Structural
		if with := model.WithTypeAndObjectMeta(in); with != in {
			s.withMeta = newCELSchema(with)
		} else {
			s.withMeta = s
		}
	})
	return s.withMeta
}

type celSchemaOrBool struct {
	schema common.Schema
	allows bool
}

// Schema implements common.SchemaOrBool.
func (s *celSchemaOrBool) Schema() common.Schema { return s.schema }

// Allows implements common.SchemaOrBool.
func (s *celSchemaOrBool) Allows() bool { return s.allows }
