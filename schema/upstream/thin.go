package upstream

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// thinner leaves out of a schema what the API server's validation of CRDs cannot object to, be it in a creation or an
// update, and what has no bearing on the rest: plain parts. A plain part has keywords that are certainly right, no defaults,
// no rules and no junctors, and stands below none. It decides nothing: a CRD that is found wrong without them is looked at as
// a whole.
type thinner struct {
	patterns map[string]bool // whether a pattern compiles
}

// thinCRD returns a copy of crd with thinned schemas, or false where that is not safe: with selectable fields and
// preserveUnknownFields, validation looks at more than one place at a time. crd is not changed, but shared.
func (t *thinner) thinCRD(crd *apiextensionsv1.CustomResourceDefinition, mark string) (*apiextensionsv1.CustomResourceDefinition, bool) {
	if crd.Spec.PreserveUnknownFields {
		return nil, false
	}
	out := *crd
	out.Spec.Versions = slices.Clone(crd.Spec.Versions)
	for i := range out.Spec.Versions {
		v := &out.Spec.Versions[i]
		if len(v.SelectableFields) > 0 {
			return nil, false
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		root := t.root(v.Schema.OpenAPIV3Schema)
		root.Description = ""
		if slices.ContainsFunc(out.Spec.Versions[:i], func(w apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return w.Schema != nil && w.Schema.OpenAPIV3Schema != nil && hasStatus(&w) == hasStatus(v) && equalProps(w.Schema.OpenAPIV3Schema, root)
		}) {
			root = &props{Type: "object"} // what there is to say is said of the other version
		}
		v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root}
	}
	for i := range out.Spec.Versions {
		// Versions that differed must not become equal, nor a schema equal to that of the old CRD: equal ones are let off.
		if v := &out.Spec.Versions[i]; v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			v.Schema.OpenAPIV3Schema.Description = mark + v.Name
		}
	}
	return &out, true
}

func hasStatus(v *apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Status != nil
}

// equalProps tells whether two thinned schemas are the same.
func equalProps(a, b *props) bool { return apiequality.Semantic.DeepEqual(a, b) }

// root thins the schema of a resource.
func (t *thinner) root(in *props) *props {
	out := *in
	if !touchy(in) {
		parts := props{}
		t.children(in, &parts, []string{"metadata", "apiVersion", "kind"})
		out.Properties, out.Items, out.AdditionalProperties = parts.Properties, parts.Items, parts.AdditionalProperties
	}
	return &out
}

// touchy tells whether the parts of a schema have a bearing on its own keywords, or on validation around it. Lists of type
// set and map look at no more than the items' own keywords and the keys.
func touchy(s *props) bool {
	return (s.Default != nil && !plainDefault(s)) || len(s.XValidations) > 0 || s.XEmbeddedResource || len(s.AllOf) > 0 || len(s.AnyOf) > 0 ||
		len(s.OneOf) > 0 || s.Not != nil || unprojectable(s)
}

// visit tells whether the schema in is plain. kept is a copy without plain parts, but with the properties keys; it is nil
// where in is plain, unless always is set.
func (t *thinner) visit(in *props, keys []string, always bool) (plain bool, kept *props) {
	if touchy(in) && !isIntOrString(in) {
		out := *in
		return false, &out
	}
	parts := props{}
	plain = t.children(in, &parts, keys)
	if plain = plain && t.plainKeywords(in) && plainList(in); plain && !always {
		return true, nil
	}
	out := *in
	out.Properties, out.Items, out.AdditionalProperties = parts.Properties, parts.Items, parts.AdditionalProperties
	return plain, &out
}

// children puts the parts of in that are not plain into out, those that keys names as they are, and stubs where one must be.
// It tells whether all are plain.
func (t *thinner) children(in, out *props, keys []string) bool {
	all := true
	if len(in.Properties) > 0 {
		out.Properties = map[string]props{}
		last := ""
		for name := range in.Properties {
			last = name
			child := in.Properties[name]
			plain, kept := t.visit(&child, nil, false)
			all = all && plain
			switch {
			case slices.Contains(keys, name):
				out.Properties[name] = child
			case kept != nil:
				out.Properties[name] = *kept
			}
		}
		if len(out.Properties) == 0 {
			out.Properties[last] = props{Type: "string"}
		}
	}
	if in.Items != nil && in.Items.Schema != nil {
		ordinary := in.XListType == nil || *in.XListType == "atomic"
		plain, kept := t.visit(in.Items.Schema, in.XListMapKeys, !ordinary)
		all = all && plain
		if kept == nil {
			kept = &props{Type: "string"}
		}
		out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: kept}
	}
	if a := in.AdditionalProperties; a != nil {
		others := &apiextensionsv1.JSONSchemaPropsOrBool{Allows: a.Allows}
		if a.Schema != nil {
			plain, kept := t.visit(a.Schema, nil, false)
			all = all && plain
			if kept == nil {
				kept = &props{Type: "string"}
			}
			others.Schema = kept
		}
		out.AdditionalProperties = others
	}
	return all
}

