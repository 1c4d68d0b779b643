package policy

// Which units share an expression? Those whose expressions are equal but for one name of the path, the gate and the key. For example,
// 50 gates of spec.FIELD[*].timeout are 50 rows such as ['tasks', 'TasksTimeout', 'tasks-timeout'] and one loop over them.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// family are units that share an expression.
type family struct {
	units []int // places in the group
	form  *sharedForm
	table *nameTable
	name  string // of the variable that lists what is violated: rows of the table, or pairs of a row and the places in its list
	test  string // that nothing is violated
}

// sharedForm are the expressions about a unit, with stand-ins for its names.
type sharedForm struct {
	names partNames
	at    int // the step of the path whose name has a stand-in
	// violated is the test of a row p. For lists it is the test whether the gate is closed.
	violated    string
	lists       *listForm
	long, short string // the texts about a violation
}

// listForm are the expressions about a list or a map in an entry e, which has a row, the new value and the stored one.
type listForm struct {
	there, entry  string // whether the list is there, and the entry of a row p
	outer, count  string // how many items and entries there are in the outermost list or map, and in all
	places        string
	limit         int
	many, tooMany string // whether the list may have a use, and its place, if there are too many items
	stored        string // whether all uses are stored ones; empty if that is not asked
}

// familyKey is the same for units that can be in one family.
func (f *sharedForm) familyKey() string {
	key := fmt.Sprintln(f.violated, f.long, f.short)
	if f.lists != nil {
		key += fmt.Sprint(*f.lists)
	}
	return key
}

// findFamilies adds the families of a draft with their variables, and returns the one of each unit that has one.
func (d *draft) findFamilies(c *compiler, gs *gates) map[int]*family {
	of := map[int]*family{}
	if d.group.whole || d.group.kind == drops {
		return of
	}
	forms := make([]map[string]*sharedForm, len(d.group.units))
	count := map[string]int{}
	for i := range d.group.units {
		forms[i] = d.formsOf(c, gs, i)
		for key := range forms[i] {
			count[key]++
		}
	}
	growing := map[string]*family{}
	for i, some := range forms {
		best := ""
		for _, key := range slices.Sorted(maps.Keys(some)) {
			if count[key] > max(1, count[best]) {
				best = key
			}
		}
		if best == "" {
			continue
		}
		f := growing[best]
		if f == nil || !f.hasRoom() {
			f = &family{form: some[best], table: some[best].newTable()}
			growing[best], d.families = f, append(d.families, f)
		}
		f.table.addRow(some[best].names)
		f.units = append(f.units, i)
	}
	d.families = slices.DeleteFunc(d.families, func(f *family) bool { return len(f.units) == 1 })
	for i, f := range d.families {
		f.name = "f" + strconv.Itoa(i)
		for _, n := range f.units {
			of[n] = f
		}
		if f.form.lists == nil {
			f.form = d.formOf(c, gs, f.units[0], f.form.at) // this time with the variables that it refers to
		}
		f.addVariables(d.emitter)
	}
	return of
}

func (f *sharedForm) newTable() *nameTable {
	return newNameTable(f.violated, f.long, f.short, f.familyKey())
}

// hasRoom reports whether the variable with the table can have another row.
func (f *family) hasRoom() bool {
	own := len(f.form.violated)
	if f.form.lists != nil {
		own += len(f.form.lists.there) + len(f.form.lists.entry)
	}
	return f.table.size+own < mostTable
}

// formsOf are the forms of a unit, with a stand-in for one or another name of its path, by their keys.
func (d *draft) formsOf(c *compiler, gs *gates, i int) map[string]*sharedForm {
	u := &d.group.units[i]
	// With the ratchet InObject each feature has a variable of its own. One variable serves the verdict, which asks the authorizer, and
	// the message, which cannot.
	if u.shape.apart || u.alone || d.openTest(gs, u, false) != d.openTest(gs, u, true) {
		return nil
	}
	from, to := max(0, len(u.target.Path)-manySteps), len(u.target.Path)
	if !d.isOnePlace(u) {
		if from, to = 0, u.shape.loop; len(u.ways) > 1 || !d.pieces || to == len(u.target.Path) {
			return nil
		}
	}
	out := map[string]*sharedForm{}
	for at := from; at < to; at++ {
		scratch := &draft{emitter: d.newScratch(), group: d.group, limits: d.limits}
		if form := scratch.formOf(c, gs, i, at); form != nil {
			out[hashOf(fmt.Sprint(scratch.vars, form.familyKey()))] = form
		}
	}
	return out
}

// formOf writes the expressions about a unit with stand-ins for the name of a step of its path, the gate and the key; nil if no stand-in
// can replace them.
func (d *draft) formOf(c *compiler, gs *gates, i, at int) *sharedForm {
	u := &d.group.units[i]
	name := u.target.Path[at].Name
	names, ok := namesOf(u.feature, name)
	if !ok {
		return nil
	}
	with, f := u.withField(at, fieldStandIn), &sharedForm{names: names, at: at}
	open := d.openTest(gs, u, false)
	var long, short string
	if d.isOnePlace(u) {
		_, none := d.placesOf(with, i)
		f.violated = "!(" + wellTest(u, none, open) + ")"
		place := u.target.Path.String()
		long, short = celString(clippedTo(place, 300)), celString(clippedTo(place, 60))
	} else {
		if !isIdentifier(name) {
			return nil // its place is written in another way
		}
		f.lists = d.listFormOf(with, d.limits[i])
		if f.violated = "!(" + open + ")"; open == "false" {
			f.violated = "true"
		}
		long, short = clippedText("p[1]", 300), clippedText("p[1]", 60)
	}
	f.violated = names.withStandIns(f.violated)
	f.long = names.withStandIns(long + " + " + celString(c.problemOf(u)))
	f.short = names.withStandIns(short + " + " + celString(" ("+u.feature.Spec.Gate+")"))
	return f
}

