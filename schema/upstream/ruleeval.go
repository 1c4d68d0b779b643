package upstream

// Which rules does an object break? The walk goes through the object and the tree of rules together, in the order and within the budget of the
// API server. For example, it stops with an error once the rules of the object have cost too much.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/utils/ptr"
)

// ruleRun is one evaluation of a rule tree over an object. It follows cel.Validator.Validate in
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel step by step.
type ruleRun struct {
	ctx        context.Context
	budget     int64
	correlated *common.CorrelatedObject // nil: no ratcheting
	errs       field.ErrorList
	dear       error // why a rule was not evaluated; then the result says nothing
	// spared is set if a call that is too dear may not have been made, and the rule is an error for its cost in any case.
	spared bool
}

// runRules evaluates the rules of the tree n over obj and, in an update, old (nil otherwise). With correlated, failures on unchanged
// parts are tolerated.
func runRules(ctx context.Context, n *ruleNode, obj, old map[string]any, correlated *common.CorrelatedObject) *ruleRun {
	r := &ruleRun{ctx: ctx, budget: celconfig.RuntimeCELCostBudget, correlated: correlated}
	var oldValue any
	if old != nil {
		oldValue = old
	}
	r.runNode(n, nil, obj, oldValue)
	return r
}

// step leads from a value to one inside of it; nil is the root.
type step struct {
	up    *step
	name  string // of a field or of a key
	index int
	kind  stepKind
}

type stepKind int

const (
	toField stepKind = iota
	toKey
	toIndex
)

// fieldPath is the place as errors name it. It is made only where there is an error, because most values have none.
// nil is the root.
func (s *step) fieldPath() *field.Path {
	if s == nil {
		return nil
	}
	switch up := s.up.fieldPath(); s.kind {
	case toKey:
		return up.Key(s.name)
	case toIndex:
		return up.Index(s.index)
	case toField:
		return up.Child(s.name)
	}
	return nil
}

// runNode evaluates n over value. It returns false if the budget is spent.
func (r *ruleRun) runNode(n *ruleNode, at *step, value, old any) bool {
	if value == nil {
		return true
	}
	if n.compiled != nil && !r.runExpressions(n, at, value, old) {
		return false
	}
	switch value := value.(type) {
	case []any:
		return r.runList(n, at, value, old)
	case map[string]any:
		return r.runObject(n, at, value, old)
	}
	return true
}

// runList runs the rules of the items. The old item is the one with the same keys, or none in a list of another type.
func (r *ruleRun) runList(n *ruleNode, at *step, value []any, old any) bool {
	if n.items == nil {
		return true
	}
	oldList, _ := old.([]any)
	oldItems := common.MakeMapList(n.schema, oldList)
	for i, item := range value {
		if !r.runNode(n.items, &step{up: at, index: i, kind: toIndex}, item, oldItems.Get(item)) {
			return false
		}
	}
	return true
}

// runObject runs the rules of the properties. Old values count only if the type of the map lets an update find them.
func (r *ruleRun) runObject(n *ruleNode, at *step, value map[string]any, old any) bool {
	oldMap, _ := old.(map[string]any)
	if !n.correlatable {
		oldMap = nil
	}
	if n.additional != nil {
		for name, v := range value {
			if !r.runNode(n.additional, &step{up: at, name: name, kind: toKey}, v, oldMap[name]) {
				return false
			}
		}
	}
	for _, p := range n.props {
		if v, ok := value[p.name]; ok && !r.runNode(p.node, &step{up: at, name: p.name}, v, oldMap[p.name]) {
			return false
		}
	}
	return true
}

// activations are the variables of rules, and of those with an optional oldSelf.
func (n *ruleNode) activations(value, old any, usesOldSelf bool) (plain, optional *activation) {
	schema := n.schema
	if n.resource {
		schema = schema.asResource()
	}
	plain = &activation{self: common.UnstructuredToVal(value, schema)}
	optional = &activation{self: plain.self}
	if usesOldSelf {
		optional.oldSelf, optional.hasOldSelf = types.OptionalNone, true
		if old != nil {
			plain.oldSelf, plain.hasOldSelf = common.UnstructuredToVal(old, schema), true
			optional.oldSelf = types.OptionalOf(plain.oldSelf)
		}
	}
	return plain, optional
}

// runExpressions evaluates the rules of n itself (validateExpressions).
func (r *ruleRun) runExpressions(n *ruleNode, at *step, value, old any) bool {
	made := n.compiled.compileRules(n)
	if made.err != nil {
		r.addError(field.Invalid(at.fieldPath(), n.structural.Type, fmt.Sprintf("rule compiler initialization error: %v", made.err)))
		return true
	}
	compiled := made.results
	if len(compiled) > 0 && r.budget <= 0 {
		return r.reportSpent(n, at)
	}
	plain, optional := n.activations(value, old, made.usesOldSelf)
	for i := range compiled {
		rule := &n.rules[i]
		isOptional := ptr.Deref(rule.OptionalOldSelf, false)
		if !r.canRun(n, at, &compiled[i], old != nil || isOptional) {
			continue
		}
		vars := plain
		if isOptional {
			vars = optional
		}
		result, details, err := compiled[i].Program.ContextEval(r.ctx, vars)
		if r.spare(result, err, rule.Rule) {
			return false
		}
		if !r.payCost(n, at, rule, details) {
			return false
		}
		if err != nil {
			if !r.reportFailed(n, at, rule, err) {
				return false
			}
			continue
		}
		if result != types.True && !r.reportRefused(n, at, rule, &compiled[i], value, plain) || r.dear != nil {
			return false
		}
	}
	return true
}

