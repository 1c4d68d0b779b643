package simulate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/schema"
)

// speedModel has n features, of which every tenth gates a field of list items.
func speedModel(t testing.TB, n int, when v1alpha1.WhenDisabled) *feature.Model {
	t.Helper()
	keyed := "map"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := map[string]apiextensionsv1.JSONSchemaProps{"x": text}
	item := map[string]apiextensionsv1.JSONSchemaProps{"name": text, "image": text}
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
			Component: "bench", Gate: fmt.Sprintf("Field%d", i), WhenDisabled: when, Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts: []v1alpha1.Part{{Group: "bench.dev", Resource: "things", Field: path}},
		}})
	}
	spec["tasks"] = apiextensionsv1.JSONSchemaProps{
		Type: "array", XListType: &keyed, XListMapKeys: []string{"name"},
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"}, Properties: item}},
	}
	root, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: spec}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{}
	c.Name = "bench"
	c.Spec = v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "bench", Name: "flags"}}
	m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "bench.dev", Resource: "things", Versions: []feature.Version{{Name: "v1", Schema: root}}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// byHand is a policy of the same gates as an engineer would write it: a validation for each, with a ratchet.
func byHand(n int) *policy.Set {
	p := admissionregistrationv1.ValidatingAdmissionPolicy{}
	p.Name = "hand"
	fail := admissionregistrationv1.Fail
	p.Spec.FailurePolicy = &fail
	p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{"bench.dev"}, APIVersions: []string{"v1"}, Resources: []string{"things"}},
	}}}}
	for i := range n {
		used := fmt.Sprintf("has(object.spec.field%d)", i)
		stored := fmt.Sprintf("oldObject != null && has(oldObject.spec.field%d)", i)
		if i%10 == 0 {
			used = fmt.Sprintf("has(object.spec.tasks) && object.spec.tasks.exists(t, has(t.field%d))", i)
			stored = fmt.Sprintf("oldObject != null && has(oldObject.spec.tasks) && oldObject.spec.tasks.exists(t, has(t.field%d))", i)
		}
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{
			Message:    fmt.Sprintf("Field%d is off", i),
			Expression: fmt.Sprintf("!(%s) || has(params.data) && 'field%[2]d' in params.data && params.data['field%[2]d'] == 'true' || %[3]s", used, i, stored),
		})
	}
	b := admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	b.Name = "hand"
	b.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "hand", ParamRef: &admissionregistrationv1.ParamRef{Name: "flags", Namespace: "bench"}, ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"}}
	return &policy.Set{Validating: []admissionregistrationv1.ValidatingAdmissionPolicy{p}, ValidatingBindings: []admissionregistrationv1.ValidatingAdmissionPolicyBinding{b}}
}

// byHandTelling is a hand-written policy whose message names all closed places, as the message of a compiled policy does. It has one
// validation with a message expression.
func byHandTelling(n int) *policy.Set {
	set := byHand(n)
	p := &set.Validating[0]
	var all, told []string
	for i, v := range p.Spec.Validations {
		place := fmt.Sprintf("'spec.field%d'", i)
		if i%10 == 0 {
			place = fmt.Sprintf("lists.range(object.spec.tasks.size()).filter(i, has(object.spec.tasks[i].field%[1]d)).map(i, 'spec.tasks[' + string(i) + '].field%[1]d').join(', ')", i)
		}
		all = append(all, "("+v.Expression+")")
		told = append(told, fmt.Sprintf("%s ? '' : %s + ': alpha; needs feature \"Field%d\"'", v.Expression, place, i))
	}
	p.Spec.Validations = []admissionregistrationv1.Validation{{
		Expression: strings.Join(all, " && "), Message: "a feature is off", MessageExpression: "[" + strings.Join(told, ", ") + "].filter(t, t != '').join('; also ')",
	}}
	return set
}

// speedObject returns an object with five tasks that uses the given numbers of open and closed gates.
func speedObject(open, closed int) map[string]any {
	spec := map[string]any{"x": "y"}
	tasks := make([]any, 5)
	for i := range tasks {
		task := map[string]any{"name": fmt.Sprintf("task-%d", i), "image": "example.com/image:v1"}
		if open > 0 {
			task["field0"] = "x"
			spec["field1"] = "x"
		}
		tasks[i] = task
	}
	for i := range closed {
		spec[fmt.Sprintf("field%d", i+2)] = "x"
	}
	spec["tasks"] = tasks
	return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": spec}
}

// changed returns the object with another value in a field that no gate covers.
func changed(o map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(o)
	_ = unstructured.SetNestedField(out, "z", "spec", "x") // its spec is a map
	return out
}

