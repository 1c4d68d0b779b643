package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/apply/kapprules"
)

// Users order objects by groups: an object is in groups, and comes after, or before, all objects of other groups. This file finds a
// stage and a step for each item that fits all of these wishes, or names the circle if none does. For example, a Job in group
// migrations and a Deployment after migrations make two steps, and the Deployment waits until the Job is complete.

// Annotations on an object that decide when it is written.
const (
	// AnnotationGroup lists the groups that the object is in, separated by commas.
	AnnotationGroup = "sluice.dev/group"
	// AnnotationAfter lists groups. The object is written when all objects of these groups are written and ready.
	AnnotationAfter = "sluice.dev/after"

	// kapp's annotations. Each may have a suffix after a dot, so that an object can have several.
	kappGroup = "kapp.k14s.io/change-group"
	kappRule  = "kapp.k14s.io/change-rule"
)

// orderOf reads the order of an object from its annotations and the bindings of kapp's configuration. notDone has the parts that
// Sluice does not carry out.
func orderOf(content map[string]any, rules *kapprules.Rules) (o ordering, notDone []string, err error) {
	annotations := annotationsOf(content)
	var texts []string
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		value, _ := annotations[k].(string)
		switch {
		case k == AnnotationGroup:
			o.groups = append(o.groups, splitNames(value)...)
		case k == AnnotationAfter:
			o.after = append(o.after, splitNames(value)...)
		case k == kappGroup || strings.HasPrefix(k, kappGroup+"."):
			o.groups = append(o.groups, expandGroupName(value, content))
		case k == kappRule || strings.HasPrefix(k, kappRule+"."):
			texts = append(texts, value)
		}
	}
	for _, g := range rules.Groups {
		if g.Matchers.Match(content) {
			o.groups = append(o.groups, expandGroupName(g.Name, content))
		}
	}
	for _, b := range rules.Orders {
		if b.Matchers.Match(content) {
			texts = append(texts, b.Rules...)
		}
	}
	for _, text := range texts {
		r, err := kapprules.ParseOrder(text)
		if err != nil {
			return o, nil, err
		}
		r.Group = expandGroupName(r.Group, content)
		if why := r.NotDone(); why != "" {
			notDone = append(notDone, why)
		} else if r.Before {
			o.before = append(o.before, r.Group)
		} else {
			o.after = append(o.after, r.Group)
		}
	}
	return o, notDone, nil
}

// expandGroupName expands {name}, {kind} and the like in a group's name (kapp pkg/kapp/diffgraph/change_group_name.go).
func expandGroupName(name string, content map[string]any) string {
	if !strings.Contains(name, "{") {
		return name
	}
	meta := metadataOf(content)
	text := func(m map[string]any, key string) string {
		s, _ := m[key].(string)
		return s
	}
	spec, _ := content["spec"].(map[string]any)
	crd, _ := spec["names"].(map[string]any)
	return strings.NewReplacer(
		"{api-group}", kindOf(content).Group, "{kind}", text(content, "kind"), "{name}", text(meta, "name"), "{namespace}", text(meta, "namespace"),
		"{crd-group}", text(spec, "group"), "{crd-kind}", text(crd, "kind"),
	).Replace(name)
}

// node is an item, or one end of a group: all items in it, or all items before it. Groups have their own nodes to save edges: each
// item of one group may be after each item of another.
type node struct {
	item  *Item
	after []*node
	stage Stage
	step  int
	state int
}

// The state of a node during the search.
const (
	open = 1 + iota
	placed
)

// arrangeSteps moves items behind the items that they come after: into a later stage, or a later step of their own stage. It never
// moves namespaces and definitions, because all other objects need them.
func (p *Plan) arrangeSteps() error {
	nodes, err := p.orderGraph()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := n.placeNode(nil); err != nil {
			return err
		}
	}
	return nil
}

