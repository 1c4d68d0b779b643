package features

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"sluice.dev/feature/policy"
	"sluice.dev/internal/brief"
)

// How the controller observes what an API server enforces: it creates a Lease in Sluice's namespace as a dry run, and checks the
// answer. Each component has a probe of each kind, a policy with its binding or a webhook, which matches only such a Lease, by a
// label. The controller writes a probe after all other objects of the component, and again when any of them changes. An API server
// reads policies and bindings in the order of their writes, and activates them together. So if it answers by the newest probe, it has
// all objects that were written before. The webhooks of a component are in one object with their probe.

const (
	// ProbeLabel is on the Lease. Its value is the wanted state.
	ProbeLabel = "feature.sluice.dev/probe"
	// askProbe is for the validating webhook, askProbeDrop for the mutating one.
	askProbe, askProbeDrop = "probe", "probe-drop"

	// probeSoon and probeLate bound the pause between two probes until the state is seen; it doubles.
	probeSoon, probeLate = 100 * time.Millisecond, 5 * time.Second
	// lookAtWebhook is the interval of calls to the webhook, lookAtLost the pause after a call without an answer. After two such
	// calls, the webhook counts as down. probeTimeout, in seconds, bounds a call.
	lookAtWebhook, lookAtLost = 10 * time.Second, time.Second
	probeTimeout              = 3

	unseen = "unseen" // the holder of the Lease in the request
)

// unreachableError means that an API server cannot call the webhook.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string {
	return "the feature webhook does not answer: " + strings.TrimPrefix(brief.OneLine(e.err.Error()), "Internal error occurred: ") + "; until it does, writes that use what it judges fail, and what it warns of passes without a warning"
}

func (e *unreachableError) Unwrap() error { return e.err }

// stateDigest is the name of a state, for a label.
func stateDigest(parts ...any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		return "" // strings, numbers and lists can always be written
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// probePolicies are the policies of a component that show whether the API server has the others, for each kind that the component has.
// state is empty if it has none.
//
// The state is a digest of all stored policies of the component, with their generations. So the probe differs whenever one of them
// does.
func (s *session) probePolicies(p *plan) (list []object, state string) {
	var stored []string
	var there []object
	for _, want := range p.set.Objects() {
		have := s.storedObject(asObject(want))
		if have == nil {
			continue // it could not be written, which the status says
		}
		stored, there = append(stored, fmt.Sprintf("%s %s %d", keyOf(have), have.GetUID(), have.GetGeneration())), append(there, have)
	}
	validating, mutating := hasResource(there, validatingPolicies), hasResource(there, mutatingPolicies)
	if !validating && !mutating {
		return nil, ""
	}
	slices.Sort(stored)
	state = stateDigest(p.component.Name, stored)
	name := probeName(p.component.Name)
	m := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "sluice", ManagedByLabel: Manager, policy.ComponentLabel: p.component.Name}}
	of := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
	}
	rules := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: probeLeaseRule()}}
	namespace := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.Namespace}}
	labelled := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: ProbeLabel, Operator: metav1.LabelSelectorOpExists}}}
	constraints := &admissionregistrationv1.MatchResources{ResourceRules: rules, NamespaceSelector: namespace, ObjectSelector: labelled}
	this := &admissionregistrationv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{ProbeLabel: state}}}
	if validating {
		list = append(list, &admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta: of("ValidatingAdmissionPolicy"), ObjectMeta: m,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: new(admissionregistrationv1.Ignore), MatchConstraints: constraints,
				Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: state}},
			},
		}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: of("ValidatingAdmissionPolicyBinding"), ObjectMeta: m,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, MatchResources: this, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn},
			},
		})
	}
	if mutating {
		list = append(list, &admissionregistrationv1.MutatingAdmissionPolicy{
			TypeMeta: of("MutatingAdmissionPolicy"), ObjectMeta: m,
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				FailurePolicy: new(admissionregistrationv1.Ignore), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy, MatchConstraints: constraints,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "[JSONPatch{op: 'replace', path: '/spec/holderIdentity', value: '" + state + "'}]"},
				}},
			},
		}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			TypeMeta: of("MutatingAdmissionPolicyBinding"), ObjectMeta: m,
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name, MatchResources: this},
		})
	}
	for _, o := range list {
		setDefaults(o)
	}
	return list, state
}

