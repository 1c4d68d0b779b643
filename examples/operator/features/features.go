// Package features holds the features of the example operator: the one place where they are declared. The manifest
// config/features.yaml is written from here (go test ./examples/operator/features -update).
package features

import (
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/feature/gate"
)

// Release is that of the operator.
const Release = "v1.1.0"

// The features.
const (
	// Banner gates the field spec.banner.
	Banner featuregate.Feature = "Banner"
	// Markdown gates the value Markdown of spec.format: this release understands it, the next lets everybody write it.
	Markdown featuregate.Feature = "Markdown"
	// Signature is behaviour: the operator writes the digest of a page beside it.
	Signature featuregate.Feature = "Signature"
)

// Declaration is the operator with its features.
func Declaration() gate.Declaration {
	page := func(p v1alpha1.Part) v1alpha1.Part {
		p.Group, p.Resource = pagesv1.GroupVersion.Group, "pages"
		return p
	}
	on := true
	markdown := gate.NewEnumValue(string(Markdown), "v1.1.0", "v1.2.0", page(v1alpha1.Part{Field: "spec.format", Values: []string{string(pagesv1.Markdown)}}))
	markdown.Description = "Pages may be written in Markdown."
	return gate.Declaration{
		Name: "pages",
		Spec: v1alpha1.ComponentSpec{
			Release:   Release,
			ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "pages-system", Name: "feature-flags"},
		},
		Features: []v1alpha1.FeatureSpec{
			{
				Gate:        string(Banner),
				Description: "A page may have a banner above its text.",
				Stages:      []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
				Parts:       []v1alpha1.Part{page(v1alpha1.Part{Field: "spec.banner"})},
			},
			markdown,
			{
				Gate:        string(Signature),
				Description: "The digest of a page stands beside it.",
				Stages: []v1alpha1.FeatureStage{
					{Stage: v1alpha1.Alpha, Release: "v1.0.0"},
					{Stage: v1alpha1.Beta, Release: "v1.2.0", Default: &on},
				},
			},
		},
	}
}
