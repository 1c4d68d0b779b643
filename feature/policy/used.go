package policy

// Does an object use any gated part at all? The test goes through each list once, whatever the number of gates. For example, it asks which
// of 200 gated fields are among the five keys of spec.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"

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

// [compiler.hasNothingToSay] looks at objects with up to fewItems items in gated lists, and at fewUnits parts at a time.
const fewItems, fewUnits = 100, 4

// hasNothingToSay reports that no policy of a group says anything about the only object that there is to judge, because it uses no part, or open
// parts only. To find that out takes a fraction of the time for the policies, whose costs are measured.
func (c *compiler) hasNothingToSay(ctx context.Context, g *group) bool {
	if c.options.Object == nil || g.whole || c.dropsParts() {
		return false
	}
	run, err := c.newRunner()
	if err != nil {
		return false
	}
	run.object, run.hasParams, run.params = c.options.Object, c.live, map[string]any{"data": c.options.SettingsData}
	holds := func(condition string) bool {
		res := run.compileCondition(condition)
		value, _, err := run.evalProgram(ctx, &res)
		return err != nil || value != types.False
	}
	// The checker of expressions takes time with the square of their length.
	for some := range slices.Chunk(g.units, fewUnits) {
		d := &draft{emitter: newEmitter(c.minor), group: &group{units: some}}
		d.most = fewItems
		for i := range some {
			d.most = min(d.most, some[i].items/max(some[i].shape.countLoops(), 1)) // with too many items an object may be refused that uses nothing
		}
		if !holds(d.usedAtAll()) {
			continue
		}
		if !c.live || g.kind == tells {
			return false
		}
		if q := quickTestOf(c.newGates(d.emitter), d.group); q == nil || holds(q.text) {
			return false
		}
	}
	return true
}

// dropsParts reports whether anything drops parts of the objects of a resource that policies are made for, so that other policies judge objects
// that are not those that were sent.
func (c *compiler) dropsParts() bool {
	return slices.ContainsFunc(c.model.Features(), func(f *feature.Feature) bool {
		return kindOf(f) == drops && slices.ContainsFunc(f.Targets, func(t feature.Target) bool { return !c.leavesOut(&t) })
	})
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
			fields.addField(b, func(name string) string {
				return joinAnd(hasField(v, name), b.to.usedTest(e, memberOf(v, name), outer, depth+1))
			})
		case feature.Entries, feature.Items, feature.Each:
			item, there := e.itemOf(v, b.step.Kind, x), isIterable(v, b.step.Kind)
			ways = append(ways, joinAnd(there, e.fewHold(v, outer, b.step.Kind, depth, ".exists("+x+", "+b.to.usedTest(e, item, outer+v+".size() * ", depth+1)+")")))
		}
	}
	return joinOr(append(ways, fields.fieldTests(v, depth)...)...)
}

// sharedWays are expressions, of which those that differ in names only share one with a table of the names.
type sharedWays struct {
	kinds []*sharedWay
}

type sharedWay struct {
	way    string        // with stand-ins
	first  func() string // the expression for the first names
	fields []string
	table  *nameTable
}

// addWay adds the expression for a part of a feature, which a function writes for the name of its field.
func (s *sharedWays) addWay(u *unit, field string, way func(field string) string) {
	names, ok := namesOf(u.feature, field)
	kind := "" // for no other
	if ok {
		kind = names.withStandIns(way(fieldStandIn))
	}
	i := slices.IndexFunc(s.kinds, func(k *sharedWay) bool { return ok && k.way == kind })
	if i < 0 {
		i, s.kinds = len(s.kinds), append(s.kinds, &sharedWay{kind, func() string { return way(field) }, nil, newNameTable(fieldStandIn, kind)})
	}
	k := s.kinds[i]
	k.fields = append(k.fields, field)
	k.table.addRow(names)
}

