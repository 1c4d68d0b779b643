package policy

// Which gates are open for the user who writes? In live mode the variables here read the ConfigMap of the component, with the precedence of
// the evaluator: key, list, level, stage. For example, feature-gates: "AllAlpha=true,Fast=false" opens all alpha features but Fast.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

var levels = []v1alpha1.Level{v1alpha1.LevelStable, v1alpha1.LevelBeta, v1alpha1.LevelAlpha}

// boolWords are the words for on or for off.
func (g *gates) boolWords(on bool) string { return celStrings(g.model.SettingWords(on)) }

// allowedWords are the values for a feature that is off except for users who opt in, in a component with optIn.
func allowedWords() string { return celStrings(feature.AllowedWords()) }

// closedWords are the words for a closed gate; with optIn, there are additional ones.
func (g *gates) closedWords(words string) string {
	if g.model.Spec().OptIn == nil {
		return words
	}
	return strings.TrimSuffix(words, "]") + ", " + strings.TrimPrefix(allowedWords(), "[")
}

// gates writes the variables that say which features are open.
type gates struct {
	*emitter
	model  *feature.Model
	states *feature.States // of the settings in baked mode; of none in live mode
	live   bool
	// alike means that only the settings count, and neither the user nor the reports of processes.
	alike bool
	done  map[string]bool
	// tables has, for each gate that is in one, the table of open gates.
	tables map[string]*gateTable
}

// newGates asks about gates in the expressions of a policy.
func (c *compiler) newGates(e *emitter) *gates {
	return &gates{emitter: e, model: c.model, states: c.states, live: c.live, done: map[string]bool{}}
}

// openVariable is the name of the variable of a policy that reports whether a gate is open for who writes, if it has one.
func openVariable(gate string) string { return "g" + gate }

// openTable begins the names of variables that list which gates of a table are open.
const openTable = "opens"

// SaysOpen is an expression over the variables of a policy that reports whether a gate is open for the user of the request; empty
// for a gate that is closed under all settings.
func SaysOpen(variables []admissionregistrationv1.Variable, gate string) string {
	for _, v := range variables {
		row := "[" + celString(gate) + ", " // of gate and key
		if !strings.HasPrefix(v.Expression, "[[") {
			row = celString(gate)
		}
		switch {
		case v.Name == openVariable(gate):
			return variableRef(v.Name)
		case strings.HasPrefix(v.Name, openTable) && strings.Contains(v.Expression, row):
			return celString(gate) + " in " + variableRef(v.Name)
		}
	}
	return ""
}

// gateTable has gates of which the settings are read in the same way.
type gateTable struct {
	name string // of the variable that lists those that are open
	*nameTable
}

// mostGatesOfTable bounds the cost of a table: each of its gates is looked up in the list of gates in the settings.
const mostGatesOfTable = 30

// addTables adds a variable for the gates of each kind, so that the settings are read once, and by one expression for all gates of a kind.
// Gates that depend on other gates or on the user are left out: [gates.isOpen] gives each a variable.
func (g *gates) addTables(features []*feature.Feature) {
	g.tables = map[string]*gateTable{}
	byKind := map[string]*gateTable{}
	var order []*gateTable
	var texts []string
	for _, f := range features {
		s, ok := g.states.State(f.Spec.Gate)
		names, plain := namesOf(f, "")
		if !ok || !plain || !g.live || !f.Free() || !s.Reported() || g.tables[f.Spec.Gate] != nil || f.CanOptIn() || len(f.Spec.Requires)+len(f.Spec.ImpliedBy) > 0 {
			continue
		}
		open := g.isOpenAlone(f)
		if open == "true" || open == "false" {
			continue
		}
		kind := names.withStandIns(open)
		t := byKind[kind]
		if t == nil || len(t.rows) == mostGatesOfTable || t.size+len(kind) > mostTable {
			t = &gateTable{openTable + strconv.Itoa(len(order)), newNameTable(gateStandIn, kind)}
			byKind[kind], order, texts = t, append(order, t), append(texts, kind)
		}
		t.addRow(names)
		g.tables[f.Spec.Gate] = t
	}
	for i, t := range order {
		cells := t.cells("p")
		g.addVariable(t.name, t.literal()+".filter(p, "+fillIn(texts[i], cells)+")"+map[bool]string{true: ".map(p, " + cells[1] + ")"}[cells[1] != "p"])
	}
}

