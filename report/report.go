// Package report holds the findings of sluice and prints them. It has the levels of harm, findings, the report that collects them,
// and printers for people and for machines.
//
// It promises a fixed order and the same bytes for the same findings, in whatever order they were added. It does not decide which
// changes do harm; package compat does. Nor does it decide exit codes; it only counts the findings that fail.
package report

import (
	"cmp"
	"fmt"
	"slices"
)

// APIVersion and Kind identify the machine-readable form of a [Report].
const (
	APIVersion = "sluice.dev/v1alpha1"
	Kind       = "CheckReport"
)

// Outcome is the kind of answer that a [Finding] is.
type Outcome string

// The outcomes. A change that is proven safe has no finding.
const (
	// Violation is harm. A witness shows it, if one can exist.
	Violation Outcome = "violation"
	// Undecided is a change for which neither safety nor harm could be shown. The fail mode decides whether it fails.
	Undecided Outcome = "undecided"
	// Note is harmless information for the reader, for example that the old CRD itself is invalid.
	Note Outcome = "note"
)

// Severity is the effect of a finding on the exit code.
type Severity string

// The severities, most severe first.
const (
	Fail Severity = "fail" // fails the check
	Warn Severity = "warn" // is shown and does not fail the check
	Off  Severity = "off"  // is not shown
)

