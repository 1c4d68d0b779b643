package compat

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice.dev/report"
	"sluice.dev/tools/draws"
)

// drawHolder draws a list, a map or an object whose items, values or fields may be null, or have a default that replaces null.
func drawHolder(r *rand.Rand, kind, typ string) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	filled := map[string]string{"integer": pick("1", "2", "3"), "string": pick("x", "x", "u"), "object": "{}"}[typ]
	value := "{type: " + typ + pick("", ", nullable: true", ", default: "+filled)
	bounded := !strings.Contains(value, "default") || filled != "3" && filled != "u" // a version takes its own default
	switch {
	case !bounded:
	case typ == "integer":
		value += pick("", "", ", maximum: 2")
	case typ == "string":
		value += pick("", "", ", enum: [x]", ", enum: [x, null]", ", x-kubernetes-validations: [{rule: 'self != \"u\"'}]")
	case typ == "object":
		value += pick("", ", properties: {d: {type: integer}}", ", properties: {d: {type: integer, default: 1}}")
	}
	value += "}"
	if kind == "list" {
		return "{type: array, items: " + value + pick("", "", ", minItems: 1", ", maxItems: 1") + "}"
	}
	if kind == "fields" {
		second := pick("", ", l: "+value, ", l: {type: "+typ+"}")
		return "{type: object, properties: {k: " + value + second + "}}"
	}
	return "{type: object, additionalProperties: " + value + pick("", "", ", maxProperties: 1", ", minProperties: 1") + "}"
}

// drawNullVersions draws a CRD of two or three versions, and what becomes of it with another holder in one of them or another storage version.
func drawNullVersions(t *testing.T, r *rand.Rand, kind string) (old, next *crd) {
	typ := []string{"integer", "string", "object"}[r.IntN(3)]
	var holders []string
	var served []bool
	for range 2 + r.IntN(2) {
		holders, served = append(holders, drawHolder(r, kind, typ)), append(served, r.IntN(5) > 0)
	}
	store := r.IntN(len(holders))
	made := func() *crd {
		var b strings.Builder
		b.WriteString("versions:\n")
		for i, holder := range holders {
			fmt.Fprintf(&b, "- {name: v%d, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {c: %s}}}}}}\n",
				i+1, served[i] || i == store, i == store, holder)
		}
		return patched(t, b.String())
	}
	old = made()
	for i, v := range old.Spec.Versions {
		if i == store || r.IntN(3) == 0 {
			old.Status.StoredVersions = append(old.Status.StoredVersions, v.Name)
		}
	}
	if r.IntN(4) == 0 {
		served[store] = true
		store = (store + 1 + r.IntN(len(holders)-1)) % len(holders)
	} else {
		holders[r.IntN(len(holders))] = drawHolder(r, kind, typ)
	}
	next = made()
	next.Status = old.Status
	return old, next
}

// nullSpecs are the objects of the domain.
func nullSpecs(kind string) []map[string]any {
	values := []any{nil, int64(1), int64(3), "x", "u", map[string]any{}, map[string]any{"d": int64(2)}, map[string]any{"d": nil}}
	out := []map[string]any{{}}
	hold := func(items ...any) {
		if kind == "list" {
			out = append(out, map[string]any{"c": items})
			return
		}
		m := map[string]any{}
		for i, v := range items {
			m[string(rune('k'+i))] = v
		}
		out = append(out, map[string]any{"c": m})
	}
	hold()
	for _, v := range values {
		hold(v)
		hold(nil, v)
	}
	return out
}

