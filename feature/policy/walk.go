package policy

// Where in an object are the uses of a target, and which of them are new? An expression goes through the lists and maps on the path, and
// compares with the stored items of the same identity. For example, the task named build had no timeout before, so its timeout is new,
// wherever it stands in the list now.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/feature"
	"sluice.dev/schema"
)

// variable is one of a policy: evaluated when it is first asked for, once per policy and kind of expression.
type variable struct{ name, expression string }

func variableRef(name string) string { return "variables." + name }

// emitter writes the variables of one policy.
type emitter struct {
	vars  []variable
	nodes map[string]string // variables of values at paths of fields, by path and side
	// pieces says that the API server takes what loops in pieces need.
	pieces bool
	// most is the number of items that are searched to find out whether a policy is needed.
	most int
	// piece is how many items a loop goes through at a time: [piece], or less in expressions that are measured.
	piece int
	whole int // how many items are one piece, whatever piece is
}

// newEmitter makes an emitter for API servers of a minor version.
func newEmitter(minor int) *emitter {
	return &emitter{nodes: map[string]string{}, pieces: minor >= nestedSince, most: matchLimit, piece: piece, whole: piece}
}

func (e *emitter) addVariable(name, expression string) string {
	e.vars = append(e.vars, variable{name, expression})
	return variableRef(name)
}

// valueAt returns an expression for the value that a path of fields leads to: null if there is none.
func (e *emitter) valueAt(old bool, path feature.Path) string {
	if len(path) == 0 {
		if old {
			return "oldObject"
		}
		return "object"
	}
	side := "n"
	if old {
		side = "o"
	}
	key := side + path.String()
	if name := e.nodes[key]; name != "" {
		return variableRef(name)
	}
	parent := e.valueAt(old, path[:max(0, len(path)-manySteps)])
	there, at := plainPath(parent, path[max(0, len(path)-manySteps):])
	name := fmt.Sprintf("%s%d", side, len(e.nodes)+1)
	e.nodes[key] = name
	return e.addVariable(name, joinAnd(there...)+" ? "+at+" : null")
}

// manySteps is the number of steps after which the value of a path gets a variable.
const manySteps = 4

// plainPath writes the value that a path of fields leads to from another, and the conditions under which it is there.
func plainPath(from string, path feature.Path) (there []string, at string) {
	for _, s := range path {
		there, from = append(there, isMap(from), hasField(from, s.Name)), memberOf(from, s.Name)
	}
	return there, from
}

// shape is how the uses of a target are compared with those that are stored.
type shape struct {
	target *feature.Target
	exact  bool // only an equal value passes
	loop   int  // the first step that is no field
	open   int  // the first step into a list whose items have no identity, or the length of the path
	index  bool // uses are looked up in an index of the stored ones
	lists  bool // there is a list on the way
	apart  bool // whatever is stored at the place, [draft.usedBefore] decides
}

// shapesOf are the ways in which the values of a target may be found: where no schema says whether [*] goes into a list or a map, one
// for each form that decides how uses are compared. Behind a list whose items have no identity it does not matter.
func shapesOf(f *feature.Feature, t *feature.Target) []shape {
	for i, step := range t.Path {
		if step.Kind == feature.Items && len(step.Keys) == 0 && !step.Set {
			break
		}
		if step.Kind == feature.Each {
			return append(shapesOf(f, stepAs(t, i, feature.Items)), shapesOf(f, stepAs(t, i, feature.Entries))...)
		}
	}
	return []shape{shapeOf(f, t)}
}

// stepAs is a target with a step of another kind.
func stepAs(t *feature.Target, i int, k feature.StepKind) *feature.Target {
	out := *t
	out.Path = slices.Clone(t.Path)
	out.Path[i].Kind = k
	return &out
}

