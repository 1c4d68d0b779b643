package feature_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/feature"
)

const dropFeatures = `
- {gate: Timeout, whenDisabled: Drop, parts: [{field: spec.tasksTimeout}]}
- {gate: OnErrorContinue, whenDisabled: Drop, parts: [{field: spec.onError, values: [Continue, Retry]}]}
- {gate: TaskTimeout, whenDisabled: Drop, parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: TaskPolicy, whenDisabled: Drop, parts: [{field: "spec.tasks[*].policy", values: [New]}]}
- {gate: Debug, whenDisabled: Drop, parts: [{field: "spec.tasks[*].steps[*].debug"}]}
- {gate: SecretEnv, whenDisabled: Drop, ratchet: Unchanged, parts: [{field: "spec.env[*].secretRef"}]}
- {gate: OddMode, whenDisabled: Drop, parts: [{field: "spec.modes[*]", values: [Odd]}]}
- {gate: Volumes, whenDisabled: Drop, parts: [{field: "spec.volumes[*]"}]}
- {gate: Writable, whenDisabled: Drop, parts: [{field: "spec.mounts[*]", match: [{field: kind, values: [rw]}]}]}
- {gate: Nested, whenDisabled: Drop, parts: [{field: spec.free.a}, {field: spec.free.a.b}]}
- {gate: Inner, parts: [{field: spec.free.a.c}]}
- {gate: Outer, parts: [{field: spec.free.z}]}
`

