package simulate_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
)

// TestNumbersAreGatedHoweverTheyAreWritten gates one number, in several spellings, and writes it and another one in several spellings. A policy
// and the evaluator refuse the number, whatever its spelling on either side, and nothing else.
func TestNumbersAreGatedHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(crdYAML, "onError: {type: string, enum: [Stop, Continue, Retry]}", "num: {type: number}\n              s: {type: string}", 1)), &crd); err != nil {
		t.Fatal(err)
	}
	resource, err := feature.ResourceOf(&crd)
	if err != nil {
		t.Fatal(err)
	}
	var c v1alpha1.Component
	if err := yaml.UnmarshalStrict([]byte(componentYAML), &c); err != nil {
		t.Fatal(err)
	}
	for _, spellings := range [][]string{
		{"2", "2.0", "2e0", "20e-1", "0.2E+1"},
		{"12345678", "12345678.0", "1.2345678e7"},
		{"123456789.5", "1.234567895e8"},
		{"1e-7", "0.0000001"},
		{"10000000000000000000", "1e19"},
		{"-3", "-3.0"},
		{"9007199254740993"},
	} {
		for _, value := range spellings {
			f := v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
				Component: "demo", Gate: "Number", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
				Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "pipelines", Versions: []string{"v1"}, Field: "spec.num", Values: []string{value}}},
			}}
			m, findings := feature.Define(&c, []v1alpha1.Feature{f}, feature.Options{Resources: []feature.Resource{resource}})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			_, s := compile(t, m, policy.Options{})
			for _, object := range []string{`{spec: {s: "` + value + `"}}`, "{spec: {num: 5}}", "{spec: {num: 9007199254740992}}"} {
				checkNumber(t, m, s, value, object, false)
			}
			for _, spelling := range spellings {
				checkNumber(t, m, s, value, "{spec: {num: "+spelling+"}}", true)
			}
		}
	}
}

func checkNumber(t *testing.T, m *feature.Model, s *simulate.Simulator, value, object string, used bool) {
	t.Helper()
	o := read(t, object)
	res := run(t, s, &simulate.Request{Settings: map[string]string{}, Object: o})
	d := m.Resolve(nil, feature.Runtime{}).Compile().Evaluate(&feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Object: o})
	if res.Allowed() == used || d.Allowed() == used {
		t.Errorf("%s gated, %s written: the policy allows it: %t, the evaluator: %t", value, object, res.Allowed(), d.Allowed())
	}
}
