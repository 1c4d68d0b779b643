package gate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature/gate"
)

// TestTheSourceThatComesFirstWins holds each source against each that comes after it, for each thing that a source can say.
func TestTheSourceThatComesFirstWins(t *testing.T) {
	order := []gate.Source{gate.Test, gate.Flags, gate.Environment, gate.File, gate.ConfigMap}
	for _, tt := range []struct {
		what    string
		feature featuregate.Feature
		on, off map[string]string
	}{
		{"a key", "FastPath", map[string]string{"fast-path": "true"}, map[string]string{"fast-path": "false"}},
		{"an entry", "FastPath", map[string]string{"feature-gates": "FastPath=true"}, map[string]string{"feature-gates": "FastPath=false"}},
		{"an entry over a key", "FastPath", map[string]string{"feature-gates": "FastPath=true"}, map[string]string{"fast-path": "false"}},
		{"the level", "Field", map[string]string{"enable-api-fields": "alpha"}, map[string]string{"enable-api-fields": "stable"}},
		{"AllAlpha", "FastPath", map[string]string{"feature-gates": "AllAlpha=true"}, map[string]string{"feature-gates": "AllAlpha=false"}},
		{"AllBeta", "Tuned", map[string]string{"feature-gates": "AllBeta=true"}, map[string]string{"feature-gates": "AllBeta=false"}},
	} {
		for i, first := range order {
			for _, second := range order[i+1:] {
				for _, on := range []bool{true, false} {
					g := newGates(t, gate.Options{})
					data := map[bool]map[string]string{true: tt.on, false: tt.off}
					// The order in which they are given does not count.
					g.Set(second, data[!on], "")
					g.Set(first, data[on], "")
					if g.Enabled(tt.feature) != on {
						t.Errorf("%s: %v says %t, %v %t: it is %t", tt.what, first, on, second, !on, !on)
					}
					g.Set(first, nil, "")
					if g.Enabled(tt.feature) == on {
						t.Errorf("%s: when %v says nothing more, %v does not count", tt.what, first, second)
					}
				}
			}
		}
	}
	// Between unlike things the table of precedence decides, wherever they come from.
	g := newGates(t, gate.Options{})
	g.Set(gate.Flags, map[string]string{"feature-gates": "AllAlpha=false"}, "")
	g.Set(gate.ConfigMap, map[string]string{"fast-path": "true"}, "")
	if !g.Enabled("FastPath") {
		t.Error("AllAlpha of the flags wins over a key of the ConfigMap")
	}
}

// TestBadSettingsFromTheFirstDay has a ConfigMap that is wrong when the process starts.
func TestBadSettingsFromTheFirstDay(t *testing.T) {
	bad := map[string]string{"fast-path": "true", "tuned": "false", "slow": "ture"}
	for _, tt := range []struct {
		name     string
		remember map[string]string
		data     map[string]string
		on       string
		stays    bool
	}{
		{"no last good ones: the defaults", nil, bad, "Done Tuned", false},
		{"the last good ones", map[string]string{"slow": "true"}, bad, "Done Slow Tuned", true},
		{"the last good ones said nothing", map[string]string{}, bad, "Done Tuned", true},
		{"the last good ones of another release", map[string]string{"slow": "true", "old-gate": "true"}, bad, "Done Slow Tuned", true},
		{"what is remembered is not needed", map[string]string{"slow": "true"}, map[string]string{"fast-path": "true"}, "Done FastPath Tuned", false},
		{"a requirement that is not met", nil, map[string]string{"needy": "true", "slow": "true"}, "Done Tuned", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &book{}
			g := newGates(t, b.options())
			g.Remember(gate.ConfigMap, tt.remember)
			problems := g.Set(gate.ConfigMap, tt.data, "7")
			if err := g.Begin(); err != nil {
				t.Fatal(err)
			}
			if got := enabled(t, g); got != tt.on {
				t.Errorf("on %s, want %s", got, tt.on)
			}
			report := g.Report()
			if len(report.SettingsErrors) != len(problems) || report.SettingsVersion != "7" {
				t.Errorf("problems %v, report %+v", problems, report)
			}
			for _, p := range g.Problems() {
				if p.Stays != tt.stays || p.Source != gate.ConfigMap {
					t.Errorf("problem %+v", p)
				}
			}
			if n := len(b.with("a setting of features is wrong")); n != len(problems) {
				t.Errorf("%d of %d problems are logged", n, len(problems))
			}
			// Another mistake does not change what holds; good settings are taken.
			g.Set(gate.ConfigMap, map[string]string{"tuned": "yes", "fast-path": "true"}, "8")
			if got := enabled(t, g); tt.name != "what is remembered is not needed" && got != tt.on {
				t.Errorf("after another mistake on %s, want %s", got, tt.on)
			}
			g.Set(gate.ConfigMap, map[string]string{"fast-path": "true"}, "9")
			if report := g.Report(); !g.Enabled("FastPath") || report.SettingsErrors != nil || report.SettingsVersion != "9" {
				t.Errorf("mended: %+v", report)
			}
		})
	}
}