func TestEvaluateDrops(t *testing.T) {
	e := evaluator(t, define(t, componentYAML, dropFeatures, pipelines(t)), nil)
	for _, tt := range []struct {
		name, old, object string
		want              judged
	}{
		{"nothing used", "", `{spec: {name: a}}`, judged{}},
		{"a field on create", "", `{spec: {name: a, tasksTimeout: 1h}}`, judged{Dropped: []string{"Timeout spec.tasksTimeout"}, Object: `{"spec":{"name":"a"}}`}},
		{"a new field on update", `{spec: {name: a}}`, `{spec: {name: a, tasksTimeout: 1h}}`, judged{Dropped: []string{"Timeout spec.tasksTimeout"}, Object: `{"spec":{"name":"a"}}`}},
		{"a stored field stays and may change", `{spec: {tasksTimeout: 1h}}`, `{spec: {tasksTimeout: 2h}}`, judged{}},
		{"an enum value on create", "", `{spec: {onError: Retry}}`, judged{Dropped: []string{"OnErrorContinue spec.onError"}, Object: `{"spec":{}}`}},
		{"a stored enum value is put back", `{spec: {onError: Stop}}`, `{spec: {name: b, onError: Retry}}`, judged{Dropped: []string{"OnErrorContinue spec.onError"}, Object: `{"spec":{"name":"b","onError":"Stop"}}`}},
		{"one closed value for another: the stored one is put back", `{spec: {onError: Continue}}`, `{spec: {onError: Retry}}`, judged{Dropped: []string{"OnErrorContinue spec.onError"}, Object: `{"spec":{"onError":"Continue"}}`}},
		{
			"in items, moved", `{spec: {tasks: [{name: a, policy: Old}, {name: b, policy: New, timeout: 1h}]}}`,
			`{spec: {tasks: [{name: c, policy: New, timeout: 1}, {name: b, policy: New, timeout: 2}, {name: a, policy: New}]}}`,
			judged{
				Dropped: []string{"TaskPolicy spec.tasks[0].policy", "TaskTimeout spec.tasks[0].timeout", "TaskPolicy spec.tasks[2].policy"},
				Object:  `{"spec":{"tasks":[{"name":"c"},{"name":"b","policy":"New","timeout":2},{"name":"a","policy":"Old"}]}}`,
			},
		},
		{
			"beneath items without keys", `{spec: {tasks: [{name: a, steps: [{debug: {}}]}]}}`,
			`{spec: {tasks: [{name: b, steps: [{debug: {}}, {image: x}]}, {name: a, steps: [{debug: {}}, {debug: {}}]}]}}`,
			judged{Dropped: []string{"Debug spec.tasks[0].steps[0].debug"}, Object: `{"spec":{"tasks":[{"name":"b","steps":[{},{"image":"x"}]},{"name":"a","steps":[{"debug":{}},{"debug":{}}]}]}}`},
		},
		{
			"unchanged: the stored value is put back", `{spec: {env: {a/b: {secretRef: x}, c: {secretRef: q}}}}`,
			`{spec: {env: {a/b: {secretRef: z}, c: {secretRef: q}, d: {secretRef: q}}}}`,
			judged{Dropped: []string{`SecretEnv spec.env["a/b"].secretRef`, "SecretEnv spec.env.d.secretRef"}, Object: `{"spec":{"env":{"a/b":{"secretRef":"x"},"c":{"secretRef":"q"},"d":{}}}}`},
		},
		{"items of a set", `{spec: {modes: [Fast]}}`, `{spec: {modes: [Odd, Fast, Odd, Slow]}}`, judged{Dropped: []string{"OddMode spec.modes[0]", "OddMode spec.modes[2]"}, Object: `{"spec":{"modes":["Fast","Slow"]}}`}},
		{"all items", "", `{spec: {volumes: [{name: a}, {name: b}]}}`, judged{Dropped: []string{"Volumes spec.volumes[0]", "Volumes spec.volumes[1]"}, Object: `{"spec":{"volumes":[]}}`}},
		{
			"an item that becomes one that matches is put back", `{spec: {mounts: [{path: /, device: 1, kind: ro}, {path: /, device: 2, kind: rw}]}}`,
			`{spec: {mounts: [{path: /, device: 3, kind: rw}, {path: /, device: 1, kind: rw}, {path: /, device: 2, kind: rw}]}}`,
			judged{Dropped: []string{"Writable spec.mounts[0]", "Writable spec.mounts[1]"}, Object: `{"spec":{"mounts":[{"device":1,"kind":"ro","path":"/"},{"device":2,"kind":"rw","path":"/"}]}}`},
		},
		{"a part of what is dropped is told once", "", `{spec: {free: {a: {b: 1}}}}`, judged{Dropped: []string{"Nested spec.free.a"}, Object: `{"spec":{"free":{}}}`}},
		{"what was dropped is not refused", "", `{spec: {free: {a: {c: 1}}}}`, judged{Dropped: []string{"Nested spec.free.a"}, Object: `{"spec":{"free":{}}}`}},
		{"what is left is refused, and then nothing is dropped", "", `{spec: {tasksTimeout: x, free: {z: 1}}}`, judged{Rejected: []string{"Outer spec.free.z"}, Dropped: []string{"Timeout spec.tasksTimeout"}}},
		{"null is left alone", "", `{spec: {tasksTimeout: null, tasks: null}}`, judged{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(t, tt.old, tt.object)
			if diff := cmp.Diff(tt.want, judge(t, e, r)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(request(t, tt.old, tt.object).Object, r.Object); diff != "" {
				t.Errorf("the object of the request was changed: %s", diff)
			}
			if diff := cmp.Diff(request(t, tt.old, tt.object).Old, r.Old); diff != "" {
				t.Errorf("the old object was changed: %s", diff)
			}
		})
	}
}

func TestEvaluateWarns(t *testing.T) {
	e := evaluator(t, define(t, componentYAML, `
- {gate: Timeout, whenDisabled: Warn, parts: [{field: spec.tasksTimeout}]}
- {gate: Modes, whenDisabled: Drop, parts: [{field: spec.modes}]}
- {gate: V2, whenDisabled: Warn, parts: [{wholeVersion: true, versions: [v2]}]}
`, pipelines(t)), nil)
	r := request(t, "", `{spec: {tasksTimeout: x, modes: []}}`)
	r.Version = "v2"
	d := e.Evaluate(r)
	const set = ` in ConfigMap demo-system/feature-flags`
	want := []string{
		`dropped spec.modes: alpha; needs feature "Modes" of component "demo": set modes: "true", or enable-api-fields: alpha without modes,` + set,
		`apiVersion: demo.dev/v2 is alpha; needs feature "V2" of component "demo": set v2: "true"` + set,
		`spec.tasksTimeout: alpha; needs feature "Timeout" of component "demo": set timeout: "true", or enable-api-fields: alpha without timeout,` + set,
	}
	if diff := cmp.Diff(want, d.Warnings()); diff != "" || !d.Allowed() || d.Message() != "" {
		t.Errorf("%v %s %s", d.Allowed(), d.Message(), diff)
	}
	r = request(t, `{spec: {tasksTimeout: x}}`, `{spec: {tasksTimeout: y}}`)
	if d := e.Evaluate(r); d.Warnings() != nil {
		t.Errorf("what is stored is warned of: %q", d.Warnings())
	}
}

func TestWholeVersions(t *testing.T) {
	m := define(t, componentYAML, `
- {gate: Two, parts: [{wholeVersion: true, versions: [v2]}]}
- {gate: Strict, ratchet: Unchanged, parts: [{wholeVersion: true, versions: [v3]}]}
`, []feature.Resource{{Group: "demo.dev", Resource: "pipelines", Versions: []feature.Version{{Name: "v1"}, {Name: "v2", Scale: []string{"spec", "replicas"}}, {Name: "v3"}}}})
	const (
		spec     = `fieldsV1: {"f:spec": {"f:a": {}}}`
		inTwo    = `{metadata: {name: a, managedFields: [{apiVersion: demo.dev/v1, ` + spec + `}, {apiVersion: demo.dev/v2, ` + spec + `}]}, spec: {a: 1}, status: {x: 1}}`
		labels   = `{metadata: {managedFields: [{apiVersion: demo.dev/v2, fieldsV1: {"f:metadata": {"f:labels": {}}, "f:status": {}}}]}, spec: {a: 1}}`
		inStatus = `{metadata: {managedFields: [{apiVersion: demo.dev/v2, subresource: status, ` + spec + `}]}, spec: {a: 1}}`
		odd      = `{metadata: {managedFields: [x, null, {apiVersion: demo.dev/v2, fieldsV1: x}]}, spec: {a: 1}}`
	)
	for _, tt := range []struct {
		name, version, sub, old, object string
		want                            []string
	}{
		{"create in it", "v2", "", "", `{spec: {}}`, []string{"Two apiVersion"}},
		{"create in another", "v1", "", "", `{spec: {}}`, nil},
		{"metadata only", "v2", "", `{spec: {a: 1}}`, `{metadata: {labels: {a: b}}, spec: {a: 1.0}, status: {y: 1}}`, nil},
		{"null taken out", "v2", "", `{spec: {a: null, b: 1}}`, `{spec: {b: 1}}`, []string{"Two apiVersion"}},
		{"null left", "v2", "", `{spec: {a: null, b: 1}}`, `{metadata: {labels: {a: b}}, spec: {a: null, b: 1}}`, nil},
		{"an object that was never written in it", "v2", "", `{spec: {a: 1}}`, `{spec: {a: 2}}`, []string{"Two apiVersion"}},
		{"an object that was", "v2", "", inTwo, `{spec: {a: 2}}`, nil},
		{"one that was, with ratchet Unchanged", "v3", "", strings.ReplaceAll(inTwo, "v2", "v3"), `{spec: {a: 2}}`, []string{"Strict apiVersion"}},
		{"one that was, with ratchet Unchanged, and stays", "v3", "", strings.ReplaceAll(inTwo, "v2", "v3"), `{metadata: {name: a, labels: {x: z}}, spec: {a: 1}}`, nil},
		{"writing its status does not count", "v2", "", inStatus, `{spec: {a: 2}}`, []string{"Two apiVersion"}},
		{"labelling it does not count", "v2", "", labels, `{spec: {a: 2}}`, []string{"Two apiVersion"}},
		{"labelling it passes", "v2", "", `{spec: {a: 1}}`, labels, nil},
		{"managed fields of another form", "v2", "", odd, `{spec: {a: 2}}`, []string{"Two apiVersion"}},
		{"owning what is there already", "v2", "", `{spec: {a: 1}}`, strings.ReplaceAll(inTwo, "status", "spec.status"), []string{"Two apiVersion"}},
		{"a claim in another version", "v1", "", `{spec: {a: 1}}`, inTwo, []string{"Two metadata.managedFields"}},
		{"a claim of a new object", "v1", "", "", inTwo, []string{"Two metadata.managedFields"}},
		{"a claim with the status", "v2", "status", `{spec: {a: 1}}`, inTwo, []string{"Two metadata.managedFields"}},
		{"a claim of the scale", "v1", "", `{spec: {a: 1}}`, strings.ReplaceAll(inTwo, "f:a", "f:replicas"), nil},
		{"a claim of what was taken over", "v1", "", `{spec: {a: 1}}`, strings.ReplaceAll(inTwo, `{"f:a": {}}`, "{}"), nil},
		{"a claim of the scale and more", "v1", "", `{spec: {a: 1}}`, strings.ReplaceAll(inTwo, `"f:a": {}`, `"f:a": {}, "f:replicas": {}`), []string{"Two metadata.managedFields"}},
		{"a claim that was true before", "v1", "", inTwo, inTwo, nil},
		{"a claim given up", "v1", "", inTwo, `{spec: {a: 2}}`, nil},
		{"a claim of labels", "v1", "", `{spec: {a: 1}}`, labels, nil},
		{"a claim of the status", "v1", "", `{spec: {a: 1}}`, inStatus, nil},
		{"a claim that nobody trusts", "v1", "", `{spec: {a: 1}}`, strings.ReplaceAll(inTwo, "v2", "v3"), nil},
		{"status", "v2", "status", `{spec: {a: 1}}`, `{spec: {a: 2}}`, nil},
		{"scale", "v2", "scale", `{spec: {a: 1}}`, `{spec: {a: 2}}`, nil},
		{"one more version", "v3", "", "", `{}`, []string{"Strict apiVersion"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(t, tt.old, tt.object)
			r.Version, r.Subresource = tt.version, tt.sub
			got := judge(t, evaluator(t, m, nil), r).Rejected
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	// Who wrote it in which version shows in whatever version an object is read.
	for _, version := range []string{"v1", "v2"} {
		uses := m.Inspector().Uses("demo.dev", version, "pipelines", read(t, inTwo))
		if len(uses) != 1 || uses[0].Feature.Spec.Gate != "Two" || uses[0].Path != "apiVersion" || uses[0].Count != 1 {
			t.Errorf("read in %s: uses %v", version, uses)
		}
	}
}

func TestOptIn(t *testing.T) {
	const text = `
- {gate: A, parts: [{field: spec.tasksTimeout}]}
- {gate: B, requires: [A], parts: [{field: spec.replicas}]}
- {gate: L, stages: [{stage: Alpha, release: v1.0.0, lockToDefault: true}], parts: [{field: spec.free}]}
- {gate: P, requiredProcesses: [webhook], parts: [{field: spec.env}]}
`
	const object = `{spec: {tasksTimeout: x, replicas: 1, free: {}, env: {}}}`
	for _, tt := range []struct {
		name, component string
		settings        map[string]string
		optedIn         []string
		want            []string
	}{
		{"the component does not allow it", "", nil, []string{"A", "B"}, []string{"P", "L", "B", "A"}},
		{"both", "optIn: {rbac: true}", nil, []string{"A", "B", "L", "P"}, []string{"P", "L"}},
		{"B alone is closed without A", "optIn: {namespaceLabel: true}", nil, []string{"B"}, []string{"P", "L", "B", "A"}},
		{"B is on by the settings and waits for A", "optIn: {rbac: true}", map[string]string{"b": "true", "a": "false"}, []string{"A"}, []string{"P", "L"}},
		{"within maxLevel", "{optIn: {rbac: true}, maxLevel: beta}", nil, []string{"A", "B"}, []string{"P", "L", "B", "A"}},
		{"a key that says no can be overruled", "optIn: {rbac: true}", map[string]string{"a": "false"}, []string{"A"}, []string{"P", "L", "B"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := component(t, `{metadata: {name: demo}, spec: {release: v1.5.0}}`)
			if tt.component != "" {
				extra := component(t, "metadata: {name: demo}\nspec: \n  "+tt.component)
				c.Spec.OptIn, c.Spec.MaxLevel = extra.Spec.OptIn, extra.Spec.MaxLevel
			}
			m, findings := feature.Define(c, features(t, text), feature.Options{Resources: pipelines(t)})
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			s, _ := m.ParseSettings(tt.settings)
			r := request(t, "", object)
			asked := map[string]bool{}
			r.OptedIn = func(gate string) bool {
				if asked[gate] {
					t.Errorf("asked of %s twice", gate)
				}
				asked[gate] = true
				return slices.Contains(tt.optedIn, gate)
			}
			var got []string
			for _, v := range m.Resolve(s, feature.Runtime{}).Compile().Evaluate(r).Rejected.List {
				got = append(got, v.State.Feature.Spec.Gate)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
