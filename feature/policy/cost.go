package policy

// Would the API server take a policy, and run it for the largest objects? Each expression runs here on sample objects of two sizes, and the
// cost for the promised number of items follows from both. For example, features that cost too much together are split over two policies,
// and a pattern that alone costs too much goes to the webhook.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/feature"
	"sluice.dev/internal/brief"
)

// Limits at the greatest size. The API server allows 1,000,000 for one expression and 10,000,000 for a policy with its binding
// (k8s.io/apiserver/pkg/apis/cel), message included, for which it evaluates variables again.
const (
	maxExpressionCost = 960_000
	// maxUnitCost is for one part by itself, and maxPolicyCost for several, with twice as many items.
	maxUnitCost   = 7_000_000
	maxPolicyCost = 9_600_000
	maxGuardCost  = 3_500_000 // without the message
	// maxBudget is the cost limit of a policy at the largest number of items that it searches.
	maxBudget = 9_800_000
	// maxAsks is how many questions to the authorizer a policy may ask; the API server charges [askCost] for each
	// (k8s.io/apiserver/pkg/cel/library).
	maxAsks = 16
	askCost = 350_000
	// maxSize is how many bytes an expression may have; the API server takes 100,000 code points.
	maxSize = 80_000
	// unitCost is for the tests and texts of a unit, and messageCost for what makes one message of the texts of all: strings cost a tenth of
	// their length wherever they are read or written, and these are cut.
	unitCost, messageCost = 1_000, 10_000
	// allStoredCost is for [walker.allStoredTest], which sample objects never get to.
	allStoredCost = mostComparisons + 10*mostCompared
	// Costs grow in proportion to the number of items, in steps of a [piece]: they are measured with two numbers of items; sample is the
	// greater one.
	sample, smallSample = 3 * piece, 2 * piece
	// sampleText is how long strings are that patterns are looked for in, and maxText how long one may be.
	sampleText = 100
	maxText    = 1 << 20
)

// estimate is the greatest cost of an expression with the number of items that must pass, and the cost of each further item that is
// read.
type estimate struct {
	cost, asks int64
	twice      int64 // the cost with twice as many items
}

// extrapolateCost scales the costs for two numbers of items to a third one.
func extrapolateCost(items int, small, large int64) int64 {
	const step = 10_000
	each := max(large-small, 0)
	cost := large + each*int64(max(items-sample, 0))/(sample-smallSample)
	if cost > 2*step {
		// The order in which maps are gone through, which is random, makes a difference of a few; two versions are to share a policy.
		cost = (cost + step - 1) / step * step
	}
	return cost
}

// affordableUnits compiles the expressions of a group and measures their cost. Parts that do not compile, or that alone cost too much, go to
// the webhook.
func (c *compiler) affordableUnits(ctx context.Context, g *group) []unit {
	for len(g.units) > 0 {
		reasons, again := c.measureUnits(ctx, g)
		if again {
			continue
		}
		if len(reasons) == 0 {
			break
		}
		var kept []unit
		for i := range g.units {
			if reasons[i] != "" {
				c.leaveToWebhook(&g.units[i], reasons[i])
				continue
			}
			kept = append(kept, g.units[i])
		}
		g.units = kept
	}
	return g.units
}

// dropsSameValue reports whether two units would drop the same value of a list or map. That needs two policies: the second one sees the result
// of the first.
func dropsSameValue(units []unit, u *unit) bool {
	same := func(o unit) bool { return o.target.Path.String() == u.target.Path.String() }
	return u.shape.loop < len(u.target.Path) && slices.ContainsFunc(units, same) || overlapsAny(units, u)
}

