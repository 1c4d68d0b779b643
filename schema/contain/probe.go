package contain

// Which special values may break a rule that is not understood? For example, a list with two equal items, or an object without the fields
// that the rule mentions.
//
// These cases are tried after the solver's own models, which know nothing of a rule that only has a name. Each is a
// statement that the old schema may or may not allow; the solver finds an object for it, and the API server's code
// judges the object.

import (
	"maps"
	"math"
	"reflect"
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
	"sluice.dev/schema/contain/internal/logic"
)

// maxProbes bounds the special cases that are tried for a rule that could not be translated.
const maxProbes = 40

// fewFields is the number of fields up to which every field is tried, even if the rule does not mention it.
const fewFields = 12

// probesFor are special cases of values at the place of a rule, for rules that the solver does not understand: lists with several and with
// equal items, objects with and without the fields that the rule mentions, fields with the strings that the rule mentions.
func (s *search) probesFor(p *pending) []logic.Formula {
	parsed, err := s.opts.sharedLibrary().parseRule(p.rule)
	if err != nil || p.old.kind != declared {
		return nil
	}
	names := slices.Sorted(maps.Keys(parsed.Names()))
	if len(p.old.node.Properties) <= fewFields { // a rule may use the value as a whole
		for _, c := range p.old.node.Properties {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	out := statementsAbout(p.old, names)
	if f := fullestLists(p.old, maxFull, 0); f != nil {
		out = append(out, f)
	}
	out = append(extremePairs(p.old, names), out...)
	item := p.old.itemPlace()
	if p.old.node.Type == "array" && item.kind == declared {
		out = append(out, s.nearlyEqual(item, names)...)
		two, three := logic.NumItems{Min: 2, Max: 2}, logic.NumItems{Min: 3, Max: 3}
		equal := logic.Unique{Neg: true}
		out = append(out, logic.And{two, equal}, two, logic.And{three, equal})
		switch item.node.Type { // out of order
		case "integer", "number":
			out = append(out, logic.Enum{Values: []any{[]any{int64(2), int64(1)}}})
		case "string":
			out = append(out, logic.Enum{Values: []any{[]any{"b", "a"}}})
		}
		for _, f := range statementsAbout(item, names) {
			out = append(out, logic.And{two, equal, logic.Items{F: f}}, logic.And{two, logic.Items{F: f}},
				logic.And{two, logic.SomeItem{F: f}, logic.SomeItem{F: logic.Not(f)}})
		}
	}
	return out[:min(len(out), maxProbes)]
}

// farFromZero is how large a number is tried where there is no bound.
const farFromZero = 1_000_000

// maxExtremes bounds the fields whose extremes are tried, two at a time.
const maxExtremes = 4

// extremePairs has, for each two fields with numbers that a rule mentions, their least and largest values in all combinations, for rules such as
// self.max - self.min <= 10.
func extremePairs(p place, names []string) []logic.Formula {
	var ends [][]logic.Formula // of each field, the least and the largest value
	for _, name := range names {
		c := p.node.Property(name)
		if c == nil || c.Type != "integer" && c.Type != "number" || len(c.Enum) > 0 || len(ends) == maxExtremes {
			continue
		}
		lo, hi := int64(-farFromZero), int64(farFromZero)
		if c.Minimum != nil && math.Abs(*c.Minimum) <= math.MaxInt32 {
			lo = int64(math.Ceil(*c.Minimum))
			if c.ExclusiveMinimum {
				lo = int64(math.Floor(*c.Minimum)) + 1
			}
			hi = max(hi, lo+farFromZero)
		}
		if c.Maximum != nil && math.Abs(*c.Maximum) <= math.MaxInt32 {
			hi = int64(math.Floor(*c.Maximum))
			if c.ExclusiveMaximum {
				hi = int64(math.Ceil(*c.Maximum)) - 1
			}
		}
		var of []logic.Formula
		for _, v := range []int64{lo, hi} {
			of = append(of, logic.And{logic.Has{Name: name}, logic.Prop{Name: name, F: logic.Enum{Values: []any{v}}}})
		}
		ends = append(ends, of)
	}
	var out []logic.Formula
	for i, a := range ends {
		for _, b := range ends[:i] {
			for _, x := range a {
				for _, y := range b {
					out = append(out, logic.And{x, y})
				}
			}
		}
	}
	return out
}

// maxFull bounds how many items there are in the fullest value.
const maxFull = 1000

// fullestLists is true of values in which every list has as many items as possible, up to most in all, and the objects around the lists
// exist; nil if there is no such list.
func fullestLists(p place, most int64, depth int) logic.Formula {
	if p.kind != declared || most < 1 || depth > schema.MaxDepth {
		return nil
	}
	if n := p.node.MaxItems; p.mayBeType("array") && n != nil && *n <= most && *n > 0 {
		out := logic.And{logic.Kinds(logic.Array), logic.NumItems{Min: *n, Max: *n}}
		if f := fullestLists(p.itemPlace(), most / *n, depth+1); f != nil {
			out = append(out, logic.Items{F: f})
		}
		return out
	}
	var out logic.And
	for _, c := range p.node.Properties {
		if p.hasMeta() && isMeta(c.Name) {
			continue
		}
		if f := fullestLists(p.childPlace(c.Name), most, depth+1); f != nil {
			out = append(out, logic.Has{Name: c.Name}, logic.Prop{Name: c.Name, F: f})
		}
	}
	if out == nil {
		return nil
	}
	return append(out, logic.Kinds(logic.Object))
}

// maxPairs bounds the lists of two that nearlyEqual makes.
const maxPairs = 24

// nearlyEqual are lists of two items that differ in few of the fields that a rule mentions: one has a field that the other lacks, or
// each has one that the other lacks.
func (s *search) nearlyEqual(item place, names []string) []logic.Formula {
	has := logic.And{}
	for _, name := range names {
		if item.node.Property(name) != nil {
			has = append(has, logic.Has{Name: name})
		}
	}
	models := s.solveBriefly(1, s.old.acceptedAt(item), s.old.writtenAt(item), logic.Kinds(logic.Object), has)
	if len(models) == 0 {
		return nil
	}
	full, _ := models[0].(map[string]any)
	least, free := maps.Clone(full), []string(nil)
	for _, name := range slices.Sorted(maps.Keys(full)) {
		if !slices.Contains(item.node.Required, name) {
			delete(least, name)
			free = append(free, name)
		}
	}
	with := func(name string) map[string]any {
		v := maps.Clone(least)
		v[name] = full[name]
		return v
	}
	var out []logic.Formula
	list := func(a, b any) { out = append(out, logic.Enum{Values: []any{[]any{a, b}}}) }
	for i, a := range free {
		list(with(a), least)
		for _, b := range free[:i] {
			list(with(a), with(b))
		}
	}
	return out[:min(len(out), maxPairs)]
}

// maxHinted bounds the special cases that a rule's constants suggest.
const maxHinted = 80

// maxOldHints bounds the old rules whose constants are tried.
const maxOldHints = 4

// hintsFor are the hints of the rule of p, then those of the old rules at its place, which the objects have to satisfy.
func (s *search) hintsFor(p *pending) (hints []celrule.Hint) {
	texts := []string{p.rule}
	for i := range p.old.node.Rules[:min(len(p.old.node.Rules), maxOldHints)] {
		texts = append(texts, p.old.node.Rules[i].Rule)
	}
	for i, text := range texts {
		if parsed, err := s.opts.sharedLibrary().parseRule(text); err == nil && !slices.Contains(texts[:i], text) {
			hints = append(hints, celrule.Hints(parsed, s.opts.scopeOf(p.old, false))...)
		}
	}
	return hints
}

// hintedCases are special cases that the constants of a rule suggest: a place in the rule has one of the constants, or a neighbour of it, or
// as many items. The cases of different places alternate. After them, all places have a constant at the same time.
func (s *search) hintedCases(p *pending) []logic.Formula {
	if p.rule == "" || p.old.kind != declared {
		return nil
	}
	hints := s.hintsFor(p)
	var cases [][]logic.Formula // of each place
	most := 0
	for _, h := range hints {
		var fs []logic.Formula
		for _, n := range h.Sizes {
			fs = append(fs, insidePath(h.Path, logic.And{logic.NumItems{Min: n, Max: n}, logic.NumProps{Min: n, Max: n}}))
		}
		for _, v := range h.Values {
			fs = append(fs, insidePath(h.Path, logic.Enum{Values: []any{v}}))
		}
		cases = append(cases, fs)
		most = max(most, len(fs))
	}
	var out []logic.Formula
	for i := range most {
		var all logic.And
		for _, fs := range cases {
			if i < len(fs) {
				out = append(out, fs[i])
			}
			if len(fs) > 0 {
				all = append(all, fs[i%len(fs)])
			}
		}
		if len(all) > 1 {
			out = append(out, all)
		}
	}
	return out[:min(len(out), maxHinted)]
}

// insidePath is true of values whose part at the path of a hint satisfies f.
func insidePath(path []string, f logic.Formula) logic.Formula {
	for _, name := range slices.Backward(path) {
		switch name {
		case celrule.Items:
			f = logic.And{logic.Kinds(logic.Array), logic.NumItems{Min: 1, Max: logic.Unbounded}, logic.Items{F: f}}
		case celrule.Values:
			f = logic.And{logic.Kinds(logic.Object), logic.SomeRest{F: f}}
		case celrule.Keys:
			f = logic.And{logic.Kinds(logic.Object), logic.SomeKey{F: f}}
		default:
			f = logic.And{logic.Kinds(logic.Object), logic.Has{Name: name}, logic.Prop{Name: name, F: f}}
		}
	}
	return f
}

// statementsAbout has statements about the mentioned fields of the place, one at a time and all together.
func statementsAbout(p place, names []string) []logic.Formula {
	var out []logic.Formula
	var all logic.And
	for _, name := range names {
		c := p.node.Property(name)
		if c == nil {
			continue
		}
		has := logic.Has{Name: name}
		all = append(all, has)
		out = append(out, has, logic.Lacks{Name: name})
		if c.Type == "string" && len(c.Enum) == 0 {
			for _, word := range names {
				if p.node.Property(word) == nil {
					out = append(out, logic.And{has, logic.Prop{Name: name, F: logic.Enum{Values: []any{word}}}})
				}
			}
		}
	}
	if len(all) > 1 {
		out = append([]logic.Formula{all}, out...)
	}
	return out
}

// transitionStates are objects whose values at the path of a transition rule differ.
func (s *search) transitionStates(p *pending) []any {
	here := logic.And{s.old.acceptedAt(p.old), s.old.writtenAt(p.old)}
	if len(p.path) == 0 {
		here = append(here, s.simpleEnvelope())
	}
	locals := append(s.refusedStates(p, here), s.solver.Solve(transitionModels, here).Models...)
	var out []any
	if _, ok := s.refusesUnchanged(p); ok {
		out = s.storedCandidates(p)
	}
	for _, f := range slices.Concat(s.probesFor(p), s.varietyOf(p.old, 2), s.hintedCases(p)) {
		locals = append(locals, s.solveBriefly(2, here, f)...)
	}
	for i, v := range locals {
		if len(out) >= 3*transitionModels {
			break
		}
		if v == nil || slices.ContainsFunc(locals[:i], func(o any) bool { return reflect.DeepEqual(o, v) }) {
			continue
		}
		out = append(out, s.passingObjects(p, logic.Enum{Values: []any{v}})...)
	}
	// The value, or a value around it that is filled in, may also be missing on one side of an update.
	for _, from := range p.missing {
		lacks := logic.And{logic.Kinds(logic.Object), logic.Lacks{Name: p.path[from-1].Name}}
		out = append(out, s.solveBriefly(2, s.old.acceptedAt(s.oldRoot), s.simpleEnvelope(), s.old.writtenAt(s.oldRoot), atPath(p.path[:from-1], lacks))...)
	}
	return append(out, s.solver.Solve(1, s.old.acceptedAt(s.oldRoot), s.simpleEnvelope(), s.old.writtenAt(s.oldRoot)).Models...)
}

// refusedStates are both states of updates that the rule refuses by its formula. They satisfy here.
func (s *search) refusedStates(p *pending, here logic.Formula) (out []any) {
	if p.gap.Rule < 0 || p.old.kind != declared || p.new.kind != declared {
		return nil
	}
	r := &p.new.node.Rules[p.gap.Rule]
	parsed, err := s.opts.sharedLibrary().parseRule(r.Rule)
	if err != nil {
		return nil
	}
	fs, ok := s.refusedUpdates(stateful{p.old, p.old}, stateful{p.new, p.new}, true, nil, r, parsed)
	if !ok {
		return nil
	}
	for _, m := range s.solveBriefly(refusedUpdatesTried, fs, logic.Prop{Name: celrule.After, F: here}, logic.Prop{Name: celrule.Before, F: here}) {
		if pair, ok := m.(map[string]any); ok {
			out = append(out, pair[celrule.Before], pair[celrule.After])
		}
	}
	return out
}

// refusedUpdatesTried bounds the updates that are taken from a formula.
const refusedUpdatesTried = 3

// passingObjects returns an object with such a value. If possible, the new schema accepts it as well: a refusal by another change shows
// nothing about updates.
func (s *search) passingObjects(p *pending, f logic.Formula) []any {
	fs := s.formulasFor(p, f)
	if both := s.solveBriefly(1, append(fs, s.new.acceptedAt(s.sides[1].rootPlace()))...); len(both) > 0 {
		return both
	}
	return s.solveBriefly(1, fs...)
}

// varietyOf has statements that make values of the place differ: the number of items or entries, and their values, down to the given
// depth.
func (s *search) varietyOf(p place, depth int) []logic.Formula {
	if depth == 0 || p.kind != declared {
		return nil
	}
	var out []logic.Formula
	switch {
	case p.mayBeType("array"):
		for n := range int64(3) {
			out = append(out, logic.And{logic.Kinds(logic.Array), logic.NumItems{Min: n, Max: n}})
		}
		for _, v := range s.valueCases(p.itemPlace(), depth) {
			out = append(out, logic.And{logic.Kinds(logic.Array), logic.NumItems{Min: 1, Max: logic.Unbounded}, logic.Items{F: v}})
		}
	case len(p.node.Properties) == 0 && p.mayBeType("object"):
		for n := range int64(3) {
			out = append(out, logic.And{logic.Kinds(logic.Object), logic.NumProps{Min: n, Max: n}})
		}
		for _, v := range s.valueCases(p.restPlace(), depth) {
			out = append(out, logic.And{logic.Kinds(logic.Object), logic.NumProps{Min: 1, Max: logic.Unbounded}, logic.Rest{F: v}})
		}
	case len(p.node.Properties) <= fewFields:
		for _, c := range p.node.Properties {
			for _, v := range s.valueCases(p.childPlace(c.Name), depth) {
				out = append(out, logic.And{logic.Kinds(logic.Object), logic.Has{Name: c.Name}, logic.Prop{Name: c.Name, F: v}})
			}
		}
	}
	return out
}

// valueCases has statements for two values of the place, and those of variety.
func (s *search) valueCases(p place, depth int) []logic.Formula {
	var out []logic.Formula
	for _, v := range s.solveBriefly(4, s.old.acceptedAt(p), s.old.writtenAt(p)) {
		out = append(out, logic.Enum{Values: []any{v}})
	}
	return append(out[:min(len(out), 2)], s.varietyOf(p, depth-1)...)
}

// transitionModels bounds the values that differ; updates between all pairs are tried.
const transitionModels = 8
