package gate_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/feature/gate"
	"sluice.dev/feature/skew"
)

var yes = true

func stages(list ...v1alpha1.FeatureStage) []v1alpha1.FeatureStage { return list }

var alpha = stages(v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.0.0"})

// demo has a feature of each kind.
func demo() gate.Declaration {
	return gate.Declaration{
		Name: "demo-op",
		Spec: v1alpha1.ComponentSpec{Release: "v1.2.0", ConfigMap: &v1alpha1.ConfigMapReference{Namespace: "demo", Name: "flags"}},
		Features: []v1alpha1.FeatureSpec{
			{Gate: "FastPath", Stages: alpha},
			{Gate: "Slow", Stages: alpha, NeedsRestart: true},
			{Gate: "Needy", Stages: alpha, Requires: []string{"FastPath"}},
			{Gate: "Shared", Stages: alpha, RequiredProcesses: []string{"webhook"}},
			{Gate: "Tuned", Stages: stages(v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.1.0", Default: &yes})},
			{Gate: "Done", Stages: stages(
				v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.0.0"},
				v1alpha1.FeatureStage{Stage: v1alpha1.Stable, Release: "v1.2.0", LockToDefault: true})},
			{Gate: "Later", Stages: stages(v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.3.0"})},
			{Gate: "Gone", Stages: stages(
				v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.0.0"},
				v1alpha1.FeatureStage{Stage: v1alpha1.Removed, Release: "v1.1.0"})},
			{Gate: "Field", Stages: alpha, Parts: []v1alpha1.Part{{Group: "demo.dev", Resource: "widgets", Field: "spec.mode"}}},
			gate.NewEnumValue("Turbo", "v1.2.0", "v1.3.0", v1alpha1.Part{Group: "demo.dev", Resource: "widgets", Field: "spec.kind", Values: []string{"Turbo"}}),
		},
	}
}

// book keeps what is logged.
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) options() gate.Options {
	return gate.Options{Logger: funcr.New(func(_, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, args)
	}, funcr.Options{})}
}

// with returns the lines in which all words stand.
func (b *book) with(words ...string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l, w) }) {
			out = append(out, l)
		}
	}
	return out
}

