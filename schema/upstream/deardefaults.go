package upstream

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/schema"
)

// Has a CRD a default whose rules would take too long? The API server evaluates them when it validates the CRD. For example, a default of a
// million characters with a rule that searches in it.

// dearDefaults returns [ErrTooDear] if the API server's code would spend that time on the rules of a default, which it evaluates when it
// validates the CRD.
func dearDefaults(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		s := crd.Spec.Versions[i].Schema
		if s == nil {
			continue
		}
		for p := range schema.Walk(s.OpenAPIV3Schema, schema.InStructure) {
			if p.Default == nil || !mayBeDear(p) {
				continue
			}
			if err := dearDefault(ctx, *p); err != nil {
				return err
			}
		}
	}
	return nil
}

// dearDefault evaluates the rules of one default with bounded calls, as a creation and as an update. Whatever else is
// wrong with the default or the schema, the validation of the CRD says.
func dearDefault(ctx context.Context, p props) error {
	var value any
	if utiljson.Unmarshal(p.Default.Raw, &value) != nil {
		return nil //nolint:nilerr // the validation says so
	}
	v, err := New(&props{Type: "object", Properties: map[string]props{"default": p}}, Options{})
	if err != nil {
		return nil //nolint:nilerr // the validation says so
	}
	obj := map[string]any{"default": value}
	return v.dearRules(ctx, obj, obj)
}

// dearRules returns [ErrTooDear] if the evaluation of the rules on the object, or of the update of old, would take too long.
func (v *Validator) dearRules(ctx context.Context, obj, old map[string]any) error {
	switch tree := v.lazyTrees(); {
	case tree.rules != nil:
		run := runRules(ctx, tree.rules, obj, old, nil)
		if run.spared && run.dear == nil {
			return fmt.Errorf("%w: its cost is over the limit of the API server in any case", ErrTooDear)
		}
		return run.dear
	case tree.oddRules:
		for p := range schema.Walk(v.props, schema.Everywhere) {
			for i := range p.XValidations {
				if strings.Contains(p.XValidations[i].Rule+p.XValidations[i].MessageExpression, quantityName) {
					return fmt.Errorf("%w: quantity() is not evaluated where no structural schema has rules", ErrTooDear)
				}
			}
		}
	}
	return nil
}
