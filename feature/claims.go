package feature

// Which features gate the same value, and do they treat it alike? Paths of equal length meet if each step does: [*]
// meets every name. For example, spec.env[*] of one feature meets spec.env.PATH of another. If one says Drop and the
// other Reject, the API server would do what neither expects, so that is an error. Between components it is a warning,
// since neither can see the other's settings.

import (
	"fmt"
	"slices"

	"sluice.dev/api/v1alpha1"
)

// claim is a target of a feature.
type claim struct {
	f *Feature
	t *Target
}

// claims finds the targets of one resource whose paths may lead to one value: a trie of their paths, in which [*] meets any name.
type claims struct {
	here   []claim
	names  map[string]*claims
	fields []*claims // in the order in which they came
	each   *claims
}

// claimsByResource are the targets of all resources.
type claimsByResource map[groupResource]*claims

// claimsOn returns the targets of the resource of a target. What is added to them stays.
func (by claimsByResource) claimsOn(t *Target) *claims {
	key := groupResource{t.Group, t.Resource}
	if by[key] == nil {
		by[key] = &claims{}
	}
	return by[key]
}

// addClaim adds a target at the end of its path.
func (n *claims) addClaim(path Path, c claim) {
	for _, s := range path {
		var next *claims
		if s.Kind != Field {
			if n.each == nil {
				n.each = &claims{}
			}
			next = n.each
		} else if next = n.names[s.Name]; next == nil {
			if n.names == nil {
				n.names = map[string]*claims{}
			}
			next = &claims{}
			n.names[s.Name] = next
			n.fields = append(n.fields, next)
		}
		n = next
	}
	n.here = append(n.here, c)
}

// visitMeeting calls do for each target that, by its path, may gate the same as t in a version of its resource, as long as do returns true.
// path is the rest of t's path.
func (n *claims) visitMeeting(t *Target, path Path, do func(claim) bool) bool {
	if len(path) == 0 {
		for _, c := range n.here {
			if mayGateSame(c.t, t) && !do(c) {
				return false
			}
		}
		return true
	}
	s, rest := path[0], path[1:]
	if n.each != nil && !n.each.visitMeeting(t, rest, do) {
		return false
	}
	if s.Kind == Field {
		next := n.names[s.Name]
		return next == nil || next.visitMeeting(t, rest, do)
	}
	for _, next := range n.fields {
		if !next.visitMeeting(t, rest, do) {
			return false
		}
	}
	return true
}

// mayGateSame reports whether two targets of a resource, whose steps have equal names or [*], may gate the same value.
func mayGateSame(a, b *Target) bool {
	if a.WholeVersion != b.WholeVersion || a.Version != b.Version && a.Version != "" && b.Version != "" {
		return false
	}
	for i := range a.Path {
		// An item of an array has no name.
		if x, y := a.Path[i].Kind, b.Path[i].Kind; x == Field && y == Items || x == Items && y == Field {
			return false
		}
	}
	return mayOverlap(a, b)
}

// findContradictions finds features that gate the same part and treat it differently.
func (d *definer) findContradictions() {
	by := claimsByResource{}
	for _, f := range d.model.features {
		for i := range f.Targets {
			t := &f.Targets[i]
			if !by.claimsOn(t).visitMeeting(t, t.Path, func(o claim) bool { return d.checkPair(o, claim{f, t}) }) {
				return
			}
			by.claimsOn(t).addClaim(t.Path, claim{f, t})
		}
	}
}

