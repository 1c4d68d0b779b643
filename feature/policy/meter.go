package policy

// What does an expression cost? The API server's own compiler and interpreter run it. For example, a condition for
// lists of 5,000 items runs with four short lists, and the cost for 5,000 follows from these.

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/feature"
)

// runner evaluates expressions with the API server's compiler and interpreter.
type runner struct {
	*plugincel.CompositedCompiler
	object, old any
	request     any // nil stands for an empty one
	hasParams   bool
	params      map[string]any
	values      map[string]any
}

// newRunner makes a runner of expressions that an API server of the version accepts in new policies. To make a compiler costs much more than to
// use it, so all runners share one: each declares its variables before it refers to them.
func (c *compiler) newRunner() (*runner, error) {
	if c.shared == nil {
		var err error
		if c.shared, err = plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, uint(c.minor-1)))); err != nil {
			return nil, err
		}
	}
	return &runner{CompositedCompiler: c.shared, values: map[string]any{}, params: map[string]any{}}, nil
}

func (r *runner) declarationOptions() plugincel.OptionalVariableDeclarations {
	return plugincel.OptionalVariableDeclarations{HasParams: r.hasParams, HasAuthorizer: true}
}

func (r *runner) compileVariable(v variable) plugincel.CompilationResult {
	return r.CompileAndStoreVariable(&validating.Variable{Name: v.name, Expression: v.expression}, r.declarationOptions(), environment.NewExpressions)
}

func (r *runner) compileCondition(expression string) plugincel.CompilationResult {
	return r.CompileCELExpression(&validating.ValidationCondition{Expression: expression}, r.declarationOptions(), environment.NewExpressions)
}

func (r *runner) compilePatch(expression string) plugincel.CompilationResult {
	o := r.declarationOptions()
	o.HasPatchTypes = true
	return r.CompileCELExpression(&patch.JSONPatchCondition{Expression: expression}, o, environment.NewExpressions)
}

// runVariable compiles a variable, evaluates it and returns what that cost.
func (r *runner) runVariable(ctx context.Context, v variable) (int64, error) {
	res := r.compileVariable(v)
	return r.evaluateVariable(ctx, v, &res)
}

// evaluateVariable evaluates a variable and keeps its value.
func (r *runner) evaluateVariable(ctx context.Context, v variable, res *plugincel.CompilationResult) (int64, error) {
	r.values[v.name] = false // gates are closed here, and only a text that is too long is read
	if res.Error != nil {
		return 0, res.Error
	}
	if isTextOfValue(v.name) || countAuthorizerAsks(v.expression) > 0 || strings.Contains(v.expression, "namespaceObject") {
		return 0, nil
	}
	value, cost, err := r.evalProgram(ctx, res)
	if err != nil {
		return 0, err
	}
	r.values[v.name] = value
	return cost, nil
}

// isTextOfValue reports whether a variable has a value as text; see [emitter.asText]. Sample objects are never so large that it is asked for.
func isTextOfValue(variable string) bool {
	number, ok := strings.CutPrefix(variable, "w")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// countAuthorizerAsks counts the questions to the authorizer.
func countAuthorizerAsks(expression string) int64 {
	return int64(strings.Count(expression, "authorizer."))
}

// evalProgram evaluates a compiled expression with the objects of the runner, and returns its value and what
// that cost in the API server's units. An error in the expression itself is an error here too.
func (r *runner) evalProgram(ctx context.Context, res *plugincel.CompilationResult) (any, int64, error) {
	if res.Error != nil {
		return nil, 0, res.Error
	}
	request := r.request
	if request == nil {
		request = map[string]any{}
	}
	value, details, err := res.Program.ContextEval(ctx, map[string]any{
		"object": r.object, "oldObject": r.old, "params": common.SchemalessTypedToVal(r.params), "variables": r.values,
		"request": request, "namespaceObject": nil,
	})
	if err != nil {
		return nil, 0, err
	}
	cost := details.ActualCost()
	if cost == nil || *cost > math.MaxInt64/1000 {
		return nil, 0, fmt.Errorf("its cost is not known")
	}
	return value, int64(*cost), nil
}

// sampling says how large the objects are with which expressions are measured.
type sampling struct {
	// piece is how many items the loops of measured expressions go through at a time, and whole how many without being divided.
	piece, whole int
	counts       []int // of items
}

// largeSampling measures two and three pieces, as the API server goes through them. smallSampling gives the same costs in a fifth of the
// time. It needs loops in pieces: the numbers of items are part of texts, so an item costs the same only beside those that
// have as many digits. Costs are rounded up from tenths, so all counts are multiples of ten.
var (
	largeSampling = sampling{piece, piece, []int{smallSample, sample}}
	smallSampling = sampling{20, 1, []int{10, 20, 30, 40}}
)

// chosenSampling is how this compiler measures.
func (c *compiler) chosenSampling() sampling {
	if c.minor < nestedSince || c.largeSamples {
		return largeSampling
	}
	return smallSampling
}

// itemNumbers are those of the first n items of an object: items of the same digits stand for each other.
func (s sampling) itemNumbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i/s.piece*piece + i%s.piece
	}
	return out
}