// specSeenIn returns the spec of a stored object, as clients of a version see it.
func (w *world) specSeenIn(t testing.TB, stored map[string]any, version string) any {
	t.Helper()
	home := strings.TrimPrefix(stored["apiVersion"].(string), "example.com/") //nolint:errcheck,forcetypeassert // a test
	read, _, _, err := w.validators[home].Read(stored)
	if err == nil && home != version {
		read, _, err = w.validators[version].Convert(read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read["spec"]
}

// keepsValues reports whether b has all that a has, or what the object had before that; defaults may be added.
func keepsValues(a, before, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		was, _ := before.(map[string]any)
		for name, v := range a {
			is, there := m[name]
			ok = ok && there && keepsValues(v, was[name], is)
		}
		return ok
	case []any:
		l, ok := b.([]any)
		was, _ := before.([]any)
		ok = ok && len(l) == len(a) && len(was) == len(a)
		for i := 0; ok && i < len(a); i++ {
			ok = keepsValues(a[i], was[i], l[i])
		}
		return ok
	}
	return reflect.DeepEqual(a, b) || before != nil && reflect.DeepEqual(before, b)
}

// Harm to null that few draws meet.
func TestNullOfListsAndMapsIsToldWithItsRule(t *testing.T) {
	const list, most, filled, bounded = "{type: array, items: {type: integer}}", "{type: array, items: {type: integer, maximum: 2, nullable: true}}",
		"{type: array, items: {type: integer, default: 3}}", "{type: array, items: {type: integer, default: 1}}"
	version := func(name, how, holder string) string {
		return statusVersion(name, how, "{type: object, properties: {spec: {type: object, properties: {c: "+holder+"}}}}")
	}
	const stores, serves, keeps = "served: true, storage: true", "served: true, storage: false", "served: false, storage: false"
	values := func(more string) string {
		return "{type: object, additionalProperties: {type: string, enum: [x]" + more
	}
	spec := func(fields, rule string) string {
		if rule != "" {
			rule = ", x-kubernetes-validations: [{rule: '" + rule + "'}]"
		}
		return statusVersion("v1", stores, "{type: object, properties: {spec: {type: object, properties: {"+fields+"}"+rule+"}}}")
	}
	const status = "{type: object, properties: {status: {type: object, properties: {p: {type: string}}DEFAULT}}}"
	withStatus := func(name, how, value string) string {
		return statusVersion(name, how+", subresources: {status: {}}", strings.Replace(status, "DEFAULT", value, 1))
	}
	for _, tt := range []struct{ rule, old, new, path string }{
		// The witness has one value that is not null: {k: null} alone was refused before.
		{"nullable-added", version("v1", stores, values("}, minProperties: 1}")), version("v1", stores, values(", nullable: true}}")), ".spec.c.*"},
		// Objects that v2 wrote are stored as v1, which nobody serves.
		{"version-erases-data", version("v1", keeps, list) + version("v2", stores, most), version("v1", keeps, bounded) + version("v2", stores, most), ".spec.c[*]"},
		// v1 would refuse the default that v2 filled in for it.
		{"default-changed", version("v1", serves, most) + version("v2", stores, filled), version("v1", stores, most) + version("v2", serves, filled), ".spec.c[*]"},
		// The subresource drops the default of a new object, and the version that reads it fills in none.
		{"default-changed", withStatus("v1", stores, ", default: {p: x}"), withStatus("v1", serves, ", default: {p: x}") + withStatus("v2", stores, ""), ".status"},
		{"nullable-added", spec("a: {type: integer, default: 1}", "has(self.a)"), spec("a: {type: integer, default: 1, nullable: true}", "has(self.a)"), ".spec.a"},
		{"nullable-added", spec("a: {type: integer}", "self == oldSelf"), spec("a: {type: integer, nullable: true}", "self == oldSelf"), ".spec.a"},
	} {
		old, next := patched(t, "versions:\n"+tt.old), patched(t, "versions:\n"+tt.new)
		for _, v := range old.Spec.Versions {
			old.Status.StoredVersions = append(old.Status.StoredVersions, v.Name)
		}
		got := check(t, old, next)
		if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
			return f.Rule == tt.rule && f.Path == tt.path && f.Severity == report.Fail
		}) {
			t.Errorf("%s: %s %v", tt.rule, got.Verdict, ruleIDs(got.Findings))
		}
	}
	// A new storage version fills in what the version that wrote the object left out.
	got := check(t, patched(t, "versions:\n"+version("v1", stores, "{type: integer}")),
		patched(t, "versions:\n"+version("v1", serves, "{type: integer}")+version("v2", stores, "{type: integer, default: 3}")))
	if ids := ruleIDs(got.Findings); !slices.Equal(ids, []string{"default-added"}) || got.Verdict != report.Safe {
		t.Errorf("%s %v", got.Verdict, ids)
	}
}

// An upgrade of lists, maps or objects with null in them that is called safe, refuses no request and no label, and if nothing is said of it, each
// client sees all that it saw, also after somebody else set a label.
func TestNullsOfListsAndMapsSurviveASafeUpgrade(t *testing.T) {
	safe, undecided, journeys := 0, 0, 0
	for seed := range draws.Seeds(3000) {
		r := rand.New(rand.NewPCG(seed, 41))
		kind := []string{"list", "map", "fields"}[r.IntN(3)]
		old, next := drawNullVersions(t, r, kind)
		got := check(t, old, next)
		if got.Verdict == report.IsUndecided {
			undecided++
		}
		if got.Verdict != report.Safe {
			continue
		}
		safe++
		silent := len(got.Findings) == 0
		before, after := newWorld(t, old), newWorld(t, next)
		versions := []string{"v1", "v2", "v3"}[:len(old.Spec.Versions)]
		for _, spec := range nullSpecs(kind) {
			for _, from := range versions {
				if before.serves(from) && after.serves(from) && before.create(t, from, spec) != nil && after.create(t, from, spec) == nil {
					t.Fatalf("seed %d: safe, but %s refuses %v", seed, from, spec)
				}
				for _, in := range old.Status.StoredVersions {
					if !before.serves(from) && from != in {
						continue
					}
					stored := before.write(t, from, in, spec)
					if stored == nil {
						continue
					}
					for _, by := range versions {
						if !before.serves(by) || !after.serves(by) || !before.setsLabel(t, stored, in, by) {
							continue
						}
						journeys++
						if !after.setsLabel(t, stored, in, by) {
							t.Fatalf("seed %d: safe, but %s refuses a label on %v, written in %s and stored in %s", seed, by, stored, from, in)
						}
						if !silent || !after.serves(from) {
							continue
						}
						if a, b := before.specSeenIn(t, stored, by), after.specSeenIn(t, stored, by); !keepsValues(a, a, b) {
							t.Fatalf("seed %d: nothing said, but %s reads %v instead of %v, written in %s and stored in %s", seed, by, b, a, from, in)
						}
						_, _, a := before.label(t, stored, by)
						_, _, b := after.label(t, stored, by)
						if a != nil && b != nil && !keepsValues(before.specSeenIn(t, a, from), before.specSeenIn(t, stored, from), after.specSeenIn(t, b, from)) {
							t.Fatalf("seed %d: nothing said, but %s reads %v instead of %v after a label of %s on %v", seed, from, after.specSeenIn(t, b, from), before.specSeenIn(t, a, from), by, stored)
						}
					}
				}
			}
		}
	}
	if safe == 0 || journeys == 0 {
		t.Fatalf("%d safe pairs and %d journeys show nothing", safe, journeys)
	}
	t.Logf("%d safe pairs, %d journeys; %d undecided", safe, journeys, undecided)
}
