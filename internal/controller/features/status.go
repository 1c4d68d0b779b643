package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/brief"
)

// The status says for each feature whether its definition is good, whether it is open and why, and what enforces it. A condition is
// Unknown while this process or the API server has something to do in a moment. Changes to Unknown send no event, so a plain change
// of the settings sends one event and not three.

// writeStatus writes the outcome for a component and its features into their status, and sends events about changes. It returns when
// to check again.
//
// A failed write is tried again soon, since the status is all that users see. done may have come from a round that wrote nothing;
// then conditions about the enforcement stay as they are.
func (s *session) writeStatus(ctx context.Context, p *plan, done *outcome) time.Duration {
	if done.reading {
		return 0 // it is looked at again in a moment
	}
	var again time.Duration
	enforcers := p.enforcersByGate()
	var enforced, notEnforced []string
	by := map[string]int{}
	var open int32
	agree := s.judgeSkew(ctx, p, done)
	for i := range p.features {
		f := &p.features[i]
		before := f.DeepCopy()
		s.featureStatus(p, f, enforcers[f.Spec.Gate], done)
		if c, ok := agree.Features[f.Spec.Gate]; ok {
			s.tellSkew(&f.Status.Conditions, f.Generation, c)
		} else {
			meta.RemoveStatusCondition(&f.Status.Conditions, v1alpha1.ConditionSkew)
		}
		if f.Status.Enabled != nil && *f.Status.Enabled {
			open++
		}
		if is := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionEnforced); is != nil && is.Status == metav1.ConditionTrue {
			enforced = append(enforced, f.Spec.Gate)
			by[is.Reason]++
		} else {
			notEnforced = append(notEnforced, f.Spec.Gate)
		}
		if s.storeStatus(ctx, featuresResource, f, before.Status, f.Status, before.Status.Conditions, f.Status.Conditions) {
			again = firstRetry
		} else if a, b := before.Status.Enabled, f.Status.Enabled; a != nil && b != nil && *a != *b {
			word := v1alpha1.EventClosed
			if *b {
				word = v1alpha1.EventOpened
			}
			s.Recorder.Event(f, corev1.EventTypeNormal, word, brief.Clip(f.Status.Why, maxEvent))
		}
	}
	c := p.component
	before := c.DeepCopy()
	s.componentStatus(p, open, by, notEnforced, done)
	s.tellSkew(&c.Status.Conditions, c.Generation, agree.Component)
	if s.storeStatus(ctx, componentsResource, c, before.Status, c.Status, before.Status.Conditions, c.Status.Conditions) {
		again = firstRetry
	}
	s.Metrics.setGauges(c.Name, p, int(open), len(enforced), len(notEnforced), len(agree.Disagreements))
	for _, name := range done.restored {
		s.Metrics.countRestore(c.Name)
		s.Recorder.Event(c, corev1.EventTypeWarning, v1alpha1.EventRestored, brief.Clip(name+" was changed or deleted by somebody else and is as it was again", maxEvent))
	}
	if done.putBack {
		s.Recorder.Event(c, corev1.EventTypeWarning, v1alpha1.EventSettingsPutBack, brief.Clip("the ConfigMap "+p.settingsSource()+" was missing and is there again, with the last good settings"+p.leftOut(), maxEvent))
	}
	return shorterWait(again, agree.Again)
}

