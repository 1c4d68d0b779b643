package compat

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"sluice.dev/report"
	"sluice.dev/schema"
	"sluice.dev/schema/contain"
	"sluice.dev/schema/upstream"
)

// This file has the types that the comparison of two CRDs is made of: what the caller may set, what a rule is, and what the comparison knows
// so far. A part is one version of one of the CRDs. A pair is two parts that are compared, such as v1 of the old CRD with v1 of the new one.
// A crossing is a harm that only shows if an object goes through another version.

type (
	crd        = apiextensionsv1.CustomResourceDefinition
	crdVersion = apiextensionsv1.CustomResourceDefinitionVersion
	props      = apiextensionsv1.JSONSchemaProps
)

// Options say under which circumstances CRDs are compared. The zero value is usable.
type Options struct {
	// KubeVersion is the Kubernetes version whose rules hold: which formats are checked, whether updates are ratcheted.
	// nil means that of the linked libraries.
	KubeVersion *version.Version
	// Stored are versions in which objects may be stored, besides the storage version of the old CRD and what the
	// status.storedVersions of the old CRD names.
	Stored []string
	// Budget bounds the work of the comparison of one CRD, in units of less than a microsecond ([contain.Work]); 0 means
	// [DefaultBudget]. A third of it is for the API server's validation of the CRDs.
	Budget int64
	// Trace, if not nil, is told each step of the comparison of each two versions of the CRD: what was asked of a place of the
	// schemas, and what answered it. Steps of one CRD come in order.
	Trace func(Step)
	// Server, if not nil, asks an API server whether it accepts new in place of old (nil: as a new CRD), and stores
	// nothing. Its refusals replace those of the linked code, which may be of another version. It may be called
	// concurrently. An error says why there is no answer, and makes the finding undecided; after an [AdmissionError] the
	// linked code answers, and a note tells what admission says.
	Server func(ctx context.Context, old, new *apiextensionsv1.CustomResourceDefinition) (field.ErrorList, error)
	// Accepted says that an API server has validated new in place of old, and accepts it: it validates before it asks for
	// admission. No validation runs then, Server is not called, and the comparison has the whole Budget.
	Accepted bool
}

// Step is a step of the comparison of two versions of a CRD.
// Traces are for people who ask why something was proven or not: sluice check --trace prints them.
type Step struct {
	// CRD is the name of the CRD, From the version in the old one, To that in the new one.
	CRD, From, To string
	contain.Event
}

// AdmissionError says that admission refuses a CRD, and not the API server's validation: a webhook, a policy, or a plugin.
type AdmissionError struct{ Says string }

// Error implements error.
func (e *AdmissionError) Error() string { return "admission refuses it: " + e.Says }

// DefaultBudget is the Budget where none is given.
// It is some seconds of one processor at most.
const DefaultBudget = 6_000_000

// Rule is one thing that is looked for, and its documentation. Texts are plain, with paragraphs separated by empty lines.
type Rule struct {
	// ID is the name in findings and configurations, kebab-case. It is never used for something else later.
	ID string
	// Title says in a few words what the rule reports, without a full stop.
	Title string
	// Level is the level of its findings, or of most of them where Varies is set; empty for rules that only give notes.
	Level report.Level
	// Varies is true if the level of a finding depends on its witness.
	Varies bool
	// Why explains whom the change harms and how. Help explains the way out.
	Why, Help string
	// Unsafe is a change that the rule reports.
	Unsafe Example
	// Instead is the recommended alternative to Unsafe.New, as YAML. The rule does not report it, and it harms no stored object: if
	// it still fails, then at writers-refused only. It is empty if there is nothing to do. Tests run it.
	Instead string

	// whole looks at a CRD as a whole; claim takes a gap between two schemas and says what it is, or false. Each rule has
	// one of them.
	whole func(context.Context, *comparison) []report.Finding
	claim func(*change) (string, bool)
	// outcome is that of its findings, where it is not decided by the witness.
	outcome report.Outcome
	// inSpec is set where whole looks at schemas, and the examples are properties.
	inSpec bool
}

// Example is a change, as fragments of YAML, for people and for tests.
type Example struct {
	// Old and New are the two versions: for rules about the CRD as a whole fragments of its spec, for rules about schemas
	// properties of the object's spec. Empty means that there is no such CRD.
	Old, New string
}

// InSpec reports whether the rule's examples are properties of the object's spec, not fragments of the CRD's.
func (r *Rule) InSpec() bool { return r.claim != nil || r.inSpec }

// Undetermined begins the message of every undecided finding.
const Undetermined = "unable to determine if change to existing field is safe"

// comparison is the state of one call of [Check].
// It is used by one goroutine; only the validation of the new CRD runs beside it, see [comparison.refusal]. All
// caches in it are answers that depend on nothing but the two CRDs and the options.
type comparison struct {
	opts     Options
	rules    []Rule
	old, new *crd // at most one is nil
	oldParts []*part
	newParts []*part
	// oldConversions and newConversions are what a webhook has to convert under each of the CRDs.
	oldConversions, newConversions []conversion
	// pairs are the versions that are compared with themselves, in the order of the old CRD.
	// A version that is gone is in no pair: rules about versions report it.
	pairs    []pair
	gaps     map[pair][]contain.Gap
	answers  map[question]answer
	asked    map[schema.Hash][]*part // what alike returns
	work     *contain.Work           // of all comparisons of schemas
	checks   *contain.Work           // of the API server's validation
	shared   contain.Shared
	findings []report.Finding
	// refusal is what the API server says, once it has been asked.
	refusal func() *refusal
	made    map[journeyStep]*part // what afterStep returns

	// Answers that several rules ask for.
	moved     askedOnce[[]contain.Gap]
	crossed   askedOnce[crossings]
	writing   askedOnce[[]*part]
	surprises askedOnce[[]report.Finding]
	// alikeNames has, of each name of a version, the first name that is alike.
	alikeNames askedOnce[map[string]string]
}