// checkPair checks two targets that meet; it reports whether there is room for more findings.
func (d *definer) checkPair(o, c claim) bool {
	if d.isFull() {
		return false
	}
	f, t := c.f, c.t
	where := fmt.Sprintf("spec.parts[%d]", t.Part)
	what := "it"
	if o.t.Path.String() != t.Path.String() {
		what = "some of this with " + o.t.Path.String()
	}
	switch {
	case o.f == f:
		if o.t.Part != t.Part && o.t.Version == t.Version && o.t.Path.equalPath(t.Path) && sameValues(o.t, t) {
			d.addError(CodeDuplicate, f.Spec.Gate, where, "the feature gates this already, in spec.parts[%d]", o.t.Part)
		}
	case o.f.Spec.WhenDisabled != f.Spec.WhenDisabled:
		d.addError(CodeContradiction, f.Spec.Gate, where, "while it is off this has to be %s, but %s, which also gates %s, says %s", f.Spec.WhenDisabled, o.f.Spec.Gate, what, o.f.Spec.WhenDisabled)
	case o.t.Reset != t.Reset:
		d.addError(CodeContradiction, f.Spec.Gate, where+".resetTo", "%s also gates %s, and does not reset it to the same value", o.f.Spec.Gate, what)
	case o.f.Spec.Ratchet != f.Spec.Ratchet:
		d.addError(CodeContradiction, f.Spec.Gate, where, "the ratchet has to be %s, but %s, which also gates %s, says %s", f.Spec.Ratchet, o.f.Spec.Gate, what, o.f.Spec.Ratchet)
	}
	return true
}

// SharedWith returns an error for each other component that has the same ConfigMap and does not know the keys, and a warning for each
// feature of another component that gates what a part of a feature of the model gates: the two know nothing of each other, and what one
// opens the other may close. Of components and features those of the model itself are passed over, and so are parts of resources that
// no feature of the model gates, and features that were removed. The options are those of [Define]: the resources of the model are
// enough. The findings are sorted like those of Define.
func (m *Model) SharedWith(components []v1alpha1.Component, features []v1alpha1.Feature, o Options) Findings {
	mine := map[groupResource]bool{}
	for _, f := range m.features {
		for i := range f.Targets {
			mine[groupResource{f.Targets[i].Group, f.Targets[i].Resource}] = true
		}
	}
	var near []v1alpha1.Feature
	for i := range features {
		f := features[i] // a copy, with the relevant parts only
		f.Spec.Parts = slices.DeleteFunc(slices.Clone(f.Spec.Parts), func(p v1alpha1.Part) bool { return !mine[groupResource{p.Group, p.Resource}] })
		f.Spec.Requires, f.Spec.ImpliedBy = nil, nil
		if f.Spec.Component != m.name && len(f.Spec.Parts) > 0 {
			near = append(near, f)
		}
	}
	var out findings
	m.checkSharedSettings(components, features, &out)
	if near == nil {
		return out.sortedList()
	}
	for i := range components {
		if components[i].Name == m.name {
			continue
		}
		other, _ := Define(&components[i], near, Options{Date: o.Date, Resources: o.Resources})
		if other.features != nil {
			m.sharedWith(other, &out)
		}
	}
	return out.sortedList()
}

// sharedWith adds a warning for each feature of another component that gates what a feature of the model gates: one for
// each pair of a part and a feature, at the part.
func (m *Model) sharedWith(o *Model, out *findings) {
	by := claimsByResource{}
	for _, f := range o.features {
		if f.Stage == v1alpha1.Removed {
			continue
		}
		for i := range f.Targets {
			by.claimsOn(&f.Targets[i]).addClaim(f.Targets[i].Path, claim{f, &f.Targets[i]})
		}
	}
	for _, f := range m.features {
		if f.Stage == v1alpha1.Removed {
			continue
		}
		for i := range f.Targets {
			t := &f.Targets[i]
			// One warning for each feature, which may gate the same in several parts and versions.
			told := map[*Feature]bool{}
			if !by.claimsOn(t).visitMeeting(t, t.Path, func(c claim) bool {
				if !told[c.f] {
					told[c.f] = true
					out.addWarning(CodeShared, f.Spec.Gate, fmt.Sprintf("spec.parts[%d]", t.Part), "%s of component %q gates this too%s: each of them can close it",
						c.f.Spec.Gate, o.name, disagreementOf(&f.Spec, &c.f.Spec))
				}
				return !out.isFull()
			}) {
				return
			}
		}
	}
}

// disagreementOf says how the other feature of a pair disagrees.
func disagreementOf(mine, other *v1alpha1.FeatureSpec) string {
	switch {
	case mine.WhenDisabled != other.WhenDisabled:
		return fmt.Sprintf(", with whenDisabled %s where this says %s", other.WhenDisabled, mine.WhenDisabled)
	case mine.Ratchet != other.Ratchet:
		return fmt.Sprintf(", with ratchet %s where this says %s", other.Ratchet, mine.Ratchet)
	}
	return ""
}
