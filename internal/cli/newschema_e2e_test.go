//go:build e2e

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/internal/cli/apply"
)

// schemaVersion is a version of a CRD whose spec has these properties.
func schemaVersion(name string, storage, served bool, properties string) string {
	return fmt.Sprintf("{name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, %s}}}}}", name, served, storage, properties)
}

func only(properties string) string { return schemaVersion("v1", true, true, properties) }

// newSchemas are changes of a CRD, each with an object before and after it. The object after it is valid under the new CRD alone, if not
// said otherwise. An empty old or before stands for none.
var newSchemas = map[string]struct{ old, next, before, after, api string }{
	"a new field": {
		old: only("properties: {a: {type: string}}"), next: only("properties: {a: {type: string}, b: {type: string}}"), before: "{a: x}", after: "{a: x, b: z}",
	},
	"a new field, and a new object": {
		old: only("properties: {a: {type: string}}"), next: only("properties: {a: {type: string}, b: {type: string}}"), after: "{b: z}",
	},
	"a new field below a list": {
		old:    only("properties: {l: {type: array, items: {type: object, properties: {a: {type: string}}}}}"),
		next:   only("properties: {l: {type: array, items: {type: object, properties: {a: {type: string}, b: {type: integer}}}}}"),
		before: "{l: [{a: x}]}", after: "{l: [{a: x, b: 1}]}",
	},
	"a string that may be a number": {
		old: only("properties: {a: {type: string}}"), next: only("properties: {a: {x-kubernetes-int-or-string: true}}"), before: "{a: x}", after: "{a: 5}",
	},
	"an integer that may have a fraction": {
		old: only("properties: {a: {type: integer}}"), next: only("properties: {a: {type: number}}"), before: "{a: 1}", after: "{a: 1.5}",
	},
	"a new value of an enum": {
		old: only("properties: {a: {type: string, enum: [x]}}"), next: only("properties: {a: {type: string, enum: [x, w]}}"), before: "{a: x}", after: "{a: w}",
	},
	"a longer text": {
		old: only("properties: {a: {type: string, maxLength: 1}}"), next: only("properties: {a: {type: string, maxLength: 2}}"), before: "{a: x}", after: "{a: xx}",
	},
	"a field that is no longer required": {
		old:  only("required: [a], properties: {a: {type: string}, b: {type: string}}"),
		next: only("properties: {a: {type: string}, b: {type: string}}"), before: "{a: x}", after: "{b: x}",
	},
	"a field that is required, and set": {
		old: only("properties: {a: {type: string}}"), next: only("required: [b], properties: {a: {type: string}, b: {type: string}}"), before: "{a: x}", after: "{a: x, b: z}",
	},
	"a rule that is gone": {
		old:    only("properties: {a: {type: string}}, x-kubernetes-validations: [{rule: \"!has(self.a) || self.a != 'w'\"}]"),
		next:   only("properties: {a: {type: string}}"),
		before: "{a: x}", after: "{a: w}",
	},
	"fields that need no schema": {
		old: only("properties: {a: {type: string}}"), next: only("x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}"), before: "{a: x}", after: "{a: x, any: [1, {b: 2}]}",
	},
	"a map that takes other values": {
		old: only("properties: {m: {type: object, additionalProperties: {type: string}}}"), next: only("properties: {m: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}}"),
		before: "{m: {k: x}}", after: "{m: {k: x, l: 1}}",
	},
	"a set that may repeat": {
		old:    only("properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}}"),
		next:   only("properties: {l: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}}"),
		before: "{l: [x]}", after: "{l: [x, x]}",
	},
	"a list by keys that may repeat": {
		old:    only("properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: string}}}}}"),
		next:   only("properties: {l: {type: array, items: {type: object, required: [k], properties: {k: {type: string}, v: {type: string}}}}}"),
		before: "{l: [{k: x, v: a}]}", after: "{l: [{k: x, v: a}, {k: x, v: b}]}",
	},
	"a list with a new key": {
		old:    only("properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}}}"),
		next:   only("properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, i], items: {type: object, required: [k, i], properties: {k: {type: string}, i: {type: integer}}}}}"),
		before: "{l: [{k: x}]}", after: "{l: [{k: x, i: 1}, {k: x, i: 2}]}",
	},
	"a list that is by keys now, and an object that both allow": {
		old:    only("properties: {l: {type: array, items: {type: object, required: [k], properties: {k: {type: string}, v: {type: string}}}}}"),
		next:   only("properties: {l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: string}}}}}"),
		before: "{l: [{k: x, v: a}, {k: v, v: b}]}", after: "{l: [{k: v, v: b}, {k: x, v: c}]}",
	},
	"another default": {
		old:   only("properties: {a: {type: string, enum: [x], default: x}, b: {type: string}}"),
		next:  only("properties: {a: {type: string, enum: [w, z], default: w}, b: {type: string}}"),
		after: "{b: x}",
	},
	"a new version": {
		old:    only("properties: {a: {type: string}}"),
		next:   only("properties: {a: {type: string}, b: {type: string}}") + ", " + schemaVersion("v2", false, true, "properties: {a: {type: string}, b: {type: string}}"),
		before: "{a: x}", after: "{a: x, b: z}", api: "v2",
	},
	"a new version that is stored, with a field that the old one lacks": {
		old:    only("properties: {a: {type: string}}"),
		next:   schemaVersion("v1", false, true, "properties: {a: {type: string}}") + ", " + schemaVersion("v2", true, true, "properties: {a: {type: string}, b: {type: string}}"),
		before: "{a: x}", after: "{a: x, b: z}", api: "v2",
	},
	"a new version with another type of a field": {
		old:    only("properties: {a: {type: string}}"),
		next:   schemaVersion("v1", false, true, "properties: {a: {x-kubernetes-int-or-string: true}}") + ", " + schemaVersion("v2", true, true, "properties: {a: {x-kubernetes-int-or-string: true}}"),
		before: "{a: x}", after: "{a: 5}", api: "v2",
	},
	"a version that is served now": {
		old:    only("properties: {a: {type: string}}") + ", " + schemaVersion("v2", false, false, "properties: {a: {type: string}}"),
		next:   only("properties: {a: {type: string}}") + ", " + schemaVersion("v2", false, true, "properties: {a: {type: string}}"),
		before: "{a: x}", after: "{a: z}", api: "v2",
	},
	"a new CRD": {next: only("properties: {a: {type: string}}"), after: "{a: x}"},
	"an object that stays as it is": {
		old: only("properties: {a: {type: string}}"), next: only("properties: {a: {type: string}, b: {type: string}}"), before: "{a: x}", after: "{a: x}",
	},
}

