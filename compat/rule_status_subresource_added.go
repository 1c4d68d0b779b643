package compat

import "sluice.dev/report"

// statusSubresourceAdded reports versions whose objects could have a status before
// (customResourceStrategy.PrepareForCreate and PrepareForUpdate drop it in ordinary requests from now on,
// k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go).
var statusSubresourceAdded = Rule{
	ID:    "status-subresource-added",
	Level: report.ClientsBroken,
	Title: "A status subresource was added to an object with a status",
	Why: `With the subresource, the API server silently ignores .status in ordinary requests. A controller that writes its status with an ` +
		`ordinary update gets no error, but the status does not change. A status in a manifest is dropped too. The controller has to write to ` +
		`/status, and needs the right to do so.

The rule looks only at versions whose objects could have a status before: their old schema declares one, or keeps unknown fields.`,
	Help: `Release a controller that writes to /status, with RBAC for it, before you add the subresource or together with it. Leave the ` +
		`subresource out until then. Afterwards suppress the finding with that reason.`,
	Unsafe: Example{
		Old: exampleVersions(storedVersion("v1", schemaWithPhase)),
		New: exampleVersions(storedVersion("v1", schemaWithPhase, exampleField("subresources", "status: {}"))),
	},
	Instead: exampleVersions(storedVersion("v1", schemaWithPhase)),
	whole: inServedVersions(func(p pair) (out []report.Finding) {
		if hasStatus(p.from) || !hasStatus(p.to) || p.from.props == nil {
			return nil
		}
		if holdsStatus(p.from.props) {
			out = append(out, report.Finding{
				Version: p.to.Name, Path: ".status", SchemaPath: p.to.documentTokens("subresources", "status"),
				Message: "a status subresource was added: the API server now ignores .status in ordinary requests",
			})
		}
		return out
	}),
}

// schemaWithPhase is the schema of the example, before and after the change.
var schemaWithPhase = exampleSchema(exampleObject("status", exampleField("phase", "type: string")))

// holdsStatus reports whether objects of the schema can have a status: it is declared, or kept as an unknown field.
func holdsStatus(p *props) bool {
	_, declared := p.Properties["status"]
	return declared || p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
}
