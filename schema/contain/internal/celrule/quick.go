package celrule

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/operators"
)

// quick parses the common part of CEL's syntax, some fifty times faster than the generated parser of cel-go. Whatever it
// does not know, errors included, it leaves to that parser: ok is false then. Where it is true, the tree is the one that
// cel-go would make, but for how chains of && and || are nested.
func quick(text string) (e *expr, ok bool) {
	if !utf8.ValidString(text) {
		return nil, false
	}
	p := &quickParser{text: text}
	p.next()
	e = p.expr()
	return e, !p.failed && p.tok == tokEnd
}

type token uint8

const (
	tokEnd token = iota
	tokIdent
	tokLiteral
	tokOp // in word
)

type quickParser struct {
	text   string
	pos    int
	tok    token
	word   string // an identifier or operator
	val    any    // of a literal
	depth  int
	nodes  int
	failed bool
}

// quickDepth is how deep quick nests before it leaves the rest to cel-go, which then finds its own limit.
const quickDepth = 60

func (p *quickParser) fail() *expr {
	p.failed = true
	p.tok = tokEnd
	p.pos = len(p.text)
	return &expr{}
}

func (p *quickParser) node(e expr) *expr {
	if p.nodes++; p.nodes > maxNodes/2 {
		return p.fail()
	}
	return &e
}

func (p *quickParser) is(op string) bool { return p.tok == tokOp && p.word == op }

func (p *quickParser) accept(op string) bool {
	if p.is(op) {
		p.next()
		return true
	}
	return false
}

func (p *quickParser) expect(op string) {
	if !p.accept(op) {
		p.fail()
	}
}

func (p *quickParser) expr() *expr {
	if p.depth++; p.depth > quickDepth {
		return p.fail()
	}
	defer func() { p.depth-- }()
	c := p.binary(0)
	if !p.accept("?") {
		return c
	}
	a := p.binary(0)
	p.expect(":")
	b := p.expr()
	return p.node(expr{kind: call, name: operators.Conditional, args: []*expr{c, a, b}})
}

// levels are the binary operators, the weakest first.
var levels = []map[string]string{
	{"||": operators.LogicalOr},
	{"&&": operators.LogicalAnd},
	{
		"<": operators.Less, "<=": operators.LessEquals, ">": operators.Greater, ">=": operators.GreaterEquals,
		"==": operators.Equals, "!=": operators.NotEquals, "in": operators.In,
	},
	{"+": operators.Add, "-": operators.Subtract},
	{"*": operators.Multiply, "/": operators.Divide, "%": operators.Modulo},
}

func (p *quickParser) binary(level int) *expr {
	if level == len(levels) {
		return p.unary()
	}
	e := p.binary(level + 1)
	for n := 0; p.tok == tokOp; n++ {
		if n > quickDepth && level > 1 { // cel-go counts the links of a chain as depth, other than those of && and ||
			return p.fail()
		}
		name, ok := levels[level][p.word]
		if !ok {
			break
		}
		p.next()
		e = p.node(expr{kind: call, name: name, args: []*expr{e, p.binary(level + 1)}})
	}
	return e
}

func (p *quickParser) unary() *expr {
	switch {
	case p.is("!"):
		n := 0
		for p.accept("!") {
			n++
		}
		if p.is("-") {
			return p.fail()
		}
		e := p.member(p.primary())
		if n%2 == 1 {
			e = p.node(expr{kind: call, name: operators.LogicalNot, args: []*expr{e}})
		}
		return e
	case p.is("-"):
		p.next()
		if p.tok == tokLiteral { // the sign belongs to the number
			v, ok := negativeNumber(p.val)
			if !ok {
				return p.fail()
			}
			p.next()
			return p.member(p.node(expr{kind: literal, val: v}))
		}
		if p.tok != tokIdent && !p.is("(") {
			return p.fail()
		}
		e := p.member(p.primary())
		return p.node(expr{kind: call, name: operators.Negate, args: []*expr{e}})
	}
	return p.member(p.primary())
}

func negativeNumber(v any) (any, bool) {
	switch v := v.(type) {
	case int64:
		return -v, true
	case float64:
		return -v, true
	}
	return nil, false
}

func (p *quickParser) primary() *expr {
	switch p.tok {
	case tokLiteral:
		v := p.val
		p.next()
		return p.node(expr{kind: literal, val: v})
	case tokIdent:
		name := p.word
		p.next()
		if quickReserved[name] {
			return p.fail()
		}
		if p.accept("(") {
			return p.node(expr{kind: call, name: name, args: p.list(")", nil)})
		}
		return p.node(expr{kind: ident, name: name})
	case tokOp:
		switch {
		case p.accept("("):
			e := p.expr()
			p.expect(")")
			return e
		case p.accept("["):
			return p.node(expr{kind: list, args: p.list("]", nil)})
		case p.accept("{"):
			p.expect("}")
			return p.node(expr{kind: mapping})
		}
	case tokEnd:
	}
	return p.fail()
}

// list parses expressions up to a closing bracket.
func (p *quickParser) list(end string, args []*expr) []*expr {
	if args == nil {
		args = []*expr{}
	}
	if p.accept(end) {
		return args
	}
	for !p.failed {
		args = append(args, p.expr())
		if p.accept(end) {
			break
		}
		p.expect(",")
		if end == "]" && p.accept(end) { // a comma may stand after the last element
			break
		}
	}
	return args
}

