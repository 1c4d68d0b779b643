package features

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

func TestWhatTwoComponentsGateIsToldOfBoth(t *testing.T) {
	w := &world{
		Cluster:    Cluster{Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))},
		components: cache.NewSharedIndexInformer(nil, &v1alpha1.Component{}, 0, cache.Indexers{}),
		features:   cache.NewSharedIndexInformer(nil, &v1alpha1.Feature{}, 0, cache.Indexers{byComponent: indexComponent}),
	}
	generation := int64(0)
	put := func(component, gate, field string) {
		t.Helper()
		generation++
		c := &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: component, UID: types.UID(component)}, Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}
		name := feature.ObjectName(component, gate)
		f := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: generation}, Spec: v1alpha1.FeatureSpec{
			Component: component, Gate: gate, Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "widgets", Field: field}},
		}}
		for s, o := range map[cache.Store]any{w.components.GetStore(): c, w.features.GetStore(): f} {
			if err := s.Add(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := &planner{world: w}
	widgets := gated{others: []feature.Resource{{Group: "demo.dev", Resource: "widgets", Versions: []feature.Version{{Name: "v1"}}}}}
	// told are the gates of which something is told, and who else is to look again.
	told := func(component string) (gates, neighbours []string) {
		t.Helper()
		out := &plan{component: w.componentCopy(component), features: w.featuresOf(component)}
		out.model, _ = feature.Define(out.component, out.features, feature.Options{Resources: widgets.others})
		r := p.rememberedOf(component)
		r.key = fmt.Sprint(out.features[0].Generation) // as define has it
		for _, x := range p.findShared(r, out, widgets) {
			if x.Code != feature.CodeShared || x.Severity != feature.Warning {
				t.Errorf("told %v", x)
			}
			gates = append(gates, x.Gate)
		}
		return gates, out.neighbours
	}
	for _, step := range []struct {
		name              string
		change            func()
		component         string
		gates, neighbours []string
	}{
		{"alone", func() { put("a", "One", "spec.x") }, "a", nil, nil},
		{"another gates something else", func() { put("b", "Two", "spec.y") }, "b", nil, nil},
		{"another gates the same", func() { put("c", "Three", "spec.x") }, "c", []string{"Three"}, []string{"a", "b"}},
		{"the first, which looks again", func() {}, "a", []string{"One"}, []string{"b", "c"}},
		{"nothing new", func() {}, "a", []string{"One"}, nil},
		{"nothing new for the other", func() {}, "c", []string{"Three"}, nil},
		{"the other gates something else now", func() { put("c", "Three", "spec.z") }, "c", nil, []string{"a", "b"}},
		{"the first again", func() {}, "a", nil, []string{"b", "c"}},
	} {
		step.change()
		gates, neighbours := told(step.component)
		slices.Sort(neighbours)
		if diff := cmp.Diff([][]string{step.gates, step.neighbours}, [][]string{gates, neighbours}); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}
