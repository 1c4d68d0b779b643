package policy

// Is a use stored already? Items of lists and entries of maps are compared by their identity, wherever they stand. For example, the stored task named
// build has a timeout, so it may keep it in another place, and the task named test may not get one.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/feature"
)

// isNewUse is the test that the stored object does not allow a use.
func (w *walker) isNewUse(v, old string, oldThere, place []string) string {
	switch {
	case w.index:
		if w.exact {
			place = append(slices.Clip(place), scalarText(v))
		}
		return "!(" + placeText(place) + " in " + w.stored + ")"
	case old == "":
		return "true"
	}
	all := append(slices.Clip(oldThere), w.isUse(old))
	if w.exact {
		all = append(all, old+" == "+v)
	}
	return "!(" + joinNested(all...) + ")"
}

// withIdentity adds what identifies an item or an entry to the identity of a place.
func (w *walker) withIdentity(place []string, i int, x string) []string {
	if !w.index || i >= w.open {
		return place
	}
	place = slices.Clip(place)
	s := w.target.Path[i]
	switch {
	case s.Kind == feature.Entries:
		return append(place, x)
	case s.Set:
		return append(place, scalarText(x))
	}
	for _, k := range s.Keys {
		text := "(" + hasField(x, k) + " ? " + scalarText(memberOf(x, k)) + " : '?')"
		if i+1 == len(w.target.Path) {
			text = "(" + isMap(x) + " ? " + text + " : '!')"
		}
		place = append(place, text)
	}
	return place
}

// placeText joins the parts of an identity so that each can be told from the next: a slash within is doubled, and what parts
// them is a slash and a dot.
func placeText(place []string) string {
	if len(place) == 0 {
		return "''"
	}
	var b strings.Builder
	for _, p := range place[:len(place)-1] {
		b.WriteString(p + ".replace('/', '//') + '/.' + ")
	}
	return b.String() + place[len(place)-1]
}

// addStoredIndex adds the variables of an index of the stored uses of a target, and returns the index: a map, because a
// list would be gone through for each use. An identity that is there twice, in an object that breaks the schema, is an
// error when the map is made; [walker.allStoredTest] answers then.
func (w *walker) addStoredIndex() string {
	list := w.emitter.addVariable("s"+w.id, w.identitiesOf(true))
	return w.emitter.addVariable("m"+w.id, w.storedIndex(list))
}

// identitiesOf lists the identities of the uses in the stored object, or in the new one.
func (w *walker) identitiesOf(old bool) string {
	f := w.collectStored(w.valueAt(old, w.loop), w.loop, nil)
	return f.bodyOr(f.body, "[]")
}

// storedIndex is the index of the stored uses, whose identities are in a list.
func (w *walker) storedIndex(list string) string {
	if v, x, keep, body, ok := w.singleListIndex(); ok {
		index := found{conditions: []string{w.emitter.canIterate(v, feature.Items)}}
		return index.bodyOr(w.emitter.indexItems(v, x, keep+", {"+body+": true}"), "{}")
	}
	return w.emitter.indexItems(list, "x", "{x: true}")
}

// indexItems makes a map of the items of a list.
func (e *emitter) indexItems(v, x, entry string) string {
	if !e.pieces {
		return v + ".transformMapEntry(i, " + x + ", " + entry + ")"
	}
	return e.overEntries(v, feature.Items, 0) + ".transformMapEntry(k, c, c.transformMapEntry(i, " + x + ", " + entry + "))"
}

// singleListIndex returns the parts of the index of a target with one list on its way, which needs no list in between.
func (w *walker) singleListIndex() (v, x, keep, body string, ok bool) {
	t := w.target
	if t.Path[w.loop].Kind != feature.Items || w.countLoops() > 1 || w.open < len(t.Path) {
		return "", "", "", "", false
	}
	v = w.valueAt(true, w.loop)
	x = fmt.Sprintf("x%d", w.loop)
	inner := w.collectStored(x, w.loop+1, w.withIdentity(nil, w.loop, x))
	return v, x, joinAnd(inner.conditions...), inner.body, true
}

// [walker.allStoredTest] looks at up to mostCompared uses, and makes up to mostComparisons comparisons with stored ones.
const mostCompared, mostComparisons = 200, 10_000

// allStoredTest reports whether all uses are among the stored ones, without an index, in time that grows with the square of their
// number. It stands behind an or: it is asked only where there are violations or the index is an error, and decides only
// where it is. It is empty if there is no index.
func (w *walker) allStoredTest() string {
	if !w.index {
		return ""
	}
	return allAmong(w.emitter.addVariable("c"+w.id, w.identitiesOf(false)), variableRef("s"+w.id), mostComparisons)
}

// allAmong reports whether all items of a list are in another one, if both are so short that it takes no more than some comparisons.
func allAmong(list, stored string, comparisons int) string {
	return fmt.Sprintf("%[1]s.size() <= %[3]d && %[1]s.size() * %[2]s.size() <= %[4]d && %[1]s.all(x, x in %[2]s)", list, stored, mostCompared, comparisons)
}

// collectStored lists the identities of the stored uses.
func (w *walker) collectStored(v string, i int, place []string) found {
	t := w.target
	if i == len(t.Path) {
		if w.exact {
			place = append(slices.Clip(place), scalarText(v))
		}
		return found{conditions: []string{w.isUse(v)}, body: placeText(place)}
	}
	s := t.Path[i]
	if s.Kind == feature.Field {
		f := w.collectStored(memberOf(v, s.Name), i+1, place)
		f.conditions = append([]string{isMap(v), hasField(v, s.Name)}, f.conditions...)
		return f
	}
	x := fmt.Sprintf("x%d", i)
	there, key, item := w.emitter.canIterate(v, s.Kind), x, x
	switch {
	case s.Kind == feature.Entries:
		key, item = w.emitter.entryOf(v, x)
	case i == w.open && !w.exact:
		return found{conditions: []string{w.emitter.existsUse(t, v, i, "y")}, body: placeText(place)}
	case i == w.open:
		// The same value may occur many times, and is tested once.
		text := func(v string) string { return scalarText(v) + " == w" }
		body := celStrings(valueTexts(t.Values)) + ".filter(w, " + w.emitter.existsWhere(t, v, i, "y", text) + ").map(w, " + placeText(append(slices.Clip(place), "w")) + ")"
		return found{conditions: []string{there}, body: body, list: true}
	}
	inner := w.collectStored(item, i+1, w.withIdentity(place, i, key))
	through := ".map(" + x + ", " + joinAnd(inner.conditions...) + ", " + inner.body + ")"
	if inner.list {
		through += ".flatten()"
	}
	if !w.emitter.pieces {
		return found{conditions: []string{there}, body: v + through, list: true}
	}
	c := fmt.Sprintf("c%d", i)
	body := w.emitter.overEntries(v, s.Kind, i) + ".map(" + c + ", " + c + through + ").flatten()"
	return found{conditions: []string{there}, body: body, list: true}
}
