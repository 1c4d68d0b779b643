package gate

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// Options are what [New] may be told.
type Options struct {
	// Release is that of the program, which chooses among the stages; empty stands for what the declaration says.
	Release string
	// Resources are those that the features gate, with their schemas (see [feature.ResourceOf]); nil: paths are taken as they
	// are, and items of lists are not told apart by keys.
	Resources []feature.Resource
	// Environ is the environment in the form of os.Environ; nil: it is not looked at. See [Gates] for the names.
	Environ []string
	// EnvPrefix stands before the names; empty stands for the component's name in capitals with _ for -.
	EnvPrefix string
	// Logger gets changes, errors of settings and warnings; the zero value drops them.
	Logger logr.Logger
	// Gate is one that exists already, with other features perhaps; nil makes a new one, whose emulation version is the release.
	Gate featuregate.MutableVersionedFeatureGate
	// AssumeProcesses takes all processes that features require as having them on. Otherwise such a feature is off until
	// [Gates.SetRuntime] says that they do, as package feature/process has it.
	AssumeProcesses bool
}

// Source is a place that settings come from. The order is that in which they win.
type Source int

// The sources.
const (
	// Test is package featuretest.
	Test Source = iota
	// Flags is --feature-gates.
	Flags
	// Environment is the environment of the process: with the prefix DEMO, DEMO_FEATURE_GATES is A=true,B=false,
	// DEMO_ENABLE_API_FIELDS the level, and DEMO_FAST_PATH the key fast-path.
	Environment
	// File is a file, or a directory in which a ConfigMap is mounted.
	File
	// ConfigMap is the component's ConfigMap.
	ConfigMap

	sources
)

// String names the source.
func (s Source) String() string {
	if s < 0 || s >= sources {
		return "unknown"
	}
	return [sources]string{"test", "--feature-gates", "environment", "file", "ConfigMap"}[s]
}

// Problem is something wrong with a source of settings.
type Problem struct {
	Source Source
	// Message tells it in one line.
	Message string
	// Stays tells whether the source's earlier settings are in force because of it.
	Stays bool
}

// String names source and problem.
func (p Problem) String() string { return p.Source.String() + ": " + p.Message }

// Gates are the features of one component in one process. They are safe for use by any number of goroutines.
type Gates struct {
	declaration Declaration
	options     Options
	log         logr.Logger
	upstream    featuregate.MutableVersionedFeatureGate
	own         bool // the upstream gate is ours alone

	changing sync.Mutex // one change after the other, those who are told of it included
	mu       sync.Mutex // of what follows
	model    *feature.Model
	layers   [sources]layer
	version  string // of the ConfigMap
	runtime  feature.Runtime
	begun    bool
	pins     *feature.States // the state at Begin
	notified []func(changed []featuregate.Feature)
	told     map[string]bool // problems that are there and were logged
	warned   map[string]bool // warnings that were logged

	state    atomic.Pointer[state]
	observer atomic.Pointer[func(featuregate.Feature)]
	unknown  sync.Map // gates that were asked for and are none
}

// layer is what a source says.
type layer struct {
	data     map[string]string // in force
	given    bool              // data was good once
	problems []Problem         // of what was refused
}

// state is what is in force at a time. It is not changed.
type state struct {
	model *feature.Model
	// effective is what is on; ready the same if all processes had it on; settings the same without what takes a restart.
	effective, ready, settings *feature.States
	open                       map[featuregate.Feature]bool
	evaluator                  func() *feature.Evaluator
	problems                   []Problem
	version                    string
}

// New checks the declaration and registers its features. All errors of it are told at once, as [*feature.InvalidError].
func New(d Declaration, o Options) (*Gates, error) {
	if o.Release == "" {
		o.Release = d.Spec.Release
	}
	g := &Gates{declaration: d, options: o, log: o.Logger, upstream: o.Gate, told: map[string]bool{}, warned: map[string]bool{}, runtime: feature.Runtime{AssumeProcesses: o.AssumeProcesses}}
	if g.options.EnvPrefix == "" {
		g.options.EnvPrefix = envName(d.Name)
	}
	if err := g.define(o.Release); err != nil {
		return nil, err
	}
	if err := g.register(); err != nil {
		return nil, err
	}
	g.layers[Environment].data = g.environment()
	g.recompute()
	return g, nil
}

// define makes the model for a release.
func (g *Gates) define(release string) error {
	component, features := g.declaration.Objects()
	model, findings := feature.Define(component, features, feature.Options{Release: release, Resources: g.options.Resources})
	if err := findings.Err(); err != nil {
		return fmt.Errorf("the features of %s: %w", g.declaration.Name, err)
	}
	g.model = model
	return nil
}

// Enabled tells whether a feature is on in this process. A gate that was not declared is off; that is logged once.
func (g *Gates) Enabled(name featuregate.Feature) bool {
	if ask := g.observer.Load(); ask != nil {
		(*ask)(name)
	}
	open, known := g.state.Load().open[name]
	if !known {
		if _, told := g.unknown.LoadOrStore(name, true); !told {
			g.log.Error(nil, "a feature is asked for that was not declared; it counts as off", "feature", name, "component", g.declaration.Name)
		}
	}
	return open
}

