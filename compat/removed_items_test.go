package compat

import (
	"fmt"
	"slices"
	"testing"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
)

// TestWhatLeavesAManifest tries each pair of ways to merge a list or map, at several places: what is told is what the API server's code does,
// and an apply of the unchanged manifest after the upgrade gives each part its owner.
func TestWhatLeavesAManifest(t *testing.T) {
	lists := []string{"", ", x-kubernetes-list-type: atomic", ", x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]", ", x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, p]"}
	const items = "type: array, items: {type: object, required: [k, p], properties: {k: {type: string}, p: {type: integer}, v: {type: string}}}"
	sets := []string{"", ", x-kubernetes-list-type: set", ", x-kubernetes-list-type: atomic"}
	maps := []string{"", ", x-kubernetes-map-type: atomic", ", x-kubernetes-map-type: granular"}
	places := []string{"f: {%s}", "o: {type: object, properties: {f: {%s}}}", "l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [id], items: {type: object, required: [id], properties: {id: {type: string}, f: {%s}}}}"}
	type kind struct {
		schema string
		merges []string
	}
	pairs, kept := 0, 0
	for _, k := range []kind{
		{items, lists},
		{"type: array, items: {type: string}", sets},
		{"type: object, additionalProperties: {type: string}", maps},
		{"type: object, properties: {a: {type: string}, b: {type: string}}", maps},
		{"type: object, properties: {a: {type: string}}", maps},
		{"type: object, properties: {m: {type: object, additionalProperties: {type: string}}}", maps},
		{"type: object, x-kubernetes-preserve-unknown-fields: true", maps},
		{"type: object, x-kubernetes-preserve-unknown-fields: true, properties: {z: {type: integer}}", maps},
		{"type: object, additionalProperties: true", maps},
		{"type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true", maps},
	} {
		for _, place := range places {
			for _, from := range k.merges {
				for _, to := range k.merges {
					old, new := specCRD(t, fmt.Sprintf(place, k.schema+from)), specCRD(t, fmt.Sprintf(place, k.schema+to))
					got := check(t, old, new)
					i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == removedItemsKept.ID })
					pairs++
					wasAtomic := from == "" && k.merges[1] != maps[1] || from == ", x-kubernetes-list-type: atomic" || from == maps[1]
					isAtomic := to == "" && k.merges[1] != maps[1] || to == ", x-kubernetes-list-type: atomic" || to == maps[1]
					otherKeys := !wasAtomic && !isAtomic && from != to && k.schema == items // the owners are noted by the keys
					if want := wasAtomic && !isAtomic || otherKeys; (i >= 0) != want {
						t.Errorf("%s: %q to %q: told %t, want %t\n%s", place, from, to, i >= 0, want, listed(got))
					}
					if i < 0 {
						continue
					}
					kept++
					var first map[string]any
					c := newComparison(old, new, Options{})
					p := c.pairs[0]
					if p.from.buildSchema() != nil || p.to.buildSchema() != nil {
						t.Fatal("a schema cannot be read")
					}
					for w := range differingTwins(p.from.schemaNode(), p.to.schemaNode()) {
						if !mergesAlike(w.old, w.new) {
							first, _, _ = c.manifestsOf(p, &w)
						}
					}
					empty := map[string]any{"apiVersion": first["apiVersion"], "kind": first["kind"], "metadata": first["metadata"]}
					before, after := validator(t, old), validator(t, new)
					obj, err := upstream.ApplyInTurn(
						upstream.Apply{Schema: before, Manifest: first}, upstream.Apply{Schema: after, Manifest: first}, upstream.Apply{Schema: after, Manifest: empty},
					)
					if err != nil || obj["spec"] != nil && compactJSON(obj["spec"]) != "{}" {
						t.Errorf("%s: %q to %q: after another apply of the same something stays: %s %v", place, from, to, compactJSON(obj["spec"]), err)
					}
				}
			}
		}
	}
	for name, schemas := range map[string][2]string{
		"undeclared":       {"o: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {f: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}}}", "o: {type: object, x-kubernetes-preserve-unknown-fields: true}"},
		"undeclared below": {"o: {type: object, properties: {p: {type: object, properties: {f: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}}}}}", "o: {type: object, x-kubernetes-preserve-unknown-fields: true}"},
		"any value":        {"o: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}", "o: {x-kubernetes-preserve-unknown-fields: true}"},
	} {
		got := check(t, specCRD(t, schemas[0]), specCRD(t, schemas[1]))
		if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool { return f.Rule == removedItemsKept.ID }) {
			t.Errorf("%s: not told\n%s", name, listed(got))
		}
	}
	if kept < 30 {
		t.Errorf("%d of %d pairs keep something: the test says little", kept, pairs)
	}
}
