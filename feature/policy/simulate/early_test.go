package simulate_test

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/schema"
)

// gatedThings are n features, every tenth of which gates a field of list items.
func gatedThings(t testing.TB, n int) *feature.Model {
	t.Helper()
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec, item := map[string]apiextensionsv1.JSONSchemaProps{"x": text}, map[string]apiextensionsv1.JSONSchemaProps{"name": text, "image": text}
	var list []v1alpha1.Feature
	for i := range n {
		name := fmt.Sprintf("field%d", i)
		path := "spec." + name
		if i%10 == 0 {
			item[name] = text
			path = "spec.tasks[*]." + name
		} else {
			spec[name] = text
		}
		list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "early", Gate: fmt.Sprintf("Field%d", i), Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "pipelines", Field: path}},
		}})
	}
	keyed := "map"
	spec["tasks"] = apiextensionsv1.JSONSchemaProps{Type: "array", XListType: &keyed, XListMapKeys: []string{"name"}, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: item}}}
	root, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: spec}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{}
	c.Name = "early"
	c.Spec = v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "early", Name: "flags"}}
	m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: root}}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// byHand is a policy of the same gates as somebody would write it: one validation for each, without a ratchet.
func byHand(n int) *policy.Set {
	p := admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"demo.dev"}, APIVersions: []string{"v1"}, Resources: []string{"pipelines"}},
	}}}}
	for i := range n {
		on := fmt.Sprintf("(has(params.data) && 'field%[1]d' in params.data && params.data['field%[1]d'] == 'true')", i)
		used := fmt.Sprintf("has(object.spec.field%d)", i)
		if i%10 == 0 {
			used = fmt.Sprintf("has(object.spec.tasks) && object.spec.tasks.exists(t, has(t.field%d))", i)
		}
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: fmt.Sprintf("!(%s) || %s", used, on), Message: fmt.Sprintf("Field%d is off", i)})
	}
	ref := &admissionregistrationv1.ParamRef{Namespace: "early", Name: "flags"}
	return &policy.Set{
		Validating: []admissionregistrationv1.ValidatingAdmissionPolicy{p},
		ValidatingBindings: []admissionregistrationv1.ValidatingAdmissionPolicyBinding{{ObjectMeta: p.ObjectMeta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: p.Name, ParamRef: ref, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}},
	}
}

// usesOpen is an object with five tasks that uses what is open, or what is closed as well.
func usesOpen(used, closed bool) map[string]any {
	spec := map[string]any{"x": "y"}
	var tasks []any
	for i := range 5 {
		task := map[string]any{"name": fmt.Sprintf("task-%d", i), "image": "example.com/image:v1"}
		if used {
			task["field0"] = "x"
		}
		tasks = append(tasks, task)
	}
	spec["tasks"] = tasks
	if used {
		spec["field1"] = "x"
	}
	if closed {
		spec["field2"] = "x"
	}
	return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "team"}, "spec": spec}
}

// BenchmarkPolicies holds ours against one that is written by hand.
func BenchmarkPolicies(b *testing.B) {
	for _, n := range []int{5, 10, 50, 200} {
		set, err := policy.Compile(b.Context(), gatedThings(b, n), policy.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for name, set := range map[string]*policy.Set{"ours": set, "by-hand": byHand(n)} {
			s, err := simulate.New(set)
			if err != nil {
				b.Fatal(err)
			}
			for what, object := range map[string]map[string]any{"none": usesOpen(false, false), "open": usesOpen(true, false), "closed": usesOpen(true, true)} {
				b.Run(fmt.Sprintf("%d/%s/%s", n, what, name), func(b *testing.B) {
					for b.Loop() {
						res, err := s.Run(b.Context(), &simulate.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Object: object, Settings: map[string]string{"field0": "true", "field1": "true"}, NamespaceLabels: map[string]string{}})
						if err != nil || res.Allowed() == (what == "closed") {
							b.Fatal(err, res)
						}
					}
				})
			}
		}
	}
}
