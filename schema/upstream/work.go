package upstream

// How long would the validation of a CRD take? For example, a schema with a pattern of many copies takes long to compile. Whoever reads CRDs
// of strangers asks before the validation begins.

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// The measured time of the API server's code for parts of a schema, in microseconds of one core. Validation rules take nearly all of
// it: their compilation grows with the square of their length, and each place with rules needs the types of everything below it.
const (
	workNode      = 10
	workPattern   = 30  // plus a quarter for each byte, and a sixteenth for each byte that a count repeats
	workDefault   = 50  // plus one for each byte, two for each node below, and two for each value and each branch below
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

// patternWork is the work of compiling a pattern.
func patternWork(pattern string) float64 {
	return workPattern + float64(len(pattern))/4 + float64(len(pattern)*patternCopies(pattern))/16
}

// patternCopies is how many copies the counts of a pattern make, such as {0,300}. Go's library allows 1,000 in all.
func patternCopies(pattern string) int {
	copies := 0
	for _, part := range strings.Split(pattern, "{")[1:] {
		count, _, _ := strings.Cut(part, "}")
		_, most, _ := strings.Cut(count, ",")
		n, _ := strconv.Atoi(cmp.Or(most, strings.TrimSuffix(count, ",")))
		copies = min(copies+n, 1000)
	}
	return copies
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
