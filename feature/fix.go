package feature

// What would open a closed feature? A refusal is only of use with the answer: the setting, the settings of features
// that it requires, and the ways to opt in. For example: set tasks-timeout: "true", or enable-api-fields: alpha, in
// ConfigMap tekton-pipelines/feature-flags.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
)

// HowToOpen says what to set to open the feature, whatever the settings are, in this form:
//
//	set tasks-timeout: "true", or enable-api-fields: alpha without tasks-timeout, in ConfigMap tekton-pipelines/feature-flags
//
// Required features that can be off are set as well. If nobody can open the feature, a sentence says so.
func (f *Feature) HowToOpen() string {
	if !f.Free() {
		return f.whyFixed()
	}
	needs, blocked := f.closedNeeds(func(o *Feature) bool { return !o.canBeOff() })
	if blocked != "" {
		return "it requires " + blocked
	}
	return clipText(requiresText(needs) + settingsText(append(needs, f), nil))
}

// canBeOff reports whether there are settings with which the feature is off.
func (f *Feature) canBeOff() bool {
	if f.Locked {
		return !f.Default
	}
	return !f.Spec.ImpliedByLevel || !f.opensAt(v1alpha1.LevelStable)
}

// whyFixed says why settings have no effect on a feature that is not free.
func (f *Feature) whyFixed() string {
	switch {
	case f.Entry < 0:
		return "it comes with " + Since(&f.Spec.Stages[0]) + " of the component"
	case f.Locked:
		return "it is " + f.lockedText()
	}
	return fmt.Sprintf("nobody can turn it on while the component's maxLevel is %s", f.model.component.MaxLevel)
}

// closedNeeds returns the closed features that a feature requires, each behind those that it requires itself. blocked is the first of them that
// nobody can open, with the reason; empty if there is none.
func (f *Feature) closedNeeds(isOpen func(*Feature) bool) (needs []*Feature, blocked string) {
	seen := map[string]bool{}
	var visit func(f *Feature)
	visit = func(f *Feature) {
		for _, name := range f.Spec.Requires {
			o := f.model.byGate[name]
			switch {
			case seen[name] || blocked != "" || o != nil && isOpen(o):
				continue
			case o == nil:
				blocked = name + ", which has no valid definition"
				continue
			case !o.Free():
				blocked = name + ": " + o.whyFixed()
				continue
			}
			seen[name] = true
			visit(o)
			needs = append(needs, o)
		}
	}
	visit(f)
	return needs, blocked
}

// requiresText begins a text about a feature that requires others.
func requiresText(needs []*Feature) string {
	if len(needs) == 0 {
		return ""
	}
	names := make([]string, len(needs))
	for i, f := range needs {
		names[i] = f.Spec.Gate
	}
	return "it requires " + strings.Join(names, " and ") + ": "
}

// settingsText names the settings that open features of one component: the key of each, which wins over the level, and the level if it can open
// all of them. The settings in force may be nil, which leaves open what they say.
func settingsText(features []*Feature, inForce *Settings) string {
	m := features[0].model
	ref := m.component.ConfigMap
	var gates, keys, without, listed []string
	byLevel, level := true, v1alpha1.LevelStable
	for _, f := range features {
		gates = append(gates, f.Spec.Gate+"=true")
		keys = append(keys, fmt.Sprintf("%s: %q", f.Spec.Key, fmt.Sprint(!f.Spec.Inverted)))
		if levelRank(f.Level) > levelRank(level) {
			level = f.Level
		}
		_, set := inForce.Gate(f.Spec.Gate)
		switch {
		case f.Spec.ImpliedByLevel:
		case f.FollowsLevel && !set:
			without = append(without, f.Spec.Key)
		default:
			byLevel = false
		}
		if inForce.listsAsOff(f.Spec.Gate) {
			listed = append(listed, f.Spec.Gate)
		}
	}
	// Without a ConfigMap, gates are set by flags and the like.
	if ref == nil {
		return fmt.Sprintf("set feature gate%s %s", map[bool]string{true: "s"}[len(gates) > 1], strings.Join(gates, ",")) + howToOptIn(features)
	}
	ways := []string{"set " + strings.Join(keys, " and ")}
	if listed != nil {
		ways = append(ways, fmt.Sprintf("without %s in %s", strings.Join(listed, " and "), m.component.GatesKey))
	}
	if byLevel {
		text := fmt.Sprintf("or %s: %s", m.component.LevelKey, level)
		if without != nil {
			text += " without " + strings.Join(without, " and ")
		}
		ways = append(ways, text)
	}
	// Behind several ways a comma stands before the ConfigMap too.
	if len(ways) > 1 {
		ways = append(ways, "")
	}
	return fmt.Sprintf("%s in ConfigMap %s/%s", strings.TrimSuffix(strings.Join(ways, ", "), " "), ref.Namespace, ref.Name) + howToOptIn(features)
}

