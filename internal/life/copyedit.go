package life

// What changes in a Go file that is copied for a new version of an API? Only whole lines are removed, and text within a line is replaced, so that each
// line of the copy comes from one line of the file.

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/tools/go/ast/astutil"
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
	out.empty = len(out.methods) > 0 && f.Doc == nil && !slices.ContainsFunc(f.Decls, func(d ast.Decl) bool { return !isImport(d) })
	out.text, out.sameLines = withEdits(data, c.edits, false), withEdits(data, c.edits, true)
	return out, nil
}

// isImport reports whether a declaration is one of imports.
func isImport(d ast.Decl) bool {
	g, ok := d.(*ast.GenDecl)
	return ok && g.Tok == token.IMPORT
}

// copier collects the edits of a Go file.
type copier struct {
	data  []byte
	set   *token.FileSet
	file  *ast.File
	edits []textEdit
}

// offsetOf is the byte of the file at a position.
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
	used := slices.DeleteFunc(slices.Clone(c.file.Imports), c.isUnused)
	c.file.Decls = slices.DeleteFunc(c.file.Decls, func(d ast.Decl) bool {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if isConversion(d) {
				methods = append(methods, fmt.Sprintf("%s of %s", d.Name.Name, receiverName(d)))
				c.removeNode(d, d.Doc)
				return true
			}
		case *ast.GenDecl:
			return c.removeSpecs(d, isAssertion)
		}
		return false
	})
	for _, d := range c.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			c.removeSpecs(g, func(s ast.Spec, _ token.Token) bool {
				i, ok := s.(*ast.ImportSpec)
				return ok && slices.Contains(used, i) && c.isUnused(i)
			})
		}
	}
	return methods
}

// isUnused reports whether nothing in the file uses an import, as far as its path tells its name.
func (c *copier) isUnused(i *ast.ImportSpec) bool {
	path, err := strconv.Unquote(i.Path.Value)
	return err == nil && !astutil.UsesImport(c.file, path)
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

// isAssertion reports whether a declaration is such as var _ conversion.Hub = &Book{}.
func isAssertion(s ast.Spec, tok token.Token) bool {
	v, ok := s.(*ast.ValueSpec)
	return ok && tok == token.VAR && isConverter(v.Type) && !slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name != "_" })
}

// removeSpecs removes some parts of a declaration, and reports whether that are all of them.
func (c *copier) removeSpecs(d *ast.GenDecl, isGone func(ast.Spec, token.Token) bool) (all bool) {
	kept := slices.DeleteFunc(slices.Clone(d.Specs), func(s ast.Spec) bool { return isGone(s, d.Tok) })
	if len(kept) == 0 && len(d.Specs) > 0 {
		c.removeNode(d, d.Doc)
		return true
	}
	for _, s := range d.Specs {
		if slices.Contains(kept, s) {
			continue
		}
		switch s := s.(type) {
		case *ast.ValueSpec:
			c.removeNode(s, s.Doc)
		case *ast.ImportSpec:
			c.removeNode(s, s.Doc)
		}
	}
	d.Specs = kept
	return false
}

// removeNode removes the lines of a declaration, with the comment above it and an empty line before that.
func (c *copier) removeNode(n ast.Node, doc *ast.CommentGroup) {
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
