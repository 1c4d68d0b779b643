package input

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// plainStart is true where a plain scalar may begin at offset i. Those that begin with ? or : are refused, although a
// few would be right.
func plainStart(s string, i int) bool {
	switch s[i] {
	case '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '\t':
		return false
	case '-':
		return i+1 < len(s) && s[i+1] != ' ' && s[i+1] != '\t' && s[i+1] != '\n' && s[i+1] != '\r'
	}
	return true
}

// scalar reads the scalar or flow collection at pos.
func (p *fastParser) scalar(parent, last int32, key string, outer int, line, col int32) bool {
	nd := node{key: key, kind: kindString, line: line, col: col}
	var ok bool
	switch p.s[p.pos] {
	case '"', '\'':
		nd.str, ok = p.quoted()
		ok = ok && p.endOfLine() && p.next()
	case '|', '>':
		nd.str, ok = p.block(outer)
		ok = ok && p.next()
	case '[', '{':
		return p.flow(parent, last, nd) && p.endOfLine() && p.next()
	default:
		var text string
		if text, ok = p.plain(outer); ok {
			nd.kind, nd.str, ok = resolve(text)
			ok = ok && p.next()
		}
	}
	if !ok {
		return false
	}
	p.t.add(parent, last, nd)
	return len(p.t.nodes) < maxNodes
}

// plainLine returns the text of a plain scalar on the line of offset i, the offset of the line's end, and whether
// a comment ends the scalar.
func (p *fastParser) plainLine(i int) (text string, end int, comment, ok bool) {
	end = lineEnd(p.s, i)
	text = p.s[i:end]
	for j := 0; ; j++ {
		n := strings.IndexByte(text[j:], '#')
		if n < 0 {
			break
		}
		j += n
		if j > 0 && (text[j-1] == ' ' || text[j-1] == '\t') {
			text, comment = text[:j], true
			break
		}
	}
	for j := 0; ; j++ {
		n := strings.IndexByte(text[j:], ':')
		if n < 0 {
			break
		}
		j += n
		if p.blankAt(i+j+1) || p.s[i+j+1] == '\t' {
			return "", 0, false, false
		}
	}
	return strings.TrimRight(text, " \t\r\n"), end, comment, true
}

// plain reads a plain scalar, whose further lines are indented deeper than outer.
func (p *fastParser) plain(outer int) (string, bool) {
	if !plainStart(p.s, p.pos) {
		return "", false
	}
	text, end, comment, ok := p.plainLine(p.pos)
	if !ok {
		return "", false
	}
	p.newline(end)
	built := false
	for !comment {
		// Look for a further line, over blank ones.
		i, start, blank := p.pos, p.pos, int32(0)
		for {
			for i < len(p.s) && p.s[i] == ' ' {
				i++
			}
			if i == len(p.s) || p.s[i] != '\n' && p.s[i] != '\r' {
				break
			}
			i = lineEnd(p.s, i)
			start = i
			blank++
		}
		if i == len(p.s) || i-start <= outer || p.s[i] == '#' {
			break
		}
		if p.s[i] == '\t' {
			return "", false
		}
		var more string
		more, end, comment, ok = p.plainLine(i)
		if !ok {
			return "", false
		}
		if !built {
			p.buf = append(p.buf[:0], text...)
			built = true
		}
		if blank == 0 {
			p.buf = append(p.buf, ' ')
		}
		for range blank {
			p.buf = append(p.buf, '\n')
		}
		p.buf = append(p.buf, more...)
		p.line += blank
		p.newline(end)
	}
	if built {
		text = string(p.buf)
	}
	return text, true
}

// quoted reads a quoted scalar and stops after its closing quote.
func (p *fastParser) quoted() (string, bool) {
	q := p.s[p.pos]
	rest := p.s[p.pos+1:]
	n := strings.IndexByte(rest, q)
	if n < 0 {
		return "", false
	}
	text := rest[:n]
	simple := strings.IndexByte(text, '\n') < 0
	if q == '"' {
		simple = simple && strings.IndexByte(text, '\\') < 0
	} else {
		simple = simple && (n+1 == len(rest) || rest[n+1] != q)
	}
	if simple {
		p.pos += n + 2
		return text, true
	}
	return p.quotedLong(q)
}

// quotedLong reads a quoted scalar that has escapes or several lines.
func (p *fastParser) quotedLong(q byte) (string, bool) {
	s := p.s
	out := p.buf[:0]
	i := p.pos + 1
	for {
		if i >= len(s) {
			return "", false
		}
		switch c := s[i]; {
		case c == q:
			if q == '"' || i+1 >= len(s) || s[i+1] != q {
				p.pos, p.buf = i+1, out
				return string(out), true
			}
			out = append(out, q)
			i += 2
		case c == '\\' && q == '"':
			var ok bool
			if i+1 < len(s) && (s[i+1] == '\n' || s[i+1] == '\r') {
				// An escaped line break joins the lines; blank lines after it count as breaks.
				p.newline(lineEnd(s, i))
				i = p.pos
				out, i = p.foldBlanks(out, i, true)
			} else if out, i, ok = escape(out, s, i); !ok {
				return "", false
			}
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			out, i = p.foldBlanks(out, i, false)
		default:
			j := i + 1
			for j < len(s) && s[j] > ' ' && s[j] != q && s[j] != '\\' {
				j++
			}
			out = append(out, s[i:j]...)
			i = j
		}
	}
}

