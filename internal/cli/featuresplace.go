package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxPlaces is how many bytes of a file are looked through for the lines of findings.
const maxPlaces = 16 << 20

// sourceFile is a file that definitions were read from.
type sourceFile struct {
	name string
	data []byte
	docs []*yaml.Node // once they were looked for
	read bool
}

// place is where something stands. The line is 0 where only the file is known.
type sourcePlace struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// String writes a place as compilers do; empty where nothing is known.
func (p sourcePlace) String() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// documents returns the objects of the file, those of lists one by one. What cannot be read has none.
func (f *sourceFile) documents() []*yaml.Node {
	if f.read || len(f.data) > maxPlaces {
		return f.docs
	}
	f.read = true
	d := yaml.NewDecoder(bytes.NewReader(f.data))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return f.docs
		}
		if err != nil {
			f.docs = nil
			return nil
		}
		if len(n.Content) == 0 {
			continue
		}
		doc := n.Content[0]
		if items := child(doc, "items"); text(doc, "kind") == "List" && items != nil && items.Kind == yaml.SequenceNode {
			f.docs = append(f.docs, items.Content...)
			continue
		}
		f.docs = append(f.docs, doc)
	}
}

// child returns what a mapping has under a key; nil where it has nothing.
func child(n *yaml.Node, key string) *yaml.Node {
	_, v := entry(n, key)
	return v
}

func entry(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	// The last one counts, as it does for those who read the document.
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// text returns the scalar to which a path of keys leads.
func text(n *yaml.Node, path ...string) string {
	for _, key := range path {
		n = child(n, key)
	}
	if n == nil {
		return ""
	}
	return n.Value
}

// find returns the place of something in the last object for which is holds: where is a path such as spec.parts[0].field, or as much
// of it as there is.
func (d *definitions) find(is func(doc *yaml.Node) bool, where ...string) sourcePlace {
	for i := range slices.Backward(d.files) {
		f := &d.files[i]
		docs := f.documents()
		for j := range slices.Backward(docs) {
			if !is(docs[j]) {
				continue
			}
			return sourcePlace{f.name, lineOf(docs[j], where)}
		}
	}
	return sourcePlace{}
}

// lineOf follows a path of keys and indices as far as it goes.
func lineOf(n *yaml.Node, where []string) int {
	line := n.Line
	for _, step := range where {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if i, err := strconv.Atoi(step); err == nil && n.Kind == yaml.SequenceNode {
			if i >= len(n.Content) {
				return line
			}
			n = n.Content[i]
			line = n.Line
			continue
		}
		k, v := entry(n, step)
		if k == nil {
			return line
		}
		n, line = v, k.Line
	}
	return line
}

// steps takes a place of a finding apart: spec.parts[0].field is spec, parts, 0, field.
func steps(where string) []string {
	return strings.FieldsFunc(where, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// ofFeature finds the Feature of a gate, ofComponent a Component.
func ofFeature(component, gate string) func(*yaml.Node) bool {
	return func(doc *yaml.Node) bool {
		return text(doc, "kind") == "Feature" && text(doc, "spec", "gate") == gate && text(doc, "spec", "component") == component
	}
}

func ofComponent(name string) func(*yaml.Node) bool {
	return func(doc *yaml.Node) bool {
		return text(doc, "kind") == "Component" && text(doc, "metadata", "name") == name
	}
}

func ofConfigMap(namespace, name string) func(*yaml.Node) bool {
	return func(doc *yaml.Node) bool {
		n := text(doc, "metadata", "namespace")
		return text(doc, "kind") == "ConfigMap" && text(doc, "metadata", "name") == name && (n == namespace || n == "")
	}
}
