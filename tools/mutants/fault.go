package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// fault is one row of the table: it says which function is wrong, and how. A row does not depend on where the function stands or
// how it is formatted: code is compared by its tokens, without white space, line breaks and comments.
type fault struct {
	number int
	// in names the function, method, variable or constant that has the fault: the folder of its package, a dot, and its name as
	// Go prints it, without type parameters, such as "compat.(*comparison).isStored".
	in string
	// returns: the function returns this at once.
	returns string
	// without: this statement, or operand of && or ||, is left out. The name of a function or method stands for its call:
	// "isStored" leaves out the operand !c.isStored(v).
	without string
	// call, answers: each call of this function or method answers this.
	call, answers string
	// find, put: put stands in place of find. Both are any tokens, such as "if max < 2 {".
	find, put string
	// broken describes the failure, as a sentence without a full stop.
	broken string
	// tests are the packages whose tests have to catch it, relative to the module's root, in the order in which they are
	// asked. nil: that of the function, then those that depend on it.
	tests []string
	// e2e, if not empty, is the pattern of the tests against a real API server that have to catch it, in place of all others of tests.
	e2e string
}

// selectTests are the flags of go test that select the tests of a fault: none for all that need no API server.
// Tests against a real API server take minutes, so a row names those that it needs.
func (f *fault) selectTests() []string {
	if f.e2e == "" {
		return nil
	}
	return []string{"-tags", "e2e,grpcnotrace", "-run", "^(" + f.e2e + ")$"}
}

// key names the fault in the file of catchers: no two faults of a function break the same.
func (f *fault) key() string { return f.in + "\t" + f.broken }

// errTable says that a row of the table does not fit the code any more.
// It is told apart from faults that survive: the table is to be mended then, and not the tests.
var errTable = errors.New("the table of faults does not fit the code")

// packageFolder is that of the package that has the fault.
func (f *fault) packageFolder() string {
	folder, _, _ := strings.Cut(f.in, ".")
	return folder
}

// applyTo returns the name and the text of the file that has the fault. The error wraps errTable where the row no longer fits.
func (f *fault) applyTo(m *module) (file string, text []byte, err error) {
	d, err := m.findDeclaration(f.in)
	if err == nil {
		text, err = f.changedText(d)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: fault %d (%s): %w", errTable, f.number, f.broken, err)
	}
	return d.file, text, nil
}

// changedText is the text of the file with the fault in the declaration d. Exactly one place has to fit,
// or each call of a function for the form call, so that a row says what it breaks. The result is parsed,
// so that a row which makes no Go is found before the compiler runs.
func (f *fault) changedText(d *declaration) ([]byte, error) {
	said := slices.DeleteFunc([]string{f.returns, f.without, f.call, f.find}, func(s string) bool { return s == "" })
	if f.broken == "" || len(said) != 1 {
		return nil, errors.New("a row says what it breaks, and one of returns, without, call and find")
	}
	var where []span
	put := f.put
	switch {
	case f.returns != "":
		put = "\nreturn " + f.returns + "\n"
		if fn, ok := d.node.(*ast.FuncDecl); ok && fn.Body != nil {
			start := d.offsetOf(fn.Body.Lbrace) + 1
			where = []span{{start, start}}
		}
	case f.without != "":
		where = d.findPlaces(func(n ast.Node, above []ast.Node) (span, bool) {
			if !isCallOf(n, f.without) && !d.hasTokens(n, f.without) {
				return span{}, false
			}
			return d.decidedPart(n, above)
		})
	case f.call != "":
		put = f.answers
		where = d.findPlaces(func(n ast.Node, _ []ast.Node) (span, bool) { return d.spanOf(n), isCallOf(n, f.call) })
	default:
		where = d.findRuns(f.find)
	}
	if len(where) == 0 || len(where) > 1 && f.call == "" {
		return nil, fmt.Errorf("%s has %d places, and not one, for this:\n%s", f.in, len(where), indentLines(said[0]))
	}
	out := d.text
	for _, w := range slices.Backward(where) {
		out = slices.Concat(out[:w.from], []byte(put), out[w.to:])
	}
	if bytes.Equal(out, d.text) {
		return nil, fmt.Errorf("%s stays as it is", f.in)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), d.file, out, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("%s is no Go with the fault: %w", f.in, err)
	}
	return out, nil
}

func indentLines(s string) string { return "\t" + strings.ReplaceAll(s, "\n", "\n\t") }
