package input

// flow reads a flow collection that ends on its line: sequences and mappings of words, quoted scalars and further ones
// such. Every key has a colon and a space after it, and a value.
func (p *fastParser) flow(parent, last int32, nd node) bool {
	closing := byte(']')
	nd.kind = kindList
	if p.s[p.pos] == '{' {
		closing, nd.kind = '}', kindMap
	}
	n := p.t.add(parent, last, nd)
	if !p.enter() {
		return false
	}
	p.pos++
	p.blanks()
	if p.pos < len(p.s) && p.s[p.pos] == closing {
		p.pos++
		p.depth--
		return true
	}
	for prev := none; p.pos < len(p.s) && len(p.t.nodes) < maxNodes; {
		child := int32(len(p.t.nodes)) //nolint:gosec // bounded by maxNodes
		item := node{kind: kindString, line: p.line, col: p.column()}
		if closing == '}' {
			var ok bool
			if item.key, ok = p.flowKey(); !ok {
				return false
			}
		}
		if !p.flowValue(n, prev, item) {
			return false
		}
		prev = child
		p.blanks()
		if p.pos == len(p.s) {
			return false
		}
		switch p.s[p.pos] {
		case closing:
			p.pos++
			p.depth--
			return closing == ']' || p.t.distinct(n)
		case ',':
			p.pos++
			p.blanks()
		default:
			return false
		}
	}
	return false
}

func (p *fastParser) blanks() {
	for p.pos < len(p.s) && p.s[p.pos] == ' ' {
		p.pos++
	}
}

// flowKey reads a key, its colon and the blanks up to its value.
func (p *fastParser) flowKey() (string, bool) {
	from := p.pos
	kind, key, ok := p.flowScalar()
	if !ok || kind != kindString || key == "<<" || p.pos-from > 1000 || p.pos+1 >= len(p.s) || p.s[p.pos] != ':' || p.s[p.pos+1] != ' ' {
		return "", false
	}
	p.pos += 2
	p.blanks()
	return key, p.pos < len(p.s)
}

// flowValue reads the value at pos into nd, which becomes a child of n after prev.
func (p *fastParser) flowValue(n, prev int32, nd node) bool {
	switch p.s[p.pos] {
	case '[', '{':
		return p.flow(n, prev, nd)
	}
	var ok bool
	if nd.kind, nd.str, ok = p.flowScalar(); !ok {
		return false
	}
	p.t.add(n, prev, nd)
	return true
}

// flowScalar reads a quoted scalar or a word.
func (p *fastParser) flowScalar() (kind, string, bool) {
	s := p.s
	if c := s[p.pos]; c == '"' || c == '\'' {
		end := p.quoteEnd(p.pos)
		text, ok := p.quoted()
		return kindString, text, ok && p.pos == end
	}
	i := p.pos
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9' ||
		i > p.pos && (s[i] == '.' || s[i] == '-' || s[i] == '_' || s[i] == '/')) {
		i++
	}
	if i == p.pos {
		return 0, "", false
	}
	k, text, ok := resolve(s[p.pos:i])
	p.pos = i
	return k, text, ok
}
