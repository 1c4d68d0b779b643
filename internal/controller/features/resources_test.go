package features

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	fakeextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	coretesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// A kind whose CRD goes is gone, although discovery has it a while longer; one that an aggregated API server has then is there.
func TestWhatDiscoveryHasOfACRDThatGoesIsNoKindWithoutACRD(t *testing.T) {
	const name = "widgets.demo.dev"
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(movesCRD), crd); err != nil {
		t.Fatal(err)
	}
	c := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	served := &fakediscovery.FakeDiscovery{Fake: &coretesting.Fake{}}
	served.Resources = []*metav1.APIResourceList{{GroupVersion: "demo.dev/v1", APIResources: []metav1.APIResource{{Name: "widgets"}, {Name: "gadgets"}}}}
	w := &world{
		Cluster: Cluster{Clock: c, CRDs: fakeextensions.NewClientset(crd)},
		crds:    cache.NewSharedIndexInformer(nil, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{}), builtIns: &builtIns{discovery: served, clock: c},
		components: cache.NewSharedIndexInformer(nil, &v1alpha1.Component{}, 0, cache.Indexers{}),
	}
	p := &planner{world: w}
	part := func(resource string) v1alpha1.Feature {
		return v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: resource, Field: "spec.refused"}}}}
	}
	store := w.crds.GetStore()
	put := func(generation int64, going bool) {
		t.Helper()
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("1"), Generation: generation}}
		if going {
			m.DeletionTimestamp = new(metav1.NewTime(c.Now()))
		}
		if err := store.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	type seen struct {
		CRDs, Others int
		Missing      bool
		Again        time.Duration
	}
	wants := func(what string, want seen) {
		t.Helper()
		// Another kind of the group, which no CRD defines, has discovery asked for both.
		if _, err := p.readResources(t.Context(), []v1alpha1.Feature{part("gadgets")}); err != nil {
			t.Fatal(err)
		}
		g, err := p.readResources(t.Context(), []v1alpha1.Feature{part("widgets")})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, seen{len(g.crds), len(g.others), g.missing != nil, g.untilReread()}); d != "" {
			t.Errorf("%s: -want +got\n%s", what, d)
		}
		// A feature of what is missing is bad, so that what enforces it stays: it is not one of a kind without versions.
		out := &plan{component: &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}}
		f := part("widgets")
		f.Name, f.Spec.Component, f.Spec.Gate = feature.ObjectName("demo", "A"), "demo", "A"
		f.Spec.Stages = []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}}
		out.features = []v1alpha1.Feature{f}
		if err := p.defineModel(t.Context(), &remembered{}, out); err != nil {
			t.Fatal(err)
		}
		unknown := slices.ContainsFunc(out.definition, func(f feature.Finding) bool { return f.Code == feature.CodeUnknownResource })
		if unknown != want.Missing || out.isLeftOut("A") != want.Missing {
			t.Errorf("%s: left out: %t; %v", what, out.isLeftOut("A"), out.definition)
		}
	}
	put(1, false)
	wants("it is there", seen{CRDs: 1})
	put(2, true)
	wants("it is being deleted", seen{Missing: true, Again: lookSoon})
	c.Step(time.Hour)
	wants("it is still being deleted", seen{Missing: true, Again: lookSoon})
	if err := store.Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	wants("it is gone, and discovery has it", seen{Missing: true, Again: lookSoon})
	served.Resources[0].APIResources = served.Resources[0].APIResources[1:]
	c.Step(lookSoon)
	wants("discovery has caught up", seen{Missing: true, Again: lookSoon})
	put(1, false)
	wants("it is back", seen{CRDs: 1})
	if err := store.Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	wants("it is gone at once", seen{Missing: true, Again: lookSoon})
	served.Resources[0].APIResources = []metav1.APIResource{{Name: "widgets"}}
	c.Step(lookSoon)
	wants("another API server has it", seen{Others: 1, Again: lookAgain})
	c.Step(lookSoon + lookAgain)
	wants("another API server still has it", seen{Others: 1, Again: lookAgain})
	if len(p.gone)+len(p.crd) != 0 {
		t.Errorf("it is still known of CRDs that are gone: %v, %v", p.gone, p.crd)
	}
}

