package featuregen

// Does a declaration of Tekton's features say what Tekton's own webhook says? The table here has each part that
// the webhook gates, in each object that can hold it.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// TektonGroup is the API group of the resources that Tekton's webhook gates parts of.
const TektonGroup = "tekton.dev"

// TektonCase is an object of a Tekton-shaped API, and what Tekton's own validation says of it.
type TektonCase struct {
	// Resource is tasks, taskruns, pipelines or pipelineruns.
	Resource string
	// Spec is that of the object.
	Spec map[string]any
	// Gate is the gate of the part that the object uses; empty if it uses no gated part.
	Gate string
	// Place is the place of that use.
	Place string
	// Level opens it, and all levels beyond it; empty where only the flag does.
	Level v1alpha1.Level
	// Flag is the key of settings that opens it where the level does not.
	Flag string
}

// tektonPart is a row of the parts that Tekton's webhook gates.
// A level opens the part with all parts of its stage; a flag opens it alone. A row has one of them.
type tektonPart struct {
	gate string
	// in is the start of the path: the spec of a Task, a Pipeline, a TaskRun or a PipelineRun.
	in    string
	path  string
	level v1alpha1.Level
	flag  string
	// uses are values that are gated.
	uses []any
}

// Starts of rows.
const (
	inTask        = "task"
	inPipeline    = "pipeline"
	inTaskRun     = "taskrun"
	inPipelineRun = "pipelinerun"
)

// tektonHomes lists the places of the specs of tasks and pipelines, embedded ones too.
var tektonHomes = map[string][][2]string{
	inTask: {
		{"tasks", "spec"},
		{"taskruns", "spec.taskSpec"},
		{"pipelines", "spec.tasks[*].taskSpec"},
		{"pipelines", "spec.finally[*].taskSpec"},
		{"pipelineruns", "spec.pipelineSpec.tasks[*].taskSpec"},
		{"pipelineruns", "spec.pipelineSpec.finally[*].taskSpec"},
	},
	inPipeline:    {{"pipelines", "spec"}, {"pipelineruns", "spec.pipelineSpec"}},
	inTaskRun:     {{"taskruns", "spec"}},
	inPipelineRun: {{"pipelineruns", "spec"}},
}

// withName is an object with a name, and all that the schema of some list requires of its items.
func withName(name string) map[string]any {
	return map[string]any{"name": name, "value": "v", "mountPath": "/m", "computeResources": map[string]any{}}
}

const celFlag, enumFlag = "enable-cel-in-whenexpression", "enable-param-enum"

// tektonParts are the rows of the table of alpha and beta parts.
// The table follows the validation of Tekton Pipelines (pkg/apis/pipeline/v1): each row stands for a call
// of ValidateEnabledAPIFields or for a flag in config.FeatureFlags.
func tektonParts() []tektonPart {
	const alpha, beta = v1alpha1.LevelAlpha, v1alpha1.LevelBeta
	parts := []tektonPart{
		{gate: "StepWorkspaces", in: inTask, path: "steps[*].workspaces[*]", level: beta, uses: []any{withName("w")}},
		{gate: "StepWorkspaces", in: inTask, path: "sidecars[*].workspaces[*]", level: beta, uses: []any{withName("w")}},
		{gate: "StepOutput", in: inTask, path: "steps[*].stdoutConfig", level: alpha, uses: []any{map[string]any{"path": "p"}, map[string]any{}}},
		{gate: "StepOutput", in: inTask, path: "steps[*].stderrConfig", level: alpha, uses: []any{map[string]any{"path": "p"}}},
		{gate: "WindowsScript", in: inTask, path: "steps[*].script", level: alpha, uses: []any{"#!win\nx", "\n  #!win", "#!windows"}},
		{gate: "StepResolver", in: inTask, path: "steps[*].ref.resolver", level: beta, uses: []any{"git"}},
		{gate: "StepResolver", in: inTask, path: "steps[*].ref.params[*]", level: beta, uses: []any{withName("p")}},
		{gate: "ParamEnum", in: inTask, path: "params[*].enum", flag: enumFlag, uses: []any{[]any{"a"}}},
		{gate: "ParamEnum", in: inPipeline, path: "params[*].enum", flag: enumFlag, uses: []any{[]any{"a"}}},
		{gate: "CELInWhenExpression", in: inTask, path: "steps[*].when[*].cel", flag: celFlag, uses: []any{"true"}},
		{gate: "TaskResolver", in: inTaskRun, path: "taskRef.resolver", level: beta, uses: []any{"git"}},
		{gate: "TaskResolver", in: inTaskRun, path: "taskRef.params[*]", level: beta, uses: []any{withName("p")}},
		{gate: "PipelineResolver", in: inPipelineRun, path: "pipelineRef.resolver", level: beta, uses: []any{"git"}},
		{gate: "PipelineResolver", in: inPipelineRun, path: "pipelineRef.params[*]", level: beta, uses: []any{withName("p")}},
		{gate: "Debug", in: inTaskRun, path: "debug", level: alpha, uses: []any{map[string]any{}, map[string]any{"breakpoints": map[string]any{"onFailure": "enabled"}}}},
	}
	for _, name := range []string{"stepSpecs", "sidecarSpecs", "computeResources"} {
		gate, use := "RunSpecs", []any{[]any{withName("s")}}
		if name == "computeResources" {
			gate, use = "ComputeResources", []any{map[string]any{"limits": map[string]any{"cpu": "1"}}, map[string]any{}}
		}
		parts = append(parts,
			tektonPart{gate: gate, in: inTaskRun, path: name, level: beta, uses: use},
			tektonPart{gate: gate, in: inPipelineRun, path: "taskRunSpecs[*]." + name, level: beta, uses: use})
	}
	for _, list := range []string{"tasks[*].", "finally[*]."} {
		parts = append(parts,
			tektonPart{gate: "TaskResolver", in: inPipeline, path: list + "taskRef.resolver", level: beta, uses: []any{"git"}},
			tektonPart{gate: "TaskResolver", in: inPipeline, path: list + "taskRef.params[*]", level: beta, uses: []any{withName("p")}},
			tektonPart{gate: "OnError", in: inPipeline, path: list + "onError", level: beta, uses: []any{"continue"}},
			tektonPart{gate: "Matrix", in: inPipeline, path: list + "matrix", level: beta, uses: []any{map[string]any{"params": []any{}}}},
			tektonPart{gate: "PipelinesInPipelines", in: inPipeline, path: list + "pipelineRef", level: alpha, uses: []any{withName("n")}},
			tektonPart{gate: "PipelinesInPipelines", in: inPipeline, path: list + "pipelineSpec", level: alpha, uses: []any{map[string]any{"tasks": []any{}}}},
			tektonPart{gate: "CELInWhenExpression", in: inPipeline, path: list + "when[*].cel", flag: celFlag, uses: []any{"true"}})
	}
	return parts
}

