package policy

import (
	"fmt"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// usedBefore reports whether the stored object uses the feature of a unit anywhere, of a feature whose ratchet is InObject; empty for
// others. In lists with more items than are asked for nothing is looked for: that counts as no use.
func (d *draft) usedBefore(u *unit, items int) string {
	f := u.feature
	if f.Spec.Ratchet != v1alpha1.InObject || u.target.WholeVersion {
		return ""
	}
	name := "u" + f.Spec.Gate
	if d.nodes[name] != "" {
		return ref(name)
	}
	var ways []string
	for i := range f.Targets {
		t := &f.Targets[i]
		if t.Group != u.target.Group || t.Resource != u.target.Resource || t.Version != u.target.Version || t.WholeVersion {
			continue
		}
		// The kinds of steps decide how the policy walks a list. They do not decide how it tells items apart.
		way := d.exists(t, "oldObject", 0, "y")
		if s := shapeOf(f, t); s.loop < len(t.Path) && d.pieces {
			list := d.node(true, t.Path[:s.loop])
			way = fmt.Sprintf("%s <= %d && %s", d.count(t.Path, list, s.loop), most(t, items), way)
		}
		ways = append(ways, "("+way+")")
	}
	d.nodes[name] = name
	return d.add(name, or(ways...))
}

// most is how many items of a target are asked for.
func most(t *feature.Target, items int) int {
	if t.MaxItems > 0 {
		return min(items, t.MaxItems)
	}
	return items
}
