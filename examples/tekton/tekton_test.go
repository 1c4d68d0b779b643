package tekton_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/featuregen"
)

// documents reads the documents of a file of one kind each.
func documents(t *testing.T, file string, read func(kind string, text []byte) error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal(text, &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind == "" { // the comment at the beginning
			continue
		}
		if want := v1alpha1.SchemeGroupVersion.String(); head.Kind != "CustomResourceDefinition" && head.APIVersion != want {
			t.Fatalf("%s: %s is of %s, which is not %s", file, head.Kind, head.APIVersion, want)
		}
		if err := read(head.Kind, text); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

func example(t *testing.T) *feature.Model {
	t.Helper()
	var component v1alpha1.Component
	var features []v1alpha1.Feature
	var o feature.Options
	documents(t, "manifests.yaml", func(kind string, text []byte) error {
		if kind == "Component" {
			return yaml.UnmarshalStrict(text, &component)
		}
		features = append(features, v1alpha1.Feature{})
		return yaml.UnmarshalStrict(text, &features[len(features)-1])
	})
	documents(t, "crds.yaml", func(_ string, text []byte) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return err
		}
		r, err := feature.ResourceOf(&crd)
		o.Resources = append(o.Resources, r)
		return err
	})
	m, findings := feature.Define(&component, features, o)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// inV1beta1 are the names that v1beta1 has for fields of v1.
var inV1beta1 = strings.NewReplacer("stepSpecs", "stepOverrides", "sidecarSpecs", "sidecarOverrides")

// judged is a case in one version of its resource.
type judged struct {
	featuregen.TektonCase
	version string
}

// judgedCases are the rows of the documented table, in each place where a task or a pipeline is embedded, in all versions.
func judgedCases(t *testing.T) (out []judged) {
	t.Helper()
	for _, row := range featuregen.Tekton() {
		old := row
		old.Place, old.Spec = inV1beta1.Replace(row.Place), nil
		text, err := json.Marshal(row.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(inV1beta1.Replace(string(text))), &old.Spec); err != nil {
			t.Fatal(err)
		}
		out = append(out, judged{row, "v1"}, judged{old, "v1beta1"})
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		out = append(out,
			judged{featuregen.TektonCase{Resource: "stepactions", Spec: map[string]any{"image": "i", "script": "#!/bin/sh"}}, version},
			judged{featuregen.TektonCase{
				Resource: "stepactions", Gate: "WindowsScript", Level: v1alpha1.LevelAlpha, Flag: "windows-script",
				Spec: map[string]any{"image": "i", "script": " #!win powershell"}, Place: "spec.script",
			}, version})
	}
	return out
}

// TestTheEvaluatorJudgesAsTheTableSays has each row of the table at each level and with each flag: refused and accepted as by Tekton's own
// webhook, and the refusal names the place, the stage and what to set, as Tekton's message does.
func TestTheEvaluatorJudgesAsTheTableSays(t *testing.T) {
	m, cases := example(t), judgedCases(t)
	flags := map[string]bool{"": true}
	gates := map[string]bool{}
	for i := range cases {
		flags[cases[i].Flag], gates[cases[i].Gate] = true, true
	}
	if len(cases) < 240 || len(flags) != 15 || len(gates) != 15 {
		t.Fatalf("%d cases of %d gates with %d flags", len(cases), len(gates), len(flags))
	}
	open, closed := 0, 0
	for set, level := range map[string]v1alpha1.Level{"": v1alpha1.LevelBeta, "stable": v1alpha1.LevelStable, "beta": v1alpha1.LevelBeta, "alpha": v1alpha1.LevelAlpha} {
		for flag := range flags {
			data := map[string]string{}
			if set != "" {
				data["enable-api-fields"] = set
			}
			if flag != "" {
				data[flag] = "true"
			}
			settings, findings := m.ParseSettings(data)
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			e := m.Resolve(settings, feature.Runtime{}).Compile()
			for i := range cases {
				c := &cases[i]
				want := c.Gate == "" || c.Opens(level, flag)
				object := map[string]any{"spec": c.Spec}
				r := &feature.Request{Group: featuregen.TektonGroup, Version: c.version, Resource: c.Resource, Object: object}
				d := e.Evaluate(r)
				if d.Allowed() != want {
					t.Errorf("%v: %s %s: allowed %v", data, c.Resource, featuregen.Show(c.Spec), d.Allowed())
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
						t.Errorf("%s: %s", featuregen.Show(c.Spec), d.Message())
					}
				}
				// On update as well, if the stored object does not have it; here alone is another judgement than Tekton's.
				r.Old = map[string]any{"spec": map[string]any{"description": "d"}}
				if d := e.Evaluate(r); d.Allowed() != want {
					t.Errorf("%v: %s %s, updated: allowed %v", data, c.Resource, featuregen.Show(c.Spec), d.Allowed())
				}
				r.Old = object
				if d := e.Evaluate(r); !d.Allowed() {
					t.Errorf("%v: %s %s, stored: %s", data, c.Resource, featuregen.Show(c.Spec), d.Message())
				}
			}
		}
	}
	t.Logf("%d cases: %d accepted and %d refused at 4 levels with %d flags", len(cases), open, closed, len(flags))
}

