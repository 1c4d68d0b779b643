package simulate_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/schema"
)

// manyModel has n features with names as long as people make them, one field each, which namespaces and users may open.
func manyModel(t testing.TB, n int, when v1alpha1.WhenDisabled) *feature.Model {
	t.Helper()
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	var list []v1alpha1.Feature
	for i := range n {
		field := fmt.Sprintf("fieldWithANameOfTheUsualLength%d", i)
		properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "tekton-pipelines", Gate: fmt.Sprintf("FeatureWithANameOfTheUsualLength%d", i), WhenDisabled: when,
			Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts:  []v1alpha1.Part{{Group: "demo.dev", Resource: "pipelines", Field: "spec." + field}},
		}})
	}
	root, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: properties}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Component{}
	c.Name = "tekton-pipelines"
	c.Spec = v1alpha1.ComponentSpec{
		Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "tekton-pipelines", Name: "feature-flags"},
		OptIn: &v1alpha1.OptIn{NamespaceLabel: true, RBAC: true},
	}
	m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: root}}}}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// using is an object that uses the first n fields.
func using(n int) map[string]any {
	spec := map[string]any{}
	for i := range n {
		spec[fmt.Sprintf("fieldWithANameOfTheUsualLength%d", i)] = "x"
	}
	return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "team"}, "spec": spec}
}

// TestManyFeaturesAreEnforcedByPolicies holds what an expression may have of text, and what questions to the authorizer cost:
// who may use all of them uses all at once, and who may use none is refused, and told of each.
func TestManyFeaturesAreEnforcedByPolicies(t *testing.T) {
	t.Parallel()
	const n = 200
	set, s := compile(t, manyModel(t, n, v1alpha1.Reject), policy.Options{})
	for _, e := range set.Enforced {
		if e.Kind != "ValidatingAdmissionPolicy" {
			t.Fatalf("%s takes the webhook: %s", e.Gate, e.Reason)
		}
	}
	if len(set.Enforced) != n {
		t.Fatalf("%d parts are enforced", len(set.Enforced))
	}
	r := &simulate.Request{Settings: map[string]string{}, Object: using(n), MayUse: func(string) bool { return true }}
	if res := run(t, s, r); !res.Allowed() {
		t.Errorf("who may use all is refused: %v", res.Refused[0])
	}
	r.MayUse = nil
	told := map[string]bool{}
	for _, refusal := range run(t, s, r).Refused {
		if refusal.Failed || len(refusal.Message) > 5120 {
			t.Fatalf("%+v", refusal)
		}
		for i := range n {
			if gate := fmt.Sprintf("FeatureWithANameOfTheUsualLength%d", i); strings.Contains(refusal.Message, gate+")") || strings.Contains(refusal.Message, gate+`"`) {
				told[gate] = true
			}
		}
	}
	if len(told) != n {
		t.Errorf("%d of %d are told", len(told), n)
	}
}

// TestManyFeaturesAreDropped does so where policies drop all, each up to the number of questions to the authorizer that it can ask.
func TestManyFeaturesAreDropped(t *testing.T) {
	t.Parallel()
	const n = 40
	set, s := compile(t, manyModel(t, n, v1alpha1.Drop), policy.Options{})
	for _, e := range set.Enforced {
		if e.Kind == "" {
			t.Errorf("%s takes the webhook: %s", e.Gate, e.Reason)
		}
	}
	if len(set.Mutating) < 3 { // one of them keeps the settings watched
		t.Errorf("%d policies", len(set.Mutating))
	}
	res := run(t, s, &simulate.Request{Settings: map[string]string{}, Object: using(n)})
	if !res.Allowed() || res.Object == nil {
		t.Fatalf("%+v", res)
	}
	if left, ok := res.Object["spec"].(map[string]any); !ok || len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	told := map[string]bool{}
	for _, w := range res.Warned {
		for _, m := range regexp.MustCompile(`feature "(\w+)"`).FindAllStringSubmatch(w.Message, -1) {
			told[m[1]] = true
		}
	}
	if len(res.Warned) != len(set.Mutating)-1 || len(told) == 0 {
		t.Errorf("%d of %d policies tell of %d gates", len(res.Warned), len(set.Mutating)-1, len(told))
	}
	// What was dropped is told until the next write.
	after := using(0)
	after["metadata"] = res.Object["metadata"]
	if res = run(t, s, &simulate.Request{Settings: map[string]string{}, Object: after}); len(res.Warned) > 0 {
		t.Errorf("a write that uses nothing is warned of: %v, %v", res.Object, res.Refused)
	}
}

