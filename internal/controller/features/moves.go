package features

import (
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// A definition may change so that another policy enforces a part, for example when a version gets a schema of its own. If the old
// policy changed at once, the part would be open until the API server has read the new one. This file says which objects must not
// change, and which have to wait for others.

// frozenPolicies returns the names of policies that are not changed: those that enforce features with a definition that has become
// bad.
func (s *session) frozenPolicies(p *plan) map[string]bool {
	var bad []string
	for i := range p.features {
		if gate := p.features[i].Spec.Gate; p.isLeftOut(gate) {
			bad = append(bad, gate)
		}
	}
	out := map[string]bool{}
	if bad == nil {
		return out
	}
	for _, o := range s.madeFor(p.component.Name) {
		if slices.ContainsFunc(gatesOf(o), func(gate string) bool { return slices.Contains(bad, gate) }) {
			out[o.GetName()] = true
		}
	}
	return out
}

// policiesWithoutResource returns the policies for resources and versions that the cluster no longer has and that features still name,
// by name. They stay, so that nothing is open when the resource or the version comes back.
func (s *session) policiesWithoutResource(p *plan) map[string]object {
	out := map[string]object{}
	for _, o := range s.madeFor(p.component.Name) {
		if p.waitsForResource(o) {
			out[o.GetName()] = o
		}
	}
	return out
}

// waitsForResource reports whether a policy is for a resource or a version that the cluster does not have, and enforces a feature that
// names it.
func (p *plan) waitsForResource(o object) bool {
	gates, rule := gatesOf(o), viewOf(o).matches
	if gates == nil || rule == nil || len(rule.ResourceRules) == 0 || len(rule.ResourceRules[0].APIVersions) == 0 {
		return false
	}
	of, version := enforcerOf(o), rule.ResourceRules[0].APIVersions[0]
	resource, _, _ := strings.Cut(of.Resource, "/")
	served, known := p.model.Resource(of.Group, resource)
	gone := p.gated.lacks(of.Group, resource)
	unserved := known && !slices.ContainsFunc(served.Versions, func(v feature.Version) bool { return v.Name == version })
	return slices.ContainsFunc(p.features, func(f v1alpha1.Feature) bool {
		return slices.Contains(gates, f.Spec.Gate) && slices.ContainsFunc(f.Spec.Parts, func(x v1alpha1.Part) bool {
			return x.Group == of.Group && x.Resource == resource && (gone || unserved && slices.Contains(x.Versions, version))
		})
	})
}

// change is an object whose stored form differs from the wanted one.
type change struct{ have, want object }

// cover is the set of gates in versions of a resource that a policy enforces.
type cover struct {
	group, resource string
	versions, gates []string
}

// coverOf returns the cover of a policy; ok is false for another object, or for a policy that enforces no gates.
func coverOf(o object) (c cover, ok bool) {
	m := viewOf(o).matches
	if m == nil || len(m.ResourceRules) != 1 {
		return c, false
	}
	r := &m.ResourceRules[0].Rule
	if len(r.APIGroups) != 1 || len(r.Resources) != 1 {
		return c, false
	}
	c = cover{group: r.APIGroups[0], resource: r.Resources[0], versions: r.APIVersions, gates: gatesOf(o)}
	return c, c.gates != nil
}

// coversGate reports whether a gate is enforced in a version.
func (c *cover) coversGate(gate, version string) bool {
	return slices.Contains(c.gates, gate) && (slices.Contains(c.versions, version) || slices.Contains(c.versions, "*"))
}

// givesPartTo reports whether the wanted policy leaves a part to another one that the stored policy enforces itself.
//
// A policy for all versions gives a part as soon as another one takes the gate in any version.
func (c *change) givesPartTo(other object) bool {
	have, ok := coverOf(c.have)
	want, isPolicy := coverOf(c.want)
	to, takes := coverOf(other)
	if !ok || !takes || have.group != to.group || have.resource != to.resource {
		return false
	}
	for _, gate := range have.gates {
		for _, version := range have.versions {
			anywhere := version == "*" && slices.Contains(to.gates, gate)
			if (to.coversGate(gate, version) || anywhere) && (!isPolicy || !want.coversGate(gate, version)) {
				return true
			}
		}
	}
	return false
}

// inOrder divides changes into those that can be made now, and those that have to wait: a policy gives a part to another one only when
// that one enforces it. additions will be written next, settling were written just now. If policies give parts to each other in a
// cycle, all are changed at once.
func inOrder(additions, settling []object, changes []change) (now, wait []change) {
	for i := range changes {
		c := &changes[i]
		gives := slices.ContainsFunc(additions, c.givesPartTo) || slices.ContainsFunc(settling, c.givesPartTo) ||
			slices.ContainsFunc(changes, func(other change) bool { return other.want != c.want && c.givesPartTo(other.want) })
		if gives {
			wait = append(wait, *c)
		} else {
			now = append(now, *c)
		}
	}
	if len(additions) == 0 && len(settling) == 0 && len(now) == 0 {
		return wait, nil
	}
	return now, wait
}