// hasResource reports whether one of the objects is of a resource.
func hasResource(list []object, resource string) bool {
	return slices.ContainsFunc(list, func(o object) bool { return resourceOf(o) == resource })
}

// probeName is the name of the policies that are probes.
func probeName(component string) string { return "features." + component + ".probe" }

// probeLeaseRule matches the Leases of probes.
func probeLeaseRule() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{coordinationv1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"leases"}, Scope: new(admissionregistrationv1.AllScopes),
		},
	}
}

// sendProbe sends a Lease for a state, and returns the warnings and the holder that come back.
func (s *session) sendProbe(ctx context.Context, state string) (warnings, holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTimeout*time.Second)
	defer cancel()
	// The policy members.sluice.dev allows the controller to create such a Lease.
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: "sluice-member-" + Role + "-probe-" + state, Namespace: s.Namespace,
			Labels: map[string]string{ProbeLabel: state, "sluice.dev/member": "true"}, Annotations: map[string]string{"sluice.dev/roles": Role},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(unseen)},
	}
	result := s.Kube.CoordinationV1().RESTClient().Post().Namespace(s.Namespace).Resource("leases").WarningHandler(rest.NoWarnings{}).MaxRetries(0).
		VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: Manager}, metav1.ParameterCodec).Body(lease).Do(ctx)
	var texts []string
	for _, w := range result.Warnings() {
		texts = append(texts, w.Text)
	}
	back := &coordinationv1.Lease{}
	if err := result.Into(back); err != nil {
		return strings.Join(texts, "\n"), "", err
	}
	return strings.Join(texts, "\n"), ptr.Deref(back.Spec.HolderIdentity, ""), nil
}

