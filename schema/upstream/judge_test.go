package upstream_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"sluice.dev/schema/upstream"
)

// TestJudgeAgreesWithItsParts holds Judge against the calls that it stands for, each through the API server's code.
func TestJudgeAgreesWithItsParts(t *testing.T) {
	refused, ratcheted, dropped := 0, 0, 0
	seeds(t, 2000, func(seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 5))}
		schema := g.root()
		o := widgets
		o.StatusSubresource = g.chance(50)
		obj := g.resource(schema, pick(g, 80, 95, 100))
		g.metadata(obj)
		exact, err := upstream.NewExact(schema, o)
		if err != nil {
			return
		}
		before := jsonCopy(obj)
		got, err := newValidator(t, schema, o).Judge(t.Context(), obj)
		if diff := cmp.Diff(before, any(obj)); diff != "" {
			t.Errorf("seed %d: the object was changed:\n%s", seed, diff)
		}
		served, pruned, defaulted, readErr := exact.Read(obj)
		if (err != nil) != (readErr != nil) {
			t.Fatalf("seed %d: error %v, reading says %v", seed, err, readErr)
		}
		if err != nil {
			return
		}
		strict, err := exact.TouchUpdate(t.Context(), obj, false)
		if err != nil {
			t.Fatal(err)
		}
		tolerant, err := exact.TouchUpdate(t.Context(), obj, true)
		if err != nil {
			t.Fatal(err)
		}
		want := upstream.Judgement{Dropped: pruned, Defaulted: defaulted, Strict: strict.Errors, Ratcheted: tolerant.Errors}
		want.Repeats = repeatsOf(t, schema, served)
		want.Changed = len(pruned) == 0 && !defaulted && !cmp.Equal(served, obj)
		texts := cmp.Transformer("texts", func(l field.ErrorList) []string {
			var out []string
			for _, e := range l {
				out = append(out, e.Error())
			}
			return out
		})
		emptyIsNil := cmp.Transformer("nil", func(s []string) string {
			out := ""
			for _, s := range s {
				out += s + "\n"
			}
			return out
		})
		if diff := cmp.Diff(want, got, texts, emptyIsNil); diff != "" {
			t.Errorf("seed %d: -parts +Judge:\n%s", seed, diff)
		}
		if len(got.Strict) > 0 {
			refused++
		}
		if len(got.Strict) > len(got.Ratcheted) {
			ratcheted++
		}
		if len(got.Dropped) > 0 {
			dropped++
		}
	})
	if refused < 20 || ratcheted < 10 || dropped < 10 {
		t.Errorf("%d refused, %d ratcheted, %d pruned: too few to tell", refused, ratcheted, dropped)
	}
}

// repeatsOf are the errors of the API server's own code about lists that hold an item twice.
func repeatsOf(t *testing.T, props *apiextensionsv1.JSONSchemaProps, obj map[string]any) field.ErrorList {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return listtype.ValidateListSetsAndMaps(nil, structural, obj)
}
