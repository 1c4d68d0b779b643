package command

import (
	"encoding/json"
	"io"
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
