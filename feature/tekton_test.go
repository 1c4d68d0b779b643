package feature_test

import (
	"maps"
	"testing"

	"sluice.dev/feature"
)

// A component in the form of Tekton Pipelines: its settings, and the parts of its API that its own webhook gates.

const tektonComponent = `
metadata: {name: tekton-pipelines}
spec:
  release: v1.3.0
  configMap: {namespace: tekton-pipelines, name: feature-flags}
  defaultLevel: beta
  settings:
    - {name: coschedule, pattern: workspaces|pipelineruns|isolate-pipelinerun|disabled}
    - {name: disable-inline-spec}
    - {name: enforce-nonfalsifiability, pattern: none|spire}
    - {name: results-from, pattern: termination-message|sidecar-logs}
    - {name: trusted-resources-verification-no-match-policy, pattern: ignore|warn|fail}
    - {name: disable-home-env-overwrite, pattern: true|false}
    - {name: disable-working-directory-overwrite, pattern: true|false}
`

const tektonFeatures = `
- {component: tekton-pipelines, gate: TasksTimeout, parts: [{group: tekton.dev, resource: pipelines, field: spec.tasksTimeout}]}
- component: tekton-pipelines
  gate: StepWorkspaces
  stages: [{stage: Beta, release: v0.50.0}]
  parts:
    - {group: tekton.dev, resource: tasks, field: "spec.steps[*].workspaces[*]"}
    - {group: tekton.dev, resource: tasks, field: "spec.sidecars[*].workspaces[*]"}
    - {group: tekton.dev, resource: taskruns, field: "spec.taskSpec.steps[*].workspaces[*]"}
    - {group: tekton.dev, resource: taskruns, field: "spec.taskSpec.sidecars[*].workspaces[*]"}
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].taskSpec.steps[*].workspaces[*]"}
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].taskSpec.sidecars[*].workspaces[*]"}
- component: tekton-pipelines
  gate: StepOutput
  parts:
    - {group: tekton.dev, resource: tasks, field: "spec.steps[*].stdoutConfig"}
    - {group: tekton.dev, resource: tasks, field: "spec.steps[*].stderrConfig"}
- component: tekton-pipelines
  gate: WindowsScript
  parts: [{group: tekton.dev, resource: tasks, field: "spec.steps[*].script", pattern: '^\s*#!win'}]
- component: tekton-pipelines
  gate: StepResolver
  stages: [{stage: Beta, release: v0.54.0}]
  parts:
    - {group: tekton.dev, resource: tasks, field: "spec.steps[*].ref.resolver"}
    - {group: tekton.dev, resource: tasks, field: "spec.steps[*].ref.params[*]"}
- {component: tekton-pipelines, gate: Debug, parts: [{group: tekton.dev, resource: taskruns, field: spec.debug}]}
- component: tekton-pipelines
  gate: RunSpecs
  stages: [{stage: Beta, release: v0.53.0}]
  parts:
    - {group: tekton.dev, resource: taskruns, field: spec.stepSpecs}
    - {group: tekton.dev, resource: taskruns, field: spec.sidecarSpecs}
    - {group: tekton.dev, resource: taskruns, field: spec.computeResources}
    - {group: tekton.dev, resource: pipelineruns, field: "spec.taskRunSpecs[*].stepSpecs"}
    - {group: tekton.dev, resource: pipelineruns, field: "spec.taskRunSpecs[*].sidecarSpecs"}
    - {group: tekton.dev, resource: pipelineruns, field: "spec.taskRunSpecs[*].computeResources"}
- component: tekton-pipelines
  gate: TaskResolver
  stages: [{stage: Beta, release: v0.40.0}]
  parts:
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].taskRef.resolver"}
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].taskRef.params[*]"}
    - {group: tekton.dev, resource: pipelines, field: "spec.finally[*].taskRef.resolver"}
    - {group: tekton.dev, resource: pipelines, field: "spec.finally[*].taskRef.params[*]"}
- component: tekton-pipelines
  gate: OnError
  stages: [{stage: Beta, release: v0.55.0}]
  parts:
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].onError"}
    - {group: tekton.dev, resource: pipelines, field: "spec.finally[*].onError"}
- component: tekton-pipelines
  gate: Matrix
  stages: [{stage: Alpha, release: v0.35.0}, {stage: Beta, release: v0.53.0}]
  parts:
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].matrix"}
    - {group: tekton.dev, resource: pipelines, field: "spec.finally[*].matrix"}
- component: tekton-pipelines
  gate: PipelinesInPipelines
  parts:
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].pipelineRef"}
    - {group: tekton.dev, resource: pipelines, field: "spec.tasks[*].pipelineSpec"}
- component: tekton-pipelines
  gate: CELInWhenExpression
  key: enable-cel-in-whenexpression
  followsLevel: false
  parts: [{group: tekton.dev, resource: pipelines, field: "spec.tasks[*].when[*].cel"}]
- component: tekton-pipelines
  gate: ParamEnum
  key: enable-param-enum
  followsLevel: false
  parts:
    - {group: tekton.dev, resource: pipelines, field: "spec.params[*].enum"}
    - {group: tekton.dev, resource: tasks, field: "spec.params[*].enum"}
- {component: tekton-pipelines, gate: AwaitSidecarReadiness, stages: [{stage: Stable, release: v0.1.0}]}
- {component: tekton-pipelines, gate: CredsInit, key: disable-creds-init, inverted: true, stages: [{stage: Stable, release: v0.1.0}]}
- {component: tekton-pipelines, gate: Artifacts, key: enable-artifacts}
- {component: tekton-pipelines, gate: ConciseResolverSyntax, key: enable-concise-resolver-syntax}
- {component: tekton-pipelines, gate: InformerCacheTransforms, key: enable-informer-cache-transforms, stages: [{stage: Beta, release: v1.0.0, default: true}]}
- {component: tekton-pipelines, gate: KubernetesSidecar, key: enable-kubernetes-sidecar}
- {component: tekton-pipelines, gate: ProvenanceInStatus, key: enable-provenance-in-status, stages: [{stage: Stable, release: v0.41.0}]}
- {component: tekton-pipelines, gate: StepActions, key: enable-step-actions, stages: [{stage: Stable, release: v1.0.0, lockToDefault: true}]}
- {component: tekton-pipelines, gate: TektonOCIBundles, key: enable-tekton-oci-bundles, impliedByLevel: true, stages: [{stage: Alpha, release: v0.18.0}, {stage: Removed, release: v1.0.0}]}
- {component: tekton-pipelines, gate: TerminationMessageCompression, key: enable-termination-message-compression}
- {component: tekton-pipelines, gate: WaitExponentialBackoff, key: enable-wait-exponential-backoff}
- {component: tekton-pipelines, gate: KeepPodOnCancel}
- {component: tekton-pipelines, gate: GitSSHSecretKnownHosts, key: require-git-ssh-secret-known-hosts}
- {component: tekton-pipelines, gate: InjectedSidecars, key: running-in-environment-with-injected-sidecars, stages: [{stage: Stable, release: v0.1.0}]}
- {component: tekton-pipelines, gate: SendCloudEventsForRuns, key: send-cloudevents-for-runs}
- {component: tekton-pipelines, gate: SetSecurityContext}
- {component: tekton-pipelines, gate: ReadOnlyRootFilesystem, key: set-security-context-read-only-root-filesystem}
- {component: tekton-pipelines, gate: AffinityAssistant, key: disable-affinity-assistant, inverted: true, stages: [{stage: Stable, release: v0.1.0}, {stage: Deprecated, release: v0.60.0}]}
- {component: tekton-pipelines, gate: CustomTasks, key: enable-custom-tasks, impliedByLevel: true, stages: [{stage: Beta, release: v0.43.0, default: true}]}
`

