//go:build e2e

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
	"sluice.dev/tools/draws"
)

const hugeCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              plain: {type: string}
              text: {type: string}
              tasks:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    image: {type: string}
                    timeout: {type: string}
                    debug: {type: string}
                    steps: {type: array, x-kubernetes-list-type: atomic, items: {type: object, properties: {script: {type: string}, hint: {type: string}}}}
              loose: {type: array, x-kubernetes-list-type: atomic, items: {type: object, properties: {script: {type: string}, hint: {type: string}}}}
              words: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}
              env: {type: object, additionalProperties: {type: object, properties: {secret: {type: string}, hint: {type: string}, value: {type: string}}}}
              deep: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// hugeFeatures gate fields of items, entries and items of items; %[1]s is the group.
const hugeFeatures = `
- {gate: Timeout, parts: [{group: %[1]s, resource: things, field: "spec.tasks[*].timeout"}]}
- {gate: Debug, whenDisabled: Drop, parts: [{group: %[1]s, resource: things, field: "spec.tasks[*].debug"}]}
- {gate: Script, parts: [{group: %[1]s, resource: things, field: "spec.tasks[*].steps[*].script"}]}
- {gate: StepHint, whenDisabled: Drop, parts: [{group: %[1]s, resource: things, field: "spec.tasks[*].steps[*].hint"}]}
- {gate: Loose, parts: [{group: %[1]s, resource: things, field: "spec.loose[*].script"}]}
- {gate: LooseHint, whenDisabled: Drop, parts: [{group: %[1]s, resource: things, field: "spec.loose[*].hint"}]}
- {gate: Word, parts: [{group: %[1]s, resource: things, field: "spec.words[*]", values: [secret]}]}
- {gate: Secret, parts: [{group: %[1]s, resource: things, field: "spec.env[*].secret"}]}
- {gate: Hint, whenDisabled: Drop, parts: [{group: %[1]s, resource: things, field: "spec.env[*].hint"}]}
- {gate: Text, parts: [{group: %[1]s, resource: things, field: spec.text}]}
- {gate: Deep, parts: [{group: %[1]s, resource: things, field: spec.deep.frozen}]}
`

// byTheWebhook has all enforced by the webhook, which the API server asks, in place of policies of a mode.
const byTheWebhook = "Webhook"

// items is how many there are in the lists and maps of huge objects.
const items = 10_000

type object = map[string]any

// list makes a list of so many items.
func list(n int, item func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = item(i)
	}
	return out
}

func task(i int, more object) object {
	out := object{"name": fmt.Sprintf("task-%d", i)}
	maps.Copy(out, more)
	return out
}

// entries makes a map of so many values.
func entries(n int, value object) object {
	out := object{}
	for i := range n {
		out[fmt.Sprintf("key-%d", i)] = value
	}
	return out
}

func nested(depth int) any {
	var v any = "x"
	for range depth {
		v = object{"x": v}
	}
	return v
}

// hugeCase is a huge object.
type hugeCase struct {
	name string
	old  object // the spec that is stored; nil: there is none
	spec object
	// refused are words of the refusal; nil: the object passes.
	refused []string
	// written is what is written in place of spec; nil: spec.
	written object
	// alike: another case takes as much of the policies, so that this one is judged only where all are.
	alike bool
}