// plainKeywords tells whether the keywords of s itself are certainly right, its parts apart.
func (t *thinner) plainKeywords(s *props) bool {
	if s.UniqueItems || s.Example != nil || s.ExternalDocs != nil || unprojectable(s) ||
		(s.XPreserveUnknownFields != nil && !*s.XPreserveUnknownFields) {
		return false
	}
	switch s.Type {
	case "":
		if !s.XIntOrString && s.XPreserveUnknownFields == nil {
			return false
		}
	case "object", "array", "string", "number", "integer", "boolean":
		if s.XIntOrString {
			return false
		}
	default:
		return false
	}
	if s.XIntOrString && s.XPreserveUnknownFields != nil {
		return false
	}
	if (s.Type == "array") != (s.Items != nil) {
		return false
	}
	if s.Type != "object" && (len(s.Properties) > 0 || s.AdditionalProperties != nil || s.XMapType != nil) {
		return false
	}
	if len(s.Properties) > 0 && s.AdditionalProperties != nil {
		return false
	}
	if s.XMapType != nil && *s.XMapType != "atomic" && *s.XMapType != "granular" {
		return false
	}
	if s.XListType != nil && s.Type != "array" {
		return false
	}
	for _, e := range s.Enum {
		if !json.Valid(e.Raw) {
			return false
		}
	}
	return s.Pattern == "" || t.compiles(s.Pattern)
}

func (t *thinner) compiles(pattern string) bool {
	ok, known := t.patterns[pattern]
	if !known {
		_, err := regexp.Compile(pattern)
		ok = err == nil
		if t.patterns == nil {
			t.patterns = map[string]bool{}
		}
		t.patterns[pattern] = ok
	}
	return ok
}

// plainDefault tells whether the default of s is certainly valid: a scalar of the right type and nothing more to satisfy than
// perhaps an enum.
func plainDefault(s *props) bool {
	if s.Format != "" || s.Pattern != "" || s.MinLength != nil || s.MaxLength != nil || s.Minimum != nil || s.Maximum != nil || s.MultipleOf != nil {
		return false
	}
	raw := s.Default.Raw
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e apiextensionsv1.JSON) bool { return bytes.Equal(e.Raw, raw) }) {
		return false
	}
	var value any
	if utiljson.Unmarshal(raw, &value) != nil {
		return false
	}
	switch value.(type) {
	case string:
		return s.Type == "string"
	case bool:
		return s.Type == "boolean"
	case int64:
		return s.Type == "integer" || s.Type == "number"
	case float64:
		return s.Type == "number"
	default:
		return false
	}
}

// isIntOrString tells whether the only junctor of s is the one that x-kubernetes-int-or-string allows.
func isIntOrString(s *props) bool {
	if !s.XIntOrString || len(s.AnyOf) != 2 {
		return false
	}
	rest := *s
	rest.AnyOf = nil
	return !touchy(&rest) && s.Default == nil && isBareType(&s.AnyOf[0], "integer") && isBareType(&s.AnyOf[1], "string")
}

// isBareType tells whether a branch of a junctor says nothing but a type.
func isBareType(s *props, name string) bool {
	return s.Type == name && s.Format == "" && s.Title == "" && s.Description == "" && s.Pattern == "" && !s.Nullable &&
		s.Maximum == nil && s.Minimum == nil && !s.ExclusiveMaximum && !s.ExclusiveMinimum && s.MultipleOf == nil &&
		s.MaxLength == nil && s.MinLength == nil && s.MaxItems == nil && s.MinItems == nil && !s.UniqueItems &&
		s.MaxProperties == nil && s.MinProperties == nil && s.Required == nil && s.Enum == nil && s.Items == nil &&
		s.Properties == nil && s.AdditionalProperties == nil && s.XPreserveUnknownFields == nil && !s.XIntOrString &&
		s.XMapType == nil && s.XListType == nil && s.XListMapKeys == nil && s.Example == nil && s.ExternalDocs == nil && !touchy(s)
}

// plainList tells whether the keywords about the kind of a list are as they should be.
func plainList(s *props) bool {
	if s.XListType == nil {
		return len(s.XListMapKeys) == 0
	}
	if s.Items == nil || s.Items.Schema == nil {
		return false
	}
	item := s.Items.Schema
	switch *s.XListType {
	case "atomic":
		return len(s.XListMapKeys) == 0
	case "set":
		return len(s.XListMapKeys) == 0 && !item.Nullable && item.Type != "object" && item.Type != "array"
	case "map":
		if len(s.XListMapKeys) == 0 || item.Type != "object" || item.Nullable {
			return false
		}
		for i, key := range s.XListMapKeys {
			p, ok := item.Properties[key]
			if !ok || p.Type == "array" || p.Type == "object" || p.Nullable || slices.Contains(s.XListMapKeys[:i], key) ||
				(p.Default == nil && !slices.Contains(item.Required, key)) {
				return false
			}
		}
		return true
	}
	return false
}
