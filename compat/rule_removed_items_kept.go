package compat

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// removedItemsKept applies small manifests by the API server's own merge code (sigs.k8s.io/structured-merge-diff),
// because no keyword says what becomes of owners. Each place at which both schemas merge in different ways is tried
// with a value of two parts.
var removedItemsKept = Rule{
	ID:    "removed-items-kept",
	Level: report.Cosmetic,
	Title: "What leaves a manifest now stays in the object",
	Why: `Server-side apply removes from an object what its manager owned and no longer has in its manifest. An atomic list or map has one owner ` +
		`for all of it. Once it is a set, a map or granular, each item and field has an owner of its own. The API server does not know who owned the ` +
		`items that were applied before the change. If an item leaves the manifest afterwards, it stays in the object.

Sluice asks the API server's own code: it applies a list or map under the old CRD, and then, by the same manager, a part of it under the new one.`,
	Help: `Apply the unchanged manifests once after the upgrade, before anything leaves them: then each item has its owner. Look for items that ` +
		`no manifest has.`,
	Unsafe: Example{
		Old: oneField("selector", "type: object", "x-kubernetes-map-type: atomic", exampleField("additionalProperties", "type: string")),
		New: oneField("selector", "type: object", exampleField("additionalProperties", "type: string")),
	},
	Instead: oneField("selector", "type: object",
		"x-kubernetes-map-type: atomic", exampleField("additionalProperties", "type: string")),
	inSpec: true,
	whole: func(_ context.Context, c *comparison) []report.Finding {
		var out []report.Finding
		for _, p := range c.servedPairs() {
			if p.from.buildSchema() != nil || p.to.buildSchema() != nil {
				continue
			}
			for t := range differingTwins(p.from.schemaNode(), p.to.schemaNode()) {
				for _, t := range append(undeclaredTwins(&t), t) {
					if mergesAlike(t.old, t.new) {
						continue
					}
					if f, ok := c.keepsRemoved(p, &t); ok {
						out = append(out, f)
					}
				}
			}
		}
		return out
	},
}

// undeclaredTwins are the atomic objects of a twin that only the old schema declares, and that the new one keeps as unknown fields: nothing that
// is not declared is atomic but lists.
func undeclaredTwins(t *twin) (out []twin) {
	if !t.new.PreserveUnknown {
		return nil
	}
	var addBelow func(path contain.Path, o *schema.Node)
	addBelow = func(path contain.Path, o *schema.Node) {
		if o.MapType == "atomic" {
			out = append(out, twin{slices.Clone(path), o, &schema.Node{PreserveUnknown: true}})
			return
		}
		for _, p := range o.Properties {
			addBelow(append(path, contain.Step{Kind: contain.Field, Name: p.Name}), p.Node)
		}
		if o.Additional != nil {
			addBelow(append(path, contain.Step{Kind: contain.AnyKey}), o.Additional)
		}
	}
	for _, p := range t.old.Properties {
		if t.new.Property(p.Name) == nil {
			addBelow(append(slices.Clone(t.path), contain.Step{Kind: contain.Field, Name: p.Name}), p.Node)
		}
	}
	return out
}

// mergesAlike reports whether an apply merges the values of two nodes in the same way, as far as their keywords say.
func mergesAlike(o, n *schema.Node) bool {
	return o.ListType == n.ListType && o.MapType == n.MapType && slices.Equal(o.ListMapKeys, n.ListMapKeys)
}

// keepsRemoved applies a value at the place and then a part of it, with the new CRD in between, and reports whether the rest stays, and would
// not have without the new CRD.
// The value need not be valid: merging comes before validation, and a finding is only about what is merged.
func (c *comparison) keepsRemoved(p pair, t *twin) (report.Finding, bool) {
	first, second, left := c.manifestsOf(p, t)
	if left == "" {
		return report.Finding{}, false
	}
	before, err := c.validatorOf(p.from)
	if err != nil {
		return report.Finding{}, false
	}
	after, err := c.validatorOf(p.to)
	if err != nil {
		return report.Finding{}, false
	}
	same, err := upstream.ApplyInTurn(upstream.Apply{Schema: before, Manifest: first}, upstream.Apply{Schema: before, Manifest: second})
	if err != nil {
		return report.Finding{}, false // such values are told by other rules
	}
	now, err := upstream.ApplyInTurn(upstream.Apply{Schema: before, Manifest: first}, upstream.Apply{Schema: after, Manifest: second})
	if err != nil || compactJSON(same) == compactJSON(now) || compactJSON(now) != compactJSON(first) {
		return report.Finding{}, false
	}
	from, to := mergeOf(t.old), mergeOf(t.new)
	return report.Finding{
		Version: p.to.Name, Path: t.path.String(), Before: from, After: to,
		Message:    "an apply merges values as " + to + " and no longer as " + from + ": a part that was applied before the upgrade and leaves the manifest after it stays in the object",
		SchemaPath: p.to.schemaTokens(t.path),
	}, true
}