// schemaSource is a CRD with an object. Both are left out if they are empty.
func schemaSource(group, versions, api, spec string) string {
	var out string
	if versions != "" {
		out = fmt.Sprintf("---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.%[1]s}\nspec: {group: %[1]s, scope: Namespaced, names: {plural: foos, singular: foo, kind: Foo}, versions: [%[2]s]}\n", group, versions)
	}
	if spec != "" {
		out += fmt.Sprintf("---\napiVersion: %s/%s\nkind: Foo\nmetadata: {name: f}\nspec: %s\n", group, api, spec)
	}
	return out
}

// allNewSchemas are sources with all changes: before and after. wants has the spec of each object after them, by group.
func allNewSchemas(suffix string) (before, after string, groups []string) {
	for i, name := range slices.Sorted(maps.Keys(newSchemas)) {
		c := newSchemas[name]
		group := fmt.Sprintf("g%d.%s.example.com", i, suffix)
		api := c.api
		if api == "" {
			api = "v1"
		}
		before += schemaSource(group, c.old, "v1", c.before)
		after += schemaSource(group, c.next, api, c.after)
		groups = append(groups, group)
	}
	return before, after, groups
}

// A CRD changes, and an object of the same source is what only the new CRD allows. Each is one run, for any kind of change.
func TestE2EACRDAndObjectsOfItsNewSchemaAreAppliedInOneRun(t *testing.T) {
	w := newWorld(t)
	before, after, _ := allNewSchemas(w.namespace)
	preflights := []string{"--preflight", "PermissionValidation", "--app", "x"}
	w.apply(ExitOK, append(preflights, "-f", w.file("before.yaml", before))...)
	defer w.run(ExitOK, "delete", "x", "--yes", "--allow-delete-crds")
	next := w.file("after.yaml", after)
	out, _ := w.run(ExitFindings, "diff", "--app", "x", "-f", next)
	if !strings.Contains(out, "b: z") {
		t.Errorf("the diff does not show a new field:\n%s", out)
	}
	r := w.apply(ExitOK, append(preflights, "-f", next)...)
	told := map[string]bool{}
	for _, u := range r.Untried {
		told[u.ID.String()] = strings.HasPrefix(u.Reason, "its CRD") || told[u.ID.String()]
	}
	for i, name := range slices.Sorted(maps.Keys(newSchemas)) {
		id := fmt.Sprintf("Foo.g%d.%s.example.com %s/f", i, w.namespace, w.namespace)
		if both := name == "an object that stays as it is" || name == "another default" || strings.HasSuffix(name, "that both allow"); told[id] == both {
			t.Errorf("%s: told as one that could not be tried: %t", name, told[id])
		}
	}
	if r := w.apply(ExitOK, append(preflights, "-f", next)...); r.Outcome != apply.OutcomeUnchanged {
		t.Errorf("again: %+v", r.Summary)
	}
}

