package contain

// What does a schema say without some of its keywords? For example, a schema without its rules tells which objects the rules alone refuse.

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// withoutValues returns a copy of the schema without the keywords that restrict values, except types, formats and rules.
func withoutValues(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return schema.Rewrite(p, schema.InStructure, dropValues)
}

// dropValues keeps of a schema what decides the types of values, their pruning, their defaults and the rules. It
// leaves out bounds, enums, required, patterns and junctors. An items list has no structure, and goes.
func dropValues(p *apiextensionsv1.JSONSchemaProps) {
	items := p.Items
	if items != nil && items.Schema == nil {
		items = nil
	}
	*p = apiextensionsv1.JSONSchemaProps{
		Type: p.Type, Format: p.Format, Nullable: p.Nullable, Default: p.Default,
		XPreserveUnknownFields: p.XPreserveUnknownFields, XEmbeddedResource: p.XEmbeddedResource, XIntOrString: p.XIntOrString,
		XListMapKeys: p.XListMapKeys, XListType: p.XListType, XMapType: p.XMapType, XValidations: p.XValidations,
		Properties: p.Properties, AdditionalProperties: p.AdditionalProperties, Items: items,
	}
}

// withoutDemands is withoutValues without the defaults.
func withoutDemands(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return schema.Rewrite(p, schema.InStructure, func(p *apiextensionsv1.JSONSchemaProps) {
		dropValues(p)
		p.Default = nil
	})
}

// withoutRules returns a copy of the schema without its validation rules.
func withoutRules(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return schema.Rewrite(p, schema.InStructure, func(p *apiextensionsv1.JSONSchemaProps) { p.XValidations = nil })
}
