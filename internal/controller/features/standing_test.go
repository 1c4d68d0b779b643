package features

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"sluice.dev/api/v1alpha1"
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
			s := standingSession(t)
			if tt.stored != nil {
				s.stand(t, parse(tt.stored), tt.without)
			}
			p := parse(tt.want)
			s.observeStanding(p, &tt.done)
			var enforced []string
			enforcers := p.enforcersByGate()
			for i := range p.features {
				f := &p.features[i]
				status, reason, message := enforcedBy(f, enforcers[f.Spec.Gate], &tt.done, nil)
				enforced = append(enforced, string(status))
				if status == metav1.ConditionFalse && (reason != v1alpha1.ReasonNotEnforced || message == "") {
					t.Errorf("%s: %s: %q", f.Spec.Gate, reason, message)
				}
			}
			if diff := cmp.Diff(tt.enforced, strings.Join(enforced, " ")); diff != "" {
				t.Error(diff)
			}
			var skewed []string
			for gate, c := range s.judgeSkew(t.Context(), p, &tt.done).Features {
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

// standingSession is one in which nothing is stored.
func standingSession(t *testing.T) *session {
	t.Helper()
	w := &world{Cluster: Cluster{Clock: clocktesting.NewFakeClock(metav1.Now().Time), Log: slog.New(slog.DiscardHandler)}}
	s := &session{Controller: &Controller{Cluster: w.Cluster}, planner: &planner{world: w}, stores: map[string]cache.SharedIndexInformer{}, applied: map[string]applied{}}
	for resource, of := range (&session{server: newServer}).watchedKinds() {
		s.stores[resource] = cache.NewSharedIndexInformer(&cache.ListWatch{}, of, 0, cache.Indexers{byComponent: func(any) ([]string, error) { return []string{"demo"}, nil }})
	}
	return s
}

// stand has what a plan makes stored, but for one resource.
func (s *session) stand(t *testing.T, p *plan, without string) {
	t.Helper()
	for _, o := range p.set.Objects() {
		o := withManagerLabel(o)
		if resourceOf(o) == without {
			continue
		}
		if err := s.stores[resourceOf(o)].GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatStandsOfLivePoliciesIsAskedWhatItSays: a policy that reads the settings by definitions of before is in skew where it makes
// something else of them.
func TestWhatStandsOfLivePoliciesIsAskedWhatItSays(t *testing.T) {
	const (
		name     = "features.demo.widgets.demo.dev.reject.v1"
		live     = `{metadata: {name: demo}, spec: {release: v1.0.0, mode: Live, configMap: {namespace: demo, name: flags}}}`
		beta     = `{metadata: {name: demo}, spec: {release: v1.0.0, mode: Live, defaultLevel: beta, configMap: {namespace: demo, name: flags}}}`
		other    = `{metadata: {name: demo}, spec: {release: v1.0.0, mode: Live, configMap: {namespace: demo, name: others}}}`
		baked    = `{metadata: {name: demo}, spec: {release: v1.0.0, mode: Baked, configMap: {namespace: demo, name: flags}}}`
		features = `
- {component: demo, gate: A, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: B, stages: [{stage: Beta, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`
		stable = `
- {component: demo, gate: A, stages: [{stage: Stable, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: B, stages: [{stage: Stable, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`
		needs = `
- {component: demo, gate: A, requiredProcesses: [controller], stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: B, stages: [{stage: Beta, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`
	)
	// In a resource whose highest stage is Beta the level stable opens what is beta, as TEP-0033 has it.
	const (
		lifted      = `{metadata: {name: demo}, spec: {release: v1.0.0, mode: Live, configMap: {namespace: demo, name: flags}, resources: [{group: demo.dev, resource: widgets, highestStage: Beta}]}}`
		liftedAlpha = `
- {component: demo, gate: A, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.refused}]}
- {component: demo, gate: B, stages: [{stage: Alpha, release: v1.0.0}], parts: [{group: demo.dev, resource: widgets, field: spec.warned}]}
`
	)
	no := errors.New("not allowed")
	notDeleted := map[string]error{"ValidatingAdmissionPolicy " + name: no, "ValidatingAdmissionPolicyBinding " + name: no}
	notChanged := map[string]error{name: no}
	for _, tt := range []struct {
		name                        string
		storedComponent, storedList string
		component, list             string
		settings                    map[string]string
		missing                     bool // the ConfigMap
		failed                      map[string]error
		want                        map[string]string // what is told of the gates that are in skew
	}{
		{"nothing has failed", live, features, live, stable, nil, false, nil, nil},
		{"open for good by now, and not deleted", live, features, live, stable, nil, false, notDeleted, map[string]string{
			"A": "enforced as off by ValidatingAdmissionPolicy " + name + ", which is as it was before",
			"B": "enforced as off by ValidatingAdmissionPolicy " + name + ", which is as it was before",
		}},
		{"the settings open one of them there too", live, features, live, stable, map[string]string{"a": "true"}, false, notDeleted, map[string]string{"B": "enforced as off"}},
		{"or both", live, features, live, stable, map[string]string{"enable-api-fields": "alpha"}, false, notDeleted, nil},
		{"open at another level by now, and not changed", live, features, beta, features, nil, false, notChanged, map[string]string{"B": "the settings say on; enforced as off"}},
		{"which the settings say as well", live, features, beta, features, map[string]string{"feature-gates": "B=true"}, false, notChanged, nil},
		{"closed by now, and not changed", live, features, live, needs, map[string]string{"a": "true"}, false, notChanged, map[string]string{"A": "enforced as on by"}},
		{"without settings nothing is known", live, features, live, stable, nil, true, notDeleted, nil},
		{"other settings say nothing", other, features, live, stable, nil, false, notDeleted, nil},
		{"not changed where the level opens more than elsewhere", lifted, features, lifted, features, nil, false, notChanged, nil},
		{"graduated there by now, and not changed", lifted, liftedAlpha, lifted, features, nil, false, notChanged, map[string]string{"B": "the settings say on; enforced as off"}},
		{"turned on by now, and not changed", lifted, liftedAlpha, lifted, stable, nil, false, notDeleted, map[string]string{"A": "enforced as off", "B": "enforced as off"}},
		{"not deleted since settings were baked in", live, features, baked, stable, map[string]string{"a": "true"}, false, notDeleted, map[string]string{"B": "enforced as off"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := standingSession(t)
			s.stand(t, planOf(t, movesModel(t, tt.storedComponent, tt.storedList), nil, newServer), "")
			m := movesModel(t, tt.component, tt.list)
			settings, findings := m.ParseSettings(tt.settings)
			if err := findings.Err(); err != nil {
				t.Fatal(err)
			}
			p := planOf(t, m, settings, newServer)
			p.live = m.Spec().Mode == v1alpha1.Live
			p.current = configMap{known: true, exists: !tt.missing, data: tt.settings}
			done := &outcome{failed: tt.failed}
			s.observeStanding(p, done)
			got := map[string]string{}
			for gate, c := range s.judgeSkew(t.Context(), p, done).Features {
				switch {
				case !strings.Contains(c.Message, "enforced as"):
				case tt.want[gate] != "" && strings.Contains(c.Message, tt.want[gate]):
					got[gate] = tt.want[gate]
				default:
					got[gate] = c.Message
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestObjectsThatWereWatchedAreNamed: what comes out of a watch does not say its kind.
func TestObjectsThatWereWatchedAreNamed(t *testing.T) {
	for _, o := range movesPlan(t, newServer).set.Objects() {
		want := nameOf(asObject(o))
		o = o.DeepCopyObject()
		m, err := meta.TypeAccessor(o)
		if err != nil {
			t.Fatal(err)
		}
		m.SetKind("")
		if got := nameOf(asObject(o)); got != want || strings.HasPrefix(got, " ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
