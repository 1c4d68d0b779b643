package ui

// What does the page Check do? It has two editors for an old and a new CRD, filled from a source, a file or an
// example, and shows the verdict below them. The comparison is that of sluice check. While somebody types, the
// script asks for the verdict alone.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"sluice.dev/compat"
	"sluice.dev/internal/brief"
	"sluice.dev/internal/cli/check"
	"sluice.dev/internal/crdcheck"
	"sluice.dev/internal/input"
	"sluice.dev/internal/preflight"
	"sluice.dev/report"
)

// manyRefs bounds the git revisions that the page offers.
const manyRefs = 200

// checkData is what the page about a comparison shows.
type checkData struct {
	OldSource, NewSource string
	Old, New             string
	Result               template.HTML
	Wrong                string
	Example              *compat.Rule
	ExampleID            string
	Why                  []string // of the example
	Instead              string   // the alternative of the example
	OldSide, NewSide     editor
	Examples             []levelExamples
	Refs                 []string
	Max                  string
}

// editor is a text that can be edited.
type editor struct{ Name, Label, Source, Text string }

// levelExamples are the rules of a level that have an example.
type levelExamples struct {
	Level string
	Rules []compat.Rule
}

// checkPage compares two texts: those of the form, those of two sources (old, new), or those of the example of a
// rule (example). Whatever goes wrong is shown on the page, in place of the verdict.
func (s *Server) checkPage(w http.ResponseWriter, r *http.Request) {
	d := &checkData{Max: fmt.Sprintf("%d MB", MaxText>>20)}
	err := s.readTexts(w, r, d)
	if err == nil && (d.Old != "" || d.New != "") {
		err = s.compare(r.Context(), d)
	}
	if err != nil {
		d.Wrong = brief.Clip(err.Error(), 2000)
	}
	// The script replaces the verdict alone, and leaves the editors as they are.
	if r.Method == http.MethodPost && r.Header.Get("X-Sluice-Part") != "" {
		s.render(w, http.StatusOK, "verdict", d)
		return
	}
	d.Examples, d.Refs = ruleExamples(), input.GitRefs(r.Context(), manyRefs)
	d.OldSide, d.NewSide = editor{"old", "Old CRD", d.OldSource, d.Old}, editor{"new", "New CRD", d.NewSource, d.New}
	s.show(w, r, "check", page{Title: "Check", Here: "check", Data: d})
}

// readTexts fills in the texts that a request is about. A form that is too large is an error before it is read.
func (s *Server) readTexts(w http.ResponseWriter, r *http.Request, d *checkData) (err error) {
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		err := r.ParseMultipartForm(maxForm) //nolint:gosec // the line before bounds it
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fmt.Errorf("both CRDs together are larger than %d bytes", large.Limit)
		}
		if err != nil && !errors.Is(err, http.ErrNotMultipart) {
			return err
		}
		// A form has line breaks of its own.
		form := func(name string) string { return strings.ReplaceAll(r.PostFormValue(name), "\r\n", "\n") }
		d.Old, d.New, d.OldSource, d.NewSource = form("old"), form("new"), form("old-source"), form("new-source")
		return nil
	}
	q := r.URL.Query()
	if id := q.Get("example"); id != "" {
		return exampleTexts(id, d)
	}
	d.OldSource, d.NewSource = q.Get("old"), q.Get("new")
	for _, side := range []struct {
		name, source string
		text         *string
	}{{"old", d.OldSource, &d.Old}, {"new", d.NewSource, &d.New}} {
		if side.source == "" {
			continue
		}
		if *side.text, err = check.SourceText(r.Context(), side.source, s.Flags, MaxText); err != nil {
			return fmt.Errorf("the %s CRD: %w", side.name, err)
		}
	}
	return nil
}

// compare writes the verdict on the texts. It waits while other comparisons run. The old text may be empty: then
// the CRD is new.
func (s *Server) compare(ctx context.Context, d *checkData) error {
	for _, t := range []struct{ name, text string }{{"old", d.Old}, {"new", d.New}} {
		if len(t.text) > MaxText {
			return fmt.Errorf("the %s CRD has %d bytes, and the limit is %d", t.name, len(t.text), MaxText)
		}
	}
	if strings.TrimSpace(d.New) == "" && d.Example == nil {
		return errors.New("there is no new CRD: paste one, drop a file, or load one from a source")
	}
	select { // a comparison takes all processors
	case s.checks <- struct{}{}:
		defer func() { <-s.checks }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := s.texts.Compare(ctx, d.Old, d.New)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := report.HTMLBody(&b, r, report.Options{Rules: preflight.Doc}); err != nil {
		return err
	}
	d.Result = template.HTML(b.String()) // a template has written it
	return nil
}

// sourceText is the CRDs of a source as text, for the editor.
func (s *Server) sourceText(w http.ResponseWriter, r *http.Request) {
	text, err := check.SourceText(r.Context(), r.URL.Query().Get("of"), s.Flags, MaxText)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil { // no status of a failure: browsers write one into their console
		w.Header().Set("X-Sluice-Wrong", "1")
		text = brief.Clip(err.Error(), 2000)
	}
	_, _ = io.WriteString(w, text) //nolint:gosec // plain text, and the header says that browsers may not guess
}

// ruleExamples lists the rules by level, the worst first. Rules that have no level of their own come last.
func ruleExamples() []levelExamples {
	var all []levelExamples
	for _, l := range append(report.Levels(), report.LevelInfo{}) {
		e := levelExamples{Level: string(l.ID)}
		for _, r := range compat.Rules() {
			if r.Level == l.ID && (r.Unsafe.Old != "" || r.Unsafe.New != "") {
				e.Rules = append(e.Rules, r)
			}
		}
		e.Level = cmp.Or(e.Level, "notes, and levels that depend")
		if len(e.Rules) > 0 {
			all = append(all, e)
		}
	}
	return all
}

// exampleTexts fills in the example of a rule.
func exampleTexts(id string, d *checkData) error {
	rule, ok := compat.Lookup(id)
	if !ok {
		if _, other := crdcheck.Lookup(id); other {
			return fmt.Errorf("the rule %s has no example: it needs a cluster", id)
		}
		return fmt.Errorf("there is no rule %q", brief.Cut(id, 100))
	}
	d.Example, d.ExampleID, d.Instead = &rule, id, strings.TrimSpace(rule.Instead)
	d.Why = strings.Split(rule.Why, "\n\n")
	var err error
	if d.Old, err = exampleText(rule.Unsafe.Old, &rule); err == nil {
		d.New, err = exampleText(rule.Unsafe.New, &rule)
	}
	return err
}

// exampleText is the CRD of an example as YAML; empty if this side of the example has none.
func exampleText(fragment string, rule *compat.Rule) (string, error) {
	crd, err := compat.ExampleCRD(fragment, rule.InSpec())
	if err != nil || crd == nil {
		return "", err
	}
	return (&input.Document{CRD: crd}).Manifest()
}