// isOpen returns an expression that reports whether a gate is open for a request, and whether that is certain: "true" or "false".
// Without the authorizer, it is the expression for messages.
func (g *gates) isOpen(gate string, ask bool) string {
	f := g.model.Feature(gate)
	s, ok := g.states.State(gate)
	if !ok {
		return "false"
	}
	reported := g.alike || s.Reported()
	// Features that are locked, beyond maxLevel or still to come are what they are: no setting is read.
	if !f.Free() {
		return fmt.Sprint(s.Alone() && reported)
	}
	if !reported {
		return "false"
	}
	if t := g.tables[gate]; t != nil {
		return celString(gate) + " in " + variableRef(t.name)
	}
	name := openVariable(gate)
	if o := g.model.Spec().OptIn; !ask && o != nil && o.RBAC {
		name = "q" + gate
	}
	if g.done[name] {
		return variableRef(name)
	}
	ways, all := g.waysToOpen(f, s, ask), []string{}
	switch {
	case slices.Contains(ways, "true"):
	case len(ways) == 0:
		return "false"
	default:
		all = append(all, joinOr(ways...))
	}
	for _, other := range f.Spec.Requires {
		switch o := g.isOpen(other, ask); o {
		case "true":
		case "false":
			return "false"
		default:
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return "true"
	}
	g.done[name] = true
	return g.addVariable(name, joinAnd(all...))
}

// waysToOpen returns expressions each of which opens a free feature by itself.
func (g *gates) waysToOpen(f *feature.Feature, s feature.State, ask bool) []string {
	alone := fmt.Sprint(s.Alone())
	if g.live {
		alone = g.isOpenAlone(f)
	}
	out := []string{alone}
	for _, other := range f.Spec.ImpliedBy {
		out = append(out, g.isOpen(other, ask))
	}
	if f.CanOptIn() && alone != "true" && !g.alike {
		out = slices.Concat(out, g.optIn(f, ask))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "false" })
}

// orAllowed tells that an entry p says allowed of a feature.
func (g *gates) orAllowed() string {
	if g.model.Spec().OptIn == nil {
		return ""
	}
	return " || p[1].trim() in " + allowedWords() + " && !(p[0].trim() in " + celStrings([]string{feature.AllAlpha, feature.AllBeta}) + ")"
}

// allowsOptIn is the test whether the settings allow users who opt in to use a gate.
func (g *gates) allowsOptIn(f *feature.Feature) string {
	key, list := celString(f.Spec.Key), celString(g.model.Spec().GatesKey)
	data := g.paramsData()
	// A key that says so is found at once; the list of gates is short, or reads as not set.
	return g.dataTest(joinOr(key+" in "+data+" && "+data+"["+key+"].trim() in "+allowedWords(),
		list+" in "+data+" && "+data+"["+list+"].size() <= 65536 && "+data+"["+list+"].split(',').exists(e, e.contains('=') && e.split('=', 2)[0].trim() == "+celString(f.Spec.Gate)+
			" && e.split('=', 2)[1].trim() in "+allowedWords()+")"), "false")
}

// optIn lists the ways to opt in.
func (g *gates) optIn(f *feature.Feature, ask bool) (ways []string) {
	o := g.model.Spec().OptIn
	if o.OnlyAllowed {
		if !g.live {
			if s, _ := g.states.State(f.Spec.Gate); !s.OptIn() {
				return nil
			}
		} else {
			defer func() {
				if len(ways) > 0 {
					ways = []string{joinAnd("("+g.allowsOptIn(f)+")", g.settingOf(f.Spec.Gate, f)+" == -1", joinOr(ways...))}
				}
			}()
		}
	}
	if o.NamespaceLabel {
		labels := feature.OptInLabels(g.model.Component(), f.Spec.Gate)
		ways = append(ways, "(namespaceObject != null && has(namespaceObject.metadata.labels) && "+celStrings(labels)+".exists(l, l in namespaceObject.metadata.labels && namespaceObject.metadata.labels[l] == "+celString(feature.OptInValue)+"))")
	}
	if o.RBAC && ask {
		ways = append(ways, "authorizer.group('sluice.dev').resource('features').namespace(has(request.namespace) ? request.namespace : '').name("+celString(feature.ObjectName(g.model.Component(), f.Spec.Gate))+").check("+celString(feature.OptInVerb)+").allowed()")
	}
	return ways
}

// isOpenAlone is the result of the table of precedence for a feature whose state is not fixed.
func (g *gates) isOpenAlone(f *feature.Feature) string {
	var rows []string
	opens := g.levelOpens(f)
	if f.Spec.ImpliedByLevel {
		if opens == "true" {
			return "true"
		}
		rows = append(rows, opens+" ? true : ")
	}
	if name := "s" + f.Spec.Gate; g.alike || g.done[name] {
		said := g.settingOf(f.Spec.Gate, f)
		rows = append(rows, said+" != 0 ? "+said+" == 1 : ")
	} else { // an expression with one use needs no variable
		yes, no := g.onAndOffTests(f.Spec.Gate, f)
		key, list, data := celString(f.Spec.Key), celString(g.model.Spec().GatesKey), g.paramsData()
		// Most settings only have the key, in one spelling, or nothing. The full expressions handle the rest.
		rows = append(rows, fmt.Sprintf("%[1]s in %[2]s && %[2]s[%[1]s] == '%[3]t' && !(%[4]s in %[2]s) ? true : ", key, data, !f.Spec.Inverted, list),
			fmt.Sprintf("(%s in %s || %s in %s) && %s != %s ? %s : ", key, data, list, data, yes, no, yes))
	}
	last, all := fmt.Sprint(f.Default), f.GateOfStage()
	switch {
	case f.FollowsLevel && (all == "" || opens == "true"):
		last = opens
	case f.FollowsLevel:
		last = joinOr(opens, g.settingOf(all, nil)+" == 1")
	case all != "":
		said := g.settingOf(all, nil)
		rows = append(rows, said+" != 0 ? "+said+" == 1 : ")
	}
	return g.dataTest("("+strings.Join(rows, "")+last+")", fmt.Sprint(g.isOpenUnset(f)))
}

