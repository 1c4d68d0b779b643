package life

// How does a version come into a project that has none? It begins as a copy of the package of another version.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"
)

// copySource is the version to copy: the one in which the objects of the group are stored, or else the most stable one.
func (e *noVersionError) copySource() (goVersion, error) {
	group, _, ok := strings.Cut(e.version, "/")
	var found []goVersion
	for _, v := range e.others {
		if !ok || v.group == group {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return goVersion{}, e
	}
	slices.SortFunc(found, func(a, b goVersion) int {
		if a.stored != b.stored {
			return map[bool]int{true: -1, false: 1}[a.stored]
		}
		return -apiversion.CompareKubeAwareVersionStrings(a.version, b.version)
	})
	for _, v := range found[1:] {
		if v.group != found[0].group {
			return goVersion{}, fmt.Errorf("%w: name the group too, as in %s/%s", e, found[0].group, e.version)
		}
	}
	return found[0], nil
}

// notCopied are files of a package that belong to its version only.
var notCopied = regexp.MustCompile(`_(test|conversion|webhook)\.go$`)

// markersOfOneVersion are lines that the copy of a package does without.
var markersOfOneVersion = regexp.MustCompile(`(?m)^[ \t]*// \+kubebuilder:(storageversion|unservedversion|deprecatedversion\S*.*)\r?\n`)

// copyVersion is a new package beside the one of another version, with its types, and the other package with its kinds marked as stored.
func copyVersion(from goVersion, version string) (out Outputs, err error) {
	dir := filepath.Join(filepath.Dir(from.dir), version)
	if _, err := os.Stat(dir); err == nil {
		return nil, fmt.Errorf("%s exists, but has no kind of the group %s in version %s: add one, with the marker +groupName above the package clause", filepath.ToSlash(dir), from.group, version)
	}
	// The loader leaves out generated files, such as those with DeepCopy.
	files, err := filepath.Glob(filepath.Join(from.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if notCopied.MatchString(file) {
			continue
		}
		data, err := os.ReadFile(file) //nolint:gosec // a file of the package
		if err == nil {
			data, err = renamedVersion(file, data, &from, version)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, outFile{filepath.Join(dir, strings.ReplaceAll(filepath.Base(file), from.version, version)), data})
	}
	if !from.stored {
		stored, err := withLinesAdded(from.kinds)
		if err != nil {
			return nil, err
		}
		out = append(out, stored...)
	}
	return out, nil
}

// renamedVersion is a Go file with another version in its package clause, in the comments above it, and in strings that are the version.
func renamedVersion(file string, data []byte, from *goVersion, version string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, data, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(from.version) + `\b`)
	head := set.Position(f.Name.End()).Offset
	imports := map[token.Pos]bool{}
	for _, i := range f.Imports {
		imports[i.Path.Pos()] = true
	}
	text := []byte(word.ReplaceAllString(string(data[:head]), version))
	rest := head
	for node := range ast.Preorder(f) {
		n, ok := node.(*ast.BasicLit)
		if !ok || n.Kind != token.STRING {
			continue
		}
		if value, err := strconv.Unquote(n.Value); err != nil || imports[n.Pos()] || value != from.version && value != from.group+"/"+from.version {
			continue
		}
		at := set.Position(n.Pos()).Offset
		text = append(append(text, data[rest:at]...), word.ReplaceAllString(n.Value, version)...)
		rest = at + len(n.Value)
	}
	return markersOfOneVersion.ReplaceAll(append(text, data[rest:]...), nil), nil
}

// stage writes files for a while: undo restores what was there.
func (o Outputs) stage() (undo func(), err error) {
	var made []string
	for _, x := range o {
		for dir := filepath.Dir(x.path); ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); err == nil {
				break
			}
			made = append(made, dir)
		}
	}
	var files Outputs
	var old [][]byte
	if err := o.Each(func(path string, was, want []byte) { files, old = append(files, outFile{path, want}), append(old, was) }); err != nil {
		return nil, err
	}
	if _, err := o.Write(); err != nil {
		return nil, err
	}
	return func() {
		_ = putBack(files, old)
		for _, dir := range made {
			_ = os.Remove(dir) // it is empty
		}
	}, nil
}
