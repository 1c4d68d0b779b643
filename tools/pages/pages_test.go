// Package pages holds the pages of the project to a few rules: links lead somewhere, each page is listed, and nobody has to read a
// puzzle.
package pages

import (
	_ "embed"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the text of each page by its path from the root of the module. Code and comments are blank.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := os.DirFS("../..")
	names := []string{"CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"}
	err := fs.WalkDir(root, "docs", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 30 {
		t.Fatal(names, err)
	}
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```$|<!--.*?-->|``.*?``|`[^`\n]*`|`[^`\n]*\n[^`\n]*`")
	out := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = code.ReplaceAllStringFunc(string(text), func(s string) string {
			return "`" + strings.Repeat("\n", strings.Count(s, "\n")) + "`"
		})
	}
	return out
}

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(t *testing.T, name string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(path.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
	for _, m := range regexp.MustCompile(`(?m)^#{1,6}\s+(.*?)\s*$`).FindAllStringSubmatch(string(text), -1) {
		linked := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		out = append(out, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(linked), ""), " ", "-"))
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^()\s]*)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if to != "" {
				target = path.Join(path.Dir(name), to)
			}
			switch _, err := os.Stat(path.Join("../..", target)); {
			case err != nil:
				t.Errorf("%s: the link %s leads to no file", name, m[1])
			case anchor != "" && !slices.Contains(anchors(t, target), anchor):
				t.Errorf("%s: the link %s leads to no heading", name, m[1])
			}
		}
	}
}

func TestEachPageIsListed(t *testing.T) {
	all := pages(t)
	for name := range all {
		if short, ok := strings.CutPrefix(name, "docs/"); ok && short != "README.md" && !strings.Contains(all["docs/README.md"], "]("+short+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestRunbooksLeadToHeadings: the runbook of each alert is the heading of its name.
func TestRunbooksLeadToHeadings(t *testing.T) {
	text, err := os.ReadFile("../../config/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alert := regexp.MustCompile(`(?ms)^  - alert: (\w+)$.*?^      runbook_url: https://github.com/OWNER/sluice/blob/main/(\S+?)#(\S+)$`)
	runbooks := alert.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "- alert: "); len(runbooks) != n || n == 0 {
		t.Errorf("%d alerts, %d runbooks", n, len(runbooks))
	}
	for _, m := range runbooks {
		if m[3] != strings.ToLower(m[1]) || !slices.Contains(anchors(t, m[2]), m[3]) {
			t.Errorf("%s: %s has no heading #%s", m[1], m[2], m[3])
		}
	}
}

// TestVersionsAreThoseOfTheModules: docs/versions.md says that a go.mod has a line, and it has.
func TestVersionsAreThoseOfTheModules(t *testing.T) {
	page, err := os.ReadFile("../../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("`([a-z/]*go\\.mod)` has `([^`]+)`").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 6 {
		t.Errorf("docs/versions.md names %d versions of go.mod", len(rows))
	}
	for _, m := range rows {
		module, err := os.ReadFile(path.Join("../..", m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)(^|\s)` + regexp.QuoteMeta(m[2]) + `(\s|$)`).Match(module) {
			t.Errorf("docs/versions.md: %s has no %s", m[1], m[2])
		}
	}
}

//go:embed banned.txt
var banned string

// TestPlainWords looks for banned phrases in all pages. The help texts of the commands are in docs/commands.md, as code.
func TestPlainWords(t *testing.T) {
	all := pages(t)
	help, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	all["docs/commands.md"] = string(help)
	type ban struct {
		is      *regexp.Regexp
		instead string
	}
	whole := func(phrases string) *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|[\s("])(?:` + phrases + `)\b`)
	}
	var bans []ban
	var phrases []string
	for row := range strings.Lines(banned) {
		if phrase, instead, ok := strings.Cut(strings.TrimSpace(row), "\t"); ok {
			bans, phrases = append(bans, ban{whole(phrase), instead}), append(phrases, phrase)
		}
	}
	if len(bans) < 30 {
		t.Fatalf("%d phrases are banned", len(bans))
	}
	any := whole(strings.Join(phrases, "|"))
	for name, text := range all {
		for number, line := range slices.All(strings.Split(text, "\n")) {
			if strings.HasPrefix(line, "#") || !any.MatchString(line) {
				continue
			}
			for _, b := range bans {
				if found := b.is.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write %s", name, number+1, strings.TrimSpace(found), b.instead)
				}
			}
		}
	}
}
