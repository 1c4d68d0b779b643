package input

// On which line does a part of an object stand? Findings have paths such as spec.versions[0].schema, and people
// want FILE:LINE. The library that decodes knows no lines, so the text is parsed once more, by another library,
// when somebody first asks. Most objects are never asked about.

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	yamlv3 "go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/internal/yamlerr"
	"sluice.dev/report"
)

// Positions finds the places of the parts of one object. It is safe for concurrent use.
type Positions struct {
	doc *document
	// base leads to the object, for one that is an item of a list.
	base []string
}

// Find returns the place of the part of the object that path leads to, and true. The elements of path are keys of objects
// and decimal indices of lists: Find("spec", "versions", "0", "name"). The place is that of the key, or that of the value
// for an item of a list; columns count bytes from 1. If there is no such part, Find returns the place of the nearest part
// around it and false. The empty path is the object itself.
func (p *Positions) Find(path ...string) (report.Position, bool) {
	if p == nil {
		return report.Position{}, false
	}
	return p.doc.findPosition(append(slices.Clip(p.base), path...))
}

// Place returns the position of a finding in the document. If the finding is about a part that is gone, its path
// is one in the old document. Then Place finds the version by its name. Lists may have other indices now, so it
// returns the part around them. A definition without positions, which helm has rendered, has the file alone. The
// result is never nil.
func (d *Document) Place(f *report.Finding) *report.Position {
	if d.Positions == nil {
		return &report.Position{File: d.File}
	}
	where := f.SchemaPath
	if f.InOld {
		where = slices.Clone(where)
		rest := 0
		if len(where) > 2 && where[0] == "spec" && where[1] == "versions" {
			i := slices.IndexFunc(d.CRD.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == f.Version })
			where[2], rest = strconv.Itoa(i), 3 // -1 leads nowhere
		}
		if i := slices.IndexFunc(where[rest:], isIndex); i >= 0 {
			where = where[:rest+i]
		}
	}
	pos, _ := d.Positions.Find(where...)
	return &pos
}

func isIndex(step string) bool {
	_, err := strconv.Atoi(step)
	return err == nil
}

// document is the text of one value. It is read a second time, for the places, when somebody first asks for one.
type document struct {
	file string
	text string
	// line is the number of the text's first line in the file.
	line int

	once sync.Once
	root *yamlv3.Node // nil where the library that knows places cannot read the text

	mu    sync.Mutex
	index map[*yamlv3.Node]map[string]int // the places of the keys of mappings that were looked into
}

// keyIndex returns the index of the key in the content of a mapping, -1 if it is not there. A search through the mapping for each key
// took over a minute for 100,000 unknown fields in one mapping.
func (d *document) keyIndex(mapping *yamlv3.Node, key string) int {
	keys, ok := d.index[mapping]
	if !ok {
		keys = make(map[string]int, len(mapping.Content)/2)
		for i := len(mapping.Content)/2*2 - 2; i >= 0; i -= 2 {
			keys[mapping.Content[i].Value] = i // the first one of equals counts
		}
		if d.index == nil {
			d.index = map[*yamlv3.Node]map[string]int{}
		}
		d.index[mapping] = keys
	}
	if i, ok := keys[key]; ok {
		return i
	}
	return -1
}

// surrogates are the halves of a character as JSON writes them; YAML refuses them.
var surrogates = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// startPosition is the position of the first content. Finding it costs no reading.
func (d *document) startPosition() report.Position {
	i := max(contentOffset(d.text), 0)
	before := d.text[:i]
	return report.Position{File: d.file, Line: d.line + strings.Count(before, "\n"), Column: i - strings.LastIndexByte(before, '\n')}
}

// findPosition is [Positions.Find] with a path from the root of the document. Columns of a document count from the
// beginning of its own line.
func (d *document) findPosition(path []string) (report.Position, bool) {
	pos := d.startPosition()
	if len(path) == 0 {
		return pos, true
	}
	d.once.Do(func() {
		if doc, err := yamlerr.Nodes(surrogates.ReplaceAllString(d.text, `\u0020`)); err == nil && len(doc.Content) == 1 {
			d.root = doc.Content[0]
		}
	})
	if d.root == nil {
		return pos, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.root
	for _, s := range path {
		var place *yamlv3.Node
		if place, n = d.childOf(n, s, 0); n == nil {
			return pos, false
		}
		pos.Line, pos.Column = place.Line+d.line-1, place.Column
	}
	return pos, true
}

// childOf finds the child s of n: the node whose place counts and the value, nil if there is none. It looks
// through aliases and merge keys. A key that stands in the mapping itself takes precedence over one that is merged
// into it.
func (d *document) childOf(n *yamlv3.Node, s string, depth int) (place, value *yamlv3.Node) {
	if depth > maxListDepth {
		return nil, nil
	}
	switch n.Kind {
	case yamlv3.AliasNode:
		return d.childOf(n.Alias, s, depth+1)
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(s); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	case yamlv3.MappingNode:
		if i := d.keyIndex(n, s); i >= 0 {
			return n.Content[i], n.Content[i+1]
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value != "<<" {
				continue
			}
			from := []*yamlv3.Node{n.Content[i+1]}
			if from[0].Kind == yamlv3.SequenceNode {
				from = from[0].Content
			}
			for _, m := range from {
				if place, value = d.childOf(m, s, depth+1); value != nil {
					return place, value
				}
			}
		}
	case yamlv3.DocumentNode, yamlv3.ScalarNode:
	}
	return nil, nil
}

// Manifest returns the definition as YAML with a line break at the end: as it stands in its file if it is a document of its own, with comments;
// otherwise written anew, without what a server fills in.
func (d *Document) Manifest() (string, error) {
	if p := d.Positions; p != nil && len(p.base) == 0 && !d.Patched && !d.Templated && !d.Renamed {
		return strings.Trim(p.doc.text, "\n") + "\n", nil
	}
	crd := d.CRD.DeepCopy()
	crd.ManagedFields = nil
	raw, err := json.Marshal(crd)
	if err != nil {
		return "", err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return "", err
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, key := range []string{"creationTimestamp", "generation", "resourceVersion", "uid"} {
			delete(metadata, key)
		}
	}
	delete(object, "status")
	if stored := crd.Status.StoredVersions; len(stored) > 0 { // they count in a comparison
		object["status"] = map[string]any{"storedVersions": stored}
	}
	out, err := yaml.Marshal(object)
	return string(out), err
}
