package life

// Where does the marker of a new feature belong? Above a field in the Go types, or above the package clause of
// a version. The packages are read as if the marker were there, so that a mistake is found before anything is
// written. For example, with --field Book.Banner the line // +sluice:feature=Banner goes above Banner in type
// Book.

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"

	"sluice.dev/internal/brief"
)

// addedMark is a marker to be added: above a field, in all packages that have it, or above the clause of the packages of a version.
type addedMark struct {
	// field is TYPE.FIELD or PACKAGE.TYPE.FIELD; empty for a version.
	field string
	// version is VERSION or GROUP/VERSION; empty for a field.
	version, gate string

	lines []addedLine
	known []string
	// versions are the packages with kinds.
	versions []goVersion
}

// addedLine is a line to be added above another one, which begins with a word.
type addedLine struct {
	file       string
	line       int
	word, text string
}

// goVersion is the Go package of an API version.
type goVersion struct {
	group, version string
	// dir is relative to the working directory, if it is below that.
	dir   string
	kinds []goKind
	// embedded are the files that the package embeds.
	embedded []string
	// stored is set if objects of some kind are stored in this version.
	stored bool
}

// goKind is a kind of a version, with the line that marks it as stored. stored is set if it has the marker.
type goKind struct {
	name   string
	line   addedLine
	stored bool
}

// belongsTo reports whether the marker belongs to a field.
func (m *addedMark) belongsTo(pkg *loader.Package, typ, field string) bool {
	if m == nil || field == "" || m.field == "" {
		return false
	}
	name := typ + "." + field
	m.known = append(m.known, name)
	return m.field == name || m.field == pkg.Name+"."+name
}

// addLineAbove notes the line of the marker. It goes above the line of a mark, which must begin with a word:
// the field, or package.
func (m *addedMark) addLineAbove(at *mark, word string) {
	m.lines = append(m.lines, addedLine{at.file, at.line, word, "// +" + markFeature + "=" + m.gate})
}

// notFound is the error if the packages have nothing that the marker belongs to.
func (m *addedMark) notFound() error {
	switch {
	case m == nil:
	case m.field != "" && m.lines == nil:
		return fmt.Errorf("there is no field %q%s in the packages of source; add the field first, or name one as TYPE.FIELD", m.field, brief.Hint(m.field, m.known))
	case m.version != "" && m.lines == nil:
		return &noVersionError{m.version, m.versions}
	}
	return nil
}

// noVersionError says that no package has the version. It has those of the other versions.
type noVersionError struct {
	version string
	others  []goVersion
}

// Error names the versions that there are.
func (e *noVersionError) Error() string {
	var have []string
	for _, v := range e.others {
		have = append(have, v.group+"/"+v.version)
	}
	slices.Sort(have)
	return fmt.Sprintf("no package of source has the version %s; they have %s", e.version, cmp.Or(strings.Join(have, ", "), "none"))
}

// markVersions adds the marker to the packages of its version, and notes all packages with kinds.
func (r *goReader) markVersions(roots []*loader.Package) {
	if r.extra == nil || r.extra.version == "" {
		return
	}
	byPackage := r.versionsWithKinds(roots)
	for _, pkg := range roots {
		v := byPackage[pkg]
		if v == nil {
			continue
		}
		r.extra.versions = append(r.extra.versions, *v)
		if r.extra.version != v.version && r.extra.version != v.group+"/"+v.version {
			continue
		}
		r.markPackage(pkg)
		alone := true
		for _, o := range byPackage {
			alone = alone && (o.group != v.group || o.version == v.version)
		}
		if (v.stored || alone) && stableVersion.MatchString(v.version) {
			at := r.extra.lines[len(r.extra.lines)-1]
			r.wrong.addProblem(at.file, at.line, "%s is stable, and objects are stored in it: while the feature is off, nobody could write one. Name a new version", v.version)
		}
	}
}

// versionsWithKinds are the packages with kinds.
func (r *goReader) versionsWithKinds(roots []*loader.Package) map[*loader.Package]*goVersion {
	out, meta := map[*loader.Package]*goVersion{}, crd.FindMetav1(roots)
	if meta == nil {
		return out
	}
	for _, kind := range crd.FindKubeKinds(r.parser, meta) {
		for _, pkg := range roots {
			info := r.parser.Types[crd.TypeIdent{Package: pkg, Name: kind.Kind}]
			gv := r.parser.GroupVersions[pkg]
			if info == nil || gv.Group != kind.Group || kind.Group == "" {
				continue
			}
			v := out[pkg]
			if v == nil {
				v = &goVersion{group: gv.Group, version: gv.Version, dir: filepath.Dir(r.relativePath(pkg.GoFiles[0]))}
				for _, file := range pkg.EmbedFiles {
					v.embedded = append(v.embedded, r.relativePath(file))
				}
				out[pkg] = v
			}
			at, word := pkg.Fset.Position(info.RawSpec.Pos()), "type"
			if info.RawDecl.Lparen.IsValid() {
				word = info.Name
			}
			stored := info.Markers.Get(markStorage) != nil
			v.kinds = append(v.kinds, goKind{kind.Kind, addedLine{r.relativePath(at.Filename), at.Line, word, "// +" + markStorage}, stored})
			v.stored = v.stored || stored
		}
	}
	return out
}

// markStorage is the marker of kubebuilder for the version in which objects are stored.
const markStorage = "kubebuilder:storageversion"

// markPackage adds the marker to a package, in the file with its group.
func (r *goReader) markPackage(pkg *loader.Package) {
	file := pkg.Syntax[0]
	for _, f := range pkg.Syntax {
		for _, c := range f.Comments {
			if c.Pos() < f.Package && strings.Contains(c.Text(), "+groupName=") {
				file = f
			}
		}
	}
	n := r.addMark(pkg, file.Package, newMark(markFeature, r.extra.gate))
	r.versions[pkg] = append(r.versions[pkg], n)
	r.extra.addLineAbove(&r.api.marks[n], "package")
}

// withLinesAdded are files with the lines, read from the disk.
func withLinesAdded(added []addedLine) (out Outputs, err error) {
	added = slices.Clone(added)
	slices.SortFunc(added, func(a, b addedLine) int { return cmp.Compare(b.line, a.line) }) // from the end, so that lines keep their numbers
	for _, x := range added {
		i := slices.IndexFunc(out, func(o outFile) bool { return o.path == x.file })
		if i < 0 {
			data, err := os.ReadFile(x.file)
			if err != nil {
				return nil, err
			}
			i, out = len(out), append(out, outFile{x.file, data})
		}
		lines := strings.SplitAfter(string(out[i].data), "\n")
		line := lines[x.line-1]
		indent := line[:len(line)-len(strings.TrimLeft(line, "\t "))]
		if !strings.HasPrefix(line[len(indent):], x.word) {
			return nil, Problems{{x.file, x.line, x.word + " has no line of its own: give it one, so that a marker can stand above it"}}
		}
		end := line[len(strings.TrimRight(line, "\r\n")):]
		out[i].data = []byte(strings.Join(slices.Insert(lines, x.line-1, indent+x.text+end), ""))
	}
	return out, nil
}
