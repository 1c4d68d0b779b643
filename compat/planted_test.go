package compat

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"sluice.dev/tools/draws"
)

// plant puts the properties of an example below a field of the spec of every version.
func plant(t testing.TB, d *crd, field, example string) {
	t.Helper()
	fragment := map[string]props{}
	if err := yaml.UnmarshalStrict([]byte(example), &fragment); err != nil {
		t.Fatal(err)
	}
	for i := range d.Spec.Versions {
		root := d.Spec.Versions[i].Schema.OpenAPIV3Schema
		spec, declared := root.Properties["spec"]
		if !declared {
			spec.XPreserveUnknownFields = root.XPreserveUnknownFields
		}
		spec.Type, spec.Properties = "object", maps.Clone(spec.Properties)
		if root.Properties = maps.Clone(root.Properties); root.Properties == nil {
			root.Properties = map[string]props{}
		}
		if spec.Properties == nil {
			spec.Properties = map[string]props{}
		}
		spec.Properties[field] = props{Type: "object", Properties: fragment}
		root.Properties["spec"] = spec
	}
}

// planted checks the example of the rule about the CRD as a whole, with those of the others below fields of their own. It returns
// what is found, without texts.
func planted(t testing.TB, ground *Rule, seeds map[string]*Rule) map[string]bool {
	t.Helper()
	old, new, err := crdsOf(ground, ground.Unsafe)
	if err != nil {
		t.Fatal(err)
	}
	for field, r := range seeds {
		if old != nil {
			plant(t, old, field, r.Unsafe.Old)
		}
		if new != nil {
			plant(t, new, field, r.Unsafe.New)
		}
	}
	out := map[string]bool{}
	for _, f := range check(t, old, new).Findings {
		out[fmt.Sprint(f.Rule, " ", f.Version, " ", f.Path, " ", f.Outcome, " ", f.Level, " ", f.Severity)] = true
	}
	return out
}

// TestEveryRuleHasItsFinding plants the unsafe examples of all rules about schemas, several at once, in the CRDs of the example of
// a rule about the CRD as a whole, or in CRDs that are equal otherwise. What is found of all of them is what is found of each alone:
// its own rule, and nothing where nothing is planted.
func TestEveryRuleHasItsFinding(t *testing.T) {
	var seeds []*Rule
	still := Rule{ID: "none", Unsafe: Example{Old: "scope: Namespaced", New: "scope: Namespaced"}}
	grounds := []*Rule{&still}
	for _, r := range Rules() {
		switch {
		case r.ID == schemaChanged.ID: // nothing is decided of a whole schema that has a keyword of that kind
			if !planted(t, &still, map[string]*Rule{"f": &r})["schema-changed v1 .spec.f.labels undecided  fail"] {
				t.Errorf("%s is not found", r.ID)
			}
		case r.InSpec():
			seeds = append(seeds, &r)
		default:
			grounds = append(grounds, &r)
		}
	}
	for _, seed := range slices.AppendSeq([]uint64{2}, draws.Seeds(1)) { // 2 found something
		r := rand.New(rand.NewPCG(seed, 7))
		for i, ground := range grounds {
			alone := planted(t, ground, nil)
			if ground != &still && !slices.ContainsFunc(slices.Collect(maps.Keys(alone)), func(f string) bool { return strings.HasPrefix(f, ground.ID+" ") }) {
				t.Errorf("%s is not found: %v", ground.ID, alone)
			}
			order := r.Perm(len(seeds))
			if i > 0 { // without a ground every rule has its turn
				order = order[:3]
			}
			for some := range slices.Chunk(order, 1+r.IntN(8)) {
				want, all := maps.Clone(alone), map[string]*Rule{}
				for j, k := range some {
					field := fmt.Sprintf("f%d", j)
					one := map[string]*Rule{field: seeds[k]}
					maps.Copy(all, one)
					found := planted(t, ground, one)
					maps.Copy(want, found)
					for f := range found {
						if !alone[f] && ground == &still && !strings.Contains(f, " .spec."+field) {
							t.Errorf("%s: %s is found, and nothing is planted there", seeds[k].ID, f)
						}
					}
					if ground == &still && !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(f string) bool { return strings.HasPrefix(f, seeds[k].ID+" ") }) {
						t.Errorf("%s is not found: %v", seeds[k].ID, found)
					}
				}
				if got := planted(t, ground, all); !maps.Equal(got, want) {
					t.Errorf("%s with %v:\n got %v\nwant %v", ground.ID, slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
				}
			}
		}
	}
}
