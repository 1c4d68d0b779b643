package compat

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
	"sluice.dev/schema/upstream"
)

// crdRefusedByAPIServer quotes the validation of the API server (ValidateCustomResourceDefinition and
// ValidateCustomResourceDefinitionUpdate in k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation). It is
// the first rule, because nothing else matters while the new CRD cannot be installed.
var crdRefusedByAPIServer = Rule{
	ID:    "crd-refused-by-api-server",
	Level: report.RefusedByAPIServer,
	Title: "The API server's own validation refuses the new CRD",
	Why: `The API server validates every CustomResourceDefinition that it receives. Schemas have to be structural. A default has to ` +
		`be valid under the schema of its own field. Validation rules have to compile and must not cost too much. If the API server ` +
		`refuses an update, nothing changes in the cluster, but the installer or the operator upgrade that sends it stops, often ` +
		`halfway.

The finding quotes the API server's words. They come from the same code: Sluice runs it on both versions as if the old one were ` +
		`installed. There are four exceptions:

- You check for another Kubernetes version. The words are still those of the linked code, and the finding says so. Cost limits are ` +
		`undecided, because cost estimates change between versions.
- The old CRD comes from a cluster. Sluice asks that cluster's API server with a dry run, and only its answer counts.
- An admission webhook or policy of the cluster refuses the dry run. A note quotes it. The linked code then decides whether the API ` +
		`server's validation accepts the CRD. Sluice's own guard is such a webhook.
- The update passes only because the old CRD has the same fault. A note says that a fresh installation would be refused.`,
	Help: `Correct the field that the API server names. A default has to satisfy the type, enum, pattern and rules of its own field. To make a ` +
		`rule cheaper, set maxItems, maxLength and maxProperties on the values that it loops over.`,
	Unsafe: Example{
		Old: exampleVersions(storedVersion("v1", specSchema(exampleField("replicas", "type: integer")))),
		New: exampleVersions(storedVersion("v1", specSchema(exampleField("replicas", "type: integer", "default: many")))),
	},
	Instead: exampleVersions(
		storedVersion("v1", specSchema(
			exampleField("replicas", "type: integer"),
			exampleField("paused", "type: boolean", "default: false"),
		)),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		r := c.refusal()
		var out []report.Finding
		if r.denied != "" {
			out = append(out, report.Finding{
				Outcome: report.Note, Message: "admission in the cluster refuses this change, not the API server's validation: " + brief.Clip(r.denied, maxEffect),
			})
		}
		if r.err != nil {
			out = append(out, report.Finding{
				Outcome: report.Undecided, Message: Undetermined + ": the API server's validation could not be run", Reason: r.err.Error(),
			})
		}
		out = append(out, c.findingsOfErrors(r.errs, func(e *field.Error) report.Finding {
			f := report.Finding{Message: c.serverName() + " refuses this: " + brief.Clip(e.Error(), maxEffect)}
			if !r.byServer && c.otherVersion() && aboutCosts(e) {
				f.Outcome, f.Message = report.Undecided, Undetermined+": "+f.Message
				f.Reason = "Kubernetes " + c.opts.KubeVersion.String() + " may estimate the costs of rules differently; to ask it, run sluice check against the cluster or kubectl apply --dry-run=server"
			}
			return f
		})...)
		return append(out, c.findingsOfErrors(r.fresh, func(e *field.Error) report.Finding {
			return report.Finding{
				Outcome: report.Note,
				Message: c.serverName() + " accepts this update because the old CRD has the same fault, but would refuse a new installation: " + brief.Clip(e.Error(), maxEffect),
			}
		})...)
	},
}

// serverName names whose code speaks.
func (c *comparison) serverName() string {
	switch {
	case c.refusal().byServer:
		return "the API server of the cluster"
	case c.otherVersion():
		return "the API server's code of Kubernetes " + upstream.Newest.String()
	}
	return "the API server"
}

// aboutCosts reports whether an error is about what rules may cost. The limits are the same in all versions, the estimates are
// not (k8s.io/apiserver/pkg/cel/library, CostEstimator).
// The limits hold for one rule, and for all rules of a CRD together, whose error says "cost total".
func aboutCosts(e *field.Error) bool {
	return strings.Contains(e.Detail, "cost") && strings.Contains(e.Field, "x-kubernetes-validations") || strings.Contains(e.Detail, "cost total")
}

// maxQuotes bounds the errors of the API server that are reported one by one.
const maxQuotes = 50

// findingsOfErrors makes findings of errors, in their order, except of those that rules of their own report.
func (c *comparison) findingsOfErrors(errs field.ErrorList, tell func(*field.Error) report.Finding) []report.Finding {
	var out []report.Finding
	for i, e := range errs {
		if c.toldElsewhere(e) {
			continue
		}
		if len(out) == maxQuotes {
			f := tell(e)
			f.Message = fmt.Sprintf("the API server has %d more objections, among them: %s", len(errs)-i, brief.Clip(e.Error(), maxInline))
			return append(out, f)
		}
		f := tell(e)
		f.SchemaPath, f.Version, f.Path = locateInDocument(e.Field, c.newParts)
		out = append(out, f)
	}
	return out
}

// toldElsewhere reports whether a rule of its own reports the refusal.
func (c *comparison) toldElsewhere(e *field.Error) bool {
	if c.old == nil || c.new == nil {
		return false
	}
	o, n := c.old.Spec, c.new.Spec
	return isErrorAbout(e, "spec.group") && o.Group != n.Group ||
		isErrorAbout(e, "spec.scope") && o.Scope != n.Scope && n.Scope != "" ||
		isErrorAbout(e, "spec.names.kind") && o.Names.Kind != n.Names.Kind && n.Names.Kind != "" ||
		isErrorAbout(e, "spec.names.plural") && o.Names.Plural != n.Names.Plural && n.Names.Plural != "" ||
		isErrorAbout(e, "status.storedVersions") && strings.Contains(e.Detail, "missing from spec.versions")
}

// locateInDocument turns the path of an error into the path in the document, the version and the path in the object. The API server
// moves schemas that all versions have in common up to the spec before it validates them.
// For example, spec.validation.openAPIV3Schema.properties[spec] is spec, versions, 0, schema, openAPIV3Schema,
// properties, spec, and .spec in the object.
func locateInDocument(path string, parts []*part) (tokens []string, version, place string) {
	tokens = fieldTokens(path)
	if len(tokens) > 1 && tokens[0] == "spec" && tokens[1] == "validation" {
		tokens = append([]string{"spec", "versions", "0", "schema"}, tokens[2:]...)
	}
	if len(tokens) < 3 || tokens[0] != "spec" || tokens[1] != "versions" {
		return tokens, "", ""
	}
	for _, p := range parts {
		if indexToken(p.index) == tokens[2] {
			version = p.Name
		}
	}
	if strings.HasPrefix(path, "spec.validation") && len(parts) > 1 {
		version = "" // all of them
	}
	if len(tokens) > 4 && tokens[3] == "schema" {
		place = objectPath(tokens[5:])
	}
	return tokens, version, place
}

// fieldTokens splits a path such as spec.versions[0].schema.properties[a.b].
func fieldTokens(path string) []string {
	var out []string
	for path != "" {
		if path[0] == '[' {
			end := strings.Index(path, "]")
			if end < 0 {
				return append(out, path)
			}
			out = append(out, path[1:end])
			path = strings.TrimPrefix(path[end+1:], ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return append(out, path)
		}
		out = append(out, path[:end])
		path = strings.TrimPrefix(path[end:], ".")
	}
	return out
}