// TestThePoliciesJudgeAsTheTableSays has each row of the table accepted and refused by policies alone, at each level and with its flag.
func TestThePoliciesJudgeAsTheTableSays(t *testing.T) {
	m := example(t)
	set, err := policy.Compile(t.Context(), m, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	alone := 0
	for _, e := range set.Enforced {
		if e.Kind != "" {
			alone++
			continue
		}
		t.Logf("%s of %s %s takes the webhook: %s", e.Gate, e.Resource, e.Version, e.Reason)
	}
	t.Logf("%d of %d targets are enforced by policies alone", alone, len(set.Enforced))
	if len(set.Enforced) < 150 || 10*alone < 9*len(set.Enforced) {
		t.Errorf("%d of %d targets are enforced by policies alone, less than 90%%", alone, len(set.Enforced))
	}
	s, err := simulate.New(set)
	if err != nil {
		t.Fatal(err)
	}
	accepted, refused := 0, 0
	judge := func(c *judged, settings map[string]string, want bool) {
		t.Helper()
		res, err := s.Run(t.Context(), &simulate.Request{
			Group: featuregen.TektonGroup, Version: c.version, Resource: c.Resource, Settings: settings,
			Object: map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}, "spec": c.Spec},
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case res.Allowed() != want:
			t.Errorf("%v: %s %s %s: allowed %v, %v", settings, c.version, c.Resource, featuregen.Show(c.Spec), res.Allowed(), res.Refused)
		case want:
			accepted++
		default:
			refused++
			if said := res.Refused[0]; said.Failed || !strings.Contains(said.Message, c.Place+": ") || !strings.Contains(said.Message, c.Need()) {
				t.Errorf("%v: %s is not told: %v", settings, c.Place, said)
			}
		}
	}
	all := judgedCases(t)
	for i := range all {
		c := &all[i]
		levels := []v1alpha1.Level{"", v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha}
		if !draws.Takes(i) {
			levels = levels[i%4 : i%4+1]
		}
		for _, level := range levels {
			settings := map[string]string{}
			if level != "" {
				settings["enable-api-fields"] = string(level)
			}
			judge(c, settings, c.Gate == "" || c.Opens(cmp.Or(level, v1alpha1.LevelBeta)))
		}
		if c.Flag != "" {
			judge(c, map[string]string{"enable-api-fields": "stable", c.Flag: "true"}, true)
		}
	}
	if accepted < len(all)/2 || refused < len(all)/8 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
	t.Logf("%d cases: %d accepted, %d refused", len(all), accepted, refused)
}

// TestTektonsOwnSettingsAreKnown reads what Tekton's release has in its ConfigMap: no key is unknown, and nothing opens but what is
// open without it.
func TestTektonsOwnSettingsAreKnown(t *testing.T) {
	released := map[string]string{
		"await-sidecar-readiness": "true", "coschedule": "workspaces", "disable-creds-init": "false", "disable-inline-spec": "",
		"enable-api-fields": "beta", "enable-artifacts": "false", "enable-cel-in-whenexpression": "false", "enable-concise-resolver-syntax": "false",
		"enable-informer-cache-transforms": "true", "enable-kubernetes-sidecar": "false", "enable-param-enum": "false",
		"enable-provenance-in-status": "true", "enable-step-actions": "true", "enable-tekton-oci-bundles": "false",
		"enable-termination-message-compression": "false", "enable-wait-exponential-backoff": "false", "enforce-nonfalsifiability": "none",
		"keep-pod-on-cancel": "false", "require-git-ssh-secret-known-hosts": "false", "results-from": "termination-message",
		"running-in-environment-with-injected-sidecars": "true", "send-cloudevents-for-runs": "true", "set-security-context": "false",
		"set-security-context-read-only-root-filesystem": "false", "trusted-resources-verification-no-match-policy": "ignore",
	}
	m := example(t)
	settings, findings := m.ParseSettings(released)
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	set, unset := m.Resolve(settings, feature.Runtime{}), m.Resolve(nil, feature.Runtime{})
	for _, f := range m.Features() {
		a, _ := set.State(f.Spec.Gate)
		b, _ := unset.State(f.Spec.Gate)
		if a.Open != b.Open {
			t.Errorf("%s: open %v as released, %v by default", f.Spec.Gate, a.Open, b.Open)
		}
	}
}

