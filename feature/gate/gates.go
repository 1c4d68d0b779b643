package gate

// Which features are on in this process? Each source of settings is a layer, and every change makes a new
// state from all layers. Readers take the present state without a lock. For example, a ConfigMap that comes
// later changes nothing for a gate that the flag sets.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/component-base/featuregate"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
	"sluice.dev/internal/settings"
)

// Options are the options of [New].
type Options struct {
	// Release is the release of the program, which selects the stages; empty stands for that of the declaration.
	Release string
	// Resources are the resources that the features gate, with their schemas (see [feature.ResourceOf]). Without them, paths are
	// not checked, and items of lists have no keys.
	Resources []feature.Resource
	// Environ is the environment in the form of os.Environ; nil ignores it. See [Environment] for the names.
	Environ []string
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
	// Environment is the environment of the process: for the component demo, DEMO_FEATURE_GATES is A=true,B=false,
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
	// Message describes it in one line.
	Message string
	// Stays is true if the source's earlier settings stay in force because of it. If there never were any, none are in force.
	Stays bool

	refused bool // nothing of the new settings is taken
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

	changing   sync.Mutex // one change after the other, including the calls of observers
	mu         sync.Mutex // of what follows
	model      *feature.Model
	layers     [sources]layer
	failed     [sources]*Problem // why a source cannot be read
	remembered [sources]map[string]string
	version    string          // of the ConfigMap
	flags      string          // the value of --feature-gates
	direct     map[string]bool // set through the gate of component-base
	overridden map[string]bool // default overridden through the gate of component-base
	strays     []Problem       // variables of the environment that may have been meant for settings
	runtime    feature.Runtime
	begun      bool
	pins       *feature.States // the state at Begin
	told       map[string]bool // present problems that were logged
	warned     map[string]bool // warnings that were logged

	state    atomic.Pointer[state]
	notified observers[[]featuregate.Feature]
	watchers observers[featuregate.Feature]
	optIn    optIn
	unknown  sync.Map // requested gates that do not exist
}

// layer has the settings of a source.
type layer struct {
	data     map[string]string  // in force
	given    bool               // data was good once
	recalled bool               // set by Remember: errors in it are not errors of the present settings
	problems []Problem          // of the refused settings
	file     *settings.Settings // where data comes from; nil if it is no file
}

// problemOf returns a finding about the layer of a source, with its place.
func (l *layer) problemOf(s Source, f *feature.Finding) Problem {
	return Problem{Source: s, Message: l.file.PlaceOf(f).Tell(f.String())}
}

// state is the state at one time. It does not change.
type state struct {
	model *feature.Model
	// effective are the states in force. ready are the states if all processes had the features on. settings are the states if no feature
	// needed a restart.
	effective, ready, settings *feature.States
	given                      *feature.Settings // by the sources, without overridden defaults
	watched                    *feature.States   // the effective ones for others, with observers
	open                       map[featuregate.Feature]bool
	evaluator                  func() *feature.Evaluator
	problems, warnings         []Problem
	version                    string
}

// New checks the declaration and registers its features. It returns all errors at once, as [*feature.InvalidError].
func New(d Declaration, o Options) (*Gates, error) {
	if o.Release == "" {
		o.Release = d.Spec.Release
	}
	g := &Gates{declaration: d, options: o, log: o.Logger, upstream: o.Gate, told: map[string]bool{}, warned: map[string]bool{}, runtime: feature.Runtime{AssumeProcesses: o.AssumeProcesses}}
	if err := g.defineModel(o.Release); err != nil {
		return nil, err
	}
	if err := g.registerUpstream(); err != nil {
		return nil, err
	}
	g.layers[Environment].data, g.strays = g.readEnvironment()
	g.recompute()
	return g, nil
}

// defineModel makes the model for a release.
func (g *Gates) defineModel(release string) error {
	component, features := g.declaration.Objects()
	model, findings := feature.Define(component, features, feature.Options{Release: release, Resources: g.options.Resources})
	if err := findings.Err(); err != nil {
		return fmt.Errorf("the features of %s: %w", g.declaration.Name, err)
	}
	g.model = model
	return nil
}

