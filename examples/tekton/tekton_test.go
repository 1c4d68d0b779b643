package tekton_test

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/tools/featuregen"
)

// documents reads the documents of a file of one kind each.
func documents(t *testing.T, file string, read func(kind string, text []byte) error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(text, &head); err != nil {
			t.Fatal(err)
		}
		if err := read(head.Kind, text); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

func example(t *testing.T) *feature.Model {
	t.Helper()
	var component v1alpha1.Component
	var features []v1alpha1.Feature
	var o feature.Options
	documents(t, "features.yaml", func(kind string, text []byte) error {
		if kind == "Component" {
			return yaml.UnmarshalStrict(text, &component)
		}
		features = append(features, v1alpha1.Feature{})
		return yaml.UnmarshalStrict(text, &features[len(features)-1])
	})
	documents(t, "crds.yaml", func(_ string, text []byte) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return err
		}
		r, err := feature.ResourceOf(&crd)
		if os.Getenv("SLUICE_ALL_VERSIONS") == "" { // both have the same forms
			r.Versions = slices.DeleteFunc(r.Versions, func(v feature.Version) bool { return v.Name != "v1" })
		}
		o.Resources = append(o.Resources, r)
		return err
	})
	m, findings := feature.Define(&component, features, o)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestThePoliciesJudgeAsTheTableSays has each row of the table accepted and refused by policies alone, at each level and with its flag,
// in each place where a task or a pipeline is embedded.
func TestThePoliciesJudgeAsTheTableSays(t *testing.T) {
	m := example(t)
	set, err := policy.Compile(t.Context(), m, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range set.Enforced {
		if e.Kind == "" {
			t.Errorf("%s of %s %s takes the webhook: %s", e.Gate, e.Resource, e.Version, e.Reason)
		}
	}
	s, err := simulate.New(set)
	if err != nil {
		t.Fatal(err)
	}
	_, cases, _ := featuregen.Tekton("tekton-pipelines")
	accepted, refused := 0, 0
	judge := func(c *featuregen.TektonCase, settings map[string]string, want bool) {
		t.Helper()
		res, err := s.Run(t.Context(), &simulate.Request{
			Group: featuregen.TektonGroup, Version: "v1", Resource: c.Resource, Settings: settings,
			Object: map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": c.Spec},
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case res.Allowed() != want:
			t.Errorf("%v: %s %s: allowed %v, %v", settings, c.Resource, featuregen.Show(c.Spec), res.Allowed(), res.Refused)
		case want:
			accepted++
		default:
			refused++
			if said := res.Refused[0]; said.Failed || !strings.Contains(said.Message, c.Place+": ") || !strings.Contains(said.Message, c.Need()) {
				t.Errorf("%v: %s is not told: %v", settings, c.Place, said)
			}
		}
	}
	for i := range cases {
		c := &cases[i]
		if c.Gate != "" && m.Feature(c.Gate) == nil {
			continue // it stands in a proposal only
		}
		for _, level := range []v1alpha1.Level{"", v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha} {
			settings := map[string]string{}
			if level != "" {
				settings["enable-api-fields"] = string(level)
			}
			judge(c, settings, c.Gate == "" || c.Opens(cmp.Or(level, v1alpha1.LevelBeta)))
		}
		if c.Flag != "" {
			judge(c, map[string]string{"enable-api-fields": "stable", c.Flag: "true"}, true)
		}
	}
	if accepted < 200 || refused < 100 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
	t.Logf("%d targets; %d accepted, %d refused", len(set.Enforced), accepted, refused)
}
