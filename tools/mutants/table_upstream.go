package main

// upstreamFaults are faults in the fast paths of the API server's validation, and in the code that identifies the API server's
// version.
var upstreamFaults = []fault{
	{
		file: "schema/upstream/validator.go", old: `version.MajorMinor(1, 30)`, new: `version.MajorMinor(1, 31)`,
		broken: "ratcheting begins a version too late",
	},
	{
		file: "schema/upstream/validator.go", old: `version.MajorMinor(kube.Major(), kube.Minor()-1)`, new: `version.MajorMinor(kube.Major(), kube.Minor())`,
		broken: "new definitions are judged by the version itself, not by its predecessor",
	},
	{
		file: "schema/upstream/value.go", old: `length := int64(utf8.RuneCountInString(s))`, new: `length := int64(max(len(s), utf8.RuneCountInString(s)))`,
		broken: "strings are measured in bytes",
	},
	{
		file: "schema/upstream/value.go", old: `_, found := n.strings[s]
		return found`, new: `_, found := n.strings[s]
		return found || s == ""`,
		broken: "the empty string is one of every enum's",
	},
	{
		file: "schema/upstream/ratchet.go", old: `if child == nil {
				return differs
			}`, new: `if child == nil {
				continue
			}`,
		broken: "ratcheting takes objects with fields that the schema does not know for equal",
	},
	{
		file: "schema/upstream/ratchet.go", old: `part != nil && !isMetaField(name) && part`, new: `part != nil && part`,
		broken: "ratcheting tolerates what is wrong with metadata though a label changed",
	},
	{
		file: "schema/upstream/lists.go", old: `return len(list) < 2
	}`, new: `return true
	}`,
		broken: "items of a list map with three keys are never taken for equal",
	},
	{
		file: "schema/upstream/lists.go", old: `if n.additional.mayRepeat(v) {`, new: `if n.additional == nil && n.additional.mayRepeat(v) {`,
		broken: "sets and list maps in the values of a map may hold items twice",
	},
	{
		file: "schema/upstream/words.go", old: `for ; w != nil; w = w.above {`, new: `for ; w != nil; w = nil {`,
		broken: "properties that only a rule higher up mentions are cut out",
	},
	{
		file: "schema/upstream/shape.go", old: `if v, ok := x[name]; !ok || (v == nil && !n.props[name].nullable) {`, new: `if _, ok := x[name]; !ok {`,
		broken: "a null in place of a default goes unnoticed",
	},
	{
		file: "schema/upstream/request.go", old: `if v.opts.StatusSubresource {
		delete(u.Object, "status")`, new: `if !v.opts.StatusSubresource {
		delete(u.Object, "status")`,
		broken: "status is dropped at creation where there is no status subresource, and kept where there is one",
	},
	{
		file: "schema/upstream/ruleeval.go", old: `case compiled[i].Program == nil, compiled[i].UsesOldSelf && old == nil && !isOptional:`,
		new:    `case compiled[i].Program == nil, compiled[i].UsesOldSelf && old == nil:`,
		broken: "rules with optionalOldSelf are not evaluated at creation",
	},
	{
		file: "schema/upstream/ruleeval.go", old: `if !compiled.UsesOldSelf && r.tolerates(at) {`, new: `if r.tolerates(at) {`,
		broken: "ratcheting tolerates transition rules",
	},
	{
		file: "schema/upstream/ruleeval.go", old: `r.budget -= int64(*cost)`, new: `_ = int64(*cost)`,
		broken: "the cost budget of an object's rules never runs out",
	},
	{
		file: "schema/upstream/forcrd.go", old: `o.StatusSubresource, o.Scale = v.Subresources.Status != nil, v.Subresources.Scale`, new: `o.StatusSubresource = v.Subresources.Status != nil`,
		broken: "the scale paths are not validated",
	},
}
