package input

import "strings"

// fastParser reads the part of YAML that generators of manifests write: block mappings and sequences of plain, quoted,
// literal and folded scalars, and flow collections of plain words and quoted scalars on one line. Whatever else it meets, and whatever is an
// error, it refuses as a whole and leaves to the library, so that it never has to be right about anything but what it
// takes; FuzzDecode holds it to that. Where the rules of YAML and those of the library differ, the library's hold, since
// kubectl uses it.
//
// Every parse method leaves the parser at the next content: pos at its first byte, col its indentation, or eof set. It
// returns false to refuse.
type fastParser struct {
	s   string
	pos int
	// start is where the line of pos begins, line its number.
	start int
	line  int32
	col   int
	eof   bool
	depth int
	t     tree
	buf   []byte
}

// parseFast reads the document s, whose first line has number line. It returns nil to refuse. The caller has made sure
// that s has no control characters, no line breaks but LF and CRLF, and no document marker but one at the start.
func parseFast(s string, line int) *tree {
	p := &fastParser{s: s, line: int32(line)} //nolint:gosec // files are bounded far below 2 GiB
	p.t.nodes = make([]node, 0, min(strings.Count(s, "\n")*9/8+16, maxNodes))
	if strings.HasPrefix(s, "---") {
		p.pos = 3
		if !p.endOfLine() {
			return nil
		}
	}
	if !p.next() || p.eof || !p.node(none, none, "", -1, p.line, p.column()) || !p.eof {
		return nil
	}
	return &p.t
}

// column is the column of pos, counted from 1 in bytes.
func (p *fastParser) column() int32 { return int32(p.pos-p.start) + 1 } //nolint:gosec // bounded by the file's size

// next skips blank lines and comments from the beginning of a line to the next content.
func (p *fastParser) next() bool {
	s := p.s
	for {
		i := p.pos
		for i < len(s) && s[i] == ' ' {
			i++
		}
		if i == len(s) {
			p.pos, p.col, p.eof = i, -1, true
			return true
		}
		switch s[i] {
		case '\n':
			p.newline(i + 1)
			continue
		case '\r':
			p.newline(i + 2)
			continue
		case '#':
			p.newline(lineEnd(s, i))
			continue
		case '\t':
			return false
		}
		p.col = i - p.pos
		p.start, p.pos = p.pos, i
		return true
	}
}

// newline moves to the beginning of the next line, at offset i.
func (p *fastParser) newline(i int) {
	p.pos, p.start = i, i
	p.line++
}

// lineEnd is the offset after the line break that ends the line of offset i.
func lineEnd(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(s)
}

// endOfLine goes to the next line over spaces and a comment, the only things that it accepts.
func (p *fastParser) endOfLine() bool {
	i := p.pos
	for i < len(p.s) && p.s[i] == ' ' {
		i++
	}
	if i < len(p.s) && p.s[i] == '#' && i == p.pos {
		return false
	}
	if !p.lineEnds(i) {
		return false
	}
	p.newline(lineEnd(p.s, i))
	return true
}

// lineEnds is true where nothing but a comment follows offset i on its line.
func (p *fastParser) lineEnds(i int) bool {
	return i == len(p.s) || p.s[i] == '\n' || p.s[i] == '\r' || p.s[i] == '#'
}

// blankAt is true where a space, a line break or the end is at offset i. A tab is none: it makes the parser refuse.
func (p *fastParser) blankAt(i int) bool {
	return i >= len(p.s) || p.s[i] == ' ' || p.s[i] == '\n' || p.s[i] == '\r'
}

// dash is true at the beginning of an item of a block sequence.
func (p *fastParser) dash() bool { return p.s[p.pos] == '-' && p.blankAt(p.pos+1) }

// node reads the value at pos, which may be a block collection. outer is the indentation of the block around it. The
// value becomes a child of parent, after last, with the given key; line and col are its place.
func (p *fastParser) node(parent, last int32, key string, outer int, line, col int32) bool {
	switch {
	case p.dash():
		return p.sequence(p.t.add(parent, last, node{key: key, kind: kindList, line: line, col: col}), p.col)
	case p.isKey():
		return p.mapping(p.t.add(parent, last, node{key: key, kind: kindMap, line: line, col: col}))
	}
	return p.scalar(parent, last, key, outer, line, col)
}

// isKey is true where the line begins with a key and a colon.
func (p *fastParser) isKey() bool {
	switch p.s[p.pos] {
	case '"', '\'':
		i := p.quoteEnd(p.pos)
		for i > 0 && i < len(p.s) && p.s[i] == ' ' {
			i++
		}
		return i > 0 && i < len(p.s) && p.s[i] == ':' && p.blankAt(i+1)
	case '{', '[': // a collection as key is refused at the colon behind it
		return false
	}
	return p.colon() > 0
}

