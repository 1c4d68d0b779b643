package feature_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
)

// TestHostileObjects judges objects as large as the API server takes them, in forms that no schema allows.
func TestHostileObjects(t *testing.T) {
	e := evaluator(t, define(t, componentYAML, rejectFeatures, pipelines(t)), nil)
	const n = 10_000
	tasks := func(reversed bool) []any {
		out := make([]any, n)
		for i := range out {
			name := i
			if reversed {
				name = n - 1 - i
			}
			out[i] = map[string]any{"name": fmt.Sprintf("task-%d", name), "timeout": "1h", "steps": []any{map[string]any{"image": "x", "debug": map[string]any{}}}}
		}
		return out
	}
	deep := func() any {
		var v any = "x"
		for range 20_000 {
			v = map[string]any{"x": []any{v}}
		}
		return v
	}
	same := make([]any, n)
	for i := range same {
		same[i] = map[string]any{"name": "a", "timeout": "1h"}
	}
	hostile := map[string]any{}
	for _, name := range []string{"a.b", "/", "~1", "'", `"`, "\n", "\x00", "ä", "[*]", "", strings.Repeat("x", 100_000)} {
		hostile[name] = map[string]any{"secretRef": "s"}
	}
	for _, tt := range []struct {
		name      string
		old, spec map[string]any
		rejected  int
	}{
		{"10,000 items", nil, map[string]any{"tasks": tasks(false)}, 2 * n},
		{"10,000 items in another order", map[string]any{"tasks": tasks(false)}, map[string]any{"tasks": tasks(true)}, 0},
		{"10,000 items of one name", nil, map[string]any{"tasks": same}, n},
		{"10,000 stored items of one name", map[string]any{"tasks": same}, map[string]any{"tasks": same}, 0},
		{"a text of 1.5 MB", nil, map[string]any{"tasksTimeout": strings.Repeat("x", 3<<19)}, 1},
		{"what is deep in a part", map[string]any{"free": map[string]any{"frozen": "x"}}, map[string]any{"free": map[string]any{"frozen": deep()}}, 1},
		{"lists where objects are to be", nil, map[string]any{"tasks": map[string]any{"timeout": "1h"}, "env": []any{"x", nil, 1.5}}, 0},
		{"names of entries", nil, map[string]any{"env": hostile}, len(hostile)},
	} {
		r := &feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Object: map[string]any{"spec": tt.spec}}
		if tt.old != nil {
			r.Old = map[string]any{"spec": tt.old}
		}
		d := e.Evaluate(r)
		if diff := cmp.Diff(tt.rejected, d.Rejected.Count); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if m := d.Message(); len(m) > feature.MaxMessage || strings.ContainsRune(m, 0) || strings.Contains(m, "\x00") || (m == "") != (tt.rejected == 0) {
			t.Errorf("%s: the message has %d bytes: %.200q", tt.name, len(m), m)
		}
	}
}

// TestHostileDefinitions has definitions that are as bad and as large as the API takes them, and larger.
func TestHostileDefinitions(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	var many, chain strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "- {gate: G%d, parts: [{field: spec.x%d}]}\n", i, i)
		fmt.Fprintf(&chain, "- {gate: G%d, requires: [G%d]}\n", i, (i+1)%5000)
	}
	for name, text := range map[string]string{
		"nothing": "- {}", "a long gate": "- {gate: " + long + "}", "a long path": "- {gate: G, parts: [{field: " + long + "}]}",
		"a long value": "- {gate: G, parts: [{field: spec.onError, values: [" + long + "]}]}", "a path of many steps": `- {gate: G, parts: [{field: "spec` + strings.Repeat("[*]", 1000) + `"}]}`,
		"a path of control characters": `- {gate: G, parts: [{field: "spec.\u0000\n"}]}`, "a pattern that nests": "- {gate: G, parts: [{field: spec.name, pattern: \"" + strings.Repeat("(", 900) + strings.Repeat(")", 90) + "\"}]}",
		"a pattern that repeats": `- {gate: G, parts: [{field: spec.tasksTimeout, pattern: "((a{100}){100}){100}"}]}`,
		"many bad ones":          many.String(), "a circle of 5,000": chain.String(),
	} {
		_, findings := feature.Define(component(t, componentYAML), features(t, text), feature.Options{Resources: pipelines(t)})
		if findings.Err() == nil {
			t.Errorf("%s: no error", name)
		}
		if len(findings) > 201 {
			t.Errorf("%s: %d findings", name, len(findings))
		}
		for _, f := range findings {
			if len(f.Message) > 2000 {
				t.Errorf("%s: a message of %d bytes: %.200q", name, len(f.Message), f.Message)
			}
		}
	}
}
