package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// graph has the packages of the module with tests, and what each of them and its tests depends on, by paths in the module.
// A package without tests is not in it.
type graph map[string][]string

// loadGraph asks the go command about the packages of the module in dir.
// The tests of a package depend on more than the package itself, so the go command is asked for the
// programs of tests.
func loadGraph(ctx context.Context, dir string) (graph, error) {
	// The program of a package's tests is PACKAGE.test.
	const format = `{{if .Module}}{{.Module.Path}} {{.ImportPath}} {{join .Deps " "}}{{end}}`
	cmd := exec.CommandContext(ctx, "go", "list", "-test", "-f", format, "./...")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %s", strings.TrimSpace(stderr.String()))
	}
	g := graph{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		module := words[0] + "/"
		tested, ok := strings.CutSuffix(words[1], ".test")
		if !ok {
			continue
		}
		var deps []string
		for _, dep := range words[2:] {
			if name, ok := strings.CutPrefix(dep, module); ok {
				deps = append(deps, name)
			}
		}
		g[strings.TrimPrefix(tested, module)] = deps
	}
	return g, nil
}

// dear lists the packages whose tests take longest, the cheapest of them first; all others are cheaper.
var dear = []string{
	"internal/cli", "compat", "internal/input", "schema/contain/internal/celrule", "schema/contain", "report", "schema/upstream",
	"schema/contain/internal/regular",
}

// testsFor returns the packages whose tests have to catch a fault.
// The order is that in which they are asked; the first one that fails ends the search.
func (g graph) testsFor(f *fault) []string {
	if f.tests != nil {
		return f.tests
	}
	return g.testsOf(f.packageFolder())
}

// testsOf returns the packages whose tests have to catch a fault in the package: its own first, then those that depend on it,
// cheap ones first.
func (g graph) testsOf(own string) []string {
	var out []string
	for name, deps := range g {
		if name != own && slices.Contains(deps, own) {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(dear, a), slices.Index(dear, b)), cmp.Compare(a, b))
	})
	if g[own] == nil {
		return out
	}
	return append([]string{own}, out...)
}
