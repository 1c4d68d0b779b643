// Package certify checks proofs of containment. A proof is a list of steps, which the search wrote down. A step names a keyword of the
// new schema, a place, and the lemma by which the keyword refuses nothing that the old schema accepts. This package walks both schemas
// itself, demands a step for each keyword of the new one at each place that can be reached, and checks each step with code of its own.
// It shares nothing with the search: it has its own reading of schemas, its own refutation of formulas (which finds no values, and so
// is short), and its own automata.
//
// It does not check lemmas about validation rules. It counts them by name, as trusted.
package certify

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Step says why a keyword of the new schema refuses nothing that the old one accepts at a place.
type Step struct {
	// Path is the place, such as .spec.tasks[*].name; the root is empty.
	Path string `json:"path"`
	// Keyword is its JSON name, or one of [Subtree] and [Updates]; properties stands for pruning.
	Keyword string `json:"keyword"`
	// Detail is the property of required, the text of a rule, the index of a branch of allOf.
	Detail string `json:"detail,omitempty"`
	Lemma  Lemma  `json:"lemma"`
}

// Subtree is the keyword of a step about a whole schema, Updates that of one about a rule that restricts updates.
const (
	Subtree = "schema"
	Rules   = "x-kubernetes-validations"
	Updates = "x-kubernetes-validations on update"
)

// Lemma is the name of an argument.
type Lemma string

// The lemmas that are checked.
const (
	// EqualSubtree: both schemas are equal from this place on.
	EqualSubtree Lemma = "equal-subtree"
	// Equal: the old schema has the same keyword with the same meaning.
	Equal Lemma = "equal"
	// ImpliedHere: the old schema at the place implies it.
	ImpliedHere Lemma = "implied-here"
	// ImpliedByWhole: the old schema of the whole object implies it.
	ImpliedByWhole Lemma = "implied-by-whole"
	// SubtreeByWhole: the old schema of the whole object implies all of the new schema from this place on.
	SubtreeByWhole Lemma = "subtree-implied-by-whole"
)

// The lemmas that are trusted. So is [Equal] of a rule, if its form alone does not show that it sees the same values.
const (
	// WithRules: a keyword is implied once the validation rules of the old schema are taken into account.
	WithRules Lemma = "implied-with-rules"
	// SubtreeWithRules: the same for all of the new schema from a place on.
	SubtreeWithRules Lemma = "subtree-implied-with-rules"
	// RuleSameMeaning: the old schema has a rule with another text that means the same.
	RuleSameMeaning Lemma = "rule-same-meaning"
	// RuleImplied: the rule is a formula, and implied.
	RuleImplied Lemma = "rule-implied"
	// RuleByForm: the text of the rule shows that old rules imply it.
	RuleByForm Lemma = "rule-implied-by-form"
	// UpdateImplied: the rule about updates follows from the old schema and its rules about updates.
	UpdateImplied Lemma = "update-rule-implied"
	// RuleSeesSame: an equal rule sees the same values, judged by the names that it mentions.
	RuleSeesSame Lemma = "rule-sees-the-same"
	// OnlyOdd: the reported gap only concerns values that hardly any client writes.
	OnlyOdd Lemma = "only-odd-values"
	// TooLarge: the checker's own budget was spent on a step.
	TooLarge Lemma = "too-large-to-check"
)

// Certificate is a proof. A gap that is reported to the user needs no proof, nor do the places below it.
type Certificate struct {
	Steps    []Step `json:"steps"`
	Reported []Step `json:"reported,omitempty"`
}

// Resource has the facts about all objects of the resource, and the formats that the API server checks.
type Resource struct {
	APIVersion, Kind string
	// Format reports whether a format of strings, written without hyphens, is checked. NumberFormats says whether formats of numbers are
	// checked.
	Format        func(string) bool
	NumberFormats bool
	// OldUnchecked and NewUnchecked say of which schema embedded resources in .status are not checked, but read.
	OldUnchecked, NewUnchecked bool
}