// TestTheGuardAgreesWithTheParser has what depends on more than settings: processes that are away, resources whose highest
// stage is Beta, and opting in have no say in whether settings are good.
func TestTheGuardAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	m := model(t, `
metadata: {name: demo}
spec:
  release: v1.5.0
  defaultLevel: stable
  configMap: {namespace: demo-system, name: feature-flags}
  optIn: {namespaceLabel: true}
  resources: [{group: demo.dev, resource: pipelines, highestStage: Beta}]
  settings: [{name: size, minimum: -1, maximum: 4096}, {name: least, minimum: 7, pattern: "[0-9]*7"}]
`, `
- {gate: Base, requiredProcesses: [webhook], parts: [{field: spec.tasksTimeout}]}
- {gate: Top, requires: [Base], parts: [{field: spec.onError, values: [Continue]}]}
- {gate: Early, stages: [{stage: Beta, release: v1.0.0}], parts: [{field: "spec.env[*].secretRef"}]}
- {gate: OnEarly, requires: [Early], parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: Solo, parts: [{field: spec.onError, values: [Retry]}]}
`)
	set, s := compile(t, m, policy.Options{})
	if !slices.ContainsFunc(set.Enforced, func(e policy.Enforced) bool { return e.Gate == "Base" && e.Kind != "" }) {
		t.Fatal("Base is not enforced: processes are taken as reporting")
	}
	for _, list := range []string{"=true", "=true,Nobody=true", ",", "Solo=true,", "=", " = "} {
		_, findings := m.ParseSettings(map[string]string{"feature-gates": list})
		res := run(t, s, &simulate.Request{
			Version: "v1", Resource: "configmaps",
			Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": "demo-system"}, "data": map[string]any{"feature-gates": list}},
		})
		if fine := findings.Err() == nil; fine != res.Allowed() {
			t.Errorf("feature-gates: %q: the parser says %v, the guard %v", list, findings, res.Refused)
		}
	}
	good, bad := 0, 0
	for _, value := range []string{"", "0", "-1", "-2", "4096", "4097", "+5", " 5", "5 ", "5\n", "05", "5.0", "1e3", "0x10", "x", "999999999999999999", "9999999999999999999", "7", "17", "٣"} {
		for _, key := range []string{"size", "least"} {
			_, findings := m.ParseSettings(map[string]string{key: value})
			res := run(t, s, &simulate.Request{
				Version: "v1", Resource: "configmaps",
				Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": "demo-system"}, "data": map[string]any{key: value}},
			})
			if fine := findings.Err() == nil; fine != res.Allowed() {
				t.Errorf("%s: %q: the parser says %v, the guard %v", key, value, findings, res.Refused)
			}
		}
	}
	for i := range 1 << 10 {
		data := map[string]string{}
		for j, key := range []string{"base", "top", "early", "on-early", "solo"} {
			switch i >> (2 * j) & 3 {
			case 0:
			case 1:
				data[key] = "true"
			case 2:
				data[key] = "false"
			case 3:
				data["enable-api-fields"] = []string{"beta", "alpha"}[j%2]
			}
		}
		_, findings := m.ParseSettings(data)
		values := map[string]any{}
		for k, v := range data {
			values[k] = v
		}
		res := run(t, s, &simulate.Request{
			Version: "v1", Resource: "configmaps", NamespaceLabels: map[string]string{"feature.sluice.dev/demo.Base": "enabled"},
			Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": "demo-system"}, "data": values},
		})
		if fine := findings.Err() == nil; fine != res.Allowed() {
			t.Fatalf("%v: the parser says %v, the guard %v", data, findings, res.Refused)
		} else if fine {
			good++
		} else {
			bad++
		}
	}
	if good < 100 || bad < 100 {
		t.Errorf("%d are good and %d bad", good, bad)
	}
}

// TestObjectsThatUseNothingPassWhateverTheirSize goes through sizes up to and beyond those that a condition goes through.
func TestObjectsThatUseNothingPassWhateverTheirSize(t *testing.T) {
	t.Parallel()
	var parts strings.Builder
	parts.WriteString("- {gate: Windows, parts: [{field: 'spec.tasks[*].steps[*].script', pattern: '#!win'}]}\n- {gate: TaskTimeout, parts: [{field: 'spec.tasks[*].timeout'}]}\n")
	_, s := compile(t, model(t, componentYAML, parts.String()), policy.Options{})
	for _, n := range []int{4_000, 8_000, 13_000, 19_999, 20_001} {
		tasks := make([]any, n)
		for i := range tasks {
			tasks[i] = map[string]any{"name": fmt.Sprintf("a-task-with-a-name-%d", i), "policy": "Old"}
		}
		for _, old := range []map[string]any{nil, {"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"tasks": tasks[:n-1]}}} {
			r := &simulate.Request{Settings: map[string]string{}, Old: old, Object: map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"tasks": tasks}}}
			if res := run(t, s, r); !res.Allowed() {
				t.Errorf("%d items, update %t: %v", n, old != nil, res.Refused[0].Message)
			}
		}
	}
}

