package feature

// Is a feature open, and why? One table of precedence decides: stage and maxLevel, what it requires, what implies it,
// its key, the level, AllAlpha and AllBeta, its default, and at last the processes that it needs. The policies write
// the same table in CEL (feature/policy/gates.go), and a differential test compares both.

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/api/v1alpha1"
)

// Why says what decided whether a feature is open, in the order of precedence. Processes come last, on top of all.
type Why string

// The possible causes.
const (
	// WhyUnborn: the feature's first stage has not begun.
	WhyUnborn Why = "unborn"
	// WhyLocked: the default cannot be changed.
	WhyLocked Why = "locked"
	// WhyMaxLevel: the stage is beyond the component's maxLevel.
	WhyMaxLevel Why = "max-level"
	// WhyRestart: it stays as it was when the process started, see [Settings.Pin].
	WhyRestart Why = "restart"
	// WhyRequires: a required feature is closed.
	WhyRequires Why = "requires"
	// WhyImplied: the level opens it, and its key has no effect.
	WhyImplied Why = "implied-by-level"
	// WhyImpliedBy: a feature that implies it is open, and its key has no effect.
	WhyImpliedBy Why = "implied-by"
	// WhyKey: its own key or its entry among the gates.
	WhyKey Why = "key"
	// WhyLevel: the level.
	WhyLevel Why = "level"
	// WhyStage: AllAlpha or AllBeta.
	WhyStage Why = "all-of-stage"
	// WhyDefault: the stage's default.
	WhyDefault Why = "default"
	// WhyProcess: a required process does not report it as on.
	WhyProcess Why = "process"
)

// Runtime has the reports of running processes.
type Runtime struct {
	// Processes holds, for each process that has reported, what it says of gates. A gate that it does not mention is off.
	Processes map[string]map[string]bool
	// AssumeProcesses takes all required processes as reporting on, for use offline.
	AssumeProcesses bool
}

// States says of each feature of a model whether it is open.
type States struct {
	model  *Model
	level  v1alpha1.Level
	list   []State // sorted by gate
	byGate map[string]*State
	watch  func() func(gate string) // see Watched; may be nil
}

// State says whether a feature is open, and why.
type State struct {
	// Feature is the feature.
	Feature *Feature
	// Open reports whether the settings open the feature for everybody.
	Open bool
	// Why says what decided Open.
	Why Why
	// Reason says the same in a sentence without an end.
	Reason string
	// Fix says what to set to open a closed feature, or that it cannot be opened; empty if it is open.
	Fix string

	own       bool // open, without its requirements and the features that imply it
	allowed   bool // the settings say allowed, see OptIn
	processes bool // all required processes report it
}

// Level returns the level in force, maxLevel and the component's default taken into account.
func (st *States) Level() v1alpha1.Level { return st.level }

// All returns the states sorted by gate.
func (st *States) All() []State {
	st.askedAll()
	return slices.Clone(st.list)
}

// State returns the state of a gate; ok is false if there is no such feature.
func (st *States) State(gate string) (s State, ok bool) {
	st.tellAsked(gate)
	if p := st.byGate[gate]; p != nil {
		return *p, true
	}
	return State{}, false
}

// Access says for whom a feature is open.
type Access string

// The three states.
const (
	// Disabled: for nobody.
	Disabled Access = "disabled"
	// Allowed: for those who opt in, as the component's optIn lets them.
	Allowed Access = "allowed"
	// Enabled: for everybody.
	Enabled Access = "enabled"
)

// Access says for whom a feature is open. An unknown gate is disabled.
func (st *States) Access(gate string) Access {
	s, ok := st.State(gate)
	switch {
	case !ok:
	case s.Open:
		return Enabled
	// A user who opts in to every feature that the component allows.
	case st.OpenFor(gate, func(string) bool { return true }):
		return Allowed
	}
	return Disabled
}

// OpenFor reports whether a feature is open for a user who opted in to some features; optedIn may be nil. An unknown gate is closed.
func (st *States) OpenFor(gate string, optedIn func(gate string) bool) bool {
	st.tellAsked(gate)
	q := &question{states: st, optedIn: optedIn}
	return q.isOpenFor(st.byGate[gate])
}

