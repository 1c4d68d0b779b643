package prose

import (
	"regexp"
	"strings"
	"unicode"
)

// block is text that belongs together, such as a paragraph: sentences do not go beyond it.
type block struct {
	line int // of its first line, from 1
	text string
	// prose: whole sentences are expected, and count for the average. Headings and cells of tables are not prose.
	prose   bool
	heading bool
}

var (
	fence    = regexp.MustCompile("^\\s*(```+|~~~+)")
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	bullet   = regexp.MustCompile(`^(\s*)([-*+]|\d+[.)])\s+`)
	quote    = regexp.MustCompile(`^\s*>\s?`)
	tableRow = regexp.MustCompile(`^\s*\|`)
	ruler    = regexp.MustCompile(`^[\s|:*_=-]+$`)
	cell     = regexp.MustCompile(`(?:[^|\\]|\\.)+`)
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// blocks splits a Markdown page. Code blocks and comments are left out.
func blocks(page string) []block {
	page = comment.ReplaceAllStringFunc(page, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
	var out []block
	fenced, blank, code := "", true, false
	indent := 0   // of the text of the list item that is open
	open := false // the last block continues on the next line
	indented := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	for i, line := range strings.Split(page, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case fenced != "":
			if m != nil && strings.HasPrefix(m[1], fenced) {
				fenced = ""
			}
			open = false
			continue
		case m != nil:
			fenced, open = m[1], false
			continue
		case strings.TrimSpace(line) == "":
			blank, open = true, false
			continue
		}
		if code = (blank || code) && indented(line) >= indent+4; code {
			continue
		}
		wasBlank := blank
		blank = false
		line = quote.ReplaceAllString(line, "")
		switch h := heading.FindStringSubmatch(line); {
		case h != nil:
			out, open, indent = append(out, block{line: i + 1, text: h[1], heading: true}), false, 0
		case tableRow.MatchString(line):
			open = false
			if ruler.MatchString(line) {
				continue
			}
			for _, c := range cell.FindAllString(line, -1) {
				out = append(out, block{line: i + 1, text: strings.TrimSpace(c)})
			}
		case ruler.MatchString(line):
			open = false
		case bullet.MatchString(line):
			mark := bullet.FindString(line)
			out, open, indent = append(out, block{line: i + 1, text: line[len(mark):], prose: true}), true, len(mark)
		case open:
			out[len(out)-1].text += "\n" + strings.TrimSpace(line)
		default:
			if wasBlank && indented(line) == 0 {
				indent = 0
			}
			out, open = append(out, block{line: i + 1, text: strings.TrimSpace(line), prose: true}), true
		}
	}
	return out
}

// sentence is one sentence, with its code as single runes: code at rune firstCode is codes[0], and so on.
type sentence struct {
	line  int
	text  string
	codes []string
	whole bool // it ends with a full stop, a question mark or the like
}

// firstCode is the first rune of Unicode's private area, which no page uses.
const firstCode = '\ue000'

var (
	codeSpan = regexp.MustCompile("(?s)``.+?``|`[^`]+`")
	links    = regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]*)[^()]*\)`)
	htmlTag  = regexp.MustCompile(`</?[a-zA-Z][^<>\n]*>|&[a-z]+;`)
	escaped  = regexp.MustCompile(`\\([!-/:-@\[-` + "`" + `{-~])`)
	address  = regexp.MustCompile(`\bhttps?://[^\s)>]+`)
	// ending is a possible end of a sentence. The word before and the rune after it decide.
	ending = regexp.MustCompile(`[.!?…]["”')\]*_]*\s+`)
	// abbreviated words end with a full stop that does not end a sentence.
	abbreviated = regexp.MustCompile(`(?i)(\b(e\.g|i\.e|etc|vs|cf|approx|resp|no|fig)|\b[A-Z])\.$`)
)

// sentences splits a block.
func (b block) sentences() []sentence {
	var codes []string
	next := firstCode
	code := func(s string) string {
		codes, next = append(codes, s), next+1
		return string(next-1) + strings.Repeat("\n", strings.Count(s, "\n"))
	}
	text := codeSpan.ReplaceAllStringFunc(b.text, code)
	text = links.ReplaceAllString(text, "$1")
	text = address.ReplaceAllStringFunc(text, code)
	text = htmlTag.ReplaceAllString(text, "")
	text = escaped.ReplaceAllString(text, "$1")
	text = strings.NewReplacer("**", "", "__", "", " *", " ", "*,", ",", "*.", ".", "* ", " ").Replace(text)
	var out []sentence
	line, from := b.line, 0
	add := func(to int) {
		if s := text[from:to]; strings.TrimSpace(s) != "" {
			lead := len(s) - len(strings.TrimLeft(s, " \n"))
			words := strings.Join(strings.Fields(s), " ")
			out = append(out, sentence{
				line: line + strings.Count(s[:lead], "\n"), text: words, codes: codes,
				whole: strings.ContainsAny(words[max(0, len(words)-4):], ".!?:…"),
			})
		}
		line, from = line+strings.Count(text[from:to], "\n"), to
	}
	for _, m := range ending.FindAllStringIndex(text, -1) {
		first := []rune(text[m[1]:] + " ")[0]
		starts := text[m[0]] == '.' || unicode.IsUpper(first) || unicode.IsDigit(first) || first >= firstCode || strings.ContainsRune(`"“'([*`, first)
		if starts && !abbreviated.MatchString(strings.TrimSpace(text[from:m[0]+1])) {
			add(m[1])
		}
	}
	add(len(text))
	return out
}

// words counts them; a piece of code is one.
func (s sentence) words() int {
	n := 0
	for f := range strings.FieldsSeq(s.text) {
		if strings.ContainsFunc(f, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || s.isCode(r) }) {
			n++
		}
	}
	return n
}

func (s sentence) isCode(r rune) bool { return r >= firstCode && int(r-firstCode) < len(s.codes) }

// String is the sentence as people read it.
func (s sentence) String() string {
	var out strings.Builder
	for _, r := range s.text {
		if s.isCode(r) {
			out.WriteString(strings.Join(strings.Fields(s.codes[r-firstCode]), " "))
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
