package policy

import "testing"

// TestCostsDependOnTheObjects: one compiler measures the same expression with objects of two groups.
func TestCostsDependOnTheObjects(t *testing.T) {
	m, _ := prefiltered(t, `[{field: "spec.tasks[*].when"}, {field: "spec.steps[*].when"}]`)
	c, err := newCompiler(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.newExpressions([]variable{{"v", "has(object.spec.tasks) ? object.spec.tasks.filter(t, has(t.when)) : []"}})
	if err != nil {
		t.Fatal(err)
	}
	var costs [][2]int64
	all := c.policyGroups()[0]
	for i := range all.units {
		one := *all
		one.units = all.units[i : i+1]
		cost, err := c.newMeter(e, &one, false).costOfVariable(t.Context(), "v")
		if err != nil {
			t.Fatal(err)
		}
		costs = append(costs, cost)
	}
	if costs[0][1] <= costs[1][1] {
		t.Errorf("with tasks it costs %d, without %d", costs[0], costs[1])
	}
}
