package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// check finds what is wrong with the files of a site: links, anchors and pictures that lead nowhere, what a browser would load from
// elsewhere, and HTML that a browser would have to repair.
func check(files map[string][]byte) (errs []error) {
	pages := map[string]*checked{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var err error
		switch content := files[name]; path.Ext(name) {
		case ".html":
			pages[name], err = look(content)
		case ".svg":
			err = checkSVG(content)
		case ".css":
			err = local(string(content))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		for _, r := range pages[name].refs {
			if why := r.broken(name, files, pages); why != "" {
				errs = append(errs, fmt.Errorf("%s: <%s> %q %s", name, r.tag, r.to, why))
			}
		}
	}
	return errs
}

// checked is what a page has.
type checked struct {
	ids  map[string]bool
	refs []ref
}

// ref is an address on a page.
type ref struct{ tag, to string }

// addresses are the attributes whose values a browser follows.
var addresses = []string{"action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster", "src", "srcset", "xlink:href"}

func look(content []byte) (*checked, error) {
	root, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	out := &checked{ids: map[string]bool{}}
	errs := []error{wellFormed(content, root)}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		described := false
		for _, a := range n.Attr {
			described = described || a.Key == "alt"
			switch {
			case a.Key == "id" && (out.ids[a.Val] || a.Val == ""):
				errs = append(errs, fmt.Errorf("the id %q is empty, or is there twice", a.Val))
			case a.Key == "id":
				out.ids[a.Val] = true
			case a.Key == "style" || strings.HasPrefix(a.Key, "on"):
				errs = append(errs, fmt.Errorf("<%s> has the attribute %s, which the page's policy forbids", n.Data, a.Key))
			case slices.Contains(addresses, a.Key):
				out.refs = append(out.refs, ref{n.Data, a.Val})
			}
		}
		if n.Data == "img" && !described {
			errs = append(errs, errors.New("a picture has no text in its place"))
		}
	}
	return out, errors.Join(errs...)
}

// broken says what is wrong with an address; empty if nothing is. Only links of people may lead to other hosts.
func (r ref) broken(from string, files map[string][]byte, pages map[string]*checked) string {
	at, err := url.Parse(r.to)
	if err != nil {
		return "is no address"
	}
	if at.Scheme != "" || at.Host != "" {
		if r.tag == "a" && (at.Scheme == "https" || at.Scheme == "mailto") {
			return ""
		}
		return "leads to another host, or is not https"
	}
	target := from
	if at.Path != "" {
		target = path.Join(path.Dir(from), at.Path)
	}
	if files[target] == nil {
		return "leads to no file"
	}
	if at.Fragment != "" && (pages[target] == nil || !pages[target].ids[at.Fragment]) {
		return "leads to no heading"
	}
	return ""
}

// wellFormed compares the tags of a page with those of the tree that a browser makes of it. They differ where it has to repair.
func wellFormed(content []byte, root *html.Node) error {
	var repaired bytes.Buffer
	if err := html.Render(&repaired, root); err != nil {
		return err
	}
	written, read := tokens(content), tokens(repaired.Bytes())
	for i := range max(len(written), len(read)) {
		a, b := "the end", "the end"
		if i < len(written) {
			a = written[i]
		}
		if i < len(read) {
			b = read[i]
		}
		if a != b {
			return fmt.Errorf("the HTML is not valid: it has %s, and a browser makes %s of it, after %s", a, b, strings.Join(written[max(0, i-5):i], " "))
		}
	}
	return nil
}

// tokens are the tags and texts of a page in a form that can be compared.
func tokens(content []byte) (out []string) {
	for z := html.NewTokenizer(bytes.NewReader(content)); ; {
		next := z.Next()
		if next == html.ErrorToken {
			return out
		}
		if next == html.CommentToken {
			continue
		}
		t := z.Token()
		slices.SortFunc(t.Attr, func(a, b html.Attribute) int { return strings.Compare(a.Key, b.Key) })
		switch t.Type { //nolint:exhaustive // the others stay as they are
		case html.SelfClosingTagToken:
			t.Type = html.StartTagToken
		case html.TextToken:
			t.Data = strings.Join(strings.Fields(t.Data), " ")
		}
		if s := t.String(); s != "" {
			out = append(out, s)
		}
	}
}

// outside is what loads a file in a style.
var outside = regexp.MustCompile(`(?i)@import|url\(\s*["']?[^#"'\s]|https?://`)

func local(style string) error {
	if m := outside.FindString(style); m != "" {
		return fmt.Errorf("the style has %q: it must not load files", m)
	}
	return nil
}

// checkSVG finds what a picture loads, or would run.
func checkSVG(content []byte) error {
	for d := xml.NewDecoder(bytes.NewReader(content)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.CharData:
			err = local(string(t))
		case xml.StartElement:
			if t.Name.Local == "script" || t.Name.Local == "foreignObject" {
				err = fmt.Errorf("the picture has a <%s>", t.Name.Local)
			}
			for _, a := range t.Attr {
				switch {
				case a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#"):
					err = fmt.Errorf("the picture loads %q", a.Value)
				case a.Name.Local != "xmlns" && a.Name.Space != "xmlns" && err == nil:
					err = local(a.Value)
				}
			}
		}
		if err != nil {
			return err
		}
	}
}