// TestWrongSourcesAtTheStartAndLater has each source wrong or unreadable before the beginning and after.
func TestWrongSourcesAtTheStartAndLater(t *testing.T) {
	unreadable := errors.New("no such file")
	for _, tt := range []struct {
		source gate.Source
		// ends reports whether it ends the program at the start.
		ends bool
	}{
		{gate.Flags, true},
		{gate.Environment, true},
		{gate.File, true},
		{gate.ConfigMap, false},
	} {
		for what, spoil := range map[string]func(g *gate.Gates){
			"wrong":      func(g *gate.Gates) { g.Set(tt.source, map[string]string{"slow": "true", "tuned": "yes"}, "") },
			"unreadable": func(g *gate.Gates) { g.Fail(tt.source, unreadable) },
		} {
			t.Run(fmt.Sprintf("%v %s", tt.source, what), func(t *testing.T) {
				g := newGates(t, gate.Options{})
				spoil(g)
				err := g.Begin()
				var wrong *gate.SettingsError
				if errors.As(err, &wrong) != tt.ends {
					t.Fatalf("at the start: %v", err)
				}
				if tt.ends {
					// Who mends it may begin again, and who does not may not.
					if err := g.Begin(); err == nil {
						t.Error("a second time it is no error")
					}
				}
				g.Set(tt.source, map[string]string{"fast-path": "true"}, "")
				if err := g.Begin(); err != nil {
					t.Errorf("mended: %v", err)
				}
				if got := enabled(t, g); got != "Done FastPath Tuned" || g.Problems() != nil {
					t.Errorf("mended: on %s, %v", got, g.Problems())
				}
				spoil(g)
				if got := enabled(t, g); got != "Done FastPath Tuned" {
					t.Errorf("wrong later: on %s", got)
				}
				if p := g.Problems(); len(p) != 1 || !p[0].Stays || p[0].Source != tt.source || len(g.Report().SettingsErrors) != 1 {
					t.Errorf("wrong later: %v", p)
				}
				g.Fail(tt.source, nil)
				g.Set(tt.source, map[string]string{"fast-path": "false"}, "")
				if got := enabled(t, g); got != "Done Tuned" || g.Problems() != nil {
					t.Errorf("mended again: on %s, %v", got, g.Problems())
				}
			})
		}
	}
}

func TestAllAlphaIsTakenBackWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.yaml")
	for _, source := range []gate.Source{gate.Flags, gate.Environment, gate.File, gate.ConfigMap} {
		g := newGates(t, gate.Options{})
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		before := enabled(t, g)
		for _, gates := range []string{"AllAlpha=true", "AllAlpha=true,AllBeta=true,FastPath=false", "AllAlpha=false", ""} {
			if source == gate.File {
				if err := os.WriteFile(path, []byte("feature-gates: "+gates), 0o600); err != nil {
					t.Fatal(err)
				}
				if problems, err := g.LoadFile(path); err != nil || problems != nil {
					t.Fatal(problems, err)
				}
			} else if problems := g.Set(source, map[string]string{"feature-gates": gates}, ""); problems != nil {
				t.Fatal(problems)
			}
		}
		if got := enabled(t, g); got != before {
			t.Errorf("%v: on %s, before %s", source, got, before)
		}
	}
}

