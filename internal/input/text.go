package input

// Where does a document of a stream begin and end? kubectl cuts a text at lines of three dashes before any library
// parses it, and reads the last line as if it ended with a line break. The same is done here, so that the same
// documents come out, with their lines. Texts that are no UTF-8 are refused with the reason.

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// checkText turns the bytes of a file into text. A mark of byte order at the beginning is left out. The result
// ends with a line break unless it is empty.
func checkText(data []byte) (string, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "", &Error{Msg: "is UTF-16; save it as UTF-8"}
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return "", &Error{Msg: "is compressed (gzip), not YAML or JSON"}
	}
	s := string(data)
	if i := strings.IndexByte(s, 0); i >= 0 {
		return "", lineError(lineAt(s, i), "is binary data (a NUL byte), not YAML or JSON")
	}
	if !utf8.ValidString(s) {
		i := 0
		for i < len(s) {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		return "", lineError(lineAt(s, i), "is binary data or in another encoding; it must be UTF-8")
	}
	s = unifyBreaks(s)
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n" // as kubectl reads the last line: a block scalar ends with it (LineReader in k8s.io/apimachinery/pkg/util/yaml)
	}
	return s, nil
}

// lineAt is the line, counted from 1, of the byte at offset i.
func lineAt(s string, i int) int { return 1 + strings.Count(s[:i], "\n") }

// unifyBreaks turns carriage returns that stand alone into line feeds. YAML takes both for line breaks, and JSON both for
// spaces.
func unifyBreaks(s string) string {
	if strings.Count(s, "\r") == strings.Count(s, "\r\n") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// chunk is the text of one YAML document, or of a run of JSON values.
type chunk struct {
	text string
	// line is the number of its first line.
	line int
	// ignored says that it stands behind a line ... and no line ---, where kubectl looks no further.
	ignored bool
}

// splitStream cuts a YAML stream into its documents, at lines that begin with --- or ... and a blank. Such a line always ends a document:
// within a quoted scalar YAML forbids it. Directives belong to the document after them, and the line --- to the document that it
// begins.
func splitStream(s string) []chunk {
	var chunks []chunk
	start, line, startLine := 0, 1, 1
	ended := false
	cut := func(end, next, nextLine int) {
		chunks = append(chunks, chunk{text: s[start:end], line: startLine, ignored: ended})
		start, startLine = next, nextLine
	}
	for at := 0; ; {
		if marker := markerAt(s, at); marker != 0 {
			end := lineEnd(s, at)
			switch {
			case marker == '.' && blankLine(s[at+3:end]):
				cut(at, end, line+1)
				ended = true
			case marker == '.': // the library describes the error
			case onlyDirectives(s[start:at]):
				ended = false
			default:
				cut(at, at, line)
				ended = false
			}
		}
		next := nextMarker(s, at)
		if next < 0 {
			cut(len(s), len(s), line)
			return chunks
		}
		line += strings.Count(s[at:next], "\n")
		at = next
	}
}

// nextMarker is the offset of the next line after offset i that begins with --- or ..., negative where there is none.
func nextMarker(s string, i int) int {
	next := -1
	for _, m := range []string{"\n---", "\n..."} {
		rest := s[i:]
		if next >= 0 {
			rest = s[i:min(next+3, len(s))]
		}
		if n := strings.Index(rest, m); n >= 0 {
			next = i + n + 1
		}
	}
	return next
}

// markerAt is the character of the document marker that begins at offset i, 0 if there is none.
func markerAt(s string, i int) byte {
	if !strings.HasPrefix(s[i:], "---") && !strings.HasPrefix(s[i:], "...") {
		return 0
	}
	if i+3 < len(s) && strings.IndexByte(" \t\r\n", s[i+3]) < 0 {
		return 0
	}
	return s[i]
}

// blankLine is true for blanks followed by nothing or a comment.
func blankLine(s string) bool {
	t := strings.TrimLeft(s, " \t")
	return t == "" || t[0] == '\n' || t[0] == '\r' || t[0] == '#' && len(t) < len(s)
}

// onlyDirectives is true where s has a directive and besides only comments.
func onlyDirectives(s string) bool {
	found := false
	for line := range strings.Lines(s) {
		switch {
		case strings.HasPrefix(line, "%"):
			found = true
		case !blankLine(line) && line[0] != '#':
			return false
		}
	}
	return found
}

// contentOffset is the offset of the first content of a document, which is neither blank nor a comment, a directive nor a marker;
// -1 where there is none.
func contentOffset(s string) int {
	for i := 0; i < len(s); {
		switch {
		case strings.IndexByte(" \t\r\n", s[i]) >= 0:
			i++
		case s[i] == '#', s[i] == '%' && (i == 0 || s[i-1] == '\n'):
			i = lineEnd(s, i)
		case markerAt(s, i) == '-' && (i == 0 || s[i-1] == '\n'):
			i += 3
		default:
			return i
		}
	}
	return -1
}

// lineEnd is the offset after the line break that ends the line of offset i.
func lineEnd(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(s)
}
