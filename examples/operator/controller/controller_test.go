package controller_test

import (
	"strings"
	"testing"

	pagesv1 "sluice.dev/examples/operator/api/v1"
	"sluice.dev/examples/operator/controller"
	"sluice.dev/examples/operator/features"
	"sluice.dev/feature/featuretest"
	"sluice.dev/feature/gate"
)

func TestRender(t *testing.T) {
	page := pagesv1.PageSpec{Text: "a < b", Banner: &pagesv1.Banner{Text: "new"}}
	for _, tt := range []struct {
		name   string
		format pagesv1.Format
		banner bool
		want   string
	}{
		{"plain", "", false, "a < b"},
		{"with a banner", pagesv1.Plain, true, "*** new ***\na < b"},
		{"a stored banner while the feature is off", pagesv1.HTML, false, "<p>a &lt; b</p>"},
		{"a stored value of the next release", pagesv1.Markdown, false, "# a < b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// The gates are the test's own; it fails if the code asks for a feature that it does not set.
			gates := featuretest.New(t, features.Declaration(), gate.Options{}, featuretest.Values{features.Banner: tt.banner})
			p := page
			p.Format = tt.format
			if got, _ := controller.Render(gates.Enabled, &p); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestThePlainTextIsThereWhateverIsOn(t *testing.T) {
	gates := featuretest.New(t, features.Declaration(), gate.Options{}, nil)
	featuretest.Run(t, gates, featuretest.All(gates), func(t *testing.T) {
		text, shown := controller.Render(gates.Enabled, &pagesv1.PageSpec{Text: "text", Banner: &pagesv1.Banner{Text: "banner"}})
		if !strings.HasSuffix(text, "text") || strings.Contains(text, "banner") != gates.Enabled(features.Banner) || len(shown) == 0 {
			t.Errorf("%q, %v", text, shown)
		}
	})
}
