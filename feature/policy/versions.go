package policy

// Which policy judges a write in a version that the features do not name? For example, a v1alpha1 object that a webhook converts to v1 is
// judged as v1.

import (
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"sluice.dev/feature"
)

// otherVersions makes policies judge writes in unknown versions, and, if a webhook converts between versions, in those that no part of
// a feature names: the API server converts such an object to a version of the policy first (matchPolicy Equivalent). Of the versions of
// a feature it is the one in which objects are stored, or else the first.
func (c *compiler) otherVersions() {
	for i := range c.set.Validating {
		s := &c.set.Validating[i].Spec
		c.judgeOthers(c.set.Validating[i].Name, s.MatchConstraints, &s.MatchConditions)
	}
	for i := range c.set.Mutating {
		s := &c.set.Mutating[i].Spec
		c.judgeOthers(c.set.Mutating[i].Name, s.MatchConstraints, &s.MatchConditions)
	}
}

// judgeOthers lets a policy judge writes in versions that it does not name, after a conversion by the API
// server. A match condition leaves out the versions that another policy judges as they are.
func (c *compiler) judgeOthers(name string, match *admissionregistrationv1.MatchResources, conditions *[]admissionregistrationv1.MatchCondition) {
	g := c.groupOf[name]
	if g == nil || g.whole {
		return
	}
	versions := match.ResourceRules[0].APIVersions
	var elsewhere []string
	judges := false
	for i := range g.units {
		home, others := elsewhereJudged(c.model, g.units[i].feature, g.apiGroup, g.resource)
		if !slices.Contains(versions, home) {
			continue
		}
		if !judges {
			elsewhere, judges = others, true
			continue
		}
		elsewhere = slices.DeleteFunc(slices.Clone(elsewhere), func(v string) bool { return !slices.Contains(others, v) })
	}
	if !judges {
		return
	}
	match.MatchPolicy = new(admissionregistrationv1.Equivalent)
	elsewhere = slices.DeleteFunc(slices.Clone(elsewhere), func(v string) bool { return slices.Contains(versions, v) })
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		*conditions = append([]admissionregistrationv1.MatchCondition{{Name: "version", Expression: "!(request.requestResource.version in " + celStrings(elsewhere) + ")"}}, *conditions...)
	}
}

// ElsewhereJudged returns the versions of a resource in which writes are judged as they are, or not at all: those of a feature's parts and,
// unless a webhook converts, those that the parts leave out. Objects of others are judged in one of the former.
func ElsewhereJudged(m *feature.Model, f *feature.Feature, group, resource string) []string {
	home, others := elsewhereJudged(m, f, group, resource)
	if home == "" {
		return others
	}
	return append(others, home)
}

// elsewhereJudged returns the version in which such objects are judged, and the versions of the others besides. home is empty if no part
// of the feature names a version of the resource, but for whole versions. Versions that are not known may be converted: those of
// Kubernetes' own resources are.
func elsewhereJudged(m *feature.Model, f *feature.Feature, group, resource string) (home string, others []string) {
	r, ok := m.Resource(group, resource)
	covered := map[string]bool{}
	for i := range f.Targets {
		t := &f.Targets[i]
		if t.Group != group || t.Resource != resource || t.WholeVersion || t.Version == "" {
			continue
		}
		if covered[t.Version] = true; home == "" || t.Version == r.Stored {
			home = t.Version
		}
	}
	if !ok || r.Versions == nil {
		delete(covered, home)
		return home, slices.Sorted(maps.Keys(covered))
	}
	for _, v := range r.Versions {
		if v.Name != home && (covered[v.Name] || !r.Converted) {
			others = append(others, v.Name)
		}
	}
	return home, others
}