func hugeCases() []hugeCase {
	tasks := func(more object) object {
		return object{"tasks": list(items, func(i int) any { return task(i, more) })}
	}
	used := object{"timeout": "1h"}
	within := func(n int, step object) object {
		return object{"tasks": list(100, func(i int) any { return task(i, object{"steps": list(n/100, func(int) any { return step })}) })}
	}
	steps := func(step object) object { return within(items, step) }
	reversed := tasks(used)
	reversed["tasks"] = slices.Clone(reversed["tasks"].([]any)) //nolint:errcheck,forcetypeassert // it was made above
	slices.Reverse(reversed["tasks"].([]any))                   //nolint:errcheck,forcetypeassert // it was made above
	oneMore := object{"tasks": append(list(items-1, func(i int) any { return task(i, used) }), task(items, used))}
	with := func(spec object, more object) object {
		out := object{}
		for _, m := range []object{spec, more} {
			maps.Copy(out, m)
		}
		return out
	}
	plain := object{"plain": "x"}
	loose := func(item object) object { return object{"loose": list(items, func(int) any { return item })} }
	return []hugeCase{
		{name: "10,000 items that use nothing", spec: tasks(nil), alike: true},
		{name: "10,000 items that use nothing, changed", old: tasks(nil), spec: with(tasks(object{"image": "i"}), plain)},
		{name: "10,000 items, each with a use", spec: tasks(used), refused: []string{"spec.tasks[0].timeout", `"Timeout"`}},
		{name: "10,000 stored items, each with a use", old: tasks(used), spec: with(tasks(used), plain), alike: true},
		{name: "10,000 stored items in another order", old: tasks(used), spec: with(reversed, plain)},
		{name: "one use more", old: object{"tasks": list(items-1, func(i int) any { return task(i, used) })}, spec: oneMore, refused: []string{"spec.tasks[9999].timeout", `"Timeout"`}},
		{name: "10,000 items of which each is dropped", spec: tasks(object{"debug": "d"}), written: tasks(nil)},
		{name: "10,000 stored items of which each would be dropped", old: tasks(object{"debug": "d"}), spec: with(tasks(object{"debug": "e"}), plain)},
		{name: "10,000 items within items that use nothing", spec: steps(object{})},
		{name: "10,000 items within items, each with a use", spec: steps(object{"script": "s"}), refused: []string{"spec.tasks", `"Script"`}},
		{name: "10,000 stored items within items", old: steps(object{"script": "s"}), spec: with(steps(object{"script": "s"}), plain)},
		{name: "4,000 stored items within items, changed", old: within(4000, object{"script": "s"}), spec: with(within(4000, object{"script": "t"}), plain)},
		{name: "10,000 items within items of which each is dropped", spec: steps(object{"hint": "h"}), written: steps(object{})},
		{name: "10,000 items within one item", spec: object{"tasks": []any{task(0, object{"steps": list(items, func(int) any { return object{"script": "s"} })})}}, refused: []string{"spec.tasks", `"Script"`}},
		{name: "10,000 items without an identity", spec: loose(object{"script": "s"}), refused: []string{"spec.loose[0].script", `"Loose"`}},
		{name: "10,000 stored items without an identity", old: loose(object{"script": "s"}), spec: with(loose(object{"script": "t"}), plain)},
		{name: "10,000 items without an identity of which each is dropped", spec: loose(object{"hint": "h"}), written: loose(object{})},
		{name: "10,000 entries that use nothing", spec: object{"env": entries(items, object{"value": "v"})}, alike: true},
		{name: "10,000 entries, each with a use", spec: object{"env": entries(items, object{"secret": "s"})}, refused: []string{"spec.env", `"Secret"`}},
		{name: "10,000 stored entries, each with a use", old: object{"env": entries(items, object{"secret": "s"})}, spec: with(object{"env": entries(items, object{"secret": "s"})}, plain)},
		{name: "8,000 entries, each with a use", spec: object{"env": entries(8000, object{"secret": "s"})}, refused: []string{"spec.env.key-", `"Secret"`}},
		{name: "8,000 stored entries, changed", old: object{"env": entries(8000, object{"secret": "s"})}, spec: with(object{"env": entries(8000, object{"secret": "t"})}, plain)},
		{name: "8,000 entries of which each is dropped", spec: object{"env": entries(8000, object{"hint": "h"})}, written: object{"env": entries(8000, object{})}},
		{name: "10,000 words, one of them gated", spec: object{"words": append(list(items-1, func(int) any { return "w" }), "secret")}, refused: []string{"spec.words[9999]", `"Word"`}},
		{name: "400,000 words that use nothing", spec: object{"words": list(400_000, func(int) any { return "" })}, alike: true},
		{name: "400,000 items that use nothing", spec: object{"loose": list(400_000, func(int) any { return object{} })}},
		{name: "150,000 items within one item that use nothing", spec: object{"tasks": []any{task(0, object{"steps": list(150_000, func(int) any { return object{} })})}}},
		{name: "40,000 entries that use nothing", spec: object{"env": entries(40_000, object{})}},
		{name: "a text of 1.4 MB that is gated", spec: object{"text": strings.Repeat("x", 1_400_000)}, refused: []string{"spec.text: ", `"Text"`}},
		{name: "a text of 1.4 MB that is not", spec: object{"plain": strings.Repeat("x", 1_400_000)}},
		{name: "a stored text of 1.4 MB", old: object{"text": strings.Repeat("x", 700_000)}, spec: object{"text": strings.Repeat("y", 700_000)}},
		{name: "what is nested 1,000 deep in a part", spec: object{"deep": object{"frozen": nested(1000)}}, refused: []string{"spec.deep.frozen: ", `"Deep"`}},
		{name: "what is nested 1,000 deep beside a part", spec: object{"deep": object{"other": nested(1000)}}},
	}
}