// TestReleasesAreThoseOfUpstream holds the histories to the tables of alpha and beta features in Tekton Pipelines v1.15.0,
// docs/additional-configs.md. Rows without a gate here are annotations and settings that are no gates.
func TestReleasesAreThoseOfUpstream(t *testing.T) {
	const table = `
| Bundles                           | v0.18.0 |         | TektonOCIBundles |
| Windows Scripts                   | v0.28.0 |         | WindowsScript |
| Debug                             | v0.26.0 |         | Debug |
| StdoutConfig and StderrConfig     | v0.38.0 |         | StepOutput |
| keep pod on cancel                | v0.52.0 |         | KeepPodOnCancel |
| CEL in WhenExpression             | v0.53.0 |         | CELInWhenExpression |
| Param Enum                        | v0.54.0 |         | ParamEnum |
| Remote Tasks                      |         | v0.41.0 | TaskResolver |
| Remote Pipelines                  |         | v0.41.0 | PipelineResolver |
| Provenance field in Status        | v0.41.0 | v0.48.0 | ProvenanceInStatus |
| Isolated Step, Sidecar Workspaces | v0.24.0 | v0.50.0 | StepWorkspaces |
| Matrix                            | v0.38.0 | v0.53.0 | Matrix |
| Task-level Resource Requirements  | v0.39.0 | v0.53.0 | ComputeResources |
| Step and Sidecar Overrides        | v0.34.0 | v0.61.0 | RunSpecs |
| Ignore Task Failure               | v0.55.0 | v0.62.0 | OnError |
`
	m := example(t)
	for row := range strings.Lines(strings.TrimSpace(table)) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		gate := strings.TrimSpace(cells[4])
		want := map[v1alpha1.Stage]string{v1alpha1.Alpha: strings.TrimSpace(cells[2]), v1alpha1.Beta: strings.TrimSpace(cells[3])}
		got := map[v1alpha1.Stage]string{v1alpha1.Alpha: "", v1alpha1.Beta: ""}
		for _, s := range m.Feature(gate).Spec.Stages {
			got[s.Stage] = s.Release
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, upstream has %v", gate, got, want)
		}
	}
}

// schemaField is a field in the schema of a resource: a name in an object.
type schemaField struct {
	path, name string
	in, of     apiextensionsv1.JSONSchemaProps
}

// fieldsBelow lists the fields of a schema, with their paths in the form in which parts name them.
func fieldsBelow(path string, s *apiextensionsv1.JSONSchemaProps) (out []schemaField) {
	for name, p := range s.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		out = append(append(out, schemaField{at, name, *s, p}), fieldsBelow(at, &p)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		out = append(out, fieldsBelow(path+"[*]", s.Items.Schema)...)
	}
	return out
}

// isLike reports whether two fields have one name and one schema, and objects around them of which one has all that the other one has.
func (f *schemaField) isLike(o schemaField) bool {
	shared := 0
	for name := range f.in.Properties {
		if _, ok := o.in.Properties[name]; ok {
			shared++
		}
	}
	return f.name == o.name && shared == min(len(f.in.Properties), len(o.in.Properties)) && equality.Semantic.DeepEqual(f.of, o.of)
}

// TestSiblingsOfGatedFieldsAreGated finds fields of the schemas that are like a gated one, and that no feature gates.
func TestSiblingsOfGatedFieldsAreGated(t *testing.T) {
	fields := map[string][]schemaField{}
	documents(t, "crds.yaml", func(_ string, text []byte) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return err
		}
		for _, v := range crd.Spec.Versions {
			plural := crd.Spec.Names.Plural
			fields[plural] = append(fields[plural], fieldsBelow("", v.Schema.OpenAPIV3Schema)...)
		}
		return nil
	})
	parts := map[string][]string{}
	for _, f := range example(t).Features() {
		for _, p := range f.Spec.Parts {
			parts[p.Resource] = append(parts[p.Resource], strings.TrimSuffix(p.Field, "[*]"))
		}
	}
	isGated := func(resource, path string) bool {
		return slices.ContainsFunc(parts[resource], func(gated string) bool {
			rest, ok := strings.CutPrefix(path, gated)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	}
	var gated []schemaField
	for resource, all := range fields {
		for _, f := range all {
			if slices.Contains(parts[resource], f.path) {
				gated = append(gated, f)
			}
		}
	}
	if len(gated) < 60 {
		t.Errorf("the schemas have only %d gated fields", len(gated))
	}
	// Tekton does not look at enums in a StepAction.
	isOpen := func(resource, path string) bool { return resource == "stepactions" && path == "spec.params[*].enum" }
	for resource, all := range fields {
		for _, f := range all {
			like := slices.IndexFunc(gated, f.isLike)
			if like >= 0 && !isGated(resource, f.path) && !isOpen(resource, f.path) && !strings.HasPrefix(f.path, "status.") {
				t.Errorf("no feature gates %s %s, which is like %s", resource, f.path, gated[like].path)
			}
		}
	}
}
