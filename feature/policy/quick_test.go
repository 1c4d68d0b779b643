package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// quickModel has a feature for each way in which a gate can be opened.
func quickModel(t testing.TB, level v1alpha1.Level, lifted bool) *feature.Model {
	t.Helper()
	yes, no := true, false
	c := &v1alpha1.Component{}
	c.Name = "demo"
	c.Spec = v1alpha1.ComponentSpec{Release: "v1.5.0", DefaultLevel: level, ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo-system", Name: "flags"}}
	if lifted {
		c.Spec.Resources = []v1alpha1.ResourceStage{{Group: "demo.dev", Resource: "widgets", HighestStage: v1alpha1.Beta}}
	}
	stage := func(s v1alpha1.Stage, on *bool) []v1alpha1.FeatureStage {
		return []v1alpha1.FeatureStage{{Stage: s, Release: "v1.0.0", Default: on}}
	}
	var list []v1alpha1.Feature
	for _, s := range []v1alpha1.FeatureSpec{
		{Gate: "Follows", Stages: stage(v1alpha1.Alpha, nil), FollowsLevel: &yes},
		{Gate: "FollowsBeta", Stages: stage(v1alpha1.Beta, nil), FollowsLevel: &yes},
		{Gate: "Alone", Stages: stage(v1alpha1.Alpha, nil), FollowsLevel: &no},
		{Gate: "AloneOn", Stages: stage(v1alpha1.Beta, &yes), FollowsLevel: &no},
		{Gate: "AloneOff", Stages: stage(v1alpha1.Beta, &no), FollowsLevel: &no},
		{Gate: "Implied", Stages: stage(v1alpha1.Alpha, nil), FollowsLevel: &no, ImpliedByLevel: true},
		{Gate: "Inverted", Key: "no-inverted", Stages: stage(v1alpha1.Alpha, nil), FollowsLevel: &no, Inverted: true},
		{Gate: "Needs", Stages: stage(v1alpha1.Alpha, nil), FollowsLevel: &yes, Requires: []string{"Follows"}},
		{Gate: "Either", Stages: stage(v1alpha1.Alpha, nil), FollowsLevel: &no, ImpliedBy: []string{"Follows", "AloneOff"}},
	} {
		s.Component = "demo"
		s.Parts = []v1alpha1.Part{{Group: "demo.dev", Resource: "widgets", Field: "spec." + strings.ToLower(s.Gate)}}
		list = append(list, v1alpha1.Feature{Spec: s})
	}
	m, findings := feature.Define(c, list, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWhatIsSurelyOpenIsOpen holds the plain look at the settings against the variables: where it says open they do. It also
// counts, as a look that never says so would be right and of no use.
func TestWhatIsSurelyOpenIsOpen(t *testing.T) {
	keys := []string{"", "true", "false", " True ", "0", "yes"}
	lists := []string{
		"-", "", "GATE=true", "GATE=false", "GATE=true,GATE=false", "GATE=false,GATE=true", "GATE=true, GATE =false", " GATE=true", "GATE=True",
		"XGATE=true", "GATEX=true,GATE=false", "GATE=true,GATEX=false", "Other=true,GATE=true", "AllAlpha=true", "AllAlpha=false", "AllBeta=false", "AllBeta=false,GATE=true",
		"Follows=false,GATE=true", "GATE=true=false", "GATE", "GATE=true," + strings.Repeat("x", 5000), strings.Repeat("x", 70_000) + ",GATE=true",
	}
	levelWords := []string{"", "stable", "beta", "alpha", " Alpha", "all"}
	for _, fallback := range []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta} {
		for _, way := range []struct{ lifted, lists bool }{{false, true}, {true, true}, {true, false}, {false, false}} {
			m := quickModel(t, fallback, way.lifted)
			states := m.Resolve(nil, feature.Runtime{})
			for _, f := range m.Features() {
				open, sure, tries := 0, 0, 0
				quick, exact := quickGates(t, m, states, f.Spec.Gate, way.lists)
				if quick == nil {
					continue
				}
				check := func(data map[string]any) {
					params := map[string]any{}
					if data != nil {
						params["data"] = data
					}
					tries++
					o, s := exact(params), quick(params)
					if data["feature-gates"] != nil && !way.lists {
						return
					}
					if s && !o {
						t.Errorf("default level %s, %s, %+v: %v is taken for open", fallback, f.Spec.Gate, way, data)
					}
					if o {
						open++
					}
					if s {
						sure++
					}
				}
				check(nil)
				for _, key := range keys {
					for _, list := range lists {
						for _, level := range levelWords {
							data := map[string]any{"other": "x"}
							if key != "" {
								data[f.Spec.Key] = key
							}
							if list != "-" {
								data["feature-gates"] = strings.ReplaceAll(list, "GATE", f.Spec.Gate)
							}
							if level != "" {
								data["enable-api-fields"] = level
							}
							check(data)
						}
					}
				}
				if open > 0 && sure == 0 {
					t.Errorf("default level %s, %s, %+v: of %d settings that open it none is seen", fallback, f.Spec.Gate, way, open)
				}
				t.Logf("default level %s, %s, %+v: of %d settings %d open it, %d are seen at once", fallback, f.Spec.Gate, way, tries, open, sure)
			}
		}
	}
}

// quickGates returns the two ways to ask whether a gate is open; nil if it is fixed.
func quickGates(t *testing.T, m *feature.Model, states *feature.States, gate string, lists bool) (quick, exact func(params map[string]any) bool) {
	t.Helper()
	e := newEmitter(newestMinor)
	g := &gates{emitter: e, model: m, states: states, live: true, done: map[string]bool{}}
	open, sure := g.isOpen(gate, true), g.surelyOpen(gate, lists)
	if open == "true" || sure == "" {
		return nil, nil
	}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 29)))
	if err != nil {
		t.Fatal(err)
	}
	compile := func(name, expression string) plugincel.CompilationResult {
		r := compiler.CompileAndStoreVariable(&validating.Variable{Name: name, Expression: expression}, plugincel.OptionalVariableDeclarations{HasParams: true}, environment.NewExpressions)
		if r.Error != nil {
			t.Fatal(expression, r.Error)
		}
		return r
	}
	vars := make([]plugincel.CompilationResult, len(e.vars))
	for i, v := range e.vars {
		vars[i] = compile(v.name, v.expression)
	}
	ask := func(r *plugincel.CompilationResult, params, values map[string]any) any {
		v, details, err := r.Program.ContextEval(t.Context(), map[string]any{"params": params, "variables": values})
		if err != nil {
			t.Fatal(params, err)
		}
		if cost := details.ActualCost(); values == nil && *cost > quickCost {
			t.Fatalf("%v: %d", params, *cost)
		}
		return v.Value()
	}
	last, plain := compile("last", open), compile("plain", sure)
	return func(params map[string]any) bool { return ask(&plain, params, nil) == true },
		func(params map[string]any) bool {
			values := map[string]any{}
			for i := range vars {
				v, _, err := vars[i].Program.ContextEval(t.Context(), map[string]any{"params": params, "variables": values})
				if err != nil {
					t.Fatal(fmt.Sprint(params), err)
				}
				values[e.vars[i].name] = v
			}
			return ask(&last, params, values) == true
		}
}

