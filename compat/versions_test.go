package compat

import (
	"slices"
	"strings"
	"testing"

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
