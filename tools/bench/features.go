package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/feature/rules"
	"sluice.dev/schema"
)

// featureSpeed measures what features cost, without an API server: the evaluator, and policies in the API server's code.
func featureSpeed(ctx context.Context, c *config) error {
	rows := [][]string{{"features", "object", "evaluator", "policies", "policies made in"}}
	for _, n := range []int{5, 10, 200} {
		for _, items := range []int{5, 100, 1000} {
			row, err := featureRow(ctx, n, items)
			if err != nil {
				return err
			}
			rows = append(rows, row...)
		}
	}
	c.table(rows...)
	return nil
}

// featureRow measures n closed features on a list of items: objects that use none of them, and some that do.
func featureRow(ctx context.Context, n, items int) ([][]string, error) {
	m, err := featureModel(n)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	set, err := policy.Compile(ctx, m, policy.Options{})
	if err != nil {
		return nil, err
	}
	made := time.Since(start)
	s, err := simulate.New(set)
	if err != nil {
		return nil, err
	}
	if set.Webhook {
		return nil, errors.New("something takes the webhook")
	}
	e := m.Resolve(nil, feature.Runtime{}).Compile()
	var rows [][]string
	for _, used := range []bool{false, true} {
		object := featureObject(items, used)
		r := &simulate.Request{Group: "bench.dev", Version: "v1", Resource: "things", Object: object, Old: object, Settings: map[string]string{}}
		var took, evaluated []time.Duration
		for range 20 {
			t := time.Now()
			res, err := s.Run(ctx, r)
			if err != nil {
				return nil, err
			}
			if !res.Allowed() {
				return nil, fmt.Errorf("an update that changes nothing is refused: %v", res.Refused)
			}
			took = append(took, time.Since(t))
		}
		request := &feature.Request{Group: "bench.dev", Version: "v1", Resource: "things", Object: object, Old: object}
		for range 100 {
			t := time.Now()
			if d := e.Evaluate(request); !d.Allowed() {
				return nil, errors.New("the evaluator refuses it")
			}
			evaluated = append(evaluated, time.Since(t))
		}
		what := fmt.Sprintf("%d items, none used", items)
		if used {
			what = fmt.Sprintf("%d items, used in each and stored", items)
		}
		rows = append(rows, []string{fmt.Sprint(n), what, fmt.Sprintf("%.1f µs", float64(median(evaluated))/1000), millis(median(took)), millis(made)})
	}
	return rows, nil
}

// featureModel makes n features, of which every tenth gates a field of list items.
func featureModel(n int) (*feature.Model, error) {
	keyed := "map"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := map[string]apiextensionsv1.JSONSchemaProps{}
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
		f := v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "bench", Gate: fmt.Sprintf("Field%d", i), Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts: []v1alpha1.Part{{Group: "bench.dev", Resource: "things", Field: path}},
		}}
		list = append(list, f)
	}
	spec["tasks"] = apiextensionsv1.JSONSchemaProps{
		Type: "array", XListType: &keyed, XListMapKeys: []string{"name"},
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"name"}, Properties: item}},
	}
	node, err := schema.New(&apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: spec}}})
	if err != nil {
		return nil, err
	}
	c := &v1alpha1.Component{}
	c.Name = "bench"
	c.Spec = v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "bench", Name: "flags"}}
	m, findings := rules.Define(c, list, feature.Options{Resources: []feature.Resource{{
		Group: "bench.dev", Resource: "things", Versions: []feature.Version{{Name: "v1", Schema: node}},
	}}})
	return m, findings.Err()
}

func featureObject(items int, used bool) map[string]any {
	tasks := make([]any, items)
	for i := range tasks {
		t := map[string]any{"name": fmt.Sprintf("task-%d", i), "image": "example.com/image:v1"}
		if used {
			t["field0"] = "x"
		}
		tasks[i] = t
	}
	return map[string]any{"metadata": map[string]any{"name": "x", "namespace": "default"}, "spec": map[string]any{"tasks": tasks}}
}
