package life

// What changes in a Go file that is copied for a new version of an API? Only whole lines are removed, and text within a line is replaced, so that each
// line of the copy comes from one line of the file.

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// textEdit replaces a piece of a text.
type textEdit struct {
	from, to int
	text     string
}

// withEdits is a text with edits, of which one may be inside of another. With keepLines, removed lines stay as empty ones.
func withEdits(text []byte, edits []textEdit, keepLines bool) (out []byte) {
	slices.SortStableFunc(edits, func(a, b textEdit) int { return a.from - b.from })
	rest := 0
	for _, e := range edits {
		if e.to <= rest {
			continue
		}
		e.from = max(e.from, rest)
		out = append(append(out, text[rest:e.from]...), e.text...)
		if keepLines {
			out = append(out, bytes.Repeat([]byte("\n"), bytes.Count(text[e.from:e.to], []byte("\n")))...)
		}
		rest = e.to
	}
	return append(out, text[rest:]...)
}

// copiedFile is a Go file of the copy of a package.
type copiedFile struct {
	// text is the content, and sameLines the content with the line numbers of the file that it comes from.
	text, sameLines []byte
	// methods are those of conversions, which it is without.
	methods []string
	// empty is set if nothing but imports is left.
	empty bool
	// embeds are the patterns of the files that it embeds.
	embeds []string
}

// copyFile is a Go file for another version: see [renameEdits] and [conversionEdits].
func copyFile(name string, data []byte, from *goVersion, version string) (*copiedFile, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, data, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	c := &copier{data: data, set: set, file: f}
	c.renameEdits(from, version)
	out := &copiedFile{methods: c.conversionEdits()}
	out.empty = len(out.methods) > 0 && f.Doc == nil && !slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return !c.removed[d] && !isImport(d) })
	out.text, out.sameLines = withEdits(data, c.edits, false), withEdits(data, c.edits, true)
	for _, group := range f.Comments {
		for _, line := range group.List {
			if patterns, ok := strings.CutPrefix(line.Text, "//go:embed "); ok {
				out.embeds = append(out.embeds, embedPatterns(patterns)...)
			}
		}
	}
	return out, nil
}

func isImport(d ast.Decl) bool {
	g, ok := d.(*ast.GenDecl)
	return ok && g.Tok == token.IMPORT
}

// embedPatterns splits the patterns of a go:embed line: words, or Go strings.
func embedPatterns(text string) (out []string) {
	for _, quoted := range embedPattern.FindAllString(text, -1) {
		pattern := quoted
		if plain, err := strconv.Unquote(quoted); err == nil {
			pattern = plain
		}
		out = append(out, strings.TrimPrefix(pattern, "all:"))
	}
	return out
}

var embedPattern = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|\\S+")

// isEmbedded reports whether one of the patterns embeds a file: as it is, or as a part of a folder.
func isEmbedded(file string, patterns []string) bool {
	for ; file != "."; file = path.Dir(file) {
		if slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := path.Match(pattern, file)
			return pattern == "." || ok && err == nil
		}) {
			return true
		}
	}
	return false
}

// copier collects the edits of a Go file.
type copier struct {
	data    []byte
	set     *token.FileSet
	file    *ast.File
	edits   []textEdit
	removed map[ast.Node]bool
}

func (c *copier) offsetOf(p token.Pos) int { return c.set.Position(p).Offset }

// renameEdits give a file another version in its package clause, in the comments above it, and in strings that are its version: with the group, or what
// a name or field Version is. They remove the markers of one version.
func (c *copier) renameEdits(from *goVersion, version string) {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(from.version) + `\b`)
	head := c.offsetOf(c.file.Name.End())
	for _, at := range markerOfPackage.FindAllIndex(c.data[:head], -1) {
		c.edits = append(c.edits, textEdit{at[0], at[1], ""})
	}
	for _, at := range markersOfOneVersion.FindAllIndex(c.data, -1) {
		c.edits = append(c.edits, textEdit{at[0], at[1], ""})
	}
	for _, at := range word.FindAllIndex(c.data[:head], -1) {
		c.edits = append(c.edits, textEdit{at[0], at[1], version})
	}
	own := versionsIn(c.file)
	for node := range ast.Preorder(c.file) {
		n, ok := node.(*ast.BasicLit)
		if !ok || n.Kind != token.STRING {
			continue
		}
		if value, err := strconv.Unquote(n.Value); err != nil || value != from.group+"/"+from.version && (value != from.version || !own[n.Pos()]) {
			continue
		}
		at := c.offsetOf(n.Pos())
		c.edits = append(c.edits, textEdit{at, at + len(n.Value), word.ReplaceAllString(n.Value, version)})
	}
}

