package life

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

const cutCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Job, plural: jobs}
  versions:
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object}}
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Text, type: string, jsonPath: .spec.text}
    - {name: Extra, type: string, jsonPath: .spec.extra}
    - {name: Quoted, type: string, jsonPath: ".spec['extra']"}
    selectableFields: [{jsonPath: .spec.text}, {jsonPath: .spec.extra}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "has(self.text) || has(self.extra)", message: something is needed, fieldPath: .extra}
            - {rule: "!has(self.extra) || self.extra.size() > 2"}
            - {rule: "has(self.steps) ? self.steps.all(s, !has(s.debug) || s.name != 'x') : true"}
            oneOf:
            - {required: [text]}
            - {required: [extra]}
            properties:
              text: {type: string, maxLength: 20}
              extra: {type: string, maxLength: 20}
              mode: {type: string, enum: [Slow, Fast]}
              script: {type: string}
              tags: {type: array, items: {type: string}}
              byName:
                type: object
                additionalProperties:
                  type: object
                  properties: {debug: {type: boolean}}
              steps:
                type: array
                maxItems: 10
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, maxLength: 20}
                    debug: {type: boolean}
`

func crdOf(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	return crd
}

// modelOf has a feature A, B, C... at stage alpha for each part.
func modelOf(crd *apiextensionsv1.CustomResourceDefinition, parts ...v1alpha1.Part) (*feature.Model, feature.Findings, error) {
	r, err := feature.ResourceOf(crd)
	if err != nil {
		return nil, nil, err
	}
	var c v1alpha1.Component
	c.Name, c.Spec.Release = "jobs", "v1.0.0"
	var list []v1alpha1.Feature
	for i, p := range parts {
		p.Group, p.Resource = crd.Spec.Group, crd.Spec.Names.Plural
		var f v1alpha1.Feature
		gate := string(rune('A' + i))
		f.Name = "jobs." + strings.ToLower(gate)
		f.Spec = v1alpha1.FeatureSpec{
			Component: "jobs", Gate: gate, Parts: []v1alpha1.Part{p},
			Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
		}
		list = append(list, f)
	}
	m, findings := feature.Define(&c, list, feature.Options{Resources: []feature.Resource{r}})
	return m, findings, nil
}

// TestRulesAboutValuesThatAChannelLeavesOut: those of Gateway API's HTTPRoute speak of a filter's type, and its standard channel has none of them for a
// type that is not in it.
func TestRulesAboutValuesThatAChannelLeavesOut(t *testing.T) {
	path, err := feature.ParsePath("type")
	if err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]string{
		`!(has(self.ext) && self.type != 'Ext')`:                     `!has(self.ext)`,
		`!(!has(self.ext) && self.type == 'Ext')`:                    `true`,
		`!(self.type == "Ext")`:                                      `true`,
		`'Ext' == self.type ? has(self.ext) : self.size() > 1`:       `self.size() > 1`,
		`self.type == 'Core'`:                                        `self.type == 'Core'`,
		`self.other == 'Ext'`:                                        `self.other == 'Ext'`,
		`oldSelf.type == 'Ext' || has(self.x)`:                       `oldSelf.type == 'Ext' || has(self.x)`, // a stored one may have it
		`self.type in ['Ext', 'Core']`:                               `self.type in ['Ext', 'Core']`,
		`self.all(x, x.type == 'Ext' ? has(x.ext) : has(self.type))`: `self.all(x, x.type == 'Ext' ? has(x.ext) : has(self.type))`,
	} {
		if got, problem := withoutValues(rule, path, []string{"Ext"}); got != want || problem != "" {
			t.Errorf("%s: %s %s", rule, got, problem)
		}
	}
	if _, problem := withoutValues(`self.type == 'Ext'`, path, []string{"Ext"}); !strings.Contains(problem, "is never true") {
		t.Errorf("a rule that demands the value: %q", problem)
	}
	crd := crdOf(t, strings.Replace(cutCRD, "oneOf:\n", "oneOf: # of text and extra\n", 1))
	spec := crd.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{Rule: "!(has(self.mode) && self.mode == 'Fast')"})
	crd.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	mode, err := feature.ParsePath("spec.mode")
	if err != nil {
		t.Fatal(err)
	}
	if problems := cutTarget(&crd.Spec.Versions[1], &feature.Target{Path: mode, Values: []string{"Fast"}}); problems != nil {
		t.Error(problems)
	}
	if spec := crd.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["spec"]; len(spec.XValidations) != 3 || len(spec.Properties["mode"].Enum) != 1 {
		t.Errorf("%v", spec.XValidations)
	}
}

func TestAChannelHasWhatImpliesAndWhatIsRequired(t *testing.T) {
	stage := func(s v1alpha1.Stage, release string, locked bool) []v1alpha1.FeatureStage {
		return []v1alpha1.FeatureStage{{Stage: s, Release: release, LockToDefault: locked}}
	}
	alpha := stage(v1alpha1.Alpha, "v1.0.0", false)
	var list []v1alpha1.Feature
	for _, s := range []v1alpha1.FeatureSpec{
		{Gate: "Base", Stages: stage(v1alpha1.Beta, "v1.0.0", false)},
		{Gate: "Other", Stages: alpha},
		{Gate: "Either", Stages: alpha, ImpliedBy: []string{"Other", "Base"}},
		{Gate: "Again", Stages: alpha, ImpliedBy: []string{"Either"}},
		{Gate: "Needy", Stages: alpha, ImpliedBy: []string{"Base"}, Requires: []string{"Other"}},
		{Gate: "Later", Stages: stage(v1alpha1.Alpha, "v2.0.0", false), ImpliedBy: []string{"Base"}},
		{Gate: "Locked", Stages: stage(v1alpha1.Alpha, "v1.0.0", true), ImpliedBy: []string{"Base"}},
	} {
		s.Component = "jobs"
		list = append(list, v1alpha1.Feature{Spec: s})
	}
	c := &v1alpha1.Component{Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
	c.Name = "jobs"
	model, findings := feature.Define(c, list, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		channel Channel
		closed  string // or the error
	}{
		{Channel{Level: v1alpha1.LevelStable}, "Again Base Either Later Locked Needy Other"},
		{Channel{Level: v1alpha1.LevelBeta}, "Later Locked Needy Other"},
		{Channel{Level: v1alpha1.LevelBeta, Gates: map[string]bool{"Other": true}}, "Later Locked"},
		{Channel{Level: v1alpha1.LevelBeta, Gates: map[string]bool{"Either": false}}, "Either=false, but Base, which implies it, is in the channel"},
		{Channel{Level: v1alpha1.LevelStable, Gates: map[string]bool{"Either": true}}, "Base Later Locked Needy Other"},
		{Channel{Level: v1alpha1.LevelBeta, Gates: map[string]bool{"Needy": true}}, "Needy=true requires Other, which the channel leaves out"},
	} {
		closed, err := tt.channel.Closed(model)
		var names []string
		for _, f := range closed {
			names = append(names, f.Spec.Gate)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != tt.closed {
			t.Errorf("%s: %s, want %s", tt.channel.String(), got, tt.closed)
		}
	}
}

func TestAChannelLeavesOutWhatIsGatedAndWhatNamesIt(t *testing.T) {
	crd := crdOf(t, cutCRD)
	model, findings, err := modelOf(crd,
		v1alpha1.Part{Field: "spec.extra"},
		v1alpha1.Part{Field: "spec.mode", Values: []string{"Fast"}},
		v1alpha1.Part{Field: "spec.steps[*].debug"},
		v1alpha1.Part{Field: "spec.byName[*].debug"},
		v1alpha1.Part{Field: "spec.script", Pattern: "^#!win"},
		v1alpha1.Part{Field: "spec.tags[*]"},
		v1alpha1.Part{Field: "spec.text", Beyond: &v1alpha1.Bounds{MaxLength: new(int64(5)), Pattern: "^[a-z]+$"}},
		v1alpha1.Part{WholeVersion: true, Versions: []string{"v2"}},
	)
	if err != nil || findings.Err() != nil {
		t.Fatal(err, findings)
	}
	stable := Channel{Level: v1alpha1.LevelStable}
	closed, err := stable.Closed(model)
	if err != nil || len(closed) != 8 {
		t.Fatal(len(closed), err)
	}
	out, notes, err := Cut(t.Context(), crd, crd, closed, stable.String())
	if err != nil || notes != nil {
		t.Fatal(notes, err)
	}
	data, err := yaml.Marshal(out.Spec.Versions)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, gone := range []string{"extra", "debug", "Fast", "v2"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is left in\n%s", gone, text)
		}
	}
	for _, want := range []string{"rule: has(self.text)", "pattern: ^#!win", "maxItems: 0", "maxLength: 5", "pattern: ^[a-z]+$", "oneOf:", "message: something is needed"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	if rules := out.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].XValidations; len(rules) != 1 || rules[0].FieldPath != "" {
		t.Errorf("the rules are %v", rules)
	}
	if len(crd.Spec.Versions) != 2 || out.Annotations[ChannelAnnotation] != "stable" {
		t.Error("the CRD was changed, or the channel is not named")
	}
	alpha := Channel{Level: v1alpha1.LevelAlpha}
	if closed, err := alpha.Closed(model); err != nil || len(closed) != 0 {
		t.Error("the channel alpha leaves something out", closed, err)
	}
	gates := Channel{Gates: map[string]bool{"A": false}}
	if closed, err := gates.Closed(model); err != nil || len(closed) != 1 || gates.String() != "alpha,A=false" {
		t.Error(closed, err, gates.String())
	}
}

func TestWhatStandsInTheWayOfAChannelIsTold(t *testing.T) {
	for _, tt := range []struct{ name, old, next, want string }{
		{"a rule that needs it", "!has(self.extra) || self.extra.size() > 2", "self.extra.size() > 2", `the rule "self.extra.size() > 2" at spec needs it`},
		{"a rule that is never true", "!has(self.extra) || self.extra.size() > 2", "has(self.extra)", `the rule "has(self.extra)" at spec is never true without it`},
		{"a condition", "oneOf:\n            - {required: [text]}\n", "oneOf:\n", "a condition (allOf, anyOf or oneOf) at spec cannot hold without it"},
		{"an optional selection", "!has(self.extra) || self.extra.size() > 2", "self.?extra.orValue('xxx').size() > 2", "needs it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(cutCRD, tt.old) {
				t.Fatal("the text is not there")
			}
			crd := crdOf(t, strings.Replace(cutCRD, tt.old, tt.next, 1))
			// Package feature refuses some of these before.
			problems := cutField(crd.Spec.Versions[1].Schema.OpenAPIV3Schema, feature.Path{{Name: "spec"}, {Name: "extra"}})
			if len(problems) != 1 || !strings.Contains(problems[0], tt.want) {
				t.Errorf("the problems are %q, not %s", problems, tt.want)
			}
		})
	}
	crd := crdOf(t, cutCRD)
	model, _, err := modelOf(crd, v1alpha1.Part{WholeVersion: true, Versions: []string{"v1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Cut(t.Context(), crd, crd, model.Features(), "stable"); err == nil || !strings.Contains(err.Error(), "v1 is the storage version") {
		t.Error(err)
	}
	for c, want := range map[*Channel]string{
		{Level: "stabel"}:                    `there is no channel "stabel" (did you mean "stable"?)`,
		{Gates: map[string]bool{"Aa": true}}: `component jobs has no feature "Aa" (did you mean "A"?)`,
	} {
		if _, err := c.Closed(model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestSingleMarkersHoldInSomeChannelsOnly(t *testing.T) {
	text := strings.Replace(shopText, "	// Script is run.\n", `	// Copies are printed.
	// +sluice:ifDisabled:name=Scripts,marker="kubebuilder:validation:Maximum=10"
	// +sluice:ifEnabled:name=Scripts,marker="kubebuilder:validation:Maximum=100"
	// +sluice:ifDisabled:name=Scripts,marker="kubebuilder:validation:XValidation:rule=\"self != 7\""
	Copies int32 `+"`json:\"copies,omitempty\"`\n"+`	// Script is run.
`, 1)
	project(t, strings.Replace(text, "  - {path: config/crd/}\n", "  - {path: all.yaml}\n  - {path: stable.yaml, channel: stable}\n", 1))
	p, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Outputs(t.Context(), Channel{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(); err != nil {
		t.Fatal(err)
	}
	copies := func(file string) apiextensionsv1.JSONSchemaProps {
		crd := crdOf(t, read(t, file))
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["copies"]
	}
	if all := copies("all.yaml"); *all.Maximum != 100 || all.XValidations != nil {
		t.Errorf("the whole CRD has %v", all)
	}
	if stable := copies("stable.yaml"); *stable.Maximum != 10 || len(stable.XValidations) != 1 {
		t.Errorf("the channel stable has %v", stable)
	}

	// A channel that is not contained is refused, and so is a marker that is none.
	write(t, "api/v1/types.go", strings.Replace(read(t, "api/v1/types.go"), "Maximum=10\"", "Maximum=1000\"", 1))
	if p, err = load(t); err == nil {
		_, err = p.Outputs(t.Context(), Channel{})
	}
	if err == nil || !strings.Contains(err.Error(), "the channel stable accepts what the whole CRD refuses: .spec.copies: maximum") {
		t.Error(err)
	}
	write(t, "api/v1/types.go", strings.Replace(read(t, "api/v1/types.go"), "kubebuilder:validation:Maximum=1000", "kubebuilder:validation:Maximun=1000", 1))
	if _, err := load(t); err == nil || !strings.Contains(err.Error(), `there is no marker +kubebuilder:validation:Maximun (did you mean "kubebuilder:validation:Maximum"?)`) {
		t.Error(err)
	}
}

// TestAChannelOfAnInvalidCRDSaysSo: what is wrong with the whole CRD is not said of the channel.
func TestAChannelOfAnInvalidCRDSaysSo(t *testing.T) {
	crd := crdOf(t, strings.Replace(cutCRD, "mode: {type: string, enum: [Slow, Fast]}", "mode: {type: string, default: Fats, enum: [Slow, Fast]}", 1))
	model, _, err := modelOf(crd, v1alpha1.Part{Field: "spec.byName"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Cut(t.Context(), crd, crd, model.Features(), "stable"); err == nil || strings.Contains(err.Error(), "refuses") || !strings.Contains(err.Error(), "is no valid CRD") {
		t.Error(err)
	}
	// Versions with one schema, but selectable fields in one of them only: the API server refuses the whole CRD, and not the channel.
	crd = crdOf(t, strings.Replace(cutCRD, "selectableFields: [{jsonPath: .spec.text}, ", "selectableFields: [", 1))
	crd.Spec.Versions[0].Schema = crd.Spec.Versions[1].Schema.DeepCopy()
	if model, _, err = modelOf(crd, v1alpha1.Part{Field: "spec.extra"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Cut(t.Context(), crd, crd, model.Features(), "stable"); err == nil || strings.Contains(err.Error(), "channel") || !strings.Contains(err.Error(), "is no valid CRD") {
		t.Error(err)
	}
}

// TestColumnsThatNameAFieldGoToo, whichever way their JSONPath writes it.
func TestColumnsThatNameAFieldGoToo(t *testing.T) {
	crd := crdOf(t, cutCRD)
	model, _, err := modelOf(crd, v1alpha1.Part{Field: "spec.extra"})
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := Cut(t.Context(), crd, crd, model.Features(), "stable")
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Spec.Versions[1].AdditionalPrinterColumns; len(c) != 1 || c[0].Name != "Text" {
		t.Errorf("the columns are %v", c)
	}
}
