package feature

// What does a CRD say about its resource? The versions that it serves, their schemas, where the objects are stored, and
// what a write of the subresource scale changes. Versions that are not served have no writes to judge.

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// ResourceOf returns the resource that a CRD defines, with the versions that it serves. The error names the schema that could not be
// read.
func ResourceOf(crd *apiextensionsv1.CustomResourceDefinition) (Resource, error) {
	r := Resource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind}
	r.Converted = crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		var props *apiextensionsv1.JSONSchemaProps
		if v.Schema != nil {
			props = v.Schema.OpenAPIV3Schema
		}
		n, err := schema.New(props)
		if err != nil {
			return Resource{}, fmt.Errorf("CRD %s, version %s: %w", crd.Name, v.Name, err)
		}
		if v.Storage {
			r.Stored = v.Name
		}
		version := Version{Name: v.Name, Schema: n}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			version.Scale = strings.Split(strings.TrimPrefix(v.Subresources.Scale.SpecReplicasPath, "."), ".")
		}
		r.Versions = append(r.Versions, version)
	}
	return r, nil
}
