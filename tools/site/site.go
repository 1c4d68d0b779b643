package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

const (
	start    = "README.md"
	contents = "docs/README.md"
)

var (
	//go:embed assets
	assets embed.FS
	layout = template.Must(template.ParseFS(assets, "assets/page.html"))
)

// build makes the files of the site from those of the module, by path.
func build(root fs.FS) (map[string][]byte, error) {
	pages, err := read(root)
	if err != nil {
		return nil, err
	}
	groups, err := navigation(pages)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	copied := func(from fs.FS, name, to string) error {
		content, err := fs.ReadFile(from, name)
		files[to] = content
		return err
	}
	for _, name := range []string{"site.css", "site.js", "icon.svg"} {
		if err := copied(assets, "assets/"+name, name); err != nil {
			return nil, err
		}
	}
	var index []entry
	for _, source := range slices.Sorted(maps.Keys(pages)) {
		p := pages[source]
		targets, err := p.relink(root, pages)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		for _, name := range targets {
			if err := copied(root, name, name); err != nil {
				return nil, err
			}
		}
		if files[p.path], err = p.render(groups); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		index = append(index, p.entries()...)
	}
	if files["search.js"], err = searchIndex(index); err != nil {
		return nil, err
	}
	return files, errors.Join(check(files)...)
}

// read parses all pages.
func read(root fs.FS) (map[string]*page, error) {
	names := []string{start, "CONTRIBUTING.md", "CHANGELOG.md"}
	err := fs.WalkDir(root, "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	pages := map[string]*page{}
	for _, name := range names {
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		if pages[name], err = parse(name, content); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// group is a part of the navigation.
type group struct {
	Name string
	Rows []row
}

// row has pages that belong together; Name is empty if the first column of the table says what to do, not what they are about.
type row struct {
	Name  string
	Pages []*page
}

// navigation reads the table of contents: its tables below each heading of level 2, and before them the pages that the text above
// them names. Each page below docs must be in it.
func navigation(pages map[string]*page) ([]group, error) {
	toc := pages[contents]
	if toc == nil {
		return nil, fmt.Errorf("there is no %s, the table of contents", contents)
	}
	seen := map[*page]bool{}
	linked := func(n ast.Node) (out []*page) {
		_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if link, ok := n.(*ast.Link); ok && entering {
				target, _, _ := strings.Cut(string(link.Destination), "#")
				if p := pages[path.Join(path.Dir(contents), target)]; p != nil && !seen[p] {
					seen[p] = true
					out = append(out, p)
				}
			}
			return ast.WalkContinue, nil
		})
		return out
	}
	seen[pages[start]], seen[toc] = true, true
	groups := []group{{Rows: []row{{Pages: []*page{pages[start], toc}}}}}
	for n := toc.root.FirstChild(); n != nil; n = n.NextSibling() {
		last := &groups[len(groups)-1]
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				groups = append(groups, group{Name: plain(n, toc.text)})
			}
		case *ast.Paragraph:
			if len(groups) == 1 {
				last.Rows[0].Pages = append(last.Rows[0].Pages, linked(n)...)
			}
		case *extast.Table:
			areas := plain(n.FirstChild().FirstChild(), toc.text) == "area"
			for r := n.FirstChild().NextSibling(); r != nil; r = r.NextSibling() {
				next := row{Pages: linked(r)}
				if areas {
					next.Name = plain(r.FirstChild(), toc.text)
				}
				last.Rows = append(last.Rows, next)
			}
		}
	}
	var errs []error
	for _, source := range slices.Sorted(maps.Keys(pages)) {
		if strings.HasPrefix(source, "docs/") && !seen[pages[source]] {
			errs = append(errs, fmt.Errorf("%s is not in the table of contents: add it to a table of %s", source, contents))
		}
	}
	return groups, errors.Join(errs...)
}

// maxContents is how many headings the contents of a page may have; beyond it they have those of level 2 only.
const maxContents = 40

// contents are the headings that the contents of the page show.
func (p *page) contents() []*heading {
	for level := 3; level > 1; level-- {
		var out []*heading
		for _, h := range p.headings[1:] {
			if h.Level <= level {
				out = append(out, h)
			}
		}
		if len(out) <= maxContents || level == 2 {
			return out
		}
	}
	return nil
}

func (p *page) render(groups []group) ([]byte, error) {
	body, err := p.html()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = layout.Execute(&b, struct {
		*view
		Groups []group
		Body   template.HTML
	}{&view{p}, groups, template.HTML(body)}) //nolint:gosec // goldmark has made it from a page of this module
	return b.Bytes(), err
}

// view is what the template sees of a page.
type view struct{ page *page }

// Title is for the tab of the browser.
func (v *view) Title() string {
	if v.page.source == start {
		return v.page.title
	}
	return v.page.title + " · Sluice"
}

// Contents are the headings of the page.
func (v *view) Contents() []*heading { return v.page.contents() }

// Root leads to the folder of the site.
func (v *view) Root() string { return relative(v.page.path, "") }

// To leads to another page.
func (v *view) To(p *page) string { return relative(v.page.path, p.path) }

// Name is how the navigation names a page.
func (v *view) Name(p *page) string { return p.title }

// Is reports whether the page is this one.
func (v *view) Is(p *page) bool { return p == v.page }

// entry is a section that the search finds: its address, the title of its page, its heading, and its text.
type entry [4]string

func (p *page) entries() (out []entry) {
	for _, h := range p.headings {
		at := p.path
		if h.ID != "" {
			at += "#" + h.ID
		}
		text := h.text.String()
		out = append(out, entry{at, p.title, h.Name, strings.ToValidUTF8(text[:min(len(text), maxSection)], "")})
	}
	return out
}

// searchIndex is a script, because a browser does not let a page that was opened as a file read another file.
func searchIndex(index []entry) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("sluiceIndex(")
	e := json.NewEncoder(&b)
	if err := e.Encode(index); err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - 1)
	b.WriteString(");\n")
	return b.Bytes(), nil
}
