package upstream

// How does the API server serve a CRD that it has accepted? For example, with the missing names and the conversion filled in.

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// StoredSpec returns the spec of crd as the API server serves it after it has accepted it: with its defaults filled in, and with values
// and empty lists as the API server's internal type writes them. It does not validate. crd is not changed; the result shares nothing
// with it.
func StoredSpec(crd *apiextensionsv1.CustomResourceDefinition) (spec *apiextensionsv1.CustomResourceDefinitionSpec, err error) {
	defer recoverAsError(&err)
	if err := checkSchemas(crd); err != nil {
		return nil, err
	}
	internal, err := internalCRD(schema.CopyCRD(crd))
	if err != nil {
		return nil, err
	}
	var out apiextensionsv1.CustomResourceDefinitionSpec
	if err := convertSpec(&internal.Spec, &out); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	return &out, nil
}

func convertSpec(in *apiextensions.CustomResourceDefinitionSpec, out *apiextensionsv1.CustomResourceDefinitionSpec) error {
	return apiextensionsv1.Convert_apiextensions_CustomResourceDefinitionSpec_To_v1_CustomResourceDefinitionSpec(in, out, nil)
}

// internalCRD converts a CRD as the API server does when it reads a request: defaults, then the internal form. It does not change crd,
// but the result shares parts with it.
func internalCRD(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	own := *crd
	own.Spec.Conversion = crd.Spec.Conversion.DeepCopy()
	own.Status.StoredVersions = slices.Clone(crd.Status.StoredVersions)
	own.Namespace = ""
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&own)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&own, internal, nil); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	return internal, nil
}