// member parses what may follow an operand.
func (p *quickParser) member(e *expr) *expr {
	for n := 0; !p.failed; n++ {
		if n > quickDepth {
			return p.fail()
		}
		switch {
		case p.accept("."):
			optional := p.accept("?")
			if p.tok != tokIdent {
				return p.fail()
			}
			name := p.word
			p.next()
			switch {
			case optional:
				field := p.node(expr{kind: literal, val: name})
				e = p.node(expr{kind: call, name: operators.OptSelect, args: []*expr{e, field}})
			case p.accept("("):
				e = p.node(expr{kind: call, name: name, member: true, args: p.list(")", []*expr{e})})
			default:
				e = p.node(expr{kind: sel, name: name, args: []*expr{e}})
			}
		case p.accept("["):
			op := operators.Index
			if p.accept("?") {
				op = operators.OptIndex
			}
			i := p.expr()
			p.expect("]")
			e = p.node(expr{kind: call, name: op, args: []*expr{e, i}})
		case p.is("{"):
			return p.fail()
		default:
			return e
		}
	}
	return e
}

// quickReserved are words that are no names (celReservedSymbols in k8s.io/apiserver/pkg/cel).
var quickReserved = func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq("as break const continue else for function if import let loop package namespace return var void while") {
		out[w] = true
	}
	return out
}()

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// next reads a token.
func (p *quickParser) next() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n\f", p.text[p.pos]) >= 0 {
		p.pos++
	}
	p.tok, p.word = tokEnd, ""
	if p.pos == len(p.text) {
		return
	}
	rest := p.text[p.pos:]
	c := rest[0]
	switch {
	case letter(c):
		n := 1
		for n < len(rest) && (letter(rest[n]) || digit(rest[n])) {
			n++
		}
		p.name(rest, n)
	case digit(c):
		p.number(rest)
	case c == '"' || c == '\'':
		p.str(rest, false, 0)
	default:
		for _, op := range quickOps {
			if strings.HasPrefix(rest, op) {
				p.tok, p.word = tokOp, op
				p.pos += len(op)
				return
			}
		}
		p.fail()
	}
}

// quickOps are the operators, those before others that they begin with.
var quickOps = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "*", "%"}

// name reads a word of n bytes.
func (p *quickParser) name(rest string, n int) {
	w := rest[:n]
	if n < len(rest) && (rest[n] == '"' || rest[n] == '\'') {
		if w == "r" || w == "R" {
			p.str(rest, true, 1)
		} else {
			p.fail()
		}
		return
	}
	p.pos += n
	switch w {
	case "true", "false":
		p.tok, p.val = tokLiteral, w == "true"
	case "null":
		p.tok, p.val = tokLiteral, nil
	case "in":
		p.tok, p.word = tokOp, w
	default:
		p.tok, p.word = tokIdent, w
	}
}

// number reads a decimal int, or a double with digits on both sides of the point.
func (p *quickParser) number(rest string) {
	n := 0
	for n < len(rest) && digit(rest[n]) {
		n++
	}
	double := n+1 < len(rest) && rest[n] == '.' && digit(rest[n+1])
	if double {
		n++
		for n < len(rest) && digit(rest[n]) {
			n++
		}
	}
	if n < len(rest) && (letter(rest[n]) || rest[n] == '.') { // 1u, 0x1, 1e3, 1.size()
		p.fail()
		return
	}
	var err error
	if double {
		p.val, err = strconv.ParseFloat(rest[:n], 64)
	} else {
		p.val, err = strconv.ParseInt(rest[:n], 10, 64)
	}
	if err != nil {
		p.fail()
		return
	}
	p.tok = tokLiteral
	p.pos += n
}

// str reads a string, which starts with a quote after skip bytes.
func (p *quickParser) str(rest string, raw bool, skip int) {
	quote := rest[skip : skip+1]
	multi := strings.HasPrefix(rest[skip:], strings.Repeat(quote, 3))
	if multi {
		quote = strings.Repeat(quote, 3)
	}
	body := rest[skip+len(quote):]
	n := strings.Index(body, quote)
	if n < 0 {
		p.fail()
		return
	}
	s := body[:n]
	used := skip + n + 2*len(quote)
	if multi && (raw && strings.HasSuffix(s, `\`) || strings.HasPrefix(body[n+3:], quote[:1])) || !multi && strings.ContainsAny(s, "\r\n") {
		p.fail()
		return
	}
	if !raw && strings.Contains(s, `\`) {
		var ok bool
		if multi {
			p.fail()
			return
		}
		if s, n, ok = unescape(body, quote[0]); !ok {
			p.fail()
			return
		}
		used = skip + n + 2
	} else if raw && !multi && strings.HasSuffix(s, `\`) { // whether it hides the quote is for cel-go to say
		p.fail()
		return
	}
	if strings.Contains(s, "\r") {
		p.fail()
		return
	}
	p.tok, p.val = tokLiteral, s
	p.pos += used
}

// unescape reads a string with simple escapes up to the quote, and how many bytes it takes.
func unescape(body string, quote byte) (string, int, bool) {
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case quote:
			return b.String(), i, true
		case '\n', '\r':
			return "", 0, false
		case '\\':
			i++
			if i == len(body) {
				return "", 0, false
			}
			r, ok := quickEscapes[body[i]]
			if !ok {
				return "", 0, false
			}
			b.WriteByte(r)
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}

var quickEscapes = map[byte]byte{
	'\\': '\\', '"': '"', '\'': '\'', '`': '`', '?': '?', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}
