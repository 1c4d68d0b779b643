package contain

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema/upstream"
)

// told writes what there is to say about a gap, but for its witness.
func told(gaps []Gap) []string {
	harms := [...]string{Refused: "refused", Pruned: "pruned", Redefaulted: "redefaulted", RefusedTransition: "refused transition"}
	out := []string{}
	for _, g := range gaps {
		words := []string{g.Path.String(), g.Keyword, g.Detail, harms[g.Harm], g.Verdict.String()}
		out = append(out, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
	}
	slices.Sort(out)
	return out
}

func TestGaps(t *testing.T) {
	spec := func(s string) string { return "{type: object, properties: {spec: {" + s + "}}}" }
	for _, c := range []struct {
		name     string
		old, new string
		want     []string
	}{
		{
			"null is dropped, and then a required property is missing",
			"type: object, required: [a], properties: {a: {type: string, nullable: true}}", "type: object, required: [a], properties: {a: {type: string}}",
			[]string{".spec required a refused not contained", ".spec.a nullable pruned not contained"},
		},
		{
			"a default is removed",
			"type: object, properties: {a: {type: string, default: x}}", "type: object, properties: {a: {type: string}}",
			[]string{".spec.a default redefaulted not contained"},
		},
		{
			"a default spells out what is filled in below it",
			"type: object, properties: {a: {type: object, default: {}, properties: {x: {type: integer, default: 1}}}}",
			"type: object, properties: {a: {type: object, default: {x: 1}, properties: {x: {type: integer, default: 1}}}}",
			[]string{},
		},
		{
			"a pattern allows the values of an enum alone",
			`type: string, pattern: "^(foo|bar)$"`, "type: string, enum: [bar, foo]",
			[]string{},
		},
		{
			"a pattern allows one value more than an enum",
			`type: string, pattern: "^(foo|bar|b)$"`, "type: string, enum: [bar, foo]",
			[]string{".spec enum refused not contained"},
		},
		{
			"every integer is a multiple of 1",
			"type: integer", "type: integer, multipleOf: 1",
			[]string{},
		},
		{
			"an update rule is loosened",
			"type: string, x-kubernetes-validations: [{rule: self == oldSelf}]", "type: string, x-kubernetes-validations: [{rule: \"oldSelf == '' || oldSelf == self\"}]",
			[]string{},
		},
		{
			"an update rule is loosened for a field of another type",
			"type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: self.a == oldSelf.a}]",
			"type: object, properties: {a: {x-kubernetes-int-or-string: true}}, x-kubernetes-validations: [{rule: self.a == oldSelf.a || oldSelf.a == 'x'}]",
			[]string{".spec x-kubernetes-validations self.a == oldSelf.a || oldSelf.a == 'x' refused transition unknown"},
		},
		{
			"a comparison of two fields is loosened",
			"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [{rule: self.a < self.b}]",
			"type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [{rule: self.b >= self.a}]",
			[]string{},
		},
		{
			"a default is added",
			"type: object, properties: {a: {type: string}}", "type: object, properties: {a: {type: string, default: x}}",
			[]string{".spec.a default redefaulted not contained"},
		},
		{
			"a place without a type gets two, and a bound",
			"x-kubernetes-preserve-unknown-fields: true", "x-kubernetes-int-or-string: true, maximum: 5",
			[]string{
				".spec maximum refused not contained", ".spec type refused not contained",
				".spec.* properties pruned not contained", ".spec[*] additionalProperties pruned not contained",
			},
		},
		{
			"a property that becomes required is told apart from one whose name begins alike",
			"type: object, properties: {replicas: {type: integer}, replicasMax: {type: integer}}",
			"type: object, required: [replicas], properties: {replicas: {type: integer, maximum: 3}, replicasMax: {type: integer, maximum: 3}}",
			[]string{
				".spec required replicas refused not contained", ".spec.replicas maximum refused not contained",
				".spec.replicasMax maximum refused not contained",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(t.Context(), side(t, parseSchema(t, spec(c.old))), side(t, parseSchema(t, spec(c.new))), Options{Namespaced: true})
			if diff := cmp.Diff(c.want, told(r.Gaps)); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

// What stops the comparison early leaves it undecided, never contained.
func TestWhatIsCutShortIsUnknown(t *testing.T) {
	old := side(t, parseSchema(t, `{type: object, properties: {spec: {type: object, properties: {a: {type: object, properties: {b: {type: integer}}}}}}}`))
	new := side(t, parseSchema(t, `{type: object, properties: {spec: {type: object, properties: {a: {type: object, properties: {b: {type: integer, maximum: 3}}}}}}}`))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		o    Options
		want string // in the reason
	}{
		{"a context that is done", done, Options{}, "context canceled"},
		{"one unit of work", t.Context(), Options{Budget: 1}, "budget"},
		{"three units", t.Context(), Options{Budget: 3}, "budget"},
		{"fifty units", t.Context(), Options{Budget: 50}, "budget"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(c.ctx, old, new, c.o)
			if r.Verdict != Unknown || len(r.Gaps) == 0 {
				t.Fatalf("verdict %v with %+v, want unknown with a gap", r.Verdict, r.Gaps)
			}
			for _, g := range r.Gaps {
				if g.Verdict != Unknown || g.Reason == "" || !strings.Contains(g.Reason, c.want) {
					t.Errorf("gap %+v, want a reason that speaks of %q", g, c.want)
				}
			}
		})
	}
}

// A format is checked exactly where the API server of that version checks it.
func TestFormatsAgreeWithUpstream(t *testing.T) {
	names := []string{"date-time", "bsonobjectid", "k8s-short-name", "k8s-long-name", "int-or-string", "nothing", "int64", "Date"}
	for name := range formats {
		if name != "password" { // takes everything
			names = append(names, name)
		}
	}
	for minor := uint(28); minor <= 37; minor++ {
		o := Options{Namespaced: true, KubeVersion: version.MajorMinor(1, minor)}
		for _, name := range names {
			for _, typ := range []string{"string", ""} {
				p := parseSchema(t, `{type: object, properties: {spec: {x-kubernetes-preserve-unknown-fields: true, type: "`+typ+`", format: "`+name+`"}}}`)
				v, err := upstream.New(p, o.upstreamOptions(&Side{}))
				if err != nil {
					t.Fatal(err)
				}
				r, err := v.Create(t.Context(), resource(t, `{"spec": " %zz of no format"}`))
				if err != nil {
					t.Fatal(err)
				}
				node := side(t, p).Node.Property("spec")
				if checked := newTranslator(&o).effectiveFormat(node) != ""; checked != r.Refused() {
					t.Errorf("format %s of type %q under 1.%d: taken for checked: %t, refused: %t (%v)", name, typ, minor, checked, r.Refused(), r.Errors)
				}
			}
		}
	}
}
