package feature_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
)

// judged is a decision in short: what of it there is.
type judged struct {
	Rejected, Dropped, Warned []string
	Object                    string
}

func judge(t testing.TB, e *feature.Evaluator, r *feature.Request) (out judged) {
	t.Helper()
	d := e.Evaluate(r)
	paths := func(vs feature.Violations) (out []string) {
		for _, v := range vs.List {
			out = append(out, v.State.Feature.Spec.Gate+" "+v.Path)
		}
		if vs.Count != len(vs.List) && len(vs.List) != 100 {
			t.Errorf("%d violations, %d of them told", vs.Count, len(vs.List))
		}
		return out
	}
	out.Rejected, out.Dropped, out.Warned = paths(d.Rejected), paths(d.Dropped), paths(d.Warned)
	if d.Object != nil {
		out.Object = show(t, d.Object)
	}
	if d.Allowed() != (len(out.Rejected) == 0) {
		t.Errorf("allowed %v with %v", d.Allowed(), out.Rejected)
	}
	return out
}

func rejected(what ...string) judged { return judged{Rejected: what} }

const rejectFeatures = `
- {gate: Timeout, parts: [{field: spec.tasksTimeout}]}
- {gate: OnErrorContinue, parts: [{field: spec.onError, values: [Continue, Retry]}]}
- {gate: TaskTimeout, parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: TaskPolicy, parts: [{field: "spec.tasks[*].policy", values: [New]}]}
- {gate: Debug, parts: [{field: "spec.tasks[*].steps[*].debug"}]}
- {gate: Windows, parts: [{field: "spec.tasks[*].steps[*].script", pattern: '^\s*#!win'}]}
- {gate: SecretEnv, parts: [{field: "spec.env[*].secretRef"}]}
- {gate: CSI, parts: [{field: "spec.volumes[*]", match: [{field: type, values: [csi]}]}]}
- {gate: Writable, parts: [{field: "spec.mounts[*].kind", values: [rw]}]}
- {gate: OddMode, parts: [{field: "spec.modes[*]", values: [Odd]}]}
- {gate: Replicas, parts: [{field: spec.replicas, values: ["7"]}]}
- {gate: Frozen, ratchet: Unchanged, parts: [{field: spec.free.frozen}]}
- {gate: FrozenDebug, ratchet: Unchanged, parts: [{field: "spec.free.list[*].debug"}]}
- {gate: VersionTwo, parts: [{wholeVersion: true, versions: [v2]}]}
`

