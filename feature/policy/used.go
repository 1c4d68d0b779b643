package policy

// Does an object use any gated part at all? The test goes through each list once, whatever the number of gates. For example, it asks which
// of 200 gated fields are among the five keys of spec.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/feature"
)

// usedAtAll is the test whether an object uses any part of a group, open or closed, stored or new.
func (d *draft) usedAtAll() string {
	if d.group.whole {
		return ""
	}
	root := &tree{}
	for i := range d.group.units {
		root.addUnit(&d.group.units[i], 0)
	}
	return root.usedTest(d.emitter, "object", "", 0)
}

// tree joins the paths of targets, so that each list is gone through once.
type tree struct {
	here     []*unit
	children []*branch
}

type branch struct {
	step feature.Step
	to   tree
}

func (n *tree) addUnit(u *unit, i int) {
	if i == len(u.target.Path) {
		n.here = append(n.here, u)
		return
	}
	s := u.target.Path[i]
	for _, b := range n.children {
		if b.step.Name == s.Name && b.step.Kind == s.Kind {
			b.to.addUnit(u, i+1)
			return
		}
	}
	b := &branch{step: s}
	n.children = append(n.children, b)
	b.to.addUnit(u, i+1)
}

func (n *tree) usedTest(e *emitter, v, outer string, depth int) string {
	var ways []string
	for _, u := range n.here {
		if way := isUseOf(u.target, v); !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	x := fmt.Sprintf("x%d", depth)
	fields := &fieldWays{}
	for _, b := range n.children {
		switch b.step.Kind {
		case feature.Field:
			fields.addField(b, joinAnd(hasField(v, b.step.Name), b.to.usedTest(e, memberOf(v, b.step.Name), outer, depth+1)))
		case feature.Entries, feature.Items, feature.Each:
			item, there := loopOf(v, b.step.Kind, x)
			ways = append(ways, joinAnd(there, e.fewHold(v, outer, b.step.Kind, depth, ".exists("+x+", "+b.to.usedTest(e, item, outer+v+".size() * ", depth+1)+")")))
		}
	}
	return joinOr(append(ways, fields.fieldTests(v, depth)...)...)
}

// fieldWays are expressions about fields of a value.
type fieldWays struct {
	names, ends, others []string // names of fields at which parts end, the tests for them, and for other fields
}

func (f *fieldWays) addField(b *branch, way string) {
	if len(b.to.children) > 0 {
		f.others = append(f.others, way)
		return
	}
	f.names, f.ends = append(f.names, b.step.Name), append(f.ends, way)
}

const (
	// manyFields is the number of fields from which the keys of a value are checked before the single fields: most objects have few keys,
	// and none of them is gated.
	manyFields = 8
	// manyKeys is up to how many keys that is done; of more the variables find out.
	manyKeys = 1000
)

// fieldTests asks whether anything holds for a field of a value; nil if nothing is asked.
func (f *fieldWays) fieldTests(v string, depth int) []string {
	ways := f.others
	switch {
	case len(f.names) >= manyFields:
		k := fmt.Sprintf("k%d", depth)
		order := make([]int, len(f.names))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(f.names[a], f.names[b]) })
		ways = append(ways, fmt.Sprintf("(%s.size() > %d || %s.exists(%s, %s in %s && %s))", v, manyKeys, v, k, k, celStrings(f.names), f.searchField(k, order)))
	default:
		ways = append(ways, f.ends...)
	}
	if ways == nil {
		return nil
	}
	return []string{joinAnd(isMap(v), joinOr(ways...))}
}

// searchField writes the test for the field with a name, with a binary search.
func (f *fieldWays) searchField(k string, order []int) string {
	if len(order) == 1 {
		return "(" + f.ends[order[0]] + ")"
	}
	half := len(order) / 2
	return fmt.Sprintf("(%s < %s ? %s : %s)", k, celString(f.names[order[half]]), f.searchField(k, order[:half]), f.searchField(k, order[half:]))
}

// fewHold asks whether something holds for an item of a list, or a key of a map, if there are not too many of them; otherwise the
// answer is yes, and the variables find out.
func (e *emitter) fewHold(v, outer string, k feature.StepKind, depth int, through string) string {
	switch {
	case !e.pieces:
		return v + through
	case outer != "":
		return fmt.Sprintf("(%s.size() > %d || %s%s.size() > %d || %s)", v, innerLimit, outer, v, e.most, loopRange(v, k)+through)
	}
	c := fmt.Sprintf("c%d", depth)
	return fmt.Sprintf("(%s.size() > %d || %s)", v, e.most, overPieces(v, k, depth, ".exists("+c+", "+c+through+")"))
}
