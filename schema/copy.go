package schema

// How is a schema copied so that nothing is shared? For example, the copy of Kubernetes shares the values of an enum.

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// CopyCRD returns a copy of crd that shares nothing with it. The schemas of DeepCopy still share some values with crd, see [Copy].
func CopyCRD(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := crd.DeepCopy()
	for i := range out.Spec.Versions {
		if v := &out.Spec.Versions[i]; v.Schema != nil {
			v.Schema.OpenAPIV3Schema = Copy(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
		}
	}
	return out
}

// Copy returns a copy of p that shares nothing with it, at most [MaxDepth] levels deep. The DeepCopy of Kubernetes shares with p the values
// of default, example, enum, x-kubernetes-list-type and x-kubernetes-list-map-keys
// (k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/deepcopy.go). A nil p stays nil.
func Copy(p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return Rewrite(p.DeepCopy(), Everywhere, func(s *props) {
		s.Default, s.Example = copyJSON(s.Default), copyJSON(s.Example)
		s.Enum = slices.Clone(s.Enum)
		for i := range s.Enum {
			s.Enum[i] = *copyJSON(&s.Enum[i])
		}
		s.XListMapKeys = slices.Clone(s.XListMapKeys)
		if s.XListType != nil {
			s.XListType = new(*s.XListType)
		}
	})
}

// copyJSON copies a literal with its bytes; nil stays nil.
func copyJSON(v *apiextensionsv1.JSON) *apiextensionsv1.JSON {
	if v == nil {
		return nil
	}
	return &apiextensionsv1.JSON{Raw: slices.Clone(v.Raw)}
}
