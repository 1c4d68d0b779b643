package conversion_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/conversion"
	"sluice.dev/report"
	"sluice.dev/tools/convertfaults"
)

// checkWidgets checks the conversion of widgets with a fault. The clock is one that slow conversions set forward.
func checkWidgets(t *testing.T, fault string, change func(*conversion.Options)) report.CRD {
	t.Helper()
	crd, err := convertfaults.CRD()
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(0, 0)
	sleep := func(d time.Duration) { clock = clock.Add(d) }
	o := conversion.Options{Now: func() time.Time { return clock }}
	if change != nil {
		change(&o)
	}
	got, err := conversion.Check(t.Context(), crd, conversion.Func(convertfaults.Widgets(fault, sleep)), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Findings {
		t.Log(f.Version, f.Path, f.Rule, f.Message)
	}
	return got
}

func TestARightConverterPassesWithEveryFieldReached(t *testing.T) {
	got := checkWidgets(t, "", nil)
	for _, f := range got.Findings {
		if f.Rule != "conversion-coverage" {
			t.Errorf("%s %s: %s", f.Rule, f.Path, f.Message)
		}
	}
	if got.Verdict != report.Safe || len(got.Findings) != 2 {
		t.Errorf("verdict %s", got.Verdict)
	}
	for _, want := range []string{"17 of 17 fields", "3 of 3 enum values", "4 of 4 union branches", "7 of 7 bounds", "2 of 2 defaults", "2 of 2 lists and maps of two", "8 of 8 special values"} {
		if !strings.Contains(got.Findings[0].Message, want) {
			t.Errorf("%q has no %q", got.Findings[0].Message, want)
		}
	}
}

func TestSeededFaultsAreFoundWithTheirWitness(t *testing.T) {
	for _, x := range convertfaults.Faults {
		t.Run(x.Name, func(t *testing.T) {
			got := checkWidgets(t, x.Name, nil)
			at := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == x.Rule && f.Path == x.Path })
			if at < 0 {
				t.Fatalf("no finding of %s at %q", x.Rule, x.Path)
			}
			f := got.Findings[at]
			if got.Verdict != report.Unsafe || f.Message == "" || !strings.Contains(f.Witness.Object, x.Witness) {
				t.Errorf("verdict %s, message %q, witness\n%s\nwhich has no %q", got.Verdict, f.Message, f.Witness.Object, x.Witness)
			}
		})
	}
}

func TestANewReleaseIsComparedWithTheOldOne(t *testing.T) {
	old := func(o *conversion.Options) { o.Old = conversion.Func(convertfaults.Widgets("", nil)) }
	if got := checkWidgets(t, "", old); got.Verdict != report.Safe {
		t.Errorf("verdict %s for the same converter", got.Verdict)
	}
	got := checkWidgets(t, "enum mapped wrongly", old)
	at := slices.IndexFunc(got.Findings, func(f report.Finding) bool { return f.Rule == "conversion-changed" })
	if at < 0 {
		t.Fatal("no finding")
	}
	f := got.Findings[at]
	if f.Path != ".spec.size" || f.Before != `"medium"` || f.After != `"large"` || !strings.Contains(f.Witness.Object, "size: M") {
		t.Errorf("%+v\n%s", f, f.Witness.Object)
	}
}

func TestTheSameSeedGivesTheSameReport(t *testing.T) {
	for _, fault := range []string{"lost field", "panic on one object"} {
		a, b := checkWidgets(t, fault, nil), checkWidgets(t, fault, nil)
		if len(a.Findings) != len(b.Findings) {
			t.Fatalf("%d and %d findings", len(a.Findings), len(b.Findings))
		}
		for i := range a.Findings {
			if a.Findings[i].Message != b.Findings[i].Message || a.Findings[i].Witness != nil && a.Findings[i].Witness.Object != b.Findings[i].Witness.Object {
				t.Errorf("%+v\nand\n%+v", a.Findings[i], b.Findings[i])
			}
		}
	}
}

// breaking is a converter whose process ends at some requests.
type breaking struct {
	conversion.Func
	empty, all bool
}

func (b breaking) Review(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	if b.all || b.empty && len(review.Request.Objects) == 0 {
		return nil, errors.New("EOF")
	}
	return b.Func.Review(ctx, review)
}

func TestAnEmptyRequestIsToBeAnswered(t *testing.T) {
	crd, err := convertfaults.CRD()
	if err != nil {
		t.Fatal(err)
	}
	right := conversion.Func(convertfaults.Widgets("", nil))
	got, err := conversion.Check(t.Context(), crd, breaking{Func: right, empty: true}, conversion.Options{Random: -1})
	if err != nil || !slices.ContainsFunc(got.Findings, func(f report.Finding) bool {
		return f.Rule == "conversion-protocol" && f.Path == "" && strings.Contains(f.Message, "an empty request")
	}) {
		t.Errorf("%v: %+v", err, got.Findings)
	}
	if _, err := conversion.Check(t.Context(), crd, breaking{Func: right, all: true}, conversion.Options{Random: -1}); err == nil {
		t.Error("no error from a converter that does not answer")
	}
}
