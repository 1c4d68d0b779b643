package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
	"sluice.dev/feature/policy/simulate"
	"sluice.dev/feature/skew"
	"sluice.dev/internal/brief"
)

// What does the API server enforce now, and how does that differ from the plan? Objects that could not be written or deleted enforce
// an earlier state. The status names them, and the check for skew asks what they make of the present settings. For example, a policy
// that still refuses a part whose feature is open by now makes the feature disagree with its settings.

var errFrozen = errors.New("it stays as it was, because another feature that it enforces has errors")

// observeStanding finds the differences from the wanted state.
//
// Objects that wait for their replacement are as they should be for now, and do not count. What it finds is also remembered, for a
// round in which nothing may be written.
func (s *session) observeStanding(p *plan, done *outcome) {
	stored := s.boundPolicies(p, done)
	asked := map[string]map[string]bool{}
	out := standing{left: map[string][]leftover{}, missing: map[string]bool{}, without: map[string]map[string]bool{}}
	for gate, list := range p.enforcersByGate() {
		for _, e := range list {
			if asked[e.Name] == nil {
				asked[e.Name] = map[string]bool{}
			}
			asked[e.Name][gate] = true
			if x := stored[e.Name]; done.failed[e.Name] != nil && (x == nil || x.policy == nil || x.binding == nil) {
				out.missing[e.Name] = true
			}
		}
	}
	for name, x := range stored {
		if x.policy == nil || x.binding == nil || done.parked[name] != nil {
			continue // a policy without a binding does nothing, nor does one for what does not exist
		}
		if x.policy.GetAnnotations()[policy.TellsAnnotation] != "" {
			continue // it enforces nothing
		}
		err := done.whyUnlike(name, x)
		if err == nil {
			continue
		}
		has, old := map[string]bool{}, stale{policy: x.policy, settings: readBy(x.binding)}
		for _, gate := range gatesOf(x.policy) {
			has[gate] = true
			if p.model.Feature(gate) == nil {
				continue
			}
			old.gates = append(old.gates, gate)
			if !asked[name][gate] {
				out.left[gate] = append(out.left[gate], leftover{enforcerOf(x.policy), err})
			}
		}
		out.stale = append(out.stale, old)
		without := maps.Clone(asked[name])
		maps.DeleteFunc(without, func(gate string, _ bool) bool { return has[gate] })
		if len(without) > 0 {
			out.without[name] = without
		}
	}
	done.standing = out
	s.rememberedOf(p.component.Name).standing = out
}

// boundPolicies returns the stored policies of a component by their names.
func (s *session) boundPolicies(p *plan, done *outcome) map[string]*bound {
	stored := map[string]*bound{}
	for _, o := range s.madeFor(p.component.Name) {
		if done.removed[keyOf(o)] {
			continue
		}
		x := stored[o.GetName()]
		if x == nil {
			x = &bound{}
			stored[o.GetName()] = x
		}
		switch resourceOf(o) {
		case validatingPolicies, mutatingPolicies:
			x.policy = s.storedObject(o)
		default:
			x.binding = o
		}
	}
	return stored
}

// whyUnlike says why a stored policy is not as it is wanted; nil if it is.
func (o *outcome) whyUnlike(name string, x *bound) error {
	switch {
	case o.failed[name] != nil:
		return o.failed[name]
	case o.frozen[name]:
		return errFrozen
	}
	return errors.Join(o.failed[nameOf(x.policy)], o.failed[nameOf(x.binding)])
}

// enforcerOf names a policy as what enforces a feature.
func enforcerOf(o object) v1alpha1.Enforcer {
	of := viewOf(o)
	out := v1alpha1.Enforcer{Kind: of.kind, Name: o.GetName(), Reason: "it should not, and is still there"}
	if of.matches == nil || len(of.matches.ResourceRules) == 0 {
		return out
	}
	if groups := of.matches.ResourceRules[0].APIGroups; len(groups) > 0 {
		out.Group = groups[0]
	}
	if resources := of.matches.ResourceRules[0].Resources; len(resources) > 0 {
		out.Resource = resources[0]
	}
	return out
}

// tellLeft names, in a sentence without a full stop, the policies that enforce a feature and should not; empty if there are none.
func (st *standing) tellLeft(gate string) string {
	var lines []string
	for _, l := range st.left[gate] {
		where := enforcedWhere(&l.Enforcer)
		lines = append(lines, fmt.Sprintf("%s is still enforced by %s %s, as it was before: %s", where, l.Kind, l.Name, brief.OneLine(l.err.Error())))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "; ")
}

