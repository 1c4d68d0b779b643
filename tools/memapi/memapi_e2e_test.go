//go:build e2e

package memapi_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/tools/clustertest"
	"sluice.dev/tools/memapi"
)

var cluster clustertest.Shared

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.memapi.dev}
spec:
  group: memapi.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`

// step is one request. Its outcome is the reason of an error, or what a client sees of the object.
type step struct {
	name string
	do   func(ctx context.Context, c dynamic.ResourceInterface) (*unstructured.Unstructured, error)
}

func object(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("apiVersion: memapi.dev/v1\nkind: Widget\nmetadata: {name: one, namespace: default}\n"+text), &u.Object); err != nil {
		return nil // the first request with it fails
	}
	return u
}

func steps() []step {
	type api = dynamic.ResourceInterface
	type result = *unstructured.Unstructured
	apply := func(manager, text string, force bool) func(context.Context, api) (result, error) {
		return func(ctx context.Context, c api) (result, error) {
			return c.Apply(ctx, "one", object(text), metav1.ApplyOptions{FieldManager: manager, Force: force})
		}
	}
	edit := func(f func(u result), subresources ...string) func(context.Context, api) (result, error) {
		return func(ctx context.Context, c api) (result, error) {
			u, err := c.Get(ctx, "one", metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			f(u)
			return c.Update(ctx, u, metav1.UpdateOptions{FieldManager: "editor"}, subresources...)
		}
	}
	patch := func(kind types.PatchType, text string, subresources ...string) func(context.Context, api) (result, error) {
		return func(ctx context.Context, c api) (result, error) {
			return c.Patch(ctx, "one", kind, []byte(text), metav1.PatchOptions{FieldManager: "patcher"}, subresources...)
		}
	}
	remove := func(o metav1.DeleteOptions) func(context.Context, api) (result, error) {
		return func(ctx context.Context, c api) (result, error) { return nil, c.Delete(ctx, "one", o) }
	}
	get := func(ctx context.Context, c api) (result, error) { return c.Get(ctx, "one", metav1.GetOptions{}) }
	all := []string{metav1.DryRunAll}
	uid := types.UID("other")
	set := func(value any, fields ...string) func(u result) {
		return func(u result) { _ = unstructured.SetNestedField(u.Object, value, fields...) } // a path that is none fails the comparison
	}
	return []step{
		{"get what is not there", get},
		{"patch what is not there", patch(types.MergePatchType, `{"spec":{"a":1}}`)},
		{"try to create", func(ctx context.Context, c api) (result, error) {
			return c.Create(ctx, object("spec: {a: 1}\nstatus: {b: 1}"), metav1.CreateOptions{FieldManager: "creator", DryRun: all})
		}},
		{"get what was only tried", get},
		{"create", func(ctx context.Context, c api) (result, error) {
			return c.Create(ctx, object("spec: {a: 1}\nstatus: {b: 1}"), metav1.CreateOptions{FieldManager: "creator"})
		}},
		{"create again", func(ctx context.Context, c api) (result, error) {
			return c.Create(ctx, object("spec: {a: 2}"), metav1.CreateOptions{})
		}},
		{"change nothing", edit(func(result) {})},
		{"change the spec", edit(set(int64(2), "spec", "a"))},
		{"change the status by the object", edit(set(int64(9), "status", "b"))},
		{"change the status", edit(set(int64(3), "status", "b"), "status")},
		{"change the spec by the status", edit(set(int64(7), "spec", "a"), "status")},
		{"write an old version", edit(set("1", "metadata", "resourceVersion"))},
		{"write another UID", edit(set("other", "metadata", "uid"))},
		{"merge", patch(types.MergePatchType, `{"spec":{"c":"x","a":null},"metadata":{"labels":{"l":"1"}}}`)},
		{"merge an old version", patch(types.MergePatchType, `{"metadata":{"resourceVersion":"1"},"spec":{"c":"y"}}`)},
		{"merge into the status", patch(types.MergePatchType, `{"status":{"m":true},"spec":{"c":"no"}}`, "status")},
		{"patch by JSON", patch(types.JSONPatchType, `[{"op":"add","path":"/spec/d","value":[1,2]}]`)},
		{"patch by JSON where a test fails", patch(types.JSONPatchType, `[{"op":"test","path":"/spec/d","value":[]}]`)},
		{"apply", apply("one", "spec: {mine: 1, shared: 1}", false)},
		{"apply the same again", apply("one", "spec: {mine: 1, shared: 1}", false)},
		{"apply what another manager has, with its value", apply("two", "spec: {shared: 1}", false)},
		{"apply what another manager has, with another value", apply("three", "spec: {shared: 2}", false)},
		{"take it by force", apply("three", "spec: {shared: 2}", true)},
		{"apply without a field of its own", apply("one", "spec: {shared: 2}", false)},
		{"apply no longer what two managers have", apply("one", "spec: {}", false)},
		{"try to apply", func(ctx context.Context, c api) (result, error) {
			return c.Apply(ctx, "one", object("spec: {tried: 1}"), metav1.ApplyOptions{FieldManager: "one", DryRun: all})
		}},
		{"get after it", get},
		{"delete another UID", remove(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})},
		{"try to delete", remove(metav1.DeleteOptions{DryRun: all})},
		{"add a finalizer", edit(func(u result) { u.SetFinalizers([]string{"memapi.dev/hold"}) })},
		{"delete with a finalizer", remove(metav1.DeleteOptions{})},
		{"get what is being deleted", get},
		{"delete it again", remove(metav1.DeleteOptions{})},
		{"change what is being deleted", edit(set("z", "spec", "c"))},
		{"take the finalizer off", edit(func(u result) { u.SetFinalizers(nil) })},
		{"get what is gone", get},
		{"delete what is gone", remove(metav1.DeleteOptions{})},
		{"apply what is not there", apply("one", "spec: {again: 1}", false)},
		{"delete", remove(metav1.DeleteOptions{})},
	}
}

// play sends all steps and returns their outcomes, one a line.
func play(t *testing.T, config *rest.Config) (out []string) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := client.Resource(schema.GroupVersionResource{Group: "memapi.dev", Version: "v1", Resource: "widgets"}).Namespace("default")
	version := ""
	for _, s := range steps() {
		u, err := s.do(t.Context(), c)
		outcome := "ok"
		switch {
		case err != nil:
			outcome = string(apierrors.ReasonForError(err))
		case u != nil:
			outcome = seen(t, u, version)
			version = u.GetResourceVersion()
		}
		out = append(out, s.name+": "+outcome)
	}
	return out
}

// seen is an object without what differs between servers: names of managers stand for what they manage.
func seen(t *testing.T, u *unstructured.Unstructured, version string) string {
	t.Helper()
	changed := u.GetResourceVersion() != version
	managers := []string{}
	for _, m := range u.GetManagedFields() {
		fields := strings.ReplaceAll(m.FieldsV1.GetRawString(), `{".":{},"v:\"memapi.dev/hold\"":{}}`, "{}") // lists are atomic in memory
		managers = append(managers, fmt.Sprintf("%s %s %s %s", m.Manager, m.Operation, m.Subresource, fields))
	}
	slices.Sort(managers) // the server sorts them by the time, in seconds
	text, err := yaml.Marshal(map[string]any{
		"changed": changed, "generation": u.GetGeneration(), "labels": u.GetLabels(), "finalizers": u.GetFinalizers(), "deleted": u.GetDeletionTimestamp() != nil,
		"spec": u.Object["spec"], "status": u.Object["status"], "managers": managers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestE2EAgreesWithTheAPIServer sends the same requests to the server in memory and to the real one.
func TestE2EAgreesWithTheAPIServer(t *testing.T) {
	real := cluster.Get(t).Config()
	install(t, real)
	want := play(t, real)

	api := memapi.New(t)
	api.As("test").Put(widgets)
	got := play(t, api.Config())
	for i := range want {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("the real server (-) and the one in memory (+) differ:\n%s", diff)
		}
	}
}

// install creates the CRD and waits until its objects can be listed.
func install(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(widgets), &u.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := client.Resource(schema.GroupVersionResource{Group: "memapi.dev", Version: "v1", Resource: "widgets"}).List(ctx, metav1.ListOptions{})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
