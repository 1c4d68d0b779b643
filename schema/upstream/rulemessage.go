package upstream

// What does a broken rule say? For example, its messageExpression, if that can be evaluated within the budget, or its message, or "failed
// rule" with its text.

import (
	"fmt"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// message is the message of a rule that is not satisfied.
type message struct {
	text     string
	proceed  bool // the budget allows further rules
	internal bool // text says why the cost is not known
}

// ruleMessage evaluates the message expression of a rule, or returns its message, or names the rule (evalMessageExpression and
// ruleMessageOrDefault in k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel).
func (r *ruleRun) ruleMessage(rule *apiextensionsv1.ValidationRule, compiled *cel.CompilationResult, vars *activation) message {
	fallback := message{text: strings.TrimSpace(rule.Message), proceed: true}
	if rule.Message == "" {
		fallback.text = "failed rule: " + ruleName(rule)
	}
	if compiled.MessageExpression == nil {
		return fallback
	}
	value, details, err := compiled.MessageExpression.ContextEval(r.ctx, vars)
	if r.spare(value, err, rule.MessageExpression) {
		return fallback
	}
	if details == nil || details.ActualCost() == nil {
		return message{text: fmt.Sprintf("runtime cost could not be calculated for messageExpression: %q", rule.MessageExpression), internal: true}
	}
	cost := *details.ActualCost()
	if cost > math.MaxInt64 || int64(cost) > r.budget {
		return message{text: "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"}
	}
	if overspent(err) {
		return message{text: fmt.Sprintf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", rule.MessageExpression)}
	}
	r.budget -= int64(cost)
	if err != nil {
		return fallback
	}
	text, ok := value.Value().(string)
	text = strings.TrimSpace(text)
	if !ok || text == "" || len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return fallback
	}
	return message{text: text, proceed: true}
}

// ruleName is the name of a rule in errors.
func ruleName(rule *apiextensionsv1.ValidationRule) string {
	if rule.Message != "" {
		return strings.TrimSpace(rule.Message)
	}
	return strings.TrimSpace(rule.Rule)
}

// errorWithReason returns the error of a rule with its reason.
func errorWithReason(path *field.Path, value any, detail string, reason *apiextensionsv1.FieldValueErrorReason) *field.Error {
	if reason != nil {
		switch *reason {
		case apiextensionsv1.FieldValueForbidden:
			return field.Forbidden(path, detail)
		case apiextensionsv1.FieldValueRequired:
			return field.Required(path, detail)
		case apiextensionsv1.FieldValueDuplicate:
			return field.Duplicate(path, value)
		case apiextensionsv1.FieldValueInvalid:
		}
	}
	return field.Invalid(path, value, detail)
}
