// Package conversiontest checks conversions in the tests of those who write them:
//
//	func TestConversions(t *testing.T) {
//		conversiontest.RoundTrip(t, conversiontest.CRD(t, "../config/crd/bases/example.com_widgets.yaml"),
//			conversion.Typed[ctrlconversion.Hub](scheme, &v1.Widget{}, &v1beta1.Widget{}))
//	}
//
// What is checked, package conversion says. It links the API server's own validation and the prover, but neither controller-runtime nor a
// cluster.
package conversiontest

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/conversion"
	"sluice.dev/internal/config"
	"sluice.dev/report"
)

// Option changes what RoundTrip does.
type Option func(*settings)

type settings struct {
	conversion.Options
	losses []loss
}

type loss struct{ path, reason, expires string }

// AllowLoss declares that conversions lose the values at a path, such as .spec.parts[*].color, deliberately. It is an entry of allowLoss in a
// configuration: in the path, * stands for any text up to the next . or [, and ** for any text. expires is the last day, YYYY-MM-DD, on which the
// loss is allowed; empty means for ever. The test fails if the path or the reason is empty, or if the date is none or has passed.
func AllowLoss(path, reason, expires string) Option {
	return func(s *settings) { s.losses = append(s.losses, loss{path, reason, expires}) }
}

// With sets the options of the check.
func With(o conversion.Options) Option { return func(s *settings) { s.Options = o } }

// CRD reads a CRD from a YAML file. If that fails, so does the test.
func CRD(t testing.TB, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // the test names the file
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return crd
}

// RoundTrip converts objects of each version of the CRD to each other one and back. The test fails for each finding that fails by its
// level, and for each part of a version that no object reached. Other findings are logged.
func RoundTrip(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition, converter conversion.Converter, options ...Option) {
	t.Helper()
	s := settings{Options: conversion.Options{Now: time.Now}} //nolint:forbidigo // a test has no clock to give
	today := s.Now()
	for _, o := range options {
		o(&s)
	}
	cfg := s.loadLosses(t)
	found, err := conversion.Check(t.Context(), crd, converter, s.Options)
	if err != nil {
		t.Fatalf("%s: %v", crd.Name, err)
	}
	r := report.Report{CRDs: []report.CRD{found}}
	cfg.Apply(&r, today)
	r.Sort()
	for i := range r.CRDs[0].Findings {
		logFinding(t, &r.CRDs[0].Findings[i])
	}
}

// loadLosses returns a configuration with the deliberate losses. What is wrong with one of them fails the test.
func (s *settings) loadLosses(t testing.TB) *config.Config {
	t.Helper()
	var o config.Options
	for _, l := range s.losses {
		entry := map[string]string{"path": l.path, "reason": l.reason, "expires": l.expires}
		if l.expires == "" {
			delete(entry, "expires")
		}
		text, err := json.Marshal(map[string]any{"apiVersion": "sluice.dev/v1alpha1", "kind": "Config", "allowLoss": []any{entry}})
		if err != nil {
			t.Fatal(err)
		}
		o.Documents = append(o.Documents, config.Document{Name: "AllowLoss(" + l.path + ")", Data: text})
	}
	cfg, _, err := config.Load(o)
	if err != nil {
		t.Error(err)
		cfg = &config.Config{}
	}
	return cfg.ForConversions(nil)
}

// logFinding fails the test with a finding that fails, and logs others. The object that shows it comes behind
// the text.
func logFinding(t testing.TB, f *report.Finding) {
	t.Helper()
	text := f.Rule + ": " + f.Message
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	if f.Witness != nil {
		text += "\n" + f.Witness.Object
	}
	if f.Severity == report.Fail {
		t.Error(text)
		return
	}
	t.Log(text)
}