func newGates(t *testing.T, o gate.Options) *gate.Gates {
	t.Helper()
	g, err := gate.New(demo(), o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// enabled lists what is on, and fails if the gate of component-base says something else.
func enabled(t *testing.T, g *gate.Gates) string {
	t.Helper()
	upstream := g.FeatureGate()
	known := upstream.GetAll()
	var out []string
	for _, f := range demo().Features {
		name := featuregate.Feature(f.Gate)
		on := g.Enabled(name)
		if on {
			out = append(out, f.Gate)
		}
		if _, ok := known[name]; ok && upstream.Enabled(name) != on || !ok && on {
			t.Errorf("%s: on is %t, but not to component-base, where it is known: %t", f.Gate, on, ok)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestSources(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flags []string
		env   []string
		file  string
		cm    map[string]string
		on    string
	}{
		{name: "none", on: "Done Tuned"},
		{name: "flag", flags: []string{"--feature-gates=FastPath=true,Tuned=false"}, on: "Done FastPath"},
		{name: "two flags", flags: []string{"--feature-gates=FastPath=true", "--feature-gates", "Tuned=false"}, on: "Done FastPath"},
		{name: "AllAlpha", flags: []string{"--feature-gates=AllAlpha=true,Slow=false"}, on: "Done FastPath Field Needy Tuned"},
		{name: "environment", env: []string{"DEMO_OP_FEATURE_GATES=FastPath=true", "DEMO_OP_TUNED=false", "DEMO_OP_HOME=/", "FEATURE_GATES=Slow=true"}, on: "Done FastPath"},
		{name: "level in the environment", env: []string{"DEMO_OP_ENABLE_API_FIELDS=alpha"}, on: "Done Field Tuned"},
		{name: "file", file: "featureGates: {FastPath: true, Needy: true}\nenable-api-fields: alpha\ntuned: false\n", on: "Done FastPath Field Needy"},
		{name: "file that is a ConfigMap", file: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: flags}\ndata: {feature-gates: FastPath=true}\n", on: "Done FastPath Tuned"},
		{name: "ConfigMap", cm: map[string]string{"fast-path": "true"}, on: "Done FastPath Tuned"},
		{
			name: "the order", flags: []string{"--feature-gates=FastPath=true"}, env: []string{"DEMO_OP_FAST_PATH=false", "DEMO_OP_SLOW=true"},
			file: "slow: false\nneedy: true", cm: map[string]string{"needy": "false", "field": "true"}, on: "Done FastPath Field Needy Slow Tuned",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGates(t, gate.Options{Environ: tt.env})
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			g.AddFlags(fs)
			if err := fs.Parse(tt.flags); err != nil {
				t.Fatal(err)
			}
			if tt.file != "" {
				path := filepath.Join(t.TempDir(), "settings.yaml")
				if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
				if problems, err := g.LoadFile(path); err != nil || problems != nil {
					t.Fatal(problems, err)
				}
			}
			if problems := g.Set(gate.ConfigMap, tt.cm, "1"); problems != nil {
				t.Fatal(problems)
			}
			if got := enabled(t, g); got != tt.on {
				t.Errorf("before Begin: on %s, want %s", got, tt.on)
			}
			if err := g.Begin(); err != nil {
				t.Fatal(err)
			}
			if got := enabled(t, g); got != tt.on {
				t.Errorf("on %s, want %s", got, tt.on)
			}
		})
	}
}

func TestFlagsRefuseAllThatIsWrongAtOnce(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  []string
	}{
		{"FastPth=true,Tunned=yes,Slow", []string{`"FastPth" (did you mean "FastPath"?)`, `"Tunned" (did you mean "Tuned"?)`, `"Slow" has to be`}},
		{"FastPath=yes", []string{`"yes" is neither true nor false`}},
		{"FastPath=maybe,FastPath=true", []string{`"maybe" is neither true nor false`}},
	} {
		g := newGates(t, gate.Options{})
		goFlags := flag.NewFlagSet("", flag.ContinueOnError)
		goFlags.SetOutput(io.Discard)
		g.AddGoFlags(goFlags)
		err := goFlags.Parse([]string{"-feature-gates", tt.value})
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", tt.value, err, want)
			}
		}
	}
}

func TestBeginTellsWhatNoOtherSettingMakesRight(t *testing.T) {
	b := &book{}
	g := newGates(t, b.options())
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	g.AddFlags(fs)
	if err := fs.Parse([]string{"--feature-gates=Needy=true,Done=false,Later=true"}); err != nil {
		t.Fatal(err)
	}
	g.Set(gate.ConfigMap, map[string]string{"fast-pth": "true"}, "1")
	err := g.Begin()
	var wrong *gate.SettingsError
	if !errors.As(err, &wrong) || len(wrong.Problems) != 3 {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"requires FastPath", "on for good", "comes with v1.3.0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if len(b.with("ConfigMap", "fast-path")) != 1 {
		t.Errorf("the ConfigMap's error is not told: %v", b.lines)
	}
	// What is required may come from elsewhere.
	g = newGates(t, gate.Options{Environ: []string{"DEMO_OP_FAST_PATH=true"}})
	fs = pflag.NewFlagSet("", pflag.ContinueOnError)
	g.AddFlags(fs)
	if err := errors.Join(fs.Parse([]string{"--feature-gates=Needy=true"}), g.Begin()); err != nil {
		t.Error(err)
	}
}

