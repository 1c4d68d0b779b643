package main

// regularFaults are those of the containment of patterns.
var regularFaults = []fault{
	{
		in: "schema/contain/internal/regular.(*stepper).advance", find: "s.follow(p.first, after, dst)", put: "dst, false",
		broken: "every pattern is taken for anchored",
	},
	{
		in: "schema/contain/internal/regular.startContext", find: "atText | atLine", put: "atText",
		broken: "(?m:^) does not match at the beginning of the text",
	},
	{in: "schema/contain/internal/regular.aheadHolds", find: "!edge", put: "edge || next == nextEnd", broken: "\\B matches at word boundaries"},
	{
		in: "schema/contain/internal/regular.(*decision).run", find: "answer.Reason = d.gaps[0]", put: "answer.Verdict = Proved",
		broken: "a spent budget is taken for a proof",
	},
	{in: "schema/contain/internal/regular.(*query).cuts", find: "l.last+1", put: "l.last+2", broken: "the greatest length is off by one"},
	{
		in: "schema/contain/internal/regular.tidy", find: "if last.neg != e.neg {", put: "if last.neg != e.neg && last.neg {",
		broken: "a pattern and its complement in one conjunction are taken for the pattern",
	},
	{
		in: "schema/contain/internal/regular.(*search).run", find: "length == last", put: "length+1 >= last",
		broken: "the longest strings are not looked at",
	},
	{
		in: "schema/contain/internal/regular.(*search).walk", find: "(first - length) / s.lap",
		put:    "(first-length)/s.lap - 1; s.laps = max(s.laps, 0) + 1",
		broken: "a lap too many is skipped",
	},
	{
		in: "schema/contain/internal/regular.(*machine).below", find: "ka[0] == kb[0]&int32(need)", put: "true",
		broken: "a state is taken to be below another whatever came before",
	},
	{
		in: "schema/contain/internal/regular.asLength", find: "int64(middle.Max)", put: "int64(max(middle.Min, middle.Max))",
		broken: "x{12,} is taken for x{12}",
	},
	{in: "schema/contain/internal/regular.newAlphabet", find: "set[i+1]+1", put: "set[i+1]", broken: "the last rune of a class falls out of it"},
	{
		in: "schema/contain/internal/regular.(*product).trim", find: "!yes && out[i] > full", put: "!yes || out[i] > full",
		broken: "states are thrown away though they matter",
	},
}