func TestEvaluateRejects(t *testing.T) {
	e := evaluator(t, define(t, componentYAML, rejectFeatures, pipelines(t)), nil)
	for _, tt := range []struct {
		name, old, object string
		want              judged
	}{
		{"nothing used", "", `{spec: {name: a}}`, judged{}},
		{"a field on create", "", `{spec: {tasksTimeout: 1h}}`, rejected("Timeout spec.tasksTimeout")},
		{"an empty string is a use", "", `{spec: {tasksTimeout: ""}}`, rejected("Timeout spec.tasksTimeout")},
		{"null is none", "", `{spec: {tasksTimeout: null}}`, judged{}},
		{
			"all at once", "", `{spec: {tasksTimeout: 1h, onError: Retry, env: {"a.b": {secretRef: x}}, tasks: [{name: a}, {name: b, timeout: 1h}]}}`,
			rejected("SecretEnv spec.env[\"a.b\"].secretRef", "OnErrorContinue spec.onError", "TaskTimeout spec.tasks[1].timeout", "Timeout spec.tasksTimeout"),
		},
		{"a field in use may change", `{spec: {tasksTimeout: 1h}}`, `{spec: {tasksTimeout: 2h}}`, judged{}},
		{"a field in use, removed", `{spec: {tasksTimeout: 1h}}`, `{spec: {}}`, judged{}},
		{"and added again", `{spec: {}}`, `{spec: {tasksTimeout: 1h}}`, rejected("Timeout spec.tasksTimeout")},
		{"null in store is no use", `{spec: {tasksTimeout: null}}`, `{spec: {tasksTimeout: 1h}}`, rejected("Timeout spec.tasksTimeout")},
		{"an enum value that is open", "", `{spec: {onError: Stop}}`, judged{}},
		{"an enum value in use stays", `{spec: {onError: Continue}}`, `{spec: {onError: Continue, name: b}}`, judged{}},
		{"another closed value is another use", `{spec: {onError: Continue}}`, `{spec: {onError: Retry}}`, rejected("OnErrorContinue spec.onError")},
		{"a number", "", `{spec: {replicas: 7}}`, rejected("Replicas spec.replicas")},
		{"a number in another form", "", `{spec: {replicas: 7.0}}`, rejected("Replicas spec.replicas")},
		{
			"keyed items may move", `{spec: {tasks: [{name: a, timeout: 1h}, {name: b}]}}`,
			`{spec: {tasks: [{name: b}, {name: c}, {name: a, timeout: 2h}]}}`,
			judged{},
		},
		{
			"a sibling is another use", `{spec: {tasks: [{name: a, timeout: 1h}, {name: b}]}}`,
			`{spec: {tasks: [{name: b, timeout: 1h}, {name: a, timeout: 1h}]}}`, rejected("TaskTimeout spec.tasks[0].timeout"),
		},
		{
			"so is a renamed item", `{spec: {tasks: [{name: a, timeout: 1h}]}}`,
			`{spec: {tasks: [{name: z, timeout: 1h}]}}`, rejected("TaskTimeout spec.tasks[0].timeout"),
		},
		{"the key of another type", `{spec: {tasks: [{name: 1, timeout: 1h}]}}`, `{spec: {tasks: [{name: "1", timeout: 1h}]}}`, rejected("TaskTimeout spec.tasks[0].timeout")},
		{
			"an enum value in a keyed item", `{spec: {tasks: [{name: a, policy: New}, {name: b, policy: Old}]}}`,
			`{spec: {tasks: [{name: b, policy: New}, {name: a, policy: New}]}}`, rejected("TaskPolicy spec.tasks[0].policy"),
		},
		{
			"without keys the keyed ancestor counts", `{spec: {tasks: [{name: a, steps: [{image: x, debug: {}}]}, {name: b}]}}`,
			`{spec: {tasks: [{name: b, steps: [{image: x, debug: {}}]}, {name: a, steps: [{image: y}, {image: x, debug: {}}, {image: z, debug: {}}]}]}}`,
			rejected("Debug spec.tasks[0].steps[0].debug"),
		},
		{
			"a pattern", `{spec: {tasks: [{name: a, steps: [{script: "#!win one"}]}]}}`,
			`{spec: {tasks: [{name: a, steps: [{script: " #!win two"}]}, {name: b, steps: [{script: "echo #!win"}, {script: "\n#!win"}]}]}}`,
			rejected("Windows spec.tasks[1].steps[1].script"),
		},
		{
			"a map", `{spec: {env: {a: {secretRef: x}, b: {value: y}}}}`,
			`{spec: {env: {a: {secretRef: z}, b: {secretRef: x}}}}`, rejected("SecretEnv spec.env.b.secretRef"),
		},
		{"a key with dots and slashes", "", `{spec: {env: {'a/b~c"d': {secretRef: x}}}}`, rejected(`SecretEnv spec.env["a/b~c\"d"].secretRef`)},
		{"items that match", "", `{spec: {volumes: [{type: empty}, {type: csi}]}}`, rejected("CSI spec.volumes[1]")},
		{"items that match, in use", `{spec: {volumes: [{type: csi}]}}`, `{spec: {volumes: [{type: empty}, {type: csi}, {type: csi}]}}`, judged{}},
		{
			"several keys", `{spec: {mounts: [{path: /, device: 1, kind: rw}, {path: /, device: 2, kind: ro}]}}`,
			`{spec: {mounts: [{path: /, device: 2, kind: rw}, {path: /, device: 1, kind: rw}]}}`, rejected("Writable spec.mounts[0].kind"),
		},
		{"a set", `{spec: {modes: [Odd, Fast]}}`, `{spec: {modes: [Slow, Odd]}}`, judged{}},
		{"a set without the value", `{spec: {modes: [Fast]}}`, `{spec: {modes: [Fast, Odd]}}`, rejected("OddMode spec.modes[1]")},
		{"unchanged: the same value", `{spec: {free: {frozen: {a: 1, b: [x]}}}}`, `{spec: {name: q, free: {frozen: {b: [x], a: 1.0}}}}`, judged{}},
		{"unchanged: another value", `{spec: {free: {frozen: {a: 1}}}}`, `{spec: {free: {frozen: {a: 2}}}}`, rejected("Frozen spec.free.frozen")},
		{
			"unchanged without keys: one of the values", `{spec: {free: {list: [{debug: 1}, {debug: 2}]}}}`,
			`{spec: {free: {list: [{debug: 2}, {debug: 3}]}}}`, rejected("FrozenDebug spec.free.list[1].debug"),
		},
		{"objects of another form", `{spec: {tasks: {a: 1}, env: [1]}}`, `{spec: {tasks: {a: {timeout: x}}, env: [{secretRef: x}], free: 7, tasksTimeout: {}}}`, rejected("Timeout spec.tasksTimeout")},
		{"items of another form", "", `{spec: {tasks: [1, null, x, [{timeout: 1}], {timeout: 1}]}}`, rejected("TaskTimeout spec.tasks[4].timeout")},
		{"items without their key stay", `{spec: {tasks: [{timeout: x}]}}`, `{spec: {tasks: [{name: a}, {timeout: x}]}}`, judged{}},
		{"no spec", "", `{}`, judged{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(t, e, request(t, tt.old, tt.object))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	m := define(t, `
metadata: {name: tekton-pipelines}
spec: {configMap: {namespace: tekton-pipelines, name: feature-flags}}
`, `
- component: tekton-pipelines
  gate: TasksTimeout
  parts: [{field: spec.tasksTimeout}]
`, pipelines(t))
	d := evaluator(t, m, nil).Evaluate(request(t, "", `{spec: {tasksTimeout: 1h}}`))
	want := `spec.tasksTimeout: alpha; needs feature "TasksTimeout" of component "tekton-pipelines": set tasks-timeout: "true", or enable-api-fields: alpha without tasks-timeout, in ConfigMap tekton-pipelines/feature-flags`
	if diff := cmp.Diff(want, d.Message()); diff != "" {
		t.Error(diff)
	}
}

func TestHowToOptIn(t *testing.T) {
	for optIn, want := range map[string]string{
		"{namespaceLabel: true}":                                `; or label the namespace feature.sluice.dev/acme.Fast: enabled`,
		"{namespaceLabel: true, rbac: true}":                    `; or label the namespace feature.sluice.dev/acme.Fast: enabled; or get the verb use on acme.fast of features.sluice.dev`,
		"{namespaceLabel: true, rbac: true, onlyAllowed: true}": `; or, where the settings say allowed, label the namespace feature.sluice.dev/acme.Fast: enabled or get the verb use on acme.fast of features.sluice.dev`,
		"{rbac: true, onlyAllowed: true}":                       `; or, where the settings say allowed, get the verb use on acme.fast of features.sluice.dev`,
		"{}":                                                    "",
	} {
		m := define(t, "{metadata: {name: acme}, spec: {optIn: "+optIn+"}}", "[{component: acme, gate: Fast, parts: [{field: spec.tasksTimeout}]}]", pipelines(t))
		if diff := cmp.Diff("set feature gate Fast=true"+want, m.Feature("Fast").HowToOpen()); diff != "" {
			t.Errorf("%s: %s", optIn, diff)
		}
	}
}