// TestTektonParts has each part of the API that Tekton's own webhook gates, at each level and with each flag: refused and accepted
// as there.
func TestTektonParts(t *testing.T) {
	const alpha, beta = 2, 1
	m := define(t, tektonComponent, tektonFeatures, nil)
	tests := []struct {
		resource, spec string
		level          int    // that opens it; 0: any
		flag           string // that opens it instead
	}{
		{"pipelines", "{tasksTimeout: 1h}", alpha, ""},
		{"tasks", "{steps: [{workspaces: [{name: w}]}]}", beta, ""},
		{"tasks", "{steps: [{workspaces: []}]}", 0, ""},
		{"tasks", "{sidecars: [{workspaces: [{name: w}]}]}", beta, ""},
		{"taskruns", "{taskSpec: {steps: [{workspaces: [{name: w}]}]}}", beta, ""},
		{"taskruns", "{taskSpec: {sidecars: [{workspaces: [{name: w}]}]}}", beta, ""},
		{"pipelines", "{tasks: [{name: a}, {taskSpec: {steps: [{workspaces: [{name: w}]}]}}]}", beta, ""},
		{"pipelines", "{tasks: [{taskSpec: {sidecars: [{workspaces: [{name: w}]}]}}]}", beta, ""},
		{"tasks", "{steps: [{stdoutConfig: {path: p}}]}", alpha, ""},
		{"tasks", "{steps: [{image: x}, {stderrConfig: {path: p}}]}", alpha, ""},
		{"tasks", "{steps: [{script: '#!win\nx'}]}", alpha, ""},
		{"tasks", "{steps: [{script: \"\\n  #!win\"}]}", alpha, ""},
		{"tasks", "{steps: [{script: '#!/bin/sh\n#!win'}]}", 0, ""},
		{"tasks", "{steps: [{ref: {resolver: git}}]}", beta, ""},
		{"tasks", "{steps: [{ref: {params: [{name: p}]}}]}", beta, ""},
		{"tasks", "{steps: [{ref: {name: n}}]}", 0, ""},
		{"taskruns", "{debug: {}}", alpha, ""},
		{"taskruns", "{stepSpecs: [{name: s}]}", beta, ""},
		{"taskruns", "{sidecarSpecs: [{name: s}]}", beta, ""},
		{"taskruns", "{computeResources: {limits: {cpu: 1}}}", beta, ""},
		{"pipelineruns", "{taskRunSpecs: [{stepSpecs: [{name: s}]}]}", beta, ""},
		{"pipelineruns", "{taskRunSpecs: [{sidecarSpecs: [{name: s}]}]}", beta, ""},
		{"pipelineruns", "{taskRunSpecs: [{computeResources: {}}]}", beta, ""},
		{"pipelineruns", "{taskRunSpecs: [{pipelineTaskName: a}]}", 0, ""},
		{"pipelines", "{tasks: [{taskRef: {resolver: git}}]}", beta, ""},
		{"pipelines", "{tasks: [{taskRef: {params: [{name: p}]}}]}", beta, ""},
		{"pipelines", "{finally: [{taskRef: {resolver: git}}]}", beta, ""},
		{"pipelines", "{finally: [{taskRef: {params: [{name: p}]}}]}", beta, ""},
		{"pipelines", "{tasks: [{taskRef: {name: n}}]}", 0, ""},
		{"pipelines", "{tasks: [{onError: continue}]}", beta, ""},
		{"pipelines", "{finally: [{onError: continue}]}", beta, ""},
		{"pipelines", "{tasks: [{matrix: {params: []}}]}", beta, ""},
		{"pipelines", "{finally: [{matrix: {params: []}}]}", beta, ""},
		{"pipelines", "{tasks: [{pipelineRef: {name: n}}]}", alpha, ""},
		{"pipelines", "{tasks: [{pipelineSpec: {tasks: []}}]}", alpha, ""},
		{"pipelines", "{tasks: [{when: [{cel: 'true'}]}]}", -1, "enable-cel-in-whenexpression"},
		{"pipelines", "{tasks: [{when: [{input: a, operator: in, values: [a]}]}]}", 0, ""},
		{"pipelines", "{params: [{name: p, enum: [a]}]}", -1, "enable-param-enum"},
		{"tasks", "{params: [{name: p, enum: [a]}]}", -1, "enable-param-enum"},
	}
	flags := []string{"", "enable-cel-in-whenexpression", "enable-param-enum"}
	for set, level := range map[string]int{"": beta, "stable": 0, "beta": beta, "alpha": alpha} {
		for _, flag := range flags {
			settings := map[string]string{}
			if set != "" {
				settings["enable-api-fields"] = set
			}
			if flag != "" {
				settings[flag] = "true"
			}
			e := evaluator(t, m, settings)
			for _, tt := range tests {
				open := tt.level >= 0 && level >= tt.level || tt.flag != "" && tt.flag == flag
				object := read(t, "{spec: "+tt.spec+"}")
				r := &feature.Request{Group: "tekton.dev", Version: "v1", Resource: tt.resource, Object: object}
				if d := e.Evaluate(r); d.Allowed() != open {
					t.Errorf("%v: %s %s: allowed %v", settings, tt.resource, tt.spec, d.Allowed())
				}
				// On update as well, if the stored object does not have it; here alone is another judgement than Tekton's.
				r.Old = read(t, "{spec: {description: d}}")
				if d := e.Evaluate(r); d.Allowed() != open {
					t.Errorf("%v: %s %s, updated: allowed %v", settings, tt.resource, tt.spec, d.Allowed())
				}
				r.Old = maps.Clone(object)
				if d := e.Evaluate(r); !d.Allowed() {
					t.Errorf("%v: %s %s, stored: %s", settings, tt.resource, tt.spec, d.Message())
				}
			}
		}
	}
}
