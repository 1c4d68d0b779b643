// Package yamlerr says what is wrong with YAML in plain words and at the right line. The messages of the libraries are
// those of a parser, and their lines count from 0 for some errors, and from where the trouble was noticed for others.
//
// It promises one line of text and, where it can be told, the line on which the trouble begins. It does not decide what
// is an error: the libraries do.
package yamlerr

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
)

var (
	// yamlLine is what the libraries put before their messages.
	yamlLine      = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\n  )?(?:line (\d+): )?`)
	yamlDuplicate = regexp.MustCompile(`^key (".*") already set in map$`)
	yamlAnchor    = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// yamlWords says in plain words what the library's messages mean.
var yamlWords = map[string]string{
	"did not find expected key":                      "a key is expected here; the indentation does not fit the lines above",
	"did not find expected '-' indicator":            "an item that begins with - is expected here; the indentation does not fit the lines above",
	"did not find expected node content":             "a value is expected here",
	"could not find expected ':'":                    "a key without a colon",
	"mapping values are not allowed in this context": "a colon where none may be; quote the text, or mend the indentation",
	"did not find expected ',' or ']'":               "a list that is not closed by ], or lacks a comma",
	"did not find expected ',' or '}'":               "an object that is not closed by }, or lacks a comma",
	"found unexpected end of stream":                 "a quote that is not closed",
	"found character that cannot start any token":    "a value that begins with a tab or a character that must be quoted",
	"document contains excessive aliasing":           "aliases that expand to too much",
	"control characters are not allowed":             "a control character",
}

// Explain puts an error that go.yaml.in/yaml/v2 has with text into one line of plain words. Lines count from first, which
// is that of the beginning of text; 0 means that the line is not known.
func Explain(err error, text string, first int) (line int, msg string) {
	msg = err.Error()
	m := yamlLine.FindStringSubmatch(msg)
	msg, _, _ = strings.Cut(msg[len(m[0]):], "\n")
	line, _ = strconv.Atoi(m[1])
	switch {
	case msg == "could not find expected ':'", msg == "found unexpected end of stream":
		// The library names the line where it noticed; its next version the one where the trouble begins.
		if _, err := Nodes(text); err != nil {
			line, _ = strconv.Atoi(yamlLine.FindStringSubmatch(err.Error())[1])
		}
	case strings.HasPrefix(msg, "did not find expected"):
		// Errors of the parser, unlike those of the scanner, count lines from 0.
		line = min(line+1, lineAt(text, len(strings.TrimRight(text, "\n"))))
	}
	if d := yamlDuplicate.FindStringSubmatch(msg); d != nil {
		msg = "duplicate key " + d[1]
		if one, two := duplicateLines(text, d[1]); two > 0 {
			msg += ", which stands at line " + strconv.Itoa(first+one-1) + " already"
			line = two
		}
	}
	if a := yamlAnchor.FindStringSubmatch(msg); a != nil {
		if i := strings.Index(text, "*"+a[1]); i >= 0 {
			line = lineAt(text, i)
		}
	}
	if words, ok := yamlWords[msg]; ok {
		msg = words
	}
	if line > 0 {
		line += first - 1
	}
	return line, msg
}

// lineAt is the line, counted from 1, of the byte at offset i.
func lineAt(s string, i int) int { return 1 + strings.Count(s[:i], "\n") }

// First explains the first error in a stream of documents, as [Explain] does; an empty msg means that there is none.
func First(text string) (line int, msg string) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.SetStrict(true)
	for {
		var v any
		err := decodeGuarded(dec, &v)
		switch {
		case errors.Is(err, io.EOF):
			return 0, ""
		case err != nil:
			return Explain(err, text, 1)
		}
	}
}

// decodeGuarded decodes the next document; a panic of the library is an error.
func decodeGuarded(dec *yaml.Decoder, v any) (err error) {
	defer Guard(&err)
	return dec.Decode(v)
}

// Guard turns, where it is deferred, a panic of a library into an error: what users feed us must never end the process.
func Guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the YAML library cannot cope with it: %v", r)
	}
}

// Nodes parses the first document of text with go.yaml.in/yaml/v3, which keeps places.
func Nodes(text string) (doc *yamlv3.Node, err error) {
	defer Guard(&err)
	doc = &yamlv3.Node{}
	return doc, yamlv3.Unmarshal([]byte(text), doc)
}

// Documents parses all documents of a stream with go.yaml.in/yaml/v3, which keeps places.
func Documents(data []byte) (docs []*yamlv3.Node, err error) {
	defer Guard(&err)
	for dec := yamlv3.NewDecoder(bytes.NewReader(data)); ; {
		doc := &yamlv3.Node{}
		switch err := dec.Decode(doc); {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, doc)
	}
}

// duplicateLines finds the lines of the first two equal keys of one object, 0 where there are none. quoted is the key as a Go
// string.
func duplicateLines(text, quoted string) (one, two int) {
	key, err := strconv.Unquote(quoted)
	if err != nil {
		return 0, 0
	}
	doc, err := Nodes(text)
	if err != nil {
		return 0, 0
	}
	todo := []*yamlv3.Node{doc}
	for len(todo) > 0 {
		n := todo[0]
		todo = append(todo[1:], n.Content...)
		if n.Kind != yamlv3.MappingNode {
			continue
		}
		one = 0
		for i := 0; i < len(n.Content); i += 2 {
			switch {
			case n.Content[i].Value != key:
			case one == 0:
				one = n.Content[i].Line
			default:
				return one, n.Content[i].Line
			}
		}
	}
	return 0, 0
}
