// Package simulate runs admission policies without a cluster, with the API server's own code: its compiler and interpreter
// of expressions, its limits of cost, its patches (k8s.io/apiserver/pkg/admission/plugin/policy).
//
// It promises that a request which [Simulator.Run] allows, refuses, warns of or changes would be by an API server that has
// the policies and bindings, as far as they decide. It matches requests to policies by group, version, resource and
// operation, as the policies of package feature/policy do; selectors, exclusions and equivalent versions are not looked at.
// It knows no schema: nothing is defaulted, pruned or validated. Nor does it know other policies, webhooks or access rules.
package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/feature/policy"
)

// Request is a write of an object.
type Request struct {
	// Group, Version and Resource are those in which the object is written.
	Group, Version, Resource string
	// Object is the new object as Kubernetes decodes JSON; it is not modified. Nil stands for a deletion.
	Object map[string]any
	// Old is the stored object; nil stands for a creation.
	Old map[string]any
	// Settings is the data of the ConfigMap that is the policies' parameter; nil stands for a ConfigMap that is missing.
	Settings map[string]string
	// NamespaceLabels are those of the object's namespace. Nil stands for an object without a namespace if it has none, and
	// for a namespace without labels otherwise.
	NamespaceLabels map[string]string
	// MayUse reports whether the user has the verb use on a Feature by its name; nil: on none.
	MayUse func(name string) bool
}

// Refusal is a policy's word on a request.
type Refusal struct {
	Policy  string `json:"policy"`
	Message string `json:"message"`
	// Failed means that the policy could not be evaluated, or lacks its parameter.
	Failed bool `json:"failed,omitempty"`
}

// Result is the outcome of a request.
type Result struct {
	// Refused are the policies that refuse; the API server reports the first of them. Nil if the request passes.
	Refused []Refusal `json:"refused,omitempty"`
	// Warned are those that let it pass with a warning.
	Warned []Refusal `json:"warned,omitempty"`
	// Object is the object to be stored if it differs from the sent one; nil otherwise.
	Object map[string]any `json:"object,omitempty"`
}

// Allowed reports whether the request passes.
func (r *Result) Allowed() bool { return len(r.Refused) == 0 }

// Simulator holds policies, compiled or not yet. Any number of goroutines may use it.
type Simulator struct {
	mutating   []mutatingPolicy
	validating []validatingPolicy
	// budgets are cost limits of policies, by name; they replace those of the API server.
	budgets map[string]int64
}

type validatingPolicy struct {
	policy    *admissionregistrationv1.ValidatingAdmissionPolicy
	binding   *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	matcher   func() (matchconditions.Matcher, error)
	validator func() (validating.Validator, error) // without the match conditions
}

type mutatingPolicy struct {
	policy  *admissionregistrationv1.MutatingAdmissionPolicy
	binding *admissionregistrationv1.MutatingAdmissionPolicyBinding
	matcher func() (matchconditions.Matcher, error)
	mutator func() (*mutator, error)
}

// mutator has the patches of a policy.
type mutator struct {
	compiler *plugincel.CompositedCompiler
	patchers []patch.Patcher
}

