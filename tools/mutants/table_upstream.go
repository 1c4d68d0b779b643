package main

// upstreamFaults are faults in the fast paths of the API server's validation, and in the code that identifies the API server's
// version.
// The budgets among them protect the process that compares: a CRD may come from anybody.
var upstreamFaults = []fault{
	{
		in: "schema/upstream.dearDefaults", find: "p.Default == nil || !mayBeDear(p)", put: "true",
		broken: "a default on which a rule takes for ever is given to the API server's validation",
	},
	{
		in: "schema/upstream.dearJoin", find: "> maxResult", put: "> 1<<40",
		broken: "join() makes a text that takes all memory",
	},
	{
		in: "internal/cluster.(*judge).fateOf", find: "errors.Is(err, upstream.ErrTooDear)", put: "false",
		broken: "one object on which a rule takes for ever ends the scan of all",
	},
	{
		in: "internal/crdcheck.Compare", find: "case <-ctx.Done():", put: "case <-context.Background().Done():",
		broken: "an interrupt waits for a comparison that does not look at it",
	},
	{
		in: "schema/upstream.(*schemaWork).addSchema", find: "2*values*(w.branches-branches)", put: "0*values*(w.branches-branches)",
		broken: "a default with many values above many branches costs nothing to validate",
	},
	{
		in: "schema/upstream.(*RuleCache).chargeEvaluation", find: "/ 10", put: "/ 10_000_000",
		broken: "the evaluation of rules costs nothing",
	},
	{
		in: "schema/contain.(*search).newConfirmer", find: "before.Prepare + after.Prepare", put: "int64(0)",
		broken: "preparing the API server's code for large candidates costs nothing",
	},
	{
		in: "schema/contain.(*search).lastWord", find: "w != nil", put: "w != nil || true",
		broken: "a witness counts that the API server's own code does not confirm",
	},
	{
		in: "schema/upstream.ratchetingSince", find: "version.MajorMinor(1, 30)", put: "version.MajorMinor(1, 31)",
		broken: "ratcheting begins a version too late",
	},
	{
		in: "schema/upstream.LibraryVersion", find: "kube.Minor()-1", put: "kube.Minor()",
		broken: "new definitions are judged by the version itself, not by its predecessor",
	},
	{
		in: "schema/upstream.(*valueNode).validString", find: "utf8.RuneCountInString(s)", put: "max(len(s), utf8.RuneCountInString(s))",
		broken: "strings are measured in bytes",
	},
	{
		in: "schema/upstream.(*valueNode).validEnum", find: "_, found := n.strings[s]; return found",
		put:    `_, found := n.strings[s]; return found || s == ""`,
		broken: "the empty string is one of every enum's",
	},
	{
		in: "schema/upstream.(*shapeNode).equalsItself", find: "{ return differs }", put: "{ continue }",
		broken: "ratcheting takes objects with fields that the schema does not know for equal",
	},
	{
		in: "schema/upstream.(*valueNode).toleratesParts", without: "isMetaField",
		broken: "ratcheting tolerates what is wrong with metadata though a label changed",
	},
	{
		in: "schema/upstream.(*shapeNode).distinctKeys", find: "return len(list) == 0", put: "return true",
		broken: "items of a list map with three keys are never taken for equal",
	},
	{
		in: "schema/upstream.newShapeNode", find: "n.adoptFlags(n.additional)", put: "n.adoptFlags(nil)",
		broken: "sets and list maps in the values of a map may hold items twice",
	},
	{in: "schema/upstream.(*words).mayMention", find: "w.above", put: "nil", broken: "properties that only a rule higher up mentions are cut out"},
	{
		in: "schema/upstream.(*Validator).Create", find: `if v.opts.StatusSubresource { delete(u.Object, "status")`,
		put:    `if !v.opts.StatusSubresource { delete(u.Object, "status")`,
		broken: "status is dropped at creation where there is no status subresource, and kept where there is one",
	},
	{in: "schema/upstream.(*ruleRun).runExpressions", without: "isOptional", broken: "rules with optionalOldSelf are not evaluated at creation"},
	{in: "schema/upstream.(*ruleRun).reportRefused", without: "!compiled.UsesOldSelf", broken: "ratcheting tolerates transition rules"},
	{
		in: "schema/upstream.(*ruleRun).payCost", find: "r.budget -= int64(*cost)", put: "_ = int64(*cost)",
		broken: "the cost budget of an object's rules never runs out",
	},
	{
		in: "schema/upstream.ForCRD", find: "o.StatusSubresource, o.Scale = v.Subresources.Status != nil, v.Subresources.Scale",
		put:    "o.StatusSubresource = v.Subresources.Status != nil",
		broken: "the scale paths are not validated",
	},
}
