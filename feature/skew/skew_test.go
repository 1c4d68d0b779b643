package skew_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/skew"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const definitions = `
component:
  metadata: {name: demo}
  spec: {release: v1.1.0, configMap: {namespace: demo, name: flags}}
features:
  - {component: demo, gate: Plain, stages: [{stage: Alpha, release: v1.0.0}]}
  - {component: demo, gate: Both, requiredProcesses: [webhook, controller], stages: [{stage: Alpha, release: v1.0.0}]}
  - {component: demo, gate: Restart, needsRestart: true, stages: [{stage: Alpha, release: v1.0.0}]}
`

func model(t *testing.T, change func(*v1alpha1.Component)) *feature.Model {
	t.Helper()
	var d struct {
		Component v1alpha1.Component
		Features  []v1alpha1.FeatureSpec
	}
	if err := yaml.UnmarshalStrict([]byte(definitions), &d); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&d.Component)
	}
	features := make([]v1alpha1.Feature, len(d.Features))
	for i := range d.Features {
		features[i].Spec = d.Features[i]
	}
	m, findings := feature.Define(&d.Component, features, feature.Options{})
	if findings != nil {
		t.Fatal(findings)
	}
	return m
}

func settings(t *testing.T, m *feature.Model, gates string) *feature.Settings {
	t.Helper()
	s, findings := m.ParseSettings(map[string]string{"feature-gates": gates})
	if findings != nil {
		t.Fatal(findings)
	}
	return s
}

// report reads a report from PROCESS/INSTANCE RELEASE GATE GATE=false ....
func report(text string) v1alpha1.FeatureReport {
	words := strings.Fields(text)
	process, instance, _ := strings.Cut(words[0], "/")
	r := v1alpha1.FeatureReport{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: process + "." + instance}, Spec: v1alpha1.FeatureReportSpec{
		Component: "demo", Process: process, Instance: instance, Release: words[1], RenewTime: metav1.NewTime(now.Add(-10 * time.Second)), LeaseDurationSeconds: 30,
	}}
	for _, w := range words[2:] {
		gate, pending := strings.CutSuffix(w, "!")
		gate, off := strings.CutSuffix(gate, "=false")
		f := v1alpha1.ReportedFeature{Gate: gate, Enabled: !off}
		if pending {
			f.Pending = &off
		}
		r.Spec.Features = append(r.Spec.Features, f)
	}
	return r
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flags    bool // the component has no ConfigMap, but names the namespaces demo and more
		nowhere  bool // it has neither
		gates    string
		reports  []string
		enforced []skew.Enforced
		change   func(*skew.Input)
		reason   string // of the component
		says     []string
		open     string // gates in effect
		again    time.Duration
	}{
		{name: "nobody reports", reason: "NoReports", says: []string{"no process"}},
		{
			name: "all agree", gates: "Plain=true", reports: []string{"webhook/a v1 Plain Both=false", "controller/b v1 Plain Both=false"}, reason: "ProcessesAgree",
			says: []string{"2 processes agree"}, open: "Plain", again: 20 * time.Second,
		},
		{
			name: "one differs from the settings", gates: "Plain=true", reports: []string{"webhook/a v1 Plain", "controller/b v1 Plain=false"}, reason: "ProcessesDisagree",
			says: []string{"Plain: the settings say on; on in webhook/a (v1); off in controller/b (v1)"}, open: "Plain", again: 20 * time.Second,
		},
		{
			name: "all differ from the settings", gates: "Plain=false", reports: []string{"webhook/a v1 Plain"}, reason: "ProcessesDisagree",
			says: []string{"the settings say off; on in webhook/a"}, again: 20 * time.Second,
		},
		{
			name: "with flags only they differ from one another", flags: true, reports: []string{"webhook/a v1 Plain", "controller/b v1 Plain=false"}, reason: "ProcessesDisagree",
			says: []string{"Plain: on in webhook/a (v1); off in controller/b (v1)"}, again: 20 * time.Second,
		},
		{
			name: "with flags only they may agree on what is no default", flags: true, reports: []string{"webhook/a v1 Plain", "controller/b v1 Plain"},
			reason: "ProcessesAgree", again: 20 * time.Second,
		},
		{
			name: "with flags only, reports of each of the namespaces count", flags: true, reports: []string{"webhook/a v1 Plain", "controller/b v1 Plain=false"},
			change: func(in *skew.Input) { in.Reports[1].Namespace = "more" }, reason: "ProcessesDisagree", again: 20 * time.Second,
		},
		{
			name: "with flags only, reports of other namespaces count for nothing", flags: true, reports: []string{"webhook/a v1 Plain", "controller/b v1 Plain=false"},
			change: func(in *skew.Input) { in.Reports[1].Namespace = "elsewhere" }, reason: "ProcessesAgree", again: 20 * time.Second,
		},
		{
			name: "a component that names no namespace has no reports", nowhere: true, reports: []string{"webhook/a v1 Plain", "controller/b v1 Plain=false"},
			reason: "NoReports", says: []string{"names no namespaces"},
		},
		{
			name: "required processes report it", gates: "Both=true", reports: []string{"webhook/a v1 Both", "controller/b v1 Both", "controller/c v1 Both"},
			reason: "ProcessesAgree", open: "Both", again: 20 * time.Second,
		},
		{
			name: "a required process does not run", gates: "Both=true", reports: []string{"webhook/a v1 Both"}, reason: "ProcessesDisagree",
			says: []string{"not reported by controller, which it needs"}, again: 20 * time.Second,
		},
		{
			name: "the controller is a release behind", gates: "Both=true", reports: []string{"webhook/a v2 Both", "controller/b v1 Plain=false"}, reason: "ProcessesDisagree",
			says: []string{"on in webhook/a (v2)", "not reported by controller/b (v1)"}, again: 20 * time.Second,
		},
		{
			name: "one of two controllers has it off", gates: "Both=true", reports: []string{"webhook/a v1 Both", "controller/b v1 Both", "controller/c v1 Both=false"},
			reason: "ProcessesDisagree", says: []string{"off in controller/c"}, again: 20 * time.Second,
		},
		{
			name: "a process that never knew a feature does not disagree", gates: "Plain=true", reports: []string{"webhook/a v1 Both=false", "controller/b v1 Plain"},
			reason: "ProcessesAgree", open: "Plain", again: 20 * time.Second,
		},
		{
			name: "a rolling update", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false", "controller/b v2 Plain", "webhook/c v2 Plain"}, reason: "RollingUpdate",
			says: []string{"off in controller/a (v1)", "a rolling update is under way"}, open: "Plain", again: 20 * time.Second,
		},
		{
			name: "a rolling update to a release that knows the feature", gates: "Both=true", reports: []string{"controller/a v1", "controller/b v2 Both", "webhook/c v2 Both"},
			reason: "RollingUpdate", says: []string{"not reported by controller/a (v1)"}, again: 20 * time.Second,
		},
		{
			name: "a rolling update by revision", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false", "controller/b v1 Plain"},
			change: func(in *skew.Input) { in.Reports[1].Spec.Revision = "7d9" }, reason: "RollingUpdate", open: "Plain", again: 20 * time.Second,
		},
		{
			name: "another process than that which is updated", gates: "Plain=true", reports: []string{"controller/a v1 Plain", "controller/b v2 Plain", "webhook/c v2 Plain=false"},
			reason: "ProcessesDisagree", open: "Plain", again: 20 * time.Second,
		},
		{
			name: "a restart is needed", gates: "Restart=true", reports: []string{"controller/a v1 Restart=false!"}, reason: "ProcessesDisagree",
			says: []string{"controller/a (v1) to be restarted"}, open: "Restart", again: 20 * time.Second,
		},
		{
			name: "expired reports count for nothing", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false"},
			change: func(in *skew.Input) { in.Now = now.Add(20 * time.Second) }, reason: "NoReports", open: "Plain",
		},
		{
			name: "reports of other namespaces and components count for nothing", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false", "controller/b v1 Plain=false"},
			change: func(in *skew.Input) { in.Reports[0].Namespace, in.Reports[1].Spec.Component = "elsewhere", "other" }, reason: "NoReports", open: "Plain",
		},
		{
			name: "the newest report of an instance counts", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false", "controller/a v1 Plain"},
			change: func(in *skew.Input) { in.Reports[1].Name, in.Reports[1].Spec.RenewTime = "z", metav1.NewTime(now) }, reason: "ProcessesAgree", open: "Plain", again: 30 * time.Second,
		},
		{name: "settings that changed just now", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false"}, change: func(in *skew.Input) {
			in.SettingsVersion, in.SettingsTime, in.Reports[0].Spec.SettingsVersion = "2", now.Add(-time.Second), "1"
		}, reason: "ProcessesAgree", says: []string{"yet to read the settings"}, open: "Plain", again: 4 * time.Second},
		{name: "settings that changed long ago", gates: "Plain=true", reports: []string{"controller/a v1 Plain=false"}, change: func(in *skew.Input) {
			in.SettingsVersion, in.SettingsTime, in.Reports[0].Spec.SettingsVersion = "2", now.Add(-skew.Grace), "1"
		}, reason: "ProcessesDisagree", open: "Plain", again: 20 * time.Second},
		{name: "settings that a process cannot read", reports: []string{"controller/a v1 Plain=false"}, change: func(in *skew.Input) {
			in.Reports[0].Spec.SettingsErrors = []string{"feature-gates: there is no gate"}
		}, reason: "ProcessesDisagree", says: []string{"settings that are not taken: controller/a: feature-gates: there is no gate"}, again: 20 * time.Second},
		{
			name: "enforced as it is", gates: "Plain=true", reports: []string{"controller/a v1 Plain"}, enforced: []skew.Enforced{{Gate: "Plain", Open: true, By: "policy x"}},
			reason: "ProcessesAgree", open: "Plain", again: 20 * time.Second,
		},
		{
			name: "enforced otherwise", gates: "Plain=true", reports: []string{"controller/a v1 Plain"},
			enforced: []skew.Enforced{{Gate: "Plain", Open: true, By: "policy x"}, {Gate: "Plain", By: "policy y"}, {Gate: "Gone", By: "policy z"}},
			reason:   "EnforcementDiffers", says: []string{"enforced as off by policy y"}, open: "Plain", again: 20 * time.Second,
		},
		{
			name: "a feature that waits is enforced as off", gates: "Both=true", reports: []string{"webhook/a v1 Both"}, enforced: []skew.Enforced{{Gate: "Both", Open: true, By: "policy x"}},
			reason: "ProcessesDisagree", says: []string{"off in effect; enforced as on by policy x"}, again: 20 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := model(t, func(c *v1alpha1.Component) {
				if tt.flags || tt.nowhere {
					c.Spec.ConfigMap = nil
				}
				if tt.flags {
					c.Spec.Namespaces = []string{"more", "demo"}
				}
			})
			in := &skew.Input{Now: now, Model: m, Settings: settings(t, m, tt.gates), Enforced: tt.enforced}
			for _, r := range tt.reports {
				in.Reports = append(in.Reports, report(r))
			}
			if tt.change != nil {
				tt.change(in)
			}
			got := skew.Judge(in)
			if got.Component.Reason != tt.reason {
				t.Errorf("reason %s, want %s", got.Component.Reason, tt.reason)
			}
			status := map[string]metav1.ConditionStatus{"NoReports": "Unknown", "ProcessesAgree": "False"}[tt.reason]
			if status == "" {
				status = metav1.ConditionTrue
			}
			if got.Component.Status != status || got.Component.Type != "Skew" {
				t.Errorf("condition %v", got.Component)
			}
			for _, want := range tt.says {
				if !strings.Contains(got.Component.Message, want) {
					t.Errorf("%q does not say %q", got.Component.Message, want)
				}
			}
			var open []string
			for _, s := range got.States.All() {
				if s.Open {
					open = append(open, s.Feature.Spec.Gate)
				}
			}
			if strings.Join(open, " ") != tt.open {
				t.Errorf("open %v, want %s", open, tt.open)
			}
			if got.Again != tt.again {
				t.Errorf("again in %s, want %s", got.Again, tt.again)
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				r.Shuffle(len(in.Reports), func(i, k int) { in.Reports[i], in.Reports[k] = in.Reports[k], in.Reports[i] })
				if diff := cmp.Diff(got.Component, skew.Judge(in).Component); diff != "" {
					t.Errorf("in another order: %s", diff)
				}
			}
		})
	}
}

// TestReportsOfTheFuture: a report that says that it was renewed in a hundred years would hold until then.
func TestReportsOfTheFuture(t *testing.T) {
	m := model(t, nil)
	for ahead, want := range map[time.Duration]int{-31 * time.Second: 0, -29 * time.Second: 1, 0: 1, 30 * time.Second: 1, 31 * time.Second: 0, 100 * 365 * 24 * time.Hour: 0} {
		r := report("webhook/a v1 Plain")
		r.Spec.RenewTime = metav1.NewTime(now.Add(ahead))
		if got := len(skew.Live(m, []v1alpha1.FeatureReport{r}, now)); got != want {
			t.Errorf("renewed in %v: %d reports count", ahead, got)
		}
	}
}

func TestConditionsOfFeatures(t *testing.T) {
	m := model(t, nil)
	got := skew.Judge(&skew.Input{Now: now, Model: m, Settings: settings(t, m, "Plain=true"), Reports: []v1alpha1.FeatureReport{
		report("webhook/a v1 Plain"), report("controller/b v1 Plain=false Restart=false"),
	}})
	reasons := map[string]string{}
	for gate, c := range got.Features {
		reasons[gate] = c.Reason
	}
	if diff := cmp.Diff(map[string]string{"Plain": "ProcessesDisagree", "Both": "NoReports", "Restart": "ProcessesAgree"}, reasons); diff != "" {
		t.Error(diff)
	}
	if len(got.Disagreements) != 1 || got.Disagreements[0].Gate != "Plain" {
		t.Errorf("disagreements %v", got.Disagreements)
	}
}

func TestWhoAgreesIsCounted(t *testing.T) {
	m := model(t, nil)
	for want, reports := range map[string][]v1alpha1.FeatureReport{
		"1 process agrees":  {report("webhook/a v1 Plain")},
		"2 processes agree": {report("webhook/a v1 Plain"), report("webhook/b v1 Plain")},
	} {
		got := skew.Judge(&skew.Input{Now: now, Model: m, Settings: settings(t, m, "Plain=true"), Reports: reports})
		if diff := cmp.Diff(want, got.Component.Message); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAThousandProcessesAreToldInAFewWords(t *testing.T) {
	m := model(t, nil)
	in := &skew.Input{Now: now, Model: m, Settings: settings(t, m, "Plain=true")}
	for i := range 1000 {
		in.Reports = append(in.Reports, report("controller/"+strings.Repeat("x", 200)+string(rune('a'+i%26))+string(rune('a'+i/26))+" v1 Plain=false"))
	}
	got := skew.Judge(in)
	if n := len(got.Component.Message); n > 10<<10 || !strings.Contains(got.Component.Message, "and 995 more") {
		t.Errorf("%d bytes: %.300s", n, got.Component.Message)
	}
}

func TestFromMetrics(t *testing.T) {
	const text = `# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 0
kubernetes_feature_enabled{name="Plain",stage="ALPHA"} 1
kubernetes_feature_enabled{name="Both",stage="BETA"} 0
kubernetes_feature_enabled{name="Both",stage="ALPHA"} 0
# TYPE other counter
other_total 5
`
	got, err := skew.FromMetrics([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]v1alpha1.ReportedFeature{{Gate: "Both"}, {Gate: "Plain", Enabled: true}}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "other 1\n", "kubernetes_feature_enabled{name=\n", "\x00"} {
		if got, err := skew.FromMetrics([]byte(bad)); err == nil {
			t.Errorf("%q: %v and no error", bad, got)
		}
	}
}
