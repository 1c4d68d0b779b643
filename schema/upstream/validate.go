package upstream

// In which order does the API server validate? For example, rules are not evaluated if a field has the wrong type. Each step is a call of its
// libraries, or a shorter way to the same answer where value.go or meta.go know it.
//
// A creation and an update differ in what they compare with: an update has the stored object, and with ratcheting
// tolerates errors in values that it leaves alone.

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	structurallisttype "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

var metadataPath = field.NewPath("metadata")

// validateCreate is rest.ValidateCreate over customResourceStrategy.Validate. canonical says whether the metadata are canonical.
func (v *Validator) validateCreate(ctx context.Context, u *unstructured.Unstructured, canonical bool) (field.ErrorList, error) {
	fields, _ := u.Object["metadata"].(map[string]any)
	plain := canonical && v.plainMeta(fields)
	errs := v.validateFields(u, true, func() field.ErrorList {
		var errs field.ErrorList
		if !plain {
			var meta *metav1.ObjectMeta
			if meta, errs = objectMeta(u); len(errs) == 0 {
				errs = metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Create, meta, nil, v.opts.Namespaced, metavalidation.NameIsDNSSubdomain, metadataPath, declarativeBeta())
			}
		}
		return append(errs, v.validateSchema(u.Object)...)
	})
	errs = append(errs, v.validateEmbedded(ctx, u.Object)...)
	errs = append(errs, v.repeatErrors(u.Object)...)
	errs, err := v.validateRules(ctx, errs, u.Object, nil, nil)
	if len(errs) == 0 && !plain {
		errs = metavalidation.ValidateObjectMetaAccessor(u, v.opts.Namespaced, pathSegment, metadataPath)
	}
	return errs, err
}

// validateUpdate is rest.ValidateUpdate over the ValidateUpdate of customResourceStrategy or, with h.status, of
// statusStrategy.
func (v *Validator) validateUpdate(ctx context.Context, u, old *unstructured.Unstructured, h how) (field.ErrorList, error) {
	var errs field.ErrorList
	if !h.plain {
		errs = metavalidation.ValidateObjectMetaAccessor(u, v.opts.Namespaced, pathSegment, metadataPath)
		errs = append(errs, metavalidation.ValidateObjectMetaAccessorUpdate(u, old, metadataPath)...)
	}
	var correlated *common.CorrelatedObject
	if h.ratchet && v.structural != nil {
		var schema common.Schema = v.lazyTrees().cel
		if v.exact {
			schema = &model.Structural{Structural: v.structural}
		}
		correlated = common.NewCorrelatedObject(u.Object, old.Object, schema)
	}
	own := v.validateFields(u, !h.status, func() field.ErrorList {
		var errs field.ErrorList
		if !h.plain {
			errs = v.validateMetaUpdate(ctx, u, old)
		}
		return append(errs, v.validateSchemaUpdate(u, old, correlated, h)...)
	})
	if !h.status {
		own = append(own, v.validateEmbedded(ctx, u.Object)...)
	}
	if !h.touch && len(v.repeatErrors(old.Object)) == 0 {
		own = append(own, v.repeatErrors(u.Object)...)
	}
	own, err := v.validateRules(ctx, own, u.Object, old.Object, correlated)
	return append(errs, own...), err
}

// repeatErrors returns the errors about lists of type set or map that hold an item twice. Most schemas have no such list.
func (v *Validator) repeatErrors(obj map[string]any) field.ErrorList {
	if v.structural == nil || !v.exact && !v.lazyTrees().shape.anyList {
		return nil
	}
	return structurallisttype.ValidateListSetsAndMaps(nil, v.structural, obj)
}

// validateSchema validates an object against the schema.
func (v *Validator) validateSchema(obj map[string]any) field.ErrorList {
	switch node := v.lazyTrees().value; {
	case node == nil:
		return validation.ValidateCustomResource(nil, obj, v.schema)
	case node.isValid(obj):
		return nil
	default:
		return validation.ValidateCustomResource(nil, obj, explainer{node})
	}
}

