package input

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// kind is the kind of a JSON value.
type kind uint8

const (
	kindNull kind = iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindMap
	kindList
)

// words says what a value of kind k is, with its article.
func (k kind) words() string {
	switch k {
	case kindNull:
		return "null"
	case kindFalse, kindTrue:
		return "a boolean"
	case kindNumber:
		return "a number"
	case kindString:
		return "a string"
	case kindMap:
		return "an object"
	case kindList:
		return "a list"
	}
	return "nothing"
}

// none is the index of no node.
const none = int32(-1)

// node is one value of a document. Nodes refer to each other by index, so that a tree is one allocation.
type node struct {
	// key is the name of the value in the object around it.
	key string
	// str is the text of a string, or a number as a JSON literal.
	str string
	// first is the first child, next the next sibling, parent the object or list around; none where there is none.
	first, next, parent int32
	// count is the number of children.
	count int32
	// line and col are the place of the key, or of the value where it has none; they count from 1, 0 is unknown.
	line, col int32
	kind      kind
}

// tree is the value of one document. Its root is node 0.
type tree struct {
	// remark is what is wrong with the text, though it can be read.
	remark *syntaxError
	nodes  []node
}

// add appends a node under parent, after the sibling last (none for the first), and returns its index.
func (t *tree) add(parent, last int32, n node) int32 {
	i := int32(len(t.nodes)) //nolint:gosec // maxNodes keeps this far below the limit of an int32
	n.first, n.next, n.parent = none, none, parent
	t.nodes = append(t.nodes, n)
	if parent != none {
		t.nodes[parent].count++
		if last == none {
			t.nodes[parent].first = i
		} else {
			t.nodes[last].next = i
		}
	}
	return i
}

// child returns the value of key in the object n, none where n is no object or has no such key.
func (t *tree) child(n int32, key string) int32 {
	if n == none || t.nodes[n].kind != kindMap {
		return none
	}
	for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
		if t.nodes[c].key == key {
			return c
		}
	}
	return none
}

// item returns element i of the list n, none where there is none.
func (t *tree) item(n int32, i int) int32 {
	if n == none || t.nodes[n].kind != kindList {
		return none
	}
	for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
		if i == 0 {
			return c
		}
		i--
	}
	return none
}

// text returns the text of the string n, empty where n is no string.
func (t *tree) text(n int32) string {
	if n == none || t.nodes[n].kind != kindString {
		return ""
	}
	return t.nodes[n].str
}

// distinct is true where no two children of the object n have the same key.
func (t *tree) distinct(n int32) bool {
	keys := make([]string, 0, t.nodes[n].count)
	for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
		keys = append(keys, t.nodes[c].key)
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return false
		}
	}
	return true
}

// steps leads from the root to n, as [Positions.Find] takes it.
func (t *tree) steps(n int32) []string {
	var steps []string
	for ; t.nodes[n].parent != none; n = t.nodes[n].parent {
		if t.nodes[t.nodes[n].parent].kind == kindMap {
			steps = append(steps, t.nodes[n].key)
		} else {
			steps = append(steps, strconv.Itoa(t.rank(n)))
		}
	}
	slices.Reverse(steps)
	return steps
}

// rank is the index of n in the list around it.
func (t *tree) rank(n int32) int {
	i := 0
	for c := t.nodes[t.nodes[n].parent].first; c != n; c = t.nodes[c].next {
		i++
	}
	return i
}

// path says where n is below root, for people: spec.versions[0].schema. Keys that are no plain words are quoted.
func (t *tree) path(root, n int32) string {
	var steps []string
	for ; n != root; n = t.nodes[n].parent {
		if t.nodes[t.nodes[n].parent].kind == kindMap {
			steps = append(steps, keyStep(t.nodes[n].key))
		} else {
			steps = append(steps, "["+strconv.Itoa(t.rank(n))+"]")
		}
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}

func keyStep(key string) string {
	plain := key != "" && strings.IndexFunc(key, func(r rune) bool {
		return r != '-' && r != '_' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if plain {
		return "." + key
	}
	return "[" + strconv.Quote(key) + "]"
}

// children returns the children of n, those of an object sorted by key.
func (t *tree) children(n int32, buf []int32) []int32 {
	sorted := true
	prev := none
	for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
		if prev != none && t.nodes[prev].key > t.nodes[c].key {
			sorted = false
		}
		buf = append(buf, c)
		prev = c
	}
	if t.nodes[n].kind == kindMap && !sorted {
		slices.SortFunc(buf, func(a, b int32) int { return strings.Compare(t.nodes[a].key, t.nodes[b].key) })
	}
	return buf
}

// renderer writes a tree as the JSON that encoding/json writes: compact, keys sorted, HTML characters escaped.
type renderer struct {
	t   *tree
	out []byte
	// skip leaves out the objects for which it is true; nil leaves out none.
	skip func(n int32) bool
	// spans records where each node begins and ends in out, in the order of writing, if it is not nil.
	spans *[]span
}

type span struct {
	node       int32
	start, end int
}

func (r *renderer) value(n int32) {
	nd := &r.t.nodes[n]
	at := 0
	if r.spans != nil {
		at = len(*r.spans)
		*r.spans = append(*r.spans, span{node: n, start: len(r.out)})
	}
	switch nd.kind {
	case kindNull:
		r.out = append(r.out, "null"...)
	case kindFalse:
		r.out = append(r.out, "false"...)
	case kindTrue:
		r.out = append(r.out, "true"...)
	case kindNumber:
		r.out = append(r.out, nd.str...)
	case kindString:
		r.out = appendString(r.out, nd.str)
	case kindMap:
		r.object(n)
	case kindList:
		r.out = append(r.out, '[')
		for c := nd.first; c != none; c = r.t.nodes[c].next {
			if c != nd.first {
				r.out = append(r.out, ',')
			}
			r.value(c)
		}
		r.out = append(r.out, ']')
	}
	if r.spans != nil {
		(*r.spans)[at].end = len(r.out)
	}
}

func (r *renderer) object(n int32) {
	var few [16]int32
	r.out = append(r.out, '{')
	comma := false
	for _, c := range r.t.children(n, few[:0]) {
		if r.skip != nil && r.skip(c) {
			continue
		}
		if comma {
			r.out = append(r.out, ',')
		}
		comma = true
		r.out = appendString(r.out, r.t.nodes[c].key)
		r.out = append(r.out, ':')
		r.value(c)
	}
	r.out = append(r.out, '}')
}

// appendString appends s as a JSON string.
func appendString(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			// Strings always marshal.
			b, _ := json.Marshal(s)
			return append(out, b...)
		}
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
}
