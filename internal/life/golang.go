package life

// Which parts of an API do the markers in Go types gate? controller-tools makes the CRDs, and a marker travels
// with it as a tag in the schema. So a marker at a type is found at each field that uses the type, wherever
// that is. For example, +sluice:feature=Banner at a type Banner gates spec.banner of Book and
// spec.header.banner of Magazine.

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"sluice.dev/internal/brief"
	"sluice.dev/schema"
)

// goAPI is the API in Go packages: CRDs, and the parts that markers gate.
type goAPI struct {
	crds  []*apiextensionsv1.CustomResourceDefinition
	marks []mark
	uses  []use
	// conditions are the places with markers that apply only in some channels. crds are without these markers.
	conditions []condition
}

// goReader reads Go packages.
type goReader struct {
	parser   *crd.Parser
	registry *markers.Registry
	api      goAPI
	wrong    Problems
	// versions are the marks of packages.
	versions map[*loader.Package][]int
	// dir is the folder of features.yaml, as the user names it.
	dir string
	// extra is a marker to add; nil for none.
	extra *addedMark
}

// readGo reads packages of the module at dir with the loader, the markers and the schemas of controller-tools. The error is for
// packages that cannot be read, the problems are for mistakes in the others. Extra is a marker to add; nil for none.
func readGo(ctx context.Context, dir string, patterns []string, extra *addedMark) (*goAPI, Problems, error) {
	r := &goReader{dir: dir, registry: &markers.Registry{}, versions: map[*loader.Package][]int{}, extra: extra}
	if err := registerMarkers(r.registry); err != nil {
		return nil, nil, err
	}
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedModule | packages.NeedEmbedFiles}, patterns...)
	if err != nil {
		return nil, nil, cmp.Or(noModule(dir, patterns), fmt.Errorf("load Go packages %s: %w", strings.Join(patterns, " "), err))
	}
	if r.loadErrors(roots); len(r.wrong) > 0 {
		return nil, nil, cmp.Or(noModule(dir, patterns), r.wrong.asError())
	}
	r.parser = &crd.Parser{
		Collector: &markers.Collector{Registry: r.registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
		// The types exist already. A check for floats belongs to controller-gen.
		AllowDangerousTypes: true,
	}
	crd.AddKnownTypes(r.parser)
	for _, p := range roots {
		r.parser.NeedPackage(p)
	}
	marked := r.markedImports(roots)
	for _, p := range marked {
		r.parser.NeedPackage(p)
	}
	// If a marker cannot be read, nothing is known about its package.
	if r.loadErrors(roots); len(r.wrong) > 0 {
		return nil, nil, r.wrong.asError()
	}
	for _, p := range append(roots, marked...) {
		r.tagPackage(p)
	}
	r.markVersions(roots)
	if err := r.extra.notFound(); err != nil {
		return nil, nil, err
	}
	r.checkInlined()
	r.makeCRDs(roots)
	before := len(r.wrong)
	if r.loadErrors(roots); len(r.wrong) > before { // a kind is not completely known
		return nil, nil, r.wrong.asError()
	}
	return &r.api, r.wrong, nil
}

// loadErrors returns what the loader could not read. It leaves out type errors, as controller-gen does: controller-gen reads only parts
// of packages, and reports a missing type by another error.
func (r *goReader) loadErrors(roots []*loader.Package) {
	seen := map[string]bool{}
	var visit func(p *loader.Package, root bool)
	visit = func(p *loader.Package, root bool) {
		if seen[p.ID] {
			return
		}
		seen[p.ID] = true
		for _, e := range p.Errors {
			if e.Kind == packages.TypeError && (!root || !redeclared.MatchString(e.Msg)) {
				continue
			}
			file, line := splitPosition(e.Pos)
			r.wrong.addProblem(r.relativePath(fullPath(roots, file)), line, "%s", strings.TrimSpace(e.Msg))
		}
		for _, q := range p.Imports() {
			visit(q, false)
		}
	}
	for _, p := range roots {
		if len(p.GoFiles) == 0 && len(p.Errors) == 0 {
			r.wrong.addProblem("", 0, "package %s has no Go files", p.PkgPath)
		}
		visit(p, true)
	}
}

