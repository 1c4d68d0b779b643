package compat

import (
	"context"

	"sluice.dev/report"
)

// crdRemoved is the only rule that reports without a new CRD. The API server's finalizer deletes all objects before
// the CRD is gone (customresourcecleanup.apiextensions.k8s.io in
// k8s.io/apiextensions-apiserver/pkg/controller/finalizer).
var crdRemoved = Rule{
	ID:    "crd-removed",
	Level: report.DataLost,
	Title: "The CRD was removed",
	Why: `When a CustomResourceDefinition is deleted, the API server deletes every object of that kind in all namespaces, and every client ` +
		`loses the API. If you only leave the CRD out of your manifests, the result depends on the tool that applies them: a tool that prunes ` +
		`deletes the CRD.`,
	Help: `Keep the CRD as long as objects may exist, and mark its versions as deprecated. Migrate the objects, and then delete the CRD by ` +
		`hand. If you leave the CRD out on purpose and no tool prunes it, suppress the finding with that reason.`,
	Unsafe: Example{Old: `
scope: Namespaced
`},
	Instead: `
scope: Namespaced` + exampleVersions(
		storedVersion("v1", "deprecated: true", "deprecationWarning: example.com/v1 Widget is deprecated and has no successor"),
	),
	whole: func(_ context.Context, c *comparison) []report.Finding {
		if c.new != nil {
			return nil
		}
		return []report.Finding{{
			Message:    "the CRD is gone: once it is deleted, so are all objects of kind " + c.old.Spec.Names.Kind,
			SchemaPath: []string{"spec"}, InOld: true,
		}}
	},
}