// shapeOf finds out how uses of a target are compared. The kinds of the steps are those that the schema gives;
// see [shapesOf] for targets without one.
func shapeOf(f *feature.Feature, t *feature.Target) shape {
	n := len(t.Path)
	s := shape{target: t, exact: f.Spec.Ratchet == "Unchanged" || t.Values != nil, loop: n, open: n}
	if f.Spec.Ratchet == "InObject" {
		s.exact, s.apart = false, true
	}
	for i, step := range t.Path {
		if step.Kind == feature.Field {
			continue
		}
		s.loop = min(s.loop, i)
		if step.Kind == feature.Items {
			s.lists = true
			if len(step.Keys) == 0 && !step.Set && s.open == n && !s.apart {
				s.open = i
			}
		}
		if s.open < n {
			continue
		}
		s.index = !s.apart && (s.index || step.Kind == feature.Items)
	}
	if s.exact {
		s.index = s.index || s.open < n
	}
	return s
}

// isUseOf reports whether a value is a use of the target.
func isUseOf(t *feature.Target, v string) string {
	switch {
	case t.Values != nil:
		return isOneOf(v, t.Values)
	case t.Pattern != nil:
		return matchesPattern(v, t.Pattern.String())
	case t.Beyond != nil:
		return outsideBounds(v, t.Beyond)
	case t.Match == nil:
		return isSet(v)
	}
	var all []string
	for _, c := range t.Match {
		at := v
		for _, s := range c.Path {
			all = append(all, isMap(at), hasField(at, s.Name))
			at = memberOf(at, s.Name)
		}
		switch {
		case c.Values != nil:
			all = append(all, isOneOf(at, c.Values))
		case c.Pattern != nil:
			all = append(all, matchesPattern(at, c.Pattern.String()))
		default:
			all = append(all, isSet(at))
		}
	}
	return joinAnd(all...)
}

// isSet reports whether a value is not null. The type check of the API server refuses to compare a number, text or list of the
// schema with null, though a value that is not pruned can be null; of a dyn it does not know the type.
func isSet(v string) string { return "dyn(" + v + ") != null" }

// walker writes the expressions of one target.
type walker struct {
	shape
	emitter *emitter
	id      string
	stored  string // the index of stored uses
	pointer bool   // places are written as JSON pointers
	sorted  bool   // the text has the places of maps in a fixed order, which the keys of a map do not have
	limit   int    // how many items are gone through
	// values are, if they are set, the value at the first loop of the path, new and stored, in an expression that goes through several paths.
	values *[2]string
}

// valueAt is the value that the first steps of the path lead to, in the new object or in the stored one.
func (w *walker) valueAt(old bool, steps int) string {
	switch {
	case w.values == nil:
		return w.emitter.valueAt(old, w.target.Path[:steps])
	case old:
		return w.values[1]
	}
	return w.values[0]
}

// found is a value that is there if the conditions hold.
type found struct {
	conditions []string
	body       string
	list       bool // the body may be empty, or is a list
	depth      int  // how many lists deep the places are, from the body on; 0 stands for a text
}

// bodyOr is a body if the conditions hold.
func (f *found) bodyOr(body, none string) string {
	if there := joinAnd(f.conditions...); there != "true" {
		return there + " ? " + body + " : " + none
	}
	return body
}

// usePlaces writes an expression for the places of uses that the ratchet does not allow: a text, with commas between them,
// empty if there is none; or a list of JSON pointers.
func (w *walker) usePlaces() string {
	if w.index {
		w.stored = w.addStoredIndex()
	}
	none := "''"
	if w.pointer {
		none = "[]"
	}
	return w.withinCostLimit(w.joinedUses(), none)
}

// joinedUses joins the places of uses, whatever it costs.
func (w *walker) joinedUses() string {
	f := w.findUses()
	body, none := f.body, "''"
	switch {
	case w.pointer:
		body += strings.Repeat(".flatten()", max(0, f.depth-1)) // with a depth its type would be a list of dyn
		if none = "[]"; !f.list {
			body = "[" + body + "]"
		}
	case f.depth > 0:
		if f.depth > 1 {
			body += fmt.Sprintf(".flatten(%d)", f.depth-1)
		}
		body = w.joinedPlaces(body)
	}
	return f.bodyOr(body, none)
}

// mostSorted is the number of places that are sorted. What sorting costs grows with the square of the number, but so few cost less than
// the rest of a loop that comes near its limit. So it is left out where costs are measured, which grow with the number of items.
const mostSorted = 50

