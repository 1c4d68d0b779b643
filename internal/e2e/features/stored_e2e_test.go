//go:build e2e

package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/api/v1alpha1"
)

// everything uses all features of a scene that gate fields and values.
const everything = "{tasksTimeout: 1h, onError: retry, tasks: [{name: a, timeout: 1m}, {name: b}], env: {A: {secret: s}, B: {value: x}}, modes: [calm, turbo], extra: {k: v}}"

// TestE2EStoredObjectsGoOn is scenarios 4 to 8: what is stored and uses features that are closed since stays as it is, in each
// mode of disabling.
func TestE2EStoredObjectsGoOn(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"Reject", "Drop"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, installed(t), "stored-"+strings.ToLower(when), sceneOptions{whenDisabled: when})
			c.enforced()
			c.set(map[string]string{"enable-api-fields": "alpha"})
			c.open(everything)
			c.must("used", everything)
			c.set(nil)
			closed := func(spec string) {
				eventually(t, "what is closed not to be written", func(context.Context) error {
					got, err := c.try(spec)
					if when == "Reject" {
						return refused(err)
					}
					if err != nil {
						return err
					}
					if cmp.Diff(c.pipeline("x", spec).Object["spec"], got.Object["spec"]) == "" {
						return errors.New("it is written")
					}
					return nil
				})
			}
			for _, u := range uses {
				closed(u.spec)
			}
			same := func(what string, got *unstructured.Unstructured, err error, want string) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if diff := cmp.Diff(c.pipeline("x", want).Object["spec"], got.Object["spec"]); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
			}
			// not is a write of what is not stored: it is refused, or what is new in it dropped.
			not := func(what, patch, left string) {
				t.Helper()
				got, err := c.patch("used", patch)
				if when == "Drop" {
					same(what, got, err, left)
				} else if err := refused(err, "needs feature"); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			got, err := c.patch("used", "{metadata: {labels: {team: a}, finalizers: [e2e.dev/keep]}}")
			same("label and finalizer", got, err, everything)
			got, err = c.patch("used", "{metadata: {finalizers: null}}")
			same("no finalizer", got, err, everything)
			got, err = c.patch("used", "{status: {phase: Running, replicas: 1}}", "status")
			same("status", got, err, everything)
			if _, err = c.patch("used", "{spec: {replicas: 3}}", "scale"); err != nil {
				t.Errorf("scale: %v", err)
			}
			got, err = c.patch("used", "{spec: {replicas: null}}")
			same("no replicas", got, err, everything)
			got, err = c.patch("used", "{spec: {description: d}}")
			same("unrelated", got, err, strings.Replace(everything, "{", "{description: d, ", 1))
			got, err = c.patch("used", "{spec: {description: null, tasks: [{name: b}, {name: a, timeout: 1m}]}}")
			same("items in another order", got, err, "{tasksTimeout: 1h, onError: retry, tasks: [{name: b}, {name: a, timeout: 1m}], env: {A: {secret: s}, B: {value: x}}, modes: [calm, turbo], extra: {k: v}}")
			got, err = c.patch("used", "{spec: {tasks: [{name: a, timeout: 1m}, {name: b}]}}")
			same("back", got, err, everything)
			got, err = c.patch("used", "{spec: {tasksTimeout: 2h}}")
			same("another value of what is used", got, err, strings.Replace(everything, "tasksTimeout: 1h", "tasksTimeout: 2h", 1))
			got, err = c.patch("used", "{spec: {tasksTimeout: 1h}}")
			same("the first value", got, err, everything)
			u := c.pipeline("used", everything)
			u.SetLabels(map[string]string{"by": "apply"})
			got, err = c.things.Apply(t.Context(), "used", u, metav1.ApplyOptions{FieldManager: "applier", Force: true})
			same("server-side apply", got, err, everything)

			not("in a sibling item", "{spec: {tasks: [{name: a, timeout: 1m}, {name: b, timeout: 1m}]}}", everything)
			not("in a sibling key", "{spec: {env: {B: {secret: s}}}}", everything)
			not("another value of a map", "{spec: {extra: {l: v}}}", everything)

			without := "{tasks: [{name: a, timeout: 1m}, {name: b}], env: {A: {secret: s}, B: {value: x}}, modes: [calm, turbo], extra: {k: v}}"
			got, err = c.patch("used", "{spec: {tasksTimeout: null, onError: null}}")
			same("less", got, err, without)
			not("added again", "{spec: {tasksTimeout: 1h}}", without)
			not("the value again", "{spec: {onError: retry}}", without)
		})
	}
}

// TestE2EUnchanged is scenario 7, the ratchet Unchanged: what is used may stay or go, and nothing else.
func TestE2EUnchanged(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "unchanged", sceneOptions{more: ", ratchet: Unchanged", gates: []string{"TasksTimeout", "TaskTimeout"}})
	c.enforced()
	c.set(map[string]string{"enable-api-fields": "alpha"})
	const spec = "{tasksTimeout: 1h, tasks: [{name: a, timeout: 1m}]}"
	c.open(spec)
	c.must("used", spec)
	c.set(nil)
	c.inForce("{tasksTimeout: 1h}")
	c.inForce("{tasks: [{name: a, timeout: 1m}]}")
	if _, err := c.patch("used", "{spec: {description: d}}"); err != nil {
		t.Error(err)
	}
	for _, patch := range []string{"{spec: {tasksTimeout: 2h}}", "{spec: {tasks: [{name: a, timeout: 2m}]}}"} {
		_, err := c.patch("used", patch)
		if err := refused(err, "needs feature"); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if _, err := c.patch("used", "{spec: {tasksTimeout: null, tasks: []}}"); err != nil {
		t.Error(err)
	}
}

// TestE2ERollBack is scenario 11: the component goes one release back, to before its feature, and forth again, with objects in
// store that use it. No byte of them is lost.
func TestE2ERollBack(t *testing.T) {
	t.Parallel()
	c := newScene(t, installed(t), "rollback", sceneOptions{gates: []string{"TasksTimeout", "TaskTimeout"}})
	c.enforced()
	c.set(map[string]string{"enable-api-fields": "alpha"})
	const spec = "{tasksTimeout: 1h, tasks: [{name: a, timeout: 1m}]}"
	c.open(spec)
	c.must("used", spec)
	release := func(r string) {
		t.Helper()
		_, err := c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource("components")).Patch(t.Context(), c.name, types.MergePatchType,
			[]byte(`{"spec":{"release":"`+r+`"}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	bytesOf := func() string {
		t.Helper()
		u, err := c.things.Get(t.Context(), "used", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(u.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := bytesOf()
	release("v0.9.0")
	c.inForce("{tasksTimeout: 1h}", "not there yet", "it comes with v1.0.0 of the component")
	for i, sub := range [][]string{nil, {"status"}} {
		if _, err := c.patch("used", fmt.Sprintf("{metadata: {labels: {n: '%d'}}, status: {phase: p%d}}", i, i), sub...); err != nil {
			t.Errorf("the older release: %v", err)
		}
	}
	if diff := cmp.Diff(before, bytesOf()); diff != "" {
		t.Error(diff)
	}
	release("v1.5.0")
	c.open(spec)
	if _, err := c.patch("used", "{spec: {tasksTimeout: 3h}}"); err != nil {
		t.Error(err)
	}
}
