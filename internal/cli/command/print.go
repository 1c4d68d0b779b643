package command

import (
	"encoding/json"
	"io"
	"text/tabwriter"
)

// Dash is the text of an empty cell of a table.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Encode prints a document as indented JSON.
func Encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Columns returns a writer that aligns what is separated by tabs in columns. Flush it at the end.
func Columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