// featureStatus fills in the status of a feature.
//
// The number of uses is independent of the rest, and stays when the definition becomes bad. Accepted comes first, because the other
// conditions depend on what it says.
func (s *session) featureStatus(p *plan, f *v1alpha1.Feature, enforcers []v1alpha1.Enforcer, done *outcome) {
	gate := f.Spec.Gate
	st := &f.Status
	st.ObservedGeneration = f.Generation
	set := func(conditionType string, status metav1.ConditionStatus, reason, message string) {
		setCondition(&st.Conditions, f.Generation, s.Clock.Now(), conditionType, status, reason, message)
	}
	wrong := errorsAbout(p.definition, gate)
	m := p.model.Feature(gate)
	if wrong == "" && m == nil {
		wrong = "the component has so many errors that this feature was not looked at"
	}
	if wrong != "" {
		reason := v1alpha1.ReasonInvalidDefinition
		if slices.ContainsFunc(p.definition, func(x feature.Finding) bool { return x.Gate == gate && x.Code == feature.CodeUnknownResource }) {
			reason = v1alpha1.ReasonResourceNotFound
		}
		set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, wrong)
		st.Stage, st.Default, st.Enabled, st.Why = "", nil, nil, ""
		kept := false
		for _, o := range s.madeFor(p.component.Name) {
			kept = kept || slices.Contains(gatesOf(o), gate)
		}
		if kept {
			set(v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, "the definition has errors; the policies stay as they were before")
		} else {
			st.EnforcedBy = nil
			set(v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, "the definition has errors")
		}
		return
	}
	waits := p.waits(gate)
	reason := v1alpha1.ReasonAccepted
	if waits != "" {
		reason = v1alpha1.ReasonPartsWaiting
	}
	set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, reason, withRemarks("the definition holds no error", p.definition.Of(gate)))
	s.countedStatus(p, f, m)
	st.Stage = m.Stage
	st.Default = nil
	if m.Entry >= 0 {
		st.Default = new(m.Default)
	}
	st.Enabled, st.Why = nil, ""
	if p.known {
		state, _ := p.states.State(gate)
		st.Enabled, st.Why = new(state.Open), brief.Clip(state.Reason, maxEvent)
	}
	if done.held && !p.known {
		set(v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnknown, "the settings are not known yet: "+s.whyUnread(p))
		return
	}
	if done.held {
		return // it is looked at again in a moment
	}
	st.EnforcedBy = slices.Concat(enforcers, done.leftEnforcers(gate), done.parkedFor(gate))
	status, reason, text := enforcedBy(f, enforcers, done, p.definition.Of(gate))
	if waits != "" {
		text += "; what waits until the cluster has it: " + waits
	}
	if why := done.untold[gate]; why != nil {
		text += "; warnings about uses (tellUse) do not work: " + why.Error()
	}
	set(v1alpha1.ConditionEnforced, status, reason, text)
}

// enforcedBy says whether a feature is enforced, and by what.
func enforcedBy(f *v1alpha1.Feature, enforcers []v1alpha1.Enforcer, done *outcome, found feature.Findings) (status metav1.ConditionStatus, reason, message string) {
	left := done.tellLeft(f.Spec.Gate)
	switch {
	case left != "" && (len(f.Spec.Parts) == 0 || len(enforcers) == 0):
		return metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, left
	case len(f.Spec.Parts) == 0:
		return metav1.ConditionTrue, v1alpha1.ReasonBehaviourOnly, "the feature gates behaviour only: there is nothing for the API server to enforce"
	case len(enforcers) == 0:
		return metav1.ConditionTrue, v1alpha1.ReasonOpenForAll, "the feature is open for everybody: there is nothing to enforce"
	}
	var t enforcement
	if left != "" {
		t.failed = append(t.failed, left)
	}
	for _, x := range found {
		if x.Code == feature.CodeOpenVersion {
			t.failed = append(t.failed, x.Message)
		}
	}
	for i := range enforcers {
		if e := &enforcers[i]; e.Name == Configuration {
			t.addHook(e)
		} else {
			t.addPolicy(e, done)
		}
	}
	if t.by != nil && done.unseen != nil {
		t.unseen = append(t.unseen, done.unseen.Error())
	}
	if t.hooks != nil {
		t.addHookState(f, done)
	}
	return t.enforcedCondition()
}

// enforcement is what the enforcers of a feature have come to.
type enforcement struct {
	by, hooks               []string // what enforces it: policies, and webhooks
	failed, waiting, unseen []string // why it is not enforced, or not for sure
	lost                    bool     // the webhook cannot be reached
}

func (t *enforcement) addHook(e *v1alpha1.Enforcer) {
	where := enforcedWhere(e)
	t.hooks = append(t.hooks, fmt.Sprintf("%s by the webhook (%s)", where, e.Reason))
	if beyondWebhooks(e.Group) {
		t.failed = append(t.failed, where+" is beyond any webhook")
	}
}

// addPolicy adds a policy that enforces the feature, and what is wrong with it. A warning of the type check does not make the feature
// less enforced.
func (t *enforcement) addPolicy(e *v1alpha1.Enforcer, done *outcome) {
	t.by = append(t.by, fmt.Sprintf("%s by %s %s", enforcedWhere(e), e.Kind, e.Name))
	switch err := done.failed[e.Name]; {
	case err != nil:
		t.failed = append(t.failed, err.Error())
	case done.frozen[e.Name]:
		t.failed = append(t.failed, e.Name+" stays as it was, because another feature that it enforces has errors")
	case done.waiting[e.Name]:
		t.waiting = append(t.waiting, e.Name)
	}
	if w := done.warned[e.Name]; w != "" {
		t.by = append(t.by, "the API server's type check says of "+e.Name+": "+brief.Clip(w, 300))
	}
}