// TestTheLastEntryOfAFlagCounts, as in the gate of component-base. In other sources a contradiction is an error.
func TestTheLastEntryOfAFlagCounts(t *testing.T) {
	for _, args := range [][]string{
		{"--feature-gates=FastPath=true", "--feature-gates=FastPath=false"},
		{"--feature-gates=FastPath=false", "--feature-gates=FastPath=true"},
		{"--feature-gates=FastPath=true,Tuned=true, FastPath = false"},
		{"--feature-gates=FastPath=true,FastPath=true"},
		{"--feature-gates=AllAlpha=false,AllAlpha=true"},
	} {
		g := newGates(t, gate.Options{})
		upstream := featuregate.NewFeatureGate()
		if err := upstream.Add(map[featuregate.Feature]featuregate.FeatureSpec{"FastPath": {PreRelease: featuregate.Alpha}, "Tuned": {Default: true, PreRelease: featuregate.Beta}}); err != nil {
			t.Fatal(err)
		}
		ours, theirs := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
		g.AddFlags(ours)
		upstream.AddFlag(theirs)
		if err := errors.Join(ours.Parse(args), theirs.Parse(args), g.Begin()); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		for _, name := range []featuregate.Feature{"FastPath", "Tuned"} {
			if got, want := g.Enabled(name), upstream.Enabled(name); got != want {
				t.Errorf("%q: %s is %t, and %t in component-base", args, name, got, want)
			}
		}
	}
	// The gate of component-base leaves features on when AllAlpha is withdrawn.
	g := newGates(t, gate.Options{})
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	g.AddFlags(fs)
	if err := errors.Join(fs.Parse([]string{"--feature-gates=AllAlpha=true", "--feature-gates=AllAlpha=false"}), g.Begin()); err != nil || g.Enabled("FastPath") {
		t.Errorf("AllAlpha is withdrawn: %v, FastPath %t", err, g.Enabled("FastPath"))
	}
	g = newGates(t, gate.Options{Environ: []string{"DEMO_OP_FEATURE_GATES=FastPath=true,FastPath=false"}})
	if err := g.Begin(); err == nil || !strings.Contains(err.Error(), "FastPath stands there twice") {
		t.Errorf("environment: %v", err)
	}
	if problems := newGates(t, gate.Options{}).Set(gate.ConfigMap, map[string]string{"feature-gates": "FastPath=true,FastPath=false"}, ""); len(problems) != 1 {
		t.Errorf("ConfigMap: %v", problems)
	}
}

func TestAChangeThatTakesARestartIsReported(t *testing.T) {
	d := demo()
	d.Features = append(d.Features, v1alpha1.FeatureSpec{Gate: "OnSlow", Stages: alpha, Requires: []string{"Slow"}})
	g, err := gate.New(d, gate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(g.Collector())
	alone := prometheus.NewRegistry()
	alone.MustRegister(g.RestartCollector())
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	type state struct{ pending, restart string }
	for _, step := range []struct {
		set  string
		want state
	}{
		{"", state{"", "OnSlow=-1 Slow=0"}},
		{"Slow=true", state{"Slow=true", "OnSlow=-1 Slow=1"}},
		{"Slow=true,OnSlow=true", state{"OnSlow=true Slow=true", "OnSlow=1 Slow=1"}},
		{"OnSlow=false", state{"", "OnSlow=-1 Slow=0"}},
		{"FastPath=true", state{"", "OnSlow=-1 Slow=0"}},
	} {
		g.Set(gate.ConfigMap, map[string]string{"feature-gates": step.set}, "1")
		var pending []string
		for _, f := range g.Report().Features {
			if f.Pending != nil {
				pending = append(pending, fmt.Sprintf("%s=%t", f.Gate, *f.Pending))
				if !strings.Contains(f.Why, "restart") && !strings.Contains(f.Why, "requires") {
					t.Errorf("%s: why: %s", f.Gate, f.Why)
				}
			}
		}
		for _, r := range []prometheus.Gatherer{registry, alone} {
			got := state{strings.Join(pending, " "), fmt.Sprintf("OnSlow=%v Slow=%v", labelled(t, r, gate.RestartMetric, "name", "OnSlow"), labelled(t, r, gate.RestartMetric, "name", "Slow"))}
			if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(state{})); diff != "" {
				t.Errorf("%q: %s", step.set, diff)
			}
		}
		// What is in effect is what the metric of features says.
		for name, gatherer := range map[string]prometheus.Gatherer{"own": registry, "component-base": legacyregistry.DefaultGatherer} {
			for _, gate := range []string{"Slow", "OnSlow", "FastPath"} {
				if got, on := labelled(t, gatherer, "kubernetes_feature_enabled", "name", gate) == 1, g.Enabled(featuregate.Feature(gate)); got != on {
					t.Errorf("%q: %s: %s is %t, the metric says %t", step.set, name, gate, on, got)
				}
			}
		}
	}
}