// colon is the offset of the colon after the plain key at pos, or 0.
func (p *fastParser) colon() int {
	s := p.s
	for i := p.pos; i < len(s); i++ {
		switch s[i] {
		case ':':
			if p.blankAt(i + 1) {
				return i
			}
		case '\n', '\t':
			return 0
		case ' ':
			if i+1 < len(s) && s[i+1] == '#' {
				return 0
			}
		}
	}
	return 0
}

// quoteEnd is the offset after the quoted scalar at offset i, or 0 where it does not end on this line.
func (p *fastParser) quoteEnd(i int) int {
	q := p.s[i]
	for i++; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '\n':
			return 0
		case c == '\\' && q == '"':
			if i+1 < len(p.s) && p.s[i+1] != '\n' {
				i++
			}
		case c == q && q == '\'' && i+1 < len(p.s) && p.s[i+1] == q:
			i++
		case c == q:
			return i + 1
		}
	}
	return 0
}

// enter counts a level of nesting.
func (p *fastParser) enter() bool {
	p.depth++
	return p.depth <= maxDepth && len(p.t.nodes) < maxNodes
}

// mapping reads the entries of the block mapping n, which begins at pos.
func (p *fastParser) mapping(n int32) bool {
	if !p.enter() {
		return false
	}
	indent := p.pos - p.start
	last := none
	ascending := true
	for len(p.t.nodes) < maxNodes {
		key, ok := p.key()
		if !ok {
			return false
		}
		if last != none && p.t.nodes[last].key >= key {
			ascending = false
		}
		line, col := p.line, int32(indent)+1 //nolint:gosec // bounded by the file's size
		i := p.pos
		for i < len(p.s) && p.s[i] == ' ' {
			i++
		}
		child := int32(len(p.t.nodes)) //nolint:gosec // bounded by maxNodes
		if p.lineEnds(i) {
			p.newline(lineEnd(p.s, i))
			ok = p.next() && p.below(n, last, key, indent, line, col, true)
		} else {
			p.pos = i
			ok = p.scalar(n, last, key, indent, line, col)
		}
		if !ok {
			return false
		}
		last = child
		if p.eof || p.col < indent {
			p.depth--
			return ascending || p.t.distinct(n)
		}
		if p.col > indent {
			return false
		}
	}
	return false
}

// below reads the value that stands on the lines after a key or a dash, null where there is none.
func (p *fastParser) below(n, last int32, key string, indent int, line, col int32, inMap bool) bool {
	switch {
	case !p.eof && p.col > indent:
		if !inMap {
			line, col = p.line, p.column()
		}
		return p.node(n, last, key, indent, line, col)
	case !p.eof && p.col == indent && inMap && p.dash():
		return p.sequence(p.t.add(n, last, node{key: key, kind: kindList, line: line, col: col}), indent)
	}
	p.t.add(n, last, node{key: key, kind: kindNull, line: line, col: col})
	return true
}

// key reads a key and its colon.
func (p *fastParser) key() (string, bool) {
	var key string
	var end int
	from := p.pos
	switch p.s[p.pos] {
	case '"', '\'':
		end = p.quoteEnd(p.pos)
		if end == 0 {
			return "", false
		}
		text, ok := p.quoted()
		if !ok || p.pos != end {
			return "", false
		}
		key = text
		for end < len(p.s) && p.s[end] == ' ' {
			end++
		}
		if end == len(p.s) || p.s[end] != ':' || !p.blankAt(end+1) {
			return "", false
		}
	default:
		end = p.colon()
		if end == 0 || !plainStart(p.s, p.pos) {
			return "", false
		}
		key = strings.TrimRight(p.s[p.pos:end], " ")
		if k, _, ok := resolve(key); !ok || k != kindString {
			return "", false
		}
	}
	// The library looks no further than 1,024 characters for the colon.
	if key == "<<" || end-from > 1000 {
		return "", false
	}
	p.pos = end + 1
	return key, true
}

// sequence reads the items of the block sequence n, which begins at pos in column indent. For one that stands in a
// mapping without being indented, indent is the mapping's.
func (p *fastParser) sequence(n int32, indent int) bool {
	if !p.enter() {
		return false
	}
	last := none
	for len(p.t.nodes) < maxNodes {
		line, col := p.line, p.column()
		i := p.pos + 1
		for i < len(p.s) && p.s[i] == ' ' {
			i++
		}
		child := int32(len(p.t.nodes)) //nolint:gosec // bounded by maxNodes
		var ok bool
		if p.lineEnds(i) {
			p.newline(lineEnd(p.s, i))
			ok = p.next() && p.below(n, last, "", indent, line, col, false)
		} else {
			p.pos = i
			p.col = i - p.start
			ok = p.s[i] != '\t' && p.node(n, last, "", indent, line, p.column())
		}
		if !ok {
			return false
		}
		last = child
		if p.eof || p.col < indent || p.col == indent && !p.dash() {
			// A sequence that is not indented ends before the next key of the mapping around it. Where there is no
			// such mapping, what is around has a smaller indentation, and refuses.
			p.depth--
			return true
		}
		if p.col > indent {
			return false
		}
	}
	return false
}
