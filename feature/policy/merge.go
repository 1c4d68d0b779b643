package policy

// Which policies are alike but for the version? They become one, which names several versions. For example, a field that v1 and v1beta1
// have at the same place.

import (
	"encoding/json"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mergeVersions joins policies that differ in the version only: they take one that names several.
func (s *Set) mergeVersions() {
	renamed := map[string]string{}
	s.Validating = mergePolicies(s.Validating, renamed, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) (*metav1.ObjectMeta, *admissionregistrationv1.MatchResources, any) {
		return &p.ObjectMeta, p.Spec.MatchConstraints, p.Spec
	})
	s.Mutating = mergePolicies(s.Mutating, renamed, func(p *admissionregistrationv1.MutatingAdmissionPolicy) (*metav1.ObjectMeta, *admissionregistrationv1.MatchResources, any) {
		return &p.ObjectMeta, p.Spec.MatchConstraints, p.Spec
	})
	s.ValidatingBindings = slices.DeleteFunc(s.ValidatingBindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return renamed[b.Name] != "" })
	s.MutatingBindings = slices.DeleteFunc(s.MutatingBindings, func(b admissionregistrationv1.MutatingAdmissionPolicyBinding) bool { return renamed[b.Name] != "" })
	for i := range s.Enforced {
		if to := renamed[s.Enforced[i].Name]; to != "" {
			s.Enforced[i].Name = to
		}
	}
}

// mergePolicies joins policies of one kind, and records the names of those that went into others. parts returns the parts of a policy.
func mergePolicies[P any](list []P, renamed map[string]string, parts func(*P) (meta *metav1.ObjectMeta, matches *admissionregistrationv1.MatchResources, spec any)) (kept []P) {
	by := map[string]int{}
	for i := range list {
		meta, matches, spec := parts(&list[i])
		key := keyOf(matches, spec, meta.Annotations)
		at, ok := by[key]
		if !ok || len(meta.Annotations) == 0 {
			by[key] = len(kept)
			kept = append(kept, list[i])
			continue
		}
		first, all, _ := parts(&kept[at])
		addVersions(all, matches)
		renamed[meta.Name] = first.Name
	}
	return kept
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

// addVersions adds the versions of one rule to those of another, sorted.
func addVersions(to, from *admissionregistrationv1.MatchResources) {
	v := &to.ResourceRules[0]
	v.APIVersions = append(v.APIVersions, from.ResourceRules[0].APIVersions...)
	slices.Sort(v.APIVersions)
}
