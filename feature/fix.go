package feature

import (
	"fmt"
	"strings"

	"sluice.dev/api/v1alpha1"
)

// HowToOpen says what to set to open the feature if nothing closes it on purpose, in this form:
//
//	set enable-api-fields: alpha or tasks-timeout: "true" in ConfigMap tekton-pipelines/feature-flags
//
// If nobody can open the feature, a sentence says so.
func (f *Feature) HowToOpen() string {
	return f.howToOpen(f.FollowsLevel || f.Spec.ImpliedByLevel)
}

// howToOpen is HowToOpen, with or without the level as a way.
func (f *Feature) howToOpen(byLevel bool) string {
	m := f.model
	switch {
	case f.Entry < 0:
		return "it comes with " + Since(&f.Spec.Stages[0]) + " of the component"
	case f.Locked:
		return "it is " + f.lockedText()
	case f.isCapped():
		return fmt.Sprintf("nobody can turn it on while the component's maxLevel is %s", m.component.MaxLevel)
	}
	ref := m.component.ConfigMap
	if ref == nil {
		return "set feature gate " + f.Spec.Gate + "=true" + f.howToOptIn()
	}
	var ways []string
	if byLevel {
		ways = append(ways, m.component.LevelKey+": "+string(f.Level))
	}
	ways = append(ways, fmt.Sprintf("%s: %q", f.Spec.Key, fmt.Sprint(!f.Spec.Inverted)))
	return fmt.Sprintf("set %s in ConfigMap %s/%s", strings.Join(ways, " or "), ref.Namespace, ref.Name) + f.howToOptIn()
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

// howToOptIn says how users without the right to change the settings can opt in. It is empty if the component has no opt-in.
func (f *Feature) howToOptIn() string {
	if !f.CanOptIn() {
		return ""
	}
	o, component := f.model.component.OptIn, f.model.name
	var ways []string
	if o.NamespaceLabel {
		ways = append(ways, fmt.Sprintf("label the namespace %s: %s", OptInLabel(component, f.Spec.Gate), OptInValue))
	}
	if o.RBAC {
		ways = append(ways, fmt.Sprintf("get the verb %s on %s of features.%s", OptInVerb, ObjectName(component, f.Spec.Gate), v1alpha1.GroupName))
	}
	if o.OnlyAllowed {
		return "; or, where the settings say allowed, " + strings.Join(ways, " or ")
	}
	return "; or " + strings.Join(ways, "; or ")
}

// fixFor says what would open a closed feature in the present state.
func (r *resolver) fixFor(s *State, missing, absent []string) string {
	f := s.Feature
	switch s.Why {
	case WhyUnborn, WhyLocked, WhyMaxLevel:
		return f.HowToOpen()
	case WhyProcess:
		return fmt.Sprintf("it is on by the settings, but %s does not report it as on", strings.Join(absent, " and "))
	case WhyRequires:
		var fixes []string
		for _, name := range missing {
			fix := fmt.Sprintf("it requires %s", name)
			if o := r.states.byGate[name]; o != nil {
				fix += ": " + o.Fix
			}
			fixes = append(fixes, fix)
		}
		if !s.own {
			fixes = append(fixes, r.wayToOpen(f))
		}
		return strings.Join(fixes, "; ")
	case WhyRestart:
		return "it takes a restart of the process"
	case WhyImplied, WhyImpliedBy, WhyKey, WhyLevel, WhyStage, WhyDefault:
	}
	return r.wayToOpen(f)
}

// wayToOpen names the settings that open a feature. The level is not one of them if the feature's own key overrides it.
func (r *resolver) wayToOpen(f *Feature) string {
	_, set := r.settings.Gate(f.Spec.Gate)
	return f.howToOpen(f.Spec.ImpliedByLevel || f.FollowsLevel && !set)
}