// joinedPlaces makes a text of a list of places.
func (w *walker) joinedPlaces(list string) string {
	ofMap := slices.ContainsFunc(w.target.Path, func(s feature.Step) bool { return s.Kind == feature.Entries || s.Kind == feature.Each })
	if !w.sorted || !ofMap {
		return list + ".join(', ')"
	}
	return fmt.Sprintf("[%s].map(l, l.size() > %d ? %s + string(l.size()) + ' places' : l.sort().join(', '))[0]", list, mostSorted, celString(w.target.Path.String()+" in "))
}

// findUses are the values at the places of a target.
func (w *walker) findUses() found {
	t := w.target
	old, start := "", w.loop
	if start == len(t.Path) {
		start = max(0, start-manySteps)
	}
	if !w.index && !w.apart {
		old = w.valueAt(true, start)
	}
	path := &pathText{pointer: w.pointer}
	for _, s := range t.Path[:start] {
		path = path.withField(s.Name)
	}
	return w.walkStep(w.valueAt(false, start), start, path, old, nil, nil)
}

// If the search of the stored object has more than longSearch bytes, it is a variable of its own.
const longSearch = 600

// walkStep continues from a value, which may have any form. Old is the value at the same place in the stored object, which exists if its
// own conditions hold. It is empty if an index is used instead, or if nothing is compared.
func (w *walker) walkStep(v string, i int, path *pathText, old string, oldThere, place []string) found {
	t := w.target
	if i == len(t.Path) {
		return found{conditions: []string{w.isUse(v), w.isNewUse(v, old, oldThere, place)}, body: path.asExpression()}
	}
	s := t.Path[i]
	if s.Kind == feature.Field {
		if old != "" {
			oldThere = append(slices.Clip(oldThere), isMap(old), hasField(old, s.Name))
			old = memberOf(old, s.Name)
		}
		f := w.walkStep(memberOf(v, s.Name), i+1, path.withField(s.Name), old, oldThere, place)
		f.conditions = append([]string{isMap(v), hasField(v, s.Name)}, f.conditions...)
		return f
	}
	x := fmt.Sprintf("x%d", i)
	if s.Kind != feature.Items {
		there := w.emitter.canIterate(v, s.Kind)
		key, item := w.emitter.entryOf(v, x)
		at := path.withKey(key)
		switch {
		case s.Kind == feature.Each: // nothing is compared beneath a list, which is before it
			at = path.withIndexOrKey(key)
		case old != "":
			stored := fmt.Sprintf("o%d", i)
			oldThere = append(slices.Clip(oldThere), isMap(old), key+" in "+old, "["+old+"["+key+"]].exists("+stored+", ")
			old = stored
		}
		inner := w.walkStep(item, i+1, at, old, oldThere, w.withIdentity(place, i, key))
		return w.walkLoop(there, v, i, func(bool) (string, found) {
			return ".map(" + x + ", " + joinAnd(inner.conditions...) + ", " + inner.body + ")", inner
		})
	}
	there := w.emitter.canIterate(v, s.Kind)
	if i == w.open && old != "" {
		// One use anywhere beneath the stored list lets all of them pass.
		stored := w.emitter.existsUse(t, old, i, "y")
		if isVariable(old) && len(stored) > longSearch {
			stored = w.emitter.addVariable("y"+w.id, stored)
		}
		there = joinAnd(there, "!("+joinNested(append(slices.Clip(oldThere), stored)...)+")")
		old, oldThere = "", nil
	}
	return w.walkLoop(there, v, i, func(inPieces bool) (string, found) {
		n := fmt.Sprintf("i%d", i)
		index := n
		if inPieces {
			index = fmt.Sprintf("k%d * %d + %s", i, piece, n)
		}
		inner := w.walkStep(x, i+1, path.withIndex(index), old, oldThere, w.withIdentity(place, i, x))
		return ".transformList(" + n + ", " + x + ", " + joinAnd(inner.conditions...) + ", " + inner.body + ")", inner
	})
}