// addHookState adds what is known of the webhook itself.
func (t *enforcement) addHookState(f *v1alpha1.Feature, done *outcome) {
	switch {
	case done.hook != nil:
		t.failed = append(t.failed, done.hook.Error())
	case done.lost != nil:
		t.lost = true
		t.failed = append(t.failed, done.lost.Error())
	case done.unseenHook != nil:
		t.unseen = append(t.unseen, done.unseenHook.Error())
	case done.hookKept && !wasEnforcedByHook(f):
		t.failed = append(t.failed, "the webhook still uses the last good definitions, because another feature that it enforces has errors")
	}
}

// enforcedCondition makes the condition of what was added. What has failed comes before what is only not seen yet, because waiting
// does not help there.
func (t *enforcement) enforcedCondition() (status metav1.ConditionStatus, reason, message string) {
	message = strings.Join(slices.Concat(t.by, t.hooks), "; ")
	switch {
	case t.lost && len(t.failed) == 1:
		return metav1.ConditionFalse, v1alpha1.ReasonWebhookUnreachable, t.failed[0]
	case t.failed != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, strings.Join(slices.Compact(t.failed), "; ") + "; it should be enforced for " + message
	case t.waiting != nil:
		return metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, "the API server has not looked at " + strings.Join(t.waiting, ", ") + " yet"
	case t.unseen != nil:
		return metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, notSeen + strings.Join(t.unseen, "; ")
	case t.hooks != nil:
		return metav1.ConditionTrue, v1alpha1.ReasonEnforcedByWebhook, message
	}
	return metav1.ConditionTrue, v1alpha1.ReasonEnforcedByPolicy, message
}

// notSeen begins the message about enforcement that was not observed.
const notSeen = "the API server has not been seen to enforce it yet: "

// wasEnforcedByHook reports whether the webhook enforced the present definition of the feature at the last check.
func wasEnforcedByHook(f *v1alpha1.Feature) bool {
	c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionEnforced)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonEnforcedByWebhook && c.ObservedGeneration == f.Generation
}

// whyUnread says why settings are not known.
func (s *session) whyUnread(p *plan) string {
	if err := p.current.err; err != nil {
		return fmt.Sprintf("%v; %s", err, s.letRead(p))
	}
	return "the ConfigMap " + p.settingsSource() + " is being read"
}

// componentStatus fills in the status of the component.
func (s *session) componentStatus(p *plan, open int32, by map[string]int, notEnforced []string, done *outcome) {
	c := p.component
	st := &c.Status
	st.ObservedGeneration = c.Generation
	st.Features, st.Enabled = int32(min(len(p.features), 1<<30)), open
	st.Level = p.states.Level()
	st.SettingsVersion = p.version
	st.InUse = 0
	for i := range p.features {
		if n := p.features[i].Status.InUse; n != nil && *n > 0 {
			st.InUse++
		}
	}
	size := 0
	for k, v := range p.kept {
		size += len(k) + len(v)
	}
	st.Settings = nil
	if size <= maxKept {
		st.Settings = p.kept
	}
	var bad []string
	for i := range p.features {
		if gate := p.features[i].Spec.Gate; p.isLeftOut(gate) {
			bad = append(bad, gate)
		}
	}
	status, reason, message := p.acceptedCondition(bad, done)
	setCondition(&st.Conditions, c.Generation, s.Clock.Now(), v1alpha1.ConditionAccepted, status, reason, message)
	if done.held && p.known {
		return // it is looked at again in a moment
	}
	status, reason, message = s.allEnforced(p, by, notEnforced, bad, done)
	setCondition(&st.Conditions, c.Generation, s.Clock.Now(), v1alpha1.ConditionEnforced, status, reason, message)
}