// foldBlanks reads the blanks and line breaks at offset i of a quoted scalar and appends what they stand for: themselves
// within a line, a space for one break, and one break less for several. joined is true after an escaped line break.
func (p *fastParser) foldBlanks(out []byte, i int, joined bool) ([]byte, int) {
	s := p.s
	from, breaks := i, 0
	for i < len(s) {
		switch s[i] {
		case ' ', '\t':
			i++
			continue
		case '\n', '\r':
			i = lineEnd(s, i)
			p.newline(i)
			breaks++
			continue
		}
		break
	}
	switch {
	case joined:
	case breaks == 0:
		return append(out, s[from:i]...), i
	case breaks == 1:
		return append(out, ' '), i
	default:
		breaks--
	}
	for range breaks {
		out = append(out, '\n')
	}
	return out, i
}

// block reads a literal or folded scalar, header included, and stops at the beginning of the line after it. Its lines
// are indented deeper than outer.
func (p *fastParser) block(outer int) (string, bool) {
	literal := p.s[p.pos] == '|'
	p.pos++
	var chomp byte
	increment := 0
	for range 2 {
		if p.pos == len(p.s) {
			break
		}
		switch c := p.s[p.pos]; {
		case (c == '+' || c == '-') && chomp == 0:
			chomp = c
			p.pos++
		case c >= '1' && c <= '9' && increment == 0:
			increment = int(c - '0')
			p.pos++
		}
	}
	if p.pos < len(p.s) && p.s[p.pos] == '#' || !p.endOfLine() {
		return "", false
	}
	indent := max(outer, 0) + increment
	if increment == 0 {
		var ok bool
		if indent, ok = p.blockIndent(outer); !ok {
			return "", false
		}
	}
	return p.blockLines(indent, literal, chomp)
}

// blockIndent finds the indentation of the block scalar whose first line begins at pos.
func (p *fastParser) blockIndent(outer int) (int, bool) {
	widest, i := 0, p.pos
	for {
		n := 0
		for i+n < len(p.s) && p.s[i+n] == ' ' {
			n++
		}
		if i+n < len(p.s) && (p.s[i+n] == '\n' || p.s[i+n] == '\r') {
			widest = max(widest, n)
			i = lineEnd(p.s, i)
			continue
		}
		// A blank line that is longer than the indentation, and tabs, are for the library to judge.
		if widest > n || i+n < len(p.s) && p.s[i+n] == '\t' {
			return 0, false
		}
		return max(n, outer+1, 1), true
	}
}

// blockLines reads the lines of a block scalar that are indented by indent, and joins them.
func (p *fastParser) blockLines(indent int, literal bool, chomp byte) (string, bool) {
	s := p.s
	out := p.buf[:0]
	breaks := 0 // blank lines since the last text
	broken := false
	afterBlank := false
	for p.pos < len(s) {
		i := p.pos
		for i < len(s) && i-p.pos < indent && s[i] == ' ' {
			i++
		}
		if i == len(s) {
			// Spaces at the end of the document.
			p.pos = i
			break
		}
		if s[i] == '\n' || s[i] == '\r' {
			p.newline(lineEnd(s, i))
			breaks++
			continue
		}
		if i-p.pos < indent {
			if s[i] == '\t' {
				return "", false
			}
			break
		}
		blank := s[i] == ' ' || s[i] == '\t'
		if broken {
			if !literal && !afterBlank && !blank {
				if breaks == 0 {
					out = append(out, ' ')
				}
			} else {
				out = append(out, '\n')
			}
		}
		for range breaks {
			out = append(out, '\n')
		}
		breaks = 0
		afterBlank = blank
		end := lineEnd(s, i)
		text := strings.TrimSuffix(s[i:end], "\n")
		broken = len(text) < end-i
		out = append(out, strings.TrimSuffix(text, "\r")...)
		p.newline(end)
	}
	if chomp != '-' && broken {
		out = append(out, '\n')
	}
	if chomp == '+' {
		for range breaks {
			out = append(out, '\n')
		}
	}
	p.buf = out
	return string(out), true
}

// escape reads the escape sequence at offset i of a double-quoted scalar.
func escape(out []byte, s string, i int) ([]byte, int, bool) {
	if i+1 >= len(s) {
		return out, i, false
	}
	digits := 0
	switch s[i+1] {
	case '0':
		out = append(out, 0)
	case 'a':
		out = append(out, '\a')
	case 'b':
		out = append(out, '\b')
	case 't', '\t':
		out = append(out, '\t')
	case 'n':
		out = append(out, '\n')
	case 'v':
		out = append(out, '\v')
	case 'f':
		out = append(out, '\f')
	case 'r':
		out = append(out, '\r')
	case 'e':
		out = append(out, 0x1b)
	case ' ', '"', '\'', '\\':
		out = append(out, s[i+1])
	case 'N':
		out = append(out, "\u0085"...)
	case '_':
		out = append(out, "\u00a0"...)
	case 'L':
		out = append(out, "\u2028"...)
	case 'P':
		out = append(out, "\u2029"...)
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return out, i, false
	}
	i += 2
	if digits == 0 {
		return out, i, true
	}
	if i+digits > len(s) {
		return out, i, false
	}
	r, err := strconv.ParseUint(s[i:i+digits], 16, 32)
	if err != nil || r > utf8.MaxRune || r >= 0xd800 && r <= 0xdfff {
		return out, i, false
	}
	return utf8.AppendRune(out, rune(r)), i + digits, true
}
