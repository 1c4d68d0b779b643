package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// graph has the dependencies between the packages of the module, tests included.
type graph struct {
	module string
	pkgs   map[string]*pkg // by path in the module; "." is the root
}

type pkg struct {
	imports map[string]bool // of the package and its tests, directly
	tested  bool
}

// loadGraph asks the go command about the packages of the module in dir.
func loadGraph(ctx context.Context, dir string) (*graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,Module,Imports,TestImports,XTestImports,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = dir
	text, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("go list: %s", strings.TrimSpace(string(e.Stderr)))
		}
		return nil, err
	}
	g := &graph{pkgs: map[string]*pkg{}}
	type listed struct {
		ImportPath, Dir                    string
		Module                             struct{ Path, Dir string }
		Imports, TestImports, XTestImports []string
		TestGoFiles, XTestGoFiles          []string
	}
	for dec := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		g.module = p.Module.Path
		q := &pkg{imports: map[string]bool{}, tested: len(p.TestGoFiles)+len(p.XTestGoFiles) > 0}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if name, ok := g.inModule(imported); ok {
				q.imports[name] = true
			}
		}
		name, err := filepath.Rel(p.Module.Dir, p.Dir)
		if err != nil {
			return nil, err
		}
		g.pkgs[filepath.ToSlash(name)] = q
	}
}

func (g *graph) inModule(imported string) (string, bool) {
	if imported == g.module {
		return ".", true
	}
	return strings.CutPrefix(imported, g.module+"/")
}

// dear lists the packages whose tests take longest, the cheapest of them first; all others are cheaper.
var dear = []string{
	"internal/cli", "compat", "internal/input", "schema/contain/internal/celrule", "schema/contain", "report", "schema/upstream",
	"schema/contain/internal/regular",
}

// testsFor returns the packages whose tests have to catch a fault.
func (g *graph) testsFor(f *fault) []string {
	if f.tests != nil {
		return f.tests
	}
	return g.testsOf(f.packageFolder())
}

// testsOf returns the packages whose tests have to catch a fault in the package: its own first, then those that depend on it,
// cheap ones first.
func (g *graph) testsOf(own string) []string {
	depends := map[string]bool{own: true}
	for grown := true; grown; {
		grown = false
		for name, p := range g.pkgs {
			if depends[name] {
				continue
			}
			for imported := range p.imports {
				if depends[imported] {
					depends[name], grown = true, true
					break
				}
			}
		}
	}
	var out []string
	for name := range depends {
		if p := g.pkgs[name]; p != nil && p.tested {
			out = append(out, name)
		}
	}
	first := func(name string) int {
		if name == own {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(slices.Index(dear, a), slices.Index(dear, b)), cmp.Compare(a, b))
	})
	return out
}
