package main

// policyFaults are faults in the admission policies of features: what they enforce, and what they are estimated to cost.
// Trials of random worlds catch most of them: the policies must give the answers of the evaluator in
// package feature, which has none of these faults.
var policyFaults = []fault{
	{
		in: "feature/policy.(*emitter).entryOf", find: `return x + "[0]", x + "[1]"`, put: `return x + "[1]", x + "[1]"`,
		broken: "messages name entries of maps by their values",
	},
	{
		in: "feature/policy.(*emitter).canIterate", find: "e.pieces && isVariable(v)", put: "e.pieces",
		broken: "a value of another form than the schema's is an error",
	},
	{
		in: "feature/policy.(*walker).isNewUse", without: "if w.exact { all = append(all, old+\" == \"+v) }",
		broken: "if one gated value is stored, all other values pass",
	},
	{in: "feature/policy.(*walker).withIdentity", find: "i >= w.open", put: "i > 0", broken: "items of different keys are the same stored use"},
	{in: "feature/policy.(*walker).allStoredTest", find: "if !w.index {", put: "if true {", broken: "two stored items of one key make each update an error"},
	{
		in: "feature/policy.(*tree).closedUse", find: `way = joinAnd(way, closed[u.feature.Spec.Gate])`, put: `way = joinAnd(way, "false")`,
		broken: "the match condition lets closed fields pass",
	},
	{
		in: "feature/policy.(*gates).levelOpens", find: "rank == 0 || rank == 1 && f.IsLifted()", put: "rank == 0",
		broken: "beta features stay closed for resources whose level is lifted",
	},
	{
		in: "feature/policy.(*gates).onAndOffTests", find: "off = g.closedWords(off)", put: "off = g.boolWords(false)",
		broken: "allowed does not close a feature",
	},
	{
		in: "feature/policy.(*compiler).hasNothingToSay", find: "q == nil || holds(q.text)", put: "q == nil",
		broken: "simulate leaves out policies that refuse the object",
	},
	{
		in: "feature/policy.(*formWriter).addExpression", without: "if quote != 0 && w.names[word] { fmt.Fprintf(&w.out, \",%d\", len(word)) }",
		broken: "expressions with longer names count as equally expensive",
	},
	{
		in: "feature/policy.(*meter).formOf", find: "range m.states", put: "range m.states[:0]",
		broken: "an expression costs the same with any objects",
	},
	{
		in: "feature/policy.(*draft).formsOf", find: "u.shape.apart || ", put: "",
		broken: "the ratchet InObject has no effect on fields that share an expression",
	},
	{
		in: "feature/policy.(*draft).formsOf", find: "d.openTest(gs, u, false) != d.openTest(gs, u, true)", put: "false",
		broken: "a policy refuses users who have the right to use a feature, if its fields share an expression",
	},
	{in: "feature/policy.fitsWith", find: "twice <= maxPolicyCost", put: "twice <= 10*maxPolicyCost", broken: "features share a policy that exceeds the API server's cost limit"},
	{
		in: "feature/policy.(*meter).costOfVariable", find: "if m.objects[name] {", put: "if false {",
		broken: "a variable costs the same with any objects",
	},
	{
		in: "feature/policy.(*walker).withinCostLimit", find: `may + " ? " + otherwise`, put: `"false ? " + otherwise`,
		broken: "an object with too many items may use a closed part",
	},
	{
		in: "feature/policy.(*family).addVariables", find: `" && e[2] == e[1]))"`, put: `" && false))"`,
		broken: "lists that share an expression are searched where nothing changed, so an object with long ones can no longer be written",
	},
	{
		in: "feature/policy.(*draft).listFormOf", find: "if w.index {", put: "if false {",
		broken: "items of a list that shares an expression are not compared with the stored ones",
	},
	{
		in: "feature/policy.(*draft).listFormOf", find: `outer: fmt.Sprintf("(%s ? e[1].size() : 0)", isIterable("e[1]", t.Path[loop].Kind))`, put: `outer: d.countItems(t.Path, "e[1]", loop)`,
		broken: "to count the items of many long lists costs more than the API server allows",
	},
	{
		in: "feature/policy.(*family).promiseTogether", find: "min(sum, max(longest, items))", put: "sum",
		broken: "lists share no expression, because all of them would have to be long at once",
	},
	{
		in: "feature/policy.isAmong", find: "mostTable", put: "10 * mostTable",
		broken: "the names of 200 gates are one variable, which takes the API server time with the square of its length",
	},
	{
		in: "feature/policy.(*family).addVariables", find: `"[%[1]s].map(c, c.transformList(i, n, c.sum() <= %[2]d || n <= %[2]d && c.slice(0, i + 1).filter(o, o <= %[2]d).sum() <= %[2]d))[0]"`,
		put:    `"[%[1]s].map(c, c.transformList(i, n, c.sum() <= %[2]d))[0]"`,
		broken: "a long list that uses nothing makes short ones beside it count as too long",
	},
	{
		in: "feature/policy.(*fieldWays).fieldTests", find: `case !strings.HasPrefix(v, "object"):`, put: "case false:",
		broken: "items with many keys cost more than the API server allows",
	},
}