// fullPath is the path of a file of the packages. The go command names files relative to a folder of its own.
func fullPath(roots []*loader.Package, file string) string {
	for _, p := range roots {
		for _, full := range p.GoFiles {
			if file != "" && !filepath.IsAbs(file) && strings.HasSuffix(full, string(filepath.Separator)+file) {
				return full
			}
		}
	}
	return file
}

// redeclared matches type errors that cannot come from imports that were left out.
var redeclared = regexp.MustCompile(`^(\w+ redeclared in this block|other declaration of \w+)$`)

// splitPosition splits FILE:LINE:COLUMN.
func splitPosition(s string) (file string, line int) {
	parts := strings.Split(s, ":")
	for i := 1; i < len(parts); i++ {
		if n, err := strconv.Atoi(parts[i]); err == nil {
			return strings.Join(parts[:i], ":"), n
		}
	}
	return strings.TrimSuffix(s, "-"), 0
}

// noModule says that a folder is in no Go module, which the errors of the go command do not say; nil if it is in one.
func noModule(dir string, patterns []string) error {
	at, err := filepath.Abs(dir)
	if err != nil {
		return nil //nolint:nilerr // the error that is there already counts
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return nil
		}
		if filepath.Dir(at) == at {
			return fmt.Errorf("there is no %s, and none in a folder above: source.packages names %s, and Go packages belong to a module. Begin one (go mod init), or give the features.yaml of one with -f",
				filepath.ToSlash(filepath.Join(dir, "go.mod")), strings.Join(patterns, ", "))
		}
		at = filepath.Dir(at)
	}
}

// relativePath is the file as the user would name it, who names features.yaml: relative to the working directory, unless features.yaml has an
// absolute path. A file of another module keeps its own.
func (r *goReader) relativePath(file string) string {
	dir, err := filepath.Abs(r.dir)
	if err != nil || !filepath.IsAbs(file) {
		return file
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return file
	}
	outside := func(path string) bool {
		return path == ".." || strings.HasPrefix(path, ".."+string(filepath.Separator))
	}
	if named := filepath.Join(r.dir, rel); !outside(rel) || !outside(named) {
		return named
	}
	return file
}

// markedImports returns the imported packages of the same module that have our markers: an API may have a field of one of their types.
func (r *goReader) markedImports(roots []*loader.Package) (out []*loader.Package) {
	seen := map[*loader.Package]bool{}
	for _, p := range roots {
		seen[p] = true
	}
	var visit func(p *loader.Package)
	visit = func(p *loader.Package) {
		for _, path := range sortedKeys(p.Imports()) {
			q := p.Imports()[path]
			if seen[q] || q.Module == nil || !q.Module.Main {
				continue
			}
			seen[q] = true
			if slices.ContainsFunc(q.CompiledGoFiles, func(file string) bool {
				data, err := os.ReadFile(file) //nolint:gosec // a file of the package
				return err == nil && likeMarker.Match(data)
			}) {
				out = append(out, q)
			}
			visit(q)
		}
	}
	for _, p := range roots {
		visit(p)
	}
	return out
}

// likeMarker matches a text that is probably meant as one of our markers. nearMarker matches a comment that begins with it.
var (
	likeMarker = regexp.MustCompile(`(?i)\+\s*sluice\s*:`)
	nearMarker = regexp.MustCompile(`^/[/*]\s*` + likeMarker.String())
)

// wellNamed reports whether a text begins with the name of one of our markers. Asking controller-tools is not enough: it reads
// +sluice:feature:item=A as +sluice:feature=A.
func wellNamed(text string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "+"), "=")
	return slices.ContainsFunc(markNames, func(m string) bool {
		switch m {
		case markFeature, markItems, markLoosen:
			return name == m
		}
		return name == m || strings.HasPrefix(name, m+":")
	})
}

// comment is one of our markers in a file.
type comment struct {
	pos     token.Pos
	text    string
	claimed bool
}

