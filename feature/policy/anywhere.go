package policy

// Does the stored object use the feature anywhere? A feature with the ratchet InObject allows more uses then. For example, an object with
// one task that has a timeout may get a second one.

import (
	"fmt"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// usedBefore writes the test whether the stored object uses the feature of a unit anywhere, if the feature's ratchet is InObject; empty
// for others. It does not search lists with more items than the limit: they count as without a use.
func (d *draft) usedBefore(u *unit, items int) string {
	f := u.feature
	if f.Spec.Ratchet != v1alpha1.InObject || u.target.WholeVersion {
		return ""
	}
	name := "u" + f.Spec.Gate
	if d.nodes[name] != "" {
		return variableRef(name)
	}
	var ways []string
	for i := range f.Targets {
		t := &f.Targets[i]
		if t.Group != u.target.Group || t.Resource != u.target.Resource || t.Version != u.target.Version || t.WholeVersion {
			continue
		}
		// The kinds of steps decide how the policy walks a list, not how it identifies items.
		way := d.existsUse(t, "oldObject", 0, "y")
		if s := shapeOf(f, t); s.loop < len(t.Path) && d.pieces {
			list := d.valueAt(true, t.Path[:s.loop])
			way = fmt.Sprintf("%s <= %d && %s", d.countItems(t.Path, list, s.loop), searchLimitOf(t, items), way)
		}
		ways = append(ways, "("+way+")")
	}
	d.nodes[name] = name
	return d.addVariable(name, joinOr(ways...))
}

// searchLimitOf is the limit of items of a target that are searched.
func searchLimitOf(t *feature.Target, items int) int {
	if t.MaxItems > 0 {
		return min(items, t.MaxItems)
	}
	return items
}
