package upstream

import (
	"math"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The measured time of the API server's code for parts of a schema, in microseconds of one core. Validation rules take nearly all of
// it: their compilation grows with the square of their length, and each place with rules needs the types of everything below it.
const (
	workNode      = 10
	workPattern   = 30  // plus a quarter for each byte
	workDefault   = 50  // plus one for each byte, and two for each node below
	workPlace     = 700 // with rules, plus two for each node below
	workRule      = 80
	workRuleByte  = 6
	workRuleBytes = 150 // the square of the length by this
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
			total += schemaWorkOf(s.OpenAPIV3Schema)
		}
	}
	return int64(min(total, math.MaxInt64/4))
}

// schemaWorkOf is the work for a schema that is not too deep; 0 for nil.
func schemaWorkOf(p *props) float64 {
	var w schemaWork
	if p != nil {
		w.node(p)
	}
	return w.total
}

// schemaWork adds up the work for one schema.
type schemaWork struct{ total float64 }

// node adds the work for a schema and all below it, and returns how many schemas they are.
func (w *schemaWork) node(p *props) float64 {
	below := 0.0
	one := func(s *props) {
		if s != nil {
			below += w.node(s)
		}
	}
	list := func(ss []props) {
		for i := range ss {
			one(&ss[i])
		}
	}
	if len(p.Properties) > 0 {
		var child props // one for all: a schema is large
		for name := range p.Properties {
			child = p.Properties[name]
			one(&child)
		}
	}
	if p.Items != nil {
		one(p.Items.Schema)
	}
	if p.AdditionalProperties != nil {
		one(p.AdditionalProperties.Schema)
	}
	list(p.AllOf)
	list(p.AnyOf)
	list(p.OneOf)
	one(p.Not)
	w.total += workNode + float64(len(p.Enum)+len(p.Required))
	for i := range p.Enum {
		w.total += float64(len(p.Enum[i].Raw)) / 16
	}
	if p.Pattern != "" {
		w.total += workPattern + float64(len(p.Pattern))/4
	}
	if p.Default != nil {
		w.total += workDefault + float64(len(p.Default.Raw)) + 2*below
	}
	if len(p.XValidations) > 0 {
		w.total += float64(rulesWork(p.XValidations)) + 2*below
	}
	return below + 1
}

// rulesWork is the work of compiling the rules of one place, without that for what is below it.
func rulesWork(rules apiextensionsv1.ValidationRules) int64 {
	total := int64(workPlace)
	for i := range rules {
		for _, text := range []string{rules[i].Rule, rules[i].MessageExpression} {
			if n := int64(len(text)); n > 0 {
				total += workRule + n*workRuleByte + n*n/workRuleBytes
			}
		}
	}
	return total
}