// measureUnits fills in the costs of the units, and returns why some cannot stay. If those of a family cost too much together, they are to be
// measured again, alone.
func (c *compiler) measureUnits(ctx context.Context, g *group) (reasons map[int]string, again bool) {
	reasons = map[int]string{}
	d := c.draftToMeasure(g)
	d.addVariable("message", celString(strings.Repeat("x", longestMessage))) // its parts are measured separately
	e, err := c.newExpressions(d.vars)
	if err != nil {
		for i := range g.units {
			reasons[i] = notTaken(err)
		}
		return reasons, false
	}
	for _, f := range d.families {
		f.promiseTogether(g.units, c.options.Items)
	}
	for i, m := range c.metersOf(d, e) {
		f := d.familyOf[i]
		if f != nil && f.units[0] != i && f.form.lists != nil {
			d.group.units[i].takeCosts(&d.group.units[f.units[0]])
			continue
		}
		reason := c.measureUnit(ctx, d, m, i)
		switch {
		case reason == "":
		case f != nil:
			again = true
			for _, n := range f.units {
				g.units[n].alone, g.units[n].together = true, 0
			}
		default:
			reasons[i] = reason
		}
	}
	return reasons, again
}

// promiseTogether says how many items are to pass in all lists of a family: as many as in each by itself, but no more than in the longest or
// than some number.
func (f *family) promiseTogether(units []unit, items int) {
	if f.form.lists == nil {
		return
	}
	sum, longest := 0, 0
	for _, n := range f.units {
		sum, longest = sum+units[n].items, max(longest, units[n].items)
	}
	for _, n := range f.units {
		units[n].together = min(sum, max(longest, items))
	}
}

// takeCosts are those of another unit of the same family.
func (u *unit) takeCosts(of *unit) {
	u.asked, u.words, u.patch, u.dearest, u.together = of.asked, of.words, of.patch, of.dearest, of.together
}

// metersOf are the meters of the units of a draft, one after the other. The objects of each have only what the expressions of the unit read: its
// own values, those of all units that may share a table, and those of all units of its feature.
func (c *compiler) metersOf(d *draft, e *expressions) iter.Seq2[int, *meter] {
	return func(yield func(int, *meter) bool) {
		units := d.group.units
		var together *meter
		for i := range units {
			one, apart, f := d.isOnePlace(&units[i]), units[i].shape.apart, d.familyOf[i]
			m := together
			if m == nil || !one || apart {
				read := *d.group
				read.units = nil
				for j := range units {
					inList := f != nil && f == d.familyOf[j]
					if j == i || one && d.isOnePlace(&units[j]) || apart && units[j].feature == units[i].feature || inList {
						u := units[j]
						u.few = inList && !one && j != i
						read.units = append(read.units, u)
					}
				}
				m = c.newMeter(e, &read, false)
			}
			if one && !apart {
				together = m
			}
			if !yield(i, m) {
				return
			}
		}
	}
}

// draftToMeasure writes the expressions of a group for sample objects.
func (c *compiler) draftToMeasure(g *group) *draft {
	measured := *g
	measured.sampled = true
	return c.draftGroup(&measured)
}

// measureUnit measures the cost of a unit, and says why it cannot stay; empty if it can.
func (c *compiler) measureUnit(ctx context.Context, d *draft, m *meter, i int) string {
	mutation := ""
	if d.group.kind == drops {
		had := len(d.vars)
		mutation = d.writePatch("x", "false", []int{i}, fmt.Sprintf("_%d", i))
		m.addVariables(d.vars[had:])
	}
	reason := c.affordUnit(ctx, d, m, i, mutation)
	u := &d.group.units[i]
	if loops := u.shape.countLoops(); reason != "" && loops > 1 && u.items > 1 {
		// Those of lists within lists are counted too then.
		u.items, u.together = max(u.items/loops, 1), u.together/loops
		reason = c.affordUnit(ctx, d, m, i, mutation)
	}
	return reason
}

