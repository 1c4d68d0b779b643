package preflight_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/apply"
	"sluice.dev/internal/config"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

// Each rule has a mode of its own; what is no violation of a CRD is not accepted by its suppressions.
func TestModesAreThoseOfTheirRules(t *testing.T) {
	finding := func(rule string, level report.Level) []report.CRD {
		return []report.CRD{{Name: "as.x.io", Findings: []report.Finding{{
			Rule: rule, CRD: "as.x.io", Outcome: report.Violation, Severity: report.Fail, Level: level,
		}}}}
	}
	const head = "apiVersion: kapp.k14s.io/v1alpha1\nkind: Config\npreflightRules:\n"
	for name, test := range map[string]struct {
		text string
		want map[string]report.Severity
	}{
		"none":          {"- name: CRDUpgradeSafety\n", map[string]report.Severity{"property-removed": report.Fail, "permission-missing": report.Fail, "feature-off": report.Fail}},
		"that of CRDs":  {"- name: CRDUpgradeSafety\n  config: {mode: warn}\n", map[string]report.Severity{"property-removed": report.Warn, "permission-missing": report.Fail, "feature-off": report.Fail}},
		"of features":   {"- name: FeatureGates\n  config: {mode: warn}\n", map[string]report.Severity{"property-removed": report.Fail, "permission-missing": report.Fail, "feature-off": report.Warn}},
		"a suppression": {"- name: CRDUpgradeSafety\n  config: {suppressions: [{crd: as.x.io, reason: known, expires: 2100-01-01}]}\n", map[string]report.Severity{"property-removed": report.Off, "permission-missing": report.Fail, "feature-off": report.Fail}},
	} {
		cfg, _, err := config.Parse("f", []byte(head+test.text), preflight.Rules())
		if err != nil {
			t.Fatal(err)
		}
		ran := &apply.PreflightResult{Found: map[string][]report.CRD{
			apply.CRDUpgradeSafety:     finding("property-removed", report.DataLost),
			apply.PermissionValidation: finding("permission-missing", ""),
			apply.FeatureGates:         finding("feature-off", ""),
		}}
		got := map[string]report.Severity{}
		for _, c := range preflight.Report(cfg, ran, "a", "b", nil, time.Time{}).CRDs {
			for _, f := range c.Findings {
				got[f.Rule] = f.Severity
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if ran.Found[apply.FeatureGates][0].Findings[0].Severity != report.Fail {
			t.Error("the findings were changed")
		}
	}
	for _, rule := range preflight.Rules() {
		if doc, ok := preflight.Doc(rule); !ok || doc.Why == "" || doc.Title == "" {
			t.Errorf("%s is not described", rule)
		}
	}
}
