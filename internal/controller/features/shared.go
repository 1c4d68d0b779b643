package features

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Two components may gate parts of one resource. That is allowed, and worth a remark in the status of both: a part may be closed
// although this component's settings open it. When one of them changes, the other has to be looked at again.

// findShared finds parts that features of other components gate as well, unless its inputs have not changed. If the result has
// changed, these components become the neighbours of the plan, because their status changes, too.
//
// Features of another component count if they gate a resource that this component gates, or all of them if both have the same
// ConfigMap: their keys may collide.
func (p *planner) findShared(r *remembered, out *plan, resources gated) feature.Findings {
	gates := map[string]bool{}
	for i := range out.features {
		for _, x := range out.features[i].Spec.Parts {
			gates[crdName(x.Group, x.Resource)] = true
		}
	}
	var components []v1alpha1.Component
	var features []v1alpha1.Feature
	var beside []string // those with the same ConfigMap
	var key strings.Builder
	key.WriteString(r.key)
	for _, name := range p.components.GetStore().ListKeys() {
		if name == out.component.Name {
			continue
		}
		list := slices.DeleteFunc(p.featuresOf(name), func(f v1alpha1.Feature) bool {
			return !slices.ContainsFunc(f.Spec.Parts, func(x v1alpha1.Part) bool { return gates[crdName(x.Group, x.Resource)] })
		})
		c := p.componentCopy(name)
		if c == nil || c.DeletionTimestamp != nil {
			continue
		}
		if a, b := out.component.Spec.ConfigMap, c.Spec.ConfigMap; a != nil && b != nil && *a == *b {
			list = p.featuresOf(name) // all their keys are needed
			beside = append(beside, name)
		} else if len(list) == 0 {
			continue
		}
		components, features = append(components, *c), append(features, list...)
	}
	slices.SortFunc(components, func(a, b v1alpha1.Component) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(features, func(a, b v1alpha1.Feature) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(beside)
	var names []string
	for i := range components {
		names = append(names, components[i].Name)
		fmt.Fprintf(&key, " %s %d", components[i].UID, components[i].Generation)
	}
	for i := range features {
		fmt.Fprintf(&key, " %s %d", features[i].UID, features[i].Generation)
	}
	if r.sharedKey == key.String() {
		return r.shared
	}
	day, _ := p.today()
	o := feature.Options{Date: day, Resources: resources.others}
	for _, known := range resources.crds {
		if known.err == nil {
			o.Resources = append(slices.Clip(o.Resources), known.resource)
		}
	}
	before, had := r.shared, r.near
	r.sharedKey, r.near, r.shared = key.String(), names, out.model.SharedWith(components, features, o)
	told := slices.Concat(had, names)
	if slices.Equal(before, r.shared) {
		told = nil
	}
	if !slices.Equal(r.beside, beside) {
		told = slices.Concat(told, r.beside, beside)
	}
	r.beside = beside
	for _, name := range told {
		if !slices.Contains(out.neighbours, name) {
			out.neighbours = append(out.neighbours, name)
		}
	}
	return r.shared
}
