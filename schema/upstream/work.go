package upstream

// How long would the validation of a CRD take? For example, a schema with a pattern of many copies takes long to compile. Whoever reads CRDs
// of strangers asks before the validation begins.

import (
	"bytes"
	"math"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// ValidationWork estimates the work of [ValidateCRD], in microseconds of one core. It is a measured upper bound. Call it before the
// validation of an untrusted CRD. It is 0 for a CRD that is nested too deeply, because that is not validated.
func ValidationWork(crd *apiextensionsv1.CustomResourceDefinition) int64 {
	if checkSchemas(crd) != nil {
		return 0
	}
	total := 0.0
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil {
			total += workOf(s.OpenAPIV3Schema).total
		}
	}
	return int64(min(total, math.MaxInt64/4))
}

// Costs estimate the work with a validator, in microseconds of one core. They are upper bounds.
type Costs struct {
	// Prepare is for making the validator from its schema. Rules is for compiling all its rules, which an exact validator does at once.
	Prepare, Rules int64
	// Simple is for each value of an object. Exact is that for an exact validator, which makes a validator for each value and each branch,
	// with its pattern.
	Simple, Exact int64
}

// The measured work of a validator, see [Costs].
const (
	workPrepare = 30 // for each schema
	workValue   = 10 // for each value
)

// Costs returns what work with the validator costs.
func (v *Validator) Costs() Costs {
	w := workOf(v.props)
	return Costs{Prepare: int64(w.nodes * workPrepare), Rules: int64(min(w.rules, math.MaxInt64/4)), Simple: 1 + int64(w.branches/16), Exact: workValue + int64(w.pattern+2*w.branches)}
}

// workOf adds up the work for a schema that is not too deep; nothing for nil.
func workOf(p *props) (w schemaWork) {
	if p != nil {
		w.addSchema(p)
	}
	return w
}

// schemaWork is the work for one schema: in all, for its rules, and for the pattern that costs most. branches are the schemas in its
// junctors; eight values of an enum count as one.
type schemaWork struct{ total, nodes, rules, pattern, branches float64 }

// addSchema adds the work for a schema and all below it, and returns how many schemas they are.
func (w *schemaWork) addSchema(p *props) float64 {
	below, branches := 0.0, w.branches
	for child := range schema.Children(p, schema.InStructure|schema.InJunctors) {
		below += w.addSchema(child)
	}
	w.nodes++
	w.branches += float64(len(p.AllOf)+len(p.AnyOf)+len(p.OneOf)) + float64(len(p.Enum))/8
	w.total += workNode + float64(len(p.Enum)+len(p.Required))
	for i := range p.Enum {
		w.total += float64(len(p.Enum[i].Raw)) / 16
	}
	if p.Pattern != "" {
		one := patternWork(p.Pattern)
		w.total += one
		w.pattern = max(w.pattern, one)
	}
	if p.Default != nil {
		values := 1 + float64(bytes.Count(p.Default.Raw, []byte{','}))
		w.total += workDefault + float64(len(p.Default.Raw)) + 2*below + 2*values*(w.branches-branches)
	}
	if len(p.XValidations) > 0 {
		rules := float64(rulesWork(p.XValidations)) + 2*below
		w.total += rules
		w.rules += rules
	}
	return below + 1
}
