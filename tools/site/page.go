package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// page is a page of the site.
type page struct {
	source string // its Markdown file, below the module's folder
	path   string // its HTML file, below the site's
	title  string
	text   []byte
	root   ast.Node
	// headings are those below the title, with the text up to the next heading. The first has no name: it is the beginning.
	headings []*heading
}

type heading struct {
	Level    int
	ID, Name string
	text     strings.Builder
}

// maxSection is how many bytes of a section the search can find.
const maxSection = 4000

var markdown = goldmark.New(
	goldmark.WithExtensions(
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)), extension.Strikethrough, extension.Linkify,
	),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 1))),
)

// htmlPath is where the page of a Markdown file is in the site.
func htmlPath(source string) string {
	if dir, name := path.Split(source); name == "README.md" {
		return dir + "index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

// parse reads a page and names its headings as GitHub does.
func parse(source string, content []byte) (*page, error) {
	p := &page{source: source, path: htmlPath(source), text: content, root: markdown.Parser().Parse(text.NewReader(content))}
	now := &heading{}
	p.headings = append(p.headings, now)
	used := map[string]bool{}
	err := ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			name := plain(n, content)
			id := slug(name)
			for i := 1; used[id]; i++ {
				id = fmt.Sprintf("%s-%d", slug(name), i)
			}
			used[id] = true
			n.SetAttributeString("id", []byte(id))
			if n.Level == 1 && p.title == "" {
				p.title = name
				return ast.WalkSkipChildren, nil
			}
			now = &heading{Level: n.Level, ID: id, Name: name}
			p.headings = append(p.headings, now)
			return ast.WalkSkipChildren, nil
		case *ast.HTMLBlock, *ast.RawHTML:
			if raw := plain(n, content); !strings.HasPrefix(strings.TrimSpace(raw), "<!--") {
				return ast.WalkStop, fmt.Errorf("%s: HTML in Markdown: write %q as Markdown, or as code", source, raw)
			}
			return ast.WalkSkipChildren, nil
		case *ast.CodeBlock:
			return ast.WalkStop, fmt.Errorf("%s: code without a fence: write ``` and its language before %q", source, plain(n, content))
		case *ast.FencedCodeBlock, *ast.TextBlock, *ast.Paragraph, *extast.TableCell:
			if now.text.Len() < maxSection {
				now.text.WriteString(strings.Join(strings.Fields(plain(n, content)), " ") + " ")
			}
		}
		return ast.WalkContinue, nil
	})
	if err == nil && p.title == "" {
		err = fmt.Errorf("%s: the page has no title: begin it with a heading of level 1", source)
	}
	return p, err
}

// plain is the text of a node without its markup.
func plain(n ast.Node, content []byte) string {
	var b strings.Builder
	switch n := n.(type) {
	case *ast.Text:
		b.Write(n.Value(content))
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
	case *ast.String:
		b.Write(n.Value)
	case *ast.RawHTML:
		b.Write(n.Segments.Value(content))
	case *ast.AutoLink:
		b.Write(n.Label(content))
	default:
		if n.Type() == ast.TypeBlock && n.FirstChild() == nil {
			b.Write(n.Lines().Value(content))
		}
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			b.WriteString(plain(c, content))
		}
	}
	return b.String()
}

// slug makes the anchor of a heading as GitHub does.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// relink makes the relative links of a page lead to the files of the site, and returns the files of the module that they lead to
// and that are not pages. A link to nothing stays: check finds it.
func (p *page) relink(root fs.FS, pages map[string]*page) (files []string, err error) {
	err = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var to *[]byte
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to = &n.Destination
		}
		if to == nil || !entering {
			return ast.WalkContinue, nil
		}
		at, err := url.Parse(string(*to))
		if err != nil || at.IsAbs() || at.Host != "" || at.Path == "" {
			return ast.WalkContinue, nil //nolint:nilerr // the check of the site tells of a link that is none
		}
		target := path.Join(path.Dir(p.source), at.Path)
		if other := pages[target]; other != nil {
			at.Path = relative(p.path, other.path)
			*to = []byte(at.String())
		} else if info, err := fs.Stat(root, target); err == nil && info.Mode().IsRegular() {
			files = append(files, target)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			return ast.WalkStop, err
		}
		return ast.WalkContinue, nil
	})
	return files, err
}

