package contain

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// A witness of which the API server's own code says something else counts as none, and its gap is undecided.
func TestTheLastWordIsThatOfTheAPIServersCode(t *testing.T) {
	side := func(rule string, most int64) Side {
		p := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Type: "string", MaxLength: &most}},
				XValidations: apiextensionsv1.ValidationRules{{Rule: rule}},
			},
		}}
		n, err := schema.New(p)
		if err != nil {
			t.Fatal(err)
		}
		return Side{Node: n, Props: p}
	}
	old, new := side("true", 10), side("self.a != 'x'", 5)
	for name, c := range map[string]struct {
		a    string
		gap  Gap
		want Verdict
		work int64
	}{
		"a string that is too long": {a: "123456", gap: Gap{Keyword: "maxLength", Harm: Refused, Path: Path{{Field, "spec"}, {Field, "a"}}, Rule: -1}, want: NotContained},
		"a string that is not":      {a: "12345", gap: Gap{Keyword: "maxLength", Harm: Refused, Path: Path{{Field, "spec"}, {Field, "a"}}, Rule: -1}, want: Unknown},
		"a rule that refuses":       {a: "x", gap: Gap{Keyword: keywordRules, Detail: "self.a != 'x'", Harm: Refused, Path: Path{{Field, "spec"}}}, want: NotContained},
		"a rule that does not":      {a: "y", gap: Gap{Keyword: keywordRules, Detail: "self.a != 'x'", Harm: Refused, Path: Path{{Field, "spec"}}}, want: Unknown},
		"no budget for it":          {a: "12345", gap: Gap{Keyword: "maxLength", Harm: Refused, Path: Path{{Field, "spec"}, {Field, "a"}}, Rule: -1}, want: NotContained, work: 10},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Options{Work: NewWork(1_000_000)}
			if c.work > 0 {
				o.Work = NewWork(c.work)
			}
			s := newComparison(old, new, o)
			p := &pending{suspect: &suspect{gap: c.gap}}
			p.setWitness(&Witness{Object: map[string]any{
				"apiVersion": o.apiVersion(), "kind": o.kindOrDefault(), "metadata": map[string]any{"name": "example"}, "spec": map[string]any{"a": c.a},
			}})
			s.lastWord(t.Context(), []*pending{p})
			if got := p.gap.Verdict; got != c.want || (p.gap.Witness != nil) != (c.want == NotContained) {
				t.Errorf("%s with witness %v, want %s (%s)", got, p.gap.Witness, c.want, p.reason)
			}
		})
	}
}
