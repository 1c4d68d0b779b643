package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

const (
	// quickList is how long a list of gates may be that is looked at without variables; longer ones are left to them.
	quickList = 4096
	// quickMost is for how many gates at most such a list is looked at; if there are more, any is left to the variables.
	quickMost = 40
	// quickText is how many bytes the condition may have (cel-go takes 100,000 code points).
	quickText = 60_000
	// quickCost is what a look at the settings of one gate may cost, and quickKeyCost if lists are not looked at.
	quickCost, quickKeyCost = 4_000, 100
)

// quick tells whether a part is used whose gate may be closed: the settings are asked in a few plain spellings, and whatever
// else stands there counts as closed, for the variables to find out.
//
// An object that only uses what is open thus never gets to the validation, with its variables, nor to the message, which the
// API server writes for every object, be it refused or not (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
type quick struct {
	text string
	// parts tell of each gate whether a part of it is used.
	parts []string
	// gateCost is what the settings of all gates may cost.
	gateCost int64
}

// quickly is nil where nothing can be told so.
func quickly(gs *gates, g *group) *quick {
	root, byGate := &tree{}, map[string]*tree{}
	var names []string
	for i := range g.units {
		u := &g.units[i]
		name := u.feature.Spec.Gate
		if byGate[name] == nil {
			byGate[name] = &tree{}
			names = append(names, name)
		}
		byGate[name].add(u, 0)
		root.add(u, 0)
	}
	q := &quick{gateCost: quickCost * int64(len(names))}
	lists := len(names) <= quickMost
	if !lists {
		q.gateCost = quickKeyCost * int64(len(names))
	}
	closed := map[string]string{}
	for _, name := range names {
		q.parts = append(q.parts, byGate[name].used(gs.emitter, "object", "", 0))
		if on := gs.surelyOpen(name, lists); on != "" {
			closed[name] = "!" + on
		}
	}
	q.text = root.closed(gs.emitter, "object", 0, closed)
	if !lists {
		list := quote(gs.model.Spec().GatesKey)
		q.text = "(has(params.data) && " + list + " in params.data ? " + root.used(gs.emitter, "object", "", 0) + " : " + q.text + ")"
	}
	if len(closed) == 0 || len(q.text) > quickText {
		return nil
	}
	return q
}