// costsOfSamples returns the costs of smallSample and sample items from those of the counts.
func (s sampling) costsOfSamples(of []int64) [2]int64 {
	if len(s.counts) == 2 {
		return [2]int64{of[0], of[1]}
	}
	// The second ten are like the rest of the first piece, the third begin another one, and the fourth are like the rest of that.
	first := of[1] + (piece-20)/10*(of[1]-of[0])
	further := of[2] - of[1] + (piece-10)/10*(of[3]-of[2])
	return [2]int64{first + further, first + 2*further}
}

// expressions are those of a draft. Variables refer to others.
type expressions struct {
	run    *runner
	byName map[string]string
	// contents are hashes of variables, those that they refer to included.
	contents map[string]string
	// objects are the variables that depend on the objects, and settings those others that read settings.
	objects, settings map[string]bool
	compiled          map[string]*plugincel.CompilationResult
}

// newExpressions begins with some variables.
func (c *compiler) newExpressions(vars []variable) (*expressions, error) {
	run, err := c.newRunner()
	if err != nil {
		return nil, err
	}
	if run.hasParams = c.live; c.live {
		run.params = map[string]any{"data": map[string]any{c.model.Spec().GatesKey: strings.TrimSuffix(strings.Repeat("AGate=false,", sampleGates), ",")}}
	}
	e := &expressions{
		run: run, byName: map[string]string{}, contents: map[string]string{}, objects: map[string]bool{}, settings: map[string]bool{},
		compiled: map[string]*plugincel.CompilationResult{},
	}
	e.addVariables(vars)
	return e, nil
}

// addVariables adds variables, each after those that it refers to.
func (e *expressions) addVariables(vars []variable) {
	for _, v := range vars {
		dependsOn := func(names map[string]bool) bool {
			return slices.ContainsFunc(referencesIn(v.expression), func(name string) bool { return names[name] })
		}
		e.byName[v.name], e.contents[v.name] = v.expression, e.contentOf(v.expression)
		e.objects[v.name] = readsObject.MatchString(v.expression) || dependsOn(e.objects)
		e.settings[v.name] = !e.objects[v.name] && (readsSettings.MatchString(v.expression) || dependsOn(e.settings))
	}
}

