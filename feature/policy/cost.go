package policy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"

	"sluice.dev/feature"
)

// What may be spent at the greatest size. The API server allows 1,000,000 for one expression and 10,000,000 for all of a
// policy and binding (k8s.io/apiserver/pkg/apis/cel); variables are evaluated twice, once more for the message.
const (
	maxExpressionCost = 900_000
	maxPolicyCost     = 3_500_000
	// maxBudget is what a policy may cost at the number of items beyond which they are not gone through.
	maxBudget = 4_900_000
	// gateCost is what the settings of a gate may cost, with 5,000 entries in the list of gates.
	gateCost = 12_000
	// askCost is half of what the API server charges for a question to the authorizer, which is asked once and not for messages
	// (k8s.io/apiserver/pkg/cel/library).
	askCost = 200_000
	// maxSize is how many bytes an expression may have; the API server takes 100,000 code points.
	maxSize = 80_000
	// sample is how many items costs are measured with; they grow in proportion.
	sample = 250
	// sampleText is how long strings are that patterns are looked for in, and maxText how long one may be.
	sampleText = 100
	maxText    = 1 << 20
)

// affordable compiles the expressions of a group and measures what they cost. What does not compile or costs too much goes
// to the webhook.
func (c *compiler) affordable(ctx context.Context, g *group) []unit {
	g.units = c.apart(g)
	for len(g.units) > 0 {
		reasons := c.measure(ctx, g)
		if reasons == nil {
			break
		}
		var kept []unit
		for i := range g.units {
			if reasons[i] != "" {
				c.webhook(&g.units[i], reasons[i])
				continue
			}
			kept = append(kept, g.units[i])
		}
		g.units = kept
	}
	return g.units
}

// apart takes out of a group what would drop the same values as another.
func (c *compiler) apart(g *group) []unit {
	if g.kind != drops {
		return g.units
	}
	var kept []unit
	for i := range g.units {
		u := &g.units[i]
		n := len(u.target.Path)
		if u.shape.loop < n && slices.ContainsFunc(kept, func(o unit) bool { return o.target.Path.String() == u.target.Path.String() }) ||
			overlapping(kept, u) {
			c.webhook(u, "another feature may drop the same value of a list or map")
			continue
		}
		kept = append(kept, *u)
	}
	return kept
}

// measure fills in what the units cost, and says of those that cannot stay why; nil if all can.
func (c *compiler) measure(ctx context.Context, g *group) map[int]string {
	d := c.draft(g)
	d.add("message", d.message)
	run, err := newRunner(c.minor)
	if err != nil {
		return c.all(g, err.Error())
	}
	object, old := sampleObjects(g)
	run.object, run.old = object, old
	run.hasParams = c.live
	reasons := map[int]string{}
	scale := int64((c.options.Items + sample - 1) / sample)
	for i := range g.units {
		g.units[i].cost = gateCost + c.asks(g.units[i].feature, map[string]bool{})*askCost
		g.units[i].dearest = 0
	}
	for _, v := range d.vars {
		cost, err := run.variable(ctx, v)
		i, mine := unitOf(v.name, len(g.units))
		switch {
		case err != nil && mine:
			reasons[i] = fmt.Sprintf("the API server would not take the expression: %s", oneLine(err))
		case err != nil:
			return c.all(g, fmt.Sprintf("the API server would not take the expressions: %s", oneLine(err)))
		case mine && cost*scale > maxExpressionCost:
			reasons[i] = fmt.Sprintf("with %d items it could cost %d, of 1000000 that an expression may cost", c.options.Items, cost*scale)
		case mine:
			g.units[i].cost += cost * scale
			g.units[i].dearest = max(g.units[i].dearest, cost*scale)
		}
	}
	if len(reasons) > 0 {
		return reasons
	}
	if g.kind == drops {
		mutation := d.drops("x", "false")
		for _, v := range d.vars[len(run.values):] {
			if _, err := run.variable(ctx, v); err != nil {
				return c.all(g, fmt.Sprintf("the API server would not take the expressions: %s", oneLine(err)))
			}
		}
		cost, err := run.patch(ctx, mutation)
		switch {
		case err != nil:
			return c.all(g, fmt.Sprintf("the API server would not take the patch: %s", oneLine(err)))
		case cost*scale > maxExpressionCost:
			last := len(g.units) - 1
			return map[int]string{last: fmt.Sprintf("with %d items the patch could cost %d, of 1000000 that an expression may cost", c.options.Items, cost*scale)}
		}
	}
	return nil
}

// look finds out what can be asked before the validation of a policy, for what an expression may cost.
func (c *compiler) look(ctx context.Context, g *group) {
	d := c.draft(g)
	run, err := newRunner(c.minor)
	if d.used == "" || err != nil {
		return
	}
	// All is looked through where nothing is used.
	run.object, run.old, run.hasParams = idleObject(g), nil, c.live
	scale := int64((c.options.Items + sample - 1) / sample)
	cost, err := run.condition(ctx, d.used)
	sum := cost * scale
	g.costly = err != nil || sum > maxExpressionCost
	if d.quick != nil {
		if quick, ok := c.quickCost(ctx, run, d.quick, sum); ok {
			sum = quick
		} else {
			g.plain = true
		}
	}
	g.most = int(min(matchLimit, int64(c.options.Items)*maxExpressionCost/max(sum, 1)))
}

