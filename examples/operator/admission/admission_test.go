package admission_test

import (
	"os"
	"strings"
	"testing"

	"sluice.dev/examples/operator/admission"
	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

// TestPagesThatUseWhatIsOff are created and updated, judged by the declared parts and by hand.
func TestPagesThatUseWhatIsOff(t *testing.T) {
	t.Parallel()
	of := func(banner string, format pagesv1.Format) *pagesv1.Page {
		p := &pagesv1.Page{Spec: pagesv1.PageSpec{Text: "text", Format: format}}
		if banner != "" {
			p.Spec.Banner = &pagesv1.Banner{Text: banner}
		}
		return p
	}
	for name, tt := range map[string]struct {
		page, old         *pagesv1.Page
		banner            bool // is on
		declared, refused bool // by the declared parts, and by hand
		dropped           bool // by hand
	}{
		"a creation that uses nothing":     {page: of("", "")},
		"a creation with a format":         {page: of("", pagesv1.HTML)},
		"a creation with the gated format": {page: of("", pagesv1.Markdown), declared: true, refused: true},
		"a creation with a banner":         {page: of("new", ""), declared: true, dropped: true},
		"the same while it is on":          {page: of("new", ""), banner: true},
		"an update that adds the format":   {page: of("", pagesv1.Markdown), old: of("", ""), declared: true, refused: true},
		"an update that keeps the format":  {page: of("", pagesv1.Markdown), old: of("", pagesv1.Markdown)},
		"an update of a stored banner":     {page: of("other", ""), old: of("new", "")},
		"a value that is none":             {page: of("", "Word"), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gates := featuretest.New(t, features.Declaration(), gate.Options{}, featuretest.Values{features.Banner: tt.banner, features.Signature: false})
			if _, errs, err := admission.Declared(gates, tt.page.DeepCopy(), tt.old); err != nil || (len(errs) > 0) != tt.declared {
				t.Errorf("by the declared parts: %v %v", errs, err)
			}
			page := tt.page.DeepCopy()
			if err := admission.ByHand(gates, page, tt.old); (err != nil) != tt.refused {
				t.Errorf("by hand: %v", err)
			}
			if (tt.page.Spec.Banner != nil && page.Spec.Banner == nil) != tt.dropped {
				t.Errorf("by hand: the banner is %v", page.Spec.Banner)
			}
		})
	}
}

// TestTheDocumentationShowsThisCode holds the examples of the page against the code that is compiled and run.
func TestTheDocumentationShowsThisCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/features-for-operators.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("admission.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Declared", "ByHand"} {
		_, rest, ok := strings.Cut(string(code), "\nfunc "+name+"(")
		body, _, closed := strings.Cut(rest, "\n}\n")
		if !ok || !closed || !strings.Contains(string(page), "func "+name+"("+body+"\n}\n") {
			t.Errorf("the page does not show %s as it is", name)
		}
	}
	if _, rest, _ := strings.Cut(string(code), "\nvar formats"); !strings.Contains(string(page), "var formats"+rest[:strings.Index(rest, "\n}\n")]+"\n}\n") {
		t.Error("the page does not show formats as they are")
	}
}
