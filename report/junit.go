package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"

	"sluice.dev/internal/brief"
)

// JUnit's XML as GitLab and Jenkins read it: a suite for each CRD, a case for each rule with findings. Failing findings are
// failures, suppressed ones skipped cases. A CRD with neither has one case that passes. Remarks are one skipped case.

// junitSuites is the element that holds all suites. Its counts are the sums of those of the suites. Errors are always
// 0: what cannot be compared is a finding.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

// junitSuite is a CRD, in the order of the report. Properties say what was compared. Notes and the counts of objects
// are its output.
type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Properties []junitProperty `xml:"properties>property,omitempty"`
	Cases      []*junitCase    `xml:"testcase"`
	Out        *junitText      `xml:"system-out,omitempty"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// junitCase is a rule with its findings. A case that fails has its text in the failure, one that passes has it as output.
// left are groups whose text did not fit.
type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Line    int           `xml:"line,attr,omitempty"`
	Skipped *junitSkipped `xml:"skipped,omitempty"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Out     *junitText    `xml:"system-out,omitempty"`

	text strings.Builder
	left []group // they did not fit
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitText struct {
	Text string `xml:",chardata"`
}

// junitBytes bounds the text of all cases of a CRD, unless everything is asked for.
const junitBytes = 48_000

// appendJUnit writes one XML document. Remarks, such as sources that were not compared, become a case that is
// skipped: GitLab and Jenkins show those, and nothing fails.
func appendJUnit(b *bytes.Buffer, r *Report, o Options) error {
	p := newPage(r, o)
	all := junitSuites{Name: "sluice check"}
	for i := range p.crds {
		suite := newJUnitSuite(p, &p.crds[i], o)
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Skipped += suite.Skipped
		all.Suites = append(all.Suites, suite)
	}
	if len(p.remarks) > 0 {
		text := strings.Join(p.remarks, "\n")
		all.Tests, all.Skipped = all.Tests+1, all.Skipped+1
		all.Suites = append(all.Suites, junitSuite{
			Name: "sluice check", Tests: 1, Skipped: 1,
			Cases: []*junitCase{{Name: "notes on what was compared", Class: "sluice check", Skipped: &junitSkipped{Message: text}}},
		})
	}
	b.WriteString(xml.Header)
	var raw bytes.Buffer
	e := xml.NewEncoder(&raw)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("cannot write XML: %w", err)
	}
	// The encoder writes line breaks as references. Attributes have none, and in text plain line breaks are easier to read.
	b.Write(bytes.ReplaceAll(raw.Bytes(), []byte("&#xA;"), []byte("\n")))
	b.WriteByte('\n')
	return nil
}

// newJUnitSuite makes the suite of a CRD. Findings that are off are left out, also with everything asked for.
// Notes are output of the suite, because they are no test. The text of a
// group is that of the format text, without colour and indentation.
func newJUnitSuite(p *page, s *sheet, o Options) junitSuite {
	suite := junitSuite{Name: s.name}
	for _, x := range []junitProperty{
		{"old", p.old}, {"new", p.new}, {"kubernetes", p.kube}, {"verdict", string(s.verdict)},
	} {
		if x.Value != "" {
			suite.Properties = append(suite.Properties, x)
		}
	}
	o.Color, o.Width = false, 0
	t := textPrinter{Options: o, page: p, witness: textWitnesses, sheet: s}
	room := junitBytes
	cases := make(map[string]*junitCase)
	var notes strings.Builder
	for _, g := range s.allGroups() {
		e := g.leadEntry()
		if e.class == silent {
			continue
		}
		t.shareWitnessLines([]group{g})
		text, _ := t.fitGroup(&g, room)
		text = strings.TrimPrefix(strings.ReplaceAll(text, "\n    ", "\n"), "    ")
		room -= len(text)
		if e.class == noting {
			notes.WriteString(text)
			continue
		}
		name := e.junitName()
		c := cases[name]
		if c == nil {
			c = newJUnitCase(name, s, &g, o)
			cases[name] = c
			suite.Cases = append(suite.Cases, c)
		}
		c.text.WriteString(text)
		if text == "" {
			c.left = append(c.left, g)
		}
	}
	if len(suite.Cases) == 0 {
		suite.Cases = []*junitCase{p.quietCase(s)}
	}
	suite.closeCases()
	if s.objects != nil {
		notes.WriteString(s.objects.scanSummary() + "\n")
	}
	if notes.Len() > 0 {
		suite.Out = &junitText{notes.String()}
	}
	return suite
}

// junitName names the case that the finding belongs to: its rule, and what becomes of it if it does not fail.
func (e *entry) junitName() string {
	switch {
	case e.class == suppressed:
		return e.Rule + " (suppressed)"
	case e.Outcome == Undecided:
		return e.Rule + " (undecided)"
	case e.class == warning:
		return e.Rule + " (warning)"
	}
	return e.Rule
}

// closeCases puts the text of each case where a reader of its result looks for it, and counts the cases.
func (s *junitSuite) closeCases() {
	for _, c := range s.Cases {
		s.Tests++
		if len(c.left) > 0 {
			c.text.WriteString("… and " + countsOfLeft(c.left) + "\n")
		}
		switch {
		case c.Failure != nil:
			s.Failures++
			c.Failure.Text = c.text.String()
		case c.Skipped != nil:
			s.Skipped++
		case c.text.Len() > 0:
			c.Out = &junitText{c.text.String()}
		}
	}
}

// quietCase is the case of a CRD without findings to show. A CRD that was compared with nothing was not tested.
func (p *page) quietCase(s *sheet) *junitCase {
	c := &junitCase{Name: "upgrade is safe", Class: s.name}
	switch {
	case s.verdict == IsNew:
		c.Name, c.Skipped = "the CRD is new", &junitSkipped{Message: p.verdictInWords(s)}
	case !s.verdict.Proven():
		c.Name = "nothing fails or warns"
	}
	return c
}

// newJUnitCase makes the case of a rule. Its name has no count and no path, so that the CI system keeps one history for each rule.
// The message names the place if there is one, and counts them otherwise. An undecided finding fails with the type
// undecided.
func newJUnitCase(name string, s *sheet, g *group, o Options) *junitCase {
	e := g.leadEntry()
	c := &junitCase{Name: name, Class: s.name}
	if at, ok := e.Position.inRepository(o.Root); ok {
		c.File, c.Line = at.File, at.Line
	}
	message := g.message
	if n := len(g.places); n > 1 {
		message = fmt.Sprintf("%s (%s)", message, brief.Count(n, "place"))
	} else {
		message = g.places[0].String() + ": " + message
	}
	switch e.class {
	case failing:
		kind := string(e.Level)
		if e.Outcome == Undecided || kind == "" {
			kind = string(e.Outcome)
		}
		c.Failure = &junitFailure{Type: kind, Message: message}
	case suppressed:
		c.Skipped = &junitSkipped{Message: message + ": " + e.Suppressed.Reason}
	case warning, noting, silent:
	}
	return c
}
