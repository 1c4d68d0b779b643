package input

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// checkText turns the bytes of a file into text.
func checkText(data []byte) (string, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "", &syntaxError{msg: "is UTF-16; save it as UTF-8"}
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return "", &syntaxError{msg: "is compressed (gzip), not YAML or JSON"}
	}
	s := string(data)
	if i := strings.IndexByte(s, 0); i >= 0 {
		return "", &syntaxError{line: lineAt(s, i), msg: "is binary data (a NUL byte), not YAML or JSON"}
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
		return "", &syntaxError{line: lineAt(s, i), msg: "is binary data or in another encoding; it must be UTF-8"}
	}
	s = unifyBreaks(s)
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n" // as kubectl reads the last line: a block scalar ends with it (LineReader in k8s.io/apimachinery/pkg/util/yaml)
	}
	return s, nil
}

func lineAt(s string, i int) int { return 1 + strings.Count(s[:i], "\n") }

// unifyBreaks turns carriage returns that stand alone into line feeds. YAML takes both for line breaks, and JSON both for
// spaces.
func unifyBreaks(s string) string {
	for i := 0; i < len(s); {
		n := strings.IndexByte(s[i:], '\r')
		if n < 0 {
			return s
		}
		i += n + 1
		if i == len(s) || s[i] != '\n' {
			s = strings.ReplaceAll(s, "\r\n", "\n")
			return strings.ReplaceAll(s, "\r", "\n")
		}
	}
	return s
}
