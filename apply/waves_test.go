package apply

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// isAfter returns what the annotations mean, object by object.
func isAfter(it, other *Item) bool {
	in := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(g string) bool { return slices.Contains(b, g) })
	}
	return it != other && (in(it.order.after, other.order.groups) || in(other.order.before, it.order.groups))
}

func TestTheOrderOfObjectsHoldsOrIsACircle(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	some := func() []string {
		var out []string
		for _, g := range []string{"a", "b", "c"} {
			if r.IntN(5) == 0 {
				out = append(out, g)
			}
		}
		return out
	}
	circles, orders := 0, 0
	for range 3000 {
		p := &Plan{}
		for i := range 1 + r.IntN(6) {
			stage := []Stage{StageDefinitions, StageSettings, StageObjects}[r.IntN(3)]
			p.Items = append(p.Items, Item{Object: Object{ID: ID{Name: fmt.Sprint(i)}}, Stage: stage, order: ordering{some(), some(), some()}})
		}
		was := slices.Clone(p.Items)
		// An item that can be placed after all of its predecessors is in no cycle.
		var in []*Item
		for grew := true; grew; {
			grew = false
			for i := range p.Items {
				it := &p.Items[i]
				waits := slices.ContainsFunc(p.Items, func(o Item) bool {
					return isAfter(it, &p.Items[o.number()]) && !slices.Contains(in, &p.Items[o.number()])
				})
				if !waits && !slices.Contains(in, it) {
					in, grew = append(in, it), true
				}
			}
		}
		circle := len(in) < len(p.Items)
		err := p.arrangeSteps()
		if isCircle := err != nil && strings.Contains(err.Error(), "circle"); isCircle != circle && (err == nil || isCircle) {
			t.Fatalf("circle %v: %v\n%+v", circle, err, was)
		}
		if err != nil {
			circles++
			continue
		}
		orders++
		for i := range p.Items {
			it := &p.Items[i]
			if it.Stage < was[i].Stage {
				t.Fatalf("%s came forward: %+v", it.ID, was)
			}
			for j := range p.Items {
				if o := &p.Items[j]; isAfter(it, o) && cmp.Or(cmp.Compare(it.Stage, o.Stage), cmp.Compare(it.step, o.step)) <= 0 {
					t.Fatalf("%s is not after %s: %+v", it.Name, o.Name, was)
				}
			}
		}
	}
	if circles < 100 || orders < 100 {
		t.Errorf("%d circles and %d orders show little", circles, orders)
	}
}

// number is the item's place in the plan of the test above.
func (i *Item) number() int {
	n := 0
	_, _ = fmt.Sscan(i.Name, &n)
	return n
}

// Each of many objects may be after each of many others; what that takes grows with their sum.
func TestTheOrderOfManyObjectsIsKeptByGroup(t *testing.T) {
	const many = 5000
	p := &Plan{}
	for i := range many {
		first := Item{Object: Object{ID: ID{Name: fmt.Sprint(i)}}, Stage: StageObjects, order: ordering{groups: []string{"first"}, before: []string{"last"}}}
		last := Item{Object: Object{ID: ID{Name: fmt.Sprint(many + i)}}, Stage: StageObjects, order: ordering{groups: []string{"last"}, after: []string{"first"}}}
		p.Items = append(p.Items, first, last)
	}
	nodes, err := p.orderGraph()
	if err != nil {
		t.Fatal(err)
	}
	seen, edges := map[*node]bool{}, 0
	var count func(n *node)
	count = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		edges += len(n.after)
		for _, o := range n.after {
			count(o)
		}
	}
	for _, n := range nodes {
		count(n)
	}
	if edges > 6*many {
		t.Errorf("%d edges for %d objects", edges, 2*many)
	}
	if err := p.arrangeSteps(); err != nil || len(p.stepsOf(StageObjects)) != 2 {
		t.Errorf("%v, %v", p.stepsOf(StageObjects), err)
	}
}