// Result is the answer of [Verify].
type Result struct {
	// Verified counts the steps that were checked, Trusted those that were not, by the lemma.
	Verified int
	Trusted  map[Lemma]int
	// Refused has the place and the reason of each step that does not hold, or is missing.
	Refused []string
}

// The limits of the work for one step, with the place alone and with the whole object.
const (
	fuel      = 100_000
	wholeFuel = 1_000_000
)

type checker struct {
	translator
	Result
	root     place
	envelope formula
	steps    map[Step]Lemma // by all but the lemma
	reported map[Step]bool
	used     map[Step]bool
}

// Verify checks a certificate: whether its steps prove that the schema after accepts every value that the schema before accepts.
// A nil schema belongs to a version that has no schema.
func Verify(before, after *apiextensionsv1.JSONSchemaProps, cert Certificate, r Resource) Result {
	c := &checker{
		translator: translator{formats: r.Format, numbers: r.NumberFormats, made: map[lazyKey]formula{}},
		Result:     Result{Trusted: map[Lemma]int{}}, root: place{node: newNode(before), root: true, unchecked: r.OldUnchecked},
		steps: map[Step]Lemma{}, reported: map[Step]bool{}, used: map[Step]bool{},
	}
	constant := func(v string) formula { return oneOf([]any{v}) }
	c.envelope = and{
		is(object),
		present{name: "apiVersion"},
		prop{"apiVersion", constant(r.APIVersion)},
		present{name: "kind"},
		prop{"kind", constant(r.Kind)},
		present{name: "metadata"},
		prop{"metadata", and{is(object), present{name: "name"}, prop{"name", and{is(text), within{runes, 1, 253}}}}},
	}
	for _, s := range cert.Steps {
		lemma := s.Lemma
		s.Lemma = ""
		c.steps[s] = lemma
	}
	for _, s := range cert.Reported {
		c.reported[Step{Path: s.Path, Keyword: s.Keyword, Detail: s.Detail}] = true
	}
	c.walk(&spot{o: c.root, n: place{node: newNode(after), root: true, unchecked: r.NewUnchecked}})
	for s := range c.steps {
		if !c.used[s] && s.Keyword != "default" { // a refused default may follow from rules, which are not checked
			c.refuse(s, "nothing is to be proven there")
		}
	}
	slices.Sort(c.Refused)
	return c.Result
}

// spot is where the walk is.
type spot struct {
	o, n place
	path string
	// parent is the spot around it. wrap turns a formula about some value here into one about the parent.
	parent *spot
	wrap   func(formula) formula
	name   string // of a property, behind =
	// moved is set if updates find old values in another way. filled is set if the schemas fill in different defaults for this value;
	// after and before are these defaults.
	moved, filled bool
	after, before any
}

func (c *checker) refuse(s Step, format string, args ...any) {
	at := s.Path
	if at == "" {
		at = "the root"
	}
	c.Refused = append(c.Refused, strings.TrimSpace(fmt.Sprintf("step %s %s at %s: ", s.Keyword, s.Detail, at)+fmt.Sprintf(format, args...)))
}

// take returns the lemma of a step. It returns false if no step is needed, or if the step is missing, which it adds to the refused
// ones.
func (c *checker) take(s Step) (Lemma, bool) {
	whole := s
	whole.Detail = ""
	if c.reported[s] || c.reported[whole] && s.Keyword == "allOf" {
		c.used[s] = true
		return "", false
	}
	lemma, ok := c.steps[s]
	if !ok {
		c.refuse(s, "the proof says nothing about it")
		return "", false
	}
	c.used[s] = true // it may be used twice, if the rule occurs twice
	return lemma, true
}

