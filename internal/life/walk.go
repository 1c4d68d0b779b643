package life

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/feature"
)

// walk visits a schema and all schemas in it, parents first, in a fixed order. Changes by visit are kept. Schemas below allOf, anyOf,
// oneOf and not are about the same value, and have its path. If visit returns false, walk goes no deeper.
func walk(s *apiextensionsv1.JSONSchemaProps, path feature.Path, visit func(feature.Path, *apiextensionsv1.JSONSchemaProps) bool) {
	if s == nil || !visit(path, s) {
		return
	}
	below := func(step feature.Step) feature.Path { return append(slices.Clip(path), step) }
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		walk(&p, below(feature.Step{Name: name}), visit)
		s.Properties[name] = p
	}
	if s.Items != nil {
		walk(s.Items.Schema, below(feature.Step{Kind: feature.Items}), visit)
	}
	if s.AdditionalProperties != nil {
		walk(s.AdditionalProperties.Schema, below(feature.Step{Kind: feature.Entries}), visit)
	}
	for _, list := range [][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			walk(&list[i], path, visit)
		}
	}
	walk(s.Not, path, visit)
}