// walkLoop goes through a list, or the keys of a map: through handles all of it or a piece.
func (w *walker) walkLoop(there, v string, i int, through func(inPieces bool) (string, found)) found {
	text, inner := through(w.emitter.pieces)
	if !w.emitter.pieces {
		return w.joinPlaces(there, v+text, inner)
	}
	c, k := fmt.Sprintf("c%d", i), fmt.Sprintf("k%d", i)
	one := w.joinPlaces("", c+text, inner)
	return w.joinPlaces(there, w.emitter.overEntries(v, w.target.Path[i].Kind, i)+".transformList("+k+", "+c+", "+one.body+")", one)
}

// piece is the number of items that a loop goes through at a time. The API server counts the cost of an expression with a stack that
// grows while a loop runs, and searches all of it at almost every step (github.com/google/cel-go, interpreter, refValStack). The
// entries of an inner loop are removed at its end. With pieces the stack stays short, and the time grows in proportion to the number of
// items instead of its square.
const piece = 100

// entryOf is the key or index and the value in a loop over [emitter.overEntries], or else over the keys of a map.
func (e *emitter) entryOf(v, x string) (key, value string) {
	if e.pieces {
		return x + "[0]", x + "[1]"
	}
	return x, v + "[" + x + "]"
}

// valuesOf lists the values in a list, a map, or what may be either.
func (e *emitter) valuesOf(v string, k feature.StepKind) string {
	switch {
	case k == feature.Items:
		return v
	case e.pieces:
		return v + ".transformList(_, z, z)"
	}
	return v + ".map(z, " + v + "[z])"
}

// isIterable is the test that there is something to go through.
func isIterable(v string, k feature.StepKind) string {
	switch k {
	case feature.Entries:
		return isMap(v)
	case feature.Each:
		return "(" + isList(v) + " || " + isMap(v) + ")"
	case feature.Field, feature.Items:
	}
	return isList(v)
}

// isVariable reports whether an expression is a variable and nothing else.
func isVariable(v string) bool {
	return strings.HasPrefix(v, variableRef("")) && !strings.ContainsAny(v, "[( ")
}

// canIterate is the test before a loop; empty for a variable, whose list of pieces is empty if it is neither list nor map.
func (e *emitter) canIterate(v string, k feature.StepKind) string {
	if e.pieces && isVariable(v) {
		return ""
	}
	return isIterable(v, k)
}

// itemOf is a value in a loop over [emitter.overItems].
func (e *emitter) itemOf(v string, k feature.StepKind, x string) string {
	if e.pieces && k != feature.Items && isVariable(v) {
		_, x = e.entryOf(v, x)
	}
	return x
}

// overItems divides the values of a list or a map into lists of [piece] items. A variable has entries instead, which all its loops share; see
// [emitter.itemOf].
func (e *emitter) overItems(v string, k feature.StepKind, i int) string {
	if isVariable(v) {
		return e.overEntries(v, k, i)
	}
	return e.piecesOf(e.valuesOf(v, k), i)
}

// overEntries divides a list or a map into lists of [piece] items. An item of a map is a pair of key and value. If the schema allows a list and a
// map, it is a pair of index or key and value. All loops over the same variable share one variable of pieces.
func (e *emitter) overEntries(v string, k feature.StepKind, i int) string {
	entries := v
	if k != feature.Items {
		entries += ".transformList(k, z, [k, z])"
	}
	if !isVariable(v) {
		return e.piecesOf(entries, i)
	}
	key := fmt.Sprintf("pieces of %s, %v", v, k)
	if e.nodes[key] == "" {
		e.nodes[key] = fmt.Sprintf("q%d", len(e.nodes)+1)
		e.addVariable(e.nodes[key], isIterable(v, k)+" ? "+e.piecesOf(entries, i)+" : []")
	}
	return variableRef(e.nodes[key])
}

// An expression of more than longValue bytes gets a name where it would be written six times. For a path of fields of the object it is longPath,
// because match conditions run for each object, and a name costs 4 µs.
const longValue, longPath = 12, 24

