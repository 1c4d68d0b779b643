package policy

// What if a list has more items than an expression may go through? The policy first counts the items and looks for the name of the gated
// part in the text of the list. For example, 30,000 tasks without a timeout pass, and with one the object is refused with the number of
// items in place of their names.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/feature"
)

// matchLimit is the number of items that are searched to find out whether a policy is needed; with more items, it is. For a list within
// another one the limit is lower, because it is searched in one piece.
const (
	matchLimit = 20_000
	innerLimit = 1000
)

// withinCostLimit keeps the expression for the places in a list or map within the API server's cost limit. An unchanged list has no places. A
// list with too many items has none either, if the name of the gated part does not occur in its text. Otherwise it is refused, and the
// message has the number of items instead of places.
func (w *walker) withinCostLimit(places, none string) string {
	if !w.emitter.pieces || w.loop == len(w.target.Path) {
		return places
	}
	node, old := w.emitter.valueAt(false, w.target.Path[:w.loop]), w.emitter.valueAt(true, w.target.Path[:w.loop])
	count := w.emitter.totalItems(w.target.Path, node, w.loop)
	otherwise := w.tooMany("")
	if may := w.mayContainPart(node); may != "true" {
		otherwise = may + " ? " + otherwise + " : " + none
	}
	return fmt.Sprintf("%s && %s == %s ? %s : %s <= %d ? (%s) : %s", isSet(old), old, node, none, count, w.limit, places, otherwise)
}

// tooMany stands for places that would cost too much to find. Then no patch is possible, and the API server reports a missing key with
// this name.
func (w *walker) tooMany(beside string) string {
	path := &pathText{}
	for _, s := range w.target.Path[:w.loop] {
		path = path.withField(s.Name)
	}
	text := fmt.Sprintf("%s (more than %d items%s, too many to tell which)", path.text, w.limit, beside)
	if w.pointer {
		return "[{'': ''}[" + celString(text+" cannot be dropped") + "]]"
	}
	return celString(text)
}

// totalItems returns how many items and entries there are in the loops of a path, which targets with the same loops share.
func (e *emitter) totalItems(path feature.Path, v string, loop int) string {
	last := len(path)
	for path[last-1].Kind == feature.Field {
		last--
	}
	key := fmt.Sprintf("#%v", path[:last])
	if e.nodes[key] == "" {
		e.nodes[key] = fmt.Sprintf("t%d", len(e.nodes)+1)
		e.addVariable(e.nodes[key], e.countItems(path, v, loop))
	}
	return variableRef(e.nodes[key])
}

// countItems writes how many items and entries there are in the loops of a path from a step on. If there are too many in one of
// them those within are not counted.
func (e *emitter) countItems(path feature.Path, v string, i int) string {
	x, c := fmt.Sprintf("x%d", i), fmt.Sprintf("c%d", i)
	item, is := e.itemOf(v, path[i].Kind, x), isIterable(v, path[i].Kind)
	next := i + 1
	for next < len(path) && path[next].Kind == feature.Field {
		next++
	}
	if next == len(path) {
		return fmt.Sprintf("(%s ? %s.size() : 0)", is, v)
	}
	var there []string
	for _, s := range path[i+1 : next] {
		there = append(there, isMap(item), hasField(item, s.Name))
		item = memberOf(item, s.Name)
	}
	there = append(there, "true")
	within := e.overItems(v, path[i].Kind, i) + ".map(" + c + ", " + c + ".map(" + x + ", " + joinAnd(there...) + " ? " + e.countItems(path, item, next) + " : 0).sum()).sum()"
	return fmt.Sprintf("(%s ? %s.size() + (%s.size() > %d ? 0 : %s) : 0)", is, v, v, matchLimit, within)
}

// mayContainPart writes the test whether a value may contain the gated part: its name, or one of the values. It is cheap, because it searches
// the value as text.
func (w *walker) mayContainPart(v string) string {
	t := w.target
	var words []string
	switch last := t.Path[len(t.Path)-1]; {
	case t.Values != nil && last.Kind != feature.Field:
		words = t.Values
	case last.Kind == feature.Field:
		words = []string{last.Name}
	default:
		return "true"
	}
	ways := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return "true" // it may be written in another way
		}
		ways[i] = w.emitter.asText(v) + ".contains(" + celString(word) + ")"
	}
	return joinOr(ways...)
}

// asText returns a value as text, which targets in the same list share.
func (e *emitter) asText(v string) string {
	text := "'%s'.format([" + v + "])"
	if !isVariable(v) {
		return text
	}
	key := "%" + v
	if e.nodes[key] == "" {
		e.nodes[key] = fmt.Sprintf("w%d", len(e.nodes)+1)
		e.addVariable(e.nodes[key], text)
	}
	return variableRef(e.nodes[key])
}

// anyFieldChanged writes the test whether any field of the object at the beginning of a target's path has changed.
func (d *draft) anyFieldChanged() string {
	var ways []string
	for i := range d.group.units {
		name := d.group.units[i].target.Path[0].Name
		way := "!(" + joinAnd(hasField("oldObject", name), hasField("object", name), memberOf("oldObject", name)+" == "+memberOf("object", name)) + ")"
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	return "(!(" + isMap("oldObject") + ") || " + joinOr(ways...) + ")"
}
