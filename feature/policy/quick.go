package policy

// Does an object use a part whose gate may be closed? The match condition asks this before any variable is evaluated. For example, an
// object that only uses Fast passes at once if the ConfigMap has fast: "true". docs/adr/0009-speed-of-policies.md has its figures.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/feature"
)

const (
	// quickList is the longest list of gates that is checked without variables.
	quickList = 4096
	// quickMost is the largest number of gates for which such a list is checked; with more gates, the variables are used.
	quickMost = 40
	// quickText is how many bytes the condition may have (cel-go takes 100,000 code points).
	quickText = maxSize
	// quickRequired is how many bytes are about the requirements of one gate: cel-go takes parentheses within 250 others, and with these there are
	// fewer than 100.
	quickRequired = 10_000
	// quickCost is the cost limit of a check of the settings of one gate, quickKeyCost the limit without lists.
	quickCost, quickKeyCost = 4_000, 100
)

// quick reports whether the object uses a part whose gate may be closed. It reads the settings in a few plain spellings; everything
// else counts as closed, and the variables decide.
//
// So an object that uses only open parts never gets to the validation, with its variables, nor to the message, which the API server
// writes for every object, refused or not (k8s.io/apiserver/pkg/admission/plugin/policy/validating).
type quick struct {
	text string
	// parts has, for each gate, the test whether a part of it is used.
	parts []string
	// gateCost is the cost limit for the settings of all gates.
	gateCost int64
}

// quickTestOf is nil if there is no such test.
func quickTestOf(gs *gates, g *group) *quick {
	root, byGate := &tree{}, map[string]*tree{}
	var names []string
	for i := range g.units {
		u := &g.units[i]
		name := u.feature.Spec.Gate
		if byGate[name] == nil {
			byGate[name] = &tree{}
			names = append(names, name)
		}
		byGate[name].addUnit(u, 0)
		root.addUnit(u, 0)
	}
	q := &quick{gateCost: quickCost * int64(len(names))}
	lists := len(names) <= quickMost
	if !lists {
		q.gateCost = quickKeyCost * int64(len(names))
	}
	closed := map[string]string{}
	for _, name := range names {
		q.parts = append(q.parts, byGate[name].usedTest(gs.emitter, "object", "", 0))
		if on := gs.surelyOpen(name, lists); on != "" {
			closed[name] = "!" + on
		}
	}
	q.text = root.closedUse(gs.emitter, place{at: "object", old: "oldObject"}, 0, closed)
	if !lists {
		list := celString(gs.model.Spec().GatesKey)
		q.text = "(has(params.data) && " + list + " in params.data ? " + root.usedTest(gs.emitter, "object", "", 0) + " : " + q.text + ")"
	}
	if len(closed) == 0 || len(q.text) > quickText {
		return nil
	}
	return q
}

// place is a value at the end of a path of fields, and the stored one there, with the conditions under which they exist.
type place struct {
	at, old string
	stored  []string
}

func (p place) fieldPlace(name string) place {
	return place{memberOf(p.at, name), memberOf(p.old, name), append(slices.Clip(p.stored), isMap(p.old), hasField(p.old, name))}
}

