package report

// Which formats are there, and what may a user choose? A format is a function that appends to a buffer; a list
// has them all, and the help, the flag and the documentation come out of it.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Options are the options for printing a report. The zero value suits a log: short, without colour, without wrapping.
type Options struct {
	// Verbose asks for everything: each finding with its whole witness, each safe CRD, and findings that are suppressed or off.
	// Without it, every format for people is bounded for any input. The formats markdown and github stay within the limits of
	// GitHub either way; json and yaml are always complete.
	Verbose bool
	// Color allows colour in text, by terminal escape sequences. Other formats have none.
	Color bool
	// Width is the number of columns for wrapping text; 0 and values below 40 do not wrap.
	Width int
	// Root is the directory of the repository. Formats that need paths inside a repository (sarif, junit, github) print positions
	// relative to it. If it is empty, relative paths stay as they are.
	Root string
	// Version is the version of the program, for formats that name their producer (sarif, html). It may be empty.
	Version string
	// Date is the day of the report, for formats that people keep (html). It may be empty.
	Date string
	// Rules returns the documentation of a rule, for formats that include it (sarif, html). It may be nil.
	Rules func(id string) (RuleDoc, bool)
}

// exampleLimit is the number of affected objects that are named; 0 stands for all.
func (o *Options) exampleLimit() int {
	if o.Verbose {
		return 0
	}
	return manyExamples
}

// RuleDoc is the documentation of a rule: plain text, paragraphs separated by empty lines.
type RuleDoc struct {
	// ID is the rule's ID. Title says in a few words what the rule reports, without a full stop.
	ID, Title string
	// Why explains the harm. Help explains the way out.
	Why, Help string
}

// Printer writes a report in one format.
type Printer struct {
	// Name is the name by which users select the format, for example sarif.
	Name string
	// Doc says in a few words what users need the format for.
	Doc string
	// Print writes r to w. It does not change r, and prints findings in the order of [Report.Sort]. It writes once, so that an
	// earlier failure leaves no partial output. Errors are those of w.
	Print func(w io.Writer, r *Report, o Options) error
}

// Printers lists the formats in the order of the help. The first one is the default. To add a format, write one file and add one
// line here.
func Printers() []Printer {
	return []Printer{
		{"text", "for people, short", wholePrinter(appendText)},
		{"json", "everything, for programs", wholePrinter(appendJSON)},
		{"yaml", "everything, for programs and readers", wholePrinter(appendYAML)},
		{"sarif", "for code scanning, SARIF 2.1.0", wholePrinter(appendSARIF)},
		{"junit", "for test views of CI systems", wholePrinter(appendJUnit)},
		{"markdown", "for a comment on a pull request", wholePrinter(appendMarkdown)},
		{"github", "annotations by GitHub's workflow commands", wholePrinter(appendGitHub)},
		{"html", "one page with everything in it, to keep or send", wholePrinter(appendHTML)},
	}
}

// Print writes r in the format called name. If name is not in [Printers], the error lists the names that are.
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

// wholePrinter makes a printer from a function that appends the whole output to a buffer. The function gets a sorted copy.
// The copy is as deep as sorting goes: findings are values, and no printer changes what they point to.
func wholePrinter(appendTo func(b *bytes.Buffer, r *Report, o Options) error) func(io.Writer, *Report, Options) error {
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