func TestTheConfigMapThroughADay(t *testing.T) {
	b := &book{}
	g := newGates(t, b.options())
	var told [][]featuregate.Feature
	stop := g.OnChange(func(changed []featuregate.Feature) { told = append(told, changed) })
	g.Set(gate.ConfigMap, map[string]string{"slow": "true"}, "1")
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name    string
		data    map[string]string
		on      string
		told    string
		stays   int // how many problems leave the earlier settings; negative: of how many it is told without that
		pending string
	}{
		{"a gate is turned on", map[string]string{"slow": "true", "fast-path": "true"}, "Done FastPath Slow Tuned", "FastPath", 0, ""},
		{
			"four mistakes change nothing",
			map[string]string{"fast-pth": "true", "enable-api-fields": "betta", "slow": "yes", "feature-gates": "Tuned=false,Tuned=false"},
			"Done FastPath Slow Tuned", "", 4, "",
		},
		{"mended", map[string]string{"slow": "true", "feature-gates": "AllAlpha=true"}, "Done FastPath Field Needy Slow Tuned", "Field Needy", 0, ""},
		{"AllAlpha is taken back, and leaves nothing", map[string]string{"slow": "true", "feature-gates": "AllAlpha=false"}, "Done Slow Tuned", "FastPath Field Needy", 0, ""},
		{
			"what this release does not know stops nothing",
			map[string]string{"slow": "true", "fast-path": "true", "later": "true", "new-key": "true", "feature-gates": "NewGate=true"},
			"Done FastPath Slow Tuned", "FastPath", -3, "",
		},
		{"without it", map[string]string{"slow": "true"}, "Done Slow Tuned", "FastPath", 0, ""},
		{"a mistake in a value does", map[string]string{"slow": "true", "new-key": "true", "fast-path": "no"}, "Done Slow Tuned", "", 2, ""},
		{"a change that takes a restart", map[string]string{"slow": "false"}, "Done Slow Tuned", "", 0, "Slow"},
		{"a gate that was removed", map[string]string{"gone": "true"}, "Done Slow Tuned", "", 0, "Slow"},
		{"taken back", map[string]string{"slow": "true"}, "Done Slow Tuned", "", 0, ""},
		{"deleted", nil, "Done Slow Tuned", "", 0, "Slow"},
	} {
		told = nil
		problems := g.Set(gate.ConfigMap, step.data, "v "+step.name)
		if len(problems) != max(step.stays, -step.stays) || step.stays > 0 != slices.ContainsFunc(problems, func(p gate.Problem) bool { return p.Stays }) {
			t.Errorf("%s: problems %v", step.name, problems)
		}
		if got := enabled(t, g); got != step.on {
			t.Errorf("%s: on %s, want %s", step.name, got, step.on)
		}
		var names []string
		for _, call := range told {
			for _, f := range call {
				names = append(names, string(f))
			}
		}
		if got := strings.Join(names, " "); got != step.told {
			t.Errorf("%s: told of %s, want %s", step.name, got, step.told)
		}
		report := g.Report()
		pending := ""
		for _, f := range report.Features {
			if f.Enabled != g.Enabled(featuregate.Feature(f.Gate)) && f.Gate != "Shared" {
				t.Errorf("%s: reported of %s: %t", step.name, f.Gate, f.Enabled)
			}
			if f.Pending != nil {
				pending += f.Gate
			}
		}
		if pending != step.pending || report.SettingsVersion != "v "+step.name || len(report.SettingsErrors) != max(step.stays, -step.stays) {
			t.Errorf("%s: report %+v", step.name, report)
		}
	}
	if n := len(b.with("takes a restart", "Slow")); n != 2 {
		t.Errorf("the need of a restart is told %d times", n)
	}
	if n := len(b.with("warning", "Gone", "v1.1.0")); n != 1 {
		t.Errorf("the removed gate is told %d times", n)
	}
	stop()
	told = nil
	g.Set(gate.ConfigMap, map[string]string{"fast-path": "true"}, "9")
	if told != nil {
		t.Errorf("told after the end: %v", told)
	}
}

