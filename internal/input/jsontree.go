package input

import (
	"encoding/json"
	"strings"
)

// jsonParser reads JSON as encoding/json does, into a tree with places. Duplicate keys are refused, like anything that
// is no JSON; the library then says what is wrong.
type jsonParser struct {
	s     string
	pos   int
	start int
	line  int32
	depth int
	t     *tree
}

// parseJSON reads the JSON values that s consists of, one after the other. It returns false unless s is JSON from
// beginning to end.
func parseJSON(s string, line int) ([]*tree, bool) {
	p := &jsonParser{s: s, line: int32(line)} //nolint:gosec // files are bounded far below 2 GiB
	if strings.HasPrefix(s, "---") {
		p.pos = 3
	}
	var trees []*tree
	for p.space(); p.pos < len(s); p.space() {
		p.t = &tree{}
		if !p.value(none, none, node{line: p.line, col: p.column()}) {
			return nil, false
		}
		trees = append(trees, p.t)
	}
	return trees, true
}

func (p *jsonParser) column() int32 { return int32(p.pos-p.start) + 1 } //nolint:gosec // bounded by the file's size

func (p *jsonParser) space() {
	for p.pos < len(p.s) {
		switch p.s[p.pos] {
		case '\n':
			p.line++
			p.start = p.pos + 1
		case ' ', '\t', '\r':
		default:
			return
		}
		p.pos++
	}
}

// take consumes the byte c, if it is next after spaces.
func (p *jsonParser) take(c byte) bool {
	p.space()
	if p.pos < len(p.s) && p.s[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *jsonParser) word(w string) bool {
	if !strings.HasPrefix(p.s[p.pos:], w) {
		return false
	}
	p.pos += len(w)
	return true
}

// value reads the value at pos into a child of parent; nd has its key and place.
func (p *jsonParser) value(parent, last int32, nd node) bool {
	if p.pos == len(p.s) || len(p.t.nodes) >= maxNodes {
		return false
	}
	var ok bool
	switch c := p.s[p.pos]; c {
	case '{', '[':
		nd.kind = kindMap
		if c == '[' {
			nd.kind = kindList
		}
		p.depth++
		ok = p.depth <= maxDepth && p.collection(p.t.add(parent, last, nd), c == '{')
		p.depth--
		return ok
	case '"':
		nd.kind = kindString
		nd.str, ok = p.text()
	case 't':
		nd.kind, ok = kindTrue, p.word("true")
	case 'f':
		nd.kind, ok = kindFalse, p.word("false")
	case 'n':
		nd.kind, ok = kindNull, p.word("null")
	default:
		nd.kind = kindNumber
		nd.str, ok = p.number()
	}
	if ok {
		p.t.add(parent, last, nd)
	}
	return ok
}

func (p *jsonParser) collection(n int32, object bool) bool {
	closing := byte(']')
	if object {
		closing = '}'
	}
	p.pos++
	if p.take(closing) {
		return true
	}
	last := none
	ascending := true
	for {
		p.space()
		nd := node{line: p.line, col: p.column()}
		if object {
			var ok bool
			if p.pos == len(p.s) || p.s[p.pos] != '"' {
				return false
			}
			if nd.key, ok = p.text(); !ok || !p.take(':') {
				return false
			}
			if last != none && p.t.nodes[last].key >= nd.key {
				ascending = false
			}
			p.space()
		}
		child := int32(len(p.t.nodes)) //nolint:gosec // bounded by maxNodes
		if !p.value(n, last, nd) {
			return false
		}
		last = child
		if p.take(closing) {
			return !object || ascending || p.t.distinct(n)
		}
		if !p.take(',') {
			return false
		}
	}
}

// text reads the string at pos.
func (p *jsonParser) text() (string, bool) {
	plain := true
	for i := p.pos + 1; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '\\':
			plain = false
			i++
		case c == '"':
			raw := p.s[p.pos : i+1]
			p.pos = i + 1
			if plain {
				return raw[1 : len(raw)-1], true
			}
			var s string
			err := json.Unmarshal([]byte(raw), &s)
			return s, err == nil
		case c < 0x20:
			return "", false
		}
	}
	return "", false
}

// number reads the number at pos and returns it as it stands there.
func (p *jsonParser) number() (string, bool) {
	i := p.pos
	for i < len(p.s) && strings.IndexByte("+-.0123456789eE", p.s[i]) >= 0 {
		i++
	}
	raw := p.s[p.pos:i]
	p.pos = i
	return raw, json.Valid([]byte(raw))
}
