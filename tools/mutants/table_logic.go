package main

// logicFaults are those of the solver.
var logicFaults = []fault{
	{
		file: "schema/contain/internal/logic/object.go", old: `complete = complete && (len(found) > 0 || none)`, new: `_ = none`,
		broken: "that the values of a key were not found is taken for a proof that there is no such key",
	},
	{
		file: "schema/contain/internal/logic/solve.go", old: `s.why = st.sum // includes facts about single fields`, new: `_ = st`,
		broken: "a choice is passed over though the contradiction rests on it",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `if s.table.ID(d, &s.work) == id { // the other parts add nothing`, new: `if false && id == 0 {`,
		broken: "a disjunction is taken to hold because a part of it says the same",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `x.has, x.hasWhy = true, why`, new: `x.has, x.hasWhy = true, 0`,
		broken: "that a property is there is taken to hold whatever was chosen",
	},
	{
		file: "schema/contain/internal/logic/intern.go", old: `b := flag([]byte{tagEnum}, f.Neg)`, new: `b := []byte{tagEnum}`,
		broken: "a formula and its negation have the same number",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `if st.length.Min > st.length.Max {`, new: `if st.length.Min >= st.length.Max {`,
		broken: "strings of one exact length are taken for impossible",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `if st.ints.Lo > st.ints.Hi {`, new: `if st.ints.Lo >= st.ints.Hi {`,
		broken: "an integer that is fixed is taken for impossible",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `case int64(len(st.fields.had)) > st.numProps.Max:`,
		new:    `case int64(len(st.fields.had)) >= st.numProps.Max:`,
		broken: "an object with as many properties as it may have is taken for impossible",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `return r.Lo > r.Hi || r.Lo == r.Hi && (r.LoOpen || r.HiOpen)`,
		new:    `return r.Lo == r.Hi && (r.LoOpen || r.HiOpen)`,
		broken: "two ranges of floats that lie apart are taken to meet",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `(r.Lo > o.Lo || r.Lo == o.Lo && (r.LoOpen || !o.LoOpen))`, new: `r.Lo >= o.Lo`,
		broken: "an inclusive bound is taken to entail an exclusive one",
	},
	{
		file: "schema/contain/internal/logic/known.go", old: `return st.only(String, st.length.Min >= f.Min && st.length.Max <= f.Max,`, new: `return st.only(String, st.length.Min >= f.Min,`,
		broken: "a disjunct about the length of strings counts as entailed whatever its maximum is",
	},
	{
		file: "schema/contain/internal/logic/known.go", old: `case contradicted && st.kinds&^k == 0:`, new: `case contradicted:`,
		broken: "a disjunct that cannot hold of one kind is dropped for all",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `st.lazyOf(f.ID); ok {
			return g.Neg == f.Neg || s.clash(why|at)`, new: `st.lazyOf(f.ID); ok {
			return g.Neg == f.Neg || at >= 0`,
		broken: "a formula and its negation do not contradict each other",
	},
	{
		file: "schema/contain/internal/logic/state.go", old: `if !u.Neg && f.Neg && u.By.implies(f.By) ||`, new: `if !u.Neg && f.Neg && f.By.implies(u.By) ||`,
		broken: "that items differ by one key is taken to follow from that they differ by two",
	},
	{
		file: "schema/contain/internal/logic/formula.go", old: `return And{Kinds(Object), Has{f.Name}, Prop{f.Name, Not(f.F)}}`, new: `return And{Kinds(Object), Prop{f.Name, Not(f.F)}}`,
		broken: "a property that is left out is taken for a wrong one",
	},
	{
		file: "schema/contain/internal/logic/formula.go", old: `HiOpen: !f.LoOpen})`, new: `HiOpen: f.LoOpen})`,
		broken: "the negation of an inclusive minimum has the minimum in it",
	},
	{
		file: "schema/contain/internal/logic/formula.go", old: `r(max(hi+1, 0), Unbounded))`, new: `r(max(hi+2, 0), Unbounded))`,
		broken: "the negation of a maximum is off by one",
	},
	{
		file: "schema/contain/internal/logic/formula.go", old: `out = append(out, IntRange{math.MinInt64, f.Lo - 1})`, new: `out = append(out, IntRange{math.MinInt64, f.Lo - 2})`,
		broken: "the negation of a minimum of integers is off by one",
	},
	{
		file: "schema/contain/internal/logic/solve.go", old: `s.fail("values nest too deeply")
		return nil, false`, new: `s.fail("values nest too deeply")
		return nil, true`,
		broken: "a value that would nest too deeply is taken for impossible",
	},
	{
		file: "schema/contain/internal/logic/solve.go", old: `complete, why = complete && none, why|s.why`, new: `complete, why = none, why|s.why`,
		broken: "that the last kind of value is impossible is taken for a proof for all",
	},
	{
		file: "schema/contain/internal/logic/solve.go", old: `for i, f := range d.or {`, new: `for i, f := range d.or[:len(d.or)-1] {`,
		broken: "the last disjunct is never tried",
	},
	{
		file: "schema/contain/internal/logic/solve.go", old: `candidates = append(candidates, int64(r[0])) //`, new: `_ = r //`,
		broken: "that 65 passes for the enum value A is forgotten",
	},
	{
		file: "schema/contain/internal/logic/solve.go", old: `return out, len(st.floatMult) == 0`, new: `return out, true`,
		broken: "floats that are cut to an enum's integer are taken for all tried though multipleOf asks for others",
	},
	{
		file: "schema/contain/internal/logic/numbers.go", old: `s.fail("no integer found in a large range")
	}
	return out, false`, new: `s.fail("no integer found in a large range")
	}
	return out, true`,
		broken: "the integers that were tried are taken for all there are",
	},
	{
		file: "schema/contain/internal/logic/numbers.go", old: `if exact && (math.Ceil(r.Lo) >`, new: `if integral && (math.Ceil(r.Lo) >`,
		broken: "that almost integral numbers count as integral is forgotten",
	},
	{
		file: "schema/contain/internal/logic/numbers.go", old: `s.fail("no integral number found")
		return nil, false`, new: `s.fail("no integral number found")
		return nil, true`,
		broken: "integral numbers are taken for the only ones that count as integral",
	},
	{
		file: "schema/contain/internal/logic/numbers.go", old: `m.N%no.N == 0`, new: `no.N%m.N == 0`,
		broken: "multiples of 2 are taken for multiples of 4",
	},
	{
		file: "schema/contain/internal/logic/object.go", old: `return nil, none && len(found) == 0`, new: `return nil, none || len(found) > 0`,
		broken: "that all keys are in use is taken for a proof",
	},
	{
		file: "schema/contain/internal/logic/array.go", old: `complete = hi == 1 //`, new: `complete = true //`,
		broken: "items that have to be one are taken for all there are to try",
	},
	{
		file: "schema/contain/internal/logic/array.go", old: `if duplicates && hi < 2 {`, new: `if duplicates && hi <= 2 {`,
		broken: "a list of two equal items is taken for impossible",
	},
	{
		file: "schema/contain/internal/logic/array.go", old: `return nil, none && len(distinct) == 1 && apart(base, distinct)`, new: `return nil, none`,
		broken: "that no further item differs from those at hand is taken for a proof that fewer are possible",
	},
	{
		file: "schema/contain/internal/logic/object.go", old: `if slices.ContainsFunc(st.mentioned(), try) {`, new: `if slices.ContainsFunc(st.mentioned()[:0], try) {`,
		broken: "an optional property cannot be the one that an undeclared property has to be",
	},
	{
		file: "schema/contain/internal/logic/object.go", old: `return nil, none && len(st.someRests) == 1`, new: `return nil, none`,
		broken: "that a second property finds no place next to the first is taken for a proof",
	},
	{
		file: "schema/contain/internal/logic/eval.go", old: `n := int64(utf8.RuneCountInString(v))`, new: `n := int64(max(len(v), utf8.RuneCountInString(v)))`,
		broken: "strings are measured in bytes",
	},
	{
		file: "schema/contain/internal/logic/eval.go", old: `return reflect.DeepEqual(have.Convert(want).Interface(), e)`, new: `return reflect.DeepEqual(v, e)`,
		broken: "1.0 does not equal the enum value 1",
	},
	{
		file: "schema/contain/internal/logic/eval.go", old: ` || u.defaultOf(n) != v.defaultOf(n)`, new: ``,
		broken: "items that differ before defaulting are taken to differ after it",
	},
	{
		file: "schema/contain/internal/logic/eval.go", old: ` || v.Numbers && !u.Numbers {`, new: ` {`,
		broken: "numbers that differ are taken to differ in their text",
	},
	{
		file: "schema/contain/internal/logic/eval.go", old: `if okp != okq || okp && !same {`, new: `if okp && okq && !same {`,
		broken: "a list-map item without a key equals every other",
	},
	{
		file: "schema/contain/internal/logic/eval.go", old: `if r.LoOpen && v <= r.Lo || v < r.Lo {`, new: `if v < r.Lo {`,
		broken: "an exclusive lower bound takes the bound itself",
	},
}
