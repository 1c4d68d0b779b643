package input

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRandomTextsAgree compares the parsers on texts that look like YAML by construction, most of them with a few
// faults. SLUICE_TRIALS says how many texts, if it is set.
func TestRandomTextsAgree(t *testing.T) {
	trials := 4000
	if s := os.Getenv("SLUICE_TRIALS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		trials = n
	}
	fast, all := 0, 0
	for i := range trials {
		g := &generator{r: rand.New(rand.NewPCG(uint64(i), 1))}
		g.block(0, 0)
		text := g.faults(g.b.String())
		f, a := agree(t, []byte(text))
		fast += f
		all += a
	}
	t.Logf("%d documents, %d of them read by the fast parser", all, fast)
	if fast < all/10 {
		t.Errorf("only %d of %d documents were read by the fast parser: this compares too little", fast, all)
	}
}

// generator writes random YAML.
type generator struct {
	r *rand.Rand
	b strings.Builder
}

func (g *generator) pick(of ...string) string { return of[g.r.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

// block writes a mapping or a sequence with the given indentation; its first line is indented already.
func (g *generator) block(indent, depth int) {
	sequence := g.chance(35)
	pad := strings.Repeat(" ", indent)
	for i := range 1 + g.r.IntN(4) {
		if i > 0 {
			if g.chance(8) {
				g.b.WriteString(g.pick("\n", "# c\n", "   \n", pad+"# c: d\n"))
			}
			g.b.WriteString(pad)
		}
		if sequence {
			g.b.WriteString("-")
			if depth < 3 && g.chance(40) {
				gap := 1 + g.r.IntN(3)
				if g.chance(80) {
					g.b.WriteString(strings.Repeat(" ", gap))
					g.block(indent+1+gap, depth+1)
				} else {
					g.nested(indent, depth, 1)
				}
				continue
			}
		} else {
			key := string(rune('a'+i)) + g.pick("", "", "", "x", "-y", " z", ":w")
			if g.chance(3) {
				key = g.pick("yes", "1", "a", "n", "~", "<<", "1.5", "? x")
			}
			g.b.WriteString(g.pick(key, key, key, key, `"`+key+`"`, `'`+key+`'`) + g.pick(":", ":", ":", ":", " :"))
			if depth < 3 && g.chance(35) {
				g.nested(indent, depth, g.r.IntN(2))
				continue
			}
		}
		g.value(indent)
	}
}

// nested writes a block on the lines below.
func (g *generator) nested(indent, depth, least int) {
	g.b.WriteString(g.pick("\n", "\n", " # c\n", "  \n"))
	deeper := indent + max(least, g.r.IntN(4))
	g.b.WriteString(strings.Repeat(" ", deeper))
	g.block(deeper, depth+1)
}

// value writes a scalar and the line's end.
func (g *generator) value(indent int) {
	more := func() string {
		return "\n" + strings.Repeat("\n", g.r.IntN(2)*g.r.IntN(3)) + strings.Repeat(" ", indent+g.r.IntN(5))
	}
	words := func(of ...string) string {
		var b strings.Builder
		for i := range 1 + g.r.IntN(4) {
			if i > 0 {
				b.WriteString(g.pick(" ", " ", "  ", "\t", " ", more()))
			}
			b.WriteString(g.pick(of...))
		}
		return b.String()
	}
	switch g.r.IntN(14) {
	case 12, 13:
		g.b.WriteString(" ")
		g.flow(0)
	case 0, 1:
		g.b.WriteString(" " + g.pick("x", "yes", "No", "null", "~", "12", "-3", "0x1f", "017", "08", "0o7", "1.50", "1e3", ".5", "+1", "1_0", "0b1",
			"2001-01-02", "1.2.3", "''", `""`, "-a", "a:b", "a#b", "http://x/y#z", "[]", "{}", "[a, 'b', \"c\", 1]", "é", "T", "off"))
	case 2, 3:
		g.b.WriteString(" " + words(g.pick("foo", "foo", "foo", "- a", "[c]", "-", "?", "&", "*", "%", "!"), "bar", "x:y", "z#", "it's", `q"`, "b,", "é", "1", "a\\b", "- b", "[x]"))
	case 4:
		g.b.WriteString(" '" + words("foo", "''", "b: c", "# d", `"e"`, "\\", "-", "é", "---") + "'")
	case 5:
		g.b.WriteString(` "` + words("foo", `\"`, "b: c", "# d", `\n`, `\\`, `\u00e9`, `\x41`, `\ `, "\\\n", "\\\n  \n", `\t`, "'") + `"`)
	case 6, 7, 8:
		g.b.WriteString(" " + g.pick("|", ">") + g.pick("", "", "-", "+", "2", "1-", "+3") + g.pick("", "", " ", " # c"))
		pad := strings.Repeat(" ", indent+g.r.IntN(4))
		for range g.r.IntN(5) {
			g.b.WriteString("\n" + pad + g.pick("x", "x y", " x", "  x", "\tx", "", "", "   ", "# c", "- x", "x: y", "x  ", "'"))
		}
		g.b.WriteString(strings.Repeat("\n", g.r.IntN(3)*g.r.IntN(2)))
	case 9:
		g.b.WriteString(more() + words("foo", "bar", "'x'", "b: c"))
	case 10:
		if g.chance(20) {
			g.b.WriteString(" " + g.pick("[a b]", "&x y", "*x", "!!str 5", "{a: b}", ".inf", "[a,\n b]"))
		}
	default:
		g.b.WriteString(" " + g.pick("a", "b c"))
	}
	g.b.WriteString(g.pick("\n", "\n", "\n", "\n", "\n", " \n", " # c\n", " # a: b\n"))
}

// flow writes a flow collection, on one line most of the time.
func (g *generator) flow(depth int) {
	gap := func() { g.b.WriteString(g.pick("", "", "", " ", "  ")) }
	mapping := g.chance(60)
	g.b.WriteString(map[bool]string{true: "{", false: "["}[mapping])
	gap()
	for i := range g.r.IntN(4) {
		if i > 0 {
			g.b.WriteString(",")
			g.b.WriteString(g.pick(" ", " ", " ", "", "  ", "\n    ", " ,"))
		}
		if mapping {
			key := string(rune('a'+i)) + g.pick("", "", "-y", ".z/w")
			g.b.WriteString(g.pick(key, key, key, `"`+key+`"`, `'`+key+`'`, "a", "yes", "1", "<<", "~") + g.pick(": ", ": ", ": ", ": ", ":", " : ", ""))
		}
		switch {
		case depth < 3 && g.chance(25):
			g.flow(depth + 1)
		default:
			g.b.WriteString(g.pick("x", "yes", "null", "12", "1.50", "0x1f", "2001-01-02", "a/b", "v1", "''", `"c, d"`, "'}'", "", "~", "-1", "a b", "a:b", "a: b", "#c", "*x"))
		}
		gap()
	}
	g.b.WriteString(map[bool]string{true: "}", false: "]"}[mapping != g.chance(3)])
}

// faults breaks text in a few places, or leaves it alone.
func (g *generator) faults(text string) string {
	if g.chance(15) {
		text = strings.TrimSuffix(text, "\n")
	}
	if g.chance(10) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if g.chance(10) {
		text = fmt.Sprintf("%s\n%s", g.pick("---", "--- # x", "# c", "%YAML 1.1\n---", "---\n---"), text)
	}
	if g.chance(50) {
		return text
	}
	for range 1 + g.r.IntN(2) {
		i := g.r.IntN(len(text) + 1)
		switch g.r.IntN(3) {
		case 0:
			text = text[:i] + text[min(len(text), i+1+g.r.IntN(2)):]
		case 1:
			text = text[:i] + g.pick(" ", "  ", "\n", "\t", ":", ": ", "#", " #", "- ", "'", "\"", "\\", "|", ">", "\r\n", "\r", "a", "1", "\n---\n", "\n...\n", "[", "]", "{", "}", ",", "&", "*", "?", "? ", "!", "\u2028", "\u0085", "\ufeff", "\x01") + text[i:]
		case 2:
			j := g.r.IntN(len(text) + 1)
			text = text[:i] + text[min(i, j):max(i, j)] + text[i:]
		}
	}
	return text
}
