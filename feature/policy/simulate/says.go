package simulate

// Does a policy in a cluster treat a gate as open? Controllers ask this of the policies that the API server
// has, to know whether they follow the settings yet. The answer comes from the stored expressions, not from
// what they should be.

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/feature/policy"
)

// reference is a variable of a policy in an expression. Within a text it is one variable too many, which does no harm.
var reference = regexp.MustCompile(`variables\.(\w+)`)

// Says returns, for gates, whether a policy of package feature/policy treats them as open for users who have not opted in. It evaluates
// the stored policy, so that the answer is also right for a policy that was made for other definitions or settings. settings is the
// data of the ConfigMap that is its parameter; nil stands for a missing ConfigMap, for which a policy that reads it gives no answer.
// Gates without an answer are not in the result.
func Says(ctx context.Context, o runtime.Object, gates []string, settings map[string]string) (map[string]bool, error) {
	var variables []admissionregistrationv1.Variable
	var params bool
	switch p := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		variables, params = p.Spec.Variables, p.Spec.ParamKind != nil
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		variables, params = p.Spec.Variables, p.Spec.ParamKind != nil
	default:
		return nil, fmt.Errorf("%T is no policy", o)
	}
	if params && settings == nil {
		return nil, nil
	}
	needed := map[string]bool{}
	for _, gate := range gates {
		for _, m := range reference.FindAllStringSubmatch(policy.SaysOpen(variables, gate), -1) {
			needed[m[1]] = true
		}
	}
	// A variable can only refer to those before it.
	var used []admissionregistrationv1.Variable
	for _, v := range slices.Backward(variables) {
		if !needed[v.Name] {
			continue
		}
		used = append(used, v)
		for _, m := range reference.FindAllStringSubmatch(v.Expression, -1) {
			needed[m[1]] = true
		}
	}
	slices.Reverse(used)
	out := map[string]bool{}
	var asked []string
	var questions []plugincel.ExpressionAccessor
	for _, gate := range gates {
		if says := policy.SaysOpen(variables, gate); says != "" {
			asked, questions = append(asked, gate), append(questions, &validating.ValidationCondition{Expression: says})
		} else {
			out[gate] = false // a gate that is always open or always closed has no variable, and open ones are in no policy
		}
	}
	if len(asked) == 0 {
		return out, nil
	}
	k := newChecked(params, used)
	if k.err != nil {
		return nil, k.err
	}
	evaluator := k.CompileCondition(questions, k.options, environment.StoredExpressions)
	// The result does not depend on the request, so any request can be used.
	n, err := newRun(&Request{Resource: "nothing", Version: "v1", Object: map[string]any{}, Settings: settings})
	if err != nil {
		return nil, err
	}
	request := plugincel.CreateAdmissionRequest(n.attr.Attributes, metav1.GroupVersionResource(n.gvr), metav1.GroupVersionKind(n.attr.VersionedKind))
	bindings := plugincel.OptionalVariableBindings{Authorizer: n.access}
	if params {
		bindings.VersionedParams = n.params
	}
	results, _, err := evaluator.ForInput(ctx, n.attr, request, bindings, nil, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		if r.Error != nil {
			continue
		}
		if open, ok := r.EvalResult.Value().(bool); ok {
			out[asked[i]] = open
		}
	}
	return out, nil
}
