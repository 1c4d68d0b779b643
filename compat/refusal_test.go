package compat

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
)

func texts(errs field.ErrorList) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

// TestTheShortWayFindsWhatTheLongWayFinds: validating an update with schemas cut out, and the old CRD without what the new
// one has too, must not change what is found.
func TestTheShortWayFindsWhatTheLongWayFinds(t *testing.T) {
	type caseOf struct {
		name     string
		old, new *crd
	}
	var cases []caseOf
	alike := similar(t)
	for _, r := range Rules() {
		for kind, e := range map[string]Example{"unsafe": r.Unsafe, "instead": {r.Unsafe.Old, r.Instead}, "similar": alike[r.ID]} {
			old, new, err := crdsOf(&r, e)
			if err != nil {
				t.Fatal(err)
			}
			if old != nil && new != nil {
				cases = append(cases, caseOf{r.ID + " " + kind, old, new}, caseOf{r.ID + " " + kind + " back", new, old})
			}
		}
	}
	for name, x := range map[string][2]string{
		"a bad default on both sides": {"num: {type: integer, default: x}", "num: {type: integer, default: x}\nm: {type: string}"},
		"a bad default that stays while another goes": {
			"num: {type: integer, default: x}\nm: {type: integer, default: y}", "num: {type: integer, default: x}\nm: {type: integer, default: 1}",
		},
		"a bad default that goes":      {"num: {type: string}\nm: {type: integer, default: y}", "num: {type: string}"},
		"not structural on both sides": {"num: {properties: {a: {type: string}}}", "num: {properties: {a: {type: string}}}\nm: {type: string}"},
		"list keys that are not there": {"num: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object}}", "num: {type: array, items: {type: object}}"},
		"a rule about what did not change": {
			"num: {type: object, properties: {a: {type: string}, b: {type: string}}, x-kubernetes-validations: [{rule: self.a != self.c}]}",
			"num: {type: object, properties: {a: {type: string}, b: {type: integer}}, x-kubernetes-validations: [{rule: self.a != self.b}]}",
		},
	} {
		cases = append(cases, caseOf{name, specCRD(t, x[0]), specCRD(t, x[1])})
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			c := newComparison(x.old, x.new, Options{})
			got := c.validateByServer(t.Context())
			old, new := c.asInstalled()
			update, err1 := upstream.ValidateCRDUpdate(t.Context(), new, old, nil)
			before, err2 := upstream.ValidateCRD(t.Context(), x.old, nil)
			if got.err != nil || err1 != nil || err2 != nil {
				t.Fatal(got.err, err1, err2)
			}
			if diff := cmp.Diff(texts(update), texts(got.errs)); diff != "" {
				t.Errorf("the update (-long +short):\n%s", diff)
			}
			if diff := cmp.Diff(texts(before), texts(got.old)); diff != "" {
				t.Errorf("the old CRD (-long +short):\n%s", diff)
			}
		})
	}
}

func TestWhatTheAPIServerTolerates(t *testing.T) {
	old := specCRD(t, "num: {type: array, x-kubernetes-list-type: set, items: {type: object}}")
	new := specCRD(t, "num: {type: array, x-kubernetes-list-type: set, items: {type: object}}\nm: {type: string}")
	got := check(t, old, new)
	if want := []string{"crd-refused-by-api-server", "old-crd-invalid"}; !slices.Equal(ruleIDs(got.Findings), want) {
		t.Fatalf("got %v, want %v", ruleIDs(got.Findings), want)
	}
	for _, f := range got.Findings {
		if f.Outcome != report.Note || f.Severity != report.Warn || f.Level != "" {
			t.Errorf("%s is no note: %+v", f.Rule, f)
		}
	}
	if !got.Verdict.Proven() {
		t.Errorf("verdict %s", got.Verdict)
	}
}

func TestManyObjectionsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		b.WriteString("n" + indexToken(i) + ": {type: integer, default: x}\n")
	}
	got := check(t, nil, specCRD(t, b.String()))
	if len(got.Findings) != maxQuotes+1 {
		t.Fatalf("%d findings", len(got.Findings))
	}
	if !slices.ContainsFunc(got.Findings, func(f report.Finding) bool { return strings.Contains(f.Message, "150 more objections") }) {
		t.Error("the rest is not counted")
	}
}

func TestFieldTokens(t *testing.T) {
	for path, want := range map[string][]string{
		"":                      nil,
		"spec.scope":            {"spec", "scope"},
		"spec.versions[0].name": {"spec", "versions", "0", "name"},
		"spec.validation.openAPIV3Schema.properties[a.b].items": {"spec", "validation", "openAPIV3Schema", "properties", "a.b", "items"},
		"a[b":     {"a", "[b"},
		"a[0][1]": {"a", "0", "1"},
	} {
		if diff := cmp.Diff(want, fieldTokens(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// If there is an API server, it says what it refuses, and not the linked code.
func TestTheServerSaysWhatItRefuses(t *testing.T) {
	good, bad := specCRD(t, "num: {type: integer, default: 1}"), specCRD(t, "num: {type: integer, default: x}")
	texts := bad.DeepCopy()
	texts.Labels = map[string]string{"a": "not a label"}
	labelled := good.DeepCopy()
	labelled.Labels = map[string]string{"a": "label"}
	own := field.ErrorList{field.Forbidden(field.NewPath("spec"), "nobody may")}
	for _, c := range []struct {
		name     string
		old, new *crd
		says     field.ErrorList
		err      error
		kube     string
		want     string
	}{
		{"the server takes what the code refuses", good, bad, nil, nil, "1.37", ""},
		{"the server refuses what the code takes", bad, good, own, nil, "1.37", "violation: the API server of the cluster refuses this: spec: Forbidden: nobody may"},
		{"a server of another version refuses costs", bad, good, field.ErrorList{field.Forbidden(field.NewPath("spec", "x-kubernetes-validations"), "estimated cost")}, nil, "1.30", "violation: the API server of the cluster refuses this: spec.x-kubernetes-validations: Forbidden: estimated cost"},
		{"only texts differ, and the server refuses them", bad, texts, own, nil, "1.37", "violation: the API server of the cluster refuses this: spec: Forbidden: nobody may"},
		{"only texts differ, and the server takes them", bad, texts, nil, nil, "1.37", ""},
		{"admission refuses what the code takes", bad, good, nil, &AdmissionError{"no changes on Fridays"}, "1.37", "note: admission in the cluster refuses this change, not the API server's validation: no changes on Fridays"},
		{"only texts differ, and admission refuses them", good, labelled, nil, &AdmissionError{"no changes on Fridays"}, "1.37", "note: admission in the cluster refuses this change, not the API server's validation: no changes on Fridays"},
		{"there is no answer", good, bad, nil, context.Canceled, "1.37", "undecided: " + Undetermined + ": the API server's validation could not be run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Check(t.Context(), c.old, c.new, Options{KubeVersion: version.MustParse(c.kube), Server: func(context.Context, *crd, *crd) (field.ErrorList, error) {
				return c.says, c.err
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, f := range r.Findings {
				if f.Rule == crdRefusedByAPIServer.ID {
					got += string(f.Outcome) + ": " + f.Message
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