// isOpenUnset reports whether a feature is open that the settings do not mention. It is for live mode, in which the states are those without settings.
func (g *gates) isOpenUnset(f *feature.Feature) bool {
	s, _ := g.states.State(f.Spec.Gate)
	return s.Alone()
}

// paramsData is the data of the parameter, if it has any, or the variable that holds it.
func (g *gates) paramsData() string {
	if g.done["data"] {
		return variableRef("data")
	}
	return "params.data"
}

// dataTest writes a test of the parameter's data, and another one for a parameter without data.
func (g *gates) dataTest(of, none string) string {
	if g.done["data"] {
		return of
	}
	return "(has(params.data) ? " + of + " : " + none + ")"
}

// addOnce adds a variable unless it is there, and returns the reference to it. The expression may add the
// variables that it needs.
func (g *gates) addOnce(name string, expression func() string) string {
	if !g.done[name] {
		text := expression()
		g.done[name] = true
		g.addVariable(name, text)
	}
	return variableRef(name)
}

// levelOpens reports whether the level opens a feature.
func (g *gates) levelOpens(f *feature.Feature) string {
	rank := slices.Index(levels, f.Level)
	if rank == 0 || rank == 1 && f.IsLifted() {
		return "true"
	}
	spec := g.model.Spec()
	key := celString(spec.LevelKey)
	says := func(words []v1alpha1.Level) string {
		return key + " in " + g.paramsData() + " && " + g.paramsData() + "[" + key + "].trim().lowerAscii() in " + celStrings(words)
	}
	if slices.Index(levels, spec.DefaultLevel) >= rank {
		return "!(" + says(levels[:rank]) + ")"
	}
	return "(" + says(levels[rank:]) + ")"
}

// settingOf returns what the settings say of a gate: 1 on, -1 off, 0 nothing, or both.
func (g *gates) settingOf(gate string, f *feature.Feature) string {
	return g.addOnce("s"+gate, func() string {
		yes, no := g.onAndOffTests(gate, f)
		return g.dataTest("(("+yes+" ? 1 : 0) - ("+no+" ? 1 : 0))", "0")
	})
}

// onAndOffTests report whether the settings say on and whether they say off of a gate.
func (g *gates) onAndOffTests(gate string, f *feature.Feature) (on, off string) {
	list := celString(g.model.Spec().GatesKey) + " in " + g.paramsData() + " && "
	yes, no := []string{list + celString(gate+"=1") + " in " + g.gateEntries()}, []string{list + celString(gate+"=0") + " in " + g.gateEntries()}
	if f != nil {
		key := celString(f.Spec.Key)
		value := g.paramsData() + "[" + key + "].trim()"
		on, off := g.boolWords(true), g.boolWords(false)
		if f.Spec.Inverted {
			on, off = off, on
		}
		off = g.closedWords(off)
		there := key + " in " + g.paramsData()
		yes = append([]string{there + " && " + value + " in " + on}, yes...)
		no = append([]string{there + " && " + value + " in " + off}, no...)
	}
	return "(" + joinOr(yes...) + ")", "(" + joinOr(no...) + ")"
}

// gateEntries are the entries of the key that lists gates, with 1 or 0 after the equals sign, or neither for a value that is no boolean. A
// list that is too long counts as not set, so that none exceeds the cost limit of a request.
func (g *gates) gateEntries() string {
	key := celString(g.model.Spec().GatesKey)
	return g.addOnce("entries", func() string {
		data := g.paramsData()
		return g.dataTest(key+" in "+data, "false") + " && " + data + "[" + key + "].size() <= 65536 ? " + data + "[" + key +
			"].split(',').map(e, e.split('=', 2)).filter(p, p.size() == 2).map(p, p[0].trim() + '=' + (p[1].trim() in " +
			g.boolWords(true) + " ? '1' : p[1].trim() in " + g.boolWords(false) + g.orAllowed() + " ? '0' : '')) : []"
	})
}
