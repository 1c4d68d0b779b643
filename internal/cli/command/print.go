package command

// How does a command print its result? As a table for people, or as one document for programs, in JSON or YAML.
// Each document begins with its version and kind, so that a reader can tell what it has, and a schema in
// docs/schemas describes it.

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"sluice.dev/report"
)

// ReportOptions are those for a report on standard output that do not depend on the command. Root is the current
// directory, from which the names of files are relative in formats for CI systems.
func (e *Env) ReportOptions() report.Options {
	root, _ := os.Getwd() // without one, names of files stay as they are
	return report.Options{Version: e.Version, Width: e.Width, Root: root}
}

// Document begins every document for programs; its fields come first.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// DocumentOf begins a document of a kind.
func DocumentOf(kind string) Document { return Document{report.APIVersion, kind} }

// Dash is the text of an empty cell of a table.
func Dash(s string) string { return cmp.Or(s, "-") }

// PrintDocument prints a document as yaml, or as indented JSON for any other format. Fields are named as in JSON
// in both.
func PrintDocument(w io.Writer, format string, v any) error {
	if format != "yaml" {
		return Encode(w, v)
	}
	data, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// Encode prints a document as indented JSON. It leaves <, > and & as they are: the output is for programs and
// terminals, not for pages.
func Encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table is a table for people. Cells are separated by tabs.
type Table struct{ *tabwriter.Writer }

// Columns returns a table that is written to w. Flush it at the end. Columns are two spaces apart, and as wide as
// their widest cell.
func Columns(w io.Writer) Table { return Table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)} }

// Flush writes the rows, with their columns aligned. [Run] tells of errors.
func (t Table) Flush() { _ = t.Writer.Flush() }
