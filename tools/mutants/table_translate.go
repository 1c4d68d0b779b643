package main

// translateFaults are those of the translation of schemas into formulas.
var translateFaults = []fault{
	{
		file: "schema/contain/translate.go", old: `if p.pos == atProperty && !n.Nullable {`, new: `if p.pos == atProperty {`,
		broken: "nullable is ignored: no null is ever accepted",
	},
	{
		file: "schema/contain/translate.go", old: `k = logic.String | logic.Array`, new: `k = logic.String`,
		broken: "that lists pass for strings with a format is forgotten",
	},
	{
		file: "schema/contain/translate.go", old: `Keys: strings.Join(keys, "\x00"), Defaults: keyDefaults(n, keys),`,
		new:    `Keys: keys[0], Defaults: keyDefaults(n, keys),`,
		broken: "of the keys of a list map only the first counts",
	},
	{
		file: "schema/contain/translate.go", old: `Defaults: keyDefaults(n, keys),`, new: `Defaults: "",`,
		broken: "defaults of list-map keys, which make items equal, are forgotten",
	},
	{
		file: "schema/contain/translate.go", old: `Numbers: len(keys) != 1 || !t.mayBeNumber(n.Items.Property(keys[0])),`, new: `Numbers: true,`,
		broken: "list-map keys that are numbers are taken to be compared by their text",
	},
	{
		file: "schema/contain/translate.go", old: `logic.Length{Min: max(*n.MinLength, 0)`, new: `logic.Length{Min: max(*n.MinLength-1, 0)`,
		broken: "minLength is off by one",
	},
	{
		file: "schema/contain/translate.go", old: `if len(n.Enum) > 0 {
		add("enum"`, new: `if len(n.Enum) > 1 {
		add("enum"`,
		broken: "an enum of one value is skipped",
	},
	{
		file: "schema/contain/translate.go", old: `case c.kind == declared && c.node.HasDefault && p.node`, new: `case c.kind == declared && p.node`,
		broken: "required is skipped for properties that are declared",
	},
	{
		file: "schema/contain/translate.go", old: `case c.kind == declared && c.node.HasDefault && p.node`, new: `case c.kind == gone && c.node.HasDefault && p.node`,
		broken: "a default does not satisfy required",
	},
	{
		file: "schema/contain/translate.go", old: `f = logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Kinds(logic.NonNull)}}`,
		new:    `f = logic.Has{Name: name}`,
		broken: "null satisfies required where it is dropped before validation",
	},
	{
		file: "schema/contain/translate.go", old: `t.opts.library().withDefault(c.Node), t.opts.strings()) == logic.No {`,
		new:    `t.opts.library().withDefault(c.Node), t.opts.strings()) == logic.Unsure {`,
		broken: "a default that its own schema refuses is taken for a good one",
	},
	{
		file: "schema/contain/translate.go", old: `atMost(bound-missing, logic.Object`, new: `atMost(bound, logic.Object`,
		broken: "maxProperties does not count what defaulting adds",
	},
	{
		file: "schema/contain/translate.go", old: `NumProps{Min: bound - added,`, new: `NumProps{Min: bound,`,
		broken: "minProperties with many defaults demands more than it does",
	},
	{
		file: "schema/contain/translate.go", old: `range branches(n.AllOf, true)`, new: `range branches(n.AllOf[:min(1, len(n.AllOf))], true)`,
		broken: "all branches of allOf but the first are dropped",
	},
	{
		file: "schema/contain/translate.go", old: `and = append(and, nots[:i]...)`, new: `_ = and`,
		broken: "a branch of oneOf excludes only those after it",
	},
	{
		file: "schema/contain/translate.go", old: `formula: logic.Not(t.nested(n.Not, p, false))`, new: `formula: t.nested(n.Not, p, false)`,
		broken: "not is not negated",
	},
	{
		file: "schema/contain/translate.go", old: `out = append(out, logic.Rest{Except: logic.NamesExcept(names...), F: logic.False})
	}`, new: `}`,
		broken: "additionalProperties: false is ignored in a branch of a junctor",
	},
	{
		file: "schema/contain/translate.go", old: `out = append(out, logic.Items{F: t.nested(n.Items, p.item().orAnything(), inAllOf)})`, new: `_ = n.Items`,
		broken: "items is ignored in a branch of a junctor",
	},
	{
		file: "schema/contain/translate.go", old: `return logic.And{logic.Or{logic.Kinds(logic.AnyKind &^ logic.Object), logic.Has{Name: name}}, present}`,
		new:    `return present`,
		broken: "a branch of a junctor does not see the default that it refuses",
	},
	{
		file: "schema/contain/translate.go", old: `(n.Nullable || n.Type == "" && !n.IntOrString) && len(n.Enum) == 0 {`,
		new:    `(n.Nullable || n.Type == "" && !n.IntOrString) {`,
		broken: "a branch of a junctor lets null pass whatever its enum is",
	},
	{
		file: "schema/contain/numbers.go", old: `LoOpen: n.ExclusiveMinimum, Hi`, new: `LoOpen: false, Hi`,
		broken: "exclusiveMinimum is ignored for numbers with a fraction",
	},
	{
		file: "schema/contain/numbers.go", old: `Hi: hi - 1}`, new: `Hi: hi}`,
		broken: "exclusiveMaximum is ignored for integers",
	},
	{
		file: "schema/contain/numbers.go", old: `logic.IntRange{Lo: math.MinInt32, Hi: math.MaxInt32}`, new: `logic.IntRange{Lo: math.MinInt32, Hi: math.MaxUint32}`,
		broken: "format: int32 takes unsigned numbers",
	},
	{
		file: "schema/contain/numbers.go", old: `f = refuseAll
		}
		add("maximum"`, new: `f = logic.True
		}
		add("maximum"`,
		broken: "a maximum outside of the type's range, which refuses every number, accepts all",
	},
	{
		file: "schema/contain/numbers.go", old: `strconv.FormatFloat(f, 'f', -1, 64), 10, bits)`, new: `strconv.FormatInt(int64(f), 10), 10, bits)`,
		broken: "a bound with a fraction is taken to fit an integer",
	},
	{
		file: "schema/contain/fill.go", old: `if part := l.fills(n.Items); part != "" {`, new: `if part := ""; part != "" {`,
		broken: "defaults inside of items, which make them equal, are forgotten",
	},
	{
		file: "schema/contain/fill.go", old: `text("kind", logic.And{logic.Length{Min: 1, Max: 63}`, new: `text("kind", logic.And{logic.Length{Min: 1, Max: 64}`,
		broken: "the kind of an embedded resource may be one longer than it may",
	},
	{
		file: "schema/contain/formats.go", old: `upstream.LibraryVersion(t.opts.KubeVersion)`, new: `orDefault(t.opts.KubeVersion, upstream.LibraryVersion(nil))`,
		broken: "a format is checked by a version that does not know it yet",
	},
	{
		file: "schema/contain/formats.go", old: `name := strings.ReplaceAll(n.Format, "-", "")`, new: `name := strings.ToLower(n.Format)`,
		broken: "formats with a hyphen, such as date-time, are taken for unknown ones",
	},
	{
		file: "schema/contain/rules.go", old: `if parsed.Transition(optional(r)) {`, new: `if parsed.UsesOldSelf() {`,
		broken: "a rule with optionalOldSelf is not looked at for creation",
	},
	{
		file: "schema/contain/rules.go", old: `if p.dark || t.ruleless {`, new: `if p.dark && p.pos == atItem || t.ruleless {`,
		broken: "rules count at places where the API server evaluates none",
	},
	{
		file: "schema/contain/rules.go", old: `if !inAllOf || p.kind != declared {`, new: `if p.kind != declared {`,
		broken: "rules in branches of anyOf, oneOf and not count, though the API server evaluates none there",
	},
	{
		file: "schema/contain/place.go", old: `keep: p.preserves(), whole: p.whole, dark: p.dark}`, new: `whole: p.whole, dark: p.dark}`,
		broken: "the items of a list that keeps unknown fields lose theirs",
	},
	{
		file: "schema/contain/place.go", old: `case p.node.AdditionalBool != nil: // even where unknown fields are kept
		return place{kind: emptied}`, new: `case p.node.AdditionalBool != nil: // even where unknown fields are kept
		return place{kind: anything}`,
		broken: "additionalProperties: true keeps the fields of objects in it",
	},
	{
		file: "schema/contain/place.go", old: `return p.node.Type != "object" || p.node.IntOrString || p.node.Additional != nil`, new: `return false`,
		broken: "rules count below properties that CEL does not know",
	},
}