// walk demands a step for each demand of the new schema at the spot and below.
func (c *checker) walk(x *spot) {
	here := Step{Path: x.path, Keyword: Subtree}
	if c.steps[here] == EqualSubtree {
		c.equalSubtree(x, here)
		return
	}
	if x.o.shape == gone || x.n.shape == free {
		return
	}
	switch x.n.shape {
	case gone:
		c.demand(x, "properties", "", and{})
		return
	case hollow:
		c.demand(x, "additionalProperties", "", not(c.accepts(x.n)))
		return
	case free, declared:
	}
	if x.parent != nil && x.name != "" && x.o.shape == declared && !sameDefault(x.o.node, x.n.node) {
		c.demandAt(x.parent, Step{Path: x.path, Keyword: "default"}, and{is(object), present{x.property(), true}})
	}
	typeStep := Step{Path: x.path, Keyword: "type"}
	if l := c.steps[typeStep]; l == SubtreeByWhole || l == SubtreeWithRules {
		c.subtree(x)
		return
	}
	if c.reported[typeStep] {
		c.skip(x.path)
		return
	}
	c.demandTypes(x)
	for _, p := range c.pieces(x.n) {
		if p.keyword == "x-kubernetes-list-type" && c.keysAreThere(x) {
			p.f = distinct{by: c.keys(x.o.node)}
		}
		c.demand(x, p.keyword, p.detail, not(p.f))
	}
	c.rules(x)
	c.below(x)
}

// demandTypes demands the proofs of type and nullable. A null of a property that is not allowed is dropped, not refused.
func (c *checker) demandTypes(x *spot) {
	allowed := c.types(x.n.node)
	atProperty := !x.n.item && !x.n.root
	if atProperty {
		allowed = or{is(null), allowed}
	}
	goal := not(allowed)
	if c.reported[Step{Path: x.path, Keyword: "format", Detail: "lists"}] {
		goal = and{is(anyKind &^ list), goal}
	}
	c.demand(x, "type", "", goal)
	if atProperty && !x.n.Nullable {
		c.demand(x, "nullable", "", is(null))
	}
}

// equalSubtree verifies that the schemas at the spot and below are the same.
func (c *checker) equalSubtree(x *spot, here Step) {
	c.used[here] = true
	equal := x.o.shape != declared && x.o.shape == x.n.shape || x.o.shape == declared && x.n.shape == declared && x.o.id == x.n.id && x.o.sameAround(x.n)
	switch {
	case !equal:
		c.refuse(here, "the schemas differ")
	case (x.moved || x.filled) && x.n.node != nil && updates(x.n.node):
		c.refuse(here, "updates compare other values")
	default:
		c.Verified++
	}
}

// subtree demands one proof for the whole new schema at the spot and below it. Such a proof covers neither defaults nor rules about
// updates: if there are any, it has to show that there is no value.
func (c *checker) subtree(x *spot) {
	empty := fills(x.n.node) != "" || x.o.node != nil && fills(x.o.node) != "" || updates(x.n.node)
	goal := not(c.accepts(x.n))
	if empty {
		goal = and{}
	}
	c.demand(x, "type", "", goal)
	c.skip(x.path)
	if !empty && anyRule(x.n.node) { // they are not part of the formula
		c.Trusted[RuleImplied]++
	}
}

// keysAreThere reports whether a list of type map identifies its items as before. Defaults of other keys do not matter if every old
// item has the keys.
func (c *checker) keysAreThere(x *spot) bool {
	if x.o.shape != declared || deref(x.o.XListType) != "map" || deref(x.n.XListType) != "map" {
		return false
	}
	before, after := c.keys(x.o.node), c.keys(x.n.node)
	if before.keys != after.keys || before.numbers != after.numbers {
		return false
	}
	return !slices.ContainsFunc(x.n.XListMapKeys, func(k string) bool {
		a, b := x.o.node.item.kids[k], x.n.node.item.kids[k]
		if a == nil || b == nil {
			return true
		}
		r := &refuter{fuel: fuel}
		return !sameDefault(a, b) && !r.closed(c.accepts(x.o.items()), is(object), present{k, true})
	})
}

