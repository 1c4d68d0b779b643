package compat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
)

// TestValuesThatTheScaleSubresourceRefuses draws a scale subresource over fields of all kinds, and holds the verdict against all
// values of a small domain, by the API server's code: an object that no label can be set on is told, and what is told is one.
func TestValuesThatTheScaleSubresourceRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	field := func() string {
		return pick("{type: integer}", "{type: integer, minimum: 0}", "{type: integer, minimum: -1, maximum: 9}", "{type: integer, format: int32, minimum: 0}",
			"{type: number, minimum: 0, maximum: 5}", "{x-kubernetes-int-or-string: true}", "{type: string}", "{type: integer, nullable: true, minimum: 0, maximum: 9}",
			"{type: object, properties: {a: {type: string}}}", "{type: string, nullable: true}", "{x-kubernetes-preserve-unknown-fields: true}")
	}
	paths := []string{".spec.size", ".spec.o.size", ".spec.s", ".spec.u"}
	values := []any{nil, int64(-1), int64(0), int64(5), int64(1) << 40, 1.5, "a", map[string]any{}, map[string]any{"a": "b"}, "null", []any{}}
	stuck := 0
	for i := range draws.Count(150) {
		spec := "{type: object, " + pick("", "", "x-kubernetes-preserve-unknown-fields: true, ") + "properties: {size: " + field() + ", s: " + field() +
			", o: {type: object, " + pick("", "nullable: true, ") + "properties: {size: " + field() + "}}}}"
		version := func(more string) *crd {
			return patched(t, "versions:\n- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: "+spec+"}}}"+more+"}")
		}
		replicas, selector := paths[r.IntN(len(paths))], paths[r.IntN(len(paths))]
		old, new := version(""), version(", subresources: {scale: {specReplicasPath: "+replicas+", statusReplicasPath: .status.size, labelSelectorPath: "+selector+"}}")
		if errs, err := upstream.ValidateCRD(t.Context(), new, nil); err != nil || len(errs) > 0 {
			t.Fatalf("%v %v", errs, err)
		}
		if r.IntN(3) == 0 { // the same over another path
			old = version(", subresources: {scale: {specReplicasPath: " + selector + ", statusReplicasPath: .status.size}}")
		}
		got := check(t, old, new)
		before, after := newWorld(t, old), newWorld(t, new)
		happens := map[string]bool{}
		for _, path := range []string{replicas, selector} {
			for _, v := range values {
				steps := strings.Split(strings.TrimPrefix(path, ".spec."), ".")
				spec := map[string]any{}
				at := spec
				for _, s := range steps[:len(steps)-1] {
					below := map[string]any{}
					at[s], at = below, below
				}
				if at[steps[len(steps)-1]] = v; v == nil {
					delete(at, steps[len(steps)-1])
				} else if v == "null" {
					at[steps[len(steps)-1]] = nil
				}
				stored := before.write(t, "v1", "v1", spec)
				if stored == nil {
					continue
				}
				_, refused, _ := after.label(t, stored, "v1")
				for _, p := range refused {
					happens["."+p] = true
					stuck++
					if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
						return f.Rule == "scale-value-refused" && f.Path == "."+p && f.Severity == report.Fail
					}) {
						t.Fatalf("case %d: %v is stuck at %s, and it is not told: %v\n%s", i, spec, p, ruleIDs(got.Findings), describe(old))
					}
				}
			}
		}
		for _, f := range got.Findings {
			if f.Rule == "scale-value-refused" && !happens[f.Path] {
				t.Fatalf("case %d: %s is told, and no value is refused: %s\n%s", i, f.Path, f.Message, describe(old))
			}
		}
	}
	if stuck == 0 {
		t.Error("no case had a stuck object")
	}
}

// A path of the scale subresource that leads through something that is no object is refused as well.
func TestAScalePathThroughAString(t *testing.T) {
	const version = "versions:\n- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {s: {type: string}}}}}}"
	got := check(t, patched(t, version+"}"), patched(t, version+", subresources: {scale: {specReplicasPath: .spec.s.size, statusReplicasPath: .status.size}}}"))
	if i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "scale-value-refused" && f.Path == ".spec.s.size" }); i < 0 || got.Findings[i].Witness == nil {
		t.Errorf("%v", got.Findings)
	}
}

// What the scale subresource refuses was never stored, and no reader meets it.
func TestWhatTheScaleSubresourceKeepsOut(t *testing.T) {
	version := func(field string) *crd {
		return patched(t, "versions:\n- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer"+
			field+"}}}}}}, subresources: {scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}}")
	}
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"negative numbers":     {"", ", minimum: 0", []string{}},
		"large numbers":        {"", ", maximum: 2147483647", []string{}},
		"null":                 {"", ", nullable: true", []string{}},
		"null no longer":       {", nullable: true", "", []string{}},
		"numbers that pass it": {"", ", minimum: 1", []string{"minimum-raised"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ruleIDs(check(t, version(c.old), version(c.new)).Findings); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A status subresource takes the status out of ordinary requests wherever objects could have one.
func TestAStatusSubresourceOverAStatusThatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		told   bool
	}{
		"declared":                       {"{type: object, properties: {status: {type: object}}}", true},
		"kept as an unknown field":       {"{type: object, x-kubernetes-preserve-unknown-fields: true}", true},
		"pruned":                         {"{type: object, properties: {spec: {type: object}}}", false},
		"unknown fields are kept deeper": {"{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}", false},
	} {
		t.Run(name, func(t *testing.T) {
			version := "versions:\n- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: " + c.schema + "}"
			got := ruleIDs(check(t, patched(t, version+"}"), patched(t, version+", subresources: {status: {}}}")).Findings)
			if slices.Contains(got, "status-subresource-added") != c.told {
				t.Errorf("%v", got)
			}
		})
	}
}

// A value that the scale subresource refuses, and that the stored version replaces when it is read, is refused in requests.
func TestAValueThatTheScaleSubresourceRefusesInRequests(t *testing.T) {
	version := func(name string, storage bool, size, scale string) string {
		return fmt.Sprintf("- {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, minimum: 0, maximum: 9%s}}}}}}%s}\n",
			name, storage, size, scale)
	}
	const scale = ", subresources: {scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}"
	for name, c := range map[string]struct {
		first, second string
		want          report.Level
	}{
		"a null that the stored version fills in": {", default: 1", ", nullable: true", report.ClientsBroken},
		"a null that is stored":                   {", nullable: true", ", nullable: true", report.ObjectsStuck},
		"no null":                                 {", default: 1", ", default: 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, moves := range []bool{false, true} {
				old := patched(t, "versions:\n"+version("v1", true, c.first, "")+version("v2", false, c.second, ""))
				new := patched(t, "versions:\n"+version("v1", !moves, c.first, "")+version("v2", moves, c.second, scale))
				got := check(t, old, new)
				i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "scale-value-refused" && f.Path == ".spec.size" })
				if c.want == "" && i >= 0 || c.want != "" && (i < 0 || got.Findings[i].Level != c.want || got.Findings[i].Outcome != report.Violation) {
					t.Errorf("stored as v2: %t: %s\n%s", moves, got.Verdict, listed(got))
				}
			}
		})
	}
}
