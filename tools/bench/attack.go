package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
	"sluice.dev/tools/schemagen"
)

// attack tries generated and mutated objects on schemas that the prover called contained. If the API server accepts an object under
// the old schema, it must accept it and keep all of it under the new one.
type attack struct {
	trials int // wanted in all

	done, accepted, contained, escapes int
	examples                           []string
}

// pair attacks each version that both sides of a pair have, with its share of the trials.
func (a *attack) pair(ctx context.Context, p pair, index, of int) error {
	share := a.trials / of
	for _, ov := range p.old.Spec.Versions {
		for _, nv := range p.new.Spec.Versions {
			if ov.Name != nv.Name || ov.Schema == nil || nv.Schema == nil {
				continue
			}
			err := a.schemas(ctx, p.id+" "+ov.Name, ov.Schema.OpenAPIV3Schema, nv.Schema.OpenAPIV3Schema, uint64(index), share+1)
			if err != nil {
				return fmt.Errorf("%s: %w", p.id, err)
			}
		}
	}
	return nil
}

// schemas attacks one pair of schemas if it is contained.
func (a *attack) schemas(ctx context.Context, id string, before, after *apiextensionsv1.JSONSchemaProps, seed uint64, trials int) error {
	old, err := contain.NewSide(before)
	if err != nil {
		return err
	}
	next, err := contain.NewSide(after)
	if err != nil {
		return err
	}
	if contain.Decide(ctx, old, next, contain.Options{}).Verdict != contain.Contained {
		return nil
	}
	a.contained++
	opts := upstream.Options{Group: "example.com", Version: "v1", Kind: "Example", Namespaced: true}
	v, err := upstream.New(before, opts)
	if err != nil {
		return err
	}
	w, err := upstream.New(after, opts)
	if err != nil {
		return err
	}
	g := schemagen.New(seed)
	for range trials {
		from := before
		if g.IntN(4) == 0 {
			from = after
		}
		obj := g.Object(from)
		if g.IntN(3) == 0 {
			g.Mutate(obj)
		}
		a.done++
		stored, ok := takes(ctx, v, obj)
		if !ok {
			continue
		}
		a.accepted++
		why := refuses(ctx, w, stored)
		if strings.Contains(why, "rule compile error") {
			return nil // the API server does not accept such a schema
		}
		if why != "" {
			a.escapes++
			if len(a.examples) < 10 {
				b, _ := json.Marshal(stored)
				a.examples = append(a.examples, fmt.Sprintf("%s: %s: %.500s", id, why, b))
			}
		}
	}
	return nil
}

// takes returns the object after pruning under a schema that accepts it, before defaulting.
func takes(ctx context.Context, v *upstream.Validator, obj map[string]any) (map[string]any, bool) {
	r, err := v.Create(ctx, obj)
	if err != nil || r.Refused() {
		return nil, false
	}
	kept, _ := common(obj, r.Stored).(map[string]any)
	return kept, true
}

// common returns the part of a that is in b as well.
func common(a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		m, _ := b.(map[string]any)
		out := map[string]any{}
		for k, x := range a {
			if y, ok := m[k]; ok && (x != nil || y == nil) {
				out[k] = common(x, y)
			}
		}
		return out
	case []any:
		s, _ := b.([]any)
		out := make([]any, 0, len(a))
		for i, x := range a {
			if i < len(s) {
				out = append(out, common(x, s[i]))
			}
		}
		return out
	}
	return a
}

// refuses returns the schema's reason to refuse the object; empty if it accepts it.
func refuses(ctx context.Context, v *upstream.Validator, obj map[string]any) string {
	r, err := v.Create(ctx, obj)
	switch {
	case err != nil:
		return err.Error()
	case r.Refused():
		return r.Errors[0].Error()
	case !reflect.DeepEqual(common(obj, r.Stored), any(obj)):
		return "prunes " + strings.Join(r.Pruned, ", ")
	}
	return ""
}

func (a *attack) print(c *config) {
	c.table(
		[]string{"attack on what is called contained", ""},
		[]string{"schemas contained", fmt.Sprint(a.contained)},
		[]string{"objects tried", fmt.Sprint(a.done)},
		[]string{"accepted by the old schema", fmt.Sprint(a.accepted)},
		[]string{"refused or pruned by the new one (escapes)", fmt.Sprint(a.escapes)},
	)
	for _, e := range a.examples {
		fmt.Fprintln(c.out, "   ESCAPE", e)
	}
}

// generatedTruth does the same with generated schemas.
func generatedTruth(ctx context.Context, c *config) error {
	a := &attack{}
	verdicts := map[contain.Verdict]int{}
	seeds, each := 6000, max(1, c.trials/6000/2)
	for seed := range uint64(seeds) {
		if err := ctx.Err(); err != nil {
			return err
		}
		g := schemagen.New(seed + 7_000_000)
		g.Rules = seed%2 == 0
		before := g.Schema()
		after := g.Change(before)
		old, err := contain.NewSide(before)
		if err != nil {
			return err
		}
		next, err := contain.NewSide(after)
		if err != nil {
			return err
		}
		r := contain.Decide(ctx, old, next, contain.Options{})
		verdicts[r.Verdict]++
		for _, gap := range r.Gaps {
			if gap.Verdict == contain.NotContained && gap.Witness == nil {
				return fmt.Errorf("seed %d: a gap without a witness", seed)
			}
		}
		if err := a.schemas(ctx, fmt.Sprint("seed ", seed), before, after, seed, each); err != nil {
			return err
		}
	}
	c.table(
		[]string{"verdict", "pairs", ""},
		[]string{"contained", fmt.Sprint(verdicts[contain.Contained]), percent(verdicts[contain.Contained], seeds)},
		[]string{"not contained, witness confirmed", fmt.Sprint(verdicts[contain.NotContained]), percent(verdicts[contain.NotContained], seeds)},
		[]string{"unknown", fmt.Sprint(verdicts[contain.Unknown]), percent(verdicts[contain.Unknown], seeds)},
	)
	fmt.Fprintln(c.out)
	a.print(c)
	return nil
}
