//go:build e2e

package enforcement

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// way is one way in which somebody may try to store what is off.
type way struct {
	name     string
	resource string
	// base is the spec of the object that is there before; empty: there is none.
	base string
	do   func(ctx context.Context, name string) error
}

const plain, merge, jsonPatch = "{plain: p}", types.MergePatchType, types.JSONPatchType

// with sets a field of the spec.
func with(field string, value any) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		spec, _ := u.Object["spec"].(map[string]any)
		spec = maps.Clone(spec)
		spec[field] = value
		u.Object["spec"] = spec
	}
}

// ways are those round the gates, by the route that they take.
func (r *rounds) ways() map[string][]way {
	const items = "{items: [{name: a}, {name: b}], steps: [{image: i}], env: {A: {value: v}}, modes: [plain]}"
	const items2 = "{steps: [{image: i}, {image: j}]}"
	return map[string][]way{
		"verbs": {
			{"create", "widgets", "", r.create("widgets", "v1", "{alpha: x}")},
			{"create an item", "widgets", "", r.create("widgets", "v1", "{items: [{name: a}, {name: b, extra: x}]}")},
			{"create an item without identity", "widgets", "", r.create("widgets", "v1", "{steps: [{image: i}, {secret: x}]}")},
			{"create an entry", "widgets", "", r.create("widgets", "v1", "{env: {A: {secret: x}}}")},
			{"create a member of a set", "widgets", "", r.create("widgets", "v1", "{modes: [plain, turbo]}")},
			{"create replicas", "widgets", "", r.create("widgets", "v1", "{replicas: 3}")},
			{"create an empty string", "widgets", "", r.create("widgets", "v1", "{alpha: ''}")},
			{"create what is dropped", "gadgets", "", r.create("gadgets", "v1", "{dropped: x}")},
			{"put", "widgets", plain, r.put("widgets", "v1", with("alpha", "x"))},
			{"put without a resource version", "widgets", plain, r.put("widgets", "v1", func(u *unstructured.Unstructured) {
				u.SetResourceVersion("")
				with("alpha", "x")(u)
			})},
			{"apply with a label", "widgets", plain, r.patch("widgets", "v1", merge, "{metadata: {labels: {a: b}}, spec: {alpha: x}}")},
			{"an update with a finalizer", "widgets", plain, r.patch("widgets", "v1", merge, "{metadata: {finalizers: [e2e.dev/x]}, spec: {alpha: x}}")},
			{"an update that drops", "gadgets", plain, r.patch("gadgets", "v1", merge, "{spec: {dropped: x}}")},
		},
		"versions and conversion": {
			{"create in another version", "widgets", "", r.create("widgets", "v2", "{beta: x}")},
			{"create an item in another version", "widgets", "", r.create("widgets", "v2", "{parts: [{name: a, extra: x}]}")},
			{"create replicas in another version", "widgets", "", r.create("widgets", "v2", "{replicas: 3}")},
			{"create in a version alike that the part does not name", "gadgets", "", r.create("gadgets", "v1beta1", "{named: x}")},
			{"put in a version alike that the part does not name", "gadgets", plain, r.put("gadgets", "v1beta1", with("named", "x"))},
			{"create in a version alike", "gadgets", "", r.create("gadgets", "v1beta1", "{alpha: x}")},
			{"create by apply in another version", "widgets", "", r.apply("widgets", "v2", "somebody", "{beta: x}")},
			{"create what is dropped in a version alike", "gadgets", "", r.create("gadgets", "v1beta1", "{dropped: x}")},
			{"put in another version", "widgets", plain, r.put("widgets", "v2", with("beta", "x"))},
			{"put in a version alike", "gadgets", plain, r.put("gadgets", "v1beta1", with("alpha", "x"))},
			{"merge patch in another version", "widgets", plain, r.patch("widgets", "v2", merge, "{spec: {beta: x}}")},
			{"json patch in another version", "widgets", plain, r.patch("widgets", "v2", jsonPatch, "[{op: add, path: /spec/parts, value: [{name: a, extra: x}]}]")},
			{"apply in another version", "widgets", plain, r.apply("widgets", "v2", "somebody", "{beta: x}")},
			{"an update that drops in a version alike", "gadgets", plain, r.put("gadgets", "v1beta1", with("dropped", "x"))},
		},
		"field managers": {
			{"create by apply", "widgets", "", r.apply("widgets", "v1", "somebody", "{alpha: x}")},
			{"create what is dropped by apply", "gadgets", "", r.apply("gadgets", "v1", "somebody", "{dropped: x}")},
			{"apply", "widgets", plain, r.apply("widgets", "v1", "somebody", "{alpha: x}")},
		},
		"backups, replacement and deletion": {
			{"restore a backup", "widgets", "", func(ctx context.Context, name string) error {
				u := r.backup.DeepCopy()
				u.SetName(name)
				u.SetResourceVersion("")
				_, err := r.of("widgets", "v1").Create(ctx, u, metav1.CreateOptions{})
				return err
			}},
			{"replace by force", "widgets", plain, func(ctx context.Context, name string) error {
				if err := r.of("widgets", "v1").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					return err
				}
				return r.create("widgets", "v1", "{alpha: x}")(ctx, name)
			}},
			{"an update while it is deleted", "widgets", plain, func(ctx context.Context, name string) error {
				if err := r.patch("widgets", "v1", merge, "{metadata: {finalizers: [e2e.dev/x]}}")(ctx, name); err != nil {
					return err
				}
				if err := r.of("widgets", "v1").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					return err
				}
				return r.patch("widgets", "v1", merge, "{spec: {alpha: x}}")(ctx, name)
			}},
		},
		"patch types": {
			{"merge patch", "widgets", plain, r.patch("widgets", "v1", merge, "{spec: {alpha: x}}")},
			{"json patch", "widgets", plain, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/alpha, value: x}]")},
			{"json patch that copies", "widgets", plain, r.patch("widgets", "v1", jsonPatch, "[{op: copy, from: /spec/plain, path: /spec/alpha}]")},
			{"json patch that moves", "widgets", plain, r.patch("widgets", "v1", jsonPatch, "[{op: move, from: /spec/plain, path: /spec/alpha}]")},
			{"json patch of the whole spec", "widgets", plain, r.patch("widgets", "v1", jsonPatch, "[{op: replace, path: /spec, value: {alpha: x}}]")},
		},
		"lists and maps": {
			{"a field of an item", "widgets", items, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/items/1/extra, value: x}]")},
			{"an item in front", "widgets", items, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/items/0, value: {name: c, extra: x}}]")},
			{"an item in place of another", "widgets", items, r.patch("widgets", "v1", merge, "{spec: {items: [{name: c, extra: x}]}}")},
			{"an item of another manager", "widgets", items, r.apply("widgets", "v1", "other", "{items: [{name: a, extra: x}]}")},
			{"an item without identity", "widgets", items, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/steps/0/secret, value: x}]")},
			{"an entry", "widgets", items, r.patch("widgets", "v1", merge, "{spec: {env: {B: {secret: x}}}}")},
			{"a field of an entry", "widgets", items, r.patch("widgets", "v1", merge, "{spec: {env: {A: {secret: x}}}}")},
			{"a member of a set", "widgets", items, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/modes/-, value: turbo}]")},
		},
		"resets, and what is used elsewhere": {
			{"create what is reset", "gadgets", "", r.create("gadgets", "v1", "{speed: fast}")},
			{"create items that are reset", "gadgets", "", r.create("gadgets", "v1beta1", "{slots: [{size: 1}, {size: 10}, {size: 11}]}")},
			{"put what is reset", "gadgets", "{speed: slow}", r.put("gadgets", "v1", with("speed", "fast"))},
			{"an item that is reset", "gadgets", "{slots: [{size: 1}]}", r.patch("gadgets", "v1beta1", jsonPatch, "[{op: add, path: /spec/slots/0, value: {size: 10}}]")},
			{"set later what was reset", "gadgets", "{speed: slow}", r.patch("gadgets", "v1", merge, "{metadata: {labels: {later-sets: dropped}}, spec: {speed: fast}}")},
			{"create what one object may use everywhere", "widgets", "", r.create("widgets", "v1", "{items: [{name: a, note: x}]}")},
			{"add what one object may use everywhere", "widgets", items, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/items/0/note, value: x}]")},
		},
		"beyond bounds": {
			{"a number above", "widgets", "", r.create("widgets", "v1", "{copies: 11}")},
			{"a number below", "widgets", "", r.create("widgets", "v1", "{copies: 0}")},
			{"a number far above", "widgets", plain, r.patch("widgets", "v1", merge, "{spec: {copies: 9223372036854775807}}")},
			{"a number above, within before", "widgets", "{copies: 10}", r.patch("widgets", "v1", merge, "{spec: {copies: 11}}")},
			{"a long string", "widgets", "{title: Short}", r.patch("widgets", "v1", merge, "{spec: {title: Ängste}}")},
			{"a string that does not match", "widgets", "{title: Short}", r.patch("widgets", "v1", merge, "{spec: {title: low}}")},
			{"an empty string that does not match", "widgets", "{title: Short}", r.patch("widgets", "v1", merge, "{spec: {title: ''}}")},
			{"one item more", "widgets", items2, r.patch("widgets", "v1", jsonPatch, "[{op: add, path: /spec/steps/-, value: {image: i}}]")},
			{"one item more by apply", "widgets", items2, r.apply("widgets", "v1", "other", "{steps: [{image: a}, {image: b}, {image: c}]}")},
		},
		"subresources": {
			{"scale", "widgets", plain, r.patch("widgets", "v1", merge, "{spec: {replicas: 3}}", "scale")},
			{"scale in another version", "widgets", plain, r.patch("widgets", "v2", merge, "{spec: {replicas: 3}}", "scale")},
			{"scale to none", "gadgets", "{size: 3}", r.patch("gadgets", "v1", merge, "{spec: {replicas: 0}}", "scale")},
			{"scale to none in another version", "gadgets", "{size: 3}", r.patch("gadgets", "v1beta1", jsonPatch, "[{op: replace, path: /spec/replicas, value: 0}]", "scale")},
			{"scale to none, and then up", "widgets", plain, func(ctx context.Context, name string) error {
				if err := r.patch("widgets", "v1", merge, "{spec: {replicas: 0}}", "scale")(ctx, name); err != nil {
					return err
				}
				return r.patch("widgets", "v1", merge, "{spec: {replicas: 3}}")(ctx, name)
			}},
			{"scale to none where nothing is set", "gadgets", plain, r.patch("gadgets", "v1", merge, "{spec: {replicas: 0}}", "scale")},
			{"scale what lies within", "pools", plain, r.patch("pools", "v1", merge, "{spec: {replicas: 3}}", "scale")},
			{"scale what lies within to none", "pools", plain, r.patch("pools", "v1", merge, "{spec: {replicas: 0}}", "scale")},
			{"status with a spec", "widgets", plain, r.patch("widgets", "v1", merge, "{spec: {alpha: x}, status: {phase: x}}", "status")},
			{"status with a spec by put", "widgets", plain, r.put("widgets", "v1", with("alpha", "x"), "status")},
			{"status with a spec in another version", "widgets", plain, r.patch("widgets", "v2", merge, "{spec: {beta: x}, status: {phase: x}}", "status")},
		},
		"mutators later in the chain": {
			{"set later what is refused", "widgets", "", func(ctx context.Context, name string) error {
				u := r.object("widgets", "v1", name, plain)
				u.SetLabels(map[string]string{"later-sets": "alpha"})
				_, err := r.of("widgets", "v1").Create(ctx, u, metav1.CreateOptions{})
				return err
			}},
			{"set later what is dropped", "gadgets", "", func(ctx context.Context, name string) error {
				u := r.object("gadgets", "v1", name, plain)
				u.SetLabels(map[string]string{"later-sets": "dropped"})
				_, err := r.of("gadgets", "v1").Create(ctx, u, metav1.CreateOptions{})
				return err
			}},
			{"set later what was dropped", "gadgets", "", func(ctx context.Context, name string) error {
				u := r.object("gadgets", "v1beta1", name, "{dropped: x}")
				u.SetLabels(map[string]string{"later-sets": "dropped"})
				_, err := r.of("gadgets", "v1beta1").Create(ctx, u, metav1.CreateOptions{})
				return err
			}},
			{"set later what is dropped, in an update", "gadgets", plain, r.patch("gadgets", "v1", merge, "{metadata: {labels: {later-sets: dropped}}, spec: {plain: q}}")},
			{"set later what is refused, in another version", "widgets", plain, r.patch("widgets", "v2", merge, "{metadata: {labels: {later-sets: beta}}, spec: {plain: q}}")},
		},
	}
}

// waysLater are those by versions that are served since, and that nobody has told the policies of.
func (r *rounds) waysLater() map[string][]way {
	return map[string][]way{
		"new versions": {
			{"create in a new version", "widgets", "", r.create("widgets", "v3", "{alpha: x}")},
			{"create in a new version alike", "gadgets", "", r.create("gadgets", "v3", "{alpha: x}")},
			{"create what is dropped in a new version", "gadgets", "", r.create("gadgets", "v3", "{dropped: x}")},
			{"update in a new version", "widgets", plain, r.patch("widgets", "v3", merge, "{spec: {items: [{name: a, extra: x}]}}")},
			{"update in a new version alike", "gadgets", plain, r.put("gadgets", "v3", with("alpha", "x"))},
			{"scale in a new version", "widgets", plain, r.patch("widgets", "v3", merge, "{spec: {replicas: 3}}", "scale")},
		},
	}
}
