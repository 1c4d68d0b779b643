package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// flagSetter is a method of pflag that declares a flag, whose last argument is the flag's help.
var flagSetter = regexp.MustCompile(`^(Bool|Count|Duration|Float\d*|Int\d*|String|StringArray|StringSlice|StringToString|Uint\d*|)Var(P|PF)?$`)

// helpTexts are the help texts in a Go source of commands: Short and Long of a command, and what its flags do. They come from
// the source, so that no command has to be built for them, and each has its line. A text that is not a constant is left out.
func helpTexts(name string, src []byte) ([]block, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading help texts: %w", err)
	}
	var out []block
	add := func(e ast.Expr, sentences bool) {
		text, ok := constant(e)
		if !ok {
			return
		}
		first := files.Position(e.Pos()).Line
		for _, b := range blocks(text) {
			b.line, b.prose = first+b.line-1, sentences
			out = append(out, b)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Short" || key.Name == "Long") {
				add(n.Value, key.Name == "Long")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && flagSetter.MatchString(f.Sel.Name) && len(n.Args) > 2 {
				add(n.Args[len(n.Args)-1], false)
			}
		}
		return true
	})
	return out, nil
}

// constant is the value of string literals, joined by +.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, okX := constant(e.X)
		y, okY := constant(e.Y)
		if okX && okY {
			return x + y, true
		}
		// A name in between stands for a word.
		if okX || okY {
			return strings.TrimSpace(x) + " … " + strings.TrimSpace(y), true
		}
	}
	return "", false
}
