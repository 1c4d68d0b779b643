package main

// schemaFaults are those of package schema: what the keyword table reads, the hash that spares comparisons, defaulting.
// Equal hashes of two schemas count as proof that both are the same, so a keyword that is not in the hash
// is a false proof.
var schemaFaults = []fault{
	{
		in: "schema.(*Node).computeHash", find: "b.appendFlag('X', n.ExclusiveMaximum)", put: "b.appendFlag('X', false)",
		broken: "two schemas that differ in exclusiveMaximum alone have the same hash, and are taken for equal",
	},
	{
		in: "schema.(*Node).computeHash", find: "r.OptionalOldSelf != nil && *r.OptionalOldSelf", put: "r.OptionalOldSelf != nil && !*r.OptionalOldSelf",
		broken: "optionalOldSelf does not change the hash",
	},
	{
		in: "schema.AppendValue", find: "binary.AppendVarint(append(b, 'i'), v)",
		put:    "binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(float64(v)))",
		broken: "an enum of 1 and one of 1.0 have the same hash",
	},
	{
		in: "schema.Keywords", find: "n.ExclusiveMinimum = p.ExclusiveMinimum", put: "n.ExclusiveMinimum = p.ExclusiveMaximum",
		broken: "exclusiveMinimum is read from exclusiveMaximum",
	},
	{in: "schema.readDefault", find: "v != nil", put: "true", broken: "a default of null counts as a default"},
	{
		in: "schema.readRequired", call: "slices.Sorted", answers: "slices.Clone(p.Required)",
		broken: "required is not sorted, so that a search in it misses names",
	},
	{
		in: "schema.(*Node).fillObject", find: "x, ok := out[p.Name]; !ok || x == nil && !p.Node.Nullable {", put: "_, ok := out[p.Name]; !ok {",
		broken: "a default does not stand in for a null",
	},
	{in: "schema.(*Node).fillObject", find: "WithDefaults(sub, x)", put: "x", broken: "defaults inside of objects are not filled in"},
	{in: "schema.(*builder).buildChildren", find: "allows := ap.Allows", put: "allows := true", broken: "additionalProperties: false is read as true"},
	{in: "schema.visitor.visitJunctors", without: "v.visitList(p.AnyOf)", broken: "a walk through a schema leaves out anyOf"},
	{in: "schema.rewriteTree", find: "slices.Clone(ss)", put: "slices.Clip(ss)", broken: "a changed copy of a schema changes the schema itself"},
}