// TestAUseAmongTooManyItemsIsRefused: with more items than an expression goes through, one use is enough.
func TestAUseAmongTooManyItemsIsRefused(t *testing.T) {
	t.Parallel()
	_, s := compile(t, model(t, componentYAML, `[{gate: TaskTimeout, parts: [{field: "spec.tasks[*].timeout"}]}]`), policy.Options{})
	tasks := make([]any, 20_001)
	for i := range tasks {
		tasks[i] = map[string]any{"name": fmt.Sprintf("a-task-%d", i)}
	}
	tasks[20_000] = map[string]any{"name": "last", "timeout": "1h"}
	res := run(t, s, &simulate.Request{Settings: map[string]string{}, Object: map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"tasks": tasks}}})
	if res.Allowed() || !strings.Contains(res.Refused[0].Message, "too many to tell which") || res.Refused[0].Failed {
		t.Errorf("%+v", res.Refused)
	}
}

// TestPartsOfShortListsStayInPolicies draws bounds from below to beyond the number of items in the samples that expressions are measured
// with. A list may have as many items as its bound, and policies refuse or drop all of them.
func TestPartsOfShortListsStayInPolicies(t *testing.T) {
	t.Parallel()
	field := func(b int, inSchema bool, within apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &within}}
		if inSchema {
			n := int64(b)
			list.MaxItems = &n
		}
		return list
	}
	for _, bound := range []int{1, 2, 7, 99, 100, 101, 299, 300, 301, 1000} {
		for _, inSchema := range []bool{false, true} {
			for _, when := range []v1alpha1.WhenDisabled{v1alpha1.Reject, v1alpha1.Drop} {
				t.Run(fmt.Sprintf("%d in schema %t %s", bound, inSchema, when), func(t *testing.T) {
					t.Parallel()
					text := apiextensionsv1.JSONSchemaProps{Type: "string"}
					step := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"mode": text, "script": text}}
					step.Properties["steps"] = field(bound, inSchema, apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"mode": text}})
					root, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"tasks": field(bound, inSchema, step)}},
					}})
					if err != nil {
						t.Fatal(err)
					}
					var list []v1alpha1.Feature
					for i, path := range []string{"spec.tasks[*].mode", "spec.tasks[*].script", "spec.tasks[*].steps[*].mode"} {
						part := v1alpha1.Part{Group: "demo.dev", Resource: "pipelines", Field: path}
						if !inSchema {
							part.MaxItems = int32(bound)
						}
						list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
							Component: "demo", Gate: fmt.Sprintf("G%d", i), WhenDisabled: when, Parts: []v1alpha1.Part{part},
							Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
						}})
					}
					c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.5.0"}}
					c.Name = "demo"
					m, findings := feature.Define(c, list, feature.Options{Resources: []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: root}}}}})
					if err := findings.Err(); err != nil {
						t.Fatal(err)
					}
					set, s := compile(t, m, policy.Options{})
					for _, e := range set.Enforced {
						if e.Kind == "" {
							t.Errorf("%s takes the webhook: %s", e.Gate, e.Reason)
						}
					}
					tasks := make([]any, bound)
					for i := range tasks {
						tasks[i] = map[string]any{"mode": "x", "script": "x"}
					}
					tasks[bound-1] = map[string]any{"mode": "x", "script": "x", "steps": []any{map[string]any{"mode": "x"}}}
					res := run(t, s, &simulate.Request{Object: map[string]any{"metadata": map[string]any{"name": "x", "namespace": "team"}, "spec": map[string]any{"tasks": tasks}}})
					if when == v1alpha1.Reject {
						if res.Allowed() || slices.ContainsFunc(res.Refused, func(r simulate.Refusal) bool { return r.Failed }) {
							t.Errorf("refused: %+v", res.Refused)
						}
						return
					}
					if !res.Allowed() || strings.Contains(fmt.Sprint(res.Object["spec"]), "x") {
						t.Errorf("refused: %+v, left: %v", res.Refused, res.Object)
					}
				})
			}
		}
	}
}

// TestManyItemsOfAnUnknownFormAreDropped has a part in what may be a list or a map, as far as the definitions say.
func TestManyItemsOfAnUnknownFormAreDropped(t *testing.T) {
	t.Parallel()
	only := k8sschema.GroupResource{Group: "apps", Resource: "deployments"}
	_, s := compile(t, example(t, "kubernetes"), policy.Options{Only: &only, Unguarded: true})
	mounts := make([]any, 1740)
	for i := range mounts {
		mounts[i] = map[string]any{"name": fmt.Sprint("volume", i), "mountPath": fmt.Sprint("/", i), "recursiveReadOnly": "Enabled"}
	}
	object := map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "volumeMounts": mounts}}},
	}}}
	res, err := s.Run(t.Context(), &simulate.Request{Group: "apps", Version: "v1", Resource: "deployments", Object: object, Settings: map[string]string{}})
	if err != nil || !res.Allowed() || strings.Contains(fmt.Sprint(res.Object["spec"]), "recursiveReadOnly") {
		t.Errorf("%v: %v", err, messages(res.Refused))
	}
}
