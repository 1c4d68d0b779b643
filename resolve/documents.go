package resolve

import (
	"bytes"
	"unicode/utf8"
)

const (
	byteOrderMark = "\uFEFF"
	// lineBreaks are those of YAML 1.1, of which later versions dropped three: a parser may see any of them.
	lineBreaks = "\r\n\u0085\u2028\u2029"
)

// SeveralDocuments tells whether content is a YAML stream in which more than one document has something in it. It is for
// resolvers whose request names one resource: what stands behind the first document is seen by some readers and passed
// over by others.
//
// It looks at lines and parses nothing, so that no content costs more than its length; whatever a YAML parser takes for a
// second document that is not empty counts.
func SeveralDocuments(content []byte) bool {
	content = bytes.TrimPrefix(content, []byte(byteOrderMark))
	full, begun := 0, false
	for len(content) > 0 {
		line := content
		if i := bytes.IndexAny(content, lineBreaks); i >= 0 {
			_, size := utf8.DecodeRune(content[i:])
			line, content = content[:i], content[i+size:]
		} else {
			content = nil
		}
		if isMarker(line) {
			begun, line = false, line[3:]
		}
		text := bytes.TrimLeft(line, " \t")
		if begun || len(text) == 0 || text[0] == '#' || line[0] == '%' {
			continue
		}
		if full++; full > 1 {
			return true
		}
		begun = true
	}
	return false
}

// isMarker: a marker of documents stands at the beginning of a line, and white space follows (YAML 1.2.2, 9.1.2).
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t'
}