// TestE2EHugeObjects has objects judged that are as large as the API server takes them: in both modes of policies, by the webhook that the API server waits ten seconds for, and by the evaluator.
// What uses nothing that is gated passes, and so does what is stored; what uses it is refused with the place, or dropped.
// It is not parallel: the largest request takes 7 s alone, and the API server ends it after 34 s, which the other tests beside it can use up.
func TestE2EHugeObjects(t *testing.T) {
	s := connect(t)
	cases := hugeCases()
	type try struct {
		group  string
		things dynamic.ResourceInterface
		stored map[string]*unstructured.Unstructured
	}
	for _, by := range []string{"Live", "Baked", byTheWebhook} {
		t.Run(by, func(t *testing.T) {
			s, mode := s.with(t), v1alpha1.Mode(by)
			if by == byTheWebhook {
				mode = v1alpha1.Baked
			}
			name := "huge-" + strings.ToLower(by)
			c := try{group: name + ".e2e.dev", stored: map[string]*unstructured.Unstructured{}}
			s.namespace(name, nil)
			s.settings(name, nil)
			s.applyYAML(fmt.Sprintf(hugeCRD, c.group))
			m := model(t, fmt.Sprintf("{metadata: {name: %s}, spec: {release: v1.5.0, mode: %s, configMap: {namespace: %[1]s, name: feature-flags}}}", name, mode),
				fmt.Sprintf(hugeFeatures, c.group), fmt.Sprintf(hugeCRD, c.group))
			set, err := policy.Compile(t.Context(), m, policy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range set.Enforced {
				if e.Kind == "" {
					t.Errorf("%s takes the webhook: %s", e.Gate, e.Reason)
				}
			}
			c.things, _ = s.as("", schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: "things"}, name)
			thing := func(name string, spec object) *unstructured.Unstructured {
				u := &unstructured.Unstructured{Object: object{"apiVersion": c.group + "/v1", "kind": "Thing", "spec": spec}}
				u.SetName(name)
				return u.DeepCopy()
			}
			for i, h := range cases {
				if h.old == nil || !h.judged(by, i) {
					continue
				}
				if c.stored[h.name], err = c.things.Create(t.Context(), thing(fmt.Sprintf("stored-%d", i), h.old), metav1.CreateOptions{}); err != nil {
					t.Fatalf("%s: %v", h.name, err)
				}
			}
			if by == byTheWebhook {
				s.enforceByHook(m, c.group, "things")
			} else {
				s.enforce(set)
				defer s.release(name)
			}
			dry := []string{metav1.DryRunAll}
			write := func(ctx context.Context, h *hugeCase) (got *unstructured.Unstructured, err error) {
				if u := c.stored[h.name]; u != nil {
					u = u.DeepCopy()
					u.Object["spec"] = h.spec
					return c.things.Update(ctx, u.DeepCopy(), metav1.UpdateOptions{DryRun: dry})
				}
				return c.things.Create(ctx, thing("x", h.spec), metav1.CreateOptions{DryRun: dry})
			}
			for _, small := range []hugeCase{
				{spec: object{"tasks": []any{task(0, object{"timeout": "1h"})}}, refused: []string{"Timeout"}},
				{spec: object{"tasks": []any{task(0, object{"debug": "d"})}}, written: object{"tasks": []any{task(0, nil)}}},
			} {
				until(t, "the policies", func(ctx context.Context) error { return small.differs(write(ctx, &small)) })
			}
			for i, h := range cases {
				if !h.judged(by, i) {
					continue
				}
				if err := h.differs(write(t.Context(), &h)); err != nil {
					t.Errorf("%s: %v", h.name, err)
				}
			}
			if by != "Live" {
				return // the evaluator is the same
			}
			e := m.Resolve(nil, feature.Runtime{}).Compile()
			for _, h := range cases {
				r := &feature.Request{Group: c.group, Version: "v1", Resource: "things", Object: object{"spec": h.spec}}
				if h.old != nil {
					r.Old = object{"spec": h.old}
				}
				d := e.Evaluate(r)
				got, err := &unstructured.Unstructured{Object: r.Object}, error(nil)
				if d.Object != nil {
					got.Object = d.Object
				}
				if !d.Allowed() {
					err = &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: d.Message()}}
				}
				if err := h.differs(got, err); err != nil {
					t.Errorf("%s, by the evaluator: %v", h.name, err)
				}
			}
		})
	}
}

// judged tells by which enforcement a case is judged: by live policies, unless another case is like it, and by the others, which say
// the same of an object as those do, in some cases.
func (h *hugeCase) judged(by string, i int) bool {
	return draws.All() || by == "Live" && !h.alike || draws.Takes(i)
}

// differs says how what became of a case is not what it is to be; nil if it is.
func (h *hugeCase) differs(got *unstructured.Unstructured, err error) error {
	if h.refused != nil {
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("no refusal: %w", err)
		}
		if n := len(err.Error()); n > 6000 {
			return fmt.Errorf("a message of %d bytes", n)
		}
		for _, w := range h.refused {
			if !strings.Contains(err.Error(), w) {
				return fmt.Errorf("%q is not told: %.1000w", w, err)
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("refused: %.1000s", err.Error())
	}
	want := h.written
	if want == nil {
		want = h.spec
	}
	if !equal(want, got.Object["spec"]) {
		return errors.New("another object is written")
	}
	return nil
}
