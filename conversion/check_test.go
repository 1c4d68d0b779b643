package conversion_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/conversion"
	"sluice.dev/report"
)

func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func checkWidgets(t *testing.T, f fault) report.CRD {
	t.Helper()
	c := &clock{at: time.Unix(0, 0)}
	got, err := conversion.Check(t.Context(), readCRD(t, "testdata/widgets.yaml"), widgets(f, c), conversion.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestARightConverterPasses(t *testing.T) {
	got := checkWidgets(t, "")
	for _, f := range got.Findings {
		t.Log(f.Version, f.Path, f.Rule, f.Message)
		if f.Rule != "conversion-coverage" {
			if f.Witness != nil {
				t.Log(f.Witness.Object)
			}
			t.Errorf("%s %s: %s", f.Rule, f.Path, f.Message)
		}
	}
	if got.Verdict != report.Safe {
		t.Errorf("verdict %s", got.Verdict)
	}
}

func TestSeededFaultsAreFound(t *testing.T) {
	for _, x := range faults {
		t.Run(string(x.fault), func(t *testing.T) {
			got := checkWidgets(t, x.fault)
			at := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == x.rule && f.Path == x.path })
			for _, f := range got.Findings {
				t.Log(f.Version, f.Path, f.Rule, f.Message)
			}
			if at < 0 {
				t.Fatalf("no finding of %s at %q", x.rule, x.path)
			}
			f := got.Findings[at]
			t.Log(f.Witness.Object)
			if got.Verdict != report.Unsafe || f.Message == "" || !strings.Contains(f.Witness.Object, x.witness) {
				t.Errorf("verdict %s, message %q, witness\n%s\nwhich has no %q", got.Verdict, f.Message, f.Witness.Object, x.witness)
			}
		})
	}
}
