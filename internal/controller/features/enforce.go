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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/brief"
)

// observeWithin is how long a policy may be without a sign of the API server's type check before it is taken as one that gets
// none: the controller that writes it is not in every cluster.
const observeWithin = 20 * time.Second

// settle is how long after it was written a policy is taken as in force: the API server looks for new ones every second
// (k8s.io/apiserver/pkg/admission/plugin/policy/generic, policyRefreshInterval).
const settle = 2 * time.Second

// outcome is what came of enforcing a plan.
type outcome struct {
	// failed says by name why an object could not be written.
	failed map[string]error
	// waiting are the policies that the API server has not judged yet, and warned what its type check says of others.
	waiting map[string]bool
	// fresh are the names of what has been written so lately that it may not be in force.
	fresh  map[string]bool
	wait   time.Duration
	warned map[string]string
	// frozen are the names that were left as they are.
	frozen map[string]bool
	// removed is what was deleted, by resource and name.
	removed map[string]bool
	// hook says why the webhook is not asked, though something takes it; nil if it is.
	hook error
	// absent tells that there is no webhook to be asked.
	absent bool
	// untold says why nobody tells of the uses of a gate, as tellUse has it.
	untold map[string]error
	// hookKept tells that it is asked as before, because the definition of a feature that it enforces has turned bad.
	hookKept bool
	// restored are objects that somebody else had changed or deleted.
	restored []string
	// settings says why the settings could not be put back.
	settings error
	// reading tells that nothing is known of the settings of a live component yet.
	reading bool
	// standing is what the API server enforces other than it is wanted.
	standing
	// putBack tells that they were.
	putBack bool
	// hooks are the webhooks that are asked; unseen and unseenHook say why the API server has not been seen to enforce by policies, and by
	// them, and lost why it cannot call them.
	hooks                    *hookSet
	unseen, unseenHook, lost error
	// held tells that nothing was written, because settings are not known.
	held bool
}

// err joins what is to be tried again.
func (o *outcome) err() error { return errors.Join(o.settings, o.unwritten()) }

// unwritten joins why something does not enforce what it is to.
func (o *outcome) unwritten() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(o.failed)) {
		errs = append(errs, o.failed[name])
	}
	if !o.absent {
		errs = append(errs, o.hook)
	}
	return errors.Join(errs...)
}

// enforce writes what is to be in force, and returns when to look again.
func (s *session) enforce(ctx context.Context, p *plan, done *outcome) time.Duration {
	done.failed, done.waiting, done.fresh = map[string]error{}, map[string]bool{}, map[string]bool{}
	done.warned, done.frozen, done.removed = map[string]string{}, s.frozen(p), map[string]bool{}
	if err := s.putBack(ctx, p, done); err != nil {
		done.settings = errors.Join(done.settings, err)
	}
	if !p.live && !p.known || done.reading {
		done.held = true
		return 0
	}
	wanted := map[string]bool{}
	var additions, settling []runtime.Object
	var changes []change
	for _, o := range p.set.Objects() {
		want, err := managed(o)
		if err != nil {
			done.failed[nameOf(o)] = err
			continue
		}
		m, err := meta.Accessor(want)
		if err != nil {
			done.failed[nameOf(o)] = err
			continue
		}
		wanted[resourceOf(want)+"/"+m.GetName()] = true
		if done.frozen[m.GetName()] {
			continue
		}
		switch have := s.have(want); {
		case have == nil:
			additions = append(additions, want)
		case !same(want, have):
			changes = append(changes, change{have, want})
		default:
			s.judged(have, done)
			if done.fresh[m.GetName()] {
				settling = append(settling, want)
			}
		}
	}
	// A part that moves from one policy to another, because a version has got a schema of its own for example, is to be in
	// force in the new one before it is gone from the old one.
	changes, later := inOrder(additions, settling, changes)
	writes := additions
	for _, c := range changes {
		writes = append(writes, c.want)
	}
	name := p.component.Name
	if wait := s.soon(name); len(writes) > 0 && wait > 0 {
		// What is written is the newest then.
		done.held = true
		done.standing = s.remember(name).standing
		return wait
	}
	for _, want := range writes {
		s.write(ctx, want, done)
	}
	for _, c := range later {
		if m, err := meta.Accessor(c.want); err == nil {
			done.waiting[m.GetName()], done.fresh[m.GetName()] = true, true
			done.wait = soonest(done.wait, settle)
		}
	}
	if len(writes) > 0 {
		s.mu.Lock()
		s.written[name] = s.Clock.Now()
		s.mu.Unlock()
	}
	s.enforceByHook(ctx, p, done)
	probes, state := s.probes(p)
	for _, o := range probes {
		wanted[keyOf(o)] = true
	}
	s.removeOthers(ctx, p, wanted, done)
	s.observe(p, done)
	s.see(ctx, p, probes, state, done)
	return done.wait
}