// State says whether a feature is on, and why; ok is false for one that was not declared.
func (g *Gates) State(name featuregate.Feature) (s feature.State, ok bool) {
	return g.state.Load().effective.State(string(name))
}

// States says the same of all features.
func (g *Gates) States() *feature.States { return g.state.Load().effective }

// Model returns the features as they are at the release.
func (g *Gates) Model() *feature.Model { return g.state.Load().model }

// Evaluator judges requests by what is on now. It does not follow later changes.
func (g *Gates) Evaluator() *feature.Evaluator { return g.state.Load().evaluator() }

// FeatureGate returns the gate of k8s.io/component-base. It follows; setting anything in it directly does not last.
func (g *Gates) FeatureGate() featuregate.MutableVersionedFeatureGate { return g.upstream }

// Problems tells what is wrong with the settings, by source.
func (g *Gates) Problems() []Problem { return slices.Clone(g.state.Load().problems) }

// Report is what the process is to report, see [v1alpha1.FeatureReportSpec], with SettingsVersion, SettingsErrors and
// Features filled in.
func (g *Gates) Report() v1alpha1.FeatureReportSpec {
	const most, longest = 20, 500
	st := g.state.Load()
	out := v1alpha1.FeatureReportSpec{Component: g.declaration.Name, SettingsVersion: st.version}
	for _, p := range st.problems {
		if len(out.SettingsErrors) < most {
			out.SettingsErrors = append(out.SettingsErrors, clip(p.String(), longest))
		}
	}
	for _, s := range st.ready.All() {
		gate := s.Feature.Spec.Gate
		f := v1alpha1.ReportedFeature{Gate: gate, Enabled: s.Open, Why: clip(s.Reason, longest)}
		if w, _ := st.settings.State(gate); w.Open != s.Open {
			f.Pending = &w.Open
		}
		out.Features = append(out.Features, f)
	}
	return out
}

func clip(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// OnChange has do called after features were turned on or off, with their names, sorted, until stop is called. Calls come one
// after the other, from whoever brought the change; do is not to bring another.
func (g *Gates) OnChange(do func(changed []featuregate.Feature)) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := len(g.notified)
	g.notified = append(g.notified, do)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.notified[i] = nil
	}
}

// Observe has do called with each gate that is asked for, until stop is called; one observer at a time. It is for tests.
func (g *Gates) Observe(do func(name featuregate.Feature)) (stop func()) {
	before := g.observer.Swap(&do)
	return func() { g.observer.Store(before) }
}

// SetRuntime says what processes report; it decides about features with required processes.
func (g *Gates) SetRuntime(rt feature.Runtime) {
	g.change(func() { g.runtime = rt })
}

// change makes a change and tells those who want to know what became of it.
func (g *Gates) change(do func()) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	do()
	changed := g.recompute()
	notified := slices.Clone(g.notified)
	g.mu.Unlock()
	if changed == nil {
		return
	}
	for _, do := range notified {
		if do != nil {
			do(changed)
		}
	}
}

// Set gives what a source says now, in the form of a ConfigMap's data; nil: it says nothing. Version is that of the ConfigMap,
// for reports. What was wrong is returned, logged and kept in [Gates.Problems]; if something was, the source's earlier
// settings stay, or, where there are none, those of the new ones that can be read are taken.
func (g *Gates) Set(s Source, data map[string]string, version string) (problems []Problem) {
	g.change(func() {
		before := g.layers[s]
		g.layers[s] = layer{data: data, given: true}
		_, findings := g.parse()
		for _, f := range findings[s] {
			p := Problem{Source: s, Message: f.String()}
			if f.Severity == feature.Error {
				problems = append(problems, p)
			} else {
				g.warn(p)
			}
		}
		// Until Begin all is taken as it is: a flag that comes later may make it right.
		switch stays := g.begun && before.given; {
		case problems != nil && stays:
			for i := range problems {
				problems[i].Stays = true
			}
			g.layers[s] = layer{data: before.data, given: true, problems: problems}
		case problems != nil:
			g.layers[s] = layer{data: data}
		}
		if s == ConfigMap {
			g.version = version
		}
	})
	return slices.Clone(problems)
}

// Fail says that a source cannot be read: its earlier settings stay.
func (g *Gates) Fail(s Source, err error) {
	g.change(func() { g.layers[s].problems = []Problem{{Source: s, Message: err.Error(), Stays: g.layers[s].given}} })
}

// Begin ends the time in which everything may change: from now on, features that need a restart stay as they are. It logs
// what is on and warns of features whose default turns, or has turned, on while they are off. The error tells all that is
// wrong with flags, environment and file, which is for the program to end with; a ConfigMap is none of its own, so that what
// is wrong there is logged only. Later calls do nothing.
func (g *Gates) Begin() error {
	var wrong []string
	g.change(func() {
		if g.begun {
			return
		}
		g.begun = true
		st := g.state.Load()
		g.pins = st.settings
		for _, p := range st.problems {
			if p.Source != ConfigMap {
				wrong = append(wrong, p.String())
			}
		}
		for _, s := range st.effective.All() {
			g.log.Info("feature", "component", g.declaration.Name, "feature", s.Feature.Spec.Gate, "enabled", s.Open, "why", s.Reason)
		}
		g.warnOfFlips()
	})
	if wrong != nil {
		return &SettingsError{Problems: wrong}
	}
	return nil
}

