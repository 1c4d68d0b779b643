package report

// How does code scanning show a report? Each finding is a result in a file and a line, with a fingerprint that
// keeps its alert open or closes it. For example, an enum value that is removed in a chart is an alert at that
// line of the chart.

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"sluice.dev/internal/brief"
)

// The part of SARIF 2.1.0 that code scanning reads: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html

// sarifLog is the document. It has one run, that of this report.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

// sarifRun is the run of a program. ColumnKind says what columns count. Properties are for people: code
// scanning ignores them.
type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string         `json:"columnKind"`
	Results    []sarifResult  `json:"results"`
	Properties map[string]any `json:"properties,omitempty"`
}

type sarifDriver struct {
	Name            string      `json:"name"`
	InformationURI  string      `json:"informationUri"`
	Version         string      `json:"version,omitempty"`
	SemanticVersion string      `json:"semanticVersion,omitempty"`
	Rules           []sarifRule `json:"rules"`
}

type sarifText struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

// sarifRule describes a rule, once for each run in which it has results, so that the alert can explain it
// without a network.
type sarifRule struct {
	ID            string     `json:"id"`
	Short         sarifText  `json:"shortDescription"`
	Full          *sarifText `json:"fullDescription,omitempty"`
	Help          *sarifText `json:"help,omitempty"`
	Configuration struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
	Properties struct {
		Tags []string `json:"tags"`
	} `json:"properties"`
}