// manifestsOf returns manifests with two parts at the place and with one, and the name of the other; empty if there are none. They have only
// what an apply looks at, so the CRD may refuse them.
func (c *comparison) manifestsOf(p pair, t *twin) (first, second map[string]any, left string) {
	whole, part, left := partsToApply(t)
	if left == "" {
		return nil, nil, ""
	}
	root := p.to.schemaNode()
	if _, declared, _ := descendSchema(root, t.path); declared == nil {
		root = p.from.schemaNode()
	}
	manifest := func(value any) map[string]any {
		obj, _ := aroundValue(root, t.path, value).(map[string]any)
		obj["apiVersion"], obj["kind"], obj["metadata"] = c.groupVersionOf(p.to), c.containOptions(p.to).Kind, map[string]any{"name": "example"}
		return obj
	}
	return manifest(whole), manifest(part), left
}

// mergeOf says how an apply merges values of a node.
func mergeOf(n *schema.Node) string {
	switch {
	case n.Type == "array" && n.ListType == "map":
		return "map by " + strings.Join(n.ListMapKeys, ", ")
	case n.Type == "array" && n.ListType != "":
		return n.ListType
	case n.Type == "array" || n.MapType == "atomic":
		return "atomic"
	}
	return "granular"
}

// partsToApply returns a value of a list or map with two parts, the same without the second, and the name of that; empty if there is none.
func partsToApply(t *twin) (whole, part any, left string) {
	switch {
	case t.old.Type == "object" && takesAnyKey(t.new):
		return fieldsToApply(t)
	case t.old.Type != t.new.Type:
	case t.new.Type == "array" && t.new.Items != nil:
		a, b := itemsToApply(t)
		if compactJSON(a) != compactJSON(b) {
			return []any{a, b}, []any{a}, "the item " + compactJSON(b)
		}
	case t.new.Type == "object":
		return fieldsToApply(t)
	}
	return nil, nil, ""
}

// fieldsToApply returns an object with up to two fields that both nodes have, the same without the last, and the name of that.
func fieldsToApply(t *twin) (whole, part any, left string) {
	all, rest := map[string]any{}, map[string]any{}
	for _, name := range namesToApply(t) {
		if left != "" {
			rest[left] = all[left]
		}
		left = name
		all[name] = scalarOf(cmp.Or(childNode(t.old, name), childNode(t.new, name), &schema.Node{}), 0)
	}
	return all, rest, left
}

// namesToApply are up to two names of fields that both nodes have.
func namesToApply(t *twin) []string {
	var names []string
	for _, p := range slices.Concat(t.old.Properties, t.new.Properties) {
		names = append(names, p.Name)
	}
	names = append(names, "a", "b")
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		has := func(n *schema.Node) bool { return childNode(n, name) != nil || takesAnyKey(n) }
		return !has(t.old) || !has(t.new)
	})
	return names[:min(len(names), 2)]
}

// childNode is the node of a field, declared or not; nil if the schema has none for it.
func childNode(n *schema.Node, name string) *schema.Node {
	return cmp.Or(n.Property(name), n.Additional)
}

// takesAnyKey reports whether an object keeps fields that nothing declares.
func takesAnyKey(n *schema.Node) bool {
	return n.PreserveUnknown || n.AdditionalBool != nil && *n.AdditionalBool
}

// itemsToApply are two items that differ in the keys of both lists.
func itemsToApply(t *twin) (a, b any) {
	items := t.new.Items
	keys := append(slices.Clone(t.old.ListMapKeys), t.new.ListMapKeys...)
	if items.Type != "object" {
		return scalarOf(items, 0), scalarOf(items, 1)
	}
	if len(keys) == 0 && len(items.Properties) > 0 {
		keys = []string{items.Properties[0].Name}
	}
	first, second := map[string]any{}, map[string]any{}
	for _, key := range keys {
		if n := items.Property(key); n != nil {
			first[key], second[key] = scalarOf(n, 0), scalarOf(n, 1)
		}
	}
	return first, second
}

// scalarOf is a value of a node: one of two for scalars, and empty for others.
func scalarOf(n *schema.Node, i int) any {
	if len(n.Enum) > i {
		return n.Enum[i]
	}
	switch n.Type {
	case "integer", "number":
		return int64(i + 1)
	case "boolean":
		return i == 0
	case "object":
		return map[string]any{}
	case "array":
		return []any{}
	}
	return []string{"a", "b"}[i]
}

// aroundValue puts a value at a path into objects, lists with one item, and maps with one key. Items have the keys of their list.
func aroundValue(n *schema.Node, path contain.Path, value any) any {
	if len(path) == 0 || n == nil {
		return value
	}
	switch s := path[0]; s.Kind {
	case contain.Field:
		return map[string]any{s.Name: aroundValue(n.Property(s.Name), path[1:], value)}
	case contain.AnyKey:
		return map[string]any{"k": aroundValue(n.Additional, path[1:], value)}
	case contain.AnyItem:
	}
	item := aroundValue(n.Items, path[1:], value)
	if fields, ok := item.(map[string]any); ok {
		for _, key := range n.ListMapKeys {
			if k := n.Items.Property(key); k != nil && fields[key] == nil {
				fields[key] = scalarOf(k, 0)
			}
		}
	}
	return []any{item}
}
