package contain

import (
	"context"
	"regexp"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/logic"
	"sluice.dev/schema/contain/internal/regular"
	"sluice.dev/schema/upstream"
)

// Side is one schema of a comparison.
type Side struct {
	// Props is the schema as the CRD has it; nil for a version without one.
	Props *apiextensionsv1.JSONSchemaProps
	// Node is the same, from [schema.New].
	Node *schema.Node
}

// NewSide normalises a schema. The error is that of [schema.New].
func NewSide(props *apiextensionsv1.JSONSchemaProps) (Side, error) {
	n, err := schema.New(props)
	return Side{Props: props, Node: n}, err
}

// Options say under which circumstances schemas are compared. The zero value is usable for schemas of no particular
// resource.
type Options struct {
	// Group, Version and Kind are those of the objects; witnesses carry them. Defaults: example.com, v1, Example.
	Group, Version, Kind string
	Namespaced           bool
	// KubeVersion decides which formats are checked and whether updates are ratcheted; nil means the linked libraries'.
	KubeVersion *version.Version
	// Budget bounds the work of one comparison (default [DefaultBudget]), in units of [Work].
	Budget int64
	// Work, where not nil, counts the work instead, together with that of other comparisons.
	Work *Work
	// Tries is how many candidates are confirmed for one gap (default 48).
	Tries int
	// Only, where not nil, names the keywords that are looked at; others are passed over, and Contained then says nothing
	// about them.
	Only map[string]bool
	// Compiled says that somebody else makes sure that every rule of the new schema compiles, as the API server does
	// before it takes a CRD. Otherwise Decide does.
	Compiled bool

	lib *library
}

// Work counts the work of comparisons: formulas looked at, steps of automata, rules translated, values compared, objects
// confirmed. A unit takes less than a microsecond and allocates less than a kilobyte, so that a limit bounds time and memory.
// It holds no clock: the same question costs the same on every machine.
type Work = logic.Work

// NewWork returns a counter with a limit.
func NewWork(limit int64) *Work { return logic.NewWork(limit) }

// DefaultBudget is the limit of the work of a comparison where none is given.
const DefaultBudget = 4_000_000

// Result is the answer of [Decide].
type Result struct {
	// Verdict is Contained without gaps, NotContained where a gap has a witness, Unknown otherwise.
	Verdict Verdict
	// Gaps are in the order of the walk: by path, then keyword. Gaps that only change defaults (Redefaulted) do not make
	// the verdict anything but Contained: everything is still accepted and kept.
	Gaps []Gap
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

func (o *Options) group() string { return orDefault(o.Group, "example.com") }

func (o *Options) version() string { return orDefault(o.Version, "v1") }

func (o *Options) kind() string { return orDefault(o.Kind, "Example") }

func (o *Options) apiVersion() string { return o.group() + "/" + o.version() }

func (o *Options) strings() logic.Strings { return o.library() }

func (o *Options) library() *library {
	if o.lib == nil {
		o.lib = newLibrary()
	}
	return o.lib
}

// Decide decides whether every object that old accepts fares the same under new: it is accepted, nothing of it is
// pruned, and what is left out is defaulted alike. It never panics and always ends; what it could not decide within its
// budgets is Unknown. A context that is done ends it early, with what is left as Unknown.
func Decide(ctx context.Context, old, new Side, opts Options) Result {
	if old.Node.Hash() == new.Node.Hash() {
		return Result{Verdict: Contained}
	}
	o := &opts
	s := newComparison(old, new, o)
	r := Result{Verdict: Contained}
	suspects := s.suspects
	if o.Only != nil {
		suspects = slices.DeleteFunc(suspects, func(x suspect) bool { return !o.Only[x.gap.Keyword] })
	}
	for _, g := range s.resolve(ctx, suspects) {
		r.add(g)
	}
	if r.Verdict == Contained && !o.Compiled {
		for _, g := range s.badRules() {
			r.add(g)
		}
	}
	if s.cut != "" {
		r.add(Gap{Keyword: "schema", Verdict: Unknown, Reason: s.cut, Rule: -1})
	}
	return r
}

// newComparison walks the two schemas and notes what is not proven by the parts alone.
func newComparison(old, new Side, o *Options) *search {
	if o.Work == nil {
		o.Work = NewWork(orDefault(o.Budget, DefaultBudget))
	}
	t := newTranslator(o)
	w := &walker{opts: o, old: t, new: t, memory: &logic.Memory{}}
	w.solver = logic.Solver{Strings: o.strings(), Budget: max(1, orDefault(o.Budget, DefaultBudget)/wholeShare), Total: o.Work, Memory: w.memory}
	w.local = w.solver
	w.local.Budget /= localShare
	oldRoot, newRoot := place{node: old.Node, pos: atRoot}, place{node: new.Node, pos: atRoot}
	w.walk(oldRoot, newRoot)
	if w.cut == "" {
		w.cut = strange(old.Node, new.Node)
	}
	return &search{
		walker: w, oldRoot: oldRoot, sides: [2]Side{old, new},
		oldCut: upstream.NewProjector(old.Props, o.resource()), newCut: upstream.NewProjector(new.Props, o.resource()),
		newProps: new.Props,
	}
}

// wholeShare is what part of the budget one search in the whole may spend, localShare what part of that one in a part.
const (
	wholeShare = 8
	localShare = 2
)

// resource says to the upstream code what the objects are.
func (o *Options) resource() upstream.Options {
	return upstream.Options{
		Group: o.group(), Version: o.version(), Kind: o.kind(), Namespaced: o.Namespaced, KubeVersion: o.KubeVersion,
	}
}

func (r *Result) add(g Gap) {
	r.Gaps = append(r.Gaps, g)
	if g.Harm == Redefaulted {
		return
	}
	if g.Verdict == NotContained || r.Verdict == Contained {
		r.Verdict = g.Verdict
	}
}

// library answers the solver's questions about strings, and remembers what it has parsed.
type library struct {
	compiled  map[string]*regexp.Regexp
	languages map[string]*regular.Lang
	rules     map[string]parsedRule
}

func newLibrary() *library {
	return &library{compiled: map[string]*regexp.Regexp{}, rules: map[string]parsedRule{}, languages: map[string]*regular.Lang{}}
}

// MatchPattern implements [logic.Checker].
func (l *library) MatchPattern(expr, s string) bool {
	re := l.regexp(expr)
	return re != nil && re.MatchString(s)
}

// regexp returns the compiled expression, nil where it does not compile.
func (l *library) regexp(expr string) *regexp.Regexp {
	re, ok := l.compiled[expr]
	if !ok {
		re, _ = regexp.Compile(expr)
		l.compiled[expr] = re
	}
	return re
}

// MatchFormat implements [logic.Checker].
func (l *library) MatchFormat(name, s string) bool { return matchFormat(name, s) }

// Samples implements [logic.Strings].
func (l *library) Samples(format string) []string { return formats[format].samples }