// sarifResult is one finding. GitHub keeps its alert as long as the fingerprint is in the latest run, and closes it
// otherwise.
type sarifResult struct {
	RuleID       string             `json:"ruleId"`
	RuleIndex    int                `json:"ruleIndex"`
	Level        string             `json:"level"`
	Message      sarifText          `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Fingerprints map[string]string  `json:"partialFingerprints"`
	Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	Properties   map[string]any     `json:"properties,omitempty"`
}

// sarifLocation is the place of a result. Code scanning demands a file; the logical location names the CRD, the
// version and the path.
type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
	Logical []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

type sarifLogical struct {
	Name               string `json:"name"`
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

type sarifSuppression struct {
	Kind          string `json:"kind"`
	Status        string `json:"status"`
	Justification string `json:"justification,omitempty"`
}

// sarifWitness is the number of lines of a witness in a result, unless everything is asked for. Only the first result of a cause
// has a witness.
const sarifWitness = 40

// appendSARIF writes every finding as a result of its own, also those of one cause: alerts are opened and closed one
// by one. Suppressed findings are results that are marked as such.
// Findings that are off are left out.
func appendSARIF(b *bytes.Buffer, r *Report, o Options) error {
	p := newPage(r, o)
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{
		Name: "sluice", InformationURI: "https://sluice.dev", Version: visibleLine(o.Version), Rules: []sarifRule{},
	}
	if v, err := semver.StrictNewVersion(strings.TrimPrefix(o.Version, "v")); err == nil {
		run.Tool.Driver.SemanticVersion = v.String()
	}
	run.Properties = map[string]any{}
	if p.kube != "" {
		run.Properties["kubeVersion"] = p.kube
	}
	if fresh := p.namesOfNew(); len(fresh) > 0 {
		run.Properties["comparedWithNothing"] = fresh
	}
	if len(p.remarks) > 0 {
		run.Properties["remarks"] = p.remarks
	}
	rules := make(map[string]int)
	for i := range p.crds {
		s := &p.crds[i]
		seen := make(map[string]int)
		file := s.anyFile(p, o.Root)
		for _, g := range s.allGroups() {
			for j := range g.entries {
				e := &g.entries[j]
				if e.class == silent {
					continue
				}
				index, ok := rules[e.Rule]
				if !ok {
					index = len(rules)
					rules[e.Rule] = index
					run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, newSARIFRule(e, o))
				}
				res := newSARIFResult(s, e, index, file, o, e == g.witnessEntry())
				// If findings differ in nothing stable, their order distinguishes them.
				id := res.Fingerprints["sluice/v1"]
				seen[id]++
				if n := seen[id]; n > 1 {
					res.Fingerprints["sluice/v1"] = fmt.Sprintf("%s:%d", id, n)
				}
				run.Results = append(run.Results, res)
			}
		}
	}
	return writeJSON(b, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

// newSARIFRule describes the rule of a finding. Its level is that of the first finding, because SARIF wants one for a
// rule. Without documentation the ID is the description.
func newSARIFRule(e *entry, o Options) sarifRule {
	rule := sarifRule{ID: e.Rule, Short: sarifText{Text: e.Rule}}
	rule.Configuration.Level = sarifLevel(e)
	rule.Properties.Tags = []string{"kubernetes", "crd"}
	if e.Level != "" {
		rule.Properties.Tags = append(rule.Properties.Tags, string(e.Level))
	}
	if o.Rules == nil {
		return rule
	}
	doc, ok := o.Rules(e.Rule)
	if !ok {
		return rule
	}
	rule.Short.Text = cmp.Or(doc.Title, e.Rule)
	if doc.Why != "" {
		rule.Full = &sarifText{Text: doc.Why}
	}
	var parts []string
	for _, s := range []string{doc.Why, doc.Help} {
		if s != "" {
			parts = append(parts, strings.TrimSpace(s))
		}
	}
	if len(parts) > 0 {
		text := strings.Join(parts, "\n\n")
		rule.Help = &sarifText{Text: text, Markdown: text}
	}
	return rule
}

// sarifLevel is the level of a result. A suppressed one has the default of its level of harm.
func sarifLevel(e *entry) string {
	switch e.class {
	case failing:
		return "error"
	case warning:
		return "warning"
	case noting:
		return "note"
	case suppressed, silent:
	}
	switch severity, _ := e.Level.Default(); {
	case e.Outcome == Note:
		return "note"
	case severity == Fail:
		return "error"
	}
	return "warning"
}

// newSARIFResult makes the result of a finding. file is where it is shown if it has no position in the repository.
// shown adds the witness: only one result of a cause has it, unless everything is asked for.
func newSARIFResult(s *sheet, e *entry, rule int, file string, o Options, shown bool) sarifResult {
	res := sarifResult{
		RuleID: e.Rule, RuleIndex: rule, Level: sarifLevel(e), Message: sarifText{Text: e.plainSentence(s)},
		Properties: map[string]any{"crd": s.name, "outcome": string(e.Outcome)},
	}
	for key, value := range map[string]string{
		"version": e.Version, "path": e.Path, "level": string(e.Level), "before": e.Before, "after": e.After, "reason": e.Reason,
	} {
		if value != "" {
			res.Properties[key] = value
		}
	}
	if e.Objects != nil {
		res.Properties["objects"] = map[string]int64{"checked": e.Objects.Checked, "affected": e.Objects.Affected}
	}
	if e.witness != nil && (shown || o.Verbose) {
		res.Properties["witness"] = firstLines(e.witness.Object, sarifWitness, textWitnessWidth, o)
		if e.witness.Old != "" {
			res.Properties["witnessBefore"] = firstLines(e.witness.Old, sarifWitness, textWitnessWidth, o)
		}
	}
	var loc sarifLocation
	loc.Physical.Artifact.URI = fileURI(file)
	if at, ok := e.Position.inRepository(o.Root); ok {
		loc.Physical.Artifact.URI = fileURI(at.File)
		if at.Line > 0 {
			loc.Physical.Region = &sarifRegion{StartLine: at.Line, StartColumn: at.Column}
		}
	}
	name := strings.Trim(s.name+"/"+e.Version, "/")
	loc.Logical = []sarifLogical{{Name: cmp.Or(e.Path, name), FullyQualifiedName: name + e.Path}}
	res.Locations = []sarifLocation{loc}
	res.Fingerprints = map[string]string{"sluice/v1": e.id}
	if e.class == suppressed {
		why := strings.TrimSpace(e.Suppressed.reasonText())
		res.Suppressions = []sarifSuppression{{Kind: "external", Status: "accepted", Justification: why}}
	}
	return res
}

// plainSentence describes a finding in a few lines of plain text.
func (e *entry) plainSentence(s *sheet) string {
	p := e.placeOf()
	subject := s.name
	if !p.isWholeCRD() {
		subject += " " + p.String()
	}
	lines := []string{subject + ": " + e.Message}
	if v := p.changeText(); v != "" {
		lines = append(lines, v)
	}
	if harm := e.harmSentence(); harm != "" {
		lines = append(lines, string(e.Level)+" "+harm)
	}
	if e.Reason != "" {
		lines = append(lines, "not decided because: "+e.Reason)
	}
	if e.Objects != nil {
		lines = append(lines, e.objectsText(manyExamples))
	}
	if e.witness != nil {
		if said, _ := visibleLines(e.witness.Effect, 1, textEffectWidth); len(said) > 0 {
			_, judging := e.witness.sidesOf()
			lines = append(lines, judging+": "+said[0])
		}
	}
	return strings.Join(lines, "\n")
}

// placeOf describes the place of a single finding.
func (e *entry) placeOf() place {
	p := place{path: e.Path, before: e.Before, after: e.After, at: e.sourceOf()}
	if e.Version != "" {
		p.versions = []string{e.Version}
	}
	return p
}

// anyFile finds a file for a finding without one, because code scanning refuses results without a file. It takes the file of
// another finding of the CRD, else the new side, else the old one.
func (s *sheet) anyFile(p *page, root string) string {
	for i := range s.groups {
		for j := range s.groups[i].entries {
			if at, ok := s.groups[i].entries[j].Position.inRepository(root); ok {
				return at.File
			}
		}
	}
	for _, side := range []string{p.new, p.old} {
		if at, ok := (&Position{File: side}).inRepository(root); ok {
			return at.File
		}
	}
	return "."
}

// firstLines returns the first lines of raw text, visible, with a remark if it leaves something out.
func firstLines(raw string, limit, width int, o Options) string {
	if o.Verbose {
		limit, width = 0, 0
	}
	lines, more := visibleLines(raw, limit, width)
	if more > 0 {
		lines = append(lines, "… "+brief.Count(more, "more line"))
	}
	return strings.Join(lines, "\n")
}