// New compiles the policies of a set. The error is the first of an expression that does not compile.
func New(set *policy.Set) (*Simulator, error) {
	s := NewLazy(set)
	for i := range s.validating {
		_, err := s.validating[i].matcher()
		_, again := s.validating[i].validator()
		if err = cmp.Or(err, again); err != nil {
			return nil, err
		}
	}
	for i := range s.mutating {
		_, err := s.mutating[i].matcher()
		_, again := s.mutating[i].mutator()
		if err = cmp.Or(err, again); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// NewLazy makes a simulator that compiles a policy when a request needs it: its match conditions for a request that it is about, and the rest for
// one that meets them. Then the error of an expression that does not compile is that of [Simulator.Run].
func NewLazy(set *policy.Set) *Simulator {
	s := &Simulator{}
	// Match conditions see no variables, so one compiler is enough for all.
	conditions := sync.OnceValue(func() *checked { return newChecked(false, nil) })
	for i := range set.Validating {
		p := &set.Validating[i]
		at := slices.IndexFunc(set.ValidatingBindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name
		})
		if at < 0 {
			continue // without a binding a policy does nothing
		}
		s.validating = append(s.validating, validatingPolicy{
			p, &set.ValidatingBindings[at], newMatcher(conditions, p.Name, p.Spec.ParamKind != nil, p.Spec.MatchConditions, p.Spec.FailurePolicy),
			compileOnce(p.Name, func() (validating.Validator, error) { return compileValidating(p) }),
		})
	}
	for i := range set.Mutating {
		p := &set.Mutating[i]
		at := slices.IndexFunc(set.MutatingBindings, func(b admissionregistrationv1.MutatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name
		})
		if at < 0 {
			continue
		}
		s.mutating = append(s.mutating, mutatingPolicy{
			p, &set.MutatingBindings[at], newMatcher(conditions, p.Name, p.Spec.ParamKind != nil, p.Spec.MatchConditions, p.Spec.FailurePolicy),
			compileOnce(p.Name, func() (*mutator, error) { return compileMutating(p) }),
		})
	}
	return s
}

// compileOnce compiles a part of a policy when it is first asked for.
func compileOnce[T any](policy string, compile func() (T, error)) func() (T, error) {
	return sync.OnceValues(func() (T, error) {
		out, err := compile()
		if err != nil {
			err = fmt.Errorf("policy %s: %w", policy, err)
		}
		return out, err
	})
}

// checked is a compiler that remembers the first error. The API server would report it with every request.
type checked struct {
	*plugincel.CompositedCompiler
	options plugincel.OptionalVariableDeclarations
	err     error
}

// newChecked compiles the variables of a policy. The API server compiles stored expressions with everything
// that it knows, and new ones only with what the version before it knows, which is not asked here.
func newChecked(params bool, variables []admissionregistrationv1.Variable) *checked {
	c, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	k := &checked{c, plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}, err}
	if err != nil {
		return k
	}
	for _, v := range variables {
		k.noteError(c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, k.options, environment.StoredExpressions))
	}
	return k
}

func (k *checked) noteError(r plugincel.CompilationResult) {
	if r.Error != nil && k.err == nil {
		k.err = fmt.Errorf("%s: %w", r.ExpressionAccessor.GetExpression(), r.Error)
	}
}

func (k *checked) compileConditions(list []plugincel.ExpressionAccessor, o plugincel.OptionalVariableDeclarations) plugincel.ConditionEvaluator {
	c := k.CompileCondition(list, o, environment.StoredExpressions)
	if errs := c.CompilationErrors(); len(errs) > 0 && k.err == nil {
		k.err = errs[0]
	}
	return c
}

// newMatcher compiles match conditions. The matcher is nil if there are none.
func newMatcher(compiler func() *checked, name string, params bool, list []admissionregistrationv1.MatchCondition, fail *admissionregistrationv1.FailurePolicyType) func() (matchconditions.Matcher, error) {
	return compileOnce(name, func() (matchconditions.Matcher, error) {
		if len(list) == 0 {
			return nil, nil
		}
		conditions := make([]plugincel.ExpressionAccessor, len(list))
		for i := range list {
			conditions[i] = (*matchconditions.MatchCondition)(&list[i])
		}
		k := *compiler()
		k.options.HasParams = params
		m := matchconditions.NewMatcher(k.compileConditions(conditions, k.options), fail, "policy", "validate", name)
		return m, k.err
	})
}

// compileValidating compiles the variables, rules and messages of a policy. Messages are written without an
// authorizer, as in the API server.
func compileValidating(p *admissionregistrationv1.ValidatingAdmissionPolicy) (validating.Validator, error) {
	k := newChecked(p.Spec.ParamKind != nil, p.Spec.Variables)
	if k.err != nil {
		return nil, k.err
	}
	var rules, messages []plugincel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		rules = append(rules, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		var message plugincel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	plain := k.options
	plain.HasAuthorizer = false
	v := validating.NewValidator(k.compileConditions(rules, k.options), nil, k.compileConditions(nil, k.options), k.compileConditions(messages, plain), p.Spec.FailurePolicy, nil)
	return v, k.err
}

// compileMutating compiles the variables and patches of a policy. Other mutations than JSON patches are an
// error.
func compileMutating(p *admissionregistrationv1.MutatingAdmissionPolicy) (*mutator, error) {
	k := newChecked(p.Spec.ParamKind != nil, p.Spec.Variables)
	if k.err != nil {
		return nil, k.err
	}
	m := &mutator{compiler: k.CompositedCompiler}
	options := k.options
	options.HasPatchTypes = true
	for _, mutation := range p.Spec.Mutations {
		if mutation.JSONPatch == nil {
			return nil, fmt.Errorf("a mutation is no JSONPatch")
		}
		e := k.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}, options, environment.StoredExpressions)
		if errs := e.CompilationErrors(); len(errs) > 0 && k.err == nil {
			k.err = errs[0]
		}
		m.patchers = append(m.patchers, patch.NewJSONPatcher(e))
	}
	return m, k.err
}

