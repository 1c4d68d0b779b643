package feature_test

// A component in the form of Tekton Pipelines: its settings, and the features that have had keys there.

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
- {component: tekton-pipelines, gate: CELInWhenExpression, key: enable-cel-in-whenexpression, followsLevel: false}
- {component: tekton-pipelines, gate: ParamEnum, key: enable-param-enum, followsLevel: false}
`
