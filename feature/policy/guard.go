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

// matchNothing matches no request.
func matchNothing() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"never.feature.sluice.dev"}, APIVersions: []string{"v1"}, Resources: []string{"nothing"}},
		}}},
	}
}

// addAnchors adds bindings that never match and keep the API server watching the settings. Without them it would stop when the
// last binding goes, and go on with what it saw then when one comes back (kubernetes/kubernetes issue 130887).
func (c *compiler) addAnchors() {
	s := c.set
	name := boundedName(strings.Join([]string{"features", c.model.Component(), anchorName}, "."))
	ignore := admissionregistrationv1.Ignore
	if len(s.Validating) > 0 {
		s.Validating = append(s.Validating, admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta: typeMeta("ValidatingAdmissionPolicy"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &ignore, ParamKind: settingsKind(), MatchConstraints: matchNothing(),
				Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
			},
		})
		s.ValidatingBindings = append(s.ValidatingBindings, admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("ValidatingAdmissionPolicyBinding"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ParamRef: c.settingsRef(), ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		})
	}
	if len(s.Mutating) > 0 {
		s.Mutating = append(s.Mutating, admissionregistrationv1.MutatingAdmissionPolicy{
			TypeMeta: typeMeta("MutatingAdmissionPolicy"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				FailurePolicy: &ignore, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy, ParamKind: settingsKind(), MatchConstraints: matchNothing(),
				Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "[JSONPatch{op: 'test', path: '/kind', value: 'Nothing'}]"}}},
			},
		})
		s.MutatingBindings = append(s.MutatingBindings, admissionregistrationv1.MutatingAdmissionPolicyBinding{
			TypeMeta: typeMeta("MutatingAdmissionPolicyBinding"), ObjectMeta: c.objectMeta(name, nil),
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name, ParamRef: c.settingsRef()},
		})
	}
}
