package policy

import (
	"reflect"
	"testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

func TestASampleHasAUseInAListWithinAList(t *testing.T) {
	most := int64(10)
	target := &feature.Target{
		Path:   feature.Path{{Name: "rows"}, {Kind: feature.Each}, {Kind: feature.Each}},
		Beyond: &feature.Bounds{Bounds: v1alpha1.Bounds{Maximum: &most}},
	}
	object := map[string]any{}
	growSample(object, target, 0, "n", []int{0, 1}, sampleLeaf)
	if want := map[string]any{"rows": []any{[]any{most + 1}, []any{most + 1}}}; !reflect.DeepEqual(object, want) {
		t.Errorf("%v, want %v", object, want)
	}
}