// access answers whether the user may use features.
type access struct{ may func(string) bool }

// Authorize implements the API server's interface.
func (a access) Authorize(_ context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.may != nil && at.GetVerb() == "use" && at.GetAPIGroup() == "sluice.dev" && at.GetResource() == "features" && a.may(at.GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// objects implements the interfaces that the API server's code needs for a resource, for unstructured objects.
type objects struct{ admission.ObjectInterfaces }

func (objects) GetObjectCreater() runtime.ObjectCreater {
	return unstructuredscheme.NewUnstructuredCreator()
}

func (objects) GetObjectTyper() runtime.ObjectTyper {
	return unstructuredscheme.NewUnstructuredObjectTyper()
}

// run is one request on its way.
type run struct {
	gvr       schema.GroupVersionResource
	attr      *admission.VersionedAttributes
	operation admissionregistrationv1.OperationType
	namespace *corev1.Namespace
	params    runtime.Object
	access    access
	budgets   map[string]int64
}

// Run returns the outcome of a request: mutating policies run first, then validating ones. It does not convert objects between
// versions, so it ignores policies that judge them in another version ([feature.Model.Converted]).
func (s *Simulator) Run(ctx context.Context, r *Request) (*Result, error) {
	n, err := newRun(r)
	if err != nil {
		return nil, err
	}
	n.budgets = s.budgets
	out := &Result{}
	before := n.attr.VersionedObject.Object()
	for i := range s.mutating {
		m := &s.mutating[i]
		if !n.matchesRequest(m.policy.Spec.MatchConstraints) || r.Object == nil {
			continue
		}
		params, stop, why := n.paramFor(m.policy.Spec.ParamKind, m.binding.Spec.ParamRef)
		if why != "" {
			out.Refused = append(out.Refused, Refusal{m.policy.Name, why, true})
		}
		if stop {
			continue
		}
		met, why, err := n.meetsConditions(ctx, m.matcher, params)
		if err != nil {
			return nil, err
		}
		if met {
			mutator, err := m.mutator()
			if err != nil {
				return nil, err
			}
			if err := n.runMutation(ctx, m.policy.Name, mutator, params); err != nil {
				why = err.Error()
			}
		}
		if why != "" {
			out.Refused = append(out.Refused, Refusal{m.policy.Name, why, true})
		}
	}
	// A patch replaces the object, and never changes it in place.
	if after, ok := n.attr.VersionedObject.Object().(*unstructured.Unstructured); ok && after != before {
		out.Object = after.Object
	}
	for i := range s.validating {
		v := &s.validating[i]
		if n.matchesRequest(v.policy.Spec.MatchConstraints) {
			if err := n.runValidation(ctx, v, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// newRun prepares a request as admission plugins get it. Objects are copied, and get the version of the
// request. The error says that there is no object at all.
func newRun(r *Request) (*run, error) {
	n := &run{gvr: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}, access: access{r.MayUse}}
	// A typed nil in an interface is no nil: objects that are not there stay out.
	var object, old runtime.Object
	var u *unstructured.Unstructured
	for _, p := range []struct {
		from map[string]any
		to   *runtime.Object
	}{{r.Old, &old}, {r.Object, &object}} {
		if p.from != nil {
			u = (&unstructured.Unstructured{Object: p.from}).DeepCopy()
			u.SetAPIVersion(n.gvr.GroupVersion().String())
			if u.GetKind() == "" {
				u.SetKind("Unknown")
			}
			*p.to = u
		}
	}
	if u == nil {
		return nil, fmt.Errorf("there is neither an object nor an old one")
	}
	operation := admission.Update
	n.operation = admissionregistrationv1.Update
	switch {
	case old == nil:
		operation, n.operation = admission.Create, admissionregistrationv1.Create
	case object == nil:
		operation, n.operation = admission.Delete, admissionregistrationv1.Delete
	}
	attr := admission.NewAttributesRecord(object, old, u.GroupVersionKind(), u.GetNamespace(), u.GetName(), n.gvr, "", operation, nil, false,
		&user.DefaultInfo{})
	n.attr = &admission.VersionedAttributes{
		Attributes: attr, VersionedKind: u.GroupVersionKind(),
		VersionedObject: admission.NewLazyObject(object), VersionedOldObject: admission.NewLazyObject(old),
	}
	if name := u.GetNamespace(); name != "" || r.NamespaceLabels != nil {
		n.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.NamespaceLabels}}
	}
	if r.Settings != nil {
		n.params = &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: r.Settings}
	}
	return n, nil
}

// matchesRequest reports whether a policy is about the request, by its rules alone.
func (n *run) matchesRequest(m *admissionregistrationv1.MatchResources) bool {
	if m == nil {
		return false
	}
	in := func(list []string, v string) bool { return slices.Contains(list, v) || slices.Contains(list, "*") }
	return slices.ContainsFunc(m.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return in(r.APIGroups, n.gvr.Group) && in(r.APIVersions, n.gvr.Version) && in(r.Resources, n.gvr.Resource) &&
			(slices.Contains(r.Operations, n.operation) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, n.attr.GetName()))
	})
}

