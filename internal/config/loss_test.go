package config_test

import (
	"strings"
	"testing"
	"time"

	"sluice.dev/internal/config"
	"sluice.dev/report"
)

func TestADeliberateLossIsSuppressedWhereConversionsAreChecked(t *testing.T) {
	rules := []string{"conversion-loses-value", "conversion-fails", "enum-added"}
	text := "apiVersion: sluice.dev/v1alpha1\nkind: Config\nsuppressions:\n- {rule: enum-added, reason: x}\n- {rule: conversion-fails, path: .spec.b, reason: x}\n" +
		"allowLoss:\n- {path: .spec.a, reason: nobody reads it, expires: 2030-01-01}\n"
	cfg, _, err := config.Parse("f", []byte(text), rules)
	if err != nil {
		t.Fatal(err)
	}
	at := func(day string) time.Time {
		out, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	found := func(cfg *config.Config, day string) (out []string) {
		r := &report.Report{CRDs: []report.CRD{{Name: "as.x.io", Findings: []report.Finding{
			{Rule: "conversion-loses-value", Path: ".spec.a", CRD: "as.x.io", Level: report.DataLost, Outcome: report.Violation},
			{Rule: "conversion-loses-value", Path: ".spec.b", CRD: "as.x.io", Level: report.DataLost, Outcome: report.Violation},
			{Rule: "conversion-fails", Path: ".spec.a", CRD: "as.x.io", Level: report.DataLost, Outcome: report.Violation},
		}}}}
		cfg.Apply(r, at(day))
		for _, f := range r.CRDs[0].Findings {
			out = append(out, f.Rule+f.Path+" "+string(f.Severity))
		}
		return out
	}
	for _, x := range []struct {
		cfg       *config.Config
		day, want string
	}{
		{cfg.ForConversions(rules[:2]), "2029-12-31", "conversion-loses-value.spec.a off, conversion-loses-value.spec.b fail, conversion-fails.spec.a fail, suppression-unused warn"},
		{cfg.ForConversions(rules[:2]), "2030-01-02", "conversion-loses-value.spec.a fail, conversion-loses-value.spec.b fail, conversion-fails.spec.a fail, suppression-expired fail, suppression-unused warn"},
		{cfg, "2029-12-31", "conversion-loses-value.spec.a fail, conversion-loses-value.spec.b fail, conversion-fails.spec.a fail, suppression-unused warn, suppression-unused warn"},
	} {
		if got := strings.Join(found(x.cfg, x.day), ", "); got != x.want {
			t.Errorf("on %s: %s\nwant %s", x.day, got, x.want)
		}
	}
}

func TestADeliberateLossNeedsAPlaceAndAReason(t *testing.T) {
	for text, want := range map[string]string{
		"- {reason: x}":                                      "must name a crd or a path",
		"- {path: .spec.a}":                                  "must give its reason",
		"- {path: .spec.a, reason: x, rule: x}":              `"rule"`,
		"- {path: .spec.a, reason: x, expires: next summer}": "YYYY-MM-DD",
	} {
		_, _, err := config.Parse("f", []byte("apiVersion: sluice.dev/v1alpha1\nkind: Config\nallowLoss:\n"+text+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
