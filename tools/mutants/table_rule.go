package main

// ruleFaults are those of the translation of validation rules.
// A rule in CEL becomes a formula. It has three values there: true, false, and an error, which the API
// server treats as a refusal.
var ruleFaults = []fault{
	{in: "schema/contain/internal/celrule.compareNumbers", call: "flip", answers: "o", broken: "5 > self is read as self > 5"},
	{in: "schema/contain/internal/celrule.computeInt", find: "(b >= 0) == (s >= a)", put: "true", broken: "an addition that overflows is no error"},
	{
		in: "schema/contain/internal/celrule.absence.truthOf", find: "return min(a.truthOf(e.args[0], bound)", put: "return max(a.truthOf(e.args[0], bound)",
		broken: "a && b is true if one of them is", tests: []string{"schema/contain"},
	},
	{
		in: "schema/contain/internal/celrule.absence.placeOf", find: "a.there[below.key] || a.Has(at.path, fieldName(e))", put: "true",
		broken: "a rule that is an error without a list is taken for true", tests: []string{"schema/contain"},
	},
	{
		in: "schema/contain.(*storedValues).Lacks", find: "!c.HasDefault", put: "true",
		broken: "a new field that is filled in is taken to be absent", tests: []string{"schema/contain"},
	},
	{
		in: "schema/contain.(*storedValues).Lacks", find: "o.childPlace(field).kind != gone", put: "o.childPlace(field).kind == declared",
		broken: "an unknown field that the old schema keeps is taken to be absent", tests: []string{"schema/contain"},
	},
	{
		in: "schema/contain/internal/celrule.(*guards).withoutGuards", find: "positive && e.isPositiveIn(i)", put: "true",
		broken: "a rule is taken to be true where its negation became stronger", tests: []string{"schema/contain"},
	},
	{
		in: "schema/contain/internal/celrule.withoutGuardedUses", find: "s.neg == (e.name == operators.LogicalOr)", put: "true",
		broken: "has(x.a) || x.a == 'v' is read as x.a == 'v'", tests: []string{"schema/contain"},
	},
	{
		in: "schema/contain/internal/celrule.(*guards).neverFails", find: " && !g.all && !g.unreadable[fieldName(e.args[0])]", put: "",
		broken: "has() of a text that CEL cannot read is taken for an answer", tests: []string{"schema/contain"},
	},
	{in: "schema/contain/internal/celrule.numV.withConst", find: "flipped && op == '-'", put: "false", broken: "10 - self is taken to grow with self"},
	{
		in: "schema/contain/internal/celrule.combinedBy", find: "andConds(a.f, otherwise.t)", put: "andConds(notCond(a.t), otherwise.t)",
		broken: "c ? a : b is b where c is an error",
	},
	{
		in: "schema/contain/internal/celrule.translate", find: "if s.Spine.Nullable {", put: "if s.Spine.Nullable && s.Root {",
		broken: "a rule refuses null at a nullable place",
	},
	{in: "schema/contain/internal/celrule.quantifier.quantifyOutside", call: "orConds", answers: "c", broken: "all() is not true of an empty list"},
	{
		in: "schema/contain/internal/celrule.quantifier.byCases", find: "andConds(notCond(atom), f)", put: "andConds(notCond(atom), t), andConds(no, f)",
		broken: "a statement about outer values is assumed true where it is false, too",
	},
	{
		in: "schema/contain/internal/celrule.assumeAtom", find: "c == atom && value || value && leafImplies(atom, c)",
		put:    "value && (c == atom || leafImplies(c, atom))",
		broken: "where a statement about outer values holds, a stronger one is taken to hold, too",
	},
	{
		in: "schema/contain/internal/celrule.assumeAtom", find: "leafImplies(c, atom)", put: "(leafImplies(c, atom) || leafImplies(atom, c))",
		broken: "where a statement about outer values does not hold, a weaker one is taken not to hold, either",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).loadPlace", find: `p != ""`, put: `p == "-"`,
		broken: "every time that validation takes is taken to be one that CEL can read",
	},
	{
		in: "schema/contain/internal/celrule.readable", find: "\"byte\": `^[^+/]*$`", put: `"byte": ""`,
		broken: "every base64 is taken to be one that CEL can read",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).settleAssumptions", find: "isError && a.strict", put: "isError || a.strict",
		broken: "a comparison that has() guards is taken for an error where a key is missing",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).countSame", find: "!c.pred.f.needsLeaf(k)", put: "false && !c.pred.f.needsLeaf(k)",
		broken: "every comparison is taken for an error where a key is missing",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).macroAt", find: "if len(t.asides) > mark {",
		put:    `if len(t.asides) > mark && name == "" {`,
		broken: "the bounds of a macro are taken to hold where what was granted does not",
	},
	{
		in: "schema/contain/internal/celrule.(*translator).oneOf", find: "p += `\\z`", put: "p += ``",
		broken: "a part of a string that has to equal a constant may go on after it",
	},
	{
		in: "schema/contain/internal/celrule.strAt.evalSearch", find: "matchesPattern(s.ref, c+`\\z`)", put: "matchesPattern(s.ref, c+`(?m:$)`)",
		broken: "endsWith finds ends of lines",
	},
	{
		in: "schema/contain/internal/celrule.rawEqual", without: "!n.HasDefault",
		broken: "objects that differ before defaulting are taken to differ for ==",
	},
	{in: "schema/contain/internal/celrule.ToldApart", without: "p.Node.Nullable", broken: "a null that equals what is missing is forgotten"},
	{
		in: "schema/contain/internal/celrule.(*Rule).OfPair", find: "values[1] = someOf(values[1])", put: "_ = someOf(values[1])",
		broken: "the old value of an update is no optional one",
	},
	{
		in:     "schema/contain/internal/celrule.(*Rule).OfPair",
		find:   "missing = append(missing, &expr{kind: call, name: operators.LogicalNot, args: []*expr{",
		put:    "_ = append(missing, &expr{kind: call, name: operators.LogicalNot, args: []*expr{",
		broken: "a rule about updates is taken to be evaluated where a side has no value",
	},
	{in: "schema/contain/internal/celrule.(*Rule).Freezes", without: "s.neg", broken: "a rule that demands a change is taken to forbid it"},
	{
		in: "schema/contain/internal/celrule.(*translator).countSame", find: "!items.IsRequired(name)", put: "items.IsRequired(name)",
		broken: "that comparing items by a key that one lacks is an error, is forgotten",
	},
	{in: "schema/contain/internal/celrule.sumOf.indexWithin", find: "int(hi)", put: "int(hi)-1", broken: "at most one of several may be two"},
	{
		in: "schema/contain/internal/celrule.canonicalText", call: "usesDyn", answers: "false",
		broken: "rules with dyn() are put into a form that means something else",
	},
	{
		in: "schema/contain/internal/celrule.comparisons", find: "operators.LessEquals: {true, true}",
		put:    "operators.LessEquals: {true, false}",
		broken: "a <= b has the normal form of b < a",
	},
	{
		in: "schema/contain/internal/celrule.opaqueAt", find: `logic.And{logic.Opaque{ID: "F " + id}, logic.Opaque{ID: "T " + id, Neg: true}}`,
		put:    `logic.Opaque{ID: "T " + id, Neg: true}`,
		broken: "a part that is not understood is false where it is not true, though it may be an error",
	},
	{
		in: "schema/contain/internal/celrule.countAt.indexWithin", find: "hi+1", put: "hi+2",
		broken: "the size of a filtered list may be one more than it may",
	},
	{
		in:     "schema/contain/internal/celrule.indexCases",
		find:   "size.indexWithin(0, int64(i)), size.indexWithin(int64(i)+1, maxSize)",
		put:    "size.indexWithin(0, int64(i)-1), size.indexWithin(int64(i), maxSize)",
		broken: "an index behind the last item is not outside of the list",
	},
	{
		in: "schema/contain/internal/celrule.leavesSome", find: "n >= 0", put: "n >= -1",
		broken: "a filter that may leave nothing is taken to leave something",
	},
}