// relative is the way from one file of the site to another.
func relative(from, to string) string {
	for {
		dir, rest, ok := strings.Cut(from, "/")
		if !ok || !strings.HasPrefix(to, dir+"/") {
			return strings.Repeat("../", strings.Count(from, "/")) + to
		}
		from, to = rest, to[len(dir)+1:]
	}
}

func (p *page) html() ([]byte, error) {
	var b bytes.Buffer
	err := markdown.Renderer().Render(&b, p.text, p.root)
	return b.Bytes(), err
}

// nodes renders what needs more than goldmark gives: headings with a link to themselves, code with its file's name and its
// commands, and tables and pictures that can be scrolled.
type nodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(ast.KindImage, renderImage)
	r.Register(extast.KindTable, renderTable)
	r.Register(extast.KindTableCell, renderCell)
	r.Register(ast.KindHTMLBlock, renderNothing) // comments
	r.Register(ast.KindRawHTML, renderNothing)
}

func renderNothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

func renderHeading(w util.BufWriter, content []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Heading) //nolint:errcheck // of this kind
	id, _ := n.AttributeString("id")
	if entering {
		_, err := fmt.Fprintf(w, "<h%d id=\"%s\">", n.Level, id)
		return ast.WalkContinue, err
	}
	if n.Level > 1 {
		_, _ = fmt.Fprintf(w, " <a class=\"anchor\" href=\"#%s\" aria-label=\"Link to %s\">#</a>", id, html.EscapeString(plain(n, content)))
	}
	_, err := fmt.Fprintf(w, "</h%d>\n", n.Level)
	return ast.WalkContinue, err
}

func renderCode(w util.BufWriter, content []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.FencedCodeBlock) //nolint:errcheck // of this kind
	language := string(n.Language(content))
	_, _ = w.WriteString(`<figure class="code">`)
	if n.Info != nil {
		for word := range strings.FieldsSeq(string(n.Info.Value(content))) {
			if name, ok := strings.CutPrefix(word, "file="); ok {
				_, _ = fmt.Fprintf(w, "<figcaption>%s</figcaption>", html.EscapeString(name))
			}
		}
	}
	_, _ = w.WriteString("<pre><code>")
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		line := string(segment.Value(content))
		if prompt := line[:min(2, len(line))]; language == "console" && (prompt == "$ " || prompt == "> ") {
			command := strings.TrimSuffix(line[2:], "\n")
			_, _ = fmt.Fprintf(w, `<span class="prompt">%s</span><span class="command">%s</span>`+"\n", html.EscapeString(prompt), html.EscapeString(command))
			continue
		}
		_, _ = w.WriteString(html.EscapeString(line))
	}
	_, err := w.WriteString("</code></pre></figure>\n")
	return ast.WalkContinue, err
}

func renderImage(w util.BufWriter, content []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.Image) //nolint:errcheck // of this kind
	_, err := fmt.Fprintf(w, `<span class="picture"><img src="%s" alt="%s"></span>`, html.EscapeString(string(n.Destination)), html.EscapeString(plain(n, content)))
	return ast.WalkSkipChildren, err
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	tags := "</table></div>\n"
	if entering {
		tags = "<div class=\"table\"><table>\n"
	}
	_, err := w.WriteString(tags)
	return ast.WalkContinue, err
}

func renderCell(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*extast.TableCell) //nolint:errcheck // of this kind
	tag, class := "td", ""
	if n.Parent().Kind() == extast.KindTableHeader {
		tag = "th"
	}
	if n.Alignment == extast.AlignRight {
		class = ` class="right"`
	}
	if !entering {
		tag, class = "/"+tag, ""
	}
	_, err := fmt.Fprintf(w, "<%s%s>", tag, class)
	return ast.WalkContinue, err
}
