package compat

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"sluice.dev/report"
	"sluice.dev/tools/draws"
)

// topFieldsOf are the top-level fields of a fragment.
func topFieldsOf(t *testing.T, fragment string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(fragment), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// crdOfTwoExamples is a CRD with one fragment of each of two rules; nil if both say something about the same part of the CRD.
func crdOfTwoExamples(t *testing.T, a, b *Rule, ofA, ofB string) *crd {
	t.Helper()
	if ofA == "" || ofB == "" {
		return nil
	}
	around := func(fields map[string]any, inSpec bool) *crd {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ExampleCRD(string(text), inSpec)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	object := func(fragment string) map[string]any {
		return map[string]any{"type": "object", "properties": topFieldsOf(t, fragment)}
	}
	switch {
	case a.InSpec() && b.InSpec():
		return around(map[string]any{"left": object(ofA), "right": object(ofB)}, true)
	case b.InSpec():
		return crdOfTwoExamples(t, b, a, ofB, ofA)
	case a.InSpec():
		d := around(topFieldsOf(t, ofB), false)
		text, err := json.Marshal(object(ofA))
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Spec.Versions {
			if d.Spec.Versions[i].Schema == nil || d.Spec.Versions[i].Schema.OpenAPIV3Schema == nil {
				return nil
			}
			var p props
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatal(err)
			}
			root := d.Spec.Versions[i].Schema.OpenAPIV3Schema
			root.Properties = maps.Clone(root.Properties)
			if root.Properties == nil {
				root.Properties = map[string]props{}
			}
			root.Properties["beside"] = p
		}
		return d
	}
	both := topFieldsOf(t, ofA)
	for name, value := range topFieldsOf(t, ofB) {
		if _, taken := both[name]; taken {
			return nil
		}
		both[name] = value
	}
	return around(both, false)
}

// levelRank orders levels from the mildest on; findings without a level come first.
func levelRank(l report.Level) int {
	all := report.Levels()
	i := slices.IndexFunc(all, func(x report.LevelInfo) bool { return x.ID == l })
	if i < 0 {
		return 0
	}
	return len(all) - i
}

// mends are the examples whose new CRD ends what harmed the objects of the other example, or made the API server refuse the update: the old CRD is
// itself refused, or keeps unknown fields, so that no object around one counts as unchanged.
var mends = []string{"old-crd-invalid", "preserve-unknown-fields-disabled"}

// TestExamplesTogether makes one update of the examples of each two rules. What a part of the update fails by alone, the whole fails by as well, at
// no milder level: no change hides another one.
func TestExamplesTogether(t *testing.T) {
	rules := Rules()
	made, skipped := 0, 0
	for i := range rules {
		for j := range i {
			if pair := i*len(rules) + j; !draws.All() && (pair%3 != 0 || !draws.Takes(pair/3)) {
				continue
			}
			a, b := &rules[i], &rules[j]
			start := crdOfTwoExamples(t, a, b, a.Unsafe.Old, b.Unsafe.Old)
			ends := []*crd{
				crdOfTwoExamples(t, a, b, a.Unsafe.New, b.Unsafe.Old), crdOfTwoExamples(t, a, b, a.Unsafe.Old, b.Unsafe.New), crdOfTwoExamples(t, a, b, a.Unsafe.New, b.Unsafe.New),
			}
			if start == nil || slices.Contains(mends, a.ID) || slices.Contains(mends, b.ID) || slices.Contains(ends, nil) {
				skipped++
				continue
			}
			made++
			whole := check(t, start, ends[2])
			refused := slices.ContainsFunc(whole.Findings, func(f report.Finding) bool { return f.Level == report.RefusedByAPIServer && f.Severity == report.Fail })
			for part, end := range ends[:2] {
				for _, f := range check(t, start, end).Findings {
					if f.Severity != report.Fail && f.Severity != report.Warn || refused {
						continue
					}
					if !slices.ContainsFunc(whole.Findings, func(g report.Finding) bool {
						return g.Rule == f.Rule && (g.Outcome == report.Undecided || max(levelRank(g.Level), levelRank(g.MayBe)) >= levelRank(f.Level))
					}) {
						t.Errorf("%s with %s: the part %d alone has %s at level %q (%s), and the whole does not: %v", a.ID, b.ID, part, f.Rule, f.Level, f.Message, ruleIDs(whole.Findings))
					}
				}
			}
		}
	}
	t.Logf("%d updates of two examples, %d pairs cannot be composed", made, skipped)
	if made < 50 {
		t.Error("too few to tell")
	}
}
