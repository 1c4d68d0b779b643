package feature_test

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
