// Package report holds what sluice found and how it is told: levels of harm, findings, the report that collects them,
// and printers for people and for machines.
//
// It promises a fixed order and the same bytes for the same findings, whatever order they were added in. It does not
// decide what is harmful: that is package compat's work; nor does it decide exit codes beyond counting what fails.
package report

import (
	"cmp"
	"slices"
)

// APIVersion and Kind identify the machine-readable form of a [Report].
const (
	APIVersion = "sluice.dev/v1alpha1"
	Kind       = "CheckReport"
)

// Outcome says what kind of answer a [Finding] is.
type Outcome string

// The outcomes. There is no fourth one: what is proven safe has no finding.
const (
	// Violation is harm, shown by a witness wherever one can exist.
	Violation Outcome = "violation"
	// Undecided is a change of which neither safety nor harm could be shown. The fail mode decides what follows.
	Undecided Outcome = "undecided"
	// Note is something the reader should know that is no harm, for example that the old CRD is itself invalid.
	Note Outcome = "note"
)

// Severity says what a finding does to the exit code.
type Severity string

// The severities, most severe first.
const (
	Fail Severity = "fail" // makes the check fail
	Warn Severity = "warn" // is told, does not fail
	Off  Severity = "off"  // is not told
)

// Position is a place in a source file. The zero value means unknown.
type Position struct {
	File string `json:"file,omitempty"`
	// Line and Column count from 1; 0 is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Witness is an object that shows a finding: the old CRD accepts it, the new one does what Effect says.
type Witness struct {
	// Object is the whole object as YAML, ready for kubectl apply --dry-run=server under the old CRD.
	Object string `json:"object"`
	// Old is the stored object that Object updates, as YAML, for rules that restrict updates only. Empty otherwise.
	Old string `json:"old,omitempty"`
	// Effect is what the new CRD does to the object, in the words of the code that confirmed it,
	// for example `spec.size: Invalid value: 7: must be at most 5`.
	Effect string `json:"effect"`
	// Reversed is true where the sides are the other way round, for what surprises old readers: the new CRD accepts Object,
	// and Effect is what the old one says to it.
	Reversed bool `json:"reversed,omitempty"`
	// AcceptedBy and JudgedBy name the versions of the CRDs, where objects go from one version to another; empty stands for
	// the two CRDs.
	AcceptedBy string `json:"acceptedBy,omitempty"`
	JudgedBy   string `json:"judgedBy,omitempty"`
}

// Objects counts stored objects of a cluster.
type Objects struct {
	// Checked is how many were read, Affected how many of them the finding holds for.
	Checked  int64 `json:"checked"`
	Affected int64 `json:"affected"`
	// Examples are names (namespace/name, or name where cluster-scoped) of the first affected ones, in listing order.
	Examples []string `json:"examples,omitempty"`
}

// Suppression says that the user accepted a finding.
type Suppression struct {
	Reason  string `json:"reason"`
	Expires string `json:"expires,omitempty"` // a date, YYYY-MM-DD
}

// Finding is one thing to tell about one CRD.
type Finding struct {
	// Rule is the ID of the rule, kebab-case, for example enum-value-removed.
	Rule string `json:"rule"`
	// Level is the level of harm; empty for notes and undecided changes.
	Level Level `json:"level,omitempty"`
	// MayBe is a worse level, set where the witness shows Level and it is not proven that no object fares worse. The message
	// says so. The severity is that of the stricter of the two.
	MayBe   Level   `json:"mayBe,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Severity of a note is Warn: it is told among the notes and fails nothing.
	Severity Severity `json:"severity"`
	// CRD is the name of the CustomResourceDefinition, for example widgets.example.com.
	CRD string `json:"crd"`
	// Version is the API version, empty where the finding is about the CRD as a whole.
	Version string `json:"version,omitempty"`
	// Path is the place in the object, for example .spec.tasks[*].timeout; empty for the CRD as a whole.
	Path string `json:"path,omitempty"`
	// Message is one sentence without a full stop.
	Message string `json:"message"`
	// Before and After are the two values, as short JSON or text; empty where there is none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Reason says, for an undecided change, which construct stopped the proof.
	Reason  string   `json:"reason,omitempty"`
	Witness *Witness `json:"witness,omitempty"`
	Objects *Objects `json:"objects,omitempty"`
	// Position is the place in the new file: of what is gone from it, the nearest part around. Only of a CRD that is gone
	// it is in the old file.
	Position *Position `json:"position,omitempty"`
	// SchemaPath leads to the thing in the document of the CRD, from its root: spec, versions, 0, schema, openAPIV3Schema,
	// properties, spec. List indices are decimal numbers. It may be longer than what stands in the document; its deepest
	// part that does is meant. It is what Position is found by, and is not printed.
	SchemaPath []string `json:"-"`
	// InOld is true where SchemaPath speaks of the old document, because the thing is gone from the new one.
	InOld bool `json:"-"`
	// Suppressed is set where the configuration accepts the finding; its Severity is then Off.
	Suppressed *Suppression `json:"suppressed,omitempty"`
}

// CRD is the result for one CustomResourceDefinition.
type CRD struct {
	Name string `json:"name"`
	// Verdict is safe, unsafe or undecided, before severities and suppressions.
	Verdict Verdict `json:"verdict"`
	// Unchanged is true where both sides mean the same to the last keyword.
	Unchanged bool      `json:"unchanged,omitempty"`
	Findings  []Finding `json:"findings,omitempty"`
	// Objects counts the stored objects that were read; nil where no cluster was asked.
	Objects *ObjectScan `json:"objects,omitempty"`
}

// ObjectScan counts the stored objects of one CRD that were run through the new schema.
type ObjectScan struct {
	// Version is the version they were read in.
	Version string `json:"version"`
	Checked int64  `json:"checked"`
	// Refused, Pruned and Changed count those whose unchanged update is refused, which lose data, or whose defaults change.
	Refused int64 `json:"refused"`
	Pruned  int64 `json:"pruned"`
	Changed int64 `json:"changed"`
}

// Verdict is the answer for one CRD.
type Verdict string

// The verdicts of a CRD.
const (
	Safe        Verdict = "safe"
	Unsafe      Verdict = "unsafe"
	IsUndecided Verdict = "undecided"
)

// Report is everything one run found.
type Report struct {
	// Old and New name what was compared, as the user gave it.
	Old string `json:"old"`
	New string `json:"new"`
	// Noun is what the entries of CRDs are, in the singular; empty for CRD. A report that is not about CRDs has another one.
	Noun string `json:"-"`
	// KubeVersion is the Kubernetes version whose rules were applied, for example 1.37.
	KubeVersion string `json:"kubeVersion"`
	CRDs        []CRD  `json:"crds"`
	// Skipped counts documents of other kinds, by kind.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Mode and FailMode are the settings in force: error or warn; closed or open.
	Mode     string `json:"mode"`
	FailMode string `json:"failMode"`
}

// Sort orders CRDs by name and the findings of each by severity, outcome, level, rule, version, path and message, and
// removes findings that are equal in all of these and in their values. Of such equals the one with a witness stays, then
// the one with a position, so that the result does not depend on the order in which they were added.
func (r *Report) Sort() {
	for i := range r.CRDs {
		fs := r.CRDs[i].Findings
		slices.SortStableFunc(fs, func(a, b Finding) int { return cmp.Or(compareFindings(a, b), compareEvidence(a, b)) })
		r.CRDs[i].Findings = slices.CompactFunc(fs, func(a, b Finding) bool { return compareFindings(a, b) == 0 })
	}
	slices.SortStableFunc(r.CRDs, func(a, b CRD) int {
		return cmp.Or(
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Verdict, b.Verdict),
			slices.CompareFunc(a.Findings, b.Findings, func(a, b Finding) int {
				return cmp.Or(compareFindings(a, b), compareEvidence(a, b))
			}),
		)
	})
}

// Failing counts the findings that make the check fail.
func (r *Report) Failing() int {
	n := 0
	for _, c := range r.CRDs {
		for _, f := range c.Findings {
			if f.Severity == Fail {
				n++
			}
		}
	}
	return n
}

func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)),
		cmp.Compare(outcomeRank(a.Outcome), outcomeRank(b.Outcome)),
		cmp.Compare(a.Level.rank(), b.Level.rank()),
		cmp.Compare(a.CRD, b.CRD),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Before, b.Before),
		cmp.Compare(a.After, b.After),
		cmp.Compare(a.Reason, b.Reason),
	)
}

// compareEvidence orders findings that say the same: the one that shows more comes first.
func compareEvidence(a, b Finding) int {
	return cmp.Or(
		compareOptional(a.Witness, b.Witness, func(a, b Witness) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Old, b.Old), cmp.Compare(a.Effect, b.Effect), compareBool(a.Reversed, b.Reversed),
				cmp.Compare(a.AcceptedBy, b.AcceptedBy), cmp.Compare(a.JudgedBy, b.JudgedBy))
		}),
		compareOptional(a.Position, b.Position, func(a, b Position) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		}),
		compareOptional(a.Objects, b.Objects, func(a, b Objects) int {
			return cmp.Or(cmp.Compare(b.Affected, a.Affected), cmp.Compare(b.Checked, a.Checked), slices.Compare(a.Examples, b.Examples))
		}),
		compareOptional(a.Suppressed, b.Suppressed, func(a, b Suppression) int {
			return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Expires, b.Expires))
		}),
	)
}

// compareOptional orders what is there before what is not.
func compareOptional[T any](a, b *T, compare func(a, b T) int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return compare(*a, *b)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// severityRank puts severities that do not exist last.
func severityRank(s Severity) int {
	return rankIn(s, Fail, Warn, Off)
}

// Stricter returns the more severe of both.
func Stricter(a, b Severity) Severity {
	if severityRank(b) < severityRank(a) {
		return b
	}
	return a
}

// outcomeRank puts outcomes that do not exist last.
func outcomeRank(o Outcome) int {
	return rankIn(o, Violation, Undecided, Note)
}

func rankIn[T comparable](x T, order ...T) int {
	if i := slices.Index(order, x); i >= 0 {
		return i
	}
	return len(order)
}