func TestAFileThatCannotBeReadLeavesTheSettings(t *testing.T) {
	g := newGates(t, gate.Options{})
	dir := t.TempDir()
	// As a mounted ConfigMap is: links to files in a hidden directory.
	hidden := filepath.Join(dir, "..data")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"fast-path": "true\n", "feature-gates": "Tuned=false"} {
		if err := errors.Join(os.WriteFile(filepath.Join(hidden, name), []byte(text), 0o600), os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	if problems, err := g.LoadFile(dir); err != nil || problems != nil {
		t.Fatal(problems, err)
	}
	if got := enabled(t, g); got != "Done FastPath" {
		t.Errorf("on %s", got)
	}
	for name, text := range map[string]string{
		"list": "[1]", "twice": "slow: true\nslow: true", "nested": "slow: {a: b}", "both": "featureGates: {}\nfeature-gates: ''", "data": "kind: ConfigMap\ndata: 3",
		"large": strings.Repeat("#", 2<<20), "binary": "\x00",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := g.LoadFile(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := g.LoadFile(filepath.Join(dir, "none")); err == nil || len(g.Problems()) != 1 || !g.Problems()[0].Stays {
		t.Errorf("%v, %v", err, g.Problems())
	}
	if got := enabled(t, g); got != "Done FastPath" {
		t.Errorf("afterwards on %s", got)
	}
}

func TestRequiredProcesses(t *testing.T) {
	g := newGates(t, gate.Options{})
	g.Set(gate.ConfigMap, map[string]string{"shared": "true"}, "1")
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	s, _ := g.State("Shared")
	if g.Enabled("Shared") || !strings.Contains(s.Reason, "webhook") {
		t.Errorf("open before the webhook reports it: %s", s.Reason)
	}
	for _, f := range g.Report().Features {
		if f.Gate == "Shared" && !f.Enabled {
			t.Error("the process does not report that it is ready, so that all would wait for one another")
		}
	}
	g.SetRuntime(feature.Runtime{Processes: map[string]map[string]bool{"webhook": {"Shared": true}}})
	if got := enabled(t, g); got != "Done Shared Tuned" {
		t.Errorf("on %s", got)
	}
	g.SetRuntime(feature.Runtime{})
	if g.Enabled("Shared") {
		t.Error("open after the webhook has gone")
	}
	if assumed := newGates(t, gate.Options{AssumeProcesses: true, Environ: []string{"DEMO_OP_SHARED=true"}}); !assumed.Enabled("Shared") {
		t.Error("closed although all processes are taken as having it on")
	}
}

func TestEmulation(t *testing.T) {
	g := newGates(t, gate.Options{})
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	g.AddFlags(fs)
	// What the release locks is free in the one that is emulated, whichever comes first.
	if err := errors.Join(fs.Parse([]string{"--feature-gates=Done=true,Tuned=false"}), g.Emulate("v1.1.3")); err != nil {
		t.Fatal(err)
	}
	if got := enabled(t, g); got != "Done" || g.FeatureGate().EmulationVersion().String() != "1.1" {
		t.Errorf("on %s at %s", got, g.FeatureGate().EmulationVersion())
	}
	if err := g.Emulate("v1.0.0"); err != nil {
		t.Fatal(err)
	}
	if err := g.Begin(); err == nil || !strings.Contains(err.Error(), "Tuned is not there yet") {
		t.Errorf("a gate of a later release: %v", err)
	}
	// Nothing has begun: another release may be right.
	if err := errors.Join(g.Emulate("v1.1.0"), g.Begin()); err != nil {
		t.Error(err)
	}
	if err := g.Emulate("v1.2.0"); err == nil {
		t.Error("emulated after the beginning")
	}
}

// TestTheGateInComponentBasesRegistry: its flags emulate a version and set gates, for Gates as well.
func TestTheGateInComponentBasesRegistry(t *testing.T) {
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{nil, "Done Tuned"},
		{[]string{"--feature-gates=demo-op:FastPath=true,demo-op:Tuned=false"}, "Done FastPath"},
		{[]string{"--emulated-version=demo-op=1.1"}, "Tuned"},
		{[]string{"--emulated-version=demo-op=1.1", "--feature-gates=demo-op:Done=true,demo-op:Tuned=false"}, "Done"},
	} {
		g := newGates(t, gate.Options{})
		registry := compatibility.NewComponentGlobalsRegistry()
		if err := registry.Register("demo-op", compatibility.NewEffectiveVersionFromString("1.2", "1.0", "1.0"), g.FeatureGate()); err != nil {
			t.Fatal(err)
		}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		registry.AddFlags(fs)
		if err := errors.Join(fs.Parse(tt.flags), registry.Set(), g.Begin()); err != nil {
			t.Fatalf("%v: %v", tt.flags, err)
		}
		if got := enabled(t, g); got != tt.want {
			t.Errorf("%v: on %s, want %s", tt.flags, got, tt.want)
		}
		if v := g.FeatureGate().EmulationVersion(); g.FeatureGate().SetEmulationVersion(v) != nil || g.FeatureGate().SetEmulationVersion(v.SubtractMinor(1)) == nil {
			t.Error("another emulation version after the beginning")
		}
	}
}

// TestOverriddenDefaultsAndWhatIsSet compares the gate of the gates with one of component-base alone.
func TestOverriddenDefaultsAndWhatIsSet(t *testing.T) {
	for _, tt := range []struct {
		override map[featuregate.Feature]bool
		set      map[string]bool
		want     string
	}{
		{map[featuregate.Feature]bool{"FastPath": true, "Tuned": false}, nil, "Done FastPath"},
		{map[featuregate.Feature]bool{"FastPath": true}, map[string]bool{"FastPath": false}, "Done Tuned"},
		{map[featuregate.Feature]bool{"Tuned": false}, map[string]bool{"AllBeta": true}, "Done Tuned"},
		{map[featuregate.Feature]bool{"Tuned": false}, map[string]bool{"Tuned": true}, "Done Tuned"},
	} {
		g := newGates(t, gate.Options{})
		ours, theirs := g.FeatureGate(), newGates(t, gate.Options{}).FeatureGate().DeepCopyAndReset()
		plain := featuregate.NewVersionedFeatureGate(version.MajorMinor(1, 2))
		if err := plain.AddVersioned(theirs.GetAllVersioned()); err != nil {
			t.Fatal(err)
		}
		for _, f := range []featuregate.MutableVersionedFeatureGate{ours, plain} {
			for name, on := range tt.override {
				if err := f.OverrideDefault(name, on); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.SetFromMap(tt.set); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		if got := enabled(t, g); got != tt.want {
			t.Errorf("%v, %v: on %s, want %s", tt.override, tt.set, got, tt.want)
		}
		for _, name := range []featuregate.Feature{"FastPath", "Tuned", "Done"} {
			if ours.Enabled(name) != plain.Enabled(name) || ours.ExplicitlySet(name) != plain.ExplicitlySet(name) && tt.set["AllBeta"] == false {
				t.Errorf("%v, %v: %s is %t and set %t, in component-base %t and %t", tt.override, tt.set, name, ours.Enabled(name), ours.ExplicitlySet(name), plain.Enabled(name), plain.ExplicitlySet(name))
			}
		}
	}
	g := newGates(t, gate.Options{})
	if err := g.FeatureGate().OverrideDefault("Done", false); err == nil {
		t.Error("the default of a locked feature is overridden")
	}
	g.Set(gate.ConfigMap, map[string]string{"slow": "true"}, "")
	if !g.FeatureGate().ExplicitlySet("Slow") || g.FeatureGate().ExplicitlySet("FastPath") {
		t.Error("what the ConfigMap sets is not explicitly set, or something else is")
	}
}

// TestConfigurationFilesOfPrograms are read as cert-manager and Kubernetes have them: apiVersion, kind, featureGates, and what else the program has.
func TestConfigurationFilesOfPrograms(t *testing.T) {
	for _, text := range []string{
		"apiVersion: controller.config.cert-manager.io/v1alpha1\nkind: ControllerConfiguration\nlogging: {verbosity: 2}\nleaderElectionConfig:\n  namespace: cert-manager\nfeatureGates:\n  FastPath: true\n  Tuned: false\n",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS: [10.0.0.10]\nfeatureGates: {FastPath: true, Tuned: false}\n",
	} {
		g := newGates(t, gate.Options{})
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if problems, err := g.LoadFile(path); err != nil || problems != nil {
			t.Fatal(problems, err)
		}
		if got := enabled(t, g); got != "Done FastPath" {
			t.Errorf("%s\non %s", text, got)
		}
		text = strings.Replace(text, "featureGates", "other", 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if problems, err := g.LoadFile(path); err != nil || problems != nil || enabled(t, g) != "Done Tuned" {
			t.Error("without gates:", problems, err, enabled(t, g))
		}
		for key, want := range map[string]string{
			"featureGate": "featureGate sets no gate; the key is featureGates", "featuregates": "featuregates sets no gate", "featureGates: [FastPath]\nx": "featureGates is no mapping of gates",
		} {
			if err := os.WriteFile(path, []byte(strings.Replace(text, "other", key, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := g.LoadFile(path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

func TestWarningsOfFlips(t *testing.T) {
	d := demo()
	on := v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.3.0", Default: &yes}
	behaviour := v1alpha1.FeatureSpec{Gate: "Behaviour", Stages: stages(alpha[0], on)}
	field := v1alpha1.FeatureSpec{Gate: "Part", Stages: stages(alpha[0], on), Parts: d.Features[8].Parts}
	d.Features = []v1alpha1.FeatureSpec{behaviour, field}
	for _, tt := range []struct {
		release, set string
		says         string
	}{
		{"v1.2.0", "", "will be on by default"}, {"v1.2.0", "true", ""}, {"v1.3.0", "", ""}, {"v1.3.0", "false", "is on by default since"},
	} {
		b := &book{}
		o := b.options()
		o.Release = tt.release
		if tt.set != "" {
			o.Environ = []string{"DEMO_OP_BEHAVIOUR=" + tt.set}
		}
		g, err := gate.New(d, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(g.Begin(), g.Begin()); err != nil {
			t.Fatal(err)
		}
		lines := b.with("warning")
		if tt.says == "" && len(lines) > 0 || tt.says != "" && (len(lines) != 1 || !strings.Contains(lines[0], tt.says) || !strings.Contains(lines[0], "v1.3.0")) {
			t.Errorf("%s, %q: %v", tt.release, tt.set, lines)
		}
	}
}

// TestALiveChangeToOffWarnsOfTheFlip, also if no release is named, by the convention of Tekton (TEP-0033, promoting behavior flags).
func TestALiveChangeToOffWarnsOfTheFlip(t *testing.T) {
	for _, tt := range []struct {
		convention v1alpha1.Convention
		stages     []v1alpha1.FeatureStage
		want       string
	}{
		{"", stages(alpha[0], v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.3.0", Default: &yes}), `will be on by default from v1.3.0 on: set behaviour: "true" to try it now, or behaviour: "false" to keep it off`},
		{v1alpha1.ConventionTekton, alpha, `may be on by default in a later release: set behaviour: "true" to try it now, or behaviour: "false" to keep it off`},
		{"", alpha, ""},
		{v1alpha1.ConventionTekton, stages(v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.0.0", Default: &yes}, v1alpha1.FeatureStage{Stage: v1alpha1.Deprecated, Release: "v1.1.0"}), ""},
		{v1alpha1.ConventionTekton, stages(v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.0.0", Default: &yes}), "is off, although it is on by default: a later release may remove the gate"},
		{"", stages(v1alpha1.FeatureStage{Stage: v1alpha1.Alpha, Release: "v1.0.0"}, v1alpha1.FeatureStage{Stage: v1alpha1.Beta, Release: "v1.1.0", Default: &yes}), "is off, although it is on by default since v1.1.0"},
	} {
		d := demo()
		d.Spec.Convention = tt.convention
		d.Features = []v1alpha1.FeatureSpec{{Gate: "Behaviour", Stages: tt.stages}}
		b := &book{}
		g, err := gate.New(d, b.options())
		if err != nil {
			t.Fatal(err)
		}
		g.Set(gate.ConfigMap, map[string]string{"behaviour": "true"}, "")
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		if lines := b.with("warning"); len(lines) > 0 {
			t.Errorf("while it is on: %v", lines)
		}
		g.Set(gate.ConfigMap, map[string]string{"behaviour": "false"}, "")
		if lines := b.with("warning"); (tt.want == "") != (len(lines) == 0) || tt.want != "" && !strings.Contains(strings.ReplaceAll(lines[0], `\`, ""), tt.want) {
			t.Errorf("%s: %v", tt.want, lines)
		}
	}
}

func TestBadDeclarationsAreRefusedWithAllErrors(t *testing.T) {
	d := demo()
	d.Features = append(d.Features, v1alpha1.FeatureSpec{Gate: "kebab-case", Stages: alpha}, v1alpha1.FeatureSpec{Gate: "Orphan", Stages: alpha, Requires: []string{"Fastpath"}})
	_, err := gate.New(d, gate.Options{})
	var invalid *feature.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Findings) < 2 {
		t.Errorf("error %v", err)
	}
}

func TestUnknownGatesAreOff(t *testing.T) {
	b := &book{}
	g := newGates(t, b.options())
	for range 3 {
		if g.Enabled("Unknown") {
			t.Error("on")
		}
	}
	if n := len(b.with("Unknown")); n != 1 {
		t.Errorf("told %d times", n)
	}
	if _, ok := g.State("Unknown"); ok {
		t.Error("it has a state")
	}
}

func TestMetrics(t *testing.T) {
	g := newGates(t, gate.Options{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(g.Collector())
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, on := range []float64{1, 0} {
		g.Set(gate.ConfigMap, map[string]string{"fast-path": strconv.Itoa(int(on))}, "")
		for name, gatherer := range map[string]prometheus.Gatherer{"own": registry, "component-base": legacyregistry.DefaultGatherer} {
			if got := metric(t, gatherer, "FastPath", "ALPHA"); got != on {
				t.Errorf("%s has %v, want %v", name, got, on)
			}
		}
	}
	if got := metric(t, registry, "Done", ""); got != 1 {
		t.Errorf("a stable feature has %v", got)
	}
}

// metric returns the value of kubernetes_feature_enabled, -1 where there is none.
func metric(t *testing.T, gatherer prometheus.Gatherer, gate, stage string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == skew.Metric && labels["name"] == gate && labels["stage"] == stage {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func TestManifestsDefineTheSame(t *testing.T) {
	d := demo()
	text, err := d.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"status:", "creationTimestamp"} {
		if strings.Contains(string(text), unwanted) {
			t.Errorf("there is a %s", unwanted)
		}
	}
	for _, want := range []string{"kind: Component", "name: demo-op.fast-path", "component: demo-op"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing", want)
		}
	}
	c, features := d.Objects()
	m, findings := feature.Define(c, features, feature.Options{})
	if err := findings.Err(); err != nil || len(m.Features()) != len(d.Features) {
		t.Errorf("%v, %d features", err, len(m.Features()))
	}
}

func TestConcurrentUse(t *testing.T) {
	g := newGates(t, gate.Options{})
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				// FastPath and what requires it change together.
				s := g.States()
				needy, _ := s.State("Needy")
				fast, _ := s.State("FastPath")
				if needy.Open && !fast.Open {
					t.Error("a state of two times")
				}
				g.Enabled("FastPath")
				g.Evaluator()
			}
		})
	}
	for i := range 100 {
		on := []string{"true", "false"}[i%2]
		g.Set(gate.ConfigMap, map[string]string{"feature-gates": "FastPath=" + on + ",Needy=" + on}, "")
	}
	wg.Wait()
	if diff := cmp.Diff("Done Tuned", enabled(t, g)); diff != "" {
		t.Error(diff)
	}
}
