package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Options says how a report is printed. The zero value is right for a log: short, without colour, lines as long as they are.
type Options struct {
	// Verbose asks for everything: each finding with its whole witness, safe CRDs one by one, what is suppressed or off.
	// Without it every format for people is bounded, whatever the input. The formats markdown and github stay within the
	// limits of GitHub either way; json and yaml always hold everything.
	Verbose bool
	// Color allows colour in text, by terminal escape sequences. No other format has any.
	Color bool
	// Width is the number of columns at which text is wrapped; 0 and values below 40 do not wrap.
	Width int
	// Root is the directory that positions are made relative to in formats that want paths inside a repository (sarif,
	// junit, github). Empty leaves relative paths as they are.
	Root string
	// Version is that of the program, for formats that name their producer (sarif). It may be empty.
	Version string
	// Rules finds the documentation of a rule, for formats that carry it (sarif, html). It may be nil.
	Rules func(id string) (RuleDoc, bool)
}

// RuleDoc is the documentation of a rule: plain text, paragraphs separated by empty lines.
type RuleDoc struct {
	// ID is the rule's ID, Title what it reports in a few words, without a full stop.
	ID, Title string
	// Why says what harm is behind it, Help what to do instead.
	Why, Help string
}

// Printer writes a report in one format.
type Printer struct {
	// Name is what a user asks for, for example sarif.
	Name string
	// MIME is the media type of the output.
	MIME string
	// Doc says in a few words what the format is for.
	Doc string
	// Print writes r to w. It does not change r, prints findings in the order of [Report.Sort] whatever order they are
	// in, and writes once, so that a failure before writing leaves nothing half-written. Errors are those of w.
	Print func(w io.Writer, r *Report, o Options) error
}

// Printers lists the formats in the order in which help shows them. The first one is the default. To add a format, write
// one file and add one line here.
func Printers() []Printer {
	return []Printer{
		{"text", "text/plain; charset=utf-8", "for people, short", whole(appendText)},
		{"json", "application/json", "everything, for programs", whole(appendJSON)},
		{"yaml", "application/yaml", "everything, for programs and readers", whole(appendYAML)},
		{"sarif", "application/sarif+json", "for code scanning, SARIF 2.1.0", whole(appendSARIF)},
		{"junit", "application/xml", "for test views of CI systems", whole(appendJUnit)},
		{"markdown", "text/markdown; charset=utf-8", "for a comment on a pull request", whole(appendMarkdown)},
		{"github", "text/plain; charset=utf-8", "annotations by GitHub's workflow commands", whole(appendGitHub)},
		{"html", "text/html; charset=utf-8", "one page with everything in it, to keep or send", whole(appendHTML)},
	}
}

// Print writes r in the format called name. A name that is not in [Printers] is an error that gives those that are.
func Print(w io.Writer, name string, r *Report, o Options) error {
	all := Printers()
	i := slices.IndexFunc(all, func(p Printer) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range all {
			names = append(names, p.Name)
		}
		return fmt.Errorf("unknown output format %q: the formats are %s", name, strings.Join(names, ", "))
	}
	return all[i].Print(w, r, o)
}

// whole makes a printer of a function that appends the whole output to a buffer. The function gets a sorted copy.
func whole(appendTo func(b *bytes.Buffer, r *Report, o Options) error) func(io.Writer, *Report, Options) error {
	return func(w io.Writer, r *Report, o Options) error {
		if r == nil {
			return errors.New("no report to print")
		}
		c := *r
		c.CRDs = slices.Clone(r.CRDs)
		for i := range c.CRDs {
			c.CRDs[i].Findings = slices.Clone(c.CRDs[i].Findings)
		}
		c.Sort()
		var b bytes.Buffer
		if err := appendTo(&b, &c, o); err != nil {
			return err
		}
		_, err := w.Write(b.Bytes())
		return err
	}
}
