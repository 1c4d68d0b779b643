package feature_test

import (
	"cmp"
	"strings"
	"testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/tools/featuregen"
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

// tekton defines the component with all its features.
func tekton(t *testing.T) (*feature.Model, []featuregen.TektonCase) {
	t.Helper()
	specs, cases, crds := featuregen.Tekton("tekton-pipelines")
	list := features(t, tektonFeatures)
	for _, s := range specs {
		list = append(list, v1alpha1.Feature{Spec: s})
	}
	var resources []feature.Resource
	for _, crd := range crds {
		r, err := feature.ResourceOf(crd)
		if err != nil {
			t.Fatal(err)
		}
		resources = append(resources, r)
	}
	m, findings := feature.Define(component(t, tektonComponent), list, feature.Options{Resources: resources})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m, cases
}

// TestTektonParts has each part of the API that Tekton's own webhook gates, in each object in which tasks and pipelines are
// embedded, at each level and with each flag: refused and accepted as there, and the refusal names the place, the stage and what
// to set, as Tekton's message does.
func TestTektonParts(t *testing.T) {
	m, cases := tekton(t)
	flags := map[string]bool{"": true}
	gates := map[string]bool{}
	for _, c := range cases {
		flags[c.Flag], gates[c.Gate] = true, true
	}
	if len(cases) < 120 || len(flags) != 16 || len(gates) != 16 {
		t.Fatalf("%d cases of %d gates with %d flags", len(cases), len(gates), len(flags))
	}
	open, closed := 0, 0
	for set, level := range map[string]v1alpha1.Level{"": v1alpha1.LevelBeta, "stable": v1alpha1.LevelStable, "beta": v1alpha1.LevelBeta, "alpha": v1alpha1.LevelAlpha} {
		for flag := range flags {
			settings := map[string]string{}
			if set != "" {
				settings["enable-api-fields"] = set
			}
			if flag != "" {
				settings[flag] = "true"
			}
			e := evaluator(t, m, settings)
			for _, c := range cases {
				want := c.Gate == "" || c.Opens(level, flag)
				object := map[string]any{"spec": c.Spec}
				r := &feature.Request{Group: featuregen.TektonGroup, Version: "v1", Resource: c.Resource, Object: object}
				d := e.Evaluate(r)
				if d.Allowed() != want {
					t.Errorf("%v: %s %s: allowed %v", settings, c.Resource, show(t, c.Spec), d.Allowed())
				}
				if want {
					open++
				} else {
					closed++
					stage := string(cmp.Or(c.Level, v1alpha1.LevelAlpha))
					for _, w := range []string{c.Place + ": ", stage + "; needs feature \"" + c.Gate + "\"", c.Need() + " tekton-pipelines/feature-flags"} {
						if !strings.Contains(d.Message(), w) {
							t.Errorf("%s is not in %s", w, d.Message())
						}
					}
					if d.Rejected.Count != 1 {
						t.Errorf("%s: %s", show(t, c.Spec), d.Message())
					}
				}
				// On update as well, if the stored object does not have it; here alone is another judgement than Tekton's.
				r.Old = map[string]any{"spec": map[string]any{"description": "d"}}
				if d := e.Evaluate(r); d.Allowed() != want {
					t.Errorf("%v: %s %s, updated: allowed %v", settings, c.Resource, show(t, c.Spec), d.Allowed())
				}
				r.Old = object
				if d := e.Evaluate(r); !d.Allowed() {
					t.Errorf("%v: %s %s, stored: %s", settings, c.Resource, show(t, c.Spec), d.Message())
				}
			}
		}
	}
	t.Logf("%d cases: %d accepted and %d refused at 4 levels with %d flags", len(cases), open, closed, len(flags))
}