// checkProbes checks whether the API server enforces the written policies, and reaches the webhook.
func (s *session) checkProbes(ctx context.Context, p *plan, probes []object, state string, done *outcome) {
	s.mu.Lock()
	was := s.seen[p.component.Name]
	s.mu.Unlock()
	now := was
	if state != was.policies {
		now.policies = ""
		if err := s.seePolicies(ctx, probes, state); err != nil {
			done.unseen = err
		} else {
			now.policies = state
		}
	}
	if want := done.hooks.probeState(p.component.Name); want != "" && done.hook == nil {
		s.seeHooks(ctx, p, want, &now, done)
	} else {
		now.hooks, now.lost, now.err = "", 0, nil
	}
	if done.unseen != nil || done.unseenHook != nil && done.lost == nil {
		done.wait = shorterWait(done.wait, s.looks.When(p.component.Name))
	} else {
		s.looks.Forget(p.component.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[p.component.Name] = now
}

// seePolicies writes the probes and checks the answers.
//
// A validating policy answers by a warning with the state, and a mutating one by the holder of the Lease. An error of the dry run
// matters only where the answer is in the Lease: the warnings come with a refusal too.
func (s *session) seePolicies(ctx context.Context, probes []object, state string) error {
	mutating, validating := hasResource(probes, mutatingPolicies), hasResource(probes, validatingPolicies)
	for _, want := range probes {
		if have := s.storedObject(want); have != nil && sameAsWanted(want, have) {
			continue
		}
		stored, err := s.objects.applyObject(ctx, want)
		s.Metrics.countWrite(resourceOf(want), "apply", err)
		if err != nil {
			return fmt.Errorf("%s: %w", nameOf(want), err)
		}
		s.recordApplied(want, stored)
	}
	warnings, holder, err := s.sendProbe(ctx, state)
	if validating && !strings.Contains(warnings, state) || mutating && holder != state && err == nil {
		if err != nil {
			return err
		}
		return errors.New("it does not have the newest policies yet")
	}
	if mutating && err != nil {
		return err
	}
	return nil
}

// seeHooks makes the API server call the webhook, if a call is due.
//
// A webhook that was seen is called again after [lookAtWebhook]. One call without an answer may be chance, so the state changes with
// the second. now is the memory of earlier calls and is updated.
func (s *session) seeHooks(ctx context.Context, p *plan, want string, now *seen, done *outcome) {
	since := s.Clock.Since(now.asked)
	current := now.hooks == want+p.inputsDigest()
	switch {
	case current && now.lost == 0 && since < lookAtWebhook:
		done.wait = shorterWait(done.wait, lookAtWebhook-since)
		return
	case now.lost > 0 && since < lookAtLost:
	default:
		now.asked = s.Clock.Now()
		now.err = s.callHook(ctx, p, want, done)
		var unreachable *unreachableError
		switch {
		case errors.As(now.err, &unreachable):
			now.lost++
		case now.err != nil:
			now.hooks, now.lost = "", 0
		default:
			now.hooks, now.lost = want+p.inputsDigest(), 0
			done.wait = shorterWait(done.wait, lookAtWebhook)
			return
		}
	}
	if now.lost > 0 {
		done.wait = shorterWait(done.wait, lookAtLost)
		if current && now.lost == 1 {
			return // it may be a single lost call
		}
		now.hooks, done.lost = "", now.err
	}
	done.unseenHook = now.err
}

// callHook makes the API server call the webhook.
func (s *session) callHook(ctx context.Context, p *plan, want string, done *outcome) error {
	warnings, _, err := s.sendProbe(ctx, want)
	if err != nil {
		if strings.Contains(err.Error(), "failed calling webhook") {
			return &unreachableError{err}
		}
		return err
	}
	var asks []string
	if done.hooks.validating != nil {
		asks = append(asks, askProbe)
	}
	if done.hooks.mutating != nil {
		asks = append(asks, askProbeDrop)
	}
	for _, ask := range asks {
		switch text := probeAnswer(p.component.Name, ask, ""); {
		case !strings.Contains(warnings, text):
			return errors.New("it does not have the newest webhook configuration yet")
		case !strings.Contains(warnings, text+p.inputsDigest()):
			return errors.New("the feature webhook does not have the newest definitions and settings yet")
		}
	}
	return nil
}

// probeAnswer is the answer of the webhook.
func probeAnswer(component, ask, state string) string {
	return "the feature webhook has " + component + "/" + ask + " " + state
}

// inputsDigest is a digest of the inputs of a plan, the same in both roles.
func (p *plan) inputsDigest() string {
	list := []string{fmt.Sprintf("%s %d", p.component.UID, p.component.Generation), p.current.version}
	for i := range p.features {
		list = append(list, fmt.Sprintf("%s %d", p.features[i].UID, p.features[i].Generation))
	}
	for _, known := range p.gated.crds {
		list = append(list, fmt.Sprintf("%s %d", known.uid, known.generation))
	}
	return stateDigest(list)
}

// addProbes adds the probes to the webhooks of a component, if it has any.
func (h *hookSet) addProbes(component, namespace string, address map[string]string) {
	named := func(ask string) string { return component + "." + ask + hookSuffix }
	h.validating = slices.DeleteFunc(h.validating, func(w hook) bool { return w.Name == named(askProbe) })
	h.mutating = slices.DeleteFunc(h.mutating, func(w hook) bool { return w.Name == named(askProbeDrop) })
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{ProbeLabel: stateDigest(component, h.validating, h.mutating)}}
	probe := func(ask string) hook {
		return hook{
			Name: named(ask), ClientConfig: clientConfig(namespace, address, hookPath(component, ask)),
			Rules:         []admissionregistrationv1.RuleWithOperations{probeLeaseRule()},
			FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Exact),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}, ObjectSelector: selector,
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(probeTimeout)), AdmissionReviewVersions: []string{"v1"},
		}
	}
	if len(h.validating) > 0 {
		h.validating = append(h.validating, probe(askProbe))
	}
	if len(h.mutating) > 0 {
		w := probe(askProbeDrop)
		w.ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy)
		h.mutating = append(h.mutating, w)
	}
}

// probeState is the state that the probes of webhooks look for; empty if there are none.
func (h *hookSet) probeState(component string) string {
	if h == nil {
		return ""
	}
	for _, list := range [][]hook{h.validating, h.mutating} {
		for i := range list {
			if w := &list[i]; w.Name == component+"."+askProbe+hookSuffix || w.Name == component+"."+askProbeDrop+hookSuffix {
				return w.ObjectSelector.MatchLabels[ProbeLabel]
			}
		}
	}
	return ""
}
