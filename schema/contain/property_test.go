package contain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/draws"
	"sluice.dev/tools/schemagen"
)

func validator(t testing.TB, p *apiextensionsv1.JSONSchemaProps) *upstream.Validator {
	t.Helper()
	v, err := upstream.New(p, upstream.Options{Group: "example.com", Version: "v1", Kind: "Example", Namespaced: true})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fine reports whether the API server accepts the object and keeps all of it.
func fine(t testing.TB, v *upstream.Validator, obj map[string]any) (bool, string) {
	t.Helper()
	r, err := v.Create(t.Context(), obj)
	if err != nil {
		t.Fatalf("%s: %v", show(obj), err)
	}
	if len(r.Errors) > 0 {
		return false, r.Errors[0].Error()
	}
	if gone := appendLostPaths(obj, r.Stored, "", nil); len(gone) > 0 {
		return false, "drops " + gone[0]
	}
	return true, ""
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func showSchema(p *apiextensionsv1.JSONSchemaProps) string {
	b, err := yaml.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func side(t testing.TB, p *apiextensionsv1.JSONSchemaProps) Side {
	t.Helper()
	s, err := NewSide(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFormulaAgreesWithUpstream(t *testing.T) {
	trials, accepted, unsure := 0, 0, 0
	for seed := range draws.Seeds(400) {
		g := schemagen.New(seed)
		g.Rules = seed%2 == 0
		p := g.Schema()
		v := validator(t, p)
		opts := &Options{Namespaced: true}
		formula := newTranslator(opts).acceptedAt(place{node: side(t, p).Node, pos: atRoot})
		for range 30 {
			obj := g.Object(p)
			if g.IntN(3) == 0 {
				g.Mutate(obj)
			}
			want, why := fine(t, v, obj)
			trials++
			if want {
				accepted++
			}
			switch got := logic.Eval(formula, obj, opts.solverStrings()); {
			case got == logic.Unsure:
				unsure++
			case (got == logic.Yes) != want:
				t.Fatalf("seed %d: formula says %v, upstream %v (%s) of\n%s\n%s", seed, got == logic.Yes, want, why, show(obj), showSchema(p))
			}
		}
	}
	t.Logf("%d objects, %d accepted, %d unsure", trials, accepted, unsure)
	if accepted < trials/10 || unsure > trials/5 {
		t.Errorf("of %d objects only %d are accepted, and %d unsure: the test says little", trials, accepted, unsure)
	}
}

// storedOf is the object as the API server stores it.
func storedOf(t *testing.T, v *upstream.Validator, obj map[string]any) map[string]any {
	t.Helper()
	r, err := v.Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return r.Stored
}

// isDefaultAt reports whether a gap is about the default of a value at the path, or of one around it.
func isDefaultAt(g *Gap, path string) bool {
	for end := len(path); end > 0; end = strings.LastIndexAny(path[:end], ".[") {
		if matchesPath(g.Path, []string{path[:end]}) {
			return true
		}
	}
	return false
}

func TestContainedHasNoEscape(t *testing.T) {
	count := map[Verdict]int{}
	trials, accepted, defaults := 0, 0, 0
	for seed := range draws.Seeds(20_000) {
		g := schemagen.New(seed + 1_000_000)
		g.Rules = seed%2 == 0
		old := g.Schema()
		new := g.Change(old)
		r := Decide(t.Context(), side(t, old), side(t, new), Options{Namespaced: true})
		count[r.Verdict]++
		if r.Verdict == Unknown {
			for _, x := range r.Gaps {
				if x.Verdict == Unknown {
					t.Logf("seed %d: %s %s: %s", seed, x.Path, x.Keyword, x.Reason)
				}
			}
		}
		if r.Verdict == NotContained {
			continue
		}
		before, after := validator(t, old), validator(t, new)
		for range 60 {
			from := old
			if g.IntN(4) == 0 {
				from = new
			}
			obj := g.Object(from)
			if g.IntN(3) == 0 {
				g.Mutate(obj)
			}
			trials++
			if ok, _ := fine(t, before, obj); !ok {
				continue
			}
			accepted++
			ok, why := fine(t, after, obj)
			if strings.Contains(why, "rule compile error") {
				break // the API server does not accept such a schema
			}
			if ok && r.Verdict == Contained {
				for _, path := range appendLostPaths(storedOf(t, before, obj), storedOf(t, after, obj), "", nil) {
					defaults++
					if !slices.ContainsFunc(r.Gaps, func(g Gap) bool { return g.Harm == Redefaulted && g.Before != nil && isDefaultAt(&g, path) }) {
						t.Fatalf("seed %d: the default at %s is another one or none, and no gap says so: %s\nold:\n%s\nnew:\n%s", seed, path, show(obj), showSchema(old), showSchema(new))
					}
				}
			}
			if !ok && r.Verdict == Contained {
				t.Fatalf("seed %d: contained, but %s: %s\nold:\n%s\nnew:\n%s", seed, show(obj), why, showSchema(old), showSchema(new))
			} else if !ok {
				t.Logf("seed %d: missed %s: %s", seed, show(obj), why)
			}
		}
	}
	t.Logf("verdicts %v; %d objects, %d accepted by the old schema; %d other defaults", count, trials, accepted, defaults)
	if count[Contained] == 0 || count[NotContained] == 0 || accepted < trials/10 {
		t.Errorf("verdicts %v, %d of %d objects accepted: the test says little", count, accepted, trials)
	}
}
