package report

// What do programs read? Everything, as the report has it, with the counts on top. docs/schemas describes the
// form.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Document is the machine-readable form of a report, in the formats json and yaml. A strict decoder accepts it.
type Document struct {
	// APIVersion and Kind are the constants of this package.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Summary has counts, which follow from the report.
	Summary Summary `json:"summary"`
	Report
}

// appendJSON writes the whole report. It neither shortens nor groups. Strings keep their values, with one exception: JSON has no
// bytes that are not UTF-8, so these become U+FFFD. Runes that are not printable are escaped.
func appendJSON(b *bytes.Buffer, r *Report, _ Options) error {
	return writeJSON(b, documentOf(r))
}

// documentOf adds the version, the kind and the counts to a report. A report without CRDs has an empty list, because
// readers loop over it.
func documentOf(r *Report) Document {
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

// escapeStrings copies text and escapes unprintable runes, which are all in quoted strings. It also escapes text that CI systems
// would read as a command in their logs.
// Terminals and CI systems read logs, and a report in JSON is often printed into one.
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