// gatesWithRequirements are those of some features, each of which requires what a function says.
func gatesWithRequirements(t *testing.T, n int, requires func(i int) []string) *gates {
	t.Helper()
	c := &v1alpha1.Component{}
	c.Name = "demo"
	c.Spec = v1alpha1.ComponentSpec{Release: "v1.5.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo-system", Name: "flags"}}
	var list []v1alpha1.Feature
	for i := range n {
		list = append(list, v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "demo", Gate: fmt.Sprintf("Gate%d", i), Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}, Requires: requires(i),
		}})
	}
	m, findings := feature.Define(c, list, feature.Options{})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	return &gates{emitter: newEmitter(newestMinor), model: m, states: m.Resolve(nil, feature.Runtime{}), live: true, done: map[string]bool{}}
}

// TestRequirementsOfRequirementsAreNotWrittenOutWithoutEnd has each gate require all before it.
func TestRequirementsOfRequirementsAreNotWrittenOutWithoutEnd(t *testing.T) {
	var before []string
	g := gatesWithRequirements(t, 40, func(i int) []string {
		before = append(before, fmt.Sprintf("Gate%d", i))
		return slices.Clone(before[:i])
	})
	if sure := g.surelyOpen("Gate1", true); sure == "" {
		t.Error("one requirement is too many")
	}
	if sure := g.surelyOpen("Gate39", true); sure != "" {
		t.Errorf("%d bytes", len(sure))
	}
}

// TestChainsOfRequirementsAreNotTooDeep: the parser of expressions refuses those that are nested deeply.
func TestChainsOfRequirementsAreNotTooDeep(t *testing.T) {
	const n = 260
	g := gatesWithRequirements(t, n, func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{fmt.Sprintf("Gate%d", i-1)}
	})
	run, err := (&compiler{minor: newestMinor}).newRunner()
	if err != nil {
		t.Fatal(err)
	}
	run.hasParams = true
	for _, lists := range []bool{true, false} {
		longest := ""
		for i := range n {
			longest = cmp.Or(g.surelyOpen(fmt.Sprintf("Gate%d", i), lists), longest)
		}
		if err := run.compileCondition(longest).Error; err != nil || longest == "" {
			t.Errorf("%d bytes: %v", len(longest), err)
		}
	}
}
