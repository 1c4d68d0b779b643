package compat

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
)

// selectableFieldRemoved compares the paths of spec.versions[*].selectableFields (KEP-4358). API servers that do not
// have the feature ignore them, so that nothing is reported for these.
var selectableFieldRemoved = Rule{
	ID:    "selectable-field-removed",
	Level: report.ClientsBroken,
	Title: "A selectable field was removed",
	Why: `If a client lists or watches with a field selector on that field, the API server answers with an error. A controller that watches ` +
		`with such a selector stops.`,
	Help: `Keep the selectable field as long as clients may select by it.`,
	Unsafe: Example{Old: exampleVersions(
		storedVersion("v1", `selectableFields:
- jsonPath: .spec.color`, specSchema(exampleField("color", "type: string"))),
	), New: exampleVersions(storedVersion("v1", specSchema(exampleField("color", "type: string"))))},
	Instead: exampleVersions(
		storedVersion("v1", `selectableFields:
- jsonPath: .spec.color`, specSchema(exampleField("color", "type: string"))),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		if !upstream.HasSelectableFields(c.opts.KubeVersion) {
			return nil
		}
		for _, p := range c.servedPairs() {
			out = append(out, namesGone(jsonPaths(p.from.SelectableFields), jsonPaths(p.to.SelectableFields), func(path string) report.Finding {
				return report.Finding{
					Version: p.to.Name, Path: path, Before: path, Message: "field " + path + " is no longer selectable",
					SchemaPath: p.from.documentTokens("selectableFields"), InOld: true,
				}
			})...)
		}
		return out
	},
}

func jsonPaths(fields []apiextensionsv1.SelectableField) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.JSONPath
	}
	return out
}
