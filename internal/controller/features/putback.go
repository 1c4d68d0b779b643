package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/internal/brief"
)

// The policies of a live component read its settings from a ConfigMap, and let every write pass while there is none. So the
// controller makes a deleted one again, with the last good settings. For example, a feature of these settings may be gone by now: its
// key is left out, and an event says so.

// maxCleanings bounds the repeated checks of settings for errors, because one check reports at most 200.
const maxCleanings = 50

// putBack restores the settings of a live component: without them its policies let everything pass. If it cannot, for example in a
// namespace that is being deleted, the last good settings become part of the policies.
func (s *session) putBack(ctx context.Context, p *plan, done *outcome) error {
	if !p.live || p.current.exists || p.guardedElsewhere() {
		return nil
	}
	if !p.current.known && p.current.err != nil && s.followsSettings(p.component.Name) {
		// The API server goes on reading the ConfigMap for the policies that stand. The status says that this process cannot.
		return nil
	}
	s.makeSettings(ctx, p, done)
	if done.settings == nil || p.detached {
		return nil
	}
	r := s.rememberedOf(p.component.Name)
	p.detachSettings(r)
	return s.compilePolicies(ctx, r, p)
}

// followsSettings reports whether policies stand that read the settings of a component. An anchor matches nothing.
func (s *session) followsSettings(component string) bool {
	return slices.ContainsFunc(s.madeFor(component), func(o object) bool {
		return viewOf(o).params != nil && !policy.IsAnchor(o.GetName())
	})
}

// makeSettings creates the ConfigMap with the last good settings. It leaves out settings that have become bad, for example because a
// feature was deleted: the policy that guards the settings would refuse all of them.
func (s *session) makeSettings(ctx context.Context, p *plan, done *outcome) {
	ref := p.model.Spec().ConfigMap
	api := s.Kube.CoreV1().ConfigMaps(ref.Namespace)
	if !p.current.known {
		if p.current.err == nil {
			// The watch will report in a moment whether they exist.
			done.reading = true
			return
		}
		// A get is cheaper than a watch.
		_, err := api.Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsNotFound(err) {
			done.settings = fmt.Errorf("whether there is a ConfigMap %s is not known: %w; %s", p.settingsSource(), err, s.letRead(p))
			return
		}
	}
	good, without := cleanSettings(p.model, p.kept)
	create := func(data map[string]string) (*corev1.ConfigMap, error) {
		return api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: data}, metav1.CreateOptions{FieldManager: Manager})
	}
	stored, err := create(good)
	if apierrors.IsInvalid(err) && len(good) > 0 && s.guardStands(p) {
		// An empty ConfigMap is better than none: users can change it.
		without = []string{"all of them, because they are refused: " + brief.OneLine(err.Error())}
		stored, err = create(nil)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
	case err != nil:
		done.settings = fmt.Errorf("the ConfigMap %s is not there and cannot be made: %w; make it, or %s", p.settingsSource(), err, s.letMake(p))
	default:
		done.putBack = true
		p.without = without
		r := s.rememberedOf(p.component.Name)
		r.made, r.without = stored.ResourceVersion, without
	}
}

// guardStands reports whether the wanted policy about the settings has been in force long enough, so that its refusals are final.
func (s *session) guardStands(p *plan) bool {
	for _, o := range p.set.Objects() {
		want := withManagerLabel(o)
		if want.GetName() != policy.GuardName(p.component.Name) {
			continue
		}
		have := s.storedObject(want)
		if have == nil || !sameAsWanted(want, have) {
			return false
		}
		s.mu.Lock()
		age := s.Clock.Since(s.applied[keyOf(want)].at)
		s.mu.Unlock()
		if age < settle {
			return false
		}
	}
	return true
}

// cleanSettings divides settings into those that are good for a model and the bad ones, each with its key and error.
//
// data is not changed. If the errors cannot be traced to single keys, all settings are left out.
func cleanSettings(m *feature.Model, data map[string]string) (good map[string]string, without []string) {
	good = maps.Clone(data)
	for range maxCleanings {
		_, findings := m.ParseSettings(good)
		var invalid *feature.InvalidError
		if !errors.As(findings.Err(), &invalid) {
			return good, without
		}
		size := len(without)
		for _, f := range invalid.Findings {
			if leaveOut(m, good, f) {
				without = append(without, f.String())
			}
		}
		if len(without) == size {
			break // the error is not about a key
		}
	}
	return nil, []string{"all of them, because too much in them is wrong"}
}

// leaveOut removes the setting that an error is about; it reports whether there was one.
//
// An error may be about a key of its own, about an entry in the list of gates, or about the list as a whole. Of two places that
// disagree about a feature, both are removed, because nobody knows which one was meant.
func leaveOut(m *feature.Model, data map[string]string, f feature.Finding) bool {
	before := len(data)
	list, listed := data[m.Spec().GatesKey]
	if known := m.Feature(f.Gate); known != nil && f.Code == feature.CodeDisagree {
		// Neither of the two counts.
		delete(data, known.Spec.Key)
	} else if f.Where != m.Spec().GatesKey {
		delete(data, f.Where)
		return len(data) < before
	}
	if !listed {
		return len(data) < before
	}
	var kept []string
	for entry := range strings.SplitSeq(list, ",") {
		gate, word, _ := strings.Cut(strings.TrimSpace(entry), "=")
		gate = strings.TrimSpace(gate)
		_, err := strconv.ParseBool(strings.TrimSpace(word))
		bad := gate == f.Gate
		if f.Gate == "" {
			bad = err != nil || !isGate(m, gate)
		}
		if !bad || strings.TrimSpace(entry) == "" {
			kept = append(kept, entry)
		}
	}
	after := strings.Join(kept, ",")
	switch {
	case after == list && f.Gate == "":
		delete(data, m.Spec().GatesKey) // the list as a whole is wrong
		return true
	case after == "":
		delete(data, m.Spec().GatesKey)
	default:
		data[m.Spec().GatesKey] = after
	}
	return after != list || len(data) < before
}

// isGate reports whether a list of gates may name it.
func isGate(m *feature.Model, gate string) bool {
	return m.Feature(gate) != nil || gate == "AllAlpha" || gate == "AllBeta" || slices.Contains(m.LeftOut(), gate)
}
