package prose

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits of every page that has no ceiling of its own.
const (
	maxAverage  = 20 // words a sentence, on average
	maxSentence = 35 // words in one sentence
)

// HelpPage is the name under which the help texts of all commands count together.
const HelpPage = "help texts"

// helpSources are the files of the commands.
var helpSources = []string{"internal/cli/*.go", "internal/cli/*/*.go"}

// Finding is one place to be written again.
type Finding struct {
	File     string
	Line     int
	Rule     string
	Sentence string
	Instead  string // what to write
}

// String is the finding as people read it.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s\n      %s", f.File, f.Line, f.Rule, f.Instead, f.Sentence)
}

// Rules of findings.
const (
	ruleLong     = "long-sentence"
	rulePhrase   = "phrase"
	ruleStart    = "relative-start"
	ruleSpelling = "spelling"
	ruleTwice    = "word-twice"
	ruleTerm     = "term"
)

// Page has the findings and figures of one page.
type Page struct {
	Name      string
	Words     int // in sentences that count for the average
	Sentences int
	Findings  []Finding // sorted by line
}

// Average is the number of words a sentence.
func (p Page) Average() float64 { return float64(p.Words) / float64(max(p.Sentences, 1)) }

// Long is the number of sentences that are too long.
func (p Page) Long() int { return p.count(func(f Finding) bool { return f.Rule == ruleLong }) }

// Other is the number of other findings.
func (p Page) Other() int { return len(p.Findings) - p.Long() }

func (p Page) count(is func(Finding) bool) int {
	n := 0
	for _, f := range p.Findings {
		if is(f) {
			n++
		}
	}
	return n
}

// Check reads the pages below root, the folder of this module, and returns them sorted by name. Of CHANGELOG.md only the unreleased
// part counts.
func Check(root fs.FS) ([]Page, error) {
	names := []string{"CHANGELOG.md", "CONTRIBUTING.md", "README.md"}
	err := fs.WalkDir(root, "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pages: %w", err)
	}
	slices.Sort(names)
	var out []Page
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		page := string(text)
		if name == "CHANGELOG.md" {
			page = unreleased(page)
		}
		out = append(out, look(name, name, blocks(page)).sorted())
	}
	help := Page{Name: HelpPage}
	var sources []string
	for _, pattern := range helpSources {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, fmt.Errorf("listing the commands: %w", err)
		}
		sources = append(sources, found...)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("reading a command: %w", err)
		}
		texts, err := helpTexts(name, src)
		if err != nil {
			return nil, err
		}
		p := look(HelpPage, name, texts)
		help.Words, help.Sentences, help.Findings = help.Words+p.Words, help.Sentences+p.Sentences, append(help.Findings, p.sorted().Findings...)
	}
	return append(out, help), nil
}

func (p Page) sorted() Page {
	slices.SortStableFunc(p.Findings, func(a, b Finding) int { return a.Line - b.Line })
	return p
}

var released = regexp.MustCompile(`(?m)^## v?\[?v?\d`)

// unreleased is a changelog up to the first release.
func unreleased(page string) string {
	if m := released.FindStringIndex(page); m != nil {
		return page[:m[0]]
	}
	return page
}

// look checks the words of a page.
func look(name, file string, all []block) Page {
	p := Page{Name: name}
	for _, b := range all {
		for _, s := range b.sentences() {
			n := s.words()
			find := func(rule, instead string) {
				p.Findings = append(p.Findings, Finding{file, s.line, rule, s.String(), instead})
			}
			if b.prose {
				p.Words, p.Sentences = p.Words+n, p.Sentences+1
			}
			if n > maxSentence {
				find(ruleLong, fmt.Sprintf("%d words, at most %d: one idea a sentence", n, maxSentence))
			}
			if m := relative.FindString(s.text); m != "" && b.prose && s.whole && !strings.ContainsAny(s.text, "?") {
				find(ruleStart, fmt.Sprintf("begins with %q: begin with the subject, or with \"if\" or \"when\"", strings.TrimSpace(m)))
			}
			for _, w := range phrases {
				if m := w.is.FindString(s.text); m != "" {
					find(rulePhrase, fmt.Sprintf("%q: write %s", m, w.instead))
				}
			}
			for _, w := range terms {
				if m := w.is.FindStringSubmatch(s.text); m != nil && !b.heading {
					find(ruleTerm, fmt.Sprintf("%q: the term is %q (docs/glossary.md)", strings.TrimSpace(m[0]), w.term))
				}
			}
			before := ""
			for word := range strings.FieldsFuncSeq(strings.ToLower(s.text), func(r rune) bool { return r == ' ' }) {
				bare := strings.Trim(word, `.,:;!?()"'*_[]`)
				if right := misspelled[bare]; right != "" {
					find(ruleSpelling, fmt.Sprintf("%q: write %q", bare, right))
				}
				if word == before && doubled.MatchString(word) {
					find(ruleTwice, fmt.Sprintf("%q stands twice", word+" "+word))
				}
				before = word
			}
		}
	}
	return p
}

var (
	relative = regexp.MustCompile(`^(?:What|Whatever|Who|Whoever|Whose|Where|Wherever)\s`)
	doubled  = regexp.MustCompile(`^(?:a|an|and|are|as|at|be|by|for|from|has|if|in|is|it|not|of|on|or|than|the|this|to|was|when|with|you)$`)
)
