package contain

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// withoutValues returns a copy of the schema without the keywords that restrict values, except types, formats and rules.
func withoutValues(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if p == nil {
		return nil
	}
	out := &apiextensionsv1.JSONSchemaProps{
		Type: p.Type, Format: p.Format, Nullable: p.Nullable, Default: p.Default,
		XPreserveUnknownFields: p.XPreserveUnknownFields, XEmbeddedResource: p.XEmbeddedResource, XIntOrString: p.XIntOrString,
		XListMapKeys: p.XListMapKeys, XListType: p.XListType, XMapType: p.XMapType, XValidations: p.XValidations,
	}
	if p.Properties != nil {
		out.Properties = make(map[string]apiextensionsv1.JSONSchemaProps, len(p.Properties))
		for name, c := range p.Properties {
			out.Properties[name] = *withoutValues(&c)
		}
	}
	if a := p.AdditionalProperties; a != nil {
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: a.Allows, Schema: withoutValues(a.Schema)}
	}
	if p.Items != nil && p.Items.Schema != nil {
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: withoutValues(p.Items.Schema)}
	}
	return out
}

// withoutRules returns a copy of the schema without its validation rules.
func withoutRules(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if p == nil {
		return nil
	}
	out := *p
	out.XValidations = nil
	if p.Properties != nil {
		out.Properties = make(map[string]apiextensionsv1.JSONSchemaProps, len(p.Properties))
		for name, c := range p.Properties {
			out.Properties[name] = *withoutRules(&c)
		}
	}
	if a := p.AdditionalProperties; a != nil {
		out.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: a.Allows, Schema: withoutRules(a.Schema)}
	}
	if p.Items != nil && p.Items.Schema != nil {
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: withoutRules(p.Items.Schema)}
	}
	return &out
}

// withoutDemands is withoutValues without the defaults.
func withoutDemands(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return withoutDefaults(withoutValues(p))
}

func withoutDefaults(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if p == nil {
		return nil
	}
	p.Default = nil // p is a copy
	for name, c := range p.Properties {
		p.Properties[name] = *withoutDefaults(&c)
	}
	if a := p.AdditionalProperties; a != nil {
		withoutDefaults(a.Schema)
	}
	if p.Items != nil {
		withoutDefaults(p.Items.Schema)
	}
	return p
}