// affordUnit fills in the costs of a unit, whose patch is mutation, and says why it cannot stay.
func (c *compiler) affordUnit(ctx context.Context, d *draft, m *meter, i int, mutation string) string {
	u := &d.group.units[i]
	if err := m.fillIn(ctx, d, i, mutation); err != nil {
		return notTaken(err)
	}
	u.dearest = max(u.patch, 1)
	for _, costs := range []map[string]estimate{u.asked, u.words} {
		for _, e := range costs {
			u.dearest = max(u.dearest, e.cost)
		}
	}
	if u.dearest > maxExpressionCost {
		return fmt.Sprintf("with %d items it could cost %d, of 1000000 that an expression may cost%s", u.promisedItems(), u.dearest, hintToBound(u))
	}
	if sum, _ := sumOf(d.group.kind, []unit{*u}); sum > maxUnitCost {
		return fmt.Sprintf("with %d items it could cost %d, of 10000000 that a policy may cost in all%s", u.promisedItems(), sum, hintToBound(u))
	}
	return ""
}

// fillIn measures what a unit costs.
func (m *meter) fillIn(ctx context.Context, d *draft, i int, mutation string) error {
	u := &d.group.units[i]
	u.asked, u.words, u.patch = map[string]estimate{}, map[string]estimate{}, 0
	if mutation != "" {
		cost, err := m.costOf(ctx, mutation, m.run.compilePatch)
		if err != nil {
			return err
		}
		u.patch = extrapolateCost(u.promisedItems(), cost[0], cost[1])
	}
	text := d.texts[i]
	if f := d.familyOf[i]; f != nil && f.form.lists != nil {
		text = f.test // the message has what it asks for
	}
	items := u.promisedItems()
	if err := errors.Join(m.addNeeded(ctx, mutation, items, u.asked), m.addNeeded(ctx, d.valid[i], items, u.asked), m.addNeeded(ctx, text, items, u.words)); err != nil {
		return err
	}
	if t := d.tables[u.feature.Spec.Gate]; t != nil {
		cost, err := m.costOfVariable(ctx, t.name)
		if err != nil {
			return err
		}
		own := cost[1] / int64(len(t.rows))
		u.asked["gate "+u.feature.Spec.Gate] = estimate{cost: own, twice: own}
		u.words["gate "+u.feature.Spec.Gate] = estimate{cost: own, twice: own}
	}
	if stored := "s" + strconv.Itoa(i); !strings.Contains(m.byName["m"+strconv.Itoa(i)], variableRef(stored)) {
		// The policy reads the list of stored uses only if few uses are new ([walker.allStoredTest]), and those cost little.
		delete(u.asked, stored)
		delete(u.words, stored)
	}
	if slices.ContainsFunc(u.ways, func(s shape) bool { return s.index }) {
		all := estimate{cost: allStoredCost, twice: allStoredCost}
		u.asked[fmt.Sprint("all stored ", i)], u.words[fmt.Sprint("all stored ", i)] = all, all
	}
	return nil
}

func notTaken(err error) string {
	return "the API server would not take the expression: " + brief.OneLine(err.Error())
}

// hintToBound returns how a unit with loops could cost less.
func hintToBound(u *unit) string {
	if u.shape.countLoops() == 0 {
		return ""
	}
	return "; maxItems of the part, or of the lists in the schema, would help"
}

// sumOf is what units cost in one policy, and with twice as many items: each variable once, and for the message once more.
func sumOf(k kind, units []unit) (sum, twice int64) {
	sum = int64(messageCost + unitCost*len(units))
	twice = sum
	var asks int64
	seen := [2]map[string]estimate{{}, {}}
	for i := range units {
		u := &units[i]
		sum += u.patch
		twice += 2 * u.patch
		for which, costs := range [2]map[string]estimate{u.asked, u.words} {
			if k == drops {
				which = 0 // the patch and the note are written together
			}
			for name, e := range costs {
				had, ok := seen[which][name]
				if !ok {
					asks += e.asks
				}
				sum += max(e.cost-had.cost, 0)
				twice += max(e.twice-had.twice, 0)
				seen[which][name] = estimate{cost: max(had.cost, e.cost), twice: max(had.twice, e.twice)}
			}
		}
	}
	if asks > maxAsks {
		return maxBudget + asks, maxBudget + asks
	}
	return sum + asks*askCost, twice + asks*askCost
}

// patchCost is the cost of the patch of units.
func patchCost(units []unit) (sum int64) {
	for i := range units {
		sum += units[i].patch
	}
	return sum
}