// paramFor returns the parameter of a policy; stop says that the policy is not evaluated, and why is the reason if it refuses for that.
func (n *run) paramFor(kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef) (params runtime.Object, stop bool, why string) {
	switch {
	case kind == nil || ref == nil:
		return nil, false, ""
	case n.params != nil:
		return n.params, false, ""
	case ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.AllowAction:
		return nil, true, ""
	}
	return nil, true, fmt.Sprintf("the settings, ConfigMap %s/%s, are missing", ref.Namespace, ref.Name)
}

// meetsConditions asks the match conditions of a policy, and says why they cannot be evaluated. The error is that of one that does not compile.
func (n *run) meetsConditions(ctx context.Context, matcher func() (matchconditions.Matcher, error), params runtime.Object) (met bool, why string, err error) {
	m, err := matcher()
	if m == nil || err != nil {
		return true, "", err
	}
	result := m.Match(ctx, n.attr, params, n.access)
	if result.Error != nil {
		return false, result.Error.Error(), nil //nolint:nilerr // the API server answers so
	}
	return result.Matches, "", nil
}

// runMutation applies the patches of a policy, each to the result of the one before. The error is a refusal,
// as in the API server with failurePolicy Fail.
func (n *run) runMutation(ctx context.Context, policy string, m *mutator, params runtime.Object) error {
	ctx = m.compiler.CreateContext(ctx)
	for _, p := range m.patchers {
		object, err := p.Patch(ctx, patch.Request{
			MatchedResource: n.gvr, VersionedAttributes: n.attr, ObjectInterfaces: objects{}, Namespace: plugincel.CreateNamespaceObject(n.namespace),
			OptionalVariables: plugincel.OptionalVariableBindings{VersionedParams: params, Authorizer: n.access},
		}, n.costBudget(policy))
		if err != nil {
			return err
		}
		if u, ok := object.(*unstructured.Unstructured); ok {
			n.attr.UpdateObject(u)
		}
	}
	return nil
}

// costBudget is the cost limit of a policy.
func (n *run) costBudget(policy string) int64 {
	if b, ok := n.budgets[policy]; ok {
		return b
	}
	return celconfig.RuntimeCELCostBudget
}

// runValidation adds what a validating policy says to the result. The error is that of an expression that does
// not compile.
func (n *run) runValidation(ctx context.Context, v *validatingPolicy, out *Result) error {
	params, stop, why := n.paramFor(v.policy.Spec.ParamKind, v.binding.Spec.ParamRef)
	if why != "" {
		out.Refused = append(out.Refused, Refusal{v.policy.Name, why, true})
	}
	if stop {
		return nil
	}
	met, why, err := n.meetsConditions(ctx, v.matcher, params)
	if err != nil {
		return err
	}
	// With failurePolicy Ignore, a condition that fails leaves the policy out.
	if fail := v.policy.Spec.FailurePolicy; why != "" && (fail == nil || *fail == admissionregistrationv1.Fail) {
		out.add(v, Refusal{v.policy.Name, why, true})
	}
	if !met {
		return nil
	}
	validator, err := v.validator()
	if err != nil {
		return err
	}
	result := validator.Validate(ctx, n.gvr, n.attr, params, n.namespace, n.costBudget(v.policy.Name), n.access)
	for _, d := range result.Decisions {
		if d.Action != validating.ActionDeny {
			continue
		}
		out.add(v, Refusal{v.policy.Name, strings.TrimSpace(d.Message), d.Evaluation == validating.EvalError})
	}
	return nil
}

// add adds what a policy says as its binding has it.
func (r *Result) add(v *validatingPolicy, said Refusal) {
	if slices.Contains(v.binding.Spec.ValidationActions, admissionregistrationv1.Deny) {
		r.Refused = append(r.Refused, said)
	} else if slices.Contains(v.binding.Spec.ValidationActions, admissionregistrationv1.Warn) {
		r.Warned = append(r.Warned, said)
	}
}
