package contain

// Where does the walk through both schemas stand, and what has it found? For example, at .spec.a it knows the places around, the defaults that
// differ there, and the suspects so far: the demands of the new schema that the place alone does not prove.

import (
	"slices"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
)

// suspect is a place and a keyword for which the local proof failed: a goal for the search.
type suspect struct {
	gap   Gap
	where string // see piece.where
	path  []walkStep
	local logic.Formula // true of values at the path that the new schema harms
	old   place         // the old schema at the path
	new   place         // the new one
	rule  string        // of a validation rule, its text
	says  string        // of a validation rule, the text of its refusals
	// missing has the lengths of the paths to values, at the place or above it, for which the two schemas fill in different defaults.
	missing []int
	// loses, if not nil, is true of values that also lose fields; a witness with such a value is preferred.
	loses logic.Formula
	// whole, if not nil, covers all that the walk skipped. It is searched if local is proven impossible.
	whole logic.Formula
}

// walker compares two places and everything below them, and collects suspects.
type walker struct {
	opts     *Options
	old, new *translator
	solver   logic.Solver
	local    logic.Solver // with a smaller budget: questions that it gives up are asked again with the whole schema
	suspects []suspect
	path     []walkStep
	above    [][2]place // the old and the new place around each step of path
	memory   *logic.Memory
	// moved counts the places above whose lists or maps are merged differently, so that an update compares other values.
	moved int
	// fillings are the different defaults of the two schemas, for this value and the values above, that change the value here, outermost
	// first.
	fillings    []filling
	transitions map[*schema.Node]bool         // the results of hasTransitions
	said        map[pieceKey]map[pieceID]bool // the pieces of old places
	within      map[*schema.Node]*schema.Node // the nodes of Options.Within by those of the old schema, nil for more than one
	cut         string                        // why the comparison was cut short
}

type walkStep struct {
	Step
	except []string
}

// filling has the defaults that both schemas fill in at a place if the value, or one around it, is missing.
type filling struct {
	from     int // the length of the path to the value that is left out
	new, old any
	had      bool // old is filled in
	below    bool // the place is in a list or map that is filled in
}

// pieceID identifies a piece by its content.
type pieceID struct {
	keyword string
	id      logic.ID
}

// newWalker returns a walker that has compared nothing yet.
func (o *Options) newWalker() *walker {
	t := o.sharedTranslator()
	w := &walker{opts: o, old: t, new: t, memory: o.formulaMemory()}
	w.solver = logic.Solver{Strings: o.solverStrings(), Budget: max(1, orDefault(o.Budget, DefaultBudget)/wholeShare), Total: o.Work, Memory: w.memory}
	w.local = w.solver
	w.local.Budget /= localShare
	return w
}

// wholeShare is the part of the budget for one search in the whole schema, localShare the part for one search in a part of it.
const (
	wholeShare = 8
	localShare = 2
)

// atPath is true of objects with a value at the path for which goal is true.
func atPath(path []walkStep, goal logic.Formula) logic.Formula {
	for _, s := range slices.Backward(path) {
		switch s.Kind {
		case Field:
			goal = logic.And{logic.Kinds(logic.Object), logic.Has{Name: s.Name}, logic.Prop{Name: s.Name, F: goal}}
		case AnyKey:
			goal = logic.And{logic.Kinds(logic.Object), logic.SomeRest{Except: s.except, F: goal}}
		case AnyItem:
			goal = logic.And{logic.Kinds(logic.Array), logic.SomeItem{F: goal}}
		}
	}
	return goal
}

// publicPath returns a copy of the walk's path in the form of gaps, without the names that a step leaves out.
func (w *walker) publicPath() Path {
	p := make(Path, len(w.path))
	for i, s := range w.path {
		p[i] = s.Step
	}
	return p
}

// withStep calls f one step further down; o and n are the places that the step leaves. The path is as before when it
// returns.
func (w *walker) withStep(o, n place, s walkStep, f func()) {
	w.path, w.above = append(w.path, s), append(w.above, [2]place{o, n})
	f()
	w.path, w.above = w.path[:len(w.path)-1], w.above[:len(w.above)-1]
}

// provedLocally reports whether no value that the old schema accepts here makes goal true.
func (w *walker) provedLocally(o place, goal logic.Formula) bool {
	return w.local.Solve(1, w.old.acceptedAt(o), goal).None
}

// unitsToSuspect is the work for a suspect, which stays in memory, and for each step of its path.
const (
	unitsToSuspect     = 50
	unitsToSuspectStep = 10
)

// recordSuspect records a question that is not proven. If the budget is spent, cut stands for all remaining questions.
func (w *walker) recordSuspect(o, n place, g Gap, goal logic.Formula) {
	if !w.opts.Work.Charge(unitsToSuspect + int64(len(w.path))*unitsToSuspectStep) {
		return
	}
	g.Path = w.publicPath()
	if g.Keyword != keywordRules {
		g.Rule = -1
	}
	x := suspect{gap: g, where: g.Detail, path: slices.Clone(w.path), local: goal, old: o, new: n}
	if g.Rule >= 0 {
		x.rule = n.node.Rules[g.Rule].Rule
		x.says = refusalTextOf(&n.node.Rules[g.Rule])
	}
	for _, f := range w.fillings {
		x.missing = append(x.missing, f.from)
	}
	w.suspects = append(w.suspects, x)
	if w.opts.Trace != nil {
		w.opts.traceStep(&x.gap, nil, "not proven at this place alone. Asked: is there an object that the old schema accepts with a value here that %s", logic.Text(goal))
	}
}

// traceProven reports a demand at the walk's place that is proven.
func (w *walker) traceProven(keyword, detail string, why argument) {
	if w.opts.Trace != nil {
		w.opts.traceProven(w.publicPath(), keyword, detail, why)
	}
}

// declaredNames are the properties that one of the places declares, sorted.
func declaredNames(o, n place) []string {
	var names []string
	for _, p := range []place{o, n} {
		if p.kind == declared {
			for _, c := range p.node.Properties {
				names = append(names, c.Name)
			}
		}
		if p.hasMeta() {
			names = append(names, metaFields...)
		}
	}
	return logic.NamesExcept(names...)
}

// sameFormula reports whether both formulas are identical.
func (w *walker) sameFormula(f, g logic.Formula) bool {
	return w.memory.Table.ID(f, w.opts.Work) == w.memory.Table.ID(g, w.opts.Work)
}

// typeName is the type of a place as gaps give it: nil for one without a type, or that no schema declares.
func typeName(p place) any {
	if p.kind != declared {
		return nil
	}
	switch {
	case p.node.IntOrString:
		return "int-or-string"
	case p.node.Type == "":
		return nil
	}
	return p.node.Type
}

// formatOf is the format of a place as gaps give it; nil if there is none.
func formatOf(p place) any {
	if p.kind != declared || p.node.Format == "" {
		return nil
	}
	return p.node.Format
}