// soon is how long to wait before policies of a component are written again.
func (s *session) soon(component string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pause - s.Clock.Since(s.written[component])
}

func (s *session) write(ctx context.Context, want runtime.Object, done *outcome) {
	m, err := meta.Accessor(want)
	if err != nil {
		return // it has been read before
	}
	stored, err := s.objects.apply(ctx, want)
	s.Metrics.wrote(resourceOf(want), "apply", err)
	if err != nil {
		done.failed[m.GetName()] = fmt.Errorf("%s: %w", nameOf(want), err)
		return
	}
	if s.restored(want, stored) {
		done.restored = append(done.restored, nameOf(want))
	}
	s.judged(stored, done)
}

// judged notes what the API server says of an object, and how long it is to be given for it.
func (s *session) judged(have runtime.Object, done *outcome) {
	m, err := meta.Accessor(have)
	if err != nil {
		return // it has been read before
	}
	s.mu.Lock()
	age := s.Clock.Since(s.applied[keyOf(have)].at)
	s.mu.Unlock()
	if age < settle {
		done.waiting[m.GetName()], done.fresh[m.GetName()] = true, true
		done.wait = soonest(done.wait, settle-age)
	}
	v, ok := have.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	if !ok {
		return
	}
	if v.Status.ObservedGeneration < v.Generation {
		if age < observeWithin {
			done.waiting[v.Name] = true
			done.wait = soonest(done.wait, observeWithin-age)
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

// pending are the gates of which something that is to enforce them is not in force yet: it could not be written, or was just
// now. What enforced them before stays until it is.
func (p *plan) pending(done *outcome) map[string]bool {
	out := map[string]bool{}
	for gate, list := range p.enforcers() {
		for _, e := range list {
			if e.Name == Configuration && done.hook != nil || done.failed[e.Name] != nil || done.fresh[e.Name] {
				out[gate] = true
			}
		}
	}
	return out
}

// removeOthers deletes what was made for a component and is not wanted any more, once what takes its place is in force.
func (s *session) removeOthers(ctx context.Context, p *plan, wanted map[string]bool, done *outcome) {
	var list []runtime.Object
	pending := p.pending(done)
	for _, o := range s.of(p.component.Name) {
		m, err := meta.Accessor(o)
		if slices.ContainsFunc(gatesOf(o), func(gate string) bool { return pending[gate] }) {
			continue
		}
		if err == nil && !wanted[resourceOf(o)+"/"+m.GetName()] && !done.frozen[m.GetName()] {
			list = append(list, o)
		}
	}
	removalOrder(list)
	for _, o := range list {
		if m, err := meta.Accessor(o); err == nil && m.GetDeletionTimestamp() != nil && len(m.GetFinalizers()) > 0 {
			done.failed[nameOf(o)] = fmt.Errorf("%s: it is deleted, but stays in force until %s lets it go", nameOf(o), strings.Join(m.GetFinalizers(), ", "))
			continue
		}
		err := s.objects.remove(ctx, o)
		s.Metrics.wrote(resourceOf(o), "delete", err)
		if err != nil {
			done.failed[nameOf(o)] = fmt.Errorf("%s: %w", nameOf(o), err)
			continue
		}
		s.unapplied(o)
		done.removed[keyOf(o)] = true
	}
}

// enforcers lists what enforces each feature, by gate.
func (p *plan) enforcers() map[string][]v1alpha1.Enforcer {
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
