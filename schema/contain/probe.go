package contain

import (
	"maps"
	"slices"

	"sluice.dev/schema/contain/internal/logic"
)

// maxProbes bounds the special cases that are tried for a rule that could not be translated.
const maxProbes = 40

// fewFields is up to how many fields every one is tried, whether the rule mentions it or not.
const fewFields = 12

// probes are special cases of values at the place of a rule, for rules whose meaning the solver does not see: lists with
// several and with equal items, objects with and without the fields that the rule mentions, fields with the strings that
// the rule mentions.
func (s *search) probes(p *pending) []logic.Formula {
	parsed, err := s.opts.library().parse(p.rule)
	if err != nil || p.old.kind != declared {
		return nil
	}
	names := slices.Sorted(maps.Keys(parsed.Names()))
	if len(p.old.node.Properties) <= fewFields { // a rule may speak of the value as a whole
		for _, c := range p.old.node.Properties {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	out := about(p.old, names)
	item := p.old.item()
	if p.old.node.Type == "array" && item.kind == declared {
		two, three := logic.NumItems{Min: 2, Max: 2}, logic.NumItems{Min: 3, Max: 3}
		equal := logic.Unique{Neg: true}
		out = append(out, logic.And{two, equal}, two, logic.And{three, equal})
		for _, f := range about(item, names) {
			out = append(out, logic.And{two, equal, logic.Items{F: f}}, logic.And{two, logic.Items{F: f}},
				logic.And{two, logic.SomeItem{F: f}, logic.SomeItem{F: logic.Not(f)}})
		}
	}
	return out[:min(len(out), maxProbes)]
}

// about says something about each field of the place that is mentioned, one at a time and all together.
func about(p place, names []string) []logic.Formula {
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

// states are objects whose values at the path of a transition rule differ.
func (s *search) states(p *pending) []any {
	here := s.old.accepts(p.old)
	locals := s.solver.Solve(transitionModels, here).Models
	for _, f := range s.probes(p) {
		locals = append(locals, s.solver.Solve(2, here, f).Models...)
	}
	var out []any
	for _, v := range locals {
		if len(out) >= 3*transitionModels {
			break
		}
		only := logic.Enum{Values: []any{v}}
		if v == nil {
			continue
		}
		out = append(out, s.solver.Solve(1, s.formulas(p, only)...).Models...)
	}
	// The value may also be missing from one side of an update.
	return append(out, s.solver.Solve(1, s.old.accepts(s.oldRoot), s.envelope()).Models...)
}

// transitionModels is how many values are made to differ in; updates between all pairs are tried.
const transitionModels = 8