// fitsWith reports whether a unit can be in a policy with others.
func fitsWith(k kind, units []unit, u *unit) bool {
	if len(units) == 0 {
		return true
	}
	if k == drops && (dropsSameValue(units, u) || patchCost(units)+u.patch > maxExpressionCost) {
		return false
	}
	_, twice := sumOf(k, append(slices.Clip(units), *u))
	return twice <= maxPolicyCost
}

// choosePrefilters finds the tests before the validation of a policy that stay within the cost limit of an expression.
func (c *compiler) choosePrefilters(ctx context.Context, g *group) {
	d := c.draftToMeasure(g)
	if d.used == "" {
		return
	}
	e, err := c.newExpressions(nil) // the tests see no variables
	if err != nil {
		return
	}
	// If nothing is used, everything is searched.
	m := c.newMeter(e, g, true)
	cost, err := m.costOf(ctx, d.used, e.run.compileCondition)
	if err != nil {
		g.costly = true
		return
	}
	g.most = c.mostSearched(cost)
	if d.quick != nil {
		if most := c.mostSearched(c.quickCost(ctx, m, d.quick, cost)); most > 0 {
			g.most = most
		} else {
			g.plain = true
		}
	}
	g.costly = g.most == 0
}

// fewestSearched is the number of items from which on a search before the validation is worth it: most lists are shorter.
const fewestSearched = 100

// mostSearched is how many items of each list may be searched for what that costs with smallSample and sample items; zero if not even
// fewestSearched can be.
func (c *compiler) mostSearched(cost [2]int64) int {
	if sum := extrapolateCost(c.options.Items, cost[0], cost[1]); sum <= maxExpressionCost {
		return int(min(matchLimit, int64(c.options.Items)*maxExpressionCost/max(sum, 1)))
	}
	// One piece less, because each begins with some cost of its own.
	most := smallSample + (maxExpressionCost-cost[1])*(sample-smallSample)/max(cost[1]-cost[0], 1)
	if most < fewestSearched {
		return 0
	}
	return int(min(most, int64(c.options.Items)))
}

