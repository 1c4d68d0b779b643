package command

import (
	"encoding/json"
	"io"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// Dash is the text of an empty cell of a table.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// PrintDocument prints a document as yaml, or as indented JSON for any other format.
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

// Encode prints a document as indented JSON.
func Encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Columns returns a writer that aligns what is separated by tabs in columns. Flush it at the end.
func Columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
