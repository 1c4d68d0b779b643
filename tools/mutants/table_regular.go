package main

// regularFaults are those of the containment of patterns.
var regularFaults = []fault{
	{
		file: "schema/contain/internal/regular/stepper.go", old: `return s.follow(p.first, after, dst) // the search`, new: `return dst, false // the search`,
		broken: "every pattern is taken for anchored",
	},
	{
		file: "schema/contain/internal/regular/stepper.go", old: `const startContext = atText | atLine`, new: `const startContext = atText`,
		broken: "(?m:^) does not match at the beginning of the text",
	},
	{
		file: "schema/contain/internal/regular/stepper.go", old: `(asserts&int32(syntax.EmptyNoWordBoundary) == 0 || !edge)`, new: `(asserts&int32(syntax.EmptyNoWordBoundary) == 0 || edge || next == nextEnd)`,
		broken: "\\B matches at word boundaries",
	},
	{
		file: "schema/contain/internal/regular/decide.go", old: `answer.Reason = d.gaps[0]`, new: `answer.Verdict = Proved`,
		broken: "a spent budget is taken for a proof",
	},
	{
		file: "schema/contain/internal/regular/query.go", old: `cuts = append(cuts, l.last+1)`, new: `cuts = append(cuts, l.last+2)`,
		broken: "the greatest length is off by one",
	},
	{
		file: "schema/contain/internal/regular/query.go", old: `if last.neg != e.neg {`, new: `if last.neg != e.neg && last.neg {`,
		broken: "a pattern and its complement in one conjunction are taken for the pattern",
	},
	{
		file: "schema/contain/internal/regular/search.go", old: `if length == last || !s.expand(from, to, since) {`, new: `if length+1 >= last || !s.expand(from, to, since) {`,
		broken: "the longest strings are not looked at",
	},
	{
		file: "schema/contain/internal/regular/search.go", old: `s.laps = (first - length) / s.lap`, new: `s.laps = (first-length)/s.lap - 1
				s.laps = max(s.laps, 0) + 1`,
		broken: "a lap too many is skipped",
	},
	{
		file: "schema/contain/internal/regular/machine.go", old: `return ka[0] == kb[0]&int32(need)`, new: `return true`,
		broken: "a state is taken to be below another whatever came before",
	},
	{
		file: "schema/contain/internal/regular/repeat.go", old: `return star, int64(middle.Min), int64(middle.Max), true`, new: `return star, int64(middle.Min), int64(max(middle.Min, middle.Max)), true`,
		broken: "x{12,} is taken for x{12}",
	},
	{
		file: "schema/contain/internal/regular/alphabet.go", old: `cuts = append(cuts, set[i+1]+1)`, new: `cuts = append(cuts, set[i+1])`,
		broken: "the last rune of a class falls out of it",
	},
	{
		file: "schema/contain/internal/regular/product.go", old: `if !yes && out[i] > full {`, new: `if !yes || out[i] > full {`,
		broken: "states are thrown away though they matter",
	},
}