// conversionEdits remove the methods of conversions, what says that a type has them, and the imports that nothing else uses. They are those of
// controller-runtime (Hub, ConvertTo and ConvertFrom with a Hub) and of Knative (ConvertTo and ConvertFrom with a Convertible). It names the methods.
func (c *copier) conversionEdits() (methods []string) {
	c.removed = map[ast.Node]bool{}
	for _, d := range c.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if isConversion(d) {
				methods = append(methods, fmt.Sprintf("%s of %s", d.Name.Name, receiverName(d)))
				c.removeNode(d, d.Doc)
			}
		case *ast.GenDecl:
			c.removeAssertions(d)
		}
	}
	if len(c.removed) > 0 {
		c.removeUnusedImports()
	}
	return methods
}

// isConversion reports whether a function is a method of a conversion.
func isConversion(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return false
	}
	params := d.Type.Params.List
	switch d.Name.Name {
	case "Hub":
		return len(params) == 0 && d.Type.Results == nil
	case "ConvertTo", "ConvertFrom":
		return len(params) > 0 && isConverter(params[len(params)-1].Type)
	}
	return false
}

// isConverter reports whether an expression is one of the types to which conversions convert.
func isConverter(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "Hub" || s.Sel.Name == "Convertible")
}

// receiverName is the type of a method.
func receiverName(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return "a type"
}

// removeAssertions removes lines such as var _ conversion.Hub = &Book{}.
func (c *copier) removeAssertions(d *ast.GenDecl) {
	var gone []*ast.ValueSpec
	for _, s := range d.Specs {
		v, ok := s.(*ast.ValueSpec)
		if ok && d.Tok == token.VAR && isConverter(v.Type) && !slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name != "_" }) {
			gone = append(gone, v)
		}
	}
	if len(gone) > 0 && len(gone) == len(d.Specs) {
		c.removeNode(d, d.Doc)
		return
	}
	for _, v := range gone {
		c.removeNode(v, v.Doc)
	}
}

// removeUnusedImports removes the imports that only removed code uses.
func (c *copier) removeUnusedImports() {
	used, gone := map[string]bool{}, map[string]bool{}
	ast.Inspect(c.file, func(n ast.Node) bool {
		if c.removed[n] {
			packagesIn(n, gone)
			return false
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			packagesIn(s, used)
		}
		return true
	})
	for _, d := range c.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.IMPORT {
			continue
		}
		var unused []*ast.ImportSpec
		for _, s := range g.Specs {
			if i, ok := s.(*ast.ImportSpec); ok && slices.ContainsFunc(importNames(i), func(name string) bool { return gone[name] && !used[name] }) {
				unused = append(unused, i)
			}
		}
		if len(unused) == len(g.Specs) {
			c.removeNode(g, g.Doc)
			continue
		}
		for _, i := range unused {
			c.removeNode(i, i.Doc)
		}
	}
}

// packagesIn notes the names before dots.
func packagesIn(n ast.Node, names map[string]bool) {
	for node := range ast.Preorder(n) {
		if s, ok := node.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				names[id.Name] = true
			}
		}
	}
}

// importNames are the names that a file may have for an imported package.
func importNames(i *ast.ImportSpec) []string {
	if i.Name != nil {
		return []string{i.Name.Name}
	}
	whole, err := strconv.Unquote(i.Path.Value)
	if err != nil {
		return nil
	}
	base := path.Base(whole)
	names := []string{base, strings.TrimPrefix(base, "go-")}
	if majorVersion.MatchString(base) {
		names = append(names, path.Base(path.Dir(whole)))
	}
	if name, _, ok := strings.Cut(base, "."); ok { // yaml.v3
		names = append(names, name)
	}
	return names
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// removeNode removes the lines of a declaration, with the comment above it and an empty line before that.
func (c *copier) removeNode(n ast.Node, doc *ast.CommentGroup) {
	c.removed[n] = true
	from, to := c.offsetOf(n.Pos()), c.offsetOf(n.End())
	if doc != nil {
		from = c.offsetOf(doc.Pos())
	}
	lineStart := bytes.LastIndexByte(c.data[:from], '\n') + 1
	lineEnd := len(c.data)
	if i := bytes.IndexByte(c.data[to:], '\n'); i >= 0 {
		lineEnd = to + i + 1
	}
	after := bytes.TrimSpace(c.data[to:lineEnd])
	if len(bytes.TrimSpace(c.data[lineStart:from])) == 0 && (len(after) == 0 || bytes.HasPrefix(after, []byte("//"))) {
		from, to = lineStart, lineEnd
		if before := bytes.TrimRight(c.data[:from], " \t\r\n"); bytes.Count(c.data[len(before):from], []byte("\n")) > 1 {
			from = len(before) + bytes.IndexByte(c.data[len(before):from], '\n') + 1
		}
	}
	c.edits = append(c.edits, textEdit{from, to, ""})
}
