package contain

// Which objects tell two rules apart that the solver does not understand? Values drawn over the constants of both rules, in all places that the
// rules read at the same time. For example, of self.i + self.j == 5 and self.i * 2 != 4 an object with i: 2 and j: 3.
//
// The draws are the last resort of a search: the solver and the special cases of probe.go have found nothing. Each
// object is cheap to make and is judged by the API server's code like any other candidate. The seed depends on the
// rule alone, so the same question draws the same objects on every machine.

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
)

// maxDrawn bounds the objects that are drawn for a rule: of 9,000 pairs of rules over strings, numbers and lists 1,500 leave few undecided that
// more would decide.
const maxDrawn = 1_500

// drawPlace is a place that rules read: what they compare it with, and the places below it by the steps of a [celrule.Hint].
type drawPlace struct {
	values []any
	sizes  []int64
	below  map[string]*drawPlace
}

// drawer draws values for the places of rules. Values of one object depend on each other: a rule may ask for a sum, a join or an equality.
type drawer struct {
	*rand.Rand
	numbers, usedNumbers []int64
	texts, usedTexts     []string
}

// drawnCandidates returns objects with drawn values at the places that the rule of p and the old rules beside it read.
func (s *search) drawnCandidates(p *pending) []any {
	if p.rule == "" || p.old.kind != declared {
		return nil
	}
	d := &drawer{Rand: rand.New(rand.NewPCG(uint64(len(p.rule)), 1)), numbers: []int64{0, 1, 2}, texts: []string{"a"}} //nolint:gosec // the same objects each time
	places := d.placesOf(s.hintsFor(p))
	if len(places.below) == 0 && len(places.values) == 0 {
		return nil
	}
	out := make([]any, 0, maxDrawn)
	for i := range maxDrawn {
		d.usedNumbers, d.usedTexts = nil, nil
		out = append(out, replacedAt(p.models[i%len(p.models)], p.path, func(v any) any { return d.drawValue(p.old.node, places, v) }))
	}
	return out
}

// placesOf returns the places of hints as a tree, and takes over their constants.
func (d *drawer) placesOf(hints []celrule.Hint) *drawPlace {
	root := &drawPlace{}
	for _, h := range hints {
		at := root
		for _, name := range h.Path {
			if at.below == nil {
				at.below = map[string]*drawPlace{}
			}
			if at.below[name] == nil {
				at.below[name] = &drawPlace{}
			}
			at = at.below[name]
		}
		at.values, at.sizes = append(at.values, h.Values...), append(at.sizes, h.Sizes...)
		for _, v := range h.Values {
			switch v := v.(type) {
			case int64:
				d.numbers = append(d.numbers, v)
			case float64:
				d.numbers = append(d.numbers, int64(v))
			case string:
				d.texts = append(d.texts, v)
			}
		}
	}
	return root
}

// drawValue draws a value for a place; was is the value that it had.
func (d *drawer) drawValue(n *schema.Node, at *drawPlace, was any) any {
	switch {
	case at == nil || n == nil:
		return was
	case len(at.values) > 0 && d.IntN(3) == 0:
		return d.noted(at.values[d.IntN(len(at.values))])
	case n.Type == "integer":
		return d.noted(d.drawNumber())
	case n.Type == "number":
		return float64(d.drawNumber()) / 2
	case n.Type == "string":
		return d.noted(d.drawText())
	case n.Type == "array":
		return d.drawList(n, at, was)
	case len(n.Properties) > 0:
		return d.drawFields(n, at, was)
	case n.Additional != nil:
		return d.drawMap(n, at, was)
	case len(at.values) > 0:
		return at.values[d.IntN(len(at.values))]
	}
	return was
}

// noted remembers a value for others of the same object.
func (d *drawer) noted(v any) any {
	switch v := v.(type) {
	case int64:
		d.usedNumbers = append(d.usedNumbers, v)
	case string:
		d.usedTexts = append(d.usedTexts, v)
	}
	return v
}

// drawNumber draws a constant of the rules, a number that the object already has, or what joins the two: a rule about
// a sum, a difference or a product is broken by numbers that depend on each other. One in seven is any small number.
func (d *drawer) drawNumber() int64 {
	c := d.numbers[d.IntN(len(d.numbers))]
	used := c
	if len(d.usedNumbers) > 0 {
		used = d.usedNumbers[d.IntN(len(d.usedNumbers))]
	}
	switch d.IntN(7) {
	case 0:
		return c
	case 1:
		return c * int64(d.IntN(4))
	case 2:
		return c - used
	case 3:
		return used - c
	case 4:
		return used
	case 5:
		return c + used
	}
	return int64(d.IntN(24) - 8)
}