// acceptedCondition says whether the definitions and the settings of a component are good; bad are the features with errors.
func (p *plan) acceptedCondition(bad []string, done *outcome) (status metav1.ConditionStatus, reason, message string) {
	own := errorsAbout(p.definition, "")
	switch wrong := errorLines(p.wrong); {
	case own != "" || bad != nil:
		if bad != nil {
			own = strings.TrimPrefix(own+fmt.Sprintf("; %d of %d features have errors: %s", len(bad), len(p.features), strings.Join(bad, ", ")), "; ")
		}
		if wrong != "" {
			own += "; settings: " + wrong
		}
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidDefinition, own
	case p.current.immutable:
		if wrong != "" {
			wrong = "; " + wrong
		}
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, p.locked() + wrong
	case wrong != "":
		what := "what is wrong reads as not set"
		if !p.live {
			what = "the last good settings stay in force"
			if p.settings == nil {
				what = "the defaults are in force, as there were no good settings before"
			}
		}
		return metav1.ConditionFalse, v1alpha1.ReasonInvalidSettings, fmt.Sprintf("ConfigMap %s: %s; %s", p.settingsSource(), wrong, what)
	case done.settings != nil:
		what := "the last good settings are part of the policies until it is there"
		if p.settings == nil {
			what = "the defaults are in force until it is there"
		}
		return metav1.ConditionFalse, v1alpha1.ReasonSettingsMissing, brief.OneLine(done.settings.Error()) + "; " + what
	}
	message = "definitions and settings hold no error"
	if waiting := p.waiting(); waiting != nil {
		message += fmt.Sprintf("; %d of %d features wait for a part of an API that the cluster does not have: %s", len(waiting), len(p.features), strings.Join(waiting, ", "))
	}
	return metav1.ConditionTrue, v1alpha1.ReasonAccepted, withRemarks(message+p.leftOut(), p.wrong)
}

// locked says what to do about immutable settings.
func (p *plan) locked() string {
	ref := p.model.Spec().ConfigMap
	text := fmt.Sprintf("%s (%s): ", feature.Immutable, p.settingsSource())
	switch {
	case len(p.current.held) > 0:
		return text + "it is being deleted, and waits for its finalizers: " + strings.Join(p.current.held, ", ")
	case p.live:
		return text + fmt.Sprintf("delete it with kubectl delete configmap %s --namespace %s; Sluice makes it again at once, with the same settings, and not immutable", ref.Name, ref.Namespace)
	}
	return text + fmt.Sprintf("delete it with kubectl delete configmap %s --namespace %s, and make it again without immutable", ref.Name, ref.Namespace)
}

// allEnforced says whether all features of a component are enforced.
func (s *session) allEnforced(p *plan, by map[string]int, notEnforced, bad []string, done *outcome) (status metav1.ConditionStatus, reason, message string) {
	switch {
	case done.held:
		return metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnknown, "the settings are not known yet: " + s.whyUnread(p)
	case p.live && p.current.err != nil && !p.current.known && !p.detached && done.enforceErrors() != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, brief.OneLine(done.enforceErrors().Error()) + "; the settings cannot be read: " + s.whyUnread(p)
	case p.live && p.current.err != nil && !p.current.known && !p.detached:
		return metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnknown, "the policies are written, but the settings cannot be read: " + s.whyUnread(p)
	case len(notEnforced) > 0 || done.enforceErrors() != nil:
		return p.notAllEnforced(notEnforced, bad, done)
	case done.lost != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonWebhookUnreachable, done.lost.Error()
	case done.notObserved() != "":
		// The policy that guards the settings is about no feature.
		return metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, done.notObserved()
	case len(p.features) == 0:
		return metav1.ConditionUnknown, v1alpha1.ReasonNoFeatures, "the component has no features yet"
	}
	reason = v1alpha1.ReasonEnforcedByPolicy
	if by[v1alpha1.ReasonEnforcedByWebhook] > 0 {
		reason = v1alpha1.ReasonEnforcedByWebhook
	}
	message = fmt.Sprintf("%d features by policy alone, %d with the webhook, %d open for everybody, %d of behaviour only",
		by[v1alpha1.ReasonEnforcedByPolicy], by[v1alpha1.ReasonEnforcedByWebhook], by[v1alpha1.ReasonOpenForAll], by[v1alpha1.ReasonBehaviourOnly])
	if why := p.set.SettingsReason; why != "" {
		message += "; bad settings are refused by the webhook"
		if done.absent {
			message += ", which has not run in this cluster yet: nobody refuses them"
		}
		message += " (" + why + ")"
	}
	return metav1.ConditionTrue, reason, message
}

// notAllEnforced says what could not be written, and which features are not enforced for that. If nothing but the API server or the
// webhook is waited for, the condition says that.
func (p *plan) notAllEnforced(notEnforced, bad []string, done *outcome) (status metav1.ConditionStatus, reason, message string) {
	switch err := done.enforceErrors(); {
	case err != nil:
		message = brief.OneLine(err.Error())
	case bad != nil:
		message = "definitions have errors, which the condition Accepted names"
	}
	status, reason = metav1.ConditionFalse, v1alpha1.ReasonNotEnforced
	if done.enforceErrors() == nil && bad == nil && done.hook == nil {
		switch why := done.notObserved(); {
		case done.lost != nil:
			reason = v1alpha1.ReasonWebhookUnreachable
			message = done.lost.Error()
		case why != "":
			status, reason = metav1.ConditionUnknown, v1alpha1.ReasonNotObserved
			message = why
		}
	}
	if len(notEnforced) > 0 {
		message += fmt.Sprintf("; %d of %d features: %s", len(notEnforced), len(p.features), strings.Join(firstNames(notEnforced), ", "))
	}
	return status, reason, strings.TrimPrefix(message, "; ")
}

