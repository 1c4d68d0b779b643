package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
)

const crdYAML = `
metadata: {name: pipelines.demo.dev}
spec:
  group: demo.dev
  scope: Namespaced
  names: {kind: Pipeline, plural: pipelines}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              tasksTimeout: {type: string}
              onError: {type: string, enum: [Stop, Continue, Retry]}
              words: {type: array, items: {type: string}}
              loose: {type: array, items: {type: object, properties: {script: {type: string}, hint: {type: string}}}}
              env: {type: object, additionalProperties: {type: object, properties: {secretRef: {type: string}, hint: {type: string}}}}
              tasks:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    timeout: {type: string}
                    policy: {type: string, enum: [Old, New]}
                    steps: {type: array, items: {type: object, properties: {debug: {type: string}, script: {type: string}, hint: {type: string}}}}
  - name: v2
    served: true
    storage: false
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {tasksTimeout: {type: string}}}}}}
`

const componentYAML = `
metadata: {name: demo}
spec:
  release: v1.5.0
  configMap: {namespace: demo-system, name: feature-flags}
`

func model(t testing.TB, component, features string) *feature.Model {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	var c v1alpha1.Component
	var specs []v1alpha1.FeatureSpec
	for text, to := range map[string]any{crdYAML: &crd, component: &c, features: &specs} {
		if err := yaml.UnmarshalStrict([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	res, err := feature.ResourceOf(&crd)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]v1alpha1.Feature, len(specs))
	for i, s := range specs {
		s.Component = c.Name
		if s.Stages == nil {
			s.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
		}
		for j := range s.Parts {
			s.Parts[j].Group, s.Parts[j].Resource = "demo.dev", "pipelines"
		}
		list[i].Spec = s
	}
	m, findings := feature.Define(&c, list, feature.Options{Resources: []feature.Resource{res}})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

func compile(t testing.TB, m *feature.Model, o policy.Options) (*policy.Set, *simulate.Simulator) {
	t.Helper()
	set, err := policy.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.New(set)
	if err != nil {
		t.Fatal(err)
	}
	return set, s
}

func read(t testing.TB, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func run(t testing.TB, s *simulate.Simulator, r *simulate.Request) *simulate.Result {
	t.Helper()
	if r.Resource == "" {
		r.Group, r.Version, r.Resource = "demo.dev", "v1", "pipelines"
	}
	res, err := s.Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// messages are those of refusals and warnings.
func messages(list []simulate.Refusal) (out []string) {
	for _, r := range list {
		out = append(out, r.Message)
	}
	return out
}

const parts = `
- {gate: TasksTimeout, parts: [{field: spec.tasksTimeout}]}
- {gate: TaskTimeout, parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: OnErrorContinue, parts: [{field: spec.onError, values: [Continue]}]}
- {gate: TaskPolicy, whenDisabled: Warn, parts: [{field: "spec.tasks[*].policy", values: [New]}]}
- {gate: StepDebug, whenDisabled: Drop, parts: [{field: "spec.tasks[*].steps[*].debug"}]}
- {gate: EnvSecret, whenDisabled: Drop, parts: [{field: "spec.env[*].secretRef"}]}
- {gate: StepWindows, parts: [{field: "spec.tasks[*].steps[*].script", pattern: '^\s*#!win'}]}
`

func TestAllViolationsInOneMessage(t *testing.T) {
	t.Parallel()
	_, s := compile(t, model(t, componentYAML, parts), policy.Options{})
	res := run(t, s, &simulate.Request{Settings: map[string]string{}, Object: read(t, `{spec: {tasksTimeout: 1h, onError: Continue, tasks: [{name: a}, {name: b, timeout: x}, {name: c, timeout: x}]}}`)})
	want := []string{`value "Continue" is alpha`, `spec.tasks[1].timeout, spec.tasks[2].timeout: alpha; needs feature "TaskTimeout" of component "demo": set task-timeout: "true", or enable-api-fields: alpha without task-timeout, in ConfigMap demo-system/feature-flags`, "spec.tasksTimeout: alpha"}
	if len(res.Refused) != 1 {
		t.Fatalf("refused by %v", res.Refused)
	}
	for _, w := range want {
		if !strings.Contains(res.Refused[0].Message, w) {
			t.Errorf("%q is not in %q", w, res.Refused[0].Message)
		}
	}
}

// TestOnlyWhatARequestNeedsIsCompiled breaks an expression of each kind: only who needs it notices.
func TestOnlyWhatARequestNeedsIsCompiled(t *testing.T) {
	t.Parallel()
	const unused, used = `{spec: {x: y}}`, `{spec: {tasksTimeout: 1h, env: {a: {secretRef: x}}}}`
	for name, breakOne := range map[string]func(*policy.Set){
		"validation": func(s *policy.Set) {
			for i := range s.Validating {
				s.Validating[i].Spec.Validations[0].Expression += " +"
			}
		},
		"mutation": func(s *policy.Set) {
			for i := range s.Mutating {
				s.Mutating[i].Spec.Mutations[0].JSONPatch.Expression += " +"
			}
		},
	} {
		set, _ := compile(t, model(t, componentYAML, parts), policy.Options{Unguarded: true})
		breakOne(set)
		if _, err := simulate.New(set); err == nil {
			t.Errorf("%s: all are compiled, but the broken one", name)
		}
		s := simulate.NewLazy(set)
		if res := run(t, s, &simulate.Request{Settings: map[string]string{}, Object: read(t, unused)}); !res.Allowed() {
			t.Errorf("%s: %+v", name, res)
		}
		if _, err := s.Run(t.Context(), &simulate.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Settings: map[string]string{}, Object: read(t, used)}); err == nil {
			t.Errorf("%s: the broken one is not noticed", name)
		}
	}
}

// TestWhoBeginsToUseWhatMayChangeIsTold has an open feature, and one that is stable: who stores the first is told, once.
func TestWhoBeginsToUseWhatMayChangeIsTold(t *testing.T) {
	t.Parallel()
	m := model(t, componentYAML+"  tellUse: [Alpha, Deprecated]\n", `
- {gate: TaskTimeout, parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: OnErrorContinue, stages: [{stage: Alpha, release: v1.0.0}, {stage: Deprecated, release: v1.4.0, default: true}], parts: [{field: spec.onError, values: [Continue]}]}
- {gate: TasksTimeout, stages: [{stage: Beta, release: v1.0.0}], parts: [{field: spec.tasksTimeout}]}
- {gate: EnvSecret, whenDisabled: Drop, parts: [{field: "spec.env[*].secretRef"}]}
`)
	_, s := compile(t, m, policy.Options{})
	teller := m.TellerFor(func(*feature.Feature, *feature.Target) bool { return true })
	all := read(t, `{metadata: {name: x}, spec: {tasksTimeout: 1h, onError: Continue, tasks: [{name: a}, {name: b, timeout: x}], env: {A: {secretRef: x}}}}`)
	want := []string{
		`spec.env.A.secretRef: alpha, as feature "EnvSecret" of component "demo" is; it may change or go in any release`,
		`spec.onError: value "Continue" is deprecated, as feature "OnErrorContinue" of component "demo" is; it will go`,
		`spec.tasks[1].timeout: alpha, as feature "TaskTimeout" of component "demo" is; it may change or go in any release`,
	}
	open := map[string]string{"enable-api-fields": "alpha"}
	for _, tt := range []struct {
		name     string
		settings map[string]string
		old      map[string]any
		want     []string
	}{
		{"new", open, nil, want},
		{"stored", open, all, nil},
		{"one more", open, read(t, `{spec: {onError: Continue, tasks: [{name: a}, {name: b, timeout: y}]}}`), want[:1]},
		{"dropped before anybody is told", map[string]string{"enable-api-fields": "beta", "task-timeout": "true", "on-error-continue": "true"}, nil, want[1:]},
	} {
		res := run(t, s, &simulate.Request{Settings: tt.settings, Object: all, Old: tt.old})
		if !res.Allowed() {
			t.Errorf("%s: %v", tt.name, res.Refused)
		}
		var got []string
		for _, m := range messages(res.Warned) {
			if !strings.HasPrefix(m, "dropped ") {
				got = append(got, strings.Split(m, "; also ")...)
			}
		}
		if diff := cmp.Diff(tt.want, slices.Sorted(slices.Values(got)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		// The webhook says the same, where it is asked.
		object := all
		if res.Object != nil {
			object = res.Object
		}
		told := teller.Tell(&feature.Request{Group: "demo.dev", Version: "v1", Resource: "pipelines", Object: object, Old: tt.old})
		texts := told.Told()
		slices.Sort(texts)
		for i := range texts {
			texts[i] = strings.ReplaceAll(texts[i], `env["A"]`, "env.A")
		}
		if diff := cmp.Diff(tt.want, texts, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s, by the webhook: %s", tt.name, diff)
		}
	}
}

func TestSettingsInBothModes(t *testing.T) {
	t.Parallel()
	m := model(t, componentYAML, "- {gate: TasksTimeout, parts: [{field: spec.tasksTimeout}]}") // compiled anew for each setting
	_, live := compile(t, m, policy.Options{})
	object := read(t, `{spec: {tasksTimeout: 1h}}`)
	for _, tt := range []struct {
		name     string
		settings map[string]string
		allowed  bool
	}{
		{"missing", nil, false},
		{"empty", map[string]string{}, false},
		{"level", map[string]string{"enable-api-fields": " Alpha "}, true},
		{"key", map[string]string{"tasks-timeout": "t"}, true},
		{"entry", map[string]string{"feature-gates": "Other=true, TasksTimeout = true"}, true},
		{"key against level", map[string]string{"enable-api-fields": "alpha", "tasks-timeout": "false"}, false},
		{"contradiction", map[string]string{"feature-gates": "TasksTimeout=true", "tasks-timeout": "false"}, false},
		{"bad", map[string]string{"tasks-timeout": "yes"}, false},
		{"a list of gates that is too long", map[string]string{"feature-gates": strings.Repeat("TasksTimeout=true,", 10_000)}, false},
	} {
		settings, _ := m.ParseSettings(tt.settings)
		if tt.settings != nil {
			if got := run(t, live, &simulate.Request{Settings: tt.settings, Object: object}).Allowed(); got != tt.allowed {
				t.Errorf("%s, live: allowed %v", tt.name, got)
			}
		}
		_, detached := compile(t, m, policy.Options{Settings: settings, SettingsMissing: true})
		if got := run(t, detached, &simulate.Request{Object: object}).Allowed(); got != tt.allowed {
			t.Errorf("%s, part of the policies while they are missing: allowed %v", tt.name, got)
		}
		_, baked := compile(t, m, policy.Options{Mode: v1alpha1.Baked, Settings: settings})
		if got := run(t, baked, &simulate.Request{Object: object}).Allowed(); got != tt.allowed {
			t.Errorf("%s, baked: allowed %v", tt.name, got)
		}
	}
	// While a policy misses its parameter it stops nothing.
	if res := run(t, live, &simulate.Request{Object: object}); len(res.Refused) > 0 {
		t.Errorf("without settings: %v", res.Refused)
	}
}

func TestDropPutsBackAndWarns(t *testing.T) {
	t.Parallel()
	_, s := compile(t, model(t, componentYAML, `
- {gate: StepDebug, whenDisabled: Drop, parts: [{field: "spec.tasks[*].steps[*].debug"}]}
- {gate: OnErrorContinue, whenDisabled: Drop, parts: [{field: spec.onError, values: [Continue]}]}
`), policy.Options{})
	res := run(t, s, &simulate.Request{
		Settings: map[string]string{},
		Old:      read(t, `{metadata: {name: x}, spec: {onError: Stop, tasks: [{name: a, steps: [{debug: "1"}]}]}}`),
		Object:   read(t, `{metadata: {name: x}, spec: {onError: Continue, tasks: [{name: b, steps: [{debug: "2"}, {script: s, debug: "3"}]}, {name: a, steps: [{debug: "4"}]}]}}`),
	})
	want := read(t, `{onError: Stop, tasks: [{name: b, steps: [{}, {script: s}]}, {name: a, steps: [{debug: "4"}]}]}`)
	if diff := cmp.Diff(want, res.Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if got := messages(res.Warned); len(got) != 1 || !strings.Contains(got[0], "dropped spec.tasks[0].steps[0].debug, spec.tasks[0].steps[1].debug: alpha") && !strings.Contains(got[0], "dropped spec.onError: ") {
		t.Errorf("warned %v", got)
	}
	// The note is gone with the next write.
	again := run(t, s, &simulate.Request{Settings: map[string]string{}, Old: res.Object, Object: res.Object})
	if notes, _ := again.Object["metadata"].(map[string]any)["annotations"].(map[string]any); len(notes) > 0 || again.Object == nil || again.Warned != nil {
		t.Errorf("the note stays: %v, %v", notes, again.Warned)
	}
}

// TestTheNoteOfAMapIsTheSameEachTime drops entries of maps, whose keys CEL goes through in random order, many times: an object that is applied
// again is not to change.
func TestTheNoteOfAMapIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	_, s := compile(t, model(t, componentYAML, `[{gate: Env, whenDisabled: Drop, parts: [{field: "spec.env[*].hint"}]}]`), policy.Options{})
	for n, want := range map[int]string{
		3:    "dropped spec.env.k0.hint, spec.env.k1.hint, spec.env.k2.hint: alpha",
		50:   "dropped spec.env.k0.hint, spec.env.k1.hint, spec.env.k10.hint, spec.env.k11.hint, ",
		51:   "dropped spec.env[*].hint in 51 places: alpha",
		5000: "dropped spec.env[*].hint in 5000 places: alpha",
	} {
		env := map[string]any{}
		for i := range n {
			env[fmt.Sprint("k", i)] = map[string]any{"hint": "h"}
		}
		object := map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"env": env}}
		times := 20
		if n > 51 {
			times = 1 // it names none of them, whose order could differ
		}
		for range times {
			got := messages(run(t, s, &simulate.Request{Settings: map[string]string{}, Object: object}).Warned)
			if len(got) != 1 || !strings.Contains(got[0], want) {
				t.Fatalf("%d entries: %v", n, got)
			}
		}
	}
}

func TestFiveThousandItems(t *testing.T) {
	t.Parallel()
	_, s := compile(t, model(t, componentYAML, `
- {gate: TaskTimeout, parts: [{field: "spec.tasks[*].timeout"}]}
- {gate: StepDebug, whenDisabled: Drop, parts: [{field: "spec.tasks[*].steps[*].debug"}]}
- {gate: StepWindows, parts: [{field: "spec.tasks[*].steps[*].script", pattern: '^\s*#!win'}]}
`), policy.Options{})
	build := func(prefix string, n int, onError string) map[string]any {
		tasks := make([]any, n)
		for i := range tasks {
			tasks[i] = map[string]any{
				"name": fmt.Sprintf("%s-with-a-name-of-the-usual-length-%d", prefix, i), "timeout": "x", "policy": "New",
				"steps": []any{map[string]any{"debug": "x", "script": "#!win"}},
			}
		}
		spec := map[string]any{"tasks": tasks}
		if onError != "" {
			spec["onError"] = onError
		}
		return map[string]any{"metadata": map[string]any{"name": "x"}, "spec": spec}
	}
	const n = 5000
	old := build("old", n, "")
	open := map[string]string{"enable-api-fields": "alpha"}
	for name, r := range map[string]*simulate.Request{
		"all replaced, open":                    {Settings: open, Old: old, Object: build("new", n, "")},
		"another field changed while it is off": {Settings: map[string]string{}, Old: old, Object: build("old", n, "Stop")},
	} {
		if res := run(t, s, r); !res.Allowed() {
			t.Errorf("%s: %v", name, res.Refused)
		}
	}
	for name, r := range map[string]*simulate.Request{
		"all replaced": {Settings: map[string]string{}, Old: old, Object: build("new", n, "")},
	} {
		res := run(t, s, r)
		if res.Allowed() {
			t.Errorf("%s passes", name)
		}
		told := ""
		for _, x := range res.Refused {
			told += x.Message
			if x.Failed || len(x.Message) > 5120 {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if !strings.Contains(told, "TaskTimeout") || !strings.Contains(told, "StepWindows") {
			t.Errorf("%s: not both features are told: %s", name, told)
		}
	}
}

func TestStoredItemsWithTheSameIdentity(t *testing.T) {
	t.Parallel()
	_, s := compile(t, model(t, componentYAML, `[{gate: TaskTimeout, parts: [{field: "spec.tasks[*].timeout"}]}]`), policy.Options{})
	old := read(t, `{spec: {tasks: [{name: a, timeout: x}, {name: a, timeout: y}]}}`)
	for object, allowed := range map[string]bool{
		`{spec: {tasks: [{name: a, timeout: x}, {name: a, timeout: y}]}}`:                        true,
		`{spec: {tasks: [{name: a, timeout: z}]}}`:                                               true,
		`{spec: {tasks: [{name: a, timeout: x}, {name: a, timeout: y}, {name: b, timeout: y}]}}`: false,
	} {
		if got := run(t, s, &simulate.Request{Settings: map[string]string{}, Old: old, Object: read(t, object)}); got.Allowed() != allowed {
			t.Errorf("%s: %v", object, got.Refused)
		}
	}
}

// update is an update without settings, and whether it is allowed.
type update struct {
	old, object string // an empty old is a creation
	allowed     bool
}

// judgeUpdates compares what the policies of a model and its evaluator say of updates with what is right.
func judgeUpdates(t *testing.T, m *feature.Model, updates ...update) {
	t.Helper()
	_, s := compile(t, m, policy.Options{})
	evaluator := m.Resolve(nil, feature.Runtime{}).Compile()
	for _, u := range updates {
		r := &simulate.Request{Settings: map[string]string{}, Object: read(t, u.object)}
		if u.old != "" {
			r.Old = read(t, u.old)
		}
		if got := run(t, s, r); got.Allowed() != u.allowed {
			t.Errorf("%s to %s: %v", u.old, u.object, got.Refused)
		}
		if d := evaluator.Evaluate(&feature.Request{Group: r.Group, Version: r.Version, Resource: r.Resource, Old: r.Old, Object: r.Object}); (len(d.Rejected.List) == 0) != u.allowed {
			t.Errorf("%s to %s: the evaluator says %v", u.old, u.object, d.Rejected.List)
		}
	}
}

// TestValuesOfTheKeyOfAList: an item with the value is another item, so it is in use where the same item is stored, such as a port of protocol
// SCTP.
func TestValuesOfTheKeyOfAList(t *testing.T) {
	t.Parallel()
	const old = `{spec: {tasks: [{name: a}, {name: odd}]}}`
	judgeUpdates(t, model(t, componentYAML, `[{gate: OddNames, parts: [{field: "spec.tasks[*].name", values: [odd]}]}]`),
		update{"", `{spec: {tasks: [{name: a}]}}`, true},
		update{"", `{spec: {tasks: [{name: odd}]}}`, false},
		update{old, `{spec: {tasks: [{name: odd, timeout: x}, {name: a}]}}`, true},
		update{old, `{spec: {tasks: [{name: a}]}}`, true},
		update{`{spec: {tasks: [{name: a}]}}`, `{spec: {tasks: [{name: odd}]}}`, false},
	)
}

// TestAStoredValueLetsNoOtherPass: of several gated values the stored one alone stays allowed, and so does an unchanged field of a feature with
// the ratchet Unchanged.
func TestAStoredValueLetsNoOtherPass(t *testing.T) {
	t.Parallel()
	judgeUpdates(t, model(t, componentYAML, `[{gate: Onward, parts: [{field: spec.onError, values: [Continue, Retry]}]}, {gate: Hints, ratchet: Unchanged, parts: [{field: "spec.env[*].hint"}]}]`),
		update{`{spec: {onError: Retry}}`, `{spec: {onError: Retry, tasksTimeout: x}}`, true},
		update{`{spec: {onError: Retry}}`, `{spec: {onError: Continue}}`, false},
		update{`{spec: {onError: Stop}}`, `{spec: {onError: Retry}}`, false},
		update{`{spec: {env: {a: {hint: x}}}}`, `{spec: {env: {a: {hint: x}, b: {}}}}`, true},
		update{`{spec: {env: {a: {hint: x}}}}`, `{spec: {env: {a: {hint: y}}}}`, false},
		update{`{spec: {env: {a: {hint: x}}}}`, `{spec: {env: {b: {hint: x}}}}`, false},
	)
}

// TestAStoredUseAnywhereLetsMorePass: with the ratchet InObject, also of features whose fields are alike.
func TestAStoredUseAnywhereLetsMorePass(t *testing.T) {
	t.Parallel()
	judgeUpdates(t, model(t, componentYAML, `
- {gate: Timeouts, ratchet: InObject, parts: [{field: spec.tasksTimeout}, {field: "spec.tasks[*].timeout"}]}
- {gate: Errors, ratchet: InObject, parts: [{field: spec.onError}]}
`),
		update{"", `{spec: {tasksTimeout: x}}`, false},
		update{`{spec: {tasksTimeout: x}}`, `{spec: {tasksTimeout: x, words: [a]}}`, true},
		update{`{spec: {tasksTimeout: x}}`, `{spec: {tasksTimeout: y, tasks: [{name: a, timeout: z}]}}`, true},
		update{`{spec: {tasks: [{name: a, timeout: z}]}}`, `{spec: {tasksTimeout: y}}`, true},
		update{`{spec: {tasksTimeout: x}}`, `{spec: {tasksTimeout: x, onError: Stop}}`, false},
		update{`{spec: {onError: Stop}}`, `{spec: {onError: Retry}}`, true},
	)
}

// TestTheRightToUseAFeatureCoversAllItsFields: also fields that share an expression.
func TestTheRightToUseAFeatureCoversAllItsFields(t *testing.T) {
	t.Parallel()
	m := model(t, componentYAML+"  optIn: {rbac: true}\n", `[{gate: Onward, parts: [{field: spec.tasksTimeout}, {field: spec.onError}]}]`)
	_, s := compile(t, m, policy.Options{})
	for _, may := range []bool{false, true} {
		r := &simulate.Request{Settings: map[string]string{}, Object: read(t, `{spec: {tasksTimeout: x, onError: Stop}}`), MayUse: func(string) bool { return may }}
		if got := run(t, s, r); got.Allowed() != may {
			t.Errorf("the user has the right: %t; refusals: %v", may, got.Refused)
		}
	}
}

func TestWholeVersion(t *testing.T) {
	t.Parallel()
	m := model(t, componentYAML, `
- {gate: V2, parts: [{versions: [v2], wholeVersion: true}]}
`)
	_, s := compile(t, m, policy.Options{})
	written := `metadata: {managedFields: [{apiVersion: demo.dev/v2, manager: x, fieldsV1: {"f:spec": {"f:a": {}}}}]}`
	labelled := `metadata: {managedFields: [{apiVersion: demo.dev/v2, manager: x, fieldsV1: {"f:metadata": {"f:labels": {}}}}]}`
	for _, tt := range []struct {
		version, old, object string
		settings             map[string]string
		allowed              bool
	}{
		{"v1", "", "{spec: {}}", nil, true},
		{"v2", "", "{spec: {}}", nil, false},
		{"v2", "", "{spec: {}}", map[string]string{"v2": "true"}, true},
		{"v2", "{spec: {a: 1}}", "{spec: {a: 1}, metadata: {labels: {a: b}}, status: {x: 1}}", nil, true},
		{"v2", "{spec: {a: 1}}", "{spec: {a: 2}}", nil, false},
		{"v2", "{spec: {a: 1}, " + written + "}", "{spec: {a: 2}}", nil, true},
		{"v2", "{spec: {a: 1}, " + labelled + "}", "{spec: {a: 2}}", nil, false},
		{"v2", "{spec: {a: 1}}", "{spec: {a: 1}, " + labelled + "}", nil, true},
		{"v2", "{spec: {a: 1}}", "{spec: {a: 1}, " + written + "}", nil, false},
		{"v1", "", "{spec: {a: 1}, " + written + "}", nil, false},
		{"v1", "", "{spec: {a: 1}, " + written + "}", map[string]string{"v2": "true"}, true},
		{"v1", "{spec: {a: 1}}", "{spec: {a: 1}, " + written + "}", nil, false},
		{"v1", "{spec: {a: 1}, " + written + "}", "{spec: {a: 2}, " + written + "}", nil, true},
		{"v1", "{spec: {a: 1}, " + written + "}", "{spec: {a: 2}}", nil, true},
		{"v1", "{spec: {a: 1}}", "{spec: {a: 1}, " + labelled + "}", nil, true},
		{"v1", "{spec: {a: 1}}", "{spec: {a: 1}, " + strings.ReplaceAll(written, "f:a", "f:replicas") + "}", nil, true},
		{"v1", "{spec: {a: 1}}", "{spec: {a: 1}, " + strings.ReplaceAll(written, `{"f:a": {}}`, "{}") + "}", nil, true},
	} {
		settings := tt.settings
		if settings == nil {
			settings = map[string]string{}
		}
		r := &simulate.Request{Group: "demo.dev", Version: tt.version, Resource: "pipelines", Settings: settings, Old: read(t, tt.old), Object: read(t, tt.object)}
		res := run(t, s, r)
		parsed, _ := m.ParseSettings(settings)
		d := m.Resolve(parsed, feature.Runtime{}).Compile().Evaluate(&feature.Request{Group: r.Group, Version: r.Version, Resource: r.Resource, Old: r.Old, Object: r.Object})
		if res.Allowed() != tt.allowed || d.Allowed() != tt.allowed {
			t.Errorf("%s %s -> %s: allowed by the policy %v, by the evaluator %v", tt.version, tt.old, tt.object, res.Allowed(), d.Allowed())
		}
	}
}

// TestGuardOfManySettings has as many features as anybody will, each with a key, an entry and a requirement.
func TestGuardOfManySettings(t *testing.T) {
	t.Parallel()
	const n = 200
	var parts strings.Builder
	entries := make([]string, n)
	data := map[string]any{}
	for i := range n {
		requires := ""
		if i > 0 {
			requires = fmt.Sprintf("requires: [Gate%d], ", i-1)
		}
		fmt.Fprintf(&parts, "- {gate: Gate%d, stages: [{stage: Beta, release: v1.0.0}], %sparts: [{field: spec.tasksTimeout}]}\n", i, requires)
		entries[i] = fmt.Sprintf("Gate%d=true", i)
		data[feature.Kebab(fmt.Sprintf("Gate%d", i))] = "true"
	}
	data["feature-gates"] = strings.Join(entries, ",")
	_, s := compile(t, model(t, componentYAML, parts.String()), policy.Options{})
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": "tekton-pipelines"}, "data": data}
	if res := run(t, s, &simulate.Request{Version: "v1", Resource: "configmaps", Object: object}); !res.Allowed() {
		t.Errorf("good settings of %d features: %v", n, res.Refused)
	}
}

func TestGuardOfSettings(t *testing.T) {
	t.Parallel()
	for _, mode := range []v1alpha1.Mode{v1alpha1.Live, v1alpha1.Baked} {
		t.Run(string(mode), func(t *testing.T) { guardOfSettings(t, mode) })
	}
}

func guardOfSettings(t *testing.T, mode v1alpha1.Mode) {
	t.Helper()
	m := model(t, `
metadata: {name: demo}
spec:
  release: v1.5.0
  maxLevel: beta
  configMap: {namespace: demo-system, name: feature-flags}
  settings: [{name: results-from, pattern: "sidecar-logs|termination-message"}]
`, `
- {gate: A, stages: [{stage: Beta, release: v1.0.0}], parts: [{field: spec.tasksTimeout}]}
- {gate: B, stages: [{stage: Beta, release: v1.0.0}], requires: [A], parts: [{field: spec.onError, values: [Continue]}]}
- {gate: Early, parts: [{field: "spec.env[*].secretRef"}]}
- {gate: Done, stages: [{stage: Stable, release: v1.0.0, lockToDefault: true}]}
`)
	// Baked settings have no say in how others are judged.
	baked, _ := m.ParseSettings(map[string]string{"a": "true", "b": "true"})
	_, s := compile(t, m, policy.Options{Mode: mode, Settings: baked})
	settings := func(data map[string]string) map[string]any {
		out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "feature-flags", "namespace": "demo-system"}}
		if data != nil {
			values := map[string]any{}
			for k, v := range data {
				values[k] = v
			}
			out["data"] = values
		}
		return out
	}
	for _, tt := range []struct {
		data map[string]string
		want string // in the message; empty: it passes
	}{
		{nil, ""},
		{map[string]string{"enable-api-fields": "beta", "a": "true", "feature-gates": "B=true", "_example": "x", "results-from": "sidecar-logs"}, ""},
		{map[string]string{"enable-api-field": "beta"}, "there is no key enable-api-field"},
		{map[string]string{"enable-api-fields": "gamma"}, "the levels are"},
		{map[string]string{"enable-api-fields": "alpha"}, "beyond beta"},
		{map[string]string{"a": "yes"}, "neither true nor false"},
		{map[string]string{"feature-gates": "A"}, "NAME=true"},
		{map[string]string{"feature-gates": "A=yes"}, "neither true nor false"},
		{map[string]string{"feature-gates": "C=true"}, "there is no gate C"},
		{map[string]string{"feature-gates": "A=true,A=true"}, "twice"},
		{map[string]string{"feature-gates": "A=true", "a": "false"}, "disagree"},
		{map[string]string{"b": "true", "a": "false"}, "requires A"},
		{map[string]string{"b": "true"}, "requires A"}, // level stable opens beta parts of no resource here
		{map[string]string{"early": "true"}, "maxLevel"},
		{map[string]string{"done": "false"}, "for good"},
		{map[string]string{"results-from": "x"}, "does not match"},
	} {
		r := &simulate.Request{Version: "v1", Resource: "configmaps", Object: settings(tt.data)}
		res := run(t, s, r)
		_, findings := m.ParseSettings(tt.data)
		if bad := findings.Err() != nil; bad != (tt.want != "") {
			t.Errorf("%v: the parser says %v", tt.data, findings)
		}
		got := messages(res.Refused)
		if res.Allowed() != (tt.want == "") || tt.want != "" && (res.Refused[0].Failed || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%v: %v, want %q", tt.data, got, tt.want)
		}
		// What is bad already may stay as it is.
		r.Old = r.Object
		if res := run(t, s, r); !res.Allowed() {
			t.Errorf("%v, unchanged: %v", tt.data, res.Refused)
		}
	}
	if res := run(t, s, &simulate.Request{Version: "v1", Resource: "configmaps", Old: settings(nil)}); res.Allowed() != (mode == v1alpha1.Baked) {
		t.Errorf("the deletion of the settings is allowed: %t", res.Allowed())
	}
}