// CRDs come and go for as long as the process runs, and components too.
func TestWhatIsKnownOfDeletedCRDsAndComponentsIsBounded(t *testing.T) {
	c := testclock.NewFakeClock(time.Now())
	w := &world{Cluster: Cluster{Clock: c}, crds: cache.NewSharedIndexInformer(nil, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})}
	s := &session{Controller: &Controller{Cluster: w.Cluster}, planner: &planner{world: w, crd: map[string]*knownCRD{}}, written: map[string]time.Time{}}
	for i := range 1000 {
		s.crd[fmt.Sprint(i)] = &knownCRD{}
		s.recordWrite(fmt.Sprint(i))
		s.dropDeletedCRDs()
		c.Step(lookAgain)
	}
	if len(s.crd) != 0 || len(s.gone) > 3 || len(s.written) > 1 {
		t.Errorf("%d CRDs, %d that are gone, %d writes", len(s.crd), len(s.gone), len(s.written))
	}
}

// The API server converts between the versions of a kind that no CRD defines: a part of such a kind that names no version stays open, and
// is not said to be enforced.
func TestAKindOfTheAPIServerWithSeveralVersionsIsConverted(t *testing.T) {
	c := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	served := &fakediscovery.FakeDiscovery{Fake: &coretesting.Fake{}}
	for _, version := range []string{"v1", "v2"} {
		served.Resources = append(served.Resources, &metav1.APIResourceList{
			GroupVersion: "autoscaling/" + version, APIResources: []metav1.APIResource{{Name: "horizontalpodautoscalers"}},
		})
	}
	served.Resources = append(served.Resources, &metav1.APIResourceList{GroupVersion: "policy/v1", APIResources: []metav1.APIResource{{Name: "poddisruptionbudgets"}}})
	w := &world{
		Cluster: Cluster{Clock: c, CRDs: fakeextensions.NewClientset()},
		crds:    cache.NewSharedIndexInformer(nil, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{}), builtIns: &builtIns{discovery: served, clock: c},
		components: cache.NewSharedIndexInformer(nil, &v1alpha1.Component{}, 0, cache.Indexers{}),
	}
	p := &planner{world: w}
	for _, tt := range []struct {
		part v1alpha1.Part
		open bool
	}{
		{part: v1alpha1.Part{Group: "autoscaling", Resource: "horizontalpodautoscalers", Field: "spec.metrics"}, open: true},
		{part: v1alpha1.Part{Group: "autoscaling", Resource: "horizontalpodautoscalers", Versions: []string{"v2"}, Field: "spec.metrics"}},
		{part: v1alpha1.Part{Group: "policy", Resource: "poddisruptionbudgets", Field: "spec.maxUnavailable"}},
	} {
		f := v1alpha1.Feature{Spec: v1alpha1.FeatureSpec{
			Component: "demo", Gate: "A", Parts: []v1alpha1.Part{tt.part}, Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
		}}
		f.Name = feature.ObjectName("demo", "A")
		out := &plan{component: &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}, features: []v1alpha1.Feature{f}}
		if err := p.defineModel(t.Context(), &remembered{}, out); err != nil {
			t.Fatal(err)
		}
		open := slices.ContainsFunc(out.definition, func(f feature.Finding) bool { return f.Code == feature.CodeOpenVersion })
		status, _, message := enforcedBy(&f, []v1alpha1.Enforcer{{Group: tt.part.Group, Resource: tt.part.Resource, Kind: "ValidatingAdmissionPolicy", Name: "p"}}, &outcome{}, out.definition)
		if open != tt.open || (status == metav1.ConditionFalse) != tt.open {
			t.Errorf("%s: %v; %s: %s", tt.part.Resource, out.definition, status, message)
		}
	}
}
