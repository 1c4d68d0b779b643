package life

// How do Go programs get the features? As constants, so that a wrong name does not compile, and as a
// declaration for package feature/gate. Only what differs from the zero value is written.

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/api/v1alpha1"
	"sluice.dev/feature"
)

// notInIdentifiers are characters that the name of a package cannot have.
var notInIdentifiers = regexp.MustCompile(`[^\p{L}\p{Nd}_]`)

// ownNames are the names that the generated code declares besides the gates.
var ownNames = []string{"Release", "Declaration"}

// goCode writes the constants of the features and their declaration for package feature/gate.
func (p *Project) goCode() ([]byte, error) {
	name, err := p.goPackage()
	if err != nil {
		return nil, err
	}
	d := &p.Declaration
	defaults := p.Model.Defaults()
	names := slices.Clone(ownNames)
	var features []map[string]string
	for i := range d.Features {
		gate := d.Features[i].Gate
		if slices.Contains(ownNames, gate) {
			return nil, p.File.problemAt(fmt.Sprintf("features[%d].gate", i), "%s is what the generated Go code declares itself: choose another name", gate)
		}
		names = append(names, gate)
		features = append(features, map[string]string{"Gate": gate, "Comment": p.commentOf(&d.Features[i], defaults)})
	}
	if err := p.checkNamesBeside(names); err != nil {
		return nil, err
	}
	body, err := goLiteralOf(reflect.ValueOf(*d))
	if err != nil {
		return nil, err
	}
	code, err := fillBuiltIn("code.go.tmpl", map[string]any{
		"Header": p.generatedHeader(), "Package": name, "Component": p.File.Component, "Release": p.File.Spec.Release, "Features": features, "Body": body,
		"Types": features != nil || !reflect.ValueOf(d.Spec).IsZero(),
	})
	if err != nil {
		return nil, err
	}
	return format.Source(code)
}

// commentOf is the comment of the constant of a feature.
func (p *Project) commentOf(f *v1alpha1.FeatureSpec, defaults *feature.States) string {
	comment := f.Gate
	if f.Description != "" {
		comment += ": " + commentText(f.Description)
	}
	if x := p.Model.Feature(f.Gate); x != nil {
		comment += "\n\n" + sentenceCase(stageText(x, defaults)) + "."
	}
	return strings.ReplaceAll(comment, "\n", "\n\t// ")
}

// goPackage is the name of the package of output.go: that of the other files of its folder, or else that of the folder, without
// characters that Go does not allow.
func (p *Project) goPackage() (string, error) {
	abs, err := filepath.Abs(p.File.resolvePath(p.File.Output.Go))
	if err != nil {
		return "", err
	}
	if beside := p.goFilesBeside(abs); len(beside) > 0 {
		return beside[0].code.Name.Name, nil
	}
	folder := filepath.Base(filepath.Dir(abs))
	name := notInIdentifiers.ReplaceAllString(strings.ToLower(folder), "")
	if !token.IsIdentifier(name) || name == "_" {
		return "", p.File.problemAt("output.go", "the folder of output.go gives the Go package its name, and %q gives none: choose a folder such as internal/features", folder)
	}
	return name, nil
}

// goFile is a parsed Go file.
type goFile struct {
	name string
	code *ast.File
}

// goFilesBeside parses the Go files beside one: those that the go command builds here, without tests. A file that cannot be parsed is
// left out: the compiler names it.
func (p *Project) goFilesBeside(output string) []goFile {
	dir := filepath.Dir(output)
	entries, _ := os.ReadDir(dir) // a folder that is not there yet has no files
	var out []goFile
	for _, e := range entries {
		name := e.Name()
		if name == filepath.Base(output) || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if built, err := build.Default.MatchFile(dir, name); err != nil || !built {
			continue
		}
		if f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution); err == nil {
			out = append(out, goFile{name, f})
		}
	}
	return out
}

// checkNamesBeside returns an error if a Go file beside the output declares one of the names of the generated code.
func (p *Project) checkNamesBeside(names []string) error {
	abs, err := filepath.Abs(p.File.resolvePath(p.File.Output.Go))
	if err != nil {
		return err
	}
	for _, f := range p.goFilesBeside(abs) {
		for _, d := range f.code.Decls {
			for _, id := range declaredNames(d) {
				if slices.Contains(names, id) {
					return p.File.problemAt("output.go", "%s in the folder of output.go declares %s already, and so does the generated code: delete that file if it was generated, or choose another folder", f.name, id)
				}
			}
		}
	}
	return nil
}

// declaredNames are the names that a declaration gives to its package.
func declaredNames(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var out []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					out = append(out, n.Name)
				}
			}
		}
		return out
	}
	return nil
}

var (
	// notInComments takes out what Go does not allow in a comment.
	notInComments = strings.NewReplacer("\x00", "", "\ufeff", "", "\r", "")
	// likeDirective matches the beginning of a line that could be a build constraint or a marker.
	likeDirective = regexp.MustCompile(`\s*\n\s*\+`)
)

// commentText is a text for a comment: no line of it means anything to the go command or to a reader of markers.
func commentText(text string) string {
	return likeDirective.ReplaceAllString(strings.TrimSpace(notInComments.Replace(text)), " +")
}

// goLiteralOf writes a value of the types of a declaration as Go code, without empty fields.
func goLiteralOf(v reflect.Value) (string, error) {
	switch v.Kind() { //nolint:exhaustive // definitions hold no others, which a test would tell
	case reflect.String:
		return strconv.Quote(v.String()), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Pointer:
		text, err := goLiteralOf(v.Elem())
		switch v.Type() {
		case reflect.TypeFor[*bool](), reflect.TypeFor[*string]():
			return "new(" + text + ")", err
		}
		if v.Elem().Kind() == reflect.Struct {
			return "&" + text, err
		}
		return fmt.Sprintf("new(%s(%s))", v.Type().Elem(), text), err
	case reflect.Slice:
		return sliceLiteral(v)
	case reflect.Struct:
		return structLiteral(v)
	}
	return "", fmt.Errorf("values of the type %s cannot be written as Go code", v.Type())
}

// sliceLiteral writes a slice. Structs in it get a line each, without their type, as gofmt -s has them.
func sliceLiteral(v reflect.Value) (string, error) {
	item := v.Type().Elem()
	before, between, after := "", ", ", ""
	if item.Kind() == reflect.Struct && v.Len() > 0 {
		before, between, after = "\n", ",\n", ",\n"
	}
	items := make([]string, v.Len())
	for i := range items {
		text, err := goLiteralOf(v.Index(i))
		if err != nil {
			return "", err
		}
		items[i] = strings.TrimPrefix(text, item.String()+"{")
		if items[i] != text {
			items[i] = "{" + items[i]
		}
	}
	return v.Type().String() + "{" + before + strings.Join(items, between) + after + "}", nil
}

// structLiteral writes a struct without its empty and unexported fields: in one line if they are few and
// short.
func structLiteral(v reflect.Value) (string, error) {
	var fields []string
	multi := false
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() || !v.Type().Field(i).IsExported() {
			continue
		}
		text, err := goLiteralOf(f)
		if err != nil {
			return "", fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
		}
		text = v.Type().Field(i).Name + ": " + text
		multi = multi || strings.Contains(text, "\n") || len(text) > 60
		fields = append(fields, text)
	}
	if multi || len(fields) > 6 {
		return v.Type().String() + "{\n" + strings.Join(fields, ",\n") + ",\n}", nil
	}
	return v.Type().String() + "{" + strings.Join(fields, ", ") + "}", nil
}