// labelled returns the value of a gauge, -1 where there is none.
func labelled(t *testing.T, gatherer prometheus.Gatherer, name, label, value string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == label && l.GetValue() == value {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	return -1
}

// TestARemovedGateIsOneWarning has a gate whose feature was removed set in each source.
func TestARemovedGateIsOneWarning(t *testing.T) {
	for _, source := range []string{"flag", "environment", "file", "ConfigMap"} {
		t.Run(source, func(t *testing.T) {
			b := &book{}
			o := b.options()
			if source == "environment" {
				o.Environ = []string{"DEMO_OP_GONE=true"}
			}
			g := newGates(t, o)
			switch source {
			case "flag":
				fs := pflag.NewFlagSet("", pflag.ContinueOnError)
				g.AddFlags(fs)
				if err := fs.Parse([]string{"--feature-gates=Gone=true"}); err != nil {
					t.Fatal(err)
				}
			case "file":
				g.Set(gate.File, map[string]string{"gone": "true"}, "")
			case "ConfigMap":
				g.Set(gate.ConfigMap, map[string]string{"feature-gates": "Gone=true"}, "")
			}
			if err := g.Begin(); err != nil {
				t.Fatal(err)
			}
			g.Set(gate.ConfigMap, map[string]string{"feature-gates": "Gone=true"}, "")
			g.Set(gate.ConfigMap, map[string]string{"feature-gates": "Gone=false"}, "")
			want := 1
			if source != "ConfigMap" {
				want = 2 // the ConfigMap is another place to take it out of
			}
			lines := b.with("Gone was removed in v1.1.0")
			if len(lines) != want || len(g.Problems()) > 0 || len(g.Report().SettingsErrors) > 0 {
				t.Errorf("%v", lines)
			}
			if got := enabled(t, g); got != "Done Tuned" {
				t.Errorf("on %s", got)
			}
		})
	}
}

func TestAVariableThatIsMisspeltIsAWarning(t *testing.T) {
	b := &book{}
	o := b.options()
	o.Environ = []string{"DEMO_OP_FAST_PTH=true", "DEMO_OP_SERVICE_HOST=10.0.0.1", "DEMO_OP_ENABLE_API_FELDS=alpha", "DEMO_OP_SERVICE_PORT=1", "OTHER_FAST_PTH=true", "DEMO_OP_SLOW=true"}
	g := newGates(t, o)
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	if n := len(b.with("warning")); n != 2 {
		t.Errorf("%d warnings: %v", n, b.with("warning"))
	}
	for variable, meant := range map[string]string{"DEMO_OP_FAST_PTH": "FAST_PATH", "DEMO_OP_ENABLE_API_FELDS": "ENABLE_API_FIELDS"} {
		if len(b.with("warning", variable, meant)) != 1 {
			t.Errorf("no warning of %s", variable)
		}
	}
	if got := enabled(t, g); got != "Done Slow Tuned" {
		t.Errorf("on %s", got)
	}
}

func TestAReportCountsTheErrorsThatItDoesNotTell(t *testing.T) {
	for n, want := range map[int]string{19: "", 20: "", 21: "and 2 more", 50: "and 31 more"} {
		g := newGates(t, gate.Options{})
		data := map[string]string{}
		for i := range n {
			data[fmt.Sprintf("nothing-%02d", i)] = "true"
		}
		problems := g.Set(gate.ConfigMap, data, "1")
		if err := g.Begin(); err != nil || len(problems) != n || len(g.Problems()) != n {
			t.Errorf("%d errors: %v, %d", n, err, len(problems))
		}
		told := g.Report().SettingsErrors
		if len(told) != min(n, 20) || want != "" && told[19] != want || want == "" && strings.HasPrefix(told[len(told)-1], "and ") {
			t.Errorf("%d errors: %d are told, the last is %s", n, len(told), told[len(told)-1])
		}
	}
}