// leftEnforcers are the policies that enforce a feature and should not, sorted by name.
func (st *standing) leftEnforcers(gate string) (out []v1alpha1.Enforcer) {
	for _, l := range st.left[gate] {
		out = append(out, l.Enforcer)
	}
	slices.SortFunc(out, func(a, b v1alpha1.Enforcer) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	return out
}

// parkedFor are the policies that enforce a feature in resources and versions that no longer exist, sorted by name.
func (o *outcome) parkedFor(gate string) (out []v1alpha1.Enforcer) {
	for _, name := range slices.Sorted(maps.Keys(o.parked)) {
		if slices.Contains(gatesOf(o.parked[name]), gate) {
			e := enforcerOf(o.parked[name])
			e.Reason = "the cluster does not have what it is for; it stays for when that is back"
			out = append(out, e)
		}
	}
	return out
}

// readBy is the ConfigMap that the policy of a binding reads; nil if it reads none, or one that is not named.
func readBy(binding object) *v1alpha1.ConfigMapReference {
	ref := viewOf(binding).params
	if ref == nil {
		return nil
	}
	return &v1alpha1.ConfigMapReference{Namespace: ref.Namespace, Name: ref.Name}
}

// enforcedNow is the enforcement by what was written now.
//
// Open means that writes with the part pass. An object that is missing leaves the part open. What stands as it was before is left to
// enforcedAsBefore.
func (p *plan) enforcedNow(done *outcome) (out []skew.Enforced) {
	old := map[string]bool{}
	for i := range done.stale {
		old[nameOf(done.stale[i].policy)] = true
	}
	for gate, list := range p.enforcersByGate() {
		state, _ := p.states.State(gate)
		for _, e := range list {
			by := e.Kind + " " + e.Name
			switch {
			case e.Name == Configuration && done.hook != nil:
				if errors.Is(done.hook, errNoWebhook) {
					out = append(out, skew.Enforced{Gate: gate, Open: true, By: by + ", which is not in force"})
				}
			case done.missing[e.Name]:
				out = append(out, skew.Enforced{Gate: gate, Open: true, By: by + ", which is not in force"})
			case done.without[e.Name][gate]:
				out = append(out, skew.Enforced{Gate: gate, Open: true, By: by + ", which is as it was before"})
			case done.failed[e.Name] == nil && !done.frozen[e.Name] && !done.held && !old[by]:
				out = append(out, skew.Enforced{Gate: gate, Open: state.Open, By: by})
			}
			// What others say enforcedAsBefore asks them.
		}
	}
	return out
}

// enforcedAsBefore is the enforcement by policies that could not be replaced.
func (p *plan) enforcedAsBefore(ctx context.Context, done *outcome) (out []skew.Enforced, err error) {
	var errs []error
	for i := range done.stale {
		x := &done.stale[i]
		var settings map[string]string // settings of other ConfigMaps are not known
		if ref := p.model.Spec().ConfigMap; ref != nil && x.settings != nil && *x.settings == *ref && p.current.exists {
			settings = p.current.data
			if settings == nil {
				settings = map[string]string{}
			}
		}
		says, err := simulate.Says(ctx, x.policy, x.gates, settings)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", nameOf(x.policy), err))
		}
		for gate, open := range says {
			out = append(out, skew.Enforced{Gate: gate, Open: open, By: nameOf(x.policy) + ", which is as it was before"})
		}
	}
	return out, errors.Join(errs...)
}

// enforcersByGate lists the objects that enforce each feature, by gate.
func (p *plan) enforcersByGate() map[string][]v1alpha1.Enforcer {
	out := map[string][]v1alpha1.Enforcer{}
	for _, e := range p.set.Enforced {
		x := v1alpha1.Enforcer{Kind: e.Kind, Name: e.Name, Group: e.Group, Resource: e.Resource, Reason: brief.Clip(e.Reason, 500)}
		if e.Kind == "" {
			x.Kind, x.Name = "ValidatingWebhookConfiguration", Configuration
			if f := p.model.Feature(e.Gate); f != nil && f.Spec.WhenDisabled == v1alpha1.Drop && !e.Undropped {
				x.Kind = "MutatingWebhookConfiguration"
			}
		}
		if !slices.Contains(out[e.Gate], x) {
			out[e.Gate] = append(out[e.Gate], x)
		}
	}
	return out
}
