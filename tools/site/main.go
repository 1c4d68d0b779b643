// Command site writes the documentation as a static site: README.md, CONTRIBUTING.md, CHANGELOG.md and the pages below docs, with
// navigation, a search and pictures. docs/README.md is its table of contents.
//
//	*.md ──▶ page.go (goldmark) ──▶ site.go: navigation, template, search index ──▶ check.go ──▶ files
//
// The site needs no server and loads nothing from elsewhere: a browser can open its files from a folder. A broken link, anchor or
// picture, a page without a place in the table of contents, and HTML that a browser would have to repair are errors, and then
// nothing is written.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "folder of the module")
	out := flag.String("out", "dist/site", "folder to write; what is in it is removed")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(2)
	}
}

func run(root, out string) error {
	files, err := build(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, content := range files {
		name = filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