// anyOf asks whether the expression holds for any of the names.
func (k *sharedWay) anyOf(row string) string {
	if len(k.fields) == 1 {
		return k.first()
	}
	return k.table.literal() + ".exists(" + row + ", " + fillIn(k.way, k.table.cells(row)) + ")"
}

// fieldWays are expressions about fields of a value.
type fieldWays struct {
	ways    []string // about what is within fields
	singles []singleField
	ends    sharedWays
}

// singleField is a field within which one unit is.
type singleField struct {
	unit       *unit
	name, rest string // the name, and the path behind it
	way        func(name string) string
}

// addField adds the question about a field, which a function writes for a name.
func (f *fieldWays) addField(b *branch, way func(name string) string) {
	if u, rest := b.to.singleUnit(); u != nil {
		f.singles = append(f.singles, singleField{u, b.step.Name, rest.String(), way})
		return
	}
	f.ways = append(f.ways, way(b.step.Name))
}

// addSingles adds the questions about fields with one unit. Where only one has some path within, nothing is shared, and the question is written once:
// to write it with stand-ins on each level would take time exponential in their number.
func (f *fieldWays) addSingles() {
	count := map[string]int{}
	for _, s := range f.singles {
		count[s.rest]++
	}
	for _, s := range f.singles {
		if count[s.rest] == 1 {
			f.ways = append(f.ways, s.way(s.name))
			continue
		}
		f.ends.addWay(s.unit, s.name, s.way)
	}
}

// singleUnit is the unit of a tree that has one, and the path to it; nil for others.
func (n *tree) singleUnit() (*unit, feature.Path) {
	switch {
	case len(n.here) == 1 && len(n.children) == 0:
		return n.here[0], nil
	case len(n.here) == 0 && len(n.children) == 1:
		u, path := n.children[0].to.singleUnit()
		return u, slices.Insert(path, 0, n.children[0].step)
	}
	return nil, nil
}

// manyKeys is up to how many keys of a value are looked up among the gated fields: of more the variables find out. The keys of items of lists are not:
// an item may have any number.
const manyKeys = 1000

// fieldTests asks whether anything holds for a field of a value; nil if nothing is asked. Most objects have few keys, and none of them is
// gated, so the keys are looked up first.
func (f *fieldWays) fieldTests(v string, depth int) []string {
	f.addSingles()
	ways := f.ways
	for _, kind := range f.ends.kinds {
		k := fmt.Sprintf("k%d", depth)
		some := func(ask string) string {
			return fmt.Sprintf("(%[1]s.size() > %[2]d || dyn(%[1]s).exists(%[3]s, %[4]s))", v, manyKeys, k, joinAnd(k+" in "+celStrings(kind.fields), ask))
		}
		switch {
		case len(kind.fields) == 1:
			ways = append(ways, kind.first())
		case !strings.HasPrefix(v, "object"):
			ways = append(ways, kind.anyOf(k))
		case len(kind.table.columns) == 1:
			ways = append(ways, some(fillIn(kind.way, kind.table.cells(k))))
		default:
			ways = append(ways, some("")+" && "+kind.anyOf(k))
		}
	}
	if ways == nil {
		return nil
	}
	return []string{joinAnd(isMap(v), joinOr(ways...))}
}

// fewHold asks whether something holds for an item of a list, or a key of a map, if there are not too many of them; otherwise the
// answer is yes, and the variables find out.
func (e *emitter) fewHold(v, outer string, k feature.StepKind, depth int, through string) string {
	switch {
	case !e.pieces:
		return e.valuesOf(v, k) + through
	case outer != "":
		return fmt.Sprintf("(%s.size() > %d || %s%s.size() > %d || %s)", v, innerLimit, outer, v, e.most, e.valuesOf(v, k)+through)
	}
	c := fmt.Sprintf("c%d", depth)
	return fmt.Sprintf("(%s.size() > %d || %s)", v, e.most, e.overItems(v, k, depth)+".exists("+c+", "+c+through+")")
}
