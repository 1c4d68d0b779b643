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

func TestAnIdleSampleHasNoUse(t *testing.T) {
	for name, last := range map[string]feature.Step{
		"field": {Name: "x"}, "list": {Kind: feature.Items}, "set": {Kind: feature.Items, Set: true}, "keyed list": {Kind: feature.Items, Keys: []string{"name"}},
		"map": {Kind: feature.Entries}, "list or map": {Kind: feature.Each},
	} {
		target := feature.Target{Path: feature.Path{{Name: "spec"}, {Kind: feature.Items}, {Name: "params"}, last}}
		f := &feature.Feature{Targets: []feature.Target{target}}
		g := &group{units: []unit{{target: &target}}}
		for _, form := range []feature.StepKind{feature.Items, feature.Entries} {
			if object := g.idleSample([]int{0, 1}, form); f.UsedBy(object) {
				t.Errorf("%s: %v is used", name, object)
			}
			if object := g.sampleObject("n", []int{0, 1}, form, sampleLeaf); !f.UsedBy(object) {
				t.Errorf("%s: %v is not used", name, object)
			}
		}
	}
}
