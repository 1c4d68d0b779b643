package contain

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

// withFieldsRequired returns a schema that accepts, at each place, less than p: fields with a default are required, and a few others.
func withFieldsRequired(g *schemagen.Gen, p *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	return schema.Rewrite(p, schema.InStructure, func(s *apiextensionsv1.JSONSchemaProps) {
		s.Required, s.Properties = slices.Clone(s.Required), maps.Clone(s.Properties)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			child := s.Properties[name]
			if (child.Default != nil || g.IntN(8) == 0) && !slices.Contains(s.Required, name) {
				child.Default, s.Required = nil, append(s.Required, name)
			}
			s.Properties[name] = child
		}
	})
}

// TestWithinChangesNoAnswer: a schema around the old one makes proofs cheaper. It hides no harm, and invents none.
func TestWithinChangesNoAnswer(t *testing.T) {
	pairs, gaps, fewer := 0, 0, 0
	for seed := range draws.Seeds(4000) {
		g := schemagen.New(seed + 9_000_000)
		g.Rules = seed%3 > 0
		wide, change := g.Schema(), g.Change
		if seed%2 > 0 {
			wide, change = g.Union(), g.ChangeUnion
		}
		old, new := withFieldsRequired(g, wide), change(wide)
		around := side(t, wide)
		searched := 0 // questions that were put to the solver
		count := func(e Event) {
			if !strings.Contains(e.Text, string(equalKeyword)) {
				searched++
			}
		}
		want := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true, Trace: count})
		alone := searched
		got := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true, Trace: count, Within: &around})
		pairs++
		if searched-alone < alone {
			fewer++
		}
		known := map[string]Verdict{}
		for _, x := range want.Gaps {
			known[x.Path.String()+" "+x.Keyword+" "+x.Detail] = x.Verdict
		}
		found := map[string]bool{}
		for _, x := range got.Gaps {
			key := x.Path.String() + " " + x.Keyword + " " + x.Detail
			found[key] = true
			if before, ok := known[key]; !ok || before == Unknown && x.Verdict != Unknown {
				t.Errorf("seed %d: %s is %s, and %q without Within\n%s\n%s", seed, key, x.Verdict, before, showSchema(old), showSchema(new))
			}
		}
		for key, verdict := range known {
			gaps++
			if verdict == NotContained && !found[key] {
				t.Errorf("seed %d: %s is not told\n%s\n%s", seed, key, showSchema(old), showSchema(new))
			}
		}
	}
	t.Logf("%d pairs, %d gaps, %d with fewer searches", pairs, gaps, fewer)
	if gaps*4 < pairs || fewer*20 < pairs {
		t.Errorf("%d pairs, %d gaps, %d with fewer searches: the test says little", pairs, gaps, fewer)
	}
}