// orderGraph has a node for each item. It is empty if no item says anything about its order.
//
// Each group that somebody comes after has a node of its own behind all its members, and each group that somebody comes before has
// one in front of them. So 100 items after a group of 100 make 200 edges and not 10,000.
func (p *Plan) orderGraph() ([]*node, error) {
	if !slices.ContainsFunc(p.Items, func(it Item) bool { return len(it.order.after)+len(it.order.before) > 0 }) {
		return nil, nil
	}
	nodes, members := make([]*node, len(p.Items)), map[string][]*node{}
	for i := range p.Items {
		nodes[i] = &node{item: &p.Items[i]}
		for _, g := range p.Items[i].order.groups {
			members[g] = append(members[g], nodes[i])
		}
	}
	// An item may come after the other members of its own group. Two items of a group that both do so are a cycle.
	others := func(n *node, group string, alone map[string]*node) ([]*node, error) {
		if first := alone[group]; first != nil && first != n {
			return nil, cycleError([]*node{n, first, n})
		}
		alone[group] = n
		return slices.DeleteFunc(slices.Clone(members[group]), func(m *node) bool { return m == n }), nil
	}
	ends, starts, afterOwn, beforeOwn := map[string]*node{}, map[string]*node{}, map[string]*node{}, map[string]*node{}
	for _, n := range nodes {
		for _, g := range n.item.order.after {
			switch {
			case slices.Contains(n.item.order.groups, g):
				list, err := others(n, g, afterOwn)
				if err != nil {
					return nil, err
				}
				n.after = append(n.after, list...)
				continue
			case ends[g] == nil:
				ends[g] = &node{after: members[g]}
			}
			n.after = append(n.after, ends[g])
		}
		for _, g := range n.item.order.before {
			switch {
			case slices.Contains(n.item.order.groups, g):
				list, err := others(n, g, beforeOwn)
				if err != nil {
					return nil, err
				}
				for _, m := range list {
					m.after = append(m.after, n)
				}
				continue
			case starts[g] == nil:
				starts[g] = &node{}
				for _, m := range members[g] {
					m.after = append(m.after, starts[g])
				}
			}
			starts[g].after = append(starts[g].after, n)
		}
	}
	return nodes, nil
}

// placeNode finds the stage and the step of a node. way is the path of nodes that led to it.
//
// It is a depth-first search. A node that is open when it is reached again closes a circle. The nodes of groups take no step: only
// items do.
func (n *node) placeNode(way []*node) error {
	switch n.state {
	case placed:
		return nil
	case open:
		return cycleError(append(way[slices.Index(way, n):], n))
	}
	n.state = open
	way = append(way, n)
	if n.item != nil {
		n.stage, n.step = n.item.Stage, n.item.step
	}
	for _, other := range n.after {
		if err := other.placeNode(way); err != nil {
			return err
		}
		switch later := cmp.Or(cmp.Compare(other.stage, n.stage), cmp.Compare(other.step, n.step)); {
		case n.item == nil && later > 0:
			n.stage, n.step = other.stage, other.step
		case n.item != nil && later >= 0 && (other.item != nil || len(other.after) > 0):
			n.stage, n.step = other.stage, other.step+1
		}
	}
	n.state = placed
	if n.item == nil {
		return nil
	}
	if n.item.Stage == StageDefinitions && n.stage != StageDefinitions {
		return n.item.wrapError(errors.New("has to come after objects that need namespaces and definitions, but these come first"))
	}
	n.item.Stage, n.item.step = n.stage, n.step
	return nil
}

// cycleError is the error for a cycle of nodes.
func cycleError(way []*node) error {
	var items []*Item
	for _, n := range way {
		if n.item != nil {
			items = append(items, n.item)
		}
	}
	if items[0] != items[len(items)-1] { // the path began in a group
		items = append(items, items[0])
	}
	var names []string
	for _, it := range items {
		names = append(names, it.String())
	}
	return items[0].wrapError(fmt.Errorf("the order of objects is a circle: %s", strings.Join(names, " after ")))
}

// stepsOf returns the steps of a stage, in their order; at least one.
func (p *Plan) stepsOf(s Stage) []int {
	out := []int{0}
	for it := range eachOf(p.Items) {
		if it.Stage == s && !slices.Contains(out, it.step) {
			out = append(out, it.step)
		}
	}
	slices.Sort(out)
	return out
}

// waitForPredecessors waits until the items that a step comes after are ready.
func (a *Applier) waitForPredecessors(ctx context.Context, p *Plan, s Stage, step int) error {
	after, in := map[string]bool{}, map[string]bool{}
	now := func(it *Item) bool { return it.Stage == s && it.step == step }
	for it := range eachOf(p.Items) {
		if !now(it) || it.Action == Unchanged {
			continue
		}
		for _, g := range it.order.after {
			after[g] = true
		}
		for _, g := range it.order.groups {
			in[g] = true
		}
	}
	var list []*Item
	for it := range eachOf(p.Items) {
		before := slices.ContainsFunc(it.order.groups, func(g string) bool { return after[g] }) || slices.ContainsFunc(it.order.before, func(g string) bool { return in[g] })
		if before && !now(it) && it.now.live != nil {
			list = append(list, it)
		}
	}
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := a.withPatience(ctx, p)
	defer cancel()
	return asErrWaiting(ctx, a.waitFor(ctx, list))
}