func (x *spot) property() string { return strings.TrimPrefix(x.name, "=") }

// skip ignores the steps below a place with a reported gap.
func (c *checker) skip(path string) {
	for s := range c.steps {
		if rest, ok := strings.CutPrefix(s.Path, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			c.used[s] = true
		}
	}
}

// demand demands a proof that no value that the old schema accepts at the spot satisfies the goal.
func (c *checker) demand(x *spot, keyword, detail string, goal formula) {
	c.demandAt(x, Step{Path: x.path, Keyword: keyword, Detail: detail}, goal)
}

func (c *checker) demandAt(x *spot, s Step, goal formula) {
	lemma, ok := c.take(s)
	if !ok {
		return
	}
	if !slices.Contains([]Lemma{Equal, ImpliedHere, ImpliedByWhole, SubtreeByWhole, WithRules, SubtreeWithRules}, lemma) {
		c.refuse(s, "%s is no lemma about keywords", lemma)
		return
	}
	r := &refuter{fuel: fuel}
	if r.closed(c.accepts(x.o), goal) {
		c.Verified++
		return
	}
	for y := x; y.parent != nil; y = y.parent {
		goal = y.wrap(goal)
	}
	whole := &refuter{fuel: wholeFuel}
	closed := whole.closed(c.accepts(c.root), c.envelope, goal)
	if !closed && whole.fuel > 0 {
		whole = &refuter{fuel: wholeFuel, alone: true}
		closed = whole.closed(c.accepts(c.root), c.envelope, goal)
	}
	switch {
	case closed:
		c.Verified++
	case r.fuel <= 0 || whole.fuel <= 0:
		c.Trusted[TooLarge]++
	case (lemma == WithRules || lemma == SubtreeWithRules) && anyRule(c.root.node):
		c.Trusted[lemma]++
	case s.Keyword == "default" && anyRule(c.root.node): // the old schema may refuse its own default by a rule
		c.Trusted[WithRules]++
	default:
		c.refuse(s, "%s does not hold: the old schema leaves a value open", lemma)
	}
}

// rules demands a step for each rule, about objects and about updates.
func (c *checker) rules(x *spot) {
	if x.n.dark {
		return
	}
	for _, r := range x.n.XValidations {
		optional := r.OptionalOldSelf != nil && *r.OptionalOldSelf
		old := x.o.shape == declared && !x.o.dark && slices.ContainsFunc(x.o.XValidations, func(o apiextensionsv1.ValidationRule) bool {
			return o.Rule == r.Rule && optional == (o.OptionalOldSelf != nil && *o.OptionalOldSelf)
		})
		onUpdate := mentions("oldSelf").MatchString(r.Rule)
		if !onUpdate || optional {
			c.rule(x, Step{Path: x.path, Keyword: Rules, Detail: r.Rule}, old, RuleSameMeaning, RuleImplied, RuleByForm)
		}
		if onUpdate {
			c.rule(x, Step{Path: x.path, Keyword: Updates, Detail: r.Rule}, old && !x.moved && !x.filled, RuleByForm, UpdateImplied)
		}
	}
}

// mentions finds a name in the text of a rule.
func mentions(name string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
}

func (c *checker) rule(x *spot, s Step, old bool, trusted ...Lemma) {
	lemma, ok := c.take(s)
	switch {
	case !ok:
	case lemma == Equal && !old:
		c.refuse(s, "the old schema has no such rule that sees the same values")
	case lemma == Equal && seesSame(x.o.node, x.n.node, x.o.keepsUnknown() || x.n.keepsUnknown()):
		c.Verified++
	case lemma == Equal && lookedAt(s.Detail).sameIn(x.o.node, x.n.node, x.o.keepsUnknown() || x.n.keepsUnknown()):
		c.Trusted[RuleSeesSame]++
	case lemma == Equal:
		c.refuse(s, "what the rule looks at is of another type, or filled in differently")
	case slices.Contains(trusted, lemma):
		c.Trusted[lemma]++
	default:
		c.refuse(s, "%s is no lemma about rules", lemma)
	}
}

