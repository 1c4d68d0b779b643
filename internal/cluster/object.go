package cluster

import (
	"fmt"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decodeObject decodes an object that the server sent, without metadata.managedFields: they are the server's own record,
// which it checked when it wrote it, and writes again in every update. Otherwise it gives what the API server's own decoder
// gives (k8s.io/apimachinery/pkg/util/json), which is asked for whatever is out of the ordinary. keys are the names that were
// met before; it is not for concurrent use.
func decodeObject(raw []byte, keys *names) (map[string]any, error) {
	d := decoder{b: raw, keys: keys}
	if obj, ok := d.root(); ok {
		return obj, nil
	}
	var obj map[string]any
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return nil, fmt.Errorf("an object that the server sent cannot be read: %w", err)
	}
	if meta, ok := obj["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	return obj, nil
}

const (
	// maxPlainDepth is the nesting depth that the decoder accepts by itself.
	maxPlainDepth = 100
	// maxNames and maxNameLen bound what is remembered of names.
	maxNames   = 4096
	maxNameLen = 64
)

// names remembers the names of fields, so that each is allocated once.
type names struct{ seen map[string]string }

func (n *names) get(b []byte) string {
	if s, ok := n.seen[string(b)]; ok { // does not allocate
		return s
	}
	s := string(b)
	if len(s) <= maxNameLen && len(n.seen) < maxNames {
		if n.seen == nil {
			n.seen = map[string]string{}
		}
		n.seen[s] = s
	}
	return s
}

// decoder decodes what API servers commonly write. Each of its methods says no where it is not sure.
type decoder struct {
	b       []byte
	at      int
	keys    *names
	scratch []byte
}

func (d *decoder) root() (map[string]any, bool) {
	v, ok := d.value(0, wholly)
	d.space()
	obj, isObject := v.(map[string]any)
	return obj, ok && isObject && d.at == len(d.b)
}

func (d *decoder) space() {
	for d.at < len(d.b) && (d.b[d.at] == ' ' || d.b[d.at] == '\n' || d.b[d.at] == '\t' || d.b[d.at] == '\r') {
		d.at++
	}
}

// take takes a byte that is not white space if it is c.
func (d *decoder) take(c byte) bool {
	d.space()
	if d.at == len(d.b) || d.b[d.at] != c {
		return false
	}
	d.at++
	return true
}

// part is the part of a value to decode.
type part int

const (
	wholly  part = iota
	asMeta       // it is the metadata of the object
	nothing      // it is checked only
)

// value decodes a value.
func (d *decoder) value(depth int, p part) (any, bool) {
	d.space()
	if d.at == len(d.b) || depth > maxPlainDepth {
		return nil, false
	}
	switch c := d.b[d.at]; c {
	case '{':
		d.at++
		return d.object(depth, p)
	case '[':
		d.at++
		return d.array(depth, p)
	case '"':
		d.at++
		s, ok := d.str()
		if !ok || p == nothing {
			return nil, ok
		}
		return string(s), true
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	default:
		return d.integer()
	}
}

func (d *decoder) word(w string) bool {
	if len(d.b)-d.at < len(w) || string(d.b[d.at:d.at+len(w)]) != w {
		return false
	}
	d.at += len(w)
	return true
}

func (d *decoder) object(depth int, p part) (any, bool) {
	var out map[string]any
	if p != nothing {
		out = make(map[string]any)
	}
	if d.take('}') {
		return out, true
	}
	for {
		if !d.take('"') {
			return nil, false
		}
		raw, ok := d.str()
		if !ok {
			return nil, false
		}
		key, inner := "", nothing
		if p != nothing {
			key, inner = d.keys.get(raw), wholly
		}
		switch {
		case depth == 0 && key == "metadata":
			inner = asMeta
		case p == asMeta && key == "managedFields":
			inner = nothing
		}
		if !d.take(':') {
			return nil, false
		}
		v, ok := d.value(depth+1, inner)
		if !ok {
			return nil, false
		}
		if inner != nothing {
			out[key] = v
		}
		if !d.take(',') {
			return out, d.take('}')
		}
	}
}

func (d *decoder) array(depth int, p part) (any, bool) {
	if p == asMeta {
		p = wholly
	}
	var out []any
	if p != nothing {
		out = []any{}
	}
	if d.take(']') {
		return out, true
	}
	for {
		v, ok := d.value(depth+1, p)
		if !ok {
			return nil, false
		}
		if p != nothing {
			out = append(out, v)
		}
		if !d.take(',') {
			return out, d.take(']')
		}
	}
}

// integer decodes a whole number that is sure to be an int64.
func (d *decoder) integer() (any, bool) {
	start := d.at
	negative := d.b[d.at] == '-'
	if negative {
		d.at++
	}
	first, n := d.at, int64(0)
	for d.at < len(d.b) && '0' <= d.b[d.at] && d.b[d.at] <= '9' {
		n = 10*n + int64(d.b[d.at]-'0')
		if d.at++; d.at-start > 18 {
			return nil, false
		}
	}
	if d.at == first || d.b[first] == '0' && (d.at > first+1 || negative) {
		return nil, false
	}
	if d.at < len(d.b) && (d.b[d.at] == '.' || d.b[d.at] == 'e' || d.b[d.at] == 'E') {
		return nil, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// str decodes a string whose first quote is taken. The bytes are good until the next call.
func (d *decoder) str() ([]byte, bool) {
	start, ascii := d.at, true
	for ; d.at < len(d.b); d.at++ {
		switch c := d.b[d.at]; {
		case c == '"':
			s := d.b[start:d.at]
			d.at++
			return s, ascii || utf8.Valid(s)
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// escaped continues with str at the first escape.
func (d *decoder) escaped(start int) ([]byte, bool) {
	out := append(d.scratch[:0], d.b[start:d.at]...)
	for d.at < len(d.b) {
		c := d.b[d.at]
		d.at++
		switch {
		case c == '"':
			d.scratch = out
			return out, utf8.Valid(out)
		case c < ' ' || d.at == len(d.b):
			return nil, false
		case c != '\\':
			out = append(out, c)
			continue
		}
		c = d.b[d.at]
		d.at++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'u':
			r, ok := d.hex()
			if !ok {
				return nil, false
			}
			out = utf8.AppendRune(out, r)
		default:
			return nil, false
		}
	}
	return nil, false
}

// hex decodes the four digits of an escape that is not half of a surrogate pair.
func (d *decoder) hex() (rune, bool) {
	if len(d.b)-d.at < 4 {
		return 0, false
	}
	r := rune(0)
	for range 4 {
		c := d.b[d.at]
		d.at++
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, r < 0xd800 || r > 0xdfff
}
