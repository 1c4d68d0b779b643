package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module finds declarations in the module in dir. It reads each package once.
// It reads sources as text and syntax, without types: that is fast, and a row says which function it
// means.
type module struct {
	dir  string
	pkgs map[string]map[string][]*declaration // by folder and name
}

func newModule(dir string) *module {
	return &module{dir: dir, pkgs: map[string]map[string][]*declaration{}}
}

// declaration is a function, or the variables or constants of one line.
// The text of the whole file goes with it, because a fault is written into a copy of the file.
type declaration struct {
	file  string // relative to the module's root, with slashes
	text  []byte // of the file
	node  ast.Node
	lines *token.File
}

// span is a part of a file's text.
type span struct{ from, to int }

func (d *declaration) offsetOf(p token.Pos) int { return d.lines.Offset(p) }

func (d *declaration) spanOf(n ast.Node) span { return span{d.offsetOf(n.Pos()), d.offsetOf(n.End())} }

// findDeclaration finds what a row names.
func (m *module) findDeclaration(in string) (*declaration, error) {
	folder, name, _ := strings.Cut(in, ".")
	if m.pkgs[folder] == nil {
		if err := m.readPackage(folder); err != nil {
			return nil, err
		}
	}
	found := m.pkgs[folder][name]
	if len(found) != 1 {
		return nil, fmt.Errorf("package %s declares %s %d times, and not once", folder, name, len(found))
	}
	return found[0], nil
}

// readPackage parses the files of a folder, tests aside. Files for other platforms are parsed too: a name
// that occurs in two of them cannot be in the table.
func (m *module) readPackage(folder string) error {
	paths, err := filepath.Glob(filepath.Join(m.dir, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return err
	}
	pkg := map[string][]*declaration{}
	for _, name := range paths {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name) //nolint:gosec // a file of this module
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		add := func(as string, n ast.Node) {
			pkg[as] = append(pkg[as], &declaration{path.Join(folder, filepath.Base(name)), text, n, fset.File(tree.Pos())})
		}
		for _, d := range tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(receiverPrefix(d)+d.Name.Name, d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.ValueSpec); ok {
						for _, name := range s.Names {
							add(name.Name, s)
						}
					}
				}
			}
		}
	}
	m.pkgs[folder] = pkg
	return nil
}

// receiverPrefix returns what stands before the name of a method: "T." or "(*T).", and "" for a function.
func receiverPrefix(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	name, _, _ := strings.Cut(types.ExprString(d.Recv.List[0].Type), "[")
	if strings.HasPrefix(name, "*") {
		name = "(" + name + ")"
	}
	return name + "."
}

// isCallOf tells whether n calls a function or method of this name.
// The name may be that of a method without its receiver, as isStored for c.isStored(v).
func isCallOf(n ast.Node, name string) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && strings.HasSuffix("."+types.ExprString(call.Fun), "."+name)
}

// findPlaces finds the outermost nodes that what is true of, and the text that it returns for each. above are the nodes around n, the
// outermost first.
func (d *declaration) findPlaces(what func(n ast.Node, above []ast.Node) (span, bool)) []span {
	var out []span
	ast.PreorderStack(d.node, nil, func(n ast.Node, above []ast.Node) bool {
		at, ok := what(n, above)
		if ok {
			out = append(out, at)
		}
		return !ok
	})
	return out
}

// decidedPart finds the statement, or the operand of && or ||, that n is or decides.
// For a && b it is the operand with the operator, so that what is left is an expression. An operand
// inside of a comparison, an index or an argument decides nothing by itself.
func (d *declaration) decidedPart(n ast.Node, above []ast.Node) (span, bool) {
	for _, up := range slices.Backward(above) {
		switch up := up.(type) {
		case *ast.BinaryExpr:
			switch x, y := d.spanOf(up.X), d.spanOf(up.Y); {
			case up.Op != token.LAND && up.Op != token.LOR: // a comparison
			case n == up.X:
				return span{x.from, y.from}, true
			default:
				return span{x.to, y.to}, true
			}
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			_, ok := n.(ast.Stmt)
			return d.spanOf(n), ok
		case *ast.AssignStmt:
			if slices.ContainsFunc(up.Lhs, func(x ast.Expr) bool { return x == n }) {
				return span{}, false
			}
		case *ast.ParenExpr, *ast.UnaryExpr, *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt:
		default:
			return span{}, false
		}
		n = up
	}
	return span{}, false
}

// hasTokens tells whether n has these tokens.
func (d *declaration) hasTokens(n ast.Node, code string) bool {
	at := d.spanOf(n)
	return slices.EqualFunc(splitTokens(d.text[at.from:at.to]), splitTokens([]byte(code)), sameToken)
}

// findRuns finds the texts that have these tokens.
// White space and comments between tokens do not count, so that reformatting keeps a row valid.
func (d *declaration) findRuns(code string) []span {
	at := d.spanOf(d.node)
	have, want := splitTokens(d.text[at.from:at.to]), splitTokens([]byte(code))
	var out []span
	for i := range len(have) - len(want) + 1 {
		if slices.EqualFunc(have[i:i+len(want)], want, sameToken) {
			out = append(out, span{at.from + have[i].from, at.from + have[i+len(want)-1].to})
		}
	}
	return out
}

// lexeme is a token with its place in the text.
type lexeme struct {
	text string
	span
}

func sameToken(a, b lexeme) bool { return a.text == b.text }

// splitTokens splits a text into its tokens, without those that only line breaks ask for: the comma or semicolon before a closing
// bracket, and the semicolon at the end.
// A comment is no token.
func splitTokens(text []byte) []lexeme {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	var out []lexeme
	for {
		pos, kind, literal := s.Scan()
		before := len(out) - 1
		closes := kind == token.RPAREN || kind == token.RBRACK || kind == token.RBRACE
		if before >= 0 && (out[before].text == ";" && (closes || kind == token.EOF) || out[before].text == "," && closes) {
			out = out[:before]
		}
		switch {
		case kind == token.EOF:
			return out
		case kind == token.SEMICOLON:
			literal = ";"
		case literal == "":
			literal = kind.String()
		}
		from := file.Offset(pos)
		out = append(out, lexeme{literal, span{from, from + len(literal)}})
	}
}