// drawText draws a constant of the rules, a text that the object already has, or a part or a join of such texts, for
// rules that cut, join or compare them. Cuts may fall inside a character, so the rest of it is dropped.
func (d *drawer) drawText() string {
	c, more := d.texts[d.IntN(len(d.texts))], d.texts[d.IntN(len(d.texts))]
	used := c
	if len(d.usedTexts) > 0 {
		used = d.usedTexts[d.IntN(len(d.usedTexts))]
	}
	switch d.IntN(7) {
	case 0:
		return c
	case 1:
		return c + more
	case 2:
		return strings.TrimPrefix(c, used)
	case 3:
		return used
	case 4:
		return strings.ToValidUTF8(c[d.IntN(len(c)+1):], "")
	case 5:
		return strings.ToValidUTF8(c[:d.IntN(len(c)+1)], "")
	}
	return strings.Repeat("z", d.IntN(8)) + c
}

// drawSize draws the number of items of a list or of keys of a map: one of the sizes that the rules mention, or up to
// four.
func (d *drawer) drawSize(at *drawPlace) int {
	if n := d.IntN(2 * (1 + len(at.sizes))); n < len(at.sizes) {
		return int(min(at.sizes[n], maxDrawnItems))
	}
	return d.IntN(5)
}

// maxDrawnItems bounds the items of a drawn list.
const maxDrawnItems = 32

// drawList draws a list. The item that the list had is the pattern for items of which the rules say nothing. A fourth
// of the lists repeat one item, with the last one different, because rules ask whether items are equal.
func (d *drawer) drawList(n *schema.Node, at *drawPlace, was any) any {
	var first any
	if list, ok := was.([]any); ok && len(list) > 0 {
		first = list[0]
	}
	items := at.below[celrule.Items]
	if items == nil && first == nil && len(at.values) > 0 {
		return at.values[d.IntN(len(at.values))]
	}
	out := []any{}
	for range d.drawSize(at) {
		if v := d.drawValue(n.Items, items, first); v != nil {
			out = append(out, v)
		}
	}
	if d.IntN(4) == 0 && len(out) > 0 { // a list of one value, or one that another value ends
		for i := range out[:len(out)-1] {
			out[i] = out[0]
		}
	}
	return out
}

// drawFields draws the fields of an object that the rules read, and keeps the others. It leaves out a field that is
// not required one time in eight. It goes through the names in order, so that the same rule draws the same objects on
// each machine.
func (d *drawer) drawFields(n *schema.Node, at *drawPlace, was any) any {
	old, _ := was.(map[string]any)
	out := maps.Clone(old)
	if out == nil {
		out = map[string]any{}
	}
	for _, name := range slices.Sorted(maps.Keys(at.below)) {
		switch child := n.Property(name); {
		case child == nil:
		case d.IntN(8) == 0 && !slices.Contains(n.Required, name):
			delete(out, name)
		default:
			if v := d.drawValue(child, at.below[name], out[name]); v != nil {
				out[name] = v
			}
		}
	}
	return out
}

// drawMap draws a map with new keys. The value of its first key, in the order of the keys, is the pattern for values
// of which the rules say nothing.
func (d *drawer) drawMap(n *schema.Node, at *drawPlace, was any) any {
	old, _ := was.(map[string]any)
	var first any
	for _, name := range slices.Sorted(maps.Keys(old)) {
		first = old[name]
		break
	}
	out := map[string]any{}
	for range d.drawSize(at) {
		key, _ := d.drawValue(&schema.Node{Type: "string"}, at.below[celrule.Keys], d.drawText()).(string)
		if v := d.drawValue(n.Additional, at.below[celrule.Values], first); v != nil {
			out[key] = v
		}
	}
	return out
}

// replacedAt returns v with another value at the path, at the first item and the first key where the path leads to all of them.
func replacedAt(v any, path []walkStep, f func(any) any) any {
	if len(path) == 0 {
		return f(v)
	}
	switch v := v.(type) {
	case map[string]any:
		name := path[0].Name
		if path[0].Kind == AnyKey {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if name = key; !slices.Contains(path[0].except, key) {
					break
				}
			}
		}
		out := maps.Clone(v)
		out[name] = replacedAt(v[name], path[1:], f)
		return out
	case []any:
		if len(v) > 0 {
			out := slices.Clone(v)
			out[0] = replacedAt(v[0], path[1:], f)
			return out
		}
	}
	return v
}