// newScratch is an emitter for expressions that may not be used.
func (e *emitter) newScratch() *emitter {
	out := *e
	out.vars, out.nodes = nil, map[string]string{}
	return &out
}

// listFormOf writes the expressions about the list or map of a unit, one name of whose path has a stand-in.
func (d *draft) listFormOf(u *unit, limit int) *listForm {
	t, loop := u.target, u.shape.loop
	w := &walker{shape: u.shape, emitter: d.emitter, limit: limit, values: &[2]string{"e[1]", "e[2]"}}
	there, now := plainPath("object", t.Path[:loop])
	stored, then := plainPath("oldObject", t.Path[:loop])
	f := &listForm{
		there: joinAnd(there...), entry: "[dyn(p), dyn(" + now + "), " + joinAnd(stored...) + " ? dyn(" + then + ") : dyn(null)]",
		outer: fmt.Sprintf("(%s ? e[1].size() : 0)", isIterable("e[1]", t.Path[loop].Kind)), count: d.countItems(t.Path, "e[1]", loop), limit: limit, many: w.mayContainPart("e[1]"), tooMany: w.tooMany(" in all lists like it"),
	}
	if w.index {
		w.stored = "m"
		list, among := w.identitiesOf(true), allAmong("n", "s", min(mostComparisons, allFamilyComparisons/len(d.group.units)))
		if d.group.sampled {
			among = "false" // of few items all would be compared, of many none
		}
		f.stored = "[" + w.identitiesOf(false) + "].exists(n, [" + list + "].exists(s, " + among + "))"
		f.places = "[" + w.storedIndex(list) + "].map(m, " + w.joinedUses() + ")[0]"
		return f
	}
	f.places = w.joinedUses()
	return f
}

// allFamilyComparisons is how many comparisons all units of a family may make. What is measured does not include them, so [maxExpressionCost] leaves
// room for their cost.
const allFamilyComparisons = 40_000

// addVariables adds the variables of a family.
func (f *family) addVariables(e *emitter) {
	rows := f.table.literal() + ".filter(p, " + joinAnd(f.form.lists.presenceTest(f.table.cells("p")), fillIn(f.form.violated, f.table.cells("p"))) + ")"
	f.test = variableRef(f.name) + ".size() == 0"
	l := f.form.lists
	if l == nil {
		e.addVariable(f.name, rows)
		return
	}
	in := func(expression string) string { return fillIn(expression, f.table.cells("e[0]")) }
	// An unchanged list has no new uses.
	entries := e.addVariable(f.name+"e", rows+".map(p, "+fillIn(l.entry, f.table.cells("p"))+").filter(e, !("+isSet("e[2]")+" && e[2] == e[1]))")
	// All are gone through, or those that have no more items than that together, and are not longer by themselves.
	goes := e.addVariable(f.name+"g", fmt.Sprintf("[%[1]s].map(c, c.transformList(i, n, c.sum() <= %[2]d || n <= %[2]d && c.slice(0, i + 1).filter(o, o <= %[2]d).sum() <= %[2]d))[0]", l.itemCounts(entries), l.limit)) + "[i]"
	places := fmt.Sprintf("%s ? (%s) : %s ? %s : ''", goes, in(l.places), in(l.many), in(l.tooMany))
	pairs := func(condition string) string {
		return entries + ".transformList(i, e, " + condition + "[e[0], dyn(" + places + ")]).filter(e, e[1] != '')"
	}
	if l.stored == "" {
		e.addVariable(f.name, pairs(""))
		return
	}
	// Two stored items of one identity make the index an error. Then a list has no new use if all its uses are among the stored ones.
	stored := e.addVariable(f.name+"s", entries+".transformList(i, e, "+goes+" && "+in(l.stored)+")")
	violated := e.addVariable(f.name+"n", fmt.Sprintf("%s.transformList(i, e, !((%s ? (%s) == '' : !(%s)) || %s[i]), i)", entries, goes, in(l.places), in(l.many), stored))
	e.addVariable(f.name, violated+".size() == 0 ? [] : "+pairs("i in "+violated+", "))
}

// itemCounts lists how many items there are in each entry. Of too many in the outermost lists those within are not counted.
func (l *listForm) itemCounts(entries string) string {
	if l.outer == l.count {
		return entries + ".map(e, " + l.count + ")"
	}
	outer := entries + ".map(e, " + l.outer + ")"
	return fmt.Sprintf("[%s].map(o, %s.transformList(i, e, o[i] <= %[3]d && o.slice(0, i + 1).filter(n, n <= %[3]d).sum() <= %[3]d ? %[4]s : %[5]d))[0]", outer, entries, matchLimit, l.count, l.limit+1)
}

// presenceTest is the test of a row whether its list is there; true if there are none.
func (l *listForm) presenceTest(names partNames) string {
	if l == nil {
		return "true"
	}
	return fillIn(l.there, names)
}

// violationTexts lists the messages of the violated units.
func (f *family) violationTexts(pair bool) string {
	row := "p"
	if f.form.lists != nil {
		row = "p[0]"
	}
	cells := f.table.cells(row)
	text := fillIn(f.form.long, cells)
	if pair {
		text = "[" + text + ", " + fillIn(f.form.short, cells) + "]"
	}
	return variableRef(f.name) + ".map(p, " + text + ")"
}

// longestText is how many bytes the texts of a unit have at most.
func (f *sharedForm) longestText(u *unit, problem string) int {
	place := len(clippedTo(u.target.Path.String(), 300))
	if f.lists != nil {
		place = longestPlaces
	}
	return place + len(problem) + len("; also ")
}
