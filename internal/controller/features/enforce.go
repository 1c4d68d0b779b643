package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/policy"
)

// This file brings the stored policies and webhooks to the wanted state, in an order in which no gated part is open for a moment:
// additions first, then changes, and removals when what takes over is in force. What could not be done is recorded in the outcome,
// and the status tells it. For example, a policy that the API server refuses stays as it was, and the feature is not Enforced.

// observeWithin is the time to wait for the API server's type check of a policy. After that, the policy counts as one without a type
// check, because not every cluster runs the controller that records it.
const observeWithin = 20 * time.Second

// enforcePlan writes the wanted objects, and returns when to check again.
//
// Settings that are not known yet stop it, because policies of other settings might open a part. Between two writes of the policies
// of one component there is a pause, so that a series of changes costs few writes.
func (s *session) enforcePlan(ctx context.Context, p *plan, done *outcome) time.Duration {
	done.failed, done.waiting, done.fresh = map[string]error{}, map[string]bool{}, map[string]bool{}
	done.warned, done.frozen, done.removed = map[string]string{}, s.frozenPolicies(p), map[string]bool{}
	done.parked = s.policiesWithoutResource(p)
	if err := s.putBack(ctx, p, done); err != nil {
		done.settings = errors.Join(done.settings, err)
	}
	if !p.live && !p.known || done.reading {
		done.held = true
		return 0
	}
	wanted, additions, settling, changes := s.compareObjects(p, done)
	// If a part moves from one policy to another, for example because a version now has a schema of its own, it must be in force in
	// the new policy before it is removed from the old one.
	changes, later := inOrder(additions, settling, changes)
	writes := additions
	for _, c := range changes {
		writes = append(writes, c.want)
	}
	name := p.component.Name
	if wait := s.untilNextWrite(name); len(writes) > 0 && wait > 0 {
		// Then the stored objects are the newest.
		done.held = true
		done.standing = s.rememberedOf(name).standing
		return wait
	}
	s.writeObjects(ctx, writes, done)
	for _, c := range later {
		done.waiting[c.want.GetName()], done.fresh[c.want.GetName()] = true, true
		done.wait = shorterWait(done.wait, settle)
	}
	if len(writes) > 0 {
		s.recordWrite(name)
	}
	s.enforceByHook(ctx, p, done)
	probes, state := s.probePolicies(p)
	for _, o := range probes {
		wanted[keyOf(o)] = true
	}
	s.removeOthers(ctx, p, wanted, done)
	s.observeStanding(p, done)
	s.checkProbes(ctx, p, probes, state, done)
	return done.wait
}

// compareObjects compares the wanted objects with those that are there. wanted has their keys. additions are not there, changes are
// there in another form, and settling are there and perhaps not in force yet.
func (s *session) compareObjects(p *plan, done *outcome) (wanted map[string]bool, additions, settling []object, changes []change) {
	wanted = map[string]bool{}
	for _, o := range p.set.Objects() {
		want := withManagerLabel(o)
		wanted[keyOf(want)] = true
		if done.frozen[want.GetName()] {
			continue
		}
		switch have := s.storedObject(want); {
		case have == nil && p.detached && policy.IsAnchor(want.GetName()):
			// Nothing else reads the settings, and the API server takes a binding from those only who may read its parameter.
		case have == nil:
			additions = append(additions, want)
		case !sameAsWanted(want, have):
			changes = append(changes, change{have, want})
		default:
			s.recordTypeCheck(have, done)
			if done.fresh[want.GetName()] {
				settling = append(settling, want)
			}
		}
	}
	return wanted, additions, settling, changes
}

// recordWrite notes a write of the policies of a component. It drops the writes of others that are no longer in the way of anything.
func (s *session) recordWrite(component string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	maps.DeleteFunc(s.written, func(_ string, at time.Time) bool { return now.Sub(at) >= pause })
	s.written[component] = now
}

// untilNextWrite is the time to wait before policies of a component are written again.
func (s *session) untilNextWrite(component string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pause - s.Clock.Since(s.written[component])
}

// writeObjects writes objects one by one. If one takes the API server too long, the others wait for the next attempt, so that the
// status says so now: each may take half a minute.
func (s *session) writeObjects(ctx context.Context, writes []object, done *outcome) {
	for i, want := range writes {
		if err := s.writeObject(ctx, want, done); !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
			continue
		}
		for _, left := range writes[i+1:] {
			done.waiting[left.GetName()], done.fresh[left.GetName()] = true, true
		}
		return
	}
}

// writeObject writes one object. Its error is in the outcome as well, where the status finds it.
func (s *session) writeObject(ctx context.Context, want object, done *outcome) error {
	stored, err := s.objects.applyObject(ctx, want)
	s.Metrics.countWrite(resourceOf(want), "apply", err)
	if err != nil {
		done.failed[want.GetName()] = fmt.Errorf("%s: %w", nameOf(want), err)
		return err
	}
	if s.recordApplied(want, stored) {
		done.restored = append(done.restored, nameOf(want))
	}
	s.recordTypeCheck(stored, done)
	return nil
}