// contentOf is the hash of an expression, with the contents of the variables in place of their names.
func (e *expressions) contentOf(expression string) string {
	return hashOf(reference.ReplaceAllStringFunc(expression, func(ref string) string {
		return cmp.Or(e.contents[strings.TrimPrefix(ref, variableRef(""))], ref)
	}))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// meter measures expressions with objects of several numbers of items.
type meter struct {
	*expressions
	sampling
	known map[string][2]int64 // of the compiler
	// runners are one for each number of items, and each state of the objects. They are made when something is not known.
	runners func() [][]*runner
	states  [][2]any            // of the objects with one item
	sample  string              // a hash of states
	names   map[string]bool     // of fields, gates and keys
	costs   map[string][2]int64 // of the variables that have their values in the runners
}

// The list of gates may have mostGates entries; the cost of reading them is measured with fewer entries, and grows in proportion.
const mostGates, sampleGates = 5000, 250

// newMeter measures with objects that use all of a group, or are idle and use nothing.
func (c *compiler) newMeter(e *expressions, g *group, idle bool) *meter {
	states := g.sampleStates(one, idle)
	return &meter{
		expressions: e, sampling: c.chosenSampling(), known: c.costs, states: states, sample: hashOf(fmt.Sprint(states)), names: c.names, costs: map[string][2]int64{},
		runners: sync.OnceValue(func() (out [][]*runner) {
			for _, count := range c.chosenSampling().counts {
				var states []*runner
				for _, state := range g.sampleStates(c.chosenSampling().itemNumbers(count), idle) {
					states = append(states, &runner{object: state[0], old: state[1], params: e.run.params, values: map[string]any{}})
				}
				out = append(out, states)
			}
			return out
		}),
	}
}

// sampleStates are updates and creations, each a pair of the new and the stored object: with lists, and then with maps if the schema does
// not say which it is.
func (g *group) sampleStates(numbers []int, idle bool) (out [][2]any) {
	forms := []feature.StepKind{feature.Items}
	if slices.ContainsFunc(g.units, func(u unit) bool { return len(u.ways) > 1 }) {
		forms = append(forms, feature.Entries)
	}
	for _, form := range forms {
		nothing := g.idleSample(numbers, form)
		if idle {
			out = append(out, [2]any{nothing, nil})
			continue
		}
		object, old := g.samplePair(numbers, form)
		if u := &g.units[0].shape; len(g.units) == 1 && u.open < len(u.target.Path) && !u.index && !u.apart {
			out = append(out, [2]any{object, nothing}) // with a stored use, the search ends there
			continue
		}
		// One stored use may allow all uses at once. With the same items and none in use, all new uses are searched, and what is stored as well,
		// which costs no less than a creation.
		out = append(out, [2]any{object, old}, [2]any{object, nothing})
	}
	return out
}

// costOfVariable returns what a variable costs. Variables of the same content are measured once with equal objects, and so are those of the same
// form.
func (m *meter) costOfVariable(ctx context.Context, name string) ([2]int64, error) {
	key := m.contents[name]
	if m.objects[name] {
		key += m.sample
	}
	return m.knownCost(key, m.byName[name], func() ([2]int64, error) { return m.measureVariable(ctx, name) })
}

// knownCost returns the cost of an expression that is known, by its content or its form, or measures it.
func (m *meter) knownCost(key, expression string, measure func() ([2]int64, error)) ([2]int64, error) {
	if cost, ok := m.known[key]; ok {
		return cost, nil
	}
	form := m.formOf(expression)
	cost, ok := m.known[form]
	if !ok {
		var err error
		if cost, err = measure(); err != nil {
			return cost, err
		}
	}
	m.known[key], m.known[form] = cost, cost
	return cost, nil
}

// measureVariable measures a variable, after those that it refers to, and keeps its values.
func (m *meter) measureVariable(ctx context.Context, name string) (cost [2]int64, err error) {
	if cost, ok := m.costs[name]; ok {
		return cost, nil
	}
	v := variable{name, m.byName[name]}
	if err := m.measureReferences(ctx, v.expression); err != nil {
		return cost, err
	}
	if m.compiled[name] == nil {
		m.compiled[name] = new(m.run.compileVariable(v))
	}
	if m.objects[name] {
		cost, err = m.worstCost(func(r *runner) (int64, error) { return r.evaluateVariable(ctx, v, m.compiled[name]) })
	} else {
		cost, err = m.measureSetting(ctx, v)
	}
	if err == nil {
		m.costs[name] = cost
	}
	return cost, err
}

// measureSetting measures a variable that has the same value for all objects.
func (m *meter) measureSetting(ctx context.Context, v variable) ([2]int64, error) {
	cost, err := m.run.evaluateVariable(ctx, v, m.compiled[v.name])
	if m.settings[v.name] {
		cost = cost * mostGates / sampleGates
	}
	for _, r := range slices.Concat(m.runners()...) {
		r.values[v.name] = m.run.values[v.name]
	}
	return [2]int64{cost, cost}, err
}

// measureReferences gives the variables that an expression refers to their values.
func (m *meter) measureReferences(ctx context.Context, expression string) error {
	for _, name := range referencesIn(expression) {
		if m.byName[name] != "" {
			if _, err := m.measureVariable(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// costOf returns what an expression costs that is no variable.
func (m *meter) costOf(ctx context.Context, expression string, compile func(string) plugincel.CompilationResult) ([2]int64, error) {
	return m.knownCost(m.contentOf(expression)+m.sample, expression, func() (cost [2]int64, err error) {
		if err := m.measureReferences(ctx, expression); err != nil {
			return cost, err
		}
		res := compile(expression)
		return m.worstCost(func(r *runner) (int64, error) {
			_, cost, err := r.evalProgram(ctx, &res)
			return cost, err
		})
	})
}

// worstCost is the cost in the worst state.
func (m *meter) worstCost(measure func(*runner) (int64, error)) (worst [2]int64, err error) {
	runners := m.runners()
	for state := range runners[0] {
		of := make([]int64, len(runners))
		for i := range runners {
			if of[i], err = measure(runners[i][state]); err != nil {
				return worst, err
			}
		}
		cost := m.costsOfSamples(of)
		worst = [2]int64{max(worst[0], cost[0]), max(worst[1], cost[1])}
	}
	return worst, nil
}

// reference is a variable in an expression. Within a text it is one variable too many, which costs little.
var reference = regexp.MustCompile(`variables\.(\w+)`)

// readsSettings finds the parameter of a policy, and readsObject the objects; a field may have such a name too.
var (
	readsSettings = regexp.MustCompile(`(^|[^.\w])params\.`)
	readsObject   = regexp.MustCompile(`(^|[^.\w'"])(object|oldObject)\b`)
)

// referencesIn lists the variables in an expression.
func referencesIn(expression string) (names []string) {
	for _, found := range reference.FindAllStringSubmatch(expression, -1) {
		names = append(names, found[1])
	}
	return names
}

// addNeeded adds the variables that an expression needs, and their costs.
func (m *meter) addNeeded(ctx context.Context, expression string, items int, costs map[string]estimate) error {
	for _, name := range referencesIn(expression) {
		if _, ok := costs[name]; ok || isTextOfValue(name) || name == "message" || m.byName[name] == "" {
			continue // texts of values are only used if nothing else is searched
		}
		cost, err := m.costOfVariable(ctx, name)
		if err != nil {
			return err
		}
		costs[name] = estimate{extrapolateCost(items, cost[0], cost[1]), countAuthorizerAsks(m.byName[name]), extrapolateCost(2*items, cost[0], cost[1])}
		if err := m.addNeeded(ctx, m.byName[name], items, costs); err != nil {
			return err
		}
	}
	return nil
}