// question asks which features are open for one user and namespace. It asks about each feature once.
type question struct {
	states  *States
	optedIn func(gate string) bool
	known   map[*State]bool
}

// isOpenFor reports whether a feature is open for the user. It asks optedIn only if the settings leave the feature
// closed.
func (q *question) isOpenFor(s *State) bool {
	switch {
	case s == nil:
		return false
	case s.Open:
		return true
	case q.optedIn == nil:
		return false
	}
	open, known := q.known[s]
	if !known {
		open = q.byOptIn(s)
		if q.known == nil {
			q.known = map[*State]bool{}
		}
		q.known[s] = open
	}
	return open
}

// byOptIn reports whether opting in opens a feature that is closed. The features that it requires must be open for the
// same user, and a process that lacks the feature keeps it closed for all.
func (q *question) byOptIn(s *State) bool {
	f := s.Feature
	if f.Locked || f.isCapped() || !s.processes {
		return false
	}
	open := func(gate string) bool { return q.isOpenFor(q.states.byGate[gate]) }
	if !s.own && !slices.ContainsFunc(f.Spec.ImpliedBy, open) && (!s.OptIn() || !q.optedIn(f.Spec.Gate)) {
		return false
	}
	return !slices.ContainsFunc(f.Spec.Requires, func(gate string) bool { return !open(gate) })
}

// Alone reports whether the settings open the feature, without its requirements, features that imply it, and reports of processes.
// A feature is open if it or one that implies it is open alone, if [State.Reported], and if all that it requires is open. For a locked
// feature, or one beyond maxLevel, Alone is the answer.
func (s *State) Alone() bool { return s.own }

// OptIn reports whether users who opt in can open the feature while the settings do not: the component allows it. If opting in is
// limited to allowed features ([v1alpha1.OptIn].OnlyAllowed), the settings must allow this one.
func (s *State) OptIn() bool {
	return s.Feature.CanOptIn() && (s.allowed || !s.Feature.model.component.OptIn.OnlyAllowed)
}

// Reported reports whether all processes that the feature needs report it as on.
func (s *State) Reported() bool { return s.processes }

// Free reports whether settings, requirements and opting in have an effect: the feature is neither locked nor beyond maxLevel nor
// still to come.
func (f *Feature) Free() bool { return f.Entry >= 0 && !f.Locked && !f.isCapped() }

// Resolve says of each feature whether it is open. Nil settings say nothing.
func (m *Model) Resolve(s *Settings, rt Runtime) *States {
	st := &States{model: m, level: m.levelBy(s), byGate: make(map[string]*State, len(m.features))}
	st.list = make([]State, len(m.features))
	for i, f := range m.features {
		st.list[i].Feature = f
		st.byGate[f.Spec.Gate] = &st.list[i]
	}
	r := &resolver{states: st, settings: s, runtime: rt, done: make(map[*State]bool, len(m.features))}
	for i := range st.list {
		r.resolveState(&st.list[i])
	}
	return st
}

// Defaults says of each feature whether it is open while nothing is set, and all processes that it needs report it as on.
func (m *Model) Defaults() *States { return m.Resolve(nil, Runtime{AssumeProcesses: true}) }

// levelBy returns the level in force with settings.
func (m *Model) levelBy(s *Settings) v1alpha1.Level {
	level := m.component.DefaultLevel
	if l, set := s.Level(); set {
		level = l
	}
	if levelRank(level) > levelRank(m.component.MaxLevel) {
		return m.component.MaxLevel
	}
	return level
}

type resolver struct {
	states   *States
	settings *Settings
	runtime  Runtime
	done     map[*State]bool
}

// others is what the features and processes that a feature depends on contribute to its state.
type others struct {
	missing []string // required features that are closed
	implied string   // the first open feature that implies it
	absent  []string // required processes that do not report it as on
}