// recordTypeCheck records the API server's type check of an object, and how long to wait for it.
//
// A policy that was just written is not in force yet, and counts as waiting. A warning of the type check changes nothing but the
// message.
func (s *session) recordTypeCheck(have object, done *outcome) {
	s.mu.Lock()
	age := s.Clock.Since(s.applied[keyOf(have)].at)
	s.mu.Unlock()
	if age < settle {
		done.waiting[have.GetName()], done.fresh[have.GetName()] = true, true
		done.wait = shorterWait(done.wait, settle-age)
	}
	v, ok := have.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	if !ok {
		return
	}
	if v.Status.ObservedGeneration < v.Generation {
		if age < observeWithin {
			done.waiting[v.Name] = true
			done.wait = shorterWait(done.wait, observeWithin-age)
		}
		return
	}
	if v.Status.TypeChecking == nil {
		return
	}
	for _, w := range v.Status.TypeChecking.ExpressionWarnings {
		done.warned[v.Name] = strings.Join(strings.Fields(w.FieldRef+": "+w.Warning), " ")
		return
	}
}

// pendingGates are the gates with an object that is not in force yet, because it could not be written or was written just now. The
// objects that enforced them before stay until it is in force.
func (p *plan) pendingGates(done *outcome) map[string]bool {
	out := map[string]bool{}
	for gate, list := range p.enforcersByGate() {
		for _, e := range list {
			if e.Name == Configuration && done.hook != nil || done.failed[e.Name] != nil || done.fresh[e.Name] {
				out[gate] = true
			}
		}
	}
	return out
}

// removeOthers deletes objects of a component that are no longer wanted, once their replacements are in force.
func (s *session) removeOthers(ctx context.Context, p *plan, wanted map[string]bool, done *outcome) {
	var list []object
	pending := p.pendingGates(done)
	for _, o := range s.madeFor(p.component.Name) {
		if slices.ContainsFunc(gatesOf(o), func(gate string) bool { return pending[gate] }) {
			continue
		}
		if name := o.GetName(); !wanted[keyOf(o)] && !done.frozen[name] && done.parked[name] == nil {
			list = append(list, o)
		}
	}
	removalOrder(list)
	for _, o := range list {
		if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) > 0 {
			done.failed[nameOf(o)] = fmt.Errorf("%s: it is deleted, but stays in force until %s lets it go", nameOf(o), strings.Join(o.GetFinalizers(), ", "))
			continue
		}
		err := s.objects.deleteObject(ctx, o)
		s.Metrics.countWrite(resourceOf(o), "delete", err)
		if err != nil {
			done.failed[nameOf(o)] = fmt.Errorf("%s: %w", nameOf(o), err)
			continue
		}
		s.forgetApplied(o)
		done.removed[keyOf(o)] = true
	}
}

// enforceByHook makes the API server call the webhook for the parts that need it.
//
// If the definition of a feature that the webhook enforces has become bad, its webhooks stay as they are. If a resource is missing,
// the rules about it stay too, so that nothing is open when the resource comes back.
func (s *session) enforceByHook(ctx context.Context, p *plan, done *outcome) {
	address := s.settings.watchedState(ctx, addressUser, v1alpha1.ConfigMapReference{Namespace: s.Namespace, Name: Address})
	if !address.known {
		done.absent, done.hook = true, errors.New("how the webhook is reached is not known yet")
		return
	}
	if len(address.data[bundleKey]) == 0 {
		done.absent, done.hook, done.untold = true, errNoWebhook, p.unwarnedGates(false)
		if !p.set.Webhook {
			done.hook = nil
		}
		return
	}
	done.untold = p.unwarnedGates(true)
	for i := range p.features {
		for _, e := range p.features[i].Status.EnforcedBy {
			if p.isLeftOut(p.features[i].Spec.Gate) && e.Name == Configuration {
				done.hookKept = true // its definition has become bad: the webhook continues with the last good one
				done.hooks = s.hooksStored(p.component.Name)
				return
			}
		}
	}
	want := hooksOf(p, s.Namespace, address.data, s.server.matchConditions())
	if p.gated.missing != nil {
		want.keepStored(s.hooksStored(p.component.Name).only(p.gated.lacks))
	}
	if len(p.pendingGates(done)) > 0 {
		// Parts that move to policies stay with the webhook until the policies are in force.
		want.keepStored(s.hooksStored(p.component.Name))
	}
	want.addProbes(p.component.Name, s.Namespace, address.data)
	done.hooks, done.hook = want, s.writeHooks(ctx, p.component.Name, want)
}