// splitBySize divides a group so that the expressions of each part are short enough to be compiled.
func (c *compiler) splitBySize(g *group) []*group {
	d := c.draftGroup(g)
	var out []*group
	size := maxSize
	for i := range g.units {
		root := &tree{}
		if !g.whole {
			root.addUnit(&g.units[i], 0)
		}
		own := len(root.usedTest(d.emitter, "object", "", 0)) + 10
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

// quickCost is what the quick look costs at most: all that the plain one does, the parts of each gate by themselves and the settings. To compile
// it would take half as long as all that is measured of Tekton's features, and it has nothing in it that the parts and the variables do not have.
func (c *compiler) quickCost(ctx context.Context, m *meter, q *quick, used [2]int64) (sum [2]int64) {
	for i := range sum {
		sum[i] = used[i]*int64(1+len(q.parts)) + q.gateCost
	}
	if c.mostSearched(sum) >= c.options.Items {
		return sum // no gate's parts cost more than all parts do
	}
	for i := range sum {
		sum[i] = used[i] + q.gateCost
	}
	for _, part := range q.parts {
		cost, err := m.costOf(ctx, part, m.run.compileCondition)
		if err != nil {
			return [2]int64{maxExpressionCost, 2 * maxExpressionCost}
		}
		sum[0], sum[1] = sum[0]+cost[0], sum[1]+cost[1]
	}
	return sum
}

// samplePair makes two objects that use each target in n items. The objects have no item in common. form says how a value is made that may
// be a list or a map.
func (g *group) samplePair(numbers []int, form feature.StepKind) (object, old map[string]any) {
	old, object = g.sampleObject("o", numbers, form, sampleLeaf), g.sampleObject("n", numbers, form, sampleLeaf)
	if g.whole {
		spec := map[string]any{}
		for _, i := range numbers {
			spec[fmt.Sprintf("field-%d", i)] = "value"
		}
		object["spec"], old["spec"] = spec, spec
	}
	return object, old
}

// idleSample makes an object in which there is something at each target, in n items, and nothing is used.
func (g *group) idleSample(numbers []int, form feature.StepKind) map[string]any {
	return g.sampleObject("n", numbers, form, func(t *feature.Target, there any) any {
		item, isObject := there.(map[string]any)
		switch {
		case there != nil && (!isObject || len(item) > 0):
			return there
		case t.Match != nil:
			return map[string]any{}
		case t.Pattern != nil:
			return strings.Repeat("\x01", sampleText)
		case t.Values != nil:
			return "\x01"
		case t.Beyond != nil:
			return valueWithin(t.Beyond)
		}
		return nil
	})
}

// leafOf makes the value at the end of a target's path, from the present value or nil.
type leafOf func(t *feature.Target, there any) any

// sampleObject makes an object with a leaf at each target of a group.
func (g *group) sampleObject(prefix string, numbers []int, form feature.StepKind, leaf leafOf) map[string]any {
	root := map[string]any{"metadata": map[string]any{"name": "sample"}}
	for i := range g.units {
		t := g.units[i].target
		for j, step := range t.Path {
			if step.Kind == feature.Each {
				t = stepAs(t, j, form)
			}
		}
		if !t.WholeVersion {
			some := numbers
			if g.units[i].few {
				some = one
			}
			growSample(root, t, 0, prefix, some, leaf)
		}
	}
	return root
}

// one is the number of the item in lists and maps of one item.
var one = []int{0}

// growSample returns a value with the leaves of a target that its path leads to from a step on: with an item for each number in the first
// list or map on the way, and one in the others.
func growSample(there any, t *feature.Target, i int, prefix string, numbers []int, leaf leafOf) any {
	if i == len(t.Path) {
		return leaf(t, there)
	}
	step := t.Path[i]
	if step.Kind == feature.Items || step.Kind == feature.Each {
		list, _ := there.([]any)
		if i > 0 && t.Path[i-1].Kind != feature.Field {
			list = nil // of the parts beneath a list within a list, the last one is measured
		}
		for j, number := range numbers {
			if len(list) <= j {
				list = append(list, map[string]any{})
			}
			name := sampleName(prefix, number)
			list[j] = growSample(list[j], t, i+1, name, one, leaf)
			if list[j] == nil {
				continue // any item is a use
			}
			if step.Set && i+1 == len(t.Path) {
				list[j] = name
			}
			for _, k := range step.Keys {
				object := asMap(list[j])
				object[k] = name
				list[j] = object
			}
		}
		return list
	}
	object := asMap(there)
	if step.Kind == feature.Field {
		object[step.Name] = growSample(object[step.Name], t, i+1, prefix, numbers, leaf)
		return object
	}
	for _, number := range numbers {
		name := sampleName(prefix, number)
		object[name] = growSample(object[name], t, i+1, name, one, leaf)
	}
	return object
}

func sampleName(prefix string, i int) string {
	return fmt.Sprintf("%s-%d-a-name-of-the-usual-length", prefix, i)
}

// asMap is a value that is an object, or a new one in place of it.
func asMap(v any) map[string]any {
	if object, ok := v.(map[string]any); ok {
		return object
	}
	return map[string]any{}
}

// sampleLeaf makes a value that is a use, or costs as much.
func sampleLeaf(t *feature.Target, there any) any {
	switch {
	case t.Values != nil:
		return t.Values[len(t.Values)-1]
	case t.Beyond != nil:
		return valueOutside(t.Beyond)
	case t.Pattern != nil:
		return feature.LiteralIn(t.Pattern.String()) + strings.Repeat("x", sampleText)
	case t.Match != nil:
		object := asMap(there)
		for _, c := range t.Match {
			growSample(object, &feature.Target{Path: c.Path, Values: c.Values, Pattern: c.Pattern}, 0, "", one, sampleLeaf)
		}
		return object
	case there != nil:
		return there
	}
	return "x"
}