// Position is a place in a source file. The zero value means unknown.
type Position struct {
	File string `json:"file,omitempty"`
	// Line and Column count from 1; 0 is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Tell puts the place before a message, as compilers do: FILE:LINE: MESSAGE. Unknown parts are left out.
// Editors and CI systems make links of such lines.
func (p Position) Tell(message string) string {
	switch {
	case p.File == "":
		return message
	case p.Line == 0:
		return p.File + ": " + message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, message)
}

// Witness is an object that shows a finding: the old CRD accepts it, and the new one has the Effect on it.
type Witness struct {
	// Object is the whole object as YAML. kubectl apply --dry-run=server accepts it under the old CRD.
	Object string `json:"object"`
	// Old is the stored object that Object updates, as YAML, for rules that restrict only updates. Empty otherwise.
	Old string `json:"old,omitempty"`
	// Effect is the effect of the new CRD on the object, in the words of the code that confirmed it. Example: `spec.size: Invalid
	// value: 7: must be at most 5`.
	Effect string `json:"effect"`
	// Reversed is true if the two CRDs change roles, for findings about old readers: the new CRD accepts Object, and Effect is the
	// answer of the old one.
	Reversed bool `json:"reversed,omitempty"`
	// AcceptedBy and JudgedBy name the versions of the CRDs if the object is converted from one version to another. Empty stands
	// for the old and the new CRD.
	AcceptedBy string `json:"acceptedBy,omitempty"`
	JudgedBy   string `json:"judgedBy,omitempty"`
}

// Objects counts stored objects of a cluster.
type Objects struct {
	// Checked counts the objects that were read, Affected those that the finding affects.
	Checked  int64 `json:"checked"`
	Affected int64 `json:"affected"`
	// Examples are the names of the first affected objects (NAMESPACE/NAME, or NAME if cluster-scoped), in the order of the list.
	Examples []string `json:"examples,omitempty"`
}

// Suppression records that the user accepted a finding.
type Suppression struct {
	Reason  string `json:"reason"`
	Expires string `json:"expires,omitempty"` // a date, YYYY-MM-DD
}

// reasonText is the reason, and until when it holds.
func (s *Suppression) reasonText() string {
	if s.Expires == "" {
		return s.Reason
	}
	return s.Reason + " (until " + s.Expires + ")"
}

// Finding is one result about one CRD.
type Finding struct {
	// Rule is the ID of the rule, kebab-case, for example enum-value-removed.
	Rule string `json:"rule"`
	// Level is the level of harm; empty for notes and undecided changes.
	Level Level `json:"level,omitempty"`
	// MayBe is a worse level. It is set if the witness shows Level and nobody has proven that no object fares worse. The message
	// says so. The severity is the stricter one of the two levels.
	MayBe   Level   `json:"mayBe,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Severity of a note is Warn: it is shown among the notes and fails nothing.
	Severity Severity `json:"severity"`
	// CRD is the name of the CustomResourceDefinition, for example widgets.example.com.
	CRD string `json:"crd"`
	// Version is the API version; empty if the finding is about the CRD as a whole.
	Version string `json:"version,omitempty"`
	// Path is the place in the object, for example .spec.tasks[*].timeout; empty if the finding is about the CRD as a whole.
	Path string `json:"path,omitempty"`
	// Message is one sentence without a full stop.
	Message string `json:"message"`
	// Before and After are the two values, as short JSON or text; empty if there is none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Reason names, for an undecided change, the construct that stopped the proof.
	Reason  string   `json:"reason,omitempty"`
	Witness *Witness `json:"witness,omitempty"`
	Objects *Objects `json:"objects,omitempty"`
	// Position is the place in the new file. For a part that is gone, it is the nearest part around it. Only if the whole CRD is
	// gone, it is the place in the old file.
	Position *Position `json:"position,omitempty"`
	// SchemaPath is the path to the subject in the document of the CRD, from the root: spec, versions, 0, schema, openAPIV3Schema,
	// properties, spec. List indices are decimal numbers. If the document does not have the whole path, the deepest part that it
	// has counts. SchemaPath is used to find Position, and is not printed.
	SchemaPath []string `json:"-"`
	// InOld is true if SchemaPath is a path in the old document, because the new one no longer has the subject.
	InOld bool `json:"-"`
	// Suppressed is set if the configuration accepts the finding; its Severity is then Off.
	Suppressed *Suppression `json:"suppressed,omitempty"`
}

// CRD is the result for one CustomResourceDefinition.
type CRD struct {
	Name string `json:"name"`
	// File is where the new CRD stands, if the sources have several of that name. The old file stands for a CRD that is gone.
	File string `json:"file,omitempty"`
	// Verdict is safe, unsafe, undecided, new, removed or unchanged, before severities and suppressions. Only safe and unchanged are
	// proofs.
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings,omitempty"`
	// Objects counts the stored objects that were read; nil if no cluster was asked.
	Objects *ObjectScan `json:"objects,omitempty"`
	// Schemas are the schemas of the versions, for formats that show them (html). It may be empty.
	Schemas []SchemaTree `json:"-"`
}

// SchemaTree is the schema of one version of a CRD, as it was and as it is to be.
type SchemaTree struct {
	Version string
	Root    *SchemaNode
}

// SchemaNode is a field of a [SchemaTree], in the old schema, the new one, or both.
type SchemaNode struct {
	// Name is the last step of Path: a property, [*] for the items of a list, * for the values of a map; empty for the object itself.
	Name string
	// Path is the place as findings have it, such as .spec.tasks[*].name.
	Path string
	// Type describes the type of the field, such as string.
	Type   string
	Change SchemaChange
	// Changes counts the changed fields below; a part that is added or removed counts once.
	Changes  int
	Keywords []KeywordChange
	Children []*SchemaNode
}

// SchemaChange says what happened to a field.
type SchemaChange string

// The changes. A field that is the same on both sides has none.
const (
	FieldAdded   SchemaChange = "added"
	FieldRemoved SchemaChange = "removed"
	FieldChanged SchemaChange = "changed"
)

// KeywordChange is a keyword of a field whose value differs. Before and After are JSON; empty if the keyword is not there.
type KeywordChange struct{ Keyword, Before, After string }

// label is the name of a CRD for people, with its file if there are several of that name.
func (c *CRD) label() string {
	if c.File == "" {
		return c.Name
	}
	return c.Name + " (" + c.File + ")"
}

// ObjectScan counts the stored objects of one CRD that were tried under the new schema.
type ObjectScan struct {
	// Version is the API version in which they were read.
	Version string `json:"version"`
	Checked int64  `json:"checked"`
	// Refused counts objects whose unchanged update is refused, Pruned objects that lose data, Changed objects whose defaults
	// change.
	Refused int64 `json:"refused"`
	Pruned  int64 `json:"pruned"`
	Changed int64 `json:"changed"`
	// Unappliable counts objects to which no server-side apply would pass, though updates may.
	Unappliable int64 `json:"unappliable,omitempty"`
	// Unjudged counts objects that could not be judged.
	Unjudged int64 `json:"unjudged,omitempty"`
}

// Verdict is the answer for one CRD.
type Verdict string

// The verdicts of a CRD.
const (
	Safe        Verdict = "safe"
	Unsafe      Verdict = "unsafe"
	IsUndecided Verdict = "undecided"
	// IsNew is the verdict if the old side does not have the CRD: it was compared with nothing, and the API server accepts it.
	IsNew Verdict = "new"
	// IsRemoved is the verdict if the new side does not have the CRD.
	IsRemoved Verdict = "removed"
	// IsUnchanged is the verdict if both CRDs mean the same in every keyword.
	IsUnchanged Verdict = "unchanged"
)

// Proven reports whether the verdict is a proof that the upgrade does no harm.
// A new CRD is none: nothing was compared with it.
func (v Verdict) Proven() bool { return v == Safe || v == IsUnchanged }

// Report has all findings of one run.
type Report struct {
	// Old and New name the two sides of the comparison, as the user gave them.
	Old string `json:"old"`
	New string `json:"new"`
	// Noun is the noun for the entries of CRDs, in the singular; empty stands for CRD. Reports about other things set it.
	Noun string `json:"-"`
	// KubeVersion is the Kubernetes version whose rules applied, for example 1.37.
	KubeVersion string `json:"kubeVersion"`
	CRDs        []CRD  `json:"crds"`
	// Skipped counts documents of other kinds, by kind.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Unreadable counts files that cannot be read and are the same on both sides, so that nothing of them changed.
	Unreadable int `json:"unreadable,omitempty"`
	// Remarks are what a reader should know beside the findings, such as what may hold CRDs and was not compared. Each is one sentence without
	// a full stop.
	Remarks []string `json:"remarks,omitempty"`
	// Mode and FailMode are the settings in force: error or warn; closed or open.
	Mode     string `json:"mode"`
	FailMode string `json:"failMode"`
}

// Sort orders CRDs by name and file, and the findings of each by severity, outcome, level, rule, version, path and message. It removes
// duplicates: findings that are equal in all of these and in their values. Of duplicates it keeps one with a witness, else one with
// a position. So the result does not depend on the order in which findings were added.
// Reports that were merged from several sources come out in one order, whoever was first.
func (r *Report) Sort() {
	for i := range r.CRDs {
		fs := r.CRDs[i].Findings
		slices.SortStableFunc(fs, func(a, b Finding) int { return cmp.Or(compareFindings(a, b), compareEvidence(a, b)) })
		r.CRDs[i].Findings = slices.CompactFunc(fs, func(a, b Finding) bool { return compareFindings(a, b) == 0 })
	}
	slices.SortStableFunc(r.CRDs, func(a, b CRD) int {
		return cmp.Or(
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Verdict, b.Verdict),
			slices.CompareFunc(a.Findings, b.Findings, func(a, b Finding) int {
				return cmp.Or(compareFindings(a, b), compareEvidence(a, b))
			}),
		)
	})
}

// Failing counts the findings that make the check fail.
// It is what decides the exit code, so it counts severities alone, after configuration and suppressions.
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

// compareFindings orders findings for readers, worst first. Findings that are equal by it are duplicates, whatever
// their witnesses.
func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)),
		cmp.Compare(outcomeRank(a.Outcome), outcomeRank(b.Outcome)),
		cmp.Compare(a.Level.severityRank(), b.Level.severityRank()),
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

// compareEvidence orders duplicates: the finding that shows more comes first.
// All parts are compared, so that two findings that differ in anything have an order.
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

// compareOptional orders values before nil.
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

// severityRank puts unknown severities last.
// Reports of another release may have others.
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

// outcomeRank puts unknown outcomes last.
func outcomeRank(o Outcome) int {
	return rankIn(o, Violation, Undecided, Note)
}

// rankIn is the index of x in the order; what is not in it comes last.
func rankIn[T comparable](x T, order ...T) int {
	if i := slices.Index(order, x); i >= 0 {
		return i
	}
	return len(order)
}
