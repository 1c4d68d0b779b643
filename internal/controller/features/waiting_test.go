package features

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	fakeextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	coretesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/policy"
)

// TestAPartOfACRDThatGoesWaits: the other part stays in the model. The model of the webhook keeps both, for when the CRD comes back.
func TestAPartOfACRDThatGoesWaits(t *testing.T) {
	for sticky, want := range map[bool]int{false: 1, true: 2} {
		var crds [2]apiextensionsv1.CustomResourceDefinition
		for i, plural := range []string{"widgets", "gadgets"} {
			if err := yaml.Unmarshal([]byte(movesCRD), &crds[i]); err != nil {
				t.Fatal(err)
			}
			crds[i].Name, crds[i].Spec.Names.Plural = plural+".demo.dev", plural
		}
		c := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		p := &planner{sticky: sticky, world: &world{
			Cluster:    Cluster{Clock: c, CRDs: fakeextensions.NewClientset(&crds[0], &crds[1])},
			crds:       cache.NewSharedIndexInformer(nil, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{}),
			builtIns:   &builtIns{discovery: &fakediscovery.FakeDiscovery{Fake: &coretesting.Fake{}}, clock: c},
			components: cache.NewSharedIndexInformer(nil, &v1alpha1.Component{}, 0, cache.Indexers{}),
		}}
		f := v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: feature.ObjectName("demo", "A")}, Spec: v1alpha1.FeatureSpec{
			Component: "demo", Gate: "A", Stages: []v1alpha1.FeatureStage{{Stage: v1alpha1.Alpha, Release: "v1.0.0"}},
			Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "widgets", Field: "spec.refused"}, {Group: "demo.dev", Resource: "gadgets", Field: "spec.refused"}},
		}}
		r := &remembered{}
		define := func() *plan {
			t.Helper()
			out := &plan{component: &v1alpha1.Component{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: v1alpha1.ComponentSpec{Release: "v1.0.0"}}, features: []v1alpha1.Feature{f}}
			if err := p.defineModel(t.Context(), r, out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		put := func(plural string) {
			t.Helper()
			if err := p.crds.GetStore().Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: plural + ".demo.dev", Generation: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, targets int, waits bool) {
			t.Helper()
			out := define()
			m := out.model.Feature("A")
			if m == nil || len(m.Targets) != targets || (out.waits("A") != "") != waits || out.definition.Err() != nil {
				t.Errorf("sticky is %t: %s: %+v, %v", sticky, what, m, out.definition)
			}
		}
		put("widgets")
		check("one was never there", 1, true)
		put("gadgets")
		check("both are there", 2, false)
		if err := p.crds.GetStore().Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "gadgets.demo.dev"}}); err != nil {
			t.Fatal(err)
		}
		check("one is gone", want, !sticky)
		put("gadgets")
		check("it is back", 2, false)
	}
}

// TestPoliciesOfWhatIsGoneStay: of a resource or a version that is gone, as long as a feature names it.
func TestPoliciesOfWhatIsGoneStay(t *testing.T) {
	p := &plan{
		gated: gated{missing: []string{"gadgets.demo.dev"}},
		model: modelOf(t, movesComponent, "[{component: demo, gate: A, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}]", movesCRD),
		features: []v1alpha1.Feature{{Spec: v1alpha1.FeatureSpec{Gate: "A", Parts: []v1alpha1.Part{
			{Group: "demo.dev", Resource: "gadgets", Field: "spec.refused"}, {Group: "demo.dev", Resource: "widgets", Versions: []string{"v1", "v2"}, Field: "spec.refused"},
		}}}},
	}
	for _, tt := range []struct {
		name, resource, version, gates string
		want                           bool
	}{
		{"the resource is gone", "gadgets", "v1", "A", true},
		{"its replicas", "gadgets/scale", "v1", "A", true},
		{"one of several gates names it", "gadgets", "v1", "B,A", true},
		{"no feature names it any more", "gadgets", "v1", "B", false},
		{"the version is gone", "widgets", "v2", "A", true},
		{"a version that no feature names is gone", "widgets", "v3", "A", false},
		{"both are there", "widgets", "v1", "A", false},
		{"a resource of nobody", "others", "v1", "A", false},
		{"a policy of no gate", "gadgets", "v1", "", false},
	} {
		o := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{policy.GatesAnnotation: tt.gates}},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: ruleFor("demo.dev", []string{tt.version}, []string{tt.resource}, admissionregistrationv1.AllScopes)}},
			}},
		}
		if got := p.waitsForResource(o); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestWebhooksOfWhatIsGoneStay: with the rules for what is gone alone, and they do not change again.
func TestWebhooksOfWhatIsGoneStay(t *testing.T) {
	rule := func(resource string) admissionregistrationv1.RuleWithOperations {
		return ruleFor("demo.dev", []string{"v1"}, []string{resource}, admissionregistrationv1.AllScopes)
	}
	condition := []admissionregistrationv1.MatchCondition{{Name: "uses-a-part", Expression: "true"}}
	stored := &hookSet{
		validating: []hook{
			{Name: "demo.reject" + hookSuffix, Rules: []admissionregistrationv1.RuleWithOperations{rule("gadgets"), rule("widgets"), rule("others")}, MatchConditions: condition},
			{Name: "demo.warn" + hookSuffix, Rules: []admissionregistrationv1.RuleWithOperations{rule("others")}},
		},
		mutating: []hook{{Name: "demo.drop" + hookSuffix, Rules: []admissionregistrationv1.RuleWithOperations{rule("gadgets")}, MatchConditions: condition}},
	}
	gone := func(group, resource string) bool { return group == "demo.dev" && resource == "gadgets" }
	for range 2 {
		want := &hookSet{validating: []hook{{Name: "demo.reject" + hookSuffix, Rules: []admissionregistrationv1.RuleWithOperations{rule("widgets")}, MatchConditions: condition}}}
		want.keepStored(stored.only(gone))
		if diff := cmp.Diff([]admissionregistrationv1.RuleWithOperations{rule("widgets"), rule("gadgets")}, want.validating[0].Rules); diff != "" || len(want.validating) != 1 {
			t.Errorf("%d webhooks, %s", len(want.validating), diff)
		}
		if want.validating[0].MatchConditions != nil {
			t.Error("a condition about widgets leaves out gadgets")
		}
		if !slices.ContainsFunc(want.mutating, func(w hook) bool { return w.Name == "demo.drop"+hookSuffix }) || len(want.mutating) != 1 {
			t.Errorf("the webhooks that drop are %v", want.mutating)
		}
		stored = want
	}
}
