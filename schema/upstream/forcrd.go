package upstream

// Which schema and options has a version of a CRD? For example, the options say whether it has the status subresource.

import (
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// ErrNoVersion is returned by [ForCRD] for a version that the CRD does not have.
var ErrNoVersion = errors.New("no such version")

// ForCRD returns the arguments of [New] and [NewProjector] for one version of a CRD. The schema is nil if the version has
// none. kube is the API server's version; nil stands for that of the linked libraries. The error wraps [ErrNoVersion].
func ForCRD(crd *apiextensionsv1.CustomResourceDefinition, name string, kube *version.Version) (*apiextensionsv1.JSONSchemaProps, Options, error) {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Name != name {
			continue
		}
		o := Options{
			Group: crd.Spec.Group, Version: name, Kind: crd.Spec.Names.Kind,
			Namespaced:  crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
			KubeVersion: kube, PreserveUnknownFields: crd.Spec.PreserveUnknownFields,
		}
		if v.Subresources != nil {
			o.StatusSubresource, o.Scale = v.Subresources.Status != nil, v.Subresources.Scale
		}
		if v.Schema == nil {
			return nil, o, nil
		}
		return v.Schema.OpenAPIV3Schema, o, nil
	}
	return nil, Options{}, fmt.Errorf("%w: %q in CRD %s", ErrNoVersion, name, crd.Name)
}
