package compat

import (
	"flag"
	"testing"

	"sluice.dev/report"
)

var update = flag.Bool("update", false, "write golden files and docs/rules.md")

// specCRD is the CRD of the examples, whose objects have the given properties in their spec.
func specCRD(t testing.TB, properties string) *crd {
	t.Helper()
	return fragment(t, &Rule{ID: "test", inSpec: true}, properties)
}

// patched is the CRD of the examples with a fragment of its spec.
func patched(t testing.TB, spec string) *crd {
	t.Helper()
	return fragment(t, &Rule{ID: "test"}, spec)
}

func fragment(t testing.TB, r *Rule, text string) *crd {
	t.Helper()
	d, err := ExampleCRD(text, r.InSpec())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func check(t testing.TB, old, new *crd) report.CRD {
	t.Helper()
	got, err := Check(t.Context(), old, new, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// ruleIDs lists the rules of the findings, in their order.
func ruleIDs(fs []report.Finding) []string {
	out := []string{}
	for _, f := range fs {
		out = append(out, f.Rule)
	}
	return out
}