// othersOf computes the states of the features that this one requires and that imply it. A model has no circular definitions.
func (r *resolver) othersOf(f *Feature) (o others) {
	for _, name := range f.Spec.Requires {
		x := r.states.byGate[name]
		if x != nil {
			r.resolveState(x)
		}
		if x == nil || !x.Open {
			o.missing = append(o.missing, name)
		}
	}
	for _, name := range f.Spec.ImpliedBy {
		if x := r.states.byGate[name]; x != nil {
			r.resolveState(x)
			if x.Open && o.implied == "" {
				o.implied = name
			}
		}
	}
	for _, p := range f.Spec.RequiredProcesses {
		if !r.runtime.AssumeProcesses && !r.runtime.Processes[p][f.Spec.Gate] {
			o.absent = append(o.absent, p)
		}
	}
	return o
}

// resolveState computes one state, after those of the features that it depends on.
func (r *resolver) resolveState(s *State) {
	if r.done[s] {
		return
	}
	r.done[s] = true
	f := s.Feature
	o := r.othersOf(f)
	s.processes = o.absent == nil
	s.allowed = r.settings.allowsOptIn(f.Spec.Gate)

	v := r.ownVerdict(f)
	fixed := v.why == WhyUnborn || v.why == WhyLocked || v.why == WhyMaxLevel
	if own, ok := r.settings.pinnedValue(f.Spec.Gate); ok && !fixed && own != v.open {
		v = verdict{own, WhyRestart, fmt.Sprintf("it was %s at the start, and a change takes a restart", OnOff(own))}
	}
	s.own = v.open
	if !fixed {
		v = o.decideVerdict(v)
	}
	if v.open && !s.processes {
		v = verdict{why: WhyProcess, reason: fmt.Sprintf("%s does not report it as on", strings.Join(o.absent, " and "))}
	}
	s.Open, s.Why, s.Reason = v.open, v.why, v.reason
	if !s.Open {
		s.Fix = clipText(r.fixFor(s, o.absent))
	}
}

// decideVerdict lets the features that imply this one, and those that it requires, overrule its own verdict.
func (o *others) decideVerdict(v verdict) verdict {
	switch {
	case o.missing != nil:
		return verdict{why: WhyRequires, reason: fmt.Sprintf("%s, which it requires, is off", strings.Join(o.missing, " and "))}
	case !v.open && o.implied != "":
		return verdict{true, WhyImpliedBy, fmt.Sprintf("%s, which implies it, is on", o.implied)}
	}
	return v
}

// verdict is the answer of one row of the table of precedence.
type verdict struct {
	open   bool
	why    Why
	reason string
}

// opensAt reports whether a level opens what is of the feature's level.
func (f *Feature) opensAt(level v1alpha1.Level) bool {
	if level == v1alpha1.LevelStable && f.IsLifted() {
		level = v1alpha1.LevelBeta
	}
	return levelRank(f.Level) <= levelRank(level)
}

// ownVerdict goes through the table of precedence, without the rows that depend on other features and on processes.
func (r *resolver) ownVerdict(f *Feature) verdict {
	m, level := r.states.model, r.states.level
	value, set := r.settings.Gate(f.Spec.Gate)
	opens := f.opensAt(level)
	say := func(open bool, why Why, format string, args ...any) verdict {
		return verdict{open, why, fmt.Sprintf(format, args...)}
	}
	// The order of the cases is the table of precedence.
	switch {
	case f.Entry < 0:
		return say(false, WhyUnborn, "it comes with %s", Since(&f.Spec.Stages[0]))
	case f.Locked:
		return say(f.Default, WhyLocked, "it is %s", f.lockedText())
	case f.isCapped():
		return say(false, WhyMaxLevel, "the component's maxLevel is %s", m.component.MaxLevel)
	case f.Spec.ImpliedByLevel && opens:
		return say(true, WhyImplied, "%s is %s", m.component.LevelKey, level)
	case set:
		return say(value, WhyKey, "the settings say %s", OnOff(value))
	}
	all := f.GateOfStage()
	value, set = r.settings.Gate(all)
	switch {
	case f.FollowsLevel && (opens || !value):
		if opens && levelRank(f.Level) > levelRank(level) {
			return say(true, WhyLevel, "%s is %s, which opens what is beta in resources whose highest stage is Beta", m.component.LevelKey, level)
		}
		return say(opens, WhyLevel, "%s is %s", m.component.LevelKey, level)
	case set:
		return say(value, WhyStage, "%s is %t", all, value)
	}
	return say(f.Default, WhyDefault, "that is the default at stage %s", f.Stage)
}