// askedOnce keeps the answer to a question.
// The zero value has not been asked. It has no lock: rules run one after the other.
type askedOnce[T any] struct {
	asked  bool
	answer T
}

// answerOf returns the answer, which find gives to the first who asks.
func (a *askedOnce[T]) answerOf(find func() T) T {
	if !a.asked {
		a.asked = true
		a.answer = find()
	}
	return a.answer
}

// validationShare is the part of the budget that the validation of the CRDs may take. leastValidation is the number of units that
// it may take in any case, so that small CRDs are always validated. The rest of the budget is for the comparison.
const (
	validationShare = 3
	leastValidation = 50_000
)

// part is one version of one of the CRDs.
// Besides the versions of the documents there are parts that a step of a journey has made of them, see steps.go.
// Those share crdVersion with the version that they come from, and have another schema.
type part struct {
	*crdVersion
	index int
	isOld bool
	// storedIn names the version in which objects of an old version were stored before the storage version was another one; empty for the
	// storage version.
	storedIn string
	// unchecked is set for requests to the status subresource, which leave embedded resources in .status unchecked.
	unchecked bool
	// onlyLost is set by the step nameUnknown: the question about this version is only what is pruned.
	onlyLost bool
	// within accepts at each place what this version accepts there; nil if none is known. See afterStep.
	// With it the prover knows that a value which the narrower schema refuses for a new reason was accepted before.
	within *part
	props  *props // as the API server sees it: everything is kept under spec.preserveUnknownFields

	built bool
	side  contain.Side
	err   error
	judge *upstream.Validator // made by validatorOf
}

// pair are two versions of which objects of the first should pass as the second.
type pair struct{ from, to *part }

// change is a gap between two schemas, with its surroundings.
// Rules claim it by its keyword and harm, and may replace Before and After by values that say more to a reader.
type change struct {
	contain.Gap
	pair pair
	// old and new are the nodes at the path; nil if none is declared.
	old, new *schema.Node
	// oldParent and newParent are the nodes one step up; nil at the root.
	oldParent, newParent *schema.Node
}

// conversion is a step that a webhook has to make for requests in a served version: an object that is stored in another version is read, or
// an object is stored in another version.
// If v1 stores, a read of such an object as v2 is the step from v1 to v2, for requests of v2.
type conversion struct{ request, from, to string }

// refusal is the API server's answer to the new CRD.
// An update that is refused and an update that passes only because the old CRD has the same fault are two findings:
// errs and fresh are never both set.
type refusal struct {
	// errs are why the update (or, without an old CRD, the creation) is refused.
	errs field.ErrorList
	// fresh are why the new CRD would be refused where there is no old one, if the update passes.
	fresh field.ErrorList
	// old are why the old CRD would be refused.
	old field.ErrorList
	// err is why there is no answer.
	err error
	// denied is what admission says; the rest is then from the linked code. byServer is set where the API server of a cluster
	// answers.
	denied   string
	byServer bool
}

// question is what the prover is asked of a pair: statusWrites is [contain.Options.StatusWrites].
// Versions that say the same share a question, see [comparison.firstAlike].
type question struct {
	pair
	statusWrites bool
}

// answer is what the prover said of a question, and the version of the objects that it showed.
type answer struct {
	gaps    []contain.Gap
	version string
}

// crossing is a gap between two versions of different names that nothing converts between.
// For example, v1beta1 accepts name: "", v1 demands a character, and v1 reads what v1beta1 stored.
type crossing struct {
	pair
	contain.Gap
	// filler is the version whose default makes the other version refuse the object; nil if no default does.
	filler *part
	// updates is set if rules about updates may refuse what they allowed before, see crossUpdates; labels if they may refuse to set a label.
	updates, labels bool
	// anew is set if the version drops something of each write, because it stores objects and did not before.
	anew bool
}

// crossings are the fates of objects that are written in one version, and read and written back in another one
// (docs/containment.md, Several versions without a webhook).
type crossings struct {
	// erased and refused concern objects that the old CRD can hold, onesided those that only the new one can.
	erased, refused, onesided []crossing
}

// journey is the fate of one such object.
// The prover says of a whole schema that such objects exist; the journey shows it for one, by the API server's own
// code.
type journey struct {
	// dropped are the paths of the stored object that are pruned on reading or by the other version; nulls reports whether nulls are dropped, or
	// replaced by a default.
	dropped []string
	nulls   bool
	// errors are why an update that sets a label is refused and was not before. filled are those of them that come from defaults
	// which the new CRD fills in when it reads the object, updates those of rules about updates that allowed it before.
	errors, filled, updates []string
	// ofRules are those errors that validation rules gave.
	ofRules map[string]bool
}

// route has the version of each step of a journey. Under the old CRD, from creates the object, and storing stores it. Under the new CRD, home
// reads it first, reader reads it last, and to writes it back.
// For v1beta1 stored as v1 and requested as v2, from is v1beta1, storing v1 of the old CRD, home and
// reader v1 of the new one, and to v2.
type route struct{ from, storing, home, reader, to *part }