// TestManyGatesTakeFewVariables: the API server makes room for each variable of a policy whenever it asks the policy anything.
func TestManyGatesTakeFewVariables(t *testing.T) {
	t.Parallel()
	set, err := policy.Compile(t.Context(), speedModel(t, 200, v1alpha1.Reject), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	policies, variables := 0, 0
	for i := range set.Validating {
		if p := &set.Validating[i]; p.Annotations[policy.GatesAnnotation] != "" {
			policies++
			variables += len(p.Spec.Variables)
		}
	}
	if policies > 10 || variables > 250 {
		t.Errorf("200 gates of one resource take %d policies with %d variables", policies, variables)
	}
}

// TestVariablesAreShort: the work of the API server's checker grows with the square of an expression's length.
func TestVariablesAreShort(t *testing.T) {
	t.Parallel()
	for _, n := range []int{5, 50, 200} {
		for _, when := range []v1alpha1.WhenDisabled{v1alpha1.Reject, v1alpha1.Drop} {
			set, err := policy.Compile(t.Context(), speedModel(t, n, when), policy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var variables []admissionregistrationv1.Variable
			for i := range set.Validating {
				variables = append(variables, set.Validating[i].Spec.Variables...)
			}
			for i := range set.Mutating {
				variables = append(variables, set.Mutating[i].Spec.Variables...)
			}
			for _, v := range variables {
				if len(v.Expression) > 2048 {
					t.Errorf("%d gates, %s: %s has %d bytes", n, when, v.Name, len(v.Expression))
				}
			}
		}
	}
}

// TestManyFieldsOfOneValueAreDropped: many closed fields of one value are removed together, and no other field is.
func TestManyFieldsOfOneValueAreDropped(t *testing.T) {
	t.Parallel()
	const gates = 40
	set, err := policy.Compile(t.Context(), speedModel(t, gates, v1alpha1.Drop), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.New(set)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	settings := map[string]string{}
	for i := range gates {
		if r.IntN(4) == 0 {
			settings[fmt.Sprintf("field%d", i)] = "true"
		}
	}
	// draw makes an object with each field at one chance in n. Fields of tasks are those of every tenth gate.
	draw := func(n int) (spec, task map[string]any) {
		spec, task = map[string]any{"x": fmt.Sprint(r.Int())}, map[string]any{"name": "a"}
		for i := range gates {
			if r.IntN(n) > 0 {
				continue
			}
			if name := fmt.Sprintf("field%d", i); i%10 == 0 {
				task[name] = "y"
			} else {
				spec[name] = "y"
			}
		}
		return spec, task
	}
	object := func(spec, task map[string]any) map[string]any {
		spec = maps.Clone(spec)
		spec["tasks"] = []any{task}
		return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": spec}
	}
	dropped := 0
	for range 200 {
		spec, task := draw(1 + r.IntN(20))
		q := &simulate.Request{Group: "bench.dev", Version: "v1", Resource: "things", Object: object(spec, task), Settings: settings}
		var stored, storedTask map[string]any
		if r.IntN(2) == 0 {
			stored, storedTask = draw(3)
			q.Old = object(stored, storedTask)
		}
		closed := func(stored map[string]any) func(string, any) bool {
			return func(name string, _ any) bool {
				_, was := stored[name]
				return strings.HasPrefix(name, "field") && settings[name] != "true" && !was
			}
		}
		before := len(spec) + len(task)
		maps.DeleteFunc(spec, closed(stored))
		maps.DeleteFunc(task, closed(storedTask))
		res, err := s.Run(t.Context(), q)
		if err != nil || !res.Allowed() {
			t.Fatalf("%+v: %v", res, err)
		}
		got := q.Object
		if res.Object != nil {
			got = res.Object
		}
		if diff := cmp.Diff(object(spec, task)["spec"], got["spec"]); diff != "" {
			t.Errorf("of %v with %v stored (-want +got):\n%s", q.Object, q.Old, diff)
		}
		dropped += before - len(spec) - len(task)
	}
	if dropped < 200 {
		t.Errorf("%d fields were dropped; the test shows little", dropped)
	}
}

// BenchmarkPolicies measures what policies add to a request, in the API server's code, ours and one that is written by hand. The least
// time of a run says more than the mean where others use the machine.
func BenchmarkPolicies(b *testing.B) {
	requests := []struct {
		name        string
		object, old map[string]any
	}{
		{"create-unused", speedObject(0, 0), nil},
		{"create-open", speedObject(1, 0), nil},
		{"create-closed", speedObject(1, 1), nil},
		{"create-closed2", speedObject(1, 2), nil},
		{"update-unused", changed(speedObject(0, 0)), speedObject(0, 0)},
		{"update-open", changed(speedObject(1, 0)), speedObject(1, 0)},
		{"update-stored", changed(speedObject(1, 1)), speedObject(1, 1)},
	}
	for _, n := range []int{5, 50, 100, 200} {
		for _, how := range []string{"hand", "hand-telling", "reject", "drop"} {
			b.Run(fmt.Sprintf("%s-%d", how, n), func(b *testing.B) {
				set := byHand(n)
				switch how {
				case "hand":
				case "hand-telling":
					set = byHandTelling(n)
				default:
					when := v1alpha1.Reject
					if how == "drop" {
						when = v1alpha1.Drop
					}
					var err error
					if set, err = policy.Compile(b.Context(), speedModel(b, n, when), policy.Options{}); err != nil {
						b.Fatal(err)
					}
					if set.Webhook {
						b.Fatal("webhook")
					}
				}
				s, err := simulate.New(set)
				if err != nil {
					b.Fatal(err)
				}
				for i := range requests {
					r := &requests[i]
					b.Run(r.name, func(b *testing.B) {
						q := &simulate.Request{Group: "bench.dev", Version: "v1", Resource: "things", Object: r.object, Old: r.old, Settings: map[string]string{"field0": "true", "field1": "true"}}
						b.ReportAllocs()
						least := time.Hour
						defer func() { b.ReportMetric(float64(least.Nanoseconds())/1000, "min-µs/op") }()
						for b.Loop() {
							start := time.Now()
							res, err := s.Run(b.Context(), q)
							least = min(least, time.Since(start))
							if err != nil {
								b.Fatal(err)
							}
							if want := !strings.HasPrefix(r.name, "create-closed") || how == "drop"; res.Allowed() != want {
								b.Fatalf("%+v", res)
							}
						}
					})
				}
			})
		}
	}
}
