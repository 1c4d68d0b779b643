package policy

import "testing"

// newPartsMeter returns a meter for a policy of some parts, with variables.
func newPartsMeter(t *testing.T, parts string, vars ...variable) *meter {
	t.Helper()
	m, _ := prefiltered(t, parts)
	c, err := newCompiler(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := c.policyGroups()[0]
	e, err := c.newExpressions(vars)
	if err != nil {
		t.Fatal(err)
	}
	return c.newMeter(e, g, false)
}

func TestFormsTellWhatCostsTheSame(t *testing.T) {
	const text = `variables.v != '' ? 'spec.tasks' : object.spec.tasks[0].when`
	form := func(parts, expression, value string) string {
		return newPartsMeter(t, parts, variable{"v", value}).formOf(expression)
	}
	const tasks, steps = `[{field: "spec.tasks[*].when"}]`, `[{field: "spec.steps[*].when"}]`
	want := form(tasks, text, "object.spec.tasks")
	for _, tt := range []struct {
		name, parts, expression, value string
		same                           bool
	}{
		{"the same", tasks, text, "object.spec.tasks", true},
		{"another name of the same length", steps, `variables.v != '' ? 'spec.steps' : object.spec.steps[0].when`, "object.spec.steps", true},
		{"a longer name", `[{field: "spec.stages[*].when"}]`, `variables.v != '' ? 'spec.stages' : object.spec.stages[0].when`, "object.spec.stages", false},
		{"another name in one place", tasks, `variables.v != '' ? 'spec.tasks' : object.spec.when[0].tasks`, "object.spec.tasks", false},
		{"a text that is no name", tasks, `variables.v != '' ? 'spec/tasks' : object.spec.tasks[0].when`, "object.spec.tasks", false},
		{"another variable", tasks, text, "object.spec", false},
		{"other objects", `[{field: "spec.tasks[*].when[*]"}]`, text, "object.spec.tasks", false},
	} {
		if got := form(tt.parts, tt.expression, tt.value); (got == want) != tt.same {
			t.Errorf("%s: same is %t, want %t", tt.name, got == want, tt.same)
		}
	}
}

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