// tagPackage finds the markers of a package, and puts tags where controller-tools reads them.
func (r *goReader) tagPackage(pkg *loader.Package) {
	for _, file := range pkg.Syntax {
		var comments []comment
		for _, group := range file.Comments {
			for _, c := range group.List {
				text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
				marker := comment{pos: c.Pos(), text: text}
				switch {
				case wellNamed(text):
					comments = append(comments, marker)
				case strings.HasPrefix(text, markerPrefix):
					r.reportUnknown(pkg, &marker)
				case nearMarker.MatchString(c.Text):
					at := pkg.Fset.Position(c.Pos())
					r.wrong.addProblem(r.relativePath(at.Filename), at.Line, "%q is no marker: begin it with // %s", text, markerPrefix)
				}
			}
		}
		if comments == nil && r.extra == nil {
			continue
		}
		for ident, info := range r.parser.Types {
			if ident.Package != pkg || info.RawFile != file {
				continue
			}
			r.tagNode(pkg, info.RawSpec, &info.Markers, comments)
			for i := range info.Fields {
				f := &info.Fields[i]
				if i > 0 && info.Fields[i-1].RawField == f.RawField { // A, B int
					f.Markers = info.Fields[i-1].Markers
					continue
				}
				r.tagNode(pkg, f.RawField, &f.Markers, comments)
				if r.extra.belongsTo(pkg, info.Name, f.Name) {
					n := r.addMark(pkg, f.RawField.Pos(), newMark(markFeature, r.extra.gate))
					if f.Markers == nil {
						f.Markers = markers.MarkerValues{}
					}
					f.Markers[tagsKey] = append(f.Markers[tagsKey], tag(n))
					r.extra.addLineAbove(&r.api.marks[n], f.Name)
				}
			}
		}
		r.tagConstants(pkg, file, comments)
		for i := range comments {
			r.readUnclaimed(pkg, file, &comments[i])
		}
	}
}

// tagNode turns the markers of a type or a field into tags.
func (r *goReader) tagNode(pkg *loader.Package, node ast.Node, values *markers.MarkerValues, comments []comment) {
	for _, name := range markNames {
		for _, v := range (*values)[name] {
			m := newMark(name, v)
			target := markers.DescribesField
			if _, ok := node.(*ast.TypeSpec); ok {
				target = markers.DescribesType
			}
			pos, text := node.Pos(), ""
			// controller-tools gives a value without its place. The nearest comment above that has this value is the marker.
			for i := len(comments) - 1; i >= 0; i-- {
				c := &comments[i]
				if c.claimed || c.pos > node.Pos() {
					continue
				}
				if def := r.registry.Lookup(c.text, target); def == nil || def.Name != name {
					continue
				} else if got, err := def.Parse(c.text); err != nil || !reflect.DeepEqual(got, v) {
					continue
				}
				c.claimed, pos, text = true, c.pos, c.text
				break
			}
			n := r.addMark(pkg, pos, m)
			if wrong := wrongValues(name, text, v); wrong != "" {
				r.wrong.addProblem(r.api.marks[n].file, r.api.marks[n].line, "%s: %s", cmp.Or(text, "+"+name), wrong)
			}
			if m.marker != "" {
				r.readConditional(&r.api.marks[n])
			}
			for _, k := range m.loosen {
				if loosenable[k] == nil {
					names := sortedKeys(loosenable)
					at := &r.api.marks[n]
					r.wrong.addProblem(at.file, at.line, "+%s does not take out %q%s; it takes out %s", markLoosen, k, brief.Hint(k, names), strings.Join(names, ", "))
				}
			}
			if m.items {
				(*values)[tagsKey] = append((*values)[tagsKey], itemsTag(n))
			} else {
				(*values)[tagsKey] = append((*values)[tagsKey], tag(n))
			}
		}
	}
}

