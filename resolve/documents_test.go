package resolve_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice.dev/resolve"
)

const (
	taskText   = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: a}\n"
	secretText = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
)

func TestSeveralDocuments(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		want    bool
	}{
		"one":                         {taskText, false},
		"nothing":                     {"", false},
		"JSON":                        {`{"kind": "Task"}`, false},
		"a marker before it":          {"---\n" + taskText, false},
		"comments and a marker":       {"# a\n\n---\n# b\n" + taskText, false},
		"a directive":                 {"%YAML 1.2\n---\n" + taskText, false},
		"a marker behind it":          {taskText + "---\n", false},
		"comments behind it":          {taskText + "---\n# the end\n\n---\n", false},
		"an end marker":               {taskText + "...\n", false},
		"dashes in a text":            {"a: |\n  ---\n  b\n", false},
		"more dashes":                 {"a: b\n----\n", false},
		"a Secret behind it":          {taskText + "---\n" + secretText, true},
		"a Secret before it":          {secretText + "---\n" + taskText, true},
		"behind empty documents":      {taskText + "---\n---\n\n---\n" + secretText, true},
		"behind an end marker":        {taskText + "...\n" + secretText, true},
		"behind spaces":               {taskText + "--- \t \n" + secretText, true},
		"in the line of the marker":   {taskText + "--- {kind: Secret}\n", true},
		"a tag":                       {taskText + "--- !x\nkind: Secret\n", true},
		"line breaks of old Macs":     {"kind: Task\r---\rkind: Secret\r", true},
		"line breaks of Windows":      {"kind: Task\r\n---\r\nkind: Secret\r\n", true},
		"an odd line break":           {"kind: Task\u2028---\u2028kind: Secret\n", true},
		"a byte order mark":           {"\uFEFF---\n" + taskText, false},
		"a directive behind it":       {taskText + "...\n%YAML 1.1\n---\n" + secretText, true},
		"what only looks like such":   {"a: 1\n%b: 2\n", false},
		"without a break at the end":  {taskText + "---\nkind: Secret", true},
		"a marker at the end of all":  {taskText + "---", false},
		"JSON objects one by another": {"{\"kind\": \"Task\"}\n---\n{\"kind\": \"Secret\"}", true},
	} {
		if got := resolve.SeveralDocuments([]byte(tt.content)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What a parser reads as a second document, the function sees.
func FuzzSeveralDocuments(f *testing.F) {
	f.Add([]byte(taskText + "---\n" + secretText))
	f.Add([]byte("a: 1\n...\nb: 2\n"))
	f.Add([]byte("--- a\n--- b"))
	f.Add([]byte("%YAML 1.1\n---\na\r---\rb"))
	f.Add([]byte("\uFEFFa\n---\n\uFEFFb"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<12 || bytes.ContainsAny(content, "&*") {
			return
		}
		dec := yaml.NewDecoder(bytes.NewReader(content))
		full := 0
		for range 16 {
			var n yaml.Node
			if err := dec.Decode(&n); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return
			}
			if len(n.Content) > 0 && n.Content[0].Tag != "!!null" {
				full++
			}
		}
		if full > 1 && !resolve.SeveralDocuments(content) {
			t.Errorf("%q has %d documents", content, full)
		}
	})
}
