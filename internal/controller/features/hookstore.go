package features

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// All components share one configuration of each kind. Server-side apply lets each component write its own webhooks into the list,
// with a field manager of its own, and none has to know what the others have.

// writeHooks writes the webhooks of a component into both configurations; nil removes them.
func (s *session) writeHooks(ctx context.Context, component string, want *hookSet) error {
	want = cmp.Or(want, &hookSet{})
	var errs []error
	for _, resource := range []string{validatingHooks, mutatingHooks} {
		list := want.validating
		if resource == mutatingHooks {
			list = want.mutating
		}
		if equality.Semantic.DeepEqual(list, s.hooksIn(resource, component)) || len(list) == 0 && !slices.Contains(s.hookOwners(resource), component) {
			continue
		}
		errs = append(errs, s.applyHooks(ctx, resource, component, list))
	}
	return errors.Join(errs...)
}

// applyHooks writes the webhooks of a component into one of the configurations; an empty list removes them. The field manager of the
// component owns them, so an apply leaves the webhooks of other components alone.
func (s *session) applyHooks(ctx context.Context, resource, component string, list []hook) error {
	kind, stored := "ValidatingWebhookConfiguration", runtime.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{})
	if resource == mutatingHooks {
		kind, stored = "MutatingWebhookConfiguration", &admissionregistrationv1.MutatingWebhookConfiguration{}
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": admissionregistrationv1.SchemeGroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": Configuration, "labels": map[string]any{ManagedByLabel: Manager}},
		"webhooks": append([]hook{}, list...), // an empty list, not null
	})
	if err != nil {
		return err
	}
	err = s.objects.rest.Patch(types.ApplyPatchType).Resource(resource).Name(Configuration).
		VersionedParams(&metav1.PatchOptions{FieldManager: managerPrefix + component, Force: new(true)}, metav1.ParameterCodec).Body(data).Do(ctx).Into(stored)
	if err == nil && replaceHooks(stored, component, list) {
		// Server-side apply does not remove fields that others have added to our webhooks.
		err = s.objects.rest.Put().Resource(resource).Name(Configuration).
			VersionedParams(&metav1.UpdateOptions{FieldManager: managerPrefix + component}, metav1.ParameterCodec).Body(stored).Do(ctx).Error()
	}
	s.Metrics.countWrite(resource, "apply", err)
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, Configuration, err)
	}
	return nil
}

// replaceHooks replaces the webhooks of a component in a configuration by the list; it reports whether that changes them.
func replaceHooks(stored runtime.Object, component string, list []hook) bool {
	all := hooksIn(stored)
	if equality.Semantic.DeepEqual(list, hooksOfComponent(all, component)) {
		return false
	}
	all = append(slices.DeleteFunc(all, func(w hook) bool { return isHookOf(w.Name, component) }), list...)
	switch c := stored.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		c.Webhooks = nil
		for i := range all {
			c.Webhooks = append(c.Webhooks, validatingHook(&all[i]))
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		c.Webhooks = all
	}
	return true
}

// isHookOf reports whether a webhook is one of a component. The name of a component has no dot; the text after it may have one
// ([namedVersions]).
func isHookOf(name, component string) bool {
	rest, ok := strings.CutSuffix(name, hookSuffix)
	owner, _, asks := strings.Cut(rest, ".")
	return ok && asks && owner == component
}

// hooksIn are the webhooks of a component in a stored configuration.
func (s *session) hooksIn(resource, component string) []hook {
	o, _, _ := s.stores[resource].GetStore().GetByKey(Configuration)
	return hooksOfComponent(hooksIn(o), component)
}

// hooksStored are the webhooks of a component in both configurations.
func (s *session) hooksStored(component string) *hookSet {
	return &hookSet{s.hooksIn(validatingHooks, component), s.hooksIn(mutatingHooks, component)}
}

func hooksOfComponent(all []hook, component string) (out []hook) {
	for i := range all {
		if isHookOf(all[i].Name, component) {
			out = append(out, all[i])
		}
	}
	return out
}

// hooksIn are all webhooks in a configuration; nil for any other object.
func hooksIn(o any) (out []hook) {
	switch c := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			out = append(out, hook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
				AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return c.Webhooks
	}
	return out
}

func validatingHook(w *hook) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
		AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}
}

// hookOwners lists the components that have anything in a configuration.
func (s *session) hookOwners(resource string) (components []string) {
	o, _, _ := s.stores[resource].GetStore().GetByKey(Configuration)
	if m := asObject(o); m != nil {
		for _, f := range m.GetManagedFields() {
			if component, ok := strings.CutPrefix(f.Manager, managerPrefix); ok {
				components = append(components, component)
			}
		}
	}
	return components
}
