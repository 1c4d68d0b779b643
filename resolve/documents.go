package resolve

import (
	"bytes"
	"unicode/utf8"
)

// Some readers of YAML take the first document of a stream and others all of them. Whoever signs or reviews content must not see
// another resource than the one that is applied, so resolvers for one resource refuse several.

const (
	byteOrderMark = "\uFEFF"
	// lineBreaks are those of YAML 1.1. Later versions dropped three of them, so a parser may recognise any of them.
	lineBreaks = "\r\n\u0085\u2028\u2029"
)

// SeveralDocuments reports whether content is a YAML stream with more than one document that is not empty. It is for resolvers
// whose requests name one resource: some readers use the documents after the first one, and others ignore them.
//
// It looks at lines and parses nothing, so its cost depends only on the length of the content. Everything counts that any YAML
// parser may read as a second document that is not empty.
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

// isMarker reports whether a line begins with a document marker, followed by white space (YAML 1.2.2, 9.1.2).
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t'
}
