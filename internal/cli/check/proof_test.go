package check

import (
	"strings"
	"testing"

	"sluice.dev/report"
)

// TestUnproven: a check ends with an error if and only if a safe verdict has a proof that does not verify.
func TestUnproven(t *testing.T) {
	crd := func(v report.Verdict, refused ...string) report.CRD {
		return report.CRD{Name: "widgets.example.com", Verdict: v, Proof: &report.Proof{Verified: 3, Refused: refused}}
	}
	step := "step minimum at .spec.size: implied-here does not hold: the old schema leaves a value open"
	err := unproven([]report.CRD{{Name: "a"}, crd(report.Safe), crd(report.Unsafe, step), crd(report.Safe, step)})
	if err == nil || !strings.Contains(err.Error(), "widgets.example.com") || !strings.Contains(err.Error(), step) {
		t.Errorf("%v", err)
	}
	if err := unproven([]report.CRD{{Name: "a"}, crd(report.Safe), crd(report.Unsafe, step)}); err != nil {
		t.Error(err)
	}
}