// closedUse is like used, for parts that are not stored already and whose gates may be closed. Gates are tested outside of loops: in a
// list or map, it tests first whether anything is used there, and then each gate that may be closed. An unchanged list or map has no
// new use.
func (n *tree) closedUse(e *emitter, p place, depth int, closed map[string]string) string {
	var ways []string
	v, fields := p.at, &fieldWays{}
	for _, u := range n.here {
		way := isUseOf(u.target, v)
		if !u.shape.apart {
			w := &walker{shape: u.shape, emitter: e}
			way = joinAnd(way, w.isNewUse(v, p.old, p.stored, nil))
		}
		way = joinAnd(way, closed[u.feature.Spec.Gate])
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	for _, b := range n.children {
		if b.step.Kind == feature.Field {
			fields.addField(b, func(name string) string {
				return joinAnd(hasField(v, name), b.to.closedUse(e, p.fieldPlace(name), depth+1, closed))
			})
			continue
		}
		var names, each []string
		b.to.addGates(&names)
		shared := &sharedWays{}
		for _, name := range names {
			one := &tree{children: []*branch{{step: b.step, to: *b.to.onlyGate(name)}}}
			if u, _ := one.singleUnit(); u != nil && u.target.Path[len(u.target.Path)-1].Kind == feature.Field {
				shared.addWay(u, u.target.Path[len(u.target.Path)-1].Name, func(field string) string {
					one := &tree{}
					one.addUnit(u.withField(len(u.target.Path)-1, field), depth)
					return joinAnd(closed[name], one.usedTest(e, v, "", depth))
				})
				continue
			}
			each = append(each, joinAnd(closed[name], one.usedTest(e, v, "", depth)))
		}
		for _, kind := range shared.kinds {
			each = append(each, kind.anyOf("r"))
		}
		all := &tree{children: []*branch{b}}
		way := each[0]
		if len(names) > 1 {
			way = joinAnd(all.usedTest(e, v, "", depth), joinOr(each...))
		}
		ways = append(ways, joinAnd(way, "!("+joinAnd(append(slices.Clip(p.stored), p.old+" == "+v)...)+")"))
	}
	return joinOr(append(ways, fields.fieldTests(v, depth)...)...)
}

// addGates adds those of the parts to a list, each once.
func (n *tree) addGates(list *[]string) {
	for _, u := range n.here {
		if !slices.Contains(*list, u.feature.Spec.Gate) {
			*list = append(*list, u.feature.Spec.Gate)
		}
	}
	for _, b := range n.children {
		b.to.addGates(list)
	}
}

// onlyGate is the tree of the parts of one gate.
func (n *tree) onlyGate(gate string) *tree {
	out := &tree{}
	for _, u := range n.here {
		if u.feature.Spec.Gate == gate {
			out.here = append(out.here, u)
		}
	}
	for _, b := range n.children {
		if to := b.to.onlyGate(gate); len(to.here) > 0 || len(to.children) > 0 {
			out.children = append(out.children, &branch{step: b.step, to: *to})
		}
	}
	return out
}

// surelyOpen is an expression, in parentheses, that is true only if the gate is open for all users; "" if there is none. Without lists
// it holds for settings that have no list of gates.
func (g *gates) surelyOpen(gate string, lists bool) string {
	f := g.model.Feature(gate)
	s, ok := g.states.State(gate)
	if !ok || !g.live || !f.Free() || !s.Reported() {
		return ""
	}
	ways := []string{g.saysOpen(f, lists)}
	for _, other := range f.Spec.ImpliedBy {
		// Indirect implications are left to the variables, because they would be written out at each use.
		if o := g.model.Feature(other); o != nil && len(o.Spec.ImpliedBy) == 0 {
			if on := g.surelyOpen(other, lists); on != "" {
				ways = append(ways, on)
			}
		}
	}
	all := []string{joinOr(ways...)}
	size := len(all[0])
	for _, other := range f.Spec.Requires {
		switch g.isOpen(other, false) {
		case "true":
			continue
		case "false":
			return ""
		}
		on := g.surelyOpen(other, lists)
		if size += len(on); on == "" || size > quickRequired {
			return "" // each is written out wherever it is required
		}
		all = append(all, on)
	}
	return "(" + joinAnd(all...) + ")"
}

// saysOpen reports whether the settings open a gate, if they say so in so many words; as [gates.isOpenAlone] without the spellings
// that take work.
func (g *gates) saysOpen(f *feature.Feature, lists bool) string {
	const data = "params.data"
	spec := g.model.Spec()
	list, key, level := celString(spec.GatesKey), celString(f.Spec.Key), celString(spec.LevelKey)
	gate := celString(f.Spec.Gate)
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
	ways := []string{joinAnd(key+" in "+data, data+"["+key+"] == "+value, silent(gate))}
	if lists {
		// The name occurs only once, so that nothing else in the list is about this gate.
		ways = append(ways, noKey+" && "+list+" in "+data+" && "+short+" && "+data+"["+list+"].indexOf("+gate+") == "+data+"["+list+
			"].lastIndexOf("+gate+") && "+celString(f.Spec.Gate+"=true")+" in "+data+"["+list+"].split(',')")
	}
	if f.FollowsLevel || f.Spec.ImpliedByLevel {
		rank := slices.Index(levels, f.Level)
		byLevel := ""
		switch words := celStrings(levels[rank:]); {
		case rank == 0 || rank == 1 && f.IsLifted():
		case slices.Index(levels, spec.DefaultLevel) >= rank:
			byLevel = "(!(" + level + " in " + data + ") || " + data + "[" + level + "] in " + words + ")"
		default:
			byLevel = level + " in " + data + " && " + data + "[" + level + "] in " + words
		}
		if f.Spec.ImpliedByLevel {
			ways = append(ways, cmp.Or(byLevel, "true"))
		} else {
			ways = append(ways, joinAnd(byLevel, noKey, silent(gate)))
		}
	}
	if !f.FollowsLevel && f.Default {
		about := []string{gate}
		if all := f.GateOfStage(); all != "" {
			about = append(about, celString(all))
		}
		ways = append(ways, joinAnd(noKey, silent(about...)))
	}
	return fmt.Sprintf("(has(%s) ? %s : %t)", data, joinOr(ways...), g.isOpenUnset(f))
}