// A Delivery does the same.
func TestE2EADeliveryBringsACRDAndObjectsOfItsNewSchema(t *testing.T) {
	d := newDeliveries(t)
	d.impersonate()
	before, after, groups := allNewSchemas(d.namespace)
	d.grant("schemas", rule("apiextensions.k8s.io", "customresourcedefinitions"), rule("", "configmaps"))
	d.grant("objects", rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"foos"}, Verbs: []string{"*"}})
	p := d.controller("a")
	defer func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}()
	revision := d.push(before)
	d.create("x", func(s *v1alpha1.DeliverySpec) { s.Preflights = []v1alpha1.Preflight{{Name: "PermissionValidation"}} })
	d.applies("x", revision)
	d.applies("x", d.push(after))
}

// What the new CRD refuses as well is told before anything is written.
func TestE2EWhatTheNewSchemaRefusesIsToldBeforeAnythingIsWritten(t *testing.T) {
	w := newWorld(t)
	const props = "properties: {a: {type: string}, m: {type: string, enum: [x]}}"
	for i, c := range []struct{ name, old, next, before, after, api, says string }{
		{"an unknown field", only(props), only("properties: {a: {type: string}, b: {type: string}}"), "{a: x}", "{a: x, b: z, c: z}", "v1", "spec.c: Forbidden: the schema does not have this field"},
		{"another type", only(props), only("properties: {a: {type: string}, b: {type: string}}"), "{a: x}", "{a: x, b: 5}", "v1", "spec.b: Invalid value"},
		{"an object of another type", only(props), only("properties: {a: {type: object, properties: {b: {type: string}}}}"), "{a: x}", "{a: {b: x}}", "v1", "the object in the cluster does not fit the CRD of the source"},
		{"no value of an enum", only(props), only("properties: {m: {type: string, enum: [x, w]}}"), "{m: x}", "{m: z}", "v1", "spec.m: Unsupported value"},
		{"a new object without a required field", only(props), only("required: [b], properties: {a: {type: string}, b: {type: string}, c: {type: string}}"), "", "{c: x}", "v1", "spec.b: Required value"},
		{"a field that is required now", only(props), only("required: [b], properties: {a: {type: string}, b: {type: string}}"), "{a: x}", "{a: w}", "v1", "spec.b: Required value"},
		{"a value that is refused now", only(props), only("properties: {a: {type: string, maxLength: 1}}"), "{a: x}", "{a: yy}", "v1", "spec.a: Too long"},
		{"a rule", only(props), only("properties: {a: {type: string}, b: {type: string}}, x-kubernetes-validations: [{rule: 'has(self.a) != has(self.b)', message: one of a and b}]"), "{a: x}", "{a: x, b: z}", "v1", "one of a and b"},
		{"null in a new field", only(props), only("properties: {a: {type: string}, b: {type: string}}"), "{a: x}", "{a: w, b: null}", "v1", "spec.b: Invalid value"},
		{"null in a new object", only(props), only("properties: {a: {type: string}, b: {type: string}}"), "", "{a: w, b: null}", "v1", "spec.b: Invalid value"},
		{"a version that is no longer served", only(props), schemaVersion("v1", false, false, props) + ", " + schemaVersion("v2", true, true, props), "{a: x}", "{a: w}", "v1", "does not serve the version v1, but v2"},
		{"a version that it never had", only(props), only(props), "{a: x}", "{a: w}", "v3", "does not serve the version v3, but v1"},
		{"a new version", only(props), only(props) + ", " + schemaVersion("v2", false, true, "properties: {a: {type: integer}}"), "", "{a: x}", "v2", "spec.a: Invalid value"},
		{"a new CRD", "", only(props), "", "{a: 5}", "v1", "spec.a: Invalid value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			group, app := fmt.Sprintf("n%d.%s.example.com", i, w.namespace), fmt.Sprintf("n%d", i)
			args := []string{"--preflight", "PermissionValidation", "--app", app, "-f"}
			w.apply(ExitOK, append(args, w.file("before.yaml", configMap(app)+schemaSource(group, c.old, "v1", c.before)))...)
			defer w.run(ExitOK, "delete", app, "--yes", "--allow-delete-crds")
			before := w.versions()
			next := w.file("after.yaml", configMap(app)+configMap("first")+schemaSource(group, c.next, c.api, c.after))
			r := w.apply(ExitFailed, append(args, next)...)
			if !strings.Contains(r.Error, "the CRD of the source") || !strings.Contains(r.Error, c.says) || len(r.Written) > 0 {
				t.Errorf("%s, written %v", r.Error, r.Written)
			}
			if _, errs := w.run(ExitFailed, "diff", "--app", app, "-f", next); !strings.Contains(errs, c.says) {
				t.Errorf("diff: %s", errs)
			}
			if diff := cmp.Diff(before, w.versions()); diff != "" {
				t.Errorf("written all the same: %s", diff)
			}
		})
	}
}

