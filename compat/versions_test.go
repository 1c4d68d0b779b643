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
