package input

import (
	"slices"
	"strconv"
	"sync"

	yamlv3 "go.yaml.in/yaml/v3"

	"sluice.dev/internal/yamlerr"
	"sluice.dev/report"
)

// Positions finds the places of the parts of one document. It keeps the text and reads it again when it is first asked,
// so that it costs nothing before. It is safe for concurrent use.
type Positions struct {
	file string
	// chunk has the document; index is which of its JSON values it is.
	chunk chunk
	index int
	// base leads to the definition, for one that is an item of a list.
	base []string

	once sync.Once
	tree *tree
	root *yamlv3.Node
}

// Find returns the place of the part of the document that path leads to, and true. The elements of path are keys of
// objects and decimal indices of lists: Find("spec", "versions", "0", "name"). The place is that of the key, or that of
// the value for an item of a list; columns count bytes from 1. If there is no such part, Find returns the place of the
// nearest part around it and false. The empty path is the definition itself.
func (p *Positions) Find(path ...string) (report.Position, bool) {
	if p == nil {
		return report.Position{}, false
	}
	p.once.Do(p.parse)
	steps := append(slices.Clip(p.base), path...)
	pos := report.Position{File: p.file, Line: p.chunk.line}
	if line, col, ok := p.find(nil); ok {
		pos.Line, pos.Column = line, col
	}
	for i := range steps {
		line, col, ok := p.find(steps[:i+1])
		if !ok {
			return pos, false
		}
		pos.Line, pos.Column = line, col
	}
	return pos, true
}

func (p *Positions) parse() {
	p.tree = parsePlaced(p.chunk, p.index)
	if p.tree != nil {
		return
	}
	if doc, err := yamlerr.Nodes(p.chunk.text); err == nil && len(doc.Content) == 1 {
		p.root = doc.Content[0]
	}
}

// parsePlaced parses a chunk with one of the parsers that know places, nil where they refuse.
func parsePlaced(c chunk, index int) *tree {
	if i := c.content(); i >= 0 && c.text[i] == '{' {
		if trees, ok := parseJSON(c.text, c.line); ok && index < len(trees) {
			return trees[index]
		}
	}
	if !c.plain {
		return nil
	}
	return parseFast(c.text, c.line)
}

func (p *Positions) find(steps []string) (line, col int, ok bool) {
	switch {
	case p.tree != nil:
		n := p.tree.find(0, steps...)
		if n == none {
			return 0, 0, false
		}
		return int(p.tree.nodes[n].line), int(p.tree.nodes[n].col), true
	case p.root != nil:
		n := p.root
		place := n
		for _, s := range steps {
			if place, n = yamlStep(n, s, 0); n == nil {
				return 0, 0, false
			}
		}
		return place.Line + p.chunk.line - 1, place.Column, true
	}
	return 0, 0, false
}

// find follows steps from node n, none where they lead nowhere.
func (t *tree) find(n int32, steps ...string) int32 {
	for _, s := range steps {
		if n == none {
			return none
		}
		if t.nodes[n].kind == kindList {
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 {
				return none
			}
			n = t.item(n, i)
			continue
		}
		n = t.child(n, s)
	}
	return n
}

// yamlStep finds the child s of n: the node whose place counts and the value, nil where there is none. It looks through
// aliases and merge keys.
func yamlStep(n *yamlv3.Node, s string, depth int) (place, value *yamlv3.Node) {
	if depth > maxListDepth {
		return nil, nil
	}
	switch n.Kind {
	case yamlv3.AliasNode:
		return yamlStep(n.Alias, s, depth+1)
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(s); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == s {
				return n.Content[i], n.Content[i+1]
			}
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
				if place, value = yamlStep(m, s, depth+1); value != nil {
					return place, value
				}
			}
		}
	case yamlv3.DocumentNode, yamlv3.ScalarNode:
	}
	return nil, nil
}
