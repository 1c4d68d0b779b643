package contain

// What is compared, and under which circumstances? For example, the version of Kubernetes decides which formats are checked. Comparisons may
// share what they have learnt: parsed rules, translated schemas, and what the search found out about formulas.

import (
	"regexp"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/schema"
	"sluice.dev/schema/contain/internal/celrule"
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
	// StatusUnchecked says that the API server does not check embedded resources in .status, as in requests to the status subresource. It
	// only reads their apiVersion, kind and metadata.
	StatusUnchecked bool
}

func (s *Side) rootPlace() place {
	return place{node: s.Node, pos: atRoot, unchecked: s.StatusUnchecked}
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
	// Work, if not nil, counts the work instead, together with that of other comparisons.
	Work *Work
	// Only, if not nil, selects the gaps to look for by keyword and harm. Others are ignored, and Contained then says nothing about them.
	Only func(*Gap) bool
	// Trace, if not nil, is called for each step of the comparison, in order, with the question about a place and its answer.
	Trace func(Event)
	// Draft leaves out the last word of the API server's own code about witnesses: the caller judges them itself, with
	// [upstream.Validator.Exact].
	Draft bool
	// Within, if not nil, is a schema that accepts at each place what old accepts there. What it says of a place need not be proven of old.
	Within *Side
	// StatusWrites is set if the status subresource is served: objects whose status cannot be written any more are stuck, too. Before 1.33
	// the API server does not ratchet such writes.
	StatusWrites bool
	// Converted is set if a webhook converts stored objects to the version: they need not have the defaults of the new schema.
	Converted bool
	// Shared, if not nil, keeps the results of a comparison for the next one. It is for comparisons with the same Work and KubeVersion,
	// one after the other.
	Shared *Shared
}

// Shared is the common memory of comparisons: parsed rules, translated schemas, and what the search found out about them. The zero
// value is ready for use.
type Shared struct {
	lib        *library
	translator *translator
	memory     *logic.Memory
	compiled   upstream.RuleCache
}

// Work counts the work of comparisons: formulas visited, steps of automata, rules translated, values compared, objects confirmed. A
// unit takes less than a microsecond and allocates less than a kilobyte, so that a limit bounds time and memory. It holds no clock: the
// same question costs the same on every machine.
type Work = logic.Work

// NewWork returns a counter with a limit.
func NewWork(limit int64) *Work { return logic.NewWork(limit) }

// DefaultBudget is the limit of the work of a comparison if none is given.
const DefaultBudget = 4_000_000

// orDefault returns v, or d if v is the zero value of its type.
func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

func (o *Options) groupOrDefault() string { return orDefault(o.Group, "example.com") }

func (o *Options) versionOrDefault() string { return orDefault(o.Version, "v1") }

func (o *Options) kindOrDefault() string { return orDefault(o.Kind, "Example") }

func (o *Options) apiVersion() string { return o.groupOrDefault() + "/" + o.versionOrDefault() }

func (o *Options) solverStrings() logic.Strings { return o.sharedLibrary() }

// sharedLibrary returns the library that all comparisons with these options share, and makes it at the first use. The
// compiled rules of the API server's code are charged to the same Work.
func (o *Options) sharedLibrary() *library {
	if o.Shared == nil {
		o.Shared = &Shared{}
	}
	if o.Shared.lib == nil {
		o.Shared.lib = newLibrary(o.Work)
		o.Shared.compiled.Bound(o.Work.Charge)
	}
	return o.Shared.lib
}

// sharedTranslator returns the translator of all comparisons that share it.
func (o *Options) sharedTranslator() *translator {
	o.sharedLibrary()
	if o.Shared.translator == nil {
		o.Shared.translator = newTranslator(o)
	}
	return o.Shared.translator
}

// formulaMemory returns what is known about formulas. It drops most of that if there is no room for more.
func (o *Options) formulaMemory() *logic.Memory {
	o.sharedLibrary()
	if o.Shared.memory == nil || o.Shared.memory.Full() {
		o.Shared.memory = &logic.Memory{}
	}
	return o.Shared.memory
}

// upstreamOptions describes the objects of one side for the upstream code.
func (o *Options) upstreamOptions(s *Side) upstream.Options {
	return upstream.Options{
		Group: o.groupOrDefault(), Version: o.versionOrDefault(), Kind: o.kindOrDefault(), Namespaced: o.Namespaced, KubeVersion: o.KubeVersion,
		StatusUnchecked: s.StatusUnchecked,
	}
}

// library answers the solver's questions about strings, and caches parsed patterns and rules.
type library struct {
	work     *Work
	compiled map[string]*regexp.Regexp
	patterns map[string]*regular.Pattern
	rules    map[string]parsedRule
	filled   map[*schema.Node]string
}

// newLibrary returns a library that has parsed nothing yet and charges w.
func newLibrary(w *Work) *library {
	return &library{work: w, compiled: map[string]*regexp.Regexp{}, rules: map[string]parsedRule{}, filled: map[*schema.Node]string{}, patterns: map[string]*regular.Pattern{}}
}

// parsedRule is a rule that has been parsed once for all its uses.
type parsedRule struct {
	rule *celrule.Rule
	err  error
}

// MatchPattern implements [logic.Checker].
func (l *library) MatchPattern(expr, s string) bool {
	re := l.compiledRegexp(expr)
	return re != nil && re.MatchString(s)
}

// compiledRegexp returns the compiled expression, nil if it does not compile.
func (l *library) compiledRegexp(expr string) *regexp.Regexp {
	re, ok := l.compiled[expr]
	if !ok {
		re, _ = regexp.Compile(expr)
		l.compiled[expr] = re
	}
	return re
}