func deref[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}

// below walks to the places below.
func (c *checker) below(x *spot) {
	var names []string
	for _, p := range []place{x.o, x.n} {
		if p.shape == declared {
			names = slices.AppendSeq(names, maps.Keys(p.kids))
		}
		if p.hasMeta() {
			names = append(names, metaNames...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		y := &spot{o: x.o.field(name), n: x.n.field(name), path: x.path + step(name), parent: x, name: "=" + name, moved: x.moved}
		y.wrap = func(f formula) formula { return and{is(object), present{name: name}, prop{name, f}} }
		y.fill(x)
		c.walk(y)
	}
	may := func(kind string) bool {
		return x.o.shape != declared || !x.o.XIntOrString && (x.o.Type == "" || x.o.Type == kind)
	}
	moved := x.moved || movedBelow(x.o, x.n)
	if may("object") {
		y := &spot{o: x.o.others(), n: x.n.others(), path: x.path + ".*", parent: x, moved: moved, filled: x.filled}
		y.wrap = func(f formula) formula { return and{is(object), oneOther{names, f}} }
		c.walk(y)
	}
	if may("array") || x.o.Type == "string" && c.format(x.o.node) != "" {
		y := &spot{o: x.o.items(), n: x.n.items(), path: x.path + "[*]", parent: x, moved: moved, filled: x.filled}
		y.wrap = func(f formula) formula { return and{is(list), oneItem{f}} }
		c.walk(y)
	}
}

// fill records the defaults of a property, with the object around it or alone.
func (x *spot) fill(around *spot) {
	name := x.property()
	if around.filled {
		after, _ := around.after.(map[string]any)
		before, _ := around.before.(map[string]any)
		now, has := after[name]
		was, had := before[name]
		x.after, x.before, x.filled = now, was, has && (!had || !reflect.DeepEqual(now, was)) || around.after == nil
	}
	if x.n.shape != declared || !hasDefault(x.n.node) {
		return
	}
	now, was, had := fillIn(x.n.node, x.n.def), any(nil), x.o.shape == declared && hasDefault(x.o.node)
	if had {
		was = fillIn(x.o.node, x.o.def)
	}
	if !had || !reflect.DeepEqual(now, was) {
		if !x.filled {
			x.after, x.before = now, was
		} else { // with different defaults
			x.after, x.before = nil, nil
		}
		x.filled = true
	}
}

// movedBelow reports whether updates find the old values of items or fields in another way.
func movedBelow(o, n place) bool {
	if o.shape != declared || n.shape != declared {
		return false
	}
	return deref(o.XListType) != deref(n.XListType) || deref(o.XMapType) != deref(n.XMapType) || !slices.Equal(o.XListMapKeys, n.XListMapKeys) ||
		slices.ContainsFunc(n.XListMapKeys, func(k string) bool {
			return o.node.item == nil || n.node.item == nil || o.node.item.kids[k] == nil || n.node.item.kids[k] == nil || !sameDefault(o.node.item.kids[k], n.node.item.kids[k])
		})
}

// has reports whether f is true of n or of a schema below it.
func has(n *node, f func(*node) bool) bool {
	if n == nil {
		return false
	}
	below := slices.Concat(slices.Collect(maps.Values(n.kids)), []*node{n.item, n.extra, n.no}, n.all, n.any, n.one)
	return f(n) || slices.ContainsFunc(below, func(c *node) bool { return has(c, f) })
}

func anyRule(n *node) bool { return has(n, func(n *node) bool { return len(n.XValidations) > 0 }) }

func updates(n *node) bool {
	return has(n, func(n *node) bool {
		return slices.ContainsFunc(n.XValidations, func(r apiextensionsv1.ValidationRule) bool { return mentions("oldSelf").MatchString(r.Rule) })
	})
}