// SettingsError says that settings which the program was started with are wrong.
type SettingsError struct {
	// Problems has a line for each.
	Problems []string
}

// Error has a line for each problem.
func (e *SettingsError) Error() string { return strings.Join(e.Problems, "\n") }

// warnOfFlips logs a warning for each feature that gates behaviour only, is off, and is announced to be on by default, or is
// so already: its users are to know before it happens, and after (TEP-0033).
func (g *Gates) warnOfFlips() {
	for _, s := range g.state.Load().effective.All() {
		at, done, ok := s.Feature.Flip()
		if !ok || s.Open || len(s.Feature.Spec.Parts) > 0 {
			continue
		}
		when := at.Release
		if when == "" {
			when = at.Date
		}
		text := "this feature is off; it will be on by default"
		if done {
			text = "this feature is off; it is on by default"
		}
		g.log.Info("warning: "+text, "component", g.declaration.Name, "feature", s.Feature.Spec.Gate, "since", when, "why", s.Reason)
	}
}

// parse reads all layers.
func (g *Gates) parse() (*feature.Settings, []feature.Findings) {
	data := make([]map[string]string, sources)
	for i := range g.layers {
		data[i] = g.layers[i].data
	}
	return g.model.ParseLayers(data...)
}

// recompute makes the state anew and returns what has changed since Begin. The lock is held.
func (g *Gates) recompute() []featuregate.Feature {
	settings, findings := g.parse()
	st := &state{model: g.model, version: g.version, open: map[featuregate.Feature]bool{}}
	all, rt := feature.Runtime{AssumeProcesses: true}, g.runtime
	st.settings = g.model.Resolve(settings, all)
	if g.layers[Test].data != nil {
		rt = all
	} else if g.pins != nil {
		settings = settings.Pin(g.pins, g.model.Restart()...)
	}
	st.ready = g.model.Resolve(settings, all)
	st.effective = g.model.Resolve(settings, rt)
	st.evaluator = sync.OnceValue(st.effective.Compile)
	for i := range g.layers {
		st.problems = append(st.problems, g.layers[i].problems...)
		for _, f := range findings[i] {
			if f.Severity == feature.Error {
				st.problems = append(st.problems, Problem{Source: Source(i), Message: f.String()})
			}
		}
	}
	for _, s := range st.effective.All() {
		st.open[featuregate.Feature(s.Feature.Spec.Gate)] = s.Open
	}
	before := g.state.Swap(st)
	g.follow(st)
	if !g.begun {
		return nil
	}
	return g.announce(before, st)
}

// announce logs what has changed, and returns it.
func (g *Gates) announce(before, now *state) (changed []featuregate.Feature) {
	still := map[string]bool{}
	for _, p := range now.problems {
		key := p.String()
		if !g.told[key] {
			text := "a setting of features is wrong"
			if p.Stays {
				text += "; the earlier settings of the source stay"
			}
			g.log.Error(nil, text, "component", g.declaration.Name, "source", p.Source.String(), "problem", p.Message)
		}
		still[key] = true
	}
	g.told = still
	for _, s := range now.effective.All() {
		gate := s.Feature.Spec.Gate
		if name := featuregate.Feature(gate); before.open[name] != s.Open {
			changed = append(changed, name)
			g.log.Info("feature changed", "component", g.declaration.Name, "feature", gate, "enabled", s.Open, "why", s.Reason)
		}
		was, _ := before.settings.State(gate)
		will, _ := now.settings.State(gate)
		if ready, _ := now.ready.State(gate); will.Open != ready.Open && was.Open != will.Open {
			g.log.Info("this setting takes a restart of the process", "component", g.declaration.Name, "feature", gate, "enabled", ready.Open, "then", will.Open)
		}
	}
	return changed
}

// warn logs a warning once.
func (g *Gates) warn(p Problem) {
	const most = 1000
	if key := p.String(); !g.warned[key] && len(g.warned) < most {
		g.warned[key] = true
		g.log.Info("warning: "+p.Message, "component", g.declaration.Name, "source", p.Source.String())
	}
}

// Emulate makes the features those of an earlier release, with their stages, before anything else is done with the gates. Of
// a gate that was given ([Options]) the emulation version is left alone.
func (g *Gates) Emulate(release string) (err error) {
	g.change(func() {
		if g.begun {
			err = fmt.Errorf("the release %s comes too late: features are in use", release)
			return
		}
		if err = g.define(release); err != nil {
			return
		}
		g.layers[Environment].data = g.environment()
		if v := majorMinor(release); g.own && v != nil {
			err = g.emulate(v)
		}
	})
	return err
}