// firstNames are the first of many names, and how many more there are.
func firstNames(names []string) []string {
	const most = 10
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// announceWork says in the status of a component that has none that its policies are being made: to make those of many components
// takes a while. It reports whether that is written.
func (s *session) announceWork(ctx context.Context, c *v1alpha1.Component) bool {
	before := c.DeepCopy()
	setCondition(&c.Status.Conditions, c.Generation, s.Clock.Now(), v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonNotObserved, "the policies are being made")
	return !s.storeStatus(ctx, componentsResource, c, before.Status, c.Status, before.Status.Conditions, c.Status.Conditions)
}

// notObserved says which enforcement was not observed yet; empty if there is none.
func (o *outcome) notObserved() string {
	switch {
	case len(o.waiting) > 0:
		return "the API server has not looked at " + strings.Join(slices.Sorted(maps.Keys(o.waiting)), ", ") + " yet"
	case o.unseen != nil:
		return notSeen + brief.OneLine(o.unseen.Error())
	case o.unseenHook != nil:
		return notSeen + brief.OneLine(o.unseenHook.Error())
	}
	return ""
}

// leftOut lists the settings that were left out when the ConfigMap was restored; empty if there are none.
func (p *plan) leftOut() string {
	if len(p.without) == 0 {
		return ""
	}
	return "; what of them is bad by now was left out when they were put back: " + strings.Join(p.without, "; ")
}

// errorLines is a text of the errors among findings.
func errorLines(findings feature.Findings) string {
	var invalid *feature.InvalidError
	if !errors.As(findings.Err(), &invalid) {
		return ""
	}
	return brief.OneLine(invalid.Error())
}

// writeOrphans writes the status of features whose component does not exist.
func (s *session) writeOrphans(ctx context.Context, component string) error {
	var errs []error
	list := s.featuresOf(component)
	for i := range list {
		f := &list[i]
		before := f.DeepCopy()
		f.Status = v1alpha1.FeatureStatus{ObservedGeneration: f.Generation, Conditions: f.Status.Conditions}
		now := s.Clock.Now()
		setCondition(&f.Status.Conditions, f.Generation, now, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonComponentNotFound,
			fmt.Sprintf("there is no Component %q", component))
		setCondition(&f.Status.Conditions, f.Generation, now, v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNotEnforced, "its component is not there")
		meta.RemoveStatusCondition(&f.Status.Conditions, v1alpha1.ConditionSkew)
		if s.storeStatus(ctx, featuresResource, f, before.Status, f.Status, before.Status.Conditions, f.Status.Conditions) {
			errs = append(errs, fmt.Errorf("the status of Feature %s is not written yet", f.Name))
		}
	}
	return errors.Join(errs...)
}

// storeStatus writes a changed status and sends events about changed conditions. It reports whether to try again.
//
// An event is sent only for a condition that is new or has another status or reason, and only once the status is written: otherwise
// the next try would send it again.
func (s *session) storeStatus(ctx context.Context, resource string, o object, before, after any, was, is []metav1.Condition) (again bool) {
	if equality.Semantic.DeepEqual(before, after) {
		return false
	}
	err := s.api.updateStatus(ctx, resource, o.GetName(), o.DeepCopyObject())
	switch {
	case apierrors.IsNotFound(err):
		return false
	case err != nil:
		if !apierrors.IsConflict(err) && ctx.Err() == nil {
			s.Log.Warn("cannot write a status", "resource", resource, "name", o.GetName(), "error", err)
		}
		return true
	}
	for _, now := range is {
		old := meta.FindStatusCondition(was, now.Type)
		if old != nil && old.Status == now.Status && old.Reason == now.Reason || now.Status == metav1.ConditionUnknown {
			continue
		}
		if now.Type == v1alpha1.ConditionCounted {
			continue // the number shows it
		}
		if old == nil && now.Type == v1alpha1.ConditionSkew && now.Status == metav1.ConditionFalse {
			continue // there is no earlier condition to correct
		}
		kind := corev1.EventTypeWarning
		if (now.Status == metav1.ConditionTrue) == (now.Type != v1alpha1.ConditionSkew) {
			kind = corev1.EventTypeNormal
		}
		s.Recorder.Event(o, kind, now.Reason, brief.Clip(now.Message, maxEvent))
	}
	return false
}
