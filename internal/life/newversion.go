package life

// How does a version come into a project that has none? It begins as a copy of the package of another version.

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	// Stored versions come first, then stable ones and the newest, as kubectl prefers them.
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
var notCopied = regexp.MustCompile(`(^|[_.])(test|conversion|webhook)\.go$`)

// markersOfOneVersion are lines that the copy of a package does without.
var markersOfOneVersion = regexp.MustCompile(`(?m)^[ \t]*// \+kubebuilder:(storageversion|unservedversion|deprecatedversion\S*.*)\r?\n`)

// markerOfPackage is the line that gates a package.
var markerOfPackage = regexp.MustCompile(`(?m)^[ \t]*// \+` + markFeature + `=.*\r?\n`)

// packageCopy is the package of a new version as a copy of that of another one.
type packageCopy struct {
	from         *goVersion
	version, dir string
	// code are the Go files, and sameLines the same ones with the line numbers of those that they come from. embedded are files that the other package embeds.
	code, sameLines, embedded Outputs
	// stored is the other package with its kinds marked as stored, unless they are stored in one of all versions.
	stored Outputs
	// sources has the file from which each Go file comes.
	sources map[string]string
	// leftOut names what belongs to the other version only.
	leftOut []string
}

// allFiles are all files to be written.
func (c *packageCopy) allFiles() Outputs { return slices.Concat(c.code, c.embedded, c.stored) }

// copyVersion is a new package beside the one of another version, with its types.
func copyVersion(from *goVersion, version string, all []goVersion) (*packageCopy, error) {
	c := &packageCopy{from: from, version: version, dir: filepath.Join(filepath.Dir(from.dir), version), sources: map[string]string{}}
	if info, err := os.Stat(c.dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; the package of version %s belongs there", filepath.ToSlash(c.dir), version)
	} else if err == nil {
		return nil, fmt.Errorf("%s exists, but has no kind of the group %s in version %s: add one, with the marker +groupName above the package clause", filepath.ToSlash(c.dir), from.group, version)
	}
	// The loader leaves out generated files, such as those with DeepCopy.
	files, err := filepath.Glob(filepath.Join(from.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		base := filepath.Base(file)
		if notCopied.MatchString(base) {
			if !strings.HasSuffix(base, "_test.go") {
				c.leftOut = append(c.leftOut, base)
			}
			continue
		}
		data, err := os.ReadFile(file) //nolint:gosec // a file of the package
		if err != nil {
			return nil, err
		}
		copied, err := copyFile(file, data, from, version)
		if err != nil {
			return nil, err
		}
		for _, m := range copied.methods {
			c.leftOut = append(c.leftOut, m+" in "+base)
		}
		if copied.empty {
			continue
		}
		name := filepath.Join(c.dir, strings.ReplaceAll(base, from.version, version))
		c.code, c.sameLines = append(c.code, outFile{name, copied.text}), append(c.sameLines, outFile{name, copied.sameLines})
		c.sources[name] = file
	}
	if err := c.addEmbedded(); err != nil {
		return nil, err
	}
	c.stored, err = withLinesAdded(unstoredKinds(from, all))
	return c, err
}

// addEmbedded adds the files that the other package embeds.
func (c *packageCopy) addEmbedded() error {
	for _, file := range c.from.embedded {
		rel, err := filepath.Rel(c.from.dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file) //nolint:gosec // a file of the package
		if err != nil {
			return err
		}
		c.embedded = append(c.embedded, outFile{filepath.Join(c.dir, rel), data})
	}
	return nil
}

// unstoredKinds are the lines that mark the kinds of a version as stored of which no version of the group has objects.
func unstoredKinds(of *goVersion, all []goVersion) (lines []addedLine) {
	for _, kind := range of.kinds {
		holds := func(v goVersion) bool {
			return v.group == of.group && slices.ContainsFunc(v.kinds, func(k goKind) bool { return k.name == kind.name && k.stored })
		}
		if !slices.ContainsFunc(all, holds) {
			lines = append(lines, kind.line)
		}
	}
	return lines
}

// versionsIn are the places of values that a Go file gives to a name or field Version, or to a GroupVersion without names.
func versionsIn(f *ast.File) map[token.Pos]bool {
	out := map[token.Pos]bool{}
	for node := range ast.Preorder(f) {
		switch n := node.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Version" {
				out[n.Value.Pos()] = true
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) && strings.HasSuffix(strings.ToLower(name.Name), "version") {
					out[n.Values[i].Pos()] = true
				}
			}
		case *ast.CompositeLit:
			if typ, ok := n.Type.(*ast.SelectorExpr); ok && strings.HasPrefix(typ.Sel.Name, "GroupVersion") && len(n.Elts) > 1 {
				out[n.Elts[1].Pos()] = true
			}
		}
	}
	return out
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
	removeMade := func() {
		for _, dir := range made {
			_ = os.Remove(dir) // it is empty
		}
	}
	if _, err := o.Write(); err != nil {
		removeMade()
		return nil, err
	}
	return func() {
		_ = putBack(files, old)
		removeMade()
	}, nil
}