// closed is as used, of parts whose gates may be closed. Gates are asked outside of loops: within a list or map first whether
// anything is used there, and then for each gate that may be closed whether it is that.
func (n *tree) closed(e *emitter, v string, depth int, closed map[string]string) string {
	var ways []string
	fields := &fieldWays{}
	for _, u := range n.here {
		if way := and(uses(u.target, v), closed[u.feature.Spec.Gate]); !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	for _, b := range n.children {
		if b.step.Kind == feature.Field {
			fields.add(b, and(has(v, b.step.Name), b.to.closed(e, member(v, b.step.Name), depth+1, closed)))
			continue
		}
		var names, each []string
		b.to.gates(&names)
		for _, name := range names {
			one := &tree{children: []*branch{{step: b.step, to: *b.to.only(name)}}}
			each = append(each, and(closed[name], one.used(e, v, "", depth)))
		}
		if len(names) == 1 {
			ways = append(ways, each[0])
			continue
		}
		all := &tree{children: []*branch{b}}
		ways = append(ways, and(all.used(e, v, "", depth), or(each...)))
	}
	return or(append(ways, fields.ways(v, depth)...)...)
}

// gates adds those of the parts to a list, each once.
func (n *tree) gates(list *[]string) {
	for _, u := range n.here {
		if !slices.Contains(*list, u.feature.Spec.Gate) {
			*list = append(*list, u.feature.Spec.Gate)
		}
	}
	for _, b := range n.children {
		b.to.gates(list)
	}
}

// only is the tree of the parts of one gate.
func (n *tree) only(gate string) *tree {
	out := &tree{}
	for _, u := range n.here {
		if u.feature.Spec.Gate == gate {
			out.here = append(out.here, u)
		}
	}
	for _, b := range n.children {
		if to := b.to.only(gate); len(to.here) > 0 || len(to.children) > 0 {
			out.children = append(out.children, &branch{step: b.step, to: *to})
		}
	}
	return out
}

// surelyOpen is an expression, in parentheses, that is true only if the gate is open for everybody; "" if there is none.
// Without lists it holds for settings that have no list of gates.
func (g *gates) surelyOpen(gate string, lists bool) string {
	f := g.model.Feature(gate)
	s, ok := g.states.State(gate)
	if !ok || !g.live || !f.Free() || !s.Reported() {
		return ""
	}
	all := []string{g.saysOpen(f, lists)}
	size := len(all[0])
	for _, other := range f.Spec.Requires {
		switch g.isOpen(other, false) {
		case "true":
			continue
		case "false":
			return ""
		}
		on := g.surelyOpen(other, lists)
		if size += len(on); on == "" || size > quickText {
			return "" // each is written out wherever it is required
		}
		all = append(all, on)
	}
	return "(" + and(all...) + ")"
}

// saysOpen tells whether the settings open a gate, if they say so in so many words; as [gates.alone] without the spellings
// that take work.
func (g *gates) saysOpen(f *feature.Feature, lists bool) string {
	const data = "params.data"
	spec := g.model.Spec()
	list, key, level := quote(spec.GatesKey), quote(f.Spec.Key), quote(spec.LevelKey)
	gate := quote(f.Spec.Gate)
	value := "'true'"
	if f.Spec.Inverted {
		value = "'false'"
	}
	short := fmt.Sprintf("%s[%s].size() <= %d", data, list, quickList)
	silent := func(names ...string) string {
		if !lists {
			return "true"
		}
		no := make([]string, len(names))
		for i, n := range names {
			no[i] = "!" + data + "[" + list + "].contains(" + n + ")"
		}
		return "(!(" + list + " in " + data + ") || " + short + " && " + strings.Join(no, " && ") + ")"
	}
	noKey := "!(" + key + " in " + data + ")"
	ways := []string{and(key+" in "+data, data+"["+key+"] == "+value, silent(gate))}
	if lists {
		// The name stands there but once, so that nothing else in the list is about this gate.
		ways = append(ways, noKey+" && "+list+" in "+data+" && "+short+" && "+data+"["+list+"].indexOf("+gate+") == "+data+"["+list+
			"].lastIndexOf("+gate+") && "+quote(f.Spec.Gate+"=true")+" in "+data+"["+list+"].split(',')")
	}
	byDefault := f.Default
	if f.FollowsLevel || f.Spec.ImpliedByLevel {
		rank := slices.Index(levels, f.Level)
		opens := slices.Index(levels, spec.DefaultLevel) >= rank
		byLevel := ""
		switch words := quotes(names(levels[rank:])); {
		case rank == 0 || rank == 1 && g.lifted:
			opens = true
		case opens:
			byLevel = "(!(" + level + " in " + data + ") || " + data + "[" + level + "] in " + words + ")"
		default:
			byLevel = level + " in " + data + " && " + data + "[" + level + "] in " + words
		}
		if f.Spec.ImpliedByLevel {
			ways = append(ways, cmp.Or(byLevel, "true"))
		} else {
			ways = append(ways, and(byLevel, noKey, silent(gate)))
		}
		byDefault = opens || !f.FollowsLevel && f.Default
	}
	if !f.FollowsLevel && f.Default {
		about := []string{gate}
		if f.Stage == v1alpha1.Alpha {
			about = append(about, quote(allAlpha))
		}
		if f.Stage == v1alpha1.Beta {
			about = append(about, quote(allBeta))
		}
		ways = append(ways, and(noKey, silent(about...)))
	}
	return fmt.Sprintf("(has(%s) ? %s : %t)", data, or(ways...), byDefault)
}

func names(list []v1alpha1.Level) []string {
	out := make([]string, len(list))
	for i, l := range list {
		out[i] = string(l)
	}
	return out
}
