package feature_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/feature"
)

// manyFeatures are n features of which the parts are spread over a kind in every form: fields, enum values, fields of
// items at two depths, values of a map, patterns.
func manyFeatures(n int, mode string) (features, schema string) {
	var f, root, item, step, env strings.Builder
	for i := range n {
		part := ""
		switch i % 6 {
		case 0:
			part = fmt.Sprintf("field: spec.f%d", i)
			fmt.Fprintf(&root, "      f%d: {type: string}\n", i)
		case 1:
			part = fmt.Sprintf("field: spec.e%d, values: [New]", i)
			fmt.Fprintf(&root, "      e%d: {type: string, enum: [Old, New]}\n", i)
		case 2:
			part = fmt.Sprintf(`field: "spec.tasks[*].f%d"`, i)
			fmt.Fprintf(&item, "            f%d: {type: string}\n", i)
		case 3:
			part = fmt.Sprintf(`field: "spec.tasks[*].steps[*].f%d"`, i)
			fmt.Fprintf(&step, "                  f%d: {type: string}\n", i)
		case 4:
			part = fmt.Sprintf(`field: "spec.env[*].f%d"`, i)
			fmt.Fprintf(&env, "            f%d: {type: string}\n", i)
		case 5:
			part = fmt.Sprintf(`field: "spec.tasks[*].script", pattern: '^\s*#!p%d'`, i)
		}
		fmt.Fprintf(&f, "- {gate: F%d, whenDisabled: %s, parts: [{%s}]}\n", i, mode, part)
	}
	schema = `
type: object
properties:
  metadata: {type: object}
  spec:
    type: object
    properties:
` + root.String() + `      env:
        type: object
        additionalProperties:
          type: object
          properties:
            value: {type: string}
` + env.String() + `      tasks:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          properties:
            name: {type: string}
            image: {type: string}
            script: {type: string}
            policy: {type: string}
` + item.String() + `            steps:
              type: array
              items:
                type: object
                properties:
                  name: {type: string}
                  script: {type: string}
` + step.String()
	return f.String(), schema
}

// typical is an object with tasks of three steps each; each task uses a closed feature if used.
func typical(tasks int, used bool) map[string]any {
	var list []any
	for i := range tasks {
		task := map[string]any{"name": fmt.Sprintf("task-%d", i), "image": "example.com/image:v1", "script": "#!/bin/sh\nset -e\nmake build\n", "policy": "Old"}
		if used {
			task["f2"] = "x"
		}
		var steps []any
		for j := range 3 {
			steps = append(steps, map[string]any{"name": fmt.Sprintf("step-%d", j), "image": "x", "script": "#!/bin/sh\necho"})
		}
		task["steps"] = steps
		list = append(list, task)
	}
	env := map[string]any{}
	for i := range 5 {
		env[fmt.Sprintf("VAR_%d", i)] = map[string]any{"value": "x"}
	}
	return map[string]any{
		"apiVersion": "demo.dev/v1", "kind": "Pipeline", "metadata": map[string]any{"name": "a", "labels": map[string]any{"a": "b"}},
		"spec": map[string]any{"f0x": "y", "e1": "Old", "tasks": list, "env": env, "params": []any{map[string]any{"name": "x"}}},
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, mode := range []string{"Reject", "Drop"} {
		for _, n := range []int{10, 200} {
			text, schemaText := manyFeatures(n, mode)
			resources := []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: node(b, schemaText)}}}}
			e := evaluator(b, define(b, componentYAML, text, resources), nil)
			for _, bb := range []struct {
				name        string
				old, object map[string]any
				bad         int
			}{
				{"create/5 tasks", nil, typical(5, false), 0},
				{"update/5 tasks", typical(5, false), typical(5, false), 0},
				{"update/5 tasks in use", typical(5, true), typical(5, true), 0},
				{"create/5 tasks in use", nil, typical(5, true), 5},
				{"update/1000 tasks in use", typical(1000, true), typical(1000, true), 0},
				{"update/10000 tasks in use", typical(10000, true), typical(10000, true), 0},
			} {
				b.Run(fmt.Sprintf("%s/%d features/%s", mode, n, bb.name), func(b *testing.B) {
					r := &feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Old: bb.old, Object: bb.object}
					b.ReportAllocs()
					for b.Loop() {
						if d := e.Evaluate(r); d.Rejected.Count+d.Dropped.Count != bb.bad {
							b.Fatal(d.Rejected.Count, d.Dropped.Count)
						}
					}
				})
			}
		}
	}
}

func BenchmarkDefineAndCompile(b *testing.B) {
	text, schemaText := manyFeatures(200, "Reject")
	list, c := features(b, text), component(b, componentYAML)
	resources := []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1", Schema: node(b, schemaText)}}}}
	b.Run("define", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			feature.Define(c, list, feature.Options{Resources: resources})
		}
	})
	m, _ := feature.Define(c, list, feature.Options{Resources: resources})
	settings := map[string]string{"enable-api-fields": "beta", "f0": "true", "feature-gates": "F1=true,F2=false"}
	b.Run("settings", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s, _ := m.ParseSettings(settings)
			m.Resolve(s, feature.Runtime{}).Compile()
		}
	})
}