// canRun reports whether a rule is evaluated: it compiles, and has an oldSelf if it needs one. An error of the compiler is noted.
func (r *ruleRun) canRun(n *ruleNode, at *step, c *cel.CompilationResult, hasOld bool) bool {
	if c.Error != nil {
		r.addError(field.Invalid(at.fieldPath(), n.structural.Type, fmt.Sprintf("rule compile error: %v", c.Error)))
	}
	return c.Error == nil && c.Program != nil && (hasOld || !c.UsesOldSelf)
}

// spare notes what calls an evaluation left out, and reports whether its result depends on them.
func (r *ruleRun) spare(result ref.Val, err error, rule string) bool {
	r.dear = dearIn(result, rule)
	r.spared = r.spared || overspent(err) && mentionsDear(rule)
	return r.dear != nil
}

func (r *ruleRun) addError(err *field.Error) { r.errs = append(r.errs, err) }

func (r *ruleRun) reportSpent(n *ruleNode, at *step) bool {
	r.addError(field.Invalid(at.fieldPath(), n.structural.Type, "validation failed due to running out of cost budget, no further validation rules will be run"))
	return false
}

// payCost takes the cost of an evaluation from the budget.
func (r *ruleRun) payCost(n *ruleNode, at *step, rule *apiextensionsv1.ValidationRule, details *celgo.EvalDetails) bool {
	if details == nil {
		r.addError(field.InternalError(at.fieldPath(), fmt.Errorf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", ruleName(rule))))
		return false
	}
	cost := details.ActualCost()
	if cost == nil {
		r.addError(field.Invalid(at.fieldPath(), n.structural.Type, fmt.Sprintf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", ruleName(rule))))
		return false
	}
	if *cost > math.MaxInt64 || int64(*cost) > r.budget {
		return r.reportSpent(n, at)
	}
	r.budget -= int64(*cost)
	return true
}

// reportFailed reports a rule that could not be evaluated.
func (r *ruleRun) reportFailed(n *ruleNode, at *step, rule *apiextensionsv1.ValidationRule, err error) bool {
	format, proceed := "%v evaluating rule: %v", true
	switch {
	case strings.HasPrefix(err.Error(), "no such overload"):
		format = "'%v': call arguments did not match a supported operator, function or macro signature for rule: %v"
	case overspent(err):
		format, proceed = "'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", false
	}
	r.addError(field.Invalid(at.fieldPath(), n.structural.Type, fmt.Sprintf(format, err, ruleName(rule))))
	return proceed
}

// overspent reports whether an evaluation cost more than a single one may.
func overspent(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded")
}

// reportRefused reports a rule that is not satisfied.
func (r *ruleRun) reportRefused(n *ruleNode, at *step, rule *apiextensionsv1.ValidationRule, compiled *cel.CompilationResult, value any, vars *activation) bool {
	if !compiled.UsesOldSelf && r.toleratesErrorAt(at) {
		// A message expression that fails costs as much as one that succeeds, and may end the run.
		return r.ruleMessage(rule, compiled, vars).proceed
	}
	path := at.fieldPath()
	if compiled.NormalizedRuleFieldPath != "" {
		path = path.Child(compiled.NormalizedRuleFieldPath)
	}
	m := r.ruleMessage(rule, compiled, vars)
	switch {
	case m.internal:
		r.addError(field.InternalError(path, errors.New(m.text)))
		return false
	case !m.proceed:
		r.addError(field.Invalid(path, n.structural.Type, m.text))
		return false
	}
	if n.structural.Type == "object" || n.structural.Type == "array" {
		value = field.OmitValueType{}
	}
	r.addError(errorWithReason(path, value, m.text, rule.Reason))
	return true
}

// toleratesErrorAt reports whether ratcheting tolerates an error in the value at a place (ratchetingOptions). It does if the value equals the
// old one. If the value has no correlation, the nearest value around it that has one counts.
func (r *ruleRun) toleratesErrorAt(at *step) bool {
	if r.correlated == nil {
		return false
	}
	current, nearest := r.correlationAt(at)
	current = cmp.Or(current, nearest)
	return current.CachedDeepEqual()
}

// correlationAt returns the correlation at a place, or nil and the nearest one above.
func (r *ruleRun) correlationAt(at *step) (current, nearest *common.CorrelatedObject) {
	if at == nil {
		return r.correlated, nil
	}
	up, nearest := r.correlationAt(at.up)
	switch {
	case up == nil:
		return nil, nearest
	case at.kind == toIndex:
		return up.Index(at.index), up
	case nearest == nil && (at.name == "apiVersion" || at.name == "kind"):
		return nil, nil
	default:
		return up.Key(at.name), up
	}
}

// activation gives rules their variables.
type activation struct {
	self, oldSelf ref.Val
	hasOldSelf    bool
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case cel.ScopedVarName:
		return a.self, true
	case cel.OldScopedVarName:
		return a.oldSelf, a.hasOldSelf
	default:
		return nil, false
	}
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
