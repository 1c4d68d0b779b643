package main

// translateFaults are those of the translation of schemas into formulas.
// The formula of a schema has to be true of exactly those values that the API server accepts.
var translateFaults = []fault{
	{in: "schema/contain.place.losesNull", without: "!p.node.Nullable", broken: "nullable is ignored: no null is ever accepted"},
	{
		in: "schema/contain.(*translator).acceptedKinds", find: "logic.String | logic.Array", put: "logic.String",
		broken: "that lists pass for strings with a format is forgotten",
	},
	{in: "schema/contain.(*translator).equalByKeys", call: "strings.Join", answers: "keys[0]", broken: "of the keys of a list map only the first counts"},
	{
		in: "schema/contain.(*translator).equalByKeys", call: "keyDefaults", answers: `""`,
		broken: "defaults of list-map keys, which make items equal, are forgotten",
	},
	{
		in: "schema/contain.(*translator).equalByKeys", find: "len(keys) != 1 || !t.mayBeNumber(n.Items.Property(keys[0]))", put: "true",
		broken: "list-map keys that are numbers are taken to be compared by their text",
	},
	{in: "schema/contain.(*translator).valuePieces", find: "max(*n.MinLength, 0)", put: "max(*n.MinLength-1, 0)", broken: "minLength is off by one"},
	{in: "schema/contain.(*translator).valuePieces", find: "len(n.Enum) > 0", put: "len(n.Enum) > 1", broken: "an enum of one value is skipped"},
	{in: "schema/contain.(*translator).addObjectPieces", without: "c.node.HasDefault", broken: "required is skipped for properties that are declared"},
	{
		in: "schema/contain.(*translator).addObjectPieces", find: "c.kind == declared && c.node.HasDefault", put: "c.kind == gone && c.node.HasDefault",
		broken: "a default does not satisfy required",
	},
	{
		in: "schema/contain.(*translator).addObjectPieces", find: "logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Kinds(logic.NonNull)}}",
		put:    "logic.Has{Name: name}",
		broken: "null satisfies required where it is dropped before validation",
	},
	{
		in: "schema/contain.(*translator).addObjectPieces", find: "logic.No", put: "logic.Unsure",
		broken: "a default that its own schema refuses is taken for a good one",
	},
	{
		in: "schema/contain.countDefaulted", find: "atMost(bound-missing, logic.Object", put: "atMost(bound, logic.Object",
		broken: "maxProperties does not count what defaulting adds",
	},
	{
		in: "schema/contain.countRoughly", find: "Min: bound - added", put: "Min: bound",
		broken: "minProperties with many defaults demands more than it does",
	},
	{
		in: "schema/contain.(*translator).addJunctorPieces", find: "branches(n.AllOf, true)", put: "branches(n.AllOf[:min(1, len(n.AllOf))], true)",
		broken: "all branches of allOf but the first are dropped",
	},
	{
		in: "schema/contain.(*translator).exactlyOne", find: "and = append(and, nots[:i]...)", put: "_ = and",
		broken: "a branch of oneOf excludes only those after it",
	},
	{in: "schema/contain.(*translator).addJunctorPieces", call: "Not", answers: "t.nestedFormula(n.Not, p, false)", broken: "not is not negated"},
	{
		in: "schema/contain.(*translator).nestedProperties", without: "out = append(out, logic.Rest{Except: logic.NamesExcept(names...), F: logic.False})",
		broken: "additionalProperties: false is ignored in a branch of a junctor",
	},
	{
		in: "schema/contain.(*translator).expandNested", find: "out = append(out, logic.Items{F: t.nestedFormula(n.Items, p.itemPlace().orAnything(), inAllOf)})",
		put:    "_ = n.Items",
		broken: "items is ignored in a branch of a junctor",
	},
	{
		in:     "schema/contain.(*translator).nestedProperty",
		find:   "logic.And{logic.Or{logic.Kinds(logic.AnyKind &^ logic.Object), logic.Has{Name: name}}, present}",
		put:    "present",
		broken: "a branch of a junctor does not see the default that it refuses",
	},
	{in: "schema/contain.(*translator).expandNested", without: "len(n.Enum) == 0", broken: "a branch of a junctor lets null pass whatever its enum is"},
	{
		in: "schema/contain.(*translator).addNumberBounds", find: "LoOpen: n.ExclusiveMinimum", put: "LoOpen: false",
		broken: "exclusiveMinimum is ignored for numbers with a fraction",
	},
	{in: "schema/contain.integersUpTo", find: "hi - 1", put: "hi", broken: "exclusiveMaximum is ignored for integers"},
	{
		in: "schema/contain.(*translator).numberRange", find: "logic.IntRange{Lo: math.MinInt32, Hi: math.MaxInt32}",
		put:    "logic.IntRange{Lo: math.MinInt32, Hi: math.MaxUint32}",
		broken: "format: int32 takes unsigned numbers",
	},
	{
		in: "schema/contain.(*translator).addNumberBounds", find: "f = logic.Kinds(logic.AnyKind &^ logic.Number)",
		put:    `f = logic.Kinds(logic.AnyKind &^ logic.Number); if keyword == "maximum" { f = logic.True }`,
		broken: "a maximum outside of the type's range, which refuses every number, accepts all",
	},
	{
		in: "schema/contain.fitsInt", find: "strconv.FormatFloat(f, 'f', -1, 64)", put: "strconv.FormatInt(int64(f), 10)",
		broken: "a bound with a fraction is taken to fit an integer",
	},
	{
		in: "schema/contain.(*library).defaultsText", find: "l.defaultsText(n.Items)", put: `""`,
		broken: "defaults inside of items, which make them equal, are forgotten",
	},
	{
		in: "schema/contain.(*translator).embeddedResource", find: "Max: 63", put: "Max: 64",
		broken: "the kind of an embedded resource may be one longer than it may",
	},
	{
		in: "schema/contain.(*translator).effectiveFormat", find: "upstream.LibraryVersion(t.opts.KubeVersion)",
		put:    "orDefault(t.opts.KubeVersion, upstream.LibraryVersion(nil))",
		broken: "a format is checked by a version that does not know it yet",
	},
	{
		in: "schema/contain.(*translator).effectiveFormat", call: "strings.ReplaceAll", answers: "strings.ToLower(n.Format)",
		broken: "formats with a hyphen, such as date-time, are taken for unknown ones",
	},
	{
		in: "schema/contain.(*translator).ruleFormula", call: "Transition", answers: "parsed.UsesOldSelf()",
		broken: "a rule with optionalOldSelf is not looked at for creation",
	},
	{
		in: "schema/contain.(*translator).rulePieces", find: "p.dark", put: "p.dark && p.pos == atItem",
		broken: "rules count at places where the API server evaluates none",
	},
	{
		in: "schema/contain.(*translator).nestedRules", without: "!inAllOf",
		broken: "rules in branches of anyOf, oneOf and not count, though the API server evaluates none there",
	},
	{
		in: "schema/contain.place.itemPlace", find: "keep: p.preservesUnknown(), whole: p.whole", put: "whole: p.whole",
		broken: "the items of a list that keeps unknown fields lose theirs",
	},
	{
		in: "schema/contain.place.restPlace", find: "kind: emptied", put: "kind: anything",
		broken: "additionalProperties: true keeps the fields of objects in it",
	},
	{in: "schema/contain.place.hidesRules", returns: "false", broken: "rules count below properties that CEL does not know"},
}
