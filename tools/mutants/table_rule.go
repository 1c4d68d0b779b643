package main

// ruleFaults are those of the translation of validation rules.
var ruleFaults = []fault{
	{
		file: "schema/contain/internal/celrule/compare.go", old: `tr, fa := m.compareConst(o.flip(), x)`, new: `tr, fa := m.compareConst(o, x)`,
		broken: "5 > self is read as self > 5",
	},
	{
		file: "schema/contain/internal/celrule/num.go", old: `return num{i: s}, (y >= 0) == (s >= x)`, new: `return num{i: s}, true`,
		broken: "an addition that overflows is no error",
	},
	{
		file: "schema/contain/internal/celrule/num.go", old: `case op == '-' && flipped:
		down = true`, new: `case op == '-' && flipped:
		down = false`,
		broken: "10 - self is taken to grow with self",
	},
	{
		file: "schema/contain/internal/celrule/translate.go", old: `return boolV{or(and(c.t, a.t), and(c.f, b.t)), or(and(c.t, a.f), and(c.f, b.f))}, nil`,
		new:    `return boolV{or(and(c.t, a.t), and(not(c.t), b.t)), or(and(c.t, a.f), and(c.f, b.f))}, nil`,
		broken: "c ? a : b is b where c is an error",
	},
	{
		file: "schema/contain/internal/celrule/translate.go", old: `if s.Spine.Nullable {`, new: `if s.Spine.Nullable && s.Root {`,
		broken: "a rule refuses null at a nullable place",
	},
	{
		file: "schema/contain/internal/celrule/quantify.go", old: `return or(c, q.wrap(s, logic.False))`, new: `return c`,
		broken: "all() is not true of an empty list",
	},
	{
		file: "schema/contain/internal/celrule/quantify.go", old: `return or(and(atom, t), and(not(atom), f)), nil`, new: `return or(and(atom, t), and(not(atom), t), and(no, f)), nil`,
		broken: "a statement about outer values is assumed true where it is false, too",
	},
	{
		file: "schema/contain/internal/celrule/quantify.go", old: `case c == atom && value || value && implies(atom, c):`, new: `case value && (c == atom || implies(c, atom)):`,
		broken: "where a statement about outer values holds, a stronger one is taken to hold, too",
	},
	{
		file: "schema/contain/internal/celrule/quantify.go", old: `case c == atom || !value && implies(c, atom):`, new: `case c == atom || !value && (implies(c, atom) || implies(atom, c)):`,
		broken: "where a statement about outer values does not hold, a weaker one is taken not to hold, either",
	},
	{
		file: "schema/contain/internal/celrule/scope.go", old: `if p := readable[n.Format]; p != "" {`, new: `if p := readable[n.Format]; p == "-" {`,
		broken: "every time that validation takes is taken to be one that CEL can read",
	},
	{
		file: "schema/contain/internal/celrule/scope.go", old: `"byte": ` + "`^[^+/]*$`" + `}`, new: `"byte": ""}`,
		broken: "every base64 is taken to be one that CEL can read",
	},
	{
		file: "schema/contain/internal/celrule/unique.go", old: `isError = isError && a.strict`, new: `isError = isError || a.strict`,
		broken: "a comparison that has() guards is taken for an error where a key is missing",
	},
	{
		file: "schema/contain/internal/celrule/unique.go", old: `return !c.pred.f.needs(k) })`, new: `return false && !c.pred.f.needs(k) })`,
		broken: "every comparison is taken for an error where a key is missing",
	},
	{
		file: "schema/contain/internal/celrule/macro.go", old: `if len(t.asides) > mark {`, new: `if len(t.asides) > mark && name == "" {`,
		broken: "the bounds of a macro are taken to hold where what was granted does not",
	},
	{
		file: "schema/contain/internal/celrule/strings.go", old: "p += `\\z`", new: "p += ``",
		broken: "a part of a string that has to equal a constant may go on after it",
	},
	{
		file: "schema/contain/internal/celrule/strings.go", old: "return matching(s.ref, c+`\\z`), true", new: "return matching(s.ref, c+`(?m:$)`), true",
		broken: "endsWith finds ends of lines",
	},
	{
		file: "schema/contain/internal/celrule/unique.go", old: `if p.Node.HasDefault || !sameInCEL(p.Name) ||`, new: `if !sameInCEL(p.Name) ||`,
		broken: "objects that differ before defaulting are taken to differ for ==",
	},
	{
		file: "schema/contain/internal/celrule/update.go", old: `return p.Node.Nullable || !sameInCEL(p.Name) })`, new: `return !sameInCEL(p.Name) })`,
		broken: "a null that equals what is missing is forgotten",
	},
	{
		file: "schema/contain/internal/celrule/update.go", old: `values[1] = someOf(values[1])`, new: `_ = someOf(values[1])`,
		broken: "the old value of an update is no optional one",
	},
	{
		file: "schema/contain/internal/celrule/update.go", old: `missing = append(missing, &expr{kind: call, name: operators.LogicalNot, args: []*expr{`, new: `_ = append(missing, &expr{kind: call, name: operators.LogicalNot, args: []*expr{`,
		broken: "a rule about updates is taken to be evaluated where a side has no value",
	},
	{
		file: "schema/contain/internal/celrule/update.go", old: `if s.neg || s.e.kind != call`, new: `if s.e.kind != call`,
		broken: "a rule that demands a change is taken to forbid it",
	},
	{
		file: "schema/contain/internal/celrule/unique.go", old: `if !items.IsRequired(name) {`, new: `if items.IsRequired(name) {`,
		broken: "that comparing items by a key that one lacks is an error, is forgotten",
	},
	{
		file: "schema/contain/internal/celrule/sum.go", old: `atLeast(len(fs)-int(hi), fs)`, new: `atLeast(len(fs)-int(hi)-1, fs)`,
		broken: "at most one of several may be two",
	},
	{
		file: "schema/contain/internal/celrule/canon.go", old: `p := &printer{dyn: usesDyn(e)}
	return p`, new: `p := &printer{dyn: false}
	return p`,
		broken: "rules with dyn() are put into a form that means something else",
	},
	{
		file: "schema/contain/internal/celrule/canon.go", old: `return p.less(e.args[1], e.args[0], !neg)`, new: `return p.less(e.args[1], e.args[0], neg)`,
		broken: "a <= b has the normal form of b < a",
	},
	{
		file: "schema/contain/internal/celrule/parts.go", old: `if o == ge || o == lt {`, new: `if o == gt || o == le {`,
		broken: "strings that equal the constant are on the wrong side of > and >=",
	},
	{
		file: "schema/contain/internal/celrule/opaque.go", old: `leaf(at, logic.And{logic.Opaque{ID: "F " + id}, logic.Opaque{ID: "T " + id, Neg: true}}),`,
		new:    `leaf(at, logic.Opaque{ID: "T " + id, Neg: true}),`,
		broken: "a part that is not understood is false where it is not true, though it may be an error",
	},
	{
		file: "schema/contain/internal/celrule/macro.go", old: `return and(b.atLeast(lo), not(b.atLeast(hi+1)))`, new: `return and(b.atLeast(lo), not(b.atLeast(hi+2)))`,
		broken: "the size of a filtered list may be one more than it may",
	},
	{
		file: "schema/contain/internal/celrule/equal.go", old: `beyond, rest = size.within(0, int64(i)), size.within(int64(i)+1, maxSize)`,
		new:    `beyond, rest = size.within(0, int64(i)-1), size.within(int64(i), maxSize)`,
		broken: "an index behind the last item is not outside of the list",
	},
	{
		file: "schema/contain/internal/celrule/needed.go", old: `!isInt || n < least ||`, new: `!isInt || n < least-1 ||`,
		broken: "a filter that may leave nothing is taken to leave something",
	},
}
