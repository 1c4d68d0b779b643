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
	"os"
	"path"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/conversion"
	"sluice.dev/report"
)

// Option changes what RoundTrip does.
type Option func(*settings)

type settings struct {
	conversion.Options
	losses []loss
}

type loss struct{ path, reason, expires string }

// AllowLoss declares that conversions lose the values at a path, such as .spec.color, deliberately. In the path, * stands for any text. expires
// is a date, YYYY-MM-DD, from which on the loss fails again; empty means never.
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
	today := s.Now().Format(time.DateOnly)
	for _, o := range options {
		o(&s)
	}
	for _, l := range s.losses {
		if strings.TrimSpace(l.reason) == "" {
			t.Errorf("the deliberate loss of %s needs a reason", l.path)
		}
		if l.expires != "" && l.expires < today {
			t.Errorf("the deliberate loss of %s expired on %s; its reason was: %s", l.path, l.expires, l.reason)
		}
	}
	found, err := conversion.Check(t.Context(), crd, converter, s.Options)
	if err != nil {
		t.Fatalf("%s: %v", crd.Name, err)
	}
	r := report.Report{CRDs: []report.CRD{found}}
	r.Sort()
	for i := range r.CRDs[0].Findings {
		s.tell(t, &r.CRDs[0].Findings[i], today)
	}
}

func (s *settings) tell(t testing.TB, f *report.Finding, today string) {
	t.Helper()
	text := f.Rule + ": " + f.Message
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	if f.Witness != nil {
		text += "\n" + f.Witness.Object
	}
	if f.Severity != report.Fail || s.isAllowed(f, today) {
		t.Log(text)
		return
	}
	t.Error(text)
}

// isAllowed reports whether a finding is a loss that is declared, and did not expire before today.
func (s *settings) isAllowed(f *report.Finding, today string) bool {
	for _, l := range s.losses {
		if ok, err := path.Match(l.path, f.Path); err == nil && ok && strings.HasPrefix(f.Rule, "conversion-loses-") {
			return l.expires == "" || l.expires >= today
		}
	}
	return false
}
