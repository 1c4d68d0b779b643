package life

// How is every schema within a CRD reached? One walk serves descriptions, tags and the law.

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/feature"
)

// walkSchema visits a schema and all schemas in it, parents first, in a fixed order. Changes by visit are kept. Schemas below allOf, anyOf,
// oneOf and not are about the same value, and have its path. If visit returns false, walk goes no deeper.
func walkSchema(s *apiextensionsv1.JSONSchemaProps, path feature.Path, visit func(feature.Path, *apiextensionsv1.JSONSchemaProps) bool) {
	if s == nil || !visit(path, s) {
		return
	}
	below := func(step feature.Step) feature.Path { return append(slices.Clip(path), step) }
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		walkSchema(&p, below(feature.Step{Name: name}), visit)
		s.Properties[name] = p
	}
	if s.Items != nil {
		walkSchema(s.Items.Schema, below(feature.Step{Kind: feature.Items}), visit)
	}
	if s.AdditionalProperties != nil {
		walkSchema(s.AdditionalProperties.Schema, below(feature.Step{Kind: feature.Entries}), visit)
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			walkSchema(&list[i], path, visit)
		}
	}
	walkSchema(s.Not, path, visit)
}
