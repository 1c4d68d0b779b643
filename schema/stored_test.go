package schema_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/schema"
)

// literals writes random JSON values in the ways in which people and programs write them.
type literals struct{ *rand.Rand }

func (r literals) number() string {
	switch r.IntN(5) {
	case 0: // as given, with the edges of int64, of what a float64 counts, and of where encoding/json changes to exponents
		return []string{
			"0", "-0", "-0.0", "0e5", "1.0", "1.10", "1e2", "1E+2", "12e-1", "1.5e1", "1e20", "1e21", "123456789012345678901234567890", "1e-7", "1e308",
			"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9223372036854774784.0", "9223372036854775807.0",
			"9007199254740993", "9007199254740993.0", "1152921504606846976.0", "1152921504606846977", "18446744073709551615", "5e-324", "0.1e1", "100000000000000000000.0",
		}[r.IntN(29)]
	case 1:
		return strconv.FormatInt(int64(r.Uint64()), 10)
	case 2:
		return strconv.FormatInt(int64(r.Uint64()>>r.IntN(64)), 10) + ".0"
	case 3:
		return fmt.Sprintf("%d.%de%d", r.IntN(10), r.IntN(1000), r.IntN(24)-4)
	}
	return strconv.Itoa(r.IntN(20) - 10)
}

func (r literals) value(depth int) string {
	switch n := r.IntN(8); {
	case n < 2 && depth > 0:
		items := make([]string, r.IntN(4))
		for i := range items {
			items[i] = r.value(depth - 1)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case n < 4 && depth > 0:
		items := make([]string, r.IntN(4))
		for i := range items {
			items[i] = fmt.Sprintf("%q: %s", []string{"b", "a", "<", "c"}[r.IntN(4)], r.value(depth-1)) // some keys stand twice
		}
		return "{ " + strings.Join(items, ",") + " }"
	case n == 4:
		return []string{`"a<b"`, `"\u0041"`, `"\u00e9"`, `"é"`, `"\u003c"`, `"\/"`, `"1.0"`, `""`, `"\ud800"`, `"\u2028"`, "null", "true", "false"}[r.IntN(13)]
	}
	return r.number()
}

// TestLiteralsAreStoredAsUpstreamStoresThem holds literals against the conversion that the API server makes of each CRD before it stores it.
func TestLiteralsAreStoredAsUpstreamStoresThem(t *testing.T) {
	r, changed := literals{rand.New(rand.NewPCG(1, 2))}, 0
	for range 5000 {
		texts := []string{r.value(3), r.value(3), r.value(3), r.value(3)}
		given := crdWithLiterals(t, texts)
		var want []string
		for _, text := range texts {
			want = append(want, storedByUpstream(t, text))
		}
		before := literalsOf(given)
		got := literalsOf(schema.WithStoredLiterals(given))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-upstream +stored):\n%s", texts, diff)
		}
		if diff := cmp.Diff(before, literalsOf(given)); diff != "" {
			t.Fatalf("%s is changed:\n%s", texts, diff)
		}
		if cmp.Diff(before, got) != "" {
			changed++
		}
	}
	if changed < 1000 {
		t.Errorf("only %d CRDs have a literal that is stored in another form", changed)
	}
}

// crdWithLiterals has the texts as an enum, and as a default and an example within.
func crdWithLiterals(t *testing.T, texts []string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	literal := func(i int) apiextensionsv1.JSON {
		var j apiextensionsv1.JSON
		if err := j.UnmarshalJSON([]byte(texts[i])); err != nil {
			t.Fatal(err)
		}
		return j
	}
	deep := apiextensionsv1.JSONSchemaProps{Default: new(literal(2)), Example: new(literal(3))}
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1"},
		{Name: "v2", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Enum: []apiextensionsv1.JSON{literal(0), literal(1)},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Not: &deep}},
			}},
		}}},
	}}}
}

func literalsOf(crd *apiextensionsv1.CustomResourceDefinition) []string {
	root := crd.Spec.Versions[1].Schema.OpenAPIV3Schema
	deep := root.Properties["a"].Items.Schema.Not
	return []string{string(root.Enum[0].Raw), string(root.Enum[1].Raw), string(deep.Default.Raw), string(deep.Example.Raw)}
}

// storedByUpstream converts a literal to the internal type and back, as the API server does when it stores it and when it reads it again.
func storedByUpstream(t *testing.T, text string) string {
	t.Helper()
	for range 2 { // -0.0 is stored as -0, which is 0 from then on
		var in, out apiextensionsv1.JSON
		internal := apiextensions.JSON(nil)
		if err := in.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := apiextensionsv1.Convert_v1_JSON_To_apiextensions_JSON(&in, &internal, nil); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := apiextensionsv1.Convert_apiextensions_JSON_To_v1_JSON(&internal, &out, nil); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		text = string(out.Raw)
	}
	return text
}

func TestWithStoredLiteralsLeavesWhatItCannotRead(t *testing.T) {
	crd := crdWithLiterals(t, []string{"1", `"a"`, "{}", "null"})
	if got := schema.WithStoredLiterals(crd); got != crd {
		t.Error("a CRD whose literals are as stored is copied")
	}
	crd = crdWithLiterals(t, []string{"1e400", "1.0", "nonsense", "2.0"})
	if diff := cmp.Diff([]string{"1e400", "1", "nonsense", "2"}, literalsOf(schema.WithStoredLiterals(crd))); diff != "" {
		t.Error(diff)
	}
	if schema.WithStoredLiterals(nil) != nil {
		t.Error("nil became a CRD")
	}
}
