package policy

import (
	"encoding/json"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// merge joins policies that differ in the version only: they take one that names several.
func (s *Set) merge() {
	by := map[string]int{}
	renamed := map[string]string{}
	var kept []admissionregistrationv1.ValidatingAdmissionPolicy
	for _, p := range s.Validating {
		i, ok := by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)]
		if !ok || len(p.Annotations) == 0 {
			by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)] = len(kept)
			kept = append(kept, p)
			continue
		}
		join(kept[i].Spec.MatchConstraints, p.Spec.MatchConstraints)
		renamed[p.Name] = kept[i].Name
	}
	s.Validating = kept
	s.ValidatingBindings = slices.DeleteFunc(s.ValidatingBindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return renamed[b.Name] != "" })
	clear(by)
	var mutating []admissionregistrationv1.MutatingAdmissionPolicy
	for _, p := range s.Mutating {
		i, ok := by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)]
		if !ok || len(p.Annotations) == 0 {
			by[keyOf(p.Spec.MatchConstraints, p.Spec, p.Annotations)] = len(mutating)
			mutating = append(mutating, p)
			continue
		}
		join(mutating[i].Spec.MatchConstraints, p.Spec.MatchConstraints)
		renamed[p.Name] = mutating[i].Name
	}
	s.Mutating = mutating
	s.MutatingBindings = slices.DeleteFunc(s.MutatingBindings, func(b admissionregistrationv1.MutatingAdmissionPolicyBinding) bool { return renamed[b.Name] != "" })
	for i := range s.Enforced {
		if to := renamed[s.Enforced[i].Name]; to != "" {
			s.Enforced[i].Name = to
		}
	}
}

// keyOf is the same for policies that differ in the version only.
func keyOf(m *admissionregistrationv1.MatchResources, spec any, annotations map[string]string) string {
	versions := m.ResourceRules[0].APIVersions
	if versions[0] != "*" {
		m.ResourceRules[0].APIVersions = nil
	}
	data, err := json.Marshal([]any{spec, annotations})
	m.ResourceRules[0].APIVersions = versions
	if err != nil {
		return versions[0] // they have no values that JSON does not
	}
	return string(data)
}

func join(to, from *admissionregistrationv1.MatchResources) {
	v := &to.ResourceRules[0]
	v.APIVersions = append(v.APIVersions, from.ResourceRules[0].APIVersions...)
	slices.Sort(v.APIVersions)
}