// validateSchemaUpdate validates the object, or its status, against the schema.
func (v *Validator) validateSchemaUpdate(u, old *unstructured.Unstructured, correlated *common.CorrelatedObject, h how) field.ErrorList {
	var value, oldValue any = u.Object, old.Object
	tree := v.lazyTrees()
	node, schema := tree.value, v.schema
	var path *field.Path
	if h.status {
		var ok bool
		if value, ok = u.Object["status"]; !ok || v.status == nil {
			return nil
		}
		oldValue, schema, path = old.Object["status"], v.status, field.NewPath("status")
		if node != nil {
			node = node.props["status"]
		}
		correlated = correlated.Key("status")
	}
	switch {
	case node == nil:
	case h.ratchet && h.touch && tree.shape != nil:
		if node.toleratesParts(u.Object, tree.shape) && node.validOwn(u.Object) {
			return nil
		}
		result := &validate.Result{}
		if node.explainTouched(value, tree.shape, "", true, result) {
			return validation.ValidateCustomResource(path, value, explained{result})
		}
	case node.isValid(value): // a value that is valid without ratcheting is valid with it
		return nil
	case !h.ratchet:
		return validation.ValidateCustomResource(path, value, explainer{node})
	}
	if !h.ratchet {
		return validation.ValidateCustomResource(path, value, schema)
	}
	return validation.ValidateCustomResourceUpdate(path, value, oldValue, schema, validation.WithRatcheting(correlated))
}

// validateEmbedded checks the metadata of embedded resources.
func (v *Validator) validateEmbedded(ctx context.Context, obj map[string]any) field.ErrorList {
	if shape := v.lazyTrees().shape; shape == nil || !shape.anyEmbedded && !v.exact {
		return nil
	}
	if _, ok := obj["status"]; ok && v.opts.StatusUnchecked {
		obj = maps.Clone(obj)
		delete(obj, "status")
	}
	return schemaobjectmeta.Validate(ctx, nil, obj, v.structural, false)
}

// validateMetaUpdate runs the declarative validation of metadata in an update. Metadata that cannot be read as
// ObjectMeta are the only error.
func (v *Validator) validateMetaUpdate(ctx context.Context, u, old *unstructured.Unstructured) field.ErrorList {
	meta, errs := objectMeta(u)
	if len(errs) > 0 {
		return errs
	}
	oldMeta, errs := objectMeta(old)
	if len(errs) > 0 {
		return errs
	}
	return metavalidation.ValidateObjectMetaDeclaratively(ctx, operation.Update, meta, oldMeta, v.opts.Namespaced, nil, metadataPath, declarativeBeta())
}

// validateFields checks apiVersion and kind. If they are correct, it also runs inner and checks the scale paths
// (customResourceValidator in pkg/registry/customresource/validator.go).
func (v *Validator) validateFields(u *unstructured.Unstructured, spec bool, inner func() field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	if u.GetKind() != v.opts.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), u.GetKind(), "must be "+v.opts.Kind))
	}
	if want := v.opts.Group + "/" + v.opts.Version; u.GetAPIVersion() != want {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), u.GetAPIVersion(), "must be "+want))
	}
	if len(errs) > 0 {
		return errs
	}
	return append(inner(), validateScale(u, v.opts.Scale, spec)...)
}