// Enabled reports whether a feature is on in this process. A gate that was not declared is off; that is logged once.
func (g *Gates) Enabled(name featuregate.Feature) bool {
	st := g.state.Load()
	if len(g.watchers.registeredNow()) > 0 {
		st.watched.State(string(name))
	}
	open, known := st.open[name]
	if !known {
		if _, told := g.unknown.LoadOrStore(name, true); !told {
			g.log.Error(nil, "a feature is asked for that was not declared; it counts as off", "feature", name, "component", g.declaration.Name)
		}
	}
	return open
}

// State reports whether a feature is on, and why; ok is false for one that was not declared.
func (g *Gates) State(name featuregate.Feature) (s feature.State, ok bool) {
	return g.state.Load().watched.State(string(name))
}

// States says the same of all features.
func (g *Gates) States() *feature.States { return g.state.Load().watched }

// Model returns the features at the release.
func (g *Gates) Model() *feature.Model { return g.state.Load().model }

// Evaluator judges requests by the current state. It does not follow later changes.
func (g *Gates) Evaluator() *feature.Evaluator { return g.state.Load().evaluator() }

// FeatureGate returns the gate of k8s.io/component-base. It follows the gates, and they follow it: what Set, SetFromMap and its flag say of the
// features counts as the flag's, and after [Gates.Begin] for all that a test's settings count for, until ResetFeatureValueToDefault.
// So SetFeatureGateDuringTest of component-base works. An overridden default holds where no source sets the gate, nor its stage (AllAlpha,
// AllBeta), and an emulation version does what [Gates.Emulate] does. So the gate can be registered in component-base's ComponentGlobalsRegistry, with its
// flags --emulated-version and --feature-gates=COMPONENT:GATE=true. What is set in a gate that was given ([Options]) and is asked directly does
// not reach the gates.
func (g *Gates) FeatureGate() featuregate.MutableVersionedFeatureGate {
	return &watchedGate{g.upstream, g}
}

// Problems returns the problems of the settings, by source.
func (g *Gates) Problems() []Problem { return slices.Clone(g.state.Load().problems) }

// OnChange calls do, with the sorted names, after features were turned on or off, or allowed, until stop is called. At that time
// [Gates.Access] has changed already. Calls are sequential, in the goroutine of the change; do must not make another change.
func (g *Gates) OnChange(do func(changed []featuregate.Feature)) (stop func()) {
	return g.notified.addObserver(do)
}

// SetRuntime sets the reports of processes, which decide about features with required processes.
func (g *Gates) SetRuntime(rt feature.Runtime) {
	g.applyChange(func() { g.runtime = rt })
}

// applyChange makes a change and calls the observers.
func (g *Gates) applyChange(do func()) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	do()
	changed := g.recompute()
	g.mu.Unlock()
	if changed != nil {
		g.notified.notifyAll(changed)
	}
}

// Set sets the current settings of a source, in the form of a ConfigMap's data; nil means that it has none. version is the
// ConfigMap's, for reports. Set returns and logs the problems, and keeps them in [Gates.Problems]. If there are any, it takes none
// of the settings: the last good ones of the source stay, or none if there never were any. [Gates.Begin] decides this. Before that,
// readable settings count in spite of problems, because a later flag may correct them. In the ConfigMap of a component in live mode, a name
// that this release does not know, or that it does not let anybody set, stops nothing: the policies in the API server ignore it too.
func (g *Gates) Set(s Source, data map[string]string, version string) []Problem {
	return g.setLayer(s, layer{data: data}, version)
}

// setLayer sets the layer of a source. Once the process has begun, a layer with errors is refused as a whole. Before
// that it counts as far as it can be read, but is not kept as a good one to go back to.
func (g *Gates) setLayer(s Source, l layer, version string) (problems []Problem) {
	l.given = true
	g.applyChange(func() {
		before := g.layers[s]
		g.layers[s], g.failed[s] = l, nil
		var stop bool
		problems, stop = g.errorsOf(s)
		switch {
		case !stop:
		case g.begun:
			problems = g.refuseLayer(s, before, problems)
		default:
			g.layers[s].given = false
		}
		if s == ConfigMap {
			g.version = version
		}
	})
	return slices.Clone(problems)
}

