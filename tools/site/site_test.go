package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"
)

// TestTheSiteIsWhole builds the site of this module: its links, anchors, pictures and HTML are right, and it loads nothing from
// elsewhere.
func TestTheSiteIsWhole(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	files, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := fs.Glob(root, "docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	flat, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(flat) < 20 {
		t.Fatal(flat, err)
	}
	for _, source := range append(sources, flat...) {
		if files[htmlPath(source)] == nil {
			t.Errorf("%s has no page", source)
		}
	}
	for _, name := range []string{"index.html", "docs/images/ratcheting.svg", "docs/schemas/report-v1alpha1.json", "site.css", "site.js"} {
		if files[name] == nil {
			t.Errorf("the site has no %s", name)
		}
	}
	policy := []byte(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self'; script-src 'self'; style-src 'self'">`)
	for name, content := range files {
		if strings.HasSuffix(name, ".html") && !bytes.Contains(content, policy) {
			t.Errorf("%s allows a browser to load files of other hosts", name)
		}
	}
}

// TestTheSearchFindsEachHeading: every entry of the index leads to a place of the site.
func TestTheSearchFindsEachHeading(t *testing.T) {
	files, err := build(module(nil))
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(string(files["search.js"]), "sluiceIndex(")
	text, end := strings.CutSuffix(text, ");\n")
	var index []entry
	if err := json.Unmarshal([]byte(text), &index); err != nil || !ok || !end {
		t.Fatal(err, ok, end)
	}
	found := map[string]string{}
	for _, e := range index {
		found[e[0]] = e[2] + ": " + e[3]
	}
	if got := found["docs/other.html#a-b-c"]; got != "A b, c: Text of it. $ code --flag cell one " {
		t.Errorf("a section is found as %q, of %q", got, slices.Sorted(maps.Keys(found)))
	}
	if _, ok := found["docs/other.html"]; !ok {
		t.Error("the beginning of a page is not found")
	}
}

// module is one with three pages, and with what change makes of it.
func module(change map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	files := map[string]string{
		"README.md":       "# Readme\n\n[License](LICENSE), [docs](docs/README.md), [other](docs/other.md#a-b-c)\n",
		"LICENSE":         "Free.\n",
		"CONTRIBUTING.md": "# Contributing\n",
		"CHANGELOG.md":    "# Changelog\n",
		"docs/README.md":  "# Contents\n\nSee [terms](terms.md).\n\n## Look up\n\n| area | pages |\n| --- | --- |\n| all | [Other](other.md) |\n",
		"docs/terms.md":   "# Terms\n",
		"docs/other.md": "# Other\n\n![A picture](images/a.svg)\n\n## A `b`, c\n\nText\nof it.\n\n```console\n$ code --flag\n```\n\n| cell |\n| ---: |\n| one |\n\n" +
			"## A `b`, c\n\n[up](#other) [again](#a-b-c-1) [elsewhere](https://example.com/)\n",
		"docs/images/a.svg": `<svg xmlns="http://www.w3.org/2000/svg"><style>.a { fill: url(#b); }</style></svg>`,
	}
	maps.Copy(files, change)
	for name, content := range files {
		out[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return out
}

// TestAFaultOfAPageFailsTheBuild seeds one fault at a time.
func TestAFaultOfAPageFailsTheBuild(t *testing.T) {
	other := string(module(nil)["docs/other.md"].Data)
	svg := func(content string) map[string]string {
		return map[string]string{"docs/images/a.svg": `<svg xmlns="http://www.w3.org/2000/svg">` + content + `</svg>`}
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"nothing":                  {nil, ""},
		"a comment":                {map[string]string{"docs/other.md": other + "\n<!-- a note -->\n"}, ""},
		"a link to no page":        {map[string]string{"docs/other.md": other + "\n[x](none.md)\n"}, `"none.md" leads to no file`},
		"a link to no file":        {map[string]string{"docs/other.md": other + "\n[x](../none.go)\n"}, `"../none.go" leads to no file`},
		"a link to a folder":       {map[string]string{"docs/other.md": other + "\n[x](images/)\n"}, `"images/" leads to no file`},
		"a link out of the root":   {map[string]string{"docs/other.md": other + "\n[x](../../LICENSE)\n"}, `"../../LICENSE" leads to no file`},
		"an anchor of the page":    {map[string]string{"docs/other.md": other + "\n[x](#none)\n"}, `"#none" leads to no heading`},
		"an anchor elsewhere":      {map[string]string{"docs/other.md": other + "\n[x](terms.md#none)\n"}, `"terms.html#none" leads to no heading`},
		"no picture":               {map[string]string{"docs/other.md": other + "\n![x](images/none.svg)\n"}, `"images/none.svg" leads to no file`},
		"a picture of a host":      {map[string]string{"docs/other.md": other + "\n![x](https://example.com/a.svg)\n"}, "leads to another host"},
		"a link without TLS":       {map[string]string{"docs/other.md": other + "\n[x](http://example.com/)\n"}, "is not https"},
		"a link to a script":       {map[string]string{"docs/other.md": other + "\n[x](//example.com/a)\n"}, "leads to another host"},
		"HTML":                     {map[string]string{"docs/other.md": other + "\n<b>x</b>\n"}, "HTML in Markdown"},
		"code without a fence":     {map[string]string{"docs/other.md": other + "\n    x\n"}, "code without a fence"},
		"no title":                 {map[string]string{"docs/other.md": "Text.\n"}, "no title"},
		"a page that nobody finds": {map[string]string{"docs/lost.md": "# Lost\n"}, "docs/lost.md is not in the table of contents"},
		"a picture with a script":  {svg("<script/>"), "has a <script>"},
		"a picture with a picture": {svg(`<image href="https://example.com/a.png"/>`), "the picture loads"},
		"a picture with a font":    {svg("<style>@import 'a.css';</style>"), "must not load files"},
		"a picture with a fill":    {svg(`<path fill="url(a.svg#b)"/>`), "must not load files"},
		"a picture that is broken": {svg("<g>"), "closed by"},
	} {
		switch _, err := build(module(c.change)); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestHTMLThatABrowserRepairsIsFound holds the check of the HTML itself.
func TestHTMLThatABrowserRepairsIsFound(t *testing.T) {
	page := func(body string) []byte {
		return []byte("<!DOCTYPE html>\n<html lang=\"en\">\n<head><title>x</title></head>\n<body>\n" + body + "</body>\n</html>\n")
	}
	for body, valid := range map[string]bool{
		`<p id="a">x <code>y</code><br><img src="a" alt=""></p>`:         true,
		`<table><thead><tr><th>x</th></tr></thead></table>`:              true,
		`<ul><li>x</li></ul><pre>a  b</pre><input hidden type="search">`: true,
		`<p>x<div>y</div></p>`:                           false,
		`<p>x`:                                           false,
		`<b>x<i>y</b></i>`:                               false,
		`<table><tr><td>x</td></tr></table>`:             false,
		`<table><tbody><p>x</p></tbody></table>`:         false,
		`<a href="#a">x<a href="#b">y</a></a>`:           false,
		`x</p>`:                                          false,
		`<p id="a">x</p><p id="a">y</p>`:                 false,
		`<p id="">x</p>`:                                 false,
		`<img src="a">`:                                  false,
		`<p style="color: red">x</p>`:                    false,
		`<button type="button" onclick="x()">x</button>`: false,
	} {
		if _, err := look(page(body)); (err == nil) != valid {
			t.Errorf("%s: %v, valid is %t", body, err, valid)
		}
	}
}

// TestCodeCanBeCopied: of a console, what is typed is marked, and the file of a block has its name.
func TestCodeCanBeCopied(t *testing.T) {
	p, err := parse("docs/a.md", []byte("# A\n\n```console\n$ a \"b\" \\\n>   c\nout\n```\n\n```yaml file=x/y.yaml\nk: <v>\n```\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.html()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<span class="prompt">$ </span><span class="command">a &#34;b&#34; \</span>` + "\n" + `<span class="prompt">&gt; </span><span class="command">  c</span>` + "\nout\n",
		`<figcaption>x/y.yaml</figcaption><pre><code>k: &lt;v&gt;` + "\n</code></pre>",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
}

// TestTheNavigationHasTheTableOfContents: groups, areas and pages in their order, and the page itself is marked.
func TestTheNavigationHasTheTableOfContents(t *testing.T) {
	files, err := build(module(nil))
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(files["docs/other.html"]))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "nav" || !slices.Contains(n.Attr, html.Attribute{Key: "id", Val: "pages"}) {
			continue
		}
		for c := range n.Descendants() {
			if c.Type != html.ElementNode || !regexp.MustCompile(`^(h2|h3|a)$`).MatchString(c.Data) {
				continue
			}
			text := c.Data + " " + c.FirstChild.Data
			for _, a := range c.Attr {
				text += " " + a.Val
			}
			got = append(got, text)
		}
	}
	want := []string{"a Readme ../index.html", "a Contents index.html", "a Terms terms.html", "h2 Look up", "h3 all", "a Other page other.html"}
	if !slices.Equal(got, want) {
		t.Errorf("the navigation has %q, want %q", got, want)
	}
}