// lockedText describes a locked feature, and until when it is locked: a planned stage may unlock it, such as the second release of a
// value of an enum.
func (f *Feature) lockedText() string {
	on := f.Defaults()
	for i := f.Entry + 1; i < len(on); i++ {
		if s := &f.Spec.Stages[i]; s.Stage != v1alpha1.Removed && (!s.LockToDefault || on[i] != f.Default) {
			return fmt.Sprintf("%s, whatever is set, until %s", OnOff(f.Default), Since(s))
		}
	}
	return fmt.Sprintf("%s for good since %s", OnOff(f.Default), stageSince(f))
}

// howToOptIn says how users without the right to change the settings can opt in to features of one component. It is empty if the component has no
// opt-in.
func howToOptIn(features []*Feature) string {
	if !features[0].CanOptIn() {
		return ""
	}
	o, component := features[0].model.component.OptIn, features[0].model.name
	var labels, names, ways []string
	for _, f := range features {
		labels = append(labels, fmt.Sprintf("%s: %s", OptInLabel(component, f.Spec.Gate), OptInValue))
		names = append(names, ObjectName(component, f.Spec.Gate))
	}
	if o.NamespaceLabel {
		ways = append(ways, "label the namespace "+strings.Join(labels, " and "))
	}
	if o.RBAC {
		ways = append(ways, fmt.Sprintf("get the verb %s on %s of features.%s", OptInVerb, strings.Join(names, " and "), v1alpha1.GroupName))
	}
	if o.OnlyAllowed {
		return "; or, where the settings say allowed, " + strings.Join(ways, " or ")
	}
	return "; or " + strings.Join(ways, "; or ")
}

// fixFor says what would open a closed feature in the present state.
func (r *resolver) fixFor(s *State, absent []string) string {
	f := s.Feature
	switch s.Why {
	case WhyUnborn, WhyLocked, WhyMaxLevel:
		return f.whyFixed()
	case WhyProcess:
		return fmt.Sprintf("it is on by the settings, but %s does not report it as on", strings.Join(absent, " and "))
	case WhyRestart:
		return "it takes a restart of the process"
	case WhyRequires, WhyImplied, WhyImpliedBy, WhyKey, WhyLevel, WhyStage, WhyDefault:
	}
	needs, blocked := f.closedNeeds(func(o *Feature) bool { return r.states.byGate[o.Spec.Gate].Open })
	if blocked != "" {
		return "it requires " + blocked
	}
	var toSet []*Feature
	var parts []string
	// What is on by its own setting, or by a feature that implies it, takes no setting. What waits for a process waits for that.
	for _, o := range append(slices.Clip(needs), f) {
		state := r.states.byGate[o.Spec.Gate]
		isImplied := slices.ContainsFunc(o.Spec.ImpliedBy, func(gate string) bool {
			by := r.states.byGate[gate]
			return by != nil && by.Open
		})
		switch {
		case state.Why == WhyRestart || state.Why == WhyProcess:
			parts = append(parts, fmt.Sprintf("%s: %s", o.Spec.Gate, state.Fix))
		case !state.Alone() && !isImplied:
			toSet = append(toSet, o)
		}
	}
	if toSet != nil {
		parts = append([]string{settingsText(toSet, r.settings)}, parts...)
	}
	return requiresText(needs) + strings.Join(parts, "; ")
}
