package featuregen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
type tektonPart struct {
	gate string
	// in is the start of the path: the spec of a Task, a Pipeline, a TaskRun or a PipelineRun.
	in    string
	path  string
	level v1alpha1.Level
	flag  string
	// pattern narrows the part down.
	pattern string
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

func withName(name string) map[string]any { return map[string]any{"name": name} }

const celFlag, enumFlag = "enable-cel-in-whenexpression", "enable-param-enum"

// tektonParts are the rows of the table of alpha and beta parts.
func tektonParts() []tektonPart {
	const alpha, beta = v1alpha1.LevelAlpha, v1alpha1.LevelBeta
	parts := []tektonPart{
		{gate: "StepWorkspaces", in: inTask, path: "steps[*].workspaces[*]", level: beta, uses: []any{withName("w")}},
		{gate: "StepWorkspaces", in: inTask, path: "sidecars[*].workspaces[*]", level: beta, uses: []any{withName("w")}},
		{gate: "StepOutput", in: inTask, path: "steps[*].stdoutConfig", level: alpha, uses: []any{map[string]any{"path": "p"}, map[string]any{}}},
		{gate: "StepOutput", in: inTask, path: "steps[*].stderrConfig", level: alpha, uses: []any{map[string]any{"path": "p"}}},
		{gate: "WindowsScript", in: inTask, path: "steps[*].script", level: alpha, pattern: `^\s*#!win`, uses: []any{"#!win\nx", "\n  #!win", "#!windows"}},
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
		{gate: "TasksTimeout", in: inPipeline, path: "tasksTimeout", level: alpha, uses: []any{"1h"}},
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

// tektonGates are the features that gate parts: key, history, and whether the level opens them.
var tektonGates = map[string]v1alpha1.FeatureSpec{
	"TasksTimeout":         {},
	"StepWorkspaces":       {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.50.0"}}},
	"StepOutput":           {},
	"WindowsScript":        {},
	"StepResolver":         {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.54.0"}}},
	"Debug":                {},
	"RunSpecs":             {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.53.0"}}},
	"ComputeResources":     {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.53.0"}}},
	"PipelineResolver":     {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.40.0"}}},
	"TaskResolver":         {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.40.0"}}},
	"OnError":              {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Beta, Release: "v0.55.0"}}},
	"Matrix":               {Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v0.35.0"}, {Stage: v1alpha1.Beta, Release: "v0.53.0"}}},
	"PipelinesInPipelines": {},
	"CELInWhenExpression":  {Key: celFlag, FollowsLevel: new(false)},
	"ParamEnum":            {Key: enumFlag, FollowsLevel: new(false)},
}

// Tekton returns the features that gate parts of a Tekton-shaped API, and the kinds. It also returns every use of every part, in
// each object that can embed a task or a pipeline.
func Tekton(component string) (features []v1alpha1.FeatureSpec, cases []TektonCase, crds []*apiextensionsv1.CustomResourceDefinition) {
	gates := map[string]*v1alpha1.FeatureSpec{}
	for _, p := range tektonParts() {
		s := gates[p.gate]
		if s == nil {
			spec := tektonGates[p.gate]
			spec.Component, spec.Gate = component, p.gate
			if spec.Stages == nil {
				spec.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
			}
			s = &spec
			gates[p.gate] = s
		}
		for _, home := range tektonHomes[p.in] {
			s.Parts = append(s.Parts, v1alpha1.Part{Group: TektonGroup, Resource: home[0], Field: home[1] + "." + p.path, Pattern: p.pattern})
			for _, use := range p.uses {
				flag := cmp.Or(p.flag, feature.Kebab(p.gate))
				cases = append(cases, TektonCase{
					Resource: home[0], Spec: specWith(home[1]+"."+p.path, use), Gate: p.gate, Level: p.level, Flag: flag,
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
	for _, s := range gates {
		features = append(features, *s)
	}
	slices.SortFunc(features, func(a, b v1alpha1.FeatureSpec) int { return strings.Compare(a.Gate, b.Gate) })
	return features, cases, tektonCRDs()
}

// specWith is a spec with a value at a path, with one item in each list on the way.
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

func tektonCRDs() (out []*apiextensionsv1.CustomResourceDefinition) {
	type props = map[string]apiextensionsv1.JSONSchemaProps
	yes, atomic := true, "atomic"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	free := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}
	object := func(p props) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: p}
	}
	list := func(item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}, XListType: &atomic}
	}
	named := list(object(props{"name": text, "value": text}))
	params := list(object(props{"name": text, "type": text, "enum": list(text)}))
	ref := object(props{"name": text, "resolver": text, "params": named})
	when := list(object(props{"name": text, "input": text, "operator": text, "values": list(text), "cel": text}))
	task := object(props{
		"description": text, "params": params,
		"steps": list(object(props{
			"name": text, "image": text, "script": text, "workspaces": named, "ref": ref, "when": when,
			"stdoutConfig": object(props{"path": text}), "stderrConfig": object(props{"path": text}),
		})),
		"sidecars": list(object(props{"name": text, "image": text, "workspaces": named})),
	})
	pipelineTasks := list(object(props{
		"name": text, "taskRef": ref, "taskSpec": task, "onError": text, "matrix": free, "pipelineRef": free, "pipelineSpec": free,
		"when": when,
	}))
	pipeline := object(props{"description": text, "tasksTimeout": text, "params": params, "tasks": pipelineTasks, "finally": pipelineTasks})
	specs := props{"name": text, "pipelineTaskName": text, "stepSpecs": named, "sidecarSpecs": named, "computeResources": free}
	for kind, spec := range map[string]apiextensionsv1.JSONSchemaProps{
		"Task": task, "Pipeline": pipeline,
		"TaskRun":     object(props{"description": text, "debug": free, "taskRef": ref, "taskSpec": task, "stepSpecs": named, "sidecarSpecs": named, "computeResources": free}),
		"PipelineRun": object(props{"description": text, "pipelineRef": ref, "pipelineSpec": pipeline, "taskRunSpecs": list(object(specs))}),
	} {
		singular := strings.ToLower(kind)
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%ss.%s", singular, TektonGroup)},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: TektonGroup, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props{"spec": spec}}},
				}},
			},
		})
	}
	return out
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