// validateRules runs the validation rules, unless one of errs blocks them (hasBlockingErr in strategy.go). It returns errs and the
// errors of the rules, or [ErrTooDear]. old is nil for a creation, correlated is nil without ratcheting.
func (v *Validator) validateRules(ctx context.Context, errs field.ErrorList, obj, old map[string]any, correlated *common.CorrelatedObject) (field.ErrorList, error) {
	tree := v.lazyTrees()
	some := v.rulesElsewhere || tree.rules != nil
	if tree.oddRules {
		some = some || v.oddRules() != nil
	}
	if !some {
		return errs, nil
	}
	if slices.ContainsFunc(errs, blocksRules) {
		return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")), nil
	}
	if tree.rules != nil {
		run := runRules(ctx, tree.rules, obj, old, correlated)
		v.compiled.chargeEvaluation(run.budget)
		return append(errs, ofRules(run.errs)...), run.dear
	}
	if !tree.oddRules {
		return errs, nil
	}
	if err := cmp.Or(v.plain, v).dearRules(ctx, obj, old); err != nil { // the API server's own tree has no bounds
		return errs, err
	}
	var options []cel.Option
	if correlated != nil {
		options = append(options, cel.WithRatcheting(correlated))
	}
	var oldValue any
	if old != nil {
		oldValue = old
	}
	ruleErrs, left := v.oddRules().Validate(ctx, nil, v.structural, obj, oldValue, celconfig.RuntimeCELCostBudget, options...)
	v.compiled.chargeEvaluation(left)
	return append(errs, ofRules(ruleErrs)...), nil
}

// OriginRule is the Origin of errors that validation rules gave, whatever their messages are.
const OriginRule = "rule"

// ofRules marks errors as those of rules, for callers that tell them from errors of the schema.
func ofRules(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		e.Origin = OriginRule
	}
	return errs
}

// blocksRules reports whether rules are not evaluated because of an error: of a type, a missing field, a length or an
// enum.
func blocksRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}

// objectMeta reads the metadata as its Go type.
func objectMeta(u *unstructured.Unstructured) (*metav1.ObjectMeta, field.ErrorList) {
	raw := u.Object["metadata"]
	if raw == nil {
		return &metav1.ObjectMeta{}, nil
	}
	fields, ok := raw.(map[string]any)
	if !ok {
		return nil, field.ErrorList{field.Invalid(metadataPath, raw, fmt.Sprintf("expected map[string]interface{}, got %T", raw))}
	}
	meta := &metav1.ObjectMeta{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, meta); err != nil {
		return nil, field.ErrorList{field.Invalid(metadataPath, raw, err.Error())}
	}
	return meta, nil
}

// declarativeBeta is the state of the feature gate in the linked libraries, which the API server passes on as well.
func declarativeBeta() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DeclarativeValidationBeta)
}

// pathSegment checks names of resources of which nothing more is demanded than that they can stand in a path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validateScale checks the values at the paths of the scale subresource.
func validateScale(u *unstructured.Unstructured, scale *apiextensionsv1.CustomResourceSubresourceScale, spec bool) field.ErrorList {
	if scale == nil {
		return nil
	}
	errs := validateReplicas(u, scale.StatusReplicasPath)
	if spec {
		errs = append(errs, validateReplicas(u, scale.SpecReplicasPath)...)
	}
	if path := scale.LabelSelectorPath; path != nil {
		if s, _, err := unstructured.NestedString(u.Object, splitPath(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), s, err.Error()))
		}
	}
	return errs
}

// validateReplicas checks the number of replicas at a path of the scale subresource. A missing one counts as 0, and
// is valid.
func validateReplicas(u *unstructured.Unstructured, path string) field.ErrorList {
	n, _, err := unstructured.NestedInt64(u.Object, splitPath(path)...)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(field.NewPath(path), n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(field.NewPath(path), n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(field.NewPath(path), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// undecodedError returns one error, for a request that could not be decoded.
func undecodedError(err error) field.ErrorList {
	return field.ErrorList{{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: err.Error()}}
}

// selfType matches the names that k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel generates from the time of day.
var selfType = regexp.MustCompile(`selfType[0-9]+`)

// tidyErrors sorts errors, which come in the random order of Go's maps, and drops duplicates.
func tidyErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) == 0 {
		return nil
	}
	texts := make(map[*field.Error]string, len(errs))
	for _, e := range errs {
		e.Detail = selfType.ReplaceAllLiteralString(e.Detail, "selfType")
		texts[e] = e.Error()
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(texts[a], texts[b]) })
	return slices.CompactFunc(errs, func(a, b *field.Error) bool { return texts[a] == texts[b] })
}
