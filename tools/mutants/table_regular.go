package main

// regularFaults are those of the search for strings.
// The search answers whether a string matches some patterns and not others. Anchors, word boundaries and
// lengths are where it differs from a textbook.
var regularFaults = []fault{
	{
		in: "schema/contain/internal/regular.(*Pattern).beforeRune", find: "last == noText || !p.fromStart", put: "last == noText",
		broken: "every pattern is taken for anchored",
	},
	{
		in: "schema/contain/internal/regular.Compile", find: "prog.StartCond()&syntax.EmptyBeginText != 0", put: "prog.StartCond()&syntax.EmptyBeginLine != 0",
		broken: "(?m:^) is taken for the start of the text",
	},
	{
		in: "schema/contain/internal/regular.(*product).kindOf", find: "(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary)", put: "syntax.EmptyWordBoundary",
		broken: "\\B does not know what came before",
	},
	{
		in: "schema/contain/internal/regular.(*product).searchStates", find: "return found, len(found) == 0", put: "return found, true",
		broken: "a set with fewer strings than were asked for is taken for empty",
	},
	{
		in: "schema/contain/internal/regular.(*product).searchStates", find: "if p.spent {\n\t\t\t\treturn found, false\n\t\t\t}", put: "if p.spent {\n\t\t\t\treturn found, true\n\t\t\t}",
		broken: "a spent budget is taken for a proof",
	},
	{
		in: "schema/contain/internal/regular.(*product).searchStates", find: "length <= p.Most", put: "length < p.Most",
		broken: "the longest strings are not looked at",
	},
	{
		in: "schema/contain/internal/regular.(*product).searchStates", find: "min(length+1, p.Least)", put: "0",
		broken: "a state that was reached by a string that is too short is not visited again",
	},
	{
		in: "schema/contain/internal/regular.(*product).edgesOf", find: "i >= len(p.Match) && f.found || ", put: "f.found || ",
		broken: "strings are given up once a pattern that they have to match is found",
	},
	{in: "schema/contain/internal/regular.cutsOf", find: "r+rune(i%2)", put: "r", broken: "the last rune of a class falls out of it"},
	{in: "schema/contain/internal/regular.cutsOf", find: "cuts = append(cuts, f, f+1)", put: "_ = f", broken: "letters that fold to one another are not told apart"},
}
