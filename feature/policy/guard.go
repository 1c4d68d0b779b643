package policy

// In which order are the objects of a set applied, and what keeps the API server watching the settings? For example, a policy comes before
// its binding, and a binding that matches nothing stays when the last feature goes.

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// IsAnchor reports whether an object of this name matches nothing, and only keeps the API server watching the settings.
func IsAnchor(name string) bool { return name[strings.LastIndex(name, ".")+1:] == anchorName }

// Objects returns all objects in the order in which to apply them: each policy before its binding, what guards the settings
// and keeps them watched first.
func (s *Set) Objects() []runtime.Object {
	var out []runtime.Object
	for _, first := range []bool{true, false} {
		out = appendNamed(out, s.Validating, first)
		out = appendNamed(out, s.Mutating, first)
		out = appendNamed(out, s.ValidatingBindings, first)
		out = appendNamed(out, s.MutatingBindings, first)
	}
	return out
}

// appendNamed appends the objects of a list that come first, or the others.
func appendNamed[T any, P interface {
	*T
	runtime.Object
	metav1.Object
}](out []runtime.Object, list []T, first bool) []runtime.Object {
	for i := range list {
		p := P(&list[i])
		name := p.GetName()
		last := name[strings.LastIndex(name, ".")+1:]
		if (IsAnchor(name) || last == guardName || strings.HasPrefix(last, guardName+"-")) == first {
			out = append(out, p)
		}
	}
	return out
}

const (
	anchorName = "anchor"
	guardName  = "settings"
)

// GuardName is the name of the policy that judges the settings of a component when they are written.
func GuardName(component string) string {
	return boundedName("features." + component + "." + guardName)
}

// addAnchors adds bindings that never match and keep the API server watching the settings.
func (c *compiler) addAnchors() {
	s := c.set
	name := boundedName(strings.Join([]string{"features", c.model.Component(), anchorName}, "."))
	anchors := Anchors(c.objectMeta(name, nil), c.settingsRef())
	if len(s.Validating) > 0 {
		s.Validating = append(s.Validating, anchors.Validating...)
		s.ValidatingBindings = append(s.ValidatingBindings, anchors.ValidatingBindings...)
	}
	if len(s.Mutating) > 0 {
		s.Mutating = append(s.Mutating, anchors.Mutating...)
		s.MutatingBindings = append(s.MutatingBindings, anchors.MutatingBindings...)
	}
}

// Anchors returns a policy and a binding of each kind that match nothing, and have a ConfigMap as their parameter. An API server that
// loses its last binding with such a parameter stops watching ConfigMaps, and goes on with what it saw then when one comes back
// (kubernetes/kubernetes issue 130887).
func Anchors(m metav1.ObjectMeta, settings *admissionregistrationv1.ParamRef) *Set {
	nothing := &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"never.feature.sluice.dev"}, APIVersions: []string{"v1"}, Resources: []string{"nothing"}},
		}}},
	}
	out := &Set{}
	out.addValidating(m, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Ignore), ParamKind: settingsKind(), MatchConstraints: nothing,
		Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
	}, settings, admissionregistrationv1.Deny)
	out.addMutating(m, admissionregistrationv1.MutatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Ignore), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy, ParamKind: settingsKind(), MatchConstraints: nothing.DeepCopy(),
		Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "[JSONPatch{op: 'test', path: '/kind', value: 'Nothing'}]"}}},
	}, settings)
	return out
}

// addValidating adds a policy and its binding.
func (s *Set) addValidating(m metav1.ObjectMeta, spec admissionregistrationv1.ValidatingAdmissionPolicySpec, params *admissionregistrationv1.ParamRef, actions ...admissionregistrationv1.ValidationAction) {
	s.Validating = append(s.Validating, admissionregistrationv1.ValidatingAdmissionPolicy{TypeMeta: typeMeta("ValidatingAdmissionPolicy"), ObjectMeta: m, Spec: spec})
	s.ValidatingBindings = append(s.ValidatingBindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: *m.DeepCopy(),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: m.Name, ParamRef: params, ValidationActions: actions},
	})
}

// addMutating adds a policy and its binding.
func (s *Set) addMutating(m metav1.ObjectMeta, spec admissionregistrationv1.MutatingAdmissionPolicySpec, params *admissionregistrationv1.ParamRef) {
	s.Mutating = append(s.Mutating, admissionregistrationv1.MutatingAdmissionPolicy{TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: m, Spec: spec})
	s.MutatingBindings = append(s.MutatingBindings, admissionregistrationv1.MutatingAdmissionPolicyBinding{
		TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: *m.DeepCopy(),
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: m.Name, ParamRef: params},
	})
}
