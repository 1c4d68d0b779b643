package prose

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"text/tabwriter"
)

var (
	update = flag.Bool("update", false, "write ceilings.txt: the figures of the pages that do not pass yet")
	table  = flag.Bool("table", false, "print the figures of each page")
	only   = flag.String("page", "", "print the findings of the pages with this in their names")
)

const (
	root         = "../.."
	ceilingsFile = "ceilings.txt"
	// slack is by how much a page may be better than its ceiling before the ceiling has to follow: in findings of a sort, and in words a
	// sentence.
	slack = 3
)

// ceiling is what a page may have at most.
type ceiling struct {
	average     float64
	long, other int
}

// plain is the ceiling of a page without one.
var plain = ceiling{average: maxAverage}

func (p Page) ceiling() ceiling { return ceiling{p.Average(), p.Long(), p.Other()} }

// within reports whether figures are no worse than a ceiling. Averages are written with one digit.
func (c ceiling) within(m ceiling) bool {
	return c.average < m.average+0.05 && c.long <= m.long && c.other <= m.other
}

// loose reports whether a ceiling is too high for the figures of its page.
func (c ceiling) loose(m ceiling) bool {
	passes := c.within(plain) && m != plain
	return passes || max(c.average, maxAverage)+slack <= m.average || c.long+slack <= m.long || c.other+slack <= m.other
}

func TestProse(t *testing.T) {
	pages, err := Check(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		write(t, pages)
	}
	ceilings := read(t)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if *table {
		fmt.Fprintf(out, "words a sentence\tover %d words\tother findings\tceiling\t  page\n", maxSentence)
	}
	for _, p := range pages {
		most, own := ceilings[p.Name]
		delete(ceilings, p.Name)
		shown := "-"
		if !own {
			most = plain
		} else {
			shown = fmt.Sprintf("%.1f %d %d", most.average, most.long, most.other)
		}
		is := p.ceiling()
		if *table {
			fmt.Fprintf(out, "%.1f\t%d\t%d\t%s\t  %s\n", is.average, is.long, is.other, shown, p.Name)
		}
		switch {
		case !is.within(most):
			t.Errorf("%s: %.1f words a sentence (at most %.1f), %d sentences over %d words (at most %d), %d other findings (at most %d):\n%s",
				p.Name, is.average, most.average, is.long, maxSentence, most.long, is.other, most.other, p.list())
		case own && is.loose(most):
			t.Errorf("%s is better than its ceiling, %s: lower the ceiling with go test ./tools/prose -update", p.Name, shown)
		}
		if *only != "" && strings.Contains(p.Name, *only) {
			defer fmt.Fprintln(os.Stdout, p.list())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ceilings)) {
		t.Errorf("%s has a ceiling, but is no page: remove it from %s", name, ceilingsFile)
	}
	if err := out.Flush(); err != nil {
		t.Error(err)
	}
}

func (p Page) list() string {
	var out strings.Builder
	for _, f := range p.Findings {
		fmt.Fprintf(&out, "  %s\n", f)
	}
	return out.String()
}

const head = `# Pages that are not plain yet, with the most that each may have: words a sentence, sentences over 35 words, other findings, page.
# Figures only go down. go test ./tools/prose -update writes them anew; look at the difference: none should rise.
`