// readConditional reads the marker inside of a marker.
func (r *goReader) readConditional(m *mark) {
	text := "+" + strings.TrimPrefix(m.marker, "+")
	def := cmp.Or(r.registry.Lookup(text, markers.DescribesField), r.registry.Lookup(text, markers.DescribesType))
	if def == nil {
		var names []string
		for _, d := range r.registry.AllDefinitions() {
			names = append(names, d.Name)
		}
		slices.Sort(names)
		name, _, _ := strings.Cut(text[1:], "=")
		r.wrong.addProblem(m.file, m.line, "there is no marker +%s%s", name, brief.Hint(name, names))
		return
	}
	value, err := def.Parse(text)
	if err != nil {
		r.wrong.addProblem(m.file, m.line, "%s: %s", text, err)
		return
	}
	apply, ok := value.(schemaMarker)
	if !ok || strings.HasPrefix(def.Name, crdmarkers.ValidationItemsPrefix) {
		r.wrong.addProblem(m.file, m.line, "%s says nothing of the schema of a value, so that it cannot hold in some channels only", text)
		return
	}
	m.apply = apply
}

// addMark gives a mark its number.
func (r *goReader) addMark(pkg *loader.Package, pos token.Pos, m mark) int {
	at := pkg.Fset.Position(pos)
	m.file, m.line = r.relativePath(at.Filename), at.Line
	r.api.marks = append(r.api.marks, m)
	return len(r.api.marks) - 1
}

// tagConstants turns markers of constants into tags of their type: the value of the constant is gated wherever the type is used.
func (r *goReader) tagConstants(pkg *loader.Package, file *ast.File, comments []comment) {
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			vs, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			doc := vs.Doc
			if doc == nil && !g.Lparen.IsValid() {
				doc = g.Doc
			}
			for i := range comments {
				if c := &comments[i]; doc != nil && doc.Pos() <= c.pos && c.pos < doc.End() {
					c.claimed = true
					r.tagConstant(pkg, vs, c)
				}
			}
		}
	}
}

// tagConstant adds the tags of one constant declaration to the types of its constants. For a constant of a
// basic type, or of a type of another package, nobody knows which fields take its value, so that is an error.
func (r *goReader) tagConstant(pkg *loader.Package, vs *ast.ValueSpec, c *comment) {
	at := pkg.Fset.Position(c.pos)
	file := r.relativePath(at.Filename)
	def := r.registry.Lookup(c.text, markers.DescribesType)
	if def == nil || def.Name != markFeature {
		r.reportUnknown(pkg, c)
		return
	}
	gate, err := def.Parse(c.text)
	if err != nil {
		r.wrong.addProblem(file, at.Line, "%s: %s", c.text, err)
		return
	}
	pkg.NeedTypesInfo()
	for _, name := range vs.Names {
		k, ok := pkg.TypesInfo.Defs[name].(*types.Const)
		if !ok {
			continue
		}
		named, ok := k.Type().(*types.Named)
		var info *markers.TypeInfo
		if ok && named.Obj().Pkg() == pkg.Types {
			info = r.parser.Types[crd.TypeIdent{Package: pkg, Name: named.Obj().Name()}]
		}
		if info == nil {
			r.wrong.addProblem(file, at.Line, "%s is of type %s: only constants of a type of this package are values of a field; use +%s at the field", name.Name, k.Type(), markValues)
			continue
		}
		value := k.Val().ExactString()
		if k.Val().Kind() == constant.String {
			value = constant.StringVal(k.Val())
		}
		m := newMark(markFeature, gate)
		m.values = []string{value}
		if info.Markers == nil {
			info.Markers = markers.MarkerValues{}
		}
		info.Markers[tagsKey] = append(info.Markers[tagsKey], tag(r.addMark(pkg, c.pos, m)))
	}
}

// readUnclaimed handles a marker that no type, field or constant has: it belongs to the package, or is misplaced.
func (r *goReader) readUnclaimed(pkg *loader.Package, file *ast.File, c *comment) {
	if c.claimed {
		return
	}
	at := pkg.Fset.Position(c.pos)
	def := r.registry.Lookup(c.text, markers.DescribesPackage)
	if c.pos < file.Package && def != nil && def.Name == markFeature {
		gate, err := def.Parse(c.text)
		if err != nil {
			r.wrong.addProblem(r.relativePath(at.Filename), at.Line, "%s: %s", c.text, err)
			return
		}
		r.versions[pkg] = append(r.versions[pkg], r.addMark(pkg, c.pos, newMark(markFeature, gate)))
		return
	}
	if r.registry.Lookup(c.text, markers.DescribesField) == nil && r.registry.Lookup(c.text, markers.DescribesType) == nil {
		r.reportUnknown(pkg, c)
		return
	}
	r.wrong.addProblem(r.relativePath(at.Filename), at.Line, "%s stands where it marks nothing: put it into the comment of a type, a field, a constant or the package", c.text)
}

