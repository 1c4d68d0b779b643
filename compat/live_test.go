package compat

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/report"
	"sluice.dev/schema/upstream"
)

func TestMetadataThatTheServerSetIsNoDifference(t *testing.T) {
	live := specCRD(t, "a: {type: string}")
	live.UID, live.Generation, live.ResourceVersion = "u", 3, "17"
	live.CreationTimestamp = metav1.Now()
	for _, f := range check(t, live, specCRD(t, "{a: {type: string}, b: {type: string}}")).Findings {
		t.Errorf("finding %s: %s", f.Rule, f.Message)
	}
}

// Where nothing but metadata and texts differs, the API server is asked all the same: what its code refuses is told.
func TestMetadataThatTheServerRefuses(t *testing.T) {
	many := map[string]string{"big": strings.Repeat("x", 256<<10)}
	for name, c := range map[string]struct {
		change  func(*crd)
		refused bool
	}{
		"a label":                        {func(d *crd) { d.Labels = map[string]string{"team": "a-team"} }, false},
		"a bad label":                    {func(d *crd) { d.Labels = map[string]string{"team": "a team"} }, true},
		"a bad key of a label":           {func(d *crd) { d.Labels = map[string]string{"a b": "x"} }, true},
		"a bad key of an annotation":     {func(d *crd) { d.Annotations = map[string]string{"-": "x"} }, true},
		"annotations that are too large": {func(d *crd) { d.Annotations = many }, true},
		"an annotation":                  {func(d *crd) { d.Annotations = map[string]string{"note": "any text, of course"} }, false},
		"a bad finalizer":                {func(d *crd) { d.Finalizers = []string{"a finalizer"} }, true},
		"a bad owner":                    {func(d *crd) { d.OwnerReferences = []metav1.OwnerReference{{Kind: "K"}} }, true},
		"a description":                  {func(d *crd) { d.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "text" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			old, new := specCRD(t, "a: {type: string}"), specCRD(t, "a: {type: string}")
			c.change(new)
			errs, err := upstream.ValidateCRDUpdate(t.Context(), new, old, nil)
			if err != nil || (len(errs) > 0) != c.refused {
				t.Fatalf("the API server says %v, %v", errs, err)
			}
			got := check(t, old, new)
			refused := slices.Contains(ruleIDs(got.Findings), "crd-refused-by-api-server")
			if refused != c.refused || (got.Verdict == report.IsUnchanged) == c.refused {
				t.Errorf("%s %v", got.Verdict, ruleIDs(got.Findings))
			}
		})
	}
}
