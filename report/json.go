package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Document is the machine-readable form of a report, as the formats json and yaml write it. A strict decoder takes what
// they write.
type Document struct {
	// APIVersion and Kind are those of this package.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Summary is derived from the report.
	Summary Summary `json:"summary"`
	Report
}

// appendJSON writes everything: nothing is shortened or put together. Strings keep their value, except that bytes that
// are no UTF-8 become U+FFFD, which JSON cannot do without; runes that are not printable are escaped.
func appendJSON(b *bytes.Buffer, r *Report, _ Options) error {
	return writeJSON(b, document(r))
}

func document(r *Report) Document {
	d := Document{APIVersion: APIVersion, Kind: Kind, Summary: r.Summary(), Report: *r}
	if d.CRDs == nil {
		d.CRDs = []CRD{}
	}
	return d
}

// writeJSON writes indented JSON in printable characters only.
func writeJSON(b *bytes.Buffer, v any) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("cannot write JSON: %w", err)
	}
	escapeStrings(b, raw.Bytes(), func(r rune) string {
		if r <= 0xffff {
			return fmt.Sprintf(`\u%04x`, r)
		}
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
	return nil
}

// escapeStrings copies text whose unprintable runes all stand in quoted strings, and escapes them. It also escapes what
// CI systems would take for a command in their logs.
func escapeStrings(b *bytes.Buffer, text []byte, escape func(rune) string) {
	b.Grow(len(text))
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte("##")) {
			line = logCommand.ReplaceAll(line, []byte("#"+escape('#')+"$1"))
		}
		start := 0
		for i := 0; i < len(line); {
			r, n := utf8.DecodeRune(line[i:])
			if r != '\n' && !unicode.IsPrint(r) {
				b.Write(line[start:i])
				b.WriteString(escape(r))
				start = i + n
			}
			i += n
		}
		b.Write(line[start:])
	}
}