// reportUnknown reports that the marker does not exist, or not at that place.
func (r *goReader) reportUnknown(pkg *loader.Package, c *comment) {
	at := pkg.Fset.Position(c.pos)
	name, _, _ := strings.Cut(strings.TrimPrefix(c.text, "+"), "=")
	known := []string{markFeature, markItems, markValues + ":name", markPattern + ":name", markBeyond + ":name", markLoosen, markEnabled + ":name", markDisabled + ":name"}
	r.wrong.addProblem(r.relativePath(at.Filename), at.Line, "there is no marker +%s here%s; the markers are %s", name, brief.Hint(name, known), "+"+strings.Join(known, ", +"))
}

// checkInlined refuses marks at inlined structs: their fields belong to the struct around them, which would be gated as a whole.
func (r *goReader) checkInlined() {
	byPath := map[string]*loader.Package{}
	for ident := range r.parser.Types {
		byPath[ident.Package.PkgPath] = ident.Package
	}
	refuse := func(values markers.MarkerValues, what string) {
		for _, t := range values[tagsKey] {
			if n, ok := t.(tag); ok && r.api.marks[n].values == nil && r.api.marks[n].loosen == nil && r.api.marks[n].marker == "" {
				m := &r.api.marks[n]
				r.wrong.addProblem(m.file, m.line, "%s is inlined: mark its fields", what)
			}
		}
	}
	for ident, info := range r.parser.Types {
		for i := range info.Fields {
			f := &info.Fields[i]
			json, _ := f.Tag.Lookup("json")
			name, options, _ := strings.Cut(json, ",")
			if name != "" || !slices.Contains(strings.Split(options, ","), "inline") && f.Name != "" {
				continue
			}
			refuse(f.Markers, "the field")
			ident.Package.NeedTypesInfo()
			t := ident.Package.TypesInfo.TypeOf(f.RawField.Type)
			if p, ok := t.(*types.Pointer); ok {
				t = p.Elem()
			}
			if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil {
				if other := r.parser.Types[crd.TypeIdent{Package: byPath[named.Obj().Pkg().Path()], Name: named.Obj().Name()}]; other != nil {
					refuse(other.Markers, fmt.Sprintf("%s, in %s,", other.Name, info.Name))
				}
			}
		}
	}
}

// makeCRDs makes the CRDs of the roots as controller-gen does, and removes the tags from them.
func (r *goReader) makeCRDs(roots []*loader.Package) {
	meta := crd.FindMetav1(roots)
	if meta == nil {
		return
	}
	for _, kind := range crd.FindKubeKinds(r.parser, meta) {
		r.parser.NeedCRDFor(kind, nil)
		made, ok := r.parser.CustomResourceDefinitions[kind]
		if !ok || kind.Group == "" {
			continue
		}
		crd.FixTopLevelMetadata(made)
		out := schema.CopyCRD(&made)
		for i := range out.Spec.Versions {
			v := &out.Spec.Versions[i]
			uses, conditions := takeTags(out, v, r.api.marks)
			r.api.uses, r.api.conditions = append(r.api.uses, uses...), append(r.api.conditions, conditions...)
			for pkg, numbers := range r.versions {
				if gv := r.parser.GroupVersions[pkg]; gv.Group == kind.Group && gv.Version == v.Name && r.parser.LookupType(pkg, kind.Kind) != nil {
					for _, n := range numbers {
						r.api.uses = append(r.api.uses, versionUse(out, v.Name, n))
					}
				}
			}
		}
		r.api.crds = append(r.api.crds, out)
	}
	slices.SortFunc(r.api.uses, compareUses)
}
