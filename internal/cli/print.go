package cli

import (
	"encoding/json"
	"io"
)

// dash stands in a table for what is empty.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// encode prints a document as indented JSON.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
