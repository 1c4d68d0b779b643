package compat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
)

// The target decides what is checked, and a sentence names the code that speaks.
func TestRulesOfTheTarget(t *testing.T) {
	at := func(kube string, before, after string) report.CRD {
		got, err := Check(t.Context(), specCRD(t, before), specCRD(t, after), Options{KubeVersion: version.MustParse(kube)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for kube, want := range map[string]report.Verdict{"1.25": report.Safe, "1.35": report.Safe, "1.36": report.Unsafe, upstream.Newest.String(): report.Unsafe} {
		if got := at(kube, "n: {type: integer}", "n: {type: integer, format: int32}"); got.Verdict != want {
			t.Errorf("format int32 under %s is %s, want %s", kube, got.Verdict, want)
		}
	}
	const costly = "l: {type: array, items: {type: array, items: {type: string}, x-kubernetes-validations: [{rule: 'self.all(x, self.exists(y, x.contains(y)))'}]}}"
	for kube, want := range map[string]report.Outcome{"1.35": report.Undecided, upstream.Newest.String(): report.Violation} {
		got := at(kube, "a: {type: string}", costly+"\na: {type: string}")
		i := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "crd-refused-by-api-server" })
		if i < 0 || got.Findings[i].Outcome != want {
			t.Fatalf("costs under %s: %+v", kube, got.Findings)
		}
		if f := got.Findings[i]; want == report.Undecided && (!strings.Contains(f.Message, "code of Kubernetes "+upstream.Newest.String()) || !strings.Contains(f.Reason, "1.35")) {
			t.Errorf("%s; %s", f.Message, f.Reason)
		}
	}
}

// Kubernetes 1.30 to 1.32 ratchet updates, but not writes of the status: they refuse them for errors below .status, and for rules anywhere.
func TestStatusWritesOfTheTarget(t *testing.T) {
	crdWith := func(status bool, place, keyword string) *crd {
		text := "{spec: {type: object, properties: {a: {type: integer SPEC}}}, list: {type: array, items: {type: integer} LIST}, " +
			"status: {type: object STATUS, properties: {a: {type: integer FIELD}, l: {type: array, items: {type: integer} ITEMS}}}}"
		for _, name := range []string{"SPEC", "LIST", "STATUS", "FIELD", "ITEMS"} {
			filled := ""
			if name == place {
				filled = ", " + keyword
			}
			text = strings.Replace(text, " "+name, filled, 1)
		}
		subresources := ""
		if status {
			subresources = "subresources: {status: {}}, "
		}
		return patched(t, "versions: [{name: v1, served: true, storage: true, "+subresources+"schema: {openAPIV3Schema: {type: object, properties: "+text+"}}}]")
	}
	for _, c := range []struct {
		place, keyword string
		unratcheted    bool // in a write of the status
	}{
		{"SPEC", "maximum: 9", false},
		{"FIELD", "maximum: 9", true},
		{"SPEC", "x-kubernetes-validations: [{rule: self < 9}]", true},
		{"STATUS", "required: [a]", true},
		{"LIST", "x-kubernetes-list-type: set", false},
		{"ITEMS", "x-kubernetes-list-type: set", false},
	} {
		for _, status := range []bool{true, false} {
			for kube, before133 := range map[string]bool{"1.30": true, "1.32": true, "1.33": false} {
				got, err := Check(t.Context(), crdWith(status, "", ""), crdWith(status, c.place, c.keyword), Options{KubeVersion: version.MustParse(kube)})
				if err != nil {
					t.Fatal(err)
				}
				want := report.ObjectsRatcheted
				if before133 && status && c.unratcheted {
					want = report.ObjectsStuck
				}
				if len(got.Findings) == 0 || got.Findings[0].Level != want || got.Findings[0].MayBe != "" {
					t.Errorf("%s at %s, status subresource %t, under %s: %+v, want %s", c.keyword, c.place, status, kube, got.Findings, want)
				}
			}
		}
	}
}

// TestABundleWithoutCertificate: API servers before 1.31 take it, and then no conversion passes.
func TestABundleWithoutCertificate(t *testing.T) {
	const loose, broken = "type: string", "\n    clientConfig: {caBundle: Cg==, service: {name: widget-webhook, namespace: widgets}}\n"
	two, one := versions("v1 served,storage "+loose, "v2 served "+loose), versions("v1 served,storage "+loose)
	bad := strings.Replace(webhook, "\n    clientConfig: {service: {name: widget-webhook, namespace: widgets}}\n", broken, 1)
	for name, tt := range map[string]struct {
		old, new, kube string
		rules          []string
	}{
		"new with two versions":          {two + webhook, two + bad, "1.30", []string{"webhook-conversion-added"}},
		"as before":                      {two + bad, two + bad, "1.30", nil},
		"nothing to convert":             {one + webhook, one + bad, "1.30", nil},
		"new with the webhook":           {two, two + bad, "1.30", []string{"conversion-strategy-changed", "webhook-conversion-added"}},
		"refused by a later API server":  {two + webhook, two + bad, "1.31", []string{"crd-refused-by-api-server"}},
		"another webhook, as bad, later": {two, two + bad, "1.31", []string{"conversion-strategy-changed", "crd-refused-by-api-server"}},
	} {
		got, err := Check(t.Context(), patched(t, tt.old), patched(t, tt.new), Options{KubeVersion: version.MustParse(tt.kube)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.rules, slices.Sorted(slices.Values(ruleIDs(got.Findings)))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSelectableFieldsBeforeTheyWereKnown: API servers before 1.31 drop them from the CRD.
func TestSelectableFieldsBeforeTheyWereKnown(t *testing.T) {
	const with = `
versions:
- name: v1
  served: true
  storage: true
  selectableFields: [{jsonPath: .spec.%s}]
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {num: {type: string}}}}}}
`
	known, unknown, none := fmt.Sprintf(with, "num"), fmt.Sprintf(with, "nothing"), strings.Replace(with, "  selectableFields: [{jsonPath: .spec.%s}]\n", "", 1)
	for kube, want := range map[string][][]string{"1.30": {nil, nil, nil}, "1.31": {{"crd-refused-by-api-server"}, {"selectable-field-removed"}, nil}} {
		for i, pair := range [][2]string{{none, unknown}, {known, none}, {none, known}} {
			got, err := Check(t.Context(), patched(t, pair[0]), patched(t, pair[1]), Options{KubeVersion: version.MustParse(kube)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[i], slices.Sorted(slices.Values(ruleIDs(got.Findings)))); diff != "" {
				t.Errorf("%s, %d: %s", kube, i, diff)
			}
		}
	}
}