// setDirect sets gates through the gate of component-base; nil stands for the default.
func (g *Gates) setDirect(values map[string]*bool) []Problem {
	g.mu.Lock()
	source := Flags
	if g.begun {
		source = Test
	}
	direct := maps.Clone(g.direct)
	if direct == nil {
		direct = map[string]bool{}
	}
	for name, on := range values {
		if delete(direct, name); on != nil {
			direct[name] = *on
		}
	}
	g.direct = direct
	data := g.directData(source)
	g.mu.Unlock()
	return g.Set(source, data, "")
}

// directData are the settings of a source with what was set through the gate of component-base; nil if there are none.
func (g *Gates) directData(s Source) map[string]string {
	var entries []string
	if s == Flags {
		for entry := range strings.SplitSeq(g.flags, ",") {
			name, _, _ := strings.Cut(entry, "=")
			if _, set := g.direct[strings.TrimSpace(name)]; !set && strings.TrimSpace(entry) != "" {
				entries = append(entries, entry)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.direct)) {
		entries = append(entries, fmt.Sprintf("%s=%t", name, g.direct[name]))
	}
	if entries == nil {
		return nil
	}
	return map[string]string{g.model.Spec().GatesKey: strings.Join(entries, ",")}
}

// stopsNothing reports whether policies ignore an entry of a source. If it stopped the others, process and API server would disagree on the
// whole ConfigMap for one key, such as one of a newer release after a rollback.
func (g *Gates) stopsNothing(s Source, f *feature.Finding) bool {
	ignored := []feature.Code{feature.CodeUnknownKey, feature.CodeUnknownGate, feature.CodeLocked}
	return s == ConfigMap && g.model.Spec().Mode == v1alpha1.Live && g.model.Spec().ConfigMap != nil && slices.Contains(ignored, f.Code)
}

// errorsOf returns the errors of a source. stop says that it is not taken because of them.
func (g *Gates) errorsOf(s Source) (out []Problem, stop bool) {
	_, _, findings := g.parseLayers()
	for _, f := range findings[s] {
		if f.Severity == feature.Error {
			out = append(out, g.layers[s].problemOf(s, &f))
			stop = stop || !g.stopsNothing(s, &f)
		}
	}
	return out, stop
}

// refuseLayer restores the earlier settings of a source because of problems, which it returns.
func (g *Gates) refuseLayer(s Source, before layer, problems []Problem) []Problem {
	for i := range problems {
		problems[i].Stays, problems[i].refused = before.given, true
	}
	before.problems = problems
	g.layers[s] = before
	return problems
}

// Remember sets the last good settings of a source from before the start of the process; nil if there are none. If the first
// settings that [Gates.Set] gets for the source are wrong, the readable ones of these are in force. Call it before [Gates.Begin].
func (g *Gates) Remember(s Source, data map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remembered[s] = data
}

// Fail says that a source cannot be read: its earlier settings stay. Nil says that it can be read again.
func (g *Gates) Fail(s Source, err error) {
	g.applyChange(func() {
		var failed *Problem
		if err != nil {
			failed = &Problem{Source: s, Message: err.Error(), Stays: g.layers[s].given}
			if s == File {
				g.layers[s].problems = nil // a file is read again as a whole once it can be read
			}
		}
		g.failed[s] = failed
	})
}

// Begin ends the time in which everything may change: from now on, features that need a restart stay as they are. It logs the features
// that are on. It warns about features that are off and whose default turns, or has turned, on, and so does each later change to off. The error lists all errors of flags,
// environment and file. The program should end with it: Begin has then changed nothing. Errors of a ConfigMap are only logged, and none
// of its settings are used, but for those of which [Gates.Set] says that they stop nothing. After it has succeeded, later calls do nothing.
func (g *Gates) Begin() error {
	var wrong []string
	g.applyChange(func() {
		if g.begun {
			return
		}
		st := g.state.Load()
		for _, p := range st.problems {
			if p.Source != ConfigMap {
				wrong = append(wrong, p.String())
			}
		}
		if wrong != nil {
			g.logProblems(st)
			return
		}
		// Up to now readable settings counted, because a flag might have corrected the others. From now on, wrong settings do not.
		if problems, stop := g.errorsOf(ConfigMap); stop {
			data := g.remembered[ConfigMap]
			g.refuseLayer(ConfigMap, layer{data: data, given: data != nil, recalled: true}, problems)
			g.recompute()
			st = g.state.Load()
		}
		g.begun = true
		g.pins = st.settings
		for _, s := range st.effective.All() {
			g.log.Info("feature", "component", g.declaration.Name, "feature", s.Feature.Spec.Gate, "enabled", s.Open, "why", s.Reason)
			g.warnOfFlip(&s)
		}
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

// parseLayers reads all layers: those of the sources alone, and with the overridden defaults behind them.
func (g *Gates) parseLayers() (given, settings *feature.Settings, findings []feature.Findings) {
	data := make([]map[string]string, sources)
	for i := range g.layers {
		data[i] = g.layers[i].data
	}
	given, findings = g.model.ParseLayers(data...)
	defaults := g.overriddenDefaults(given)
	if defaults == "" {
		return given, given, findings
	}
	settings, _ = g.model.ParseLayers(slices.Concat(data, []map[string]string{{g.model.Spec().GatesKey: defaults}})...)
	return given, settings, findings
}

// recompute makes the state again and returns the features that have changed since Begin. The lock is held.
func (g *Gates) recompute() []featuregate.Feature {
	given, settings, findings := g.parseLayers()
	st := &state{model: g.model, given: given, version: g.version, open: map[featuregate.Feature]bool{}}
	all, rt := feature.Runtime{AssumeProcesses: true}, g.runtime
	st.settings = g.model.Resolve(settings, all)
	// A test decides by itself: neither other processes nor restarts get in its way.
	if g.layers[Test].data != nil {
		rt = all
	} else if g.pins != nil {
		settings = settings.Pin(g.pins, g.model.Restart()...)
	}
	st.ready = g.model.Resolve(settings, all)
	st.effective = g.model.Resolve(settings, rt)
	st.watched = st.effective.Watched(g.lastWatcher)
	st.evaluator = sync.OnceValue(st.watched.Compile)
	st.warnings = slices.Clone(g.strays)
	for i := range g.layers {
		if p := g.failed[i]; p != nil {
			st.problems = append(st.problems, *p)
		}
		st.problems = append(st.problems, g.layers[i].problems...)
		for _, f := range findings[i] {
			if g.layers[i].recalled {
				break
			}
			p := g.layers[i].problemOf(Source(i), &f)
			if f.Severity == feature.Error {
				st.problems = append(st.problems, p)
			} else {
				st.warnings = append(st.warnings, p)
			}
		}
	}
	for _, s := range st.effective.All() {
		st.open[featuregate.Feature(s.Feature.Spec.Gate)] = s.Open
	}
	before := g.state.Swap(st)
	g.syncUpstream(st)
	if !g.begun {
		return nil
	}
	return g.logChanges(before, st)
}

// Emulate switches to the features of an earlier release, with their stages. Call it before anything else is done with the gates.
// It does not change the emulation version of a gate that was given ([Options]).
func (g *Gates) Emulate(release string) (err error) {
	g.applyChange(func() {
		if g.begun {
			err = fmt.Errorf("the release %s comes too late: features are in use", release)
			return
		}
		if err = g.defineModel(release); err != nil {
			return
		}
		g.layers[Environment].data, g.strays = g.readEnvironment()
		if v := majorMinor(release); g.own && v != nil {
			err = g.setEmulation(v)
		}
	})
	return err
}