// A field that the new CRD requires may be one of another owner: the manifest alone is not valid, and its update is.
func TestE2EAFieldOfAnotherOwnerCountsUnderTheNewSchema(t *testing.T) {
	w := newWorld(t)
	group := w.namespace + ".example.com"
	const list = "l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id], items: {type: object, required: [id], properties: {id: {type: string}, x: {type: string}, w: {type: string}}, x-kubernetes-validations: [{rule: '!has(self.x) || !has(self.w)'}]}}"
	crd := func(more string) string {
		return only("required: [a], properties: {a: {type: string}, " + list + more + "}")
	}
	w.run(ExitOK, "apply", "--app", "x", "-f", w.file("crd.yaml", schemaSource(group, crd(""), "", "")))
	defer w.run(ExitOK, "delete", "x", "--yes", "--allow-delete-crds")
	foos := w.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "foos"}).Namespace(w.namespace)
	foo := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Foo", "metadata": map[string]any{"name": "f"}, "spec": map[string]any{
		"a": "theirs", "l": []any{map[string]any{"id": "theirs", "x": "x"}},
	}}}
	if _, err := foos.Create(t.Context(), foo, metav1.CreateOptions{FieldManager: "others"}); err != nil {
		t.Fatal(err)
	}
	next := schemaSource(group, crd(", b: {type: string}"), "v1", "{b: ours, l: [{id: ours, w: z}]}")
	w.run(ExitOK, "apply", "--app", "x", "--preflight", "PermissionValidation", "-f", w.file("next.yaml", next))
	got, err := foos.Get(t.Context(), "f", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": "theirs", "b": "ours", "l": []any{map[string]any{"id": "theirs", "x": "x"}, map[string]any{"id": "ours", "w": "z"}}}
	if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
		t.Error(diff)
	}
}