// tektonPasses are objects that look like those which are gated.
// Each of them would be refused by a rule that looks at the name of a field alone, or at a list that is
// empty.
var tektonPasses = []struct {
	in, path string
	value    any
}{
	{inTask, "steps[*].workspaces", []any{}},
	{inTask, "sidecars[*].workspaces", []any{}},
	{inTask, "steps[*].script", "#!/bin/sh\n#!win"},
	{inTask, "steps[*].ref.name", "n"},
	{inTask, "steps[*].ref.params", []any{}},
	{inTask, "params[*].name", "p"},
	{inPipeline, "params[*].name", "p"},
	{inPipeline, "tasks[*].taskRef.name", "n"},
	{inPipeline, "tasks[*].when[*].input", "a"},
	{inPipeline, "finally[*].when[*].input", "a"},
	{inTask, "steps[*].when[*].input", "a"},
	{inTaskRun, "taskRef.name", "n"},
	{inPipelineRun, "pipelineRef.name", "n"},
	{inPipelineRun, "taskRunSpecs[*].pipelineTaskName", "a"},
	{inTaskRun, "description", "d"},
}

// Tekton returns every use of every part, in each object that can embed a task or a pipeline. The features that gate the parts, and the
// kinds, are those of examples/tekton.
func Tekton() (cases []TektonCase) {
	for _, p := range tektonParts() {
		for _, home := range tektonHomes[p.in] {
			for _, use := range p.uses {
				cases = append(cases, TektonCase{
					Resource: home[0], Spec: specWith(home[1]+"."+p.path, use), Gate: p.gate, Level: p.level, Flag: cmp.Or(p.flag, feature.Kebab(p.gate)),
					Place: strings.ReplaceAll(home[1]+"."+p.path, "[*]", "[0]"),
				})
			}
		}
	}
	for _, p := range tektonPasses {
		for _, home := range tektonHomes[p.in] {
			cases = append(cases, TektonCase{Resource: home[0], Spec: specWith(home[1]+"."+p.path, p.value), Level: v1alpha1.LevelStable})
		}
	}
	return cases
}

// specWith is a spec with a value at a path, with one item in each list on the way.
// Objects in lists get a name, because the lists have it as their key.
func specWith(path string, value any) map[string]any {
	names := strings.Split(path, ".")
	for _, name := range slices.Backward(names[1:]) {
		if list, ok := strings.CutSuffix(name, "[*]"); ok {
			if item, ok := value.(map[string]any); ok && item["name"] == nil {
				item["name"] = "a"
			}
			value = map[string]any{list: []any{value}}
		} else {
			value = map[string]any{name: value}
		}
	}
	spec, _ := value.(map[string]any)
	return spec
}

// Opens reports whether settings open the part of a case, by Tekton's rules: alpha opens what is beta too, and a flag is its own.
func (c *TektonCase) Opens(level v1alpha1.Level, flags ...string) bool {
	order := []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha}
	return c.Level != "" && slices.Index(order, level) >= slices.Index(order, c.Level) || slices.Contains(flags, c.Flag)
}

// Need is the level or the flag that a refusal of a case asks for, in words that Tekton's own message has too.
func (c *TektonCase) Need() string {
	if c.Level == "" {
		return fmt.Sprintf("set %s: \"true\" in ConfigMap", c.Flag)
	}
	return fmt.Sprintf("set %s: \"true\", or enable-api-fields: %s without %s, in ConfigMap", c.Flag, c.Level, c.Flag)
}