// asks counts the questions to the authorizer that it may take to tell whether a feature is open.
func (c *compiler) asks(f *feature.Feature, seen map[string]bool) (n int64) {
	if f == nil || seen[f.Spec.Gate] {
		return 0
	}
	seen[f.Spec.Gate] = true
	if o := c.model.Spec().OptIn; o != nil && o.RBAC && f.CanOptIn() {
		n++
	}
	for _, other := range f.Spec.Requires {
		n += c.asks(c.model.Feature(other), seen)
	}
	return n
}

// chunks divides a group so that the expressions of each part are short enough to be compiled.
func (c *compiler) chunks(g *group) []*group {
	d := c.draft(g)
	var out []*group
	size := maxSize
	for i := range g.units {
		root := &tree{}
		if !g.whole {
			root.add(&g.units[i], 0)
		}
		own := max(len(d.texts[i]), len(d.valid[i])) + len(root.used(d.emitter, "object", "", 0)) + 10
		if size += own; size > maxSize {
			part := *g
			part.units = nil
			out, size = append(out, &part), own
		}
		last := out[len(out)-1]
		last.units = append(last.units, g.units[i])
	}
	return out
}

// quickCost is what the quick look costs at most: all that the plain one does, the parts of each gate by themselves and the
// settings; ok if that is what an expression may cost.
func (c *compiler) quickCost(ctx context.Context, run *runner, q *quick, used int64) (sum int64, ok bool) {
	scale := int64((c.options.Items + sample - 1) / sample)
	sum = used + q.gateCost
	for _, part := range q.parts {
		cost, err := run.condition(ctx, part)
		if err != nil {
			return 0, false
		}
		sum += cost * scale
	}
	_, err := run.condition(ctx, q.text)
	return sum, err == nil && sum <= maxExpressionCost
}

func (c *compiler) all(g *group, reason string) map[int]string {
	out := map[int]string{}
	for i := range g.units {
		out[i] = reason
	}
	return out
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// unitOf tells which unit a variable belongs to: those of units are a letter and its number.
func unitOf(name string, n int) (int, bool) {
	for _, prefix := range []string{"b", "s", "m"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			var i int
			if _, err := fmt.Sscanf(rest, "%d", &i); err == nil && i < n && fmt.Sprint(i) == rest {
				return i, true
			}
		}
	}
	return 0, false
}

// runner evaluates expressions with the API server's compiler and interpreter.
type runner struct {
	compiler    *plugincel.CompositedCompiler
	object, old any
	request     any // nil stands for an empty one
	hasParams   bool
	params      map[string]any
	values      map[string]any
}

// newRunner makes a runner that takes what an API server of a version takes in new policies.
func newRunner(minor int) (*runner, error) {
	c, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, uint(minor-1))))
	if err != nil {
		return nil, err
	}
	return &runner{compiler: c, values: map[string]any{}, params: map[string]any{}}, nil
}

func (r *runner) store(v variable) plugincel.CompilationResult {
	return r.compiler.CompileAndStoreVariable(&validating.Variable{Name: v.name, Expression: v.expression},
		plugincel.OptionalVariableDeclarations{HasParams: r.hasParams, HasAuthorizer: true}, environment.NewExpressions)
}

// variable compiles a variable, evaluates it and returns what that cost.
func (r *runner) variable(ctx context.Context, v variable) (int64, error) {
	res := r.store(v)
	r.values[v.name] = false // gates are closed here
	if res.Error != nil {
		return 0, res.Error
	}
	if strings.Contains(v.expression, "authorizer.") || strings.Contains(v.expression, "namespaceObject") {
		return 0, nil
	}
	value, cost, err := r.run(ctx, &res)
	if err != nil {
		return 0, err
	}
	r.values[v.name] = value
	return cost, nil
}

func (r *runner) condition(ctx context.Context, expression string) (int64, error) {
	res := r.compiler.CompileCELExpression(&validating.ValidationCondition{Expression: expression},
		plugincel.OptionalVariableDeclarations{HasParams: r.hasParams, HasAuthorizer: true}, environment.NewExpressions)
	_, cost, err := r.run(ctx, &res)
	return cost, err
}

func (r *runner) patch(ctx context.Context, expression string) (int64, error) {
	res := r.compiler.CompileCELExpression(&patch.JSONPatchCondition{Expression: expression},
		plugincel.OptionalVariableDeclarations{HasParams: r.hasParams, HasAuthorizer: true, HasPatchTypes: true}, environment.NewExpressions)
	_, cost, err := r.run(ctx, &res)
	return cost, err
}

