package compat

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"sluice.dev/report"
	"sluice.dev/schema/contain"
)

// TestHarmBetweenVersions holds the verdict about upgrades whose harm, if any, is what one version does to objects of another one.
func TestHarmBetweenVersions(t *testing.T) {
	data, err := os.ReadFile("testdata/between.txtar")
	if err != nil {
		t.Fatal(err)
	}
	sides := map[string]string{}
	for _, f := range txtar.Parse(data).Files {
		sides[f.Name] = string(f.Data)
	}
	tried := 0
	for name, text := range sides {
		name, isOld := strings.CutSuffix(name, "/old")
		if !isOld {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			got := check(t, patched(t, text), patched(t, sides[name+"/new"]))
			if unsafe := !got.Verdict.Proven(); unsafe != strings.HasPrefix(name, "unsafe/") {
				t.Errorf("%s:\n%s", got.Verdict, listed(got))
			}
		})
	}
	if tried < 76 {
		t.Errorf("%d upgrades", tried)
	}
}

// TestAnObjectWithoutAHomeMakesNoJourney asks about an object that is stored in a version that the new CRD lacks.
func TestAnObjectWithoutAHomeMakesNoJourney(t *testing.T) {
	of := func(name string) *crd {
		return patched(t, "versions: [{name: "+name+", served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]")
	}
	c := newComparison(of("v1"), of("v2"), Options{})
	from, to := c.oldParts[0], c.newParts[0]
	gap := contain.Gap{Harm: contain.Pruned, Witness: &contain.Witness{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}}
	if c.canTravel(t.Context(), pair{from, to}, &gap) {
		t.Error("it is read, though no version reads it")
	}
}

// A field that may be null from now on refuses requests whose null was dropped, if it has an enum, even one with null, or if null counts as a
// field of the object.
func TestNullThatWasDroppedIsRefused(t *testing.T) {
	of := func(spec, field string) *crd {
		return patched(t, `versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, `+spec+`properties: {b: {type: string}, c: {type: string`+field+`}}}}}}}]`)
	}
	for _, e := range []struct {
		spec, old, new string
		refused        bool
	}{
		{"", ", enum: [a]", ", enum: [a], nullable: true", true},
		{"", ", enum: [a]", ", enum: [a, null], nullable: true", true},
		{"", ", enum: [a]", ", nullable: true", false},
		{"maxProperties: 1, ", "", ", nullable: true", true},
		{"not: {required: [c]}, ", "", ", nullable: true", true},
		{"oneOf: [{required: [b]}, {required: [c]}], ", "", ", nullable: true", true},
		{"anyOf: [{required: [b]}, {required: [c]}], ", "", ", nullable: true", false},
		{"minProperties: 1, ", "", ", nullable: true", false},
	} {
		got := check(t, of(e.spec, e.old), of(e.spec, e.new))
		if (got.Verdict == report.Unsafe) != e.refused || e.refused && got.Findings[0].Level != report.WritersRefused {
			t.Errorf("%s %s: %s", e.spec, e.new, listed(got))
		}
	}
}

// What another change refuses is not blamed on null.
func TestAnotherRefusalIsNotBlamedOnNull(t *testing.T) {
	of := func(b, c string) *crd {
		return patched(t, `versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, maxProperties: 3, properties: {b: {type: integer`+b+`}, c: {type: string`+c+`}}}}}}}]`)
	}
	got := check(t, of("", ""), of(", maximum: 1", ", nullable: true"))
	if !slices.Contains(ruleIDs(got.Findings), "maximum-lowered") {
		t.Fatalf("%s", listed(got))
	}
	for _, f := range got.Findings {
		if f.Rule == "nullable-added" && f.Level == report.WritersRefused {
			t.Errorf("%s", f.Message)
		}
	}
}

// What only odd values meet in a version that is stored, and not served before, says nothing of usual values.
func TestANoteAboutOddValuesHidesNothing(t *testing.T) {
	of := func(served, x string) *crd {
		d := patched(t, `versions:
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: {type: integer}}}}}}}
- {name: v2, served: `+served+`, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: {type: integer, `+x+`}}}}}}}`)
		d.Status.StoredVersions = []string{"v1", "v2"}
		return d
	}
	got := check(t, of("false", "maximum: 5"), of("true", "x-kubernetes-validations: [{rule: 'self <= 10'}]"))
	if got.Verdict != report.Unsafe {
		t.Errorf("%s", listed(got))
	}
}
