package upstream

// Does the API server take a CRD? For example, it refuses a schema without types, and an update that removes a stored version.

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// ValidateCRD returns why the API server refuses to create crd; nothing if it accepts it. It ignores the status, which a creation
// drops. kube is the API server's version; nil stands for that of the linked libraries. It decides which CEL library rules can use. The
// list of errors is sorted. The second result says why there is no verdict.
//
// Most of the time goes into validation rules: about a millisecond for each place that has rules.
func ValidateCRD(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, kube *version.Version) (errs field.ErrorList, err error) {
	defer recoverAsError(&err)
	if err := checkSchemas(crd); err != nil {
		return nil, err
	}
	if err := dearDefaults(ctx, crd); err != nil {
		return nil, err
	}
	internal, err := internalCRD(crd)
	if err != nil {
		return nil, err
	}
	internal.Status = apiextensions.CustomResourceDefinitionStatus{}
	internal.Generation = 1
	addStoredVersion(internal)
	dropUnknown(internal, kube)
	errs = crdvalidation.ValidateCustomResourceDefinition(ctx, internal)
	if len(errs) == 0 {
		errs = metavalidation.ValidateObjectMetaAccessor(internal, false, pathSegment, metadataPath)
	}
	return orTooNew(ctx, tidyErrors(errs), crd, nil, kube)
}

// orTooNew returns errs. If there are none, it returns errors for the parts that the API server of version kube does not know yet.
func orTooNew(ctx context.Context, errs field.ErrorList, crd, old *apiextensionsv1.CustomResourceDefinition, kube *version.Version) (field.ErrorList, error) {
	if err := ctx.Err(); err != nil || len(errs) > 0 {
		return errs, err
	}
	return rulesTooNew(crd, old, kube)
}

// dropUnknown drops what an API server of version kube does not know.
func dropUnknown(crd *apiextensions.CustomResourceDefinition, kube *version.Version) {
	if HasSelectableFields(kube) {
		return
	}
	crd.Spec.SelectableFields = nil
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].SelectableFields = nil
	}
}

// addStoredVersion adds the storage version to status.storedVersions (PrepareForCreate and PrepareForUpdate of
// pkg/registry/customresourcedefinition/strategy.go).
func addStoredVersion(crd *apiextensions.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			if !apiextensions.IsStoredVersion(crd, v.Name) {
				crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
			}
			return
		}
	}
}

// ValidateCRDUpdate returns why the API server refuses crd as an update of old; nothing if it accepts it. A manifest has no status. So
// if old has none, its storage version counts as stored, and it counts as established. kube, errors and time are as for [ValidateCRD].
func ValidateCRDUpdate(ctx context.Context, crd, old *apiextensionsv1.CustomResourceDefinition, kube *version.Version) (errs field.ErrorList, err error) {
	defer recoverAsError(&err)
	if err := errors.Join(checkSchemas(crd), checkSchemas(old)); err != nil {
		return nil, err
	}
	if err := dearDefaults(ctx, crd); err != nil {
		return nil, err
	}
	internal, internalOld, err := internalUpdate(crd, old)
	if err != nil {
		return nil, err
	}
	dropUnknown(internal, kube)
	dropUnknown(internalOld, kube)
	errs = metavalidation.ValidateObjectMetaAccessor(internal, false, pathSegment, metadataPath)
	errs = append(errs, metavalidation.ValidateObjectMetaAccessorUpdate(internal, internalOld, metadataPath)...)
	errs = append(errs, crdvalidation.ValidateCustomResourceDefinitionUpdate(ctx, internal, internalOld)...)
	if !checksCABundle(kube) {
		errs = slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field == "spec.conversion.webhookClientConfig.caBundle" })
	}
	return orTooNew(ctx, tidyErrors(errs), crd, old, kube)
}

// internalUpdate converts both CRDs and does what the API server does before it validates an update.
func internalUpdate(crd, old *apiextensionsv1.CustomResourceDefinition) (internal, internalOld *apiextensions.CustomResourceDefinition, err error) {
	if internalOld, err = internalCRD(old); err != nil {
		return nil, nil, err
	}
	if internal, err = internalCRD(crd); err != nil {
		return nil, nil, err
	}
	if len(internalOld.Status.Conditions) == 0 {
		internalOld.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{
			{Type: apiextensions.Established, Status: apiextensions.ConditionTrue},
		}
	}
	internalOld.ResourceVersion = cmp.Or(internalOld.ResourceVersion, "1")
	internal.ResourceVersion = internalOld.ResourceVersion
	internal.UID, internal.CreationTimestamp = internalOld.UID, internalOld.CreationTimestamp
	internal.DeletionTimestamp, internal.DeletionGracePeriodSeconds = internalOld.DeletionTimestamp, internalOld.DeletionGracePeriodSeconds
	internal.Generation = internalOld.Generation + 1
	internal.Status = *internalOld.Status.DeepCopy()
	addStoredVersion(internal)
	return internal, internalOld, nil
}