// write records the figures of the pages that do not pass.
func write(t *testing.T, pages []Page) {
	t.Helper()
	out := head
	for _, p := range pages {
		if is := p.ceiling(); !is.within(plain) {
			out += fmt.Sprintf("%.1f %d %d %s\n", max(is.average, maxAverage), is.long, is.other, p.Name)
		}
	}
	if err := os.WriteFile(ceilingsFile, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T) map[string]ceiling {
	t.Helper()
	text, err := os.ReadFile(ceilingsFile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]ceiling{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var c ceiling
		if _, err := fmt.Sscanf(line, "%g %d %d", &c.average, &c.long, &c.other); err != nil {
			t.Fatalf("%s: %q: %v", ceilingsFile, line, err)
		}
		out[strings.SplitN(line, " ", 4)[3]] = c
	}
	return out
}

// site is a module with one page and one command, and with what Check expects beside them.
func site(page, command string) fstest.MapFS {
	return fstest.MapFS{
		"CHANGELOG.md":              {Data: []byte("# Changelog\n\n## Unreleased\n\n- It is new.\n\n## v1.0.0\n\n- It is told of.\n")},
		"CONTRIBUTING.md":           {Data: []byte("# Contributing\n")},
		"README.md":                 {Data: []byte("# Readme\n")},
		"docs/a/page.md":            {Data: []byte(page)},
		"docs/other.md":             {Data: []byte("# Other\n\n## A `b`, c\n")},
		"internal/cli/group/run.go": {Data: []byte("package cli\n\nvar c = command{\n\tShort: \"Run\",\n\tLong: " + command + "}\n\nfunc init() { fs.BoolVar(&f.x, \"x\", false, \"say so\") }\n")},
	}
}

func findings(t *testing.T, page, command string) []Finding {
	t.Helper()
	pages, err := Check(site(page, command))
	if err != nil {
		t.Fatal(err)
	}
	var out []Finding
	for _, p := range pages {
		out = append(out, p.Findings...)
	}
	return out
}

const good = "`Runs.`,\n"

// TestEachSortOfBadSentenceIsFound seeds one bad sentence at a time into a good page, and into a good help text.
func TestEachSortOfBadSentenceIsFound(t *testing.T) {
	if found := findings(t, "# Page\n\nIt is good.\n", good); len(found) > 0 {
		t.Fatalf("the good page has %v", found)
	}
	long := strings.TrimSpace(strings.Repeat("one ", maxSentence)) + " more."
	bad := map[string]string{ // sentence: rule
		long:                                ruleLong,
		"What is refused is printed.":       ruleStart,
		"Who reads it sees a note.":         ruleStart,
		"Where it is absent, nothing runs.": ruleStart,
		"It is on the the list.":            ruleTwice,
	}
	for wrong := range misspelled {
		bad["It is "+wrong+"."] = ruleSpelling
	}
	for _, w := range phrases {
		bad[w.example] = rulePhrase
	}
	for _, w := range terms {
		bad[w.example] = ruleTerm
	}
	for sentence, rule := range bad {
		for where, found := range map[string][]Finding{
			"docs/a/page.md":            findings(t, "# Page\n\nIt is `good`.\nYes. "+sentence+"\n", good),
			"internal/cli/group/run.go": findings(t, "# Page\n", "`Runs.\n\nIt is good.\nYes. "+sentence+"`,\n"),
		} {
			line := map[string]int{"docs/a/page.md": 4, "internal/cli/group/run.go": 8}[where]
			if len(found) != 1 || found[0].File != where || found[0].Rule != rule || found[0].Line != line || found[0].Sentence != sentence {
				t.Errorf("%q in %s gives %v, not one %s in line %d", sentence, where, found, rule, line)
			}
		}
	}
}

// TestOnlyProseIsRead: nothing is found in code, in targets of links, or in what is released.
func TestOnlyProseIsRead(t *testing.T) {
	for name, page := range map[string]string{
		"code block":     "# Page\n\n```sh\nIt is told of.\n```\n\nIt is.\n",
		"indented":       "# Page\n\nIt is:\n\n    It is told of.\n\nIt is.\n",
		"code":           "# Page\n\nIt is `told of`.\n",
		"code in a cell": "# Page\n\n| key | is |\n| --- | --- |\n| `told of` | it |\n",
		"target":         "# Page\n\nIt is [here](https://example.com/told of).\n",
		"comment":        "# Page\n\n<!-- It is told of. -->\n",
		"question":       "# Page\n\nWhat is it?\n",
	} {
		if found := findings(t, page, good); len(found) > 0 {
			t.Errorf("%s: found %v", name, found)
		}
	}
	if found := findings(t, "# Page\n\n| key | is |\n| --- | --- |\n| `a` | minded |\n", good); len(found) != 1 || found[0].Line != 5 {
		t.Errorf("in a cell of a table: %v", found)
	}
}

func TestSentencesAreCounted(t *testing.T) {
	pages, err := Check(site("# A heading of five words\n\nIt is `one two`, e.g. 1.5 of [a b](c.md)\nor so. `Code` begins (a\nsentence). Last\n\n- an item\n\n| a | cell |\n", good))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Name == "docs/a/page.md" })
	if p := pages[i]; p.Words != 10+4+1+2 || p.Sentences != 4 {
		t.Errorf("%d words in %d sentences", p.Words, p.Sentences)
	}
}

// TestCeilingsOnlyGoDown: a page worse than its ceiling fails, and so does a ceiling that its page no longer needs.
func TestCeilingsOnlyGoDown(t *testing.T) {
	most := ceiling{25, 10, 4}
	for _, c := range []struct {
		is            ceiling
		within, loose bool
	}{
		{is: most, within: true},
		{is: ceiling{25.2, 10, 4}},
		{is: ceiling{25, 11, 4}},
		{is: ceiling{25, 10, 5}},
		{is: ceiling{24, 9, 3}, within: true},
		{is: ceiling{25, 10 - slack, 4}, within: true, loose: true},
		{is: ceiling{25, 10, 4 - slack}, within: true, loose: true},
		{is: ceiling{25 - slack, 10, 4}, within: true, loose: true},
		{is: plain, within: true, loose: true},
	} {
		if got := c.is.within(most); got != c.within {
			t.Errorf("%v is within %v: %t", c.is, most, got)
		}
		if got := c.is.within(most) && c.is.loose(most); got != c.loose {
			t.Errorf("%v is too low for %v: %t", c.is, most, got)
		}
	}
}

// TestTermsStandInTheGlossary holds the table of terms against docs/glossary.md.
func TestTermsStandInTheGlossary(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range terms {
		if !strings.Contains(string(page), "\n### "+w.term+"\n") && !slices.Contains(unexplained, w.term) {
			t.Errorf("docs/glossary.md has no heading %q", w.term)
		}
	}
}
