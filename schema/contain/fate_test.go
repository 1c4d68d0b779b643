package contain

import (
	"math/rand/v2"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

// TestFateByWholeSchemas holds what a witness says of its stored form against the API server's code with the whole schemas: a
// confirmer leaves out what cannot matter to its candidates, and defaults make more of these when they are stored.
func TestFateByWholeSchemas(t *testing.T) {
	witnesses, stuck := 0, 0
	check := func(seed uint64, old, new *apiextensionsv1.JSONSchemaProps) {
		before, after := validator(t, old), validator(t, new)
		for _, g := range Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true}).Gaps {
			w := g.Witness
			if g.Harm != Refused || w == nil || w.WritersOnly && w.Stuck {
				continue
			}
			witnesses++
			created, err := before.Create(t.Context(), w.Object)
			if err != nil || created.Refused() {
				t.Fatalf("seed %d: %s is no witness: %v %v", seed, show(w.Object), created.Errors, err)
			}
			stored, _ := schema.AsStored(created.Stored).(map[string]any)
			r, err := after.TouchUpdate(t.Context(), stored, true)
			if err != nil {
				t.Fatal(err)
			}
			if w.Stuck {
				stuck++
			}
			unappliable, err := after.Unappliable(stored)
			if err != nil {
				t.Fatal(err)
			}
			if (w.Unappliable == "") != (unappliable == "" || r.Refused()) && g.Keyword == "type" {
				t.Errorf("seed %d: %s: unappliable %q, and the whole schema says %q of %s\n%s", seed, g.Path, w.Unappliable, unappliable, show(stored), difference(old, new))
			}
			if w.Stuck && !r.Refused() && unappliable == "" || !w.Stuck && blamesGap(&g, r.Errors) {
				t.Errorf("seed %d: %s %s: stuck %v, and the whole schema says %v of %s\n%s", seed, g.Path, g.Keyword, w.Stuck, r.Errors, show(stored), difference(old, new))
			}
		}
	}
	for seed := range draws.Seeds(400) {
		if old, new, ok := (updateGen{rand.New(rand.NewPCG(seed, 4))}).pair(t); ok {
			check(seed, old, new)
		}
		g := schemagen.New(seed + 5_000_000)
		old := g.Schema()
		check(seed, old, g.Change(old))
	}
	t.Logf("%d witnesses, %d of them stuck", witnesses, stuck)
	if witnesses < 10 {
		t.Error("the test says little")
	}
}
