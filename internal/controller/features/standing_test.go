package features

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/skew"
)

const standingComponent = `
metadata: {name: demo}
spec: {release: v1.0.0, mode: Baked, configMap: {namespace: demo, name: flags}}
`

// standingFeatures share a policy.
const standingFeatures = `
- {component: demo, gate: A, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: B, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`

// TestWhatStandsIsTold has policies that are stored for some settings while others are wanted.
func TestWhatStandsIsTold(t *testing.T) {
	m := movesModel(t, standingComponent, standingFeatures)
	type settings = map[string]string
	const name = "features.demo.widgets.demo.dev.reject.v1"
	policyName, bindingName := "ValidatingAdmissionPolicy "+name, "ValidatingAdmissionPolicyBinding "+name
	no := errors.New("not allowed")
	closed, open := settings{}, settings{"a": "true", "b": "true"}
	for _, tt := range []struct {
		name         string
		stored, want settings // stored nil: nothing is
		without      string   // a resource of which nothing is stored
		done         outcome
		enforced     string // of A and B: True, False, or nothing
		skewed       string // the gates of which something else is enforced
	}{
		{name: "as it is wanted", stored: closed, want: closed, enforced: "True True"},
		{name: "about to be deleted", stored: closed, want: open, enforced: "True True"},
		{name: "not deleted", stored: closed, want: open, done: outcome{failed: map[string]error{policyName: no, bindingName: no}}, enforced: "False False", skewed: "A B"},
		{name: "its binding is deleted", stored: closed, want: open, done: outcome{
			failed: map[string]error{policyName: no}, removed: map[string]bool{validatingBindings + "/" + name: true},
		}, enforced: "True True"},
		{name: "not changed", stored: closed, want: settings{"a": "true"}, done: outcome{failed: map[string]error{name: no}}, enforced: "False False", skewed: "A"},
		{name: "nothing added", stored: settings{"a": "true"}, want: closed, done: outcome{failed: map[string]error{name: no}}, enforced: "False False", skewed: "A"},
		{name: "not made", want: closed, done: outcome{failed: map[string]error{name: no}}, enforced: "False False", skewed: "A B"},
		{name: "not made, as there are no settings", want: closed, done: outcome{failed: map[string]error{name: no}, settings: no}, enforced: "False False"},
		{name: "without its binding", stored: closed, without: validatingBindings, want: closed, done: outcome{failed: map[string]error{name: no}}, enforced: "False False", skewed: "A B"},
		{name: "frozen", stored: closed, want: settings{"a": "true"}, done: outcome{frozen: map[string]bool{name: true}}, enforced: "False False", skewed: "A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parse := func(data settings) *plan {
				s, findings := m.ParseSettings(data)
				if err := findings.Err(); err != nil {
					t.Fatal(err)
				}
				return planOf(t, m, s, newServer)
			}
			s := &session{
				Controller: &Controller{Cluster: Cluster{Clock: clocktesting.NewFakeClock(metav1.Now().Time)}}, planner: &planner{},
				stores: map[string]cache.SharedIndexInformer{}, applied: map[string]applied{},
			}
			for resource, of := range (&session{server: newServer}).kinds() {
				i := cache.NewSharedIndexInformer(&cache.ListWatch{}, of, 0, cache.Indexers{byComponent: func(any) ([]string, error) { return []string{"demo"}, nil }})
				s.stores[resource] = i
			}
			if tt.stored != nil {
				for _, o := range parse(tt.stored).set.Objects() {
					o, err := managed(o)
					if err != nil {
						t.Fatal(err)
					}
					if resourceOf(o) == tt.without {
						continue
					}
					if err := s.stores[resourceOf(o)].GetIndexer().Add(o); err != nil {
						t.Fatal(err)
					}
				}
			}
			p := parse(tt.want)
			s.observe(p, &tt.done)
			var enforced []string
			enforcers := p.enforcers()
			for i := range p.features {
				f := &p.features[i]
				status, reason, message := enforcedBy(f, enforcers[f.Spec.Gate], &tt.done)
				enforced = append(enforced, string(status))
				if status == metav1.ConditionFalse && (reason != v1alpha1.ReasonNotEnforced || message == "") {
					t.Errorf("%s: %s: %q", f.Spec.Gate, reason, message)
				}
			}
			if diff := cmp.Diff(tt.enforced, strings.Join(enforced, " ")); diff != "" {
				t.Error(diff)
			}
			var skewed []string
			result := skew.Judge(&skew.Input{Now: s.Clock.Now(), Model: m, Settings: p.settings, Enforced: p.enforcement(&tt.done)})
			for gate, c := range result.Features {
				if c.Reason == v1alpha1.ReasonEnforcementDiffers {
					skewed = append(skewed, gate)
				}
			}
			slices.Sort(skewed)
			if diff := cmp.Diff(tt.skewed, strings.Join(skewed, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestObjectsThatWereWatchedAreNamed: what comes out of a watch does not say its kind.
func TestObjectsThatWereWatchedAreNamed(t *testing.T) {
	for _, o := range movesPlan(t, newServer).set.Objects() {
		want := nameOf(o)
		o = o.DeepCopyObject()
		m, err := meta.TypeAccessor(o)
		if err != nil {
			t.Fatal(err)
		}
		m.SetKind("")
		if got := nameOf(o); got != want || strings.HasPrefix(got, " ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