// piecesOf lists pieces of a list.
func (e *emitter) piecesOf(v string, i int) string {
	most := longValue
	if strings.HasPrefix(v, "object.") {
		most = longPath
	}
	if len(v) > most || strings.Contains(v, "(") {
		list := fmt.Sprintf("l%d", i)
		return "[" + v + "].map(" + list + ", " + e.piecesOf(list, i) + ")[0]"
	}
	from := fmt.Sprintf("p%d", i)
	return fmt.Sprintf("(%[1]s.size() <= %[5]d ? [%[1]s] : lists.range((%[1]s.size() + %[3]d) / %[2]d).map(%[4]s, %[1]s.slice(%[4]s * %[2]d, [%[4]s * %[2]d + %[2]d, %[1]s.size()].min())))",
		v, e.piece, e.piece-1, from, e.whole)
}

func (w *walker) isUse(v string) string { return isUseOf(w.target, v) }

// joinPlaces makes one text of the places in a list. With pieces it is a list of lists, which [walker.usePlaces] joins: each step costs.
func (w *walker) joinPlaces(there, list string, inner found) found {
	switch {
	case w.emitter.pieces:
		return found{conditions: []string{there}, body: list, list: true, depth: inner.depth + 1}
	case w.pointer && inner.list:
		list += ".flatten()"
	case w.pointer:
	case inner.list:
		list += ".filter(s, s != '').join(', ')"
	default:
		list += ".join(', ')"
	}
	return found{conditions: []string{there}, body: list, list: true}
}

// countLoops counts the lists and maps on the way.
func (s *shape) countLoops() int {
	n := 0
	for _, step := range s.target.Path {
		if step.Kind != feature.Field {
			n++
		}
	}
	return n
}

// existsUse reports whether there is a use of a target beneath a value, from a step of its path on.
func (e *emitter) existsUse(t *feature.Target, v string, i int, name string) string {
	return e.existsWhere(t, v, i, name, func(v string) string { return isUseOf(t, v) })
}

// valueTexts lists what [scalarText] writes of values that are one of some texts.
func valueTexts(values []string) (out []string) {
	for _, v := range values {
		out = append(out, "s"+v)
		switch v {
		case "true":
			out = append(out, "t")
		case "false":
			out = append(out, "f")
		default:
			out = append(out, feature.NumberTexts(v)...)
		}
	}
	return out
}

// existsWhere reports whether a condition holds for a value that a path leads to.
func (e *emitter) existsWhere(t *feature.Target, v string, i int, name string, where func(v string) string) string {
	if i == len(t.Path) {
		return where(v)
	}
	s := t.Path[i]
	if s.Kind == feature.Field {
		return joinAnd(isMap(v), hasField(v, s.Name), e.existsWhere(t, memberOf(v, s.Name), i+1, name, where))
	}
	x := fmt.Sprintf("%s%d", name, i)
	return joinAnd(e.canIterate(v, s.Kind), e.anyItem(v, s.Kind, i, ".exists("+x+", "+e.existsWhere(t, e.itemOf(v, s.Kind, x), i+1, name, where)+")"))
}

// anyItem asks whether something holds for an item of a list or map; see [emitter.itemOf].
func (e *emitter) anyItem(v string, k feature.StepKind, i int, through string) string {
	if !e.pieces {
		return e.valuesOf(v, k) + through
	}
	c := fmt.Sprintf("c%d", i)
	return e.overItems(v, k, i) + ".exists(" + c + ", " + c + through + ")"
}

// isScalar reports whether values of a schema are strings, numbers or booleans.
func isScalar(n *schema.Node) bool {
	if n == nil {
		return false
	}
	switch n.Type {
	case "string", "integer", "number", "boolean":
		return true
	}
	return n.IntOrString
}

// mayHoldNull reports whether an object or array of a schema may have null in it.
func mayHoldNull(n *schema.Node, depth int) bool {
	if n == nil || depth > 64 || n.PreserveUnknown || n.Embedded || n.AdditionalBool != nil && *n.AdditionalBool {
		return true
	}
	if isScalar(n) {
		return false
	}
	var children []*schema.Node
	for _, p := range n.Properties {
		children = append(children, p.Node)
	}
	for _, c := range []*schema.Node{n.Items, n.Additional} {
		if c != nil {
			children = append(children, c)
		}
	}
	for _, c := range children {
		if c.Nullable || mayHoldNull(c, depth+1) {
			return true
		}
	}
	return false
}
