package main

// schemaFaults are those of package schema: what the keyword table reads, the hash that spares comparisons, defaulting.
var schemaFaults = []fault{
	{
		file: "schema/hash.go", old: `b.flag('X', n.ExclusiveMaximum)`, new: `b.flag('X', false)`,
		broken: "two schemas that differ in exclusiveMaximum alone have the same hash, and are taken for equal",
	},
	{
		file: "schema/hash.go", old: `if r.OptionalOldSelf != nil && *r.OptionalOldSelf {`, new: `if r.OptionalOldSelf != nil && !*r.OptionalOldSelf {`,
		broken: "optionalOldSelf does not change the hash",
	},
	{
		file: "schema/hash.go", old: `return binary.AppendVarint(append(b, 'i'), v)`, new: `return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(float64(v)))`,
		broken: "an enum of 1 and one of 1.0 have the same hash",
	},
	{
		file: "schema/keywords.go", old: `n.ExclusiveMinimum = p.ExclusiveMinimum`, new: `n.ExclusiveMinimum = p.ExclusiveMaximum`,
		broken: "exclusiveMinimum is read from exclusiveMaximum",
	},
	{
		file: "schema/keywords.go", old: `n.Default, n.HasDefault = v, v != nil`, new: `n.Default, n.HasDefault = v, true`,
		broken: "a default of null counts as a default",
	},
	{
		file: "schema/keywords.go", old: `slices.Compact(slices.Sorted(slices.Values(p.Required)))`, new: `slices.Compact(slices.Clone(p.Required))`,
		broken: "required is not sorted, so that a search in it misses names",
	},
	{
		file: "schema/default.go", old: `x, ok := out[p.Name]; !ok || x == nil && !p.Node.Nullable {`, new: `_, ok := out[p.Name]; !ok {`,
		broken: "a default does not stand in for a null",
	},
	{
		file: "schema/default.go", old: `out[k] = WithDefaults(sub, x)`, new: `out[k] = x`,
		broken: "defaults inside of objects are not filled in",
	},
	{
		file: "schema/schema.go", old: `allows := ap.Allows`, new: `allows := true`,
		broken: "additionalProperties: false is read as true",
	},
}
