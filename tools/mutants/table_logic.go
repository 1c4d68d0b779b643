package main

// logicFaults are those of the solver.
// The solver answers whether a formula about values can be true. A wrong no is a false proof that a
// change is safe; a wrong yes makes a finding undecided, because its witness is not confirmed.
var logicFaults = []fault{
	{
		in: "schema/contain/internal/logic.(*Solver).placeSomeKey", find: "complete = complete && (len(found) > 0 || none)", put: "_ = none",
		broken: "that the values of a key were not found is taken for a proof that there is no such key",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).searchState", find: "s.why = st.sum", put: "_ = st",
		broken: "a choice is passed over though the contradiction rests on it",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addOr", find: "if s.table.ID(d, &s.work) == id {", put: "if false && id == 0 {",
		broken: "a disjunction is taken to hold because a part of it says the same",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addHas", find: "x.has, x.hasWhy = true, why", put: "x.has, x.hasWhy = true, 0",
		broken: "that a property is there is taken to hold whatever was chosen",
	},
	{
		in: "schema/contain/internal/logic.(*Table).keyOf", find: "f.Neg}", put: "false}",
		broken: "a formula and its negation have the same number",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addString", find: "st.length.Min > st.length.Max", put: "st.length.Min >= st.length.Max",
		broken: "strings of one exact length are taken for impossible",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addInteger", find: "st.ints.Lo > st.ints.Hi", put: "st.ints.Lo >= st.ints.Hi",
		broken: "an integer that is fixed is taken for impossible",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addHas", find: "int64(len(st.fields.had)) > st.numProps.Max",
		put:    "int64(len(st.fields.had)) >= st.numProps.Max",
		broken: "an object with as many properties as it may have is taken for impossible",
	},
	{in: "schema/contain/internal/logic.FloatRange.isEmpty", without: "r.Lo > r.Hi", broken: "two ranges of floats that lie apart are taken to meet"},
	{
		in: "schema/contain/internal/logic.FloatRange.isWithin", find: "(r.Lo > o.Lo || r.Lo == o.Lo && (r.LoOpen || !o.LoOpen))",
		put:    "r.Lo >= o.Lo",
		broken: "an inclusive bound is taken to entail an exclusive one",
	},
	{
		in: "schema/contain/internal/logic.(*state).knownBounds", find: "whole(String, f.Min, f.Max,", put: "whole(String, f.Min, max(f.Max, st.length.Max),",
		broken: "a disjunct about the length of strings counts as entailed whatever its maximum is",
	},
	{
		in: "schema/contain/internal/logic.(*state).judgeForKind", without: "st.kinds&^k == 0",
		broken: "a disjunct that cannot hold of one kind is dropped for all",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addLazy", find: "st.lazyOf(f.ID); ok { return g.Neg == f.Neg || s.recordClash(why|at)",
		put:    "st.lazyOf(f.ID); ok { return g.Neg == f.Neg || at >= 0",
		broken: "a formula and its negation do not contradict each other",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).addArray", call: "u.By.impliesUnique", answers: "f.By.impliesUnique(u.By)",
		broken: "that items differ by one key is taken to follow from that they differ by two",
	},
	{
		in: "schema/contain/internal/logic.Prop.negatedForm", find: "And{Kinds(Object), Has{f.Name}, Prop{f.Name, Not(f.F)}}",
		put:    "And{Kinds(Object), Prop{f.Name, Not(f.F)}}",
		broken: "a property that is left out is taken for a wrong one",
	},
	{in: "schema/contain/internal/logic.FloatRange.rangesOutside", find: "!r.LoOpen", put: "r.LoOpen", broken: "the negation of an inclusive minimum has the minimum in it"},
	{in: "schema/contain/internal/logic.notRange", find: "hi+1", put: "hi+2", broken: "the negation of a maximum is off by one"},
	{in: "schema/contain/internal/logic.IntRange.rangesOutside", find: "r.Lo - 1", put: "r.Lo - 2", broken: "the negation of a minimum of integers is off by one"},
	{
		in: "schema/contain/internal/logic.(*Solver).solveFacts", find: "return nil, false", put: "return nil, true",
		broken: "a value that would nest too deeply is taken for impossible",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).searchState", find: "complete && none", put: "none",
		broken: "that the last kind of value is impossible is taken for a proof for all",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).splitDisjunction", find: "for i, f := range d.f {", put: "for i, f := range d.f[:len(d.f)-1] {",
		broken: "the last disjunct is never tried",
	},
	{
		in: "schema/contain/internal/logic.(*state).valuesSameAs", find: "[]any{e, int64(r[0])}", put: "[]any{e}",
		broken: "that 65 passes for the enum value A is forgotten",
	},
	{
		in: "schema/contain/internal/logic.(*state).truncatedTo", find: "len(st.floatMult) == 0", put: "true",
		broken: "floats that are cut to an enum's integer are taken for all tried though multipleOf asks for others",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).solveInt", find: "return out, false", put: "return out, true",
		broken: "the integers that were tried are taken for all there are",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).solveFloat", find: "case exact && (math.Ceil(r.Lo) >",
		put:    "case integral && (math.Ceil(r.Lo) >",
		broken: "that almost integral numbers count as integral is forgotten",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).solveFloat", find: `s.recordReason("no integral number found"); return nil, false`,
		put:    `s.recordReason("no integral number found"); return nil, true`,
		broken: "integral numbers are taken for the only ones that count as integral",
	},
	{in: "schema/contain/internal/logic.(*Solver).solveInt", find: "m.N%no.N", put: "no.N%m.N", broken: "multiples of 2 are taken for multiples of 4"},
	{
		in: "schema/contain/internal/logic.(*Solver).freshKeys", find: "return nil, none && len(found) == 0",
		put:    "return nil, none || len(found) > 0",
		broken: "that all keys are in use is taken for a proof",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).solveArray", find: "hi == 1", put: "true",
		broken: "items that have to be one are taken for all there are to try",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).solveArray", find: "hi < 2", put: "hi <= 2",
		broken: "a list of two equal items is taken for impossible",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).padItems", find: "none && len(distinct) == 1 && allDistinct(base, distinct)", put: "none",
		broken: "that no further item differs from those at hand is taken for a proof that fewer are possible",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).placeSomeRest", find: "st.mentionedNames()", put: "st.mentionedNames()[:0]",
		broken: "an optional property cannot be the one that an undeclared property has to be",
	},
	{
		in: "schema/contain/internal/logic.(*Solver).chooseNames", without: "len(st.someRests) == 1",
		broken: "that a second property finds no place next to the first is taken for a proof",
	},
	{
		in: "schema/contain/internal/logic.evaluator.evalString", find: "utf8.RuneCountInString(v)",
		put:    "max(len(v), utf8.RuneCountInString(v))",
		broken: "strings are measured in bytes",
	},
	{in: "schema/contain/internal/logic.Same", call: "Interface", answers: "v", broken: "1.0 does not equal the enum value 1"},
	{
		in: "schema/contain/internal/logic.UniqueBy.impliesUnique", without: "u.defaultOf(n) != v.defaultOf(n)",
		broken: "items that differ before defaulting are taken to differ after it",
	},
	{
		in: "schema/contain/internal/logic.UniqueBy.impliesUnique", without: "v.Numbers && !u.Numbers",
		broken: "numbers that differ are taken to differ in their text",
	},
	{
		in: "schema/contain/internal/logic.UniqueBy.equalItems", find: "okp != okq || okp && !same", put: "okp && okq && !same",
		broken: "a list-map item without a key equals every other",
	},
	{
		in: "schema/contain/internal/logic.FloatRange.containsNumber", without: "r.LoOpen && v <= r.Lo",
		broken: "an exclusive lower bound takes the bound itself",
	},
}