func (r *runner) run(ctx context.Context, res *plugincel.CompilationResult) (any, int64, error) {
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
		return nil, 0, fmt.Errorf("its cost cannot be told")
	}
	return value, int64(*cost), nil
}

// sampleObjects makes objects in which each target is used in as many items as costs are measured with, none of them the
// same in both.
func sampleObjects(g *group) (object, old map[string]any) {
	old, object = g.sample("o", leaf), g.sample("n", leaf)
	if g.whole {
		spec := map[string]any{}
		for i := range sample {
			spec[fmt.Sprintf("field-%d", i)] = "value"
		}
		object["spec"], old["spec"] = spec, spec
	}
	return object, old
}

// idleObject makes an object in which there is something at each target, in as many items, and nothing is used.
func idleObject(g *group) map[string]any {
	return g.sample("n", func(t *feature.Target, there any) any {
		switch {
		case there != nil:
			return there
		case t.Match != nil:
			return map[string]any{}
		case t.Pattern != nil:
			return strings.Repeat("\x01", sampleText)
		case t.Values != nil:
			return "\x01"
		}
		return nil
	})
}

// leafOf makes what stands at the end of a target's path, where something is already or nothing.
type leafOf func(t *feature.Target, there any) any

// sample makes an object with a leaf at each target of a group.
func (g *group) sample(prefix string, leaf leafOf) map[string]any {
	root := map[string]any{"metadata": map[string]any{"name": "sample"}}
	for i := range g.units {
		t := g.units[i].target
		if !t.WholeVersion {
			grow(root, t, 0, prefix, sample, leaf)
		}
	}
	return root
}

// grow adds the leaves of a target to a value, with n items in the first list or map on the way and one in the others.
func grow(at map[string]any, t *feature.Target, i int, prefix string, n int, leaf leafOf) {
	s := t.Path[i]
	if i+1 == len(t.Path) {
		at[s.Name] = leaf(t, at[s.Name])
		return
	}
	next := t.Path[i+1]
	switch next.Kind {
	case feature.Field:
		child, ok := at[s.Name].(map[string]any)
		if !ok {
			child = map[string]any{}
			at[s.Name] = child
		}
		grow(child, t, i+1, prefix, n, leaf)
	case feature.Items, feature.Each:
		list, _ := at[s.Name].([]any)
		for j := range n {
			if len(list) <= j {
				list = append(list, map[string]any{})
			}
			list[j] = growItem(list[j], t, i+1, fmt.Sprintf("%s-%d-a-name-of-the-usual-length", prefix, j), leaf)
		}
		at[s.Name] = list
	case feature.Entries:
		child, ok := at[s.Name].(map[string]any)
		if !ok {
			child = map[string]any{}
			at[s.Name] = child
		}
		for j := range n {
			key := fmt.Sprintf("%s-%d-a-name-of-the-usual-length", prefix, j)
			child[key] = growItem(child[key], t, i+1, key, leaf)
		}
	}
}

// growItem makes an item, or entry, of the step i of a target's path.
func growItem(item any, t *feature.Target, i int, name string, leaf leafOf) any {
	if i+1 == len(t.Path) {
		item = leaf(t, item)
		if s := t.Path[i]; s.Set {
			return name
		}
	}
	object, ok := item.(map[string]any)
	if !ok {
		if i+1 == len(t.Path) && len(t.Path[i].Keys) == 0 {
			return item
		}
		object = map[string]any{}
	}
	for _, k := range t.Path[i].Keys {
		object[k] = name
	}
	if i+1 < len(t.Path) {
		// Lists and maps within have one item.
		holder := map[string]any{"": object}
		if t.Path[i+1].Kind == feature.Field {
			grow(object, t, i+1, name, 1, leaf)
			return object
		}
		grow(holder, &feature.Target{Path: append(feature.Path{{}}, t.Path[i+1:]...), Values: t.Values, Pattern: t.Pattern, Match: t.Match}, 0, name, 1, leaf)
		return holder[""]
	}
	return object
}

// leaf makes a value that is a use, or costs as much.
func leaf(t *feature.Target, there any) any {
	switch {
	case t.Values != nil:
		return t.Values[len(t.Values)-1]
	case t.Pattern != nil:
		return literalOf(t.Pattern.String()) + strings.Repeat("x", sampleText)
	case t.Match != nil:
		object, ok := there.(map[string]any)
		if !ok {
			object = map[string]any{}
		}
		for _, c := range t.Match {
			at := object
			for j, s := range c.Path {
				if j+1 == len(c.Path) {
					switch {
					case c.Values != nil:
						at[s.Name] = c.Values[len(c.Values)-1]
					case c.Pattern != nil:
						at[s.Name] = literalOf(c.Pattern.String()) + strings.Repeat("x", sampleText)
					case at[s.Name] == nil:
						at[s.Name] = "x"
					}
					break
				}
				next, ok := at[s.Name].(map[string]any)
				if !ok {
					next = map[string]any{}
					at[s.Name] = next
				}
				at = next
			}
		}
		return object
	case there != nil:
		return there
	}
	return "x"
}
