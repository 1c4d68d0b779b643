// Package jsonschema makes the files of docs/schemas, for the tests that hold them: JSON Schemas of Go types. Descriptions are the
// comments of fields, and enums the constants of a type; both are read from the sources of this module.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Object is a schema, or a part of one.
type Object = map[string]any

const module = "sluice.dev/"

// Maker makes schemas of Go types. The zero value is not usable.
// It is for one test: anything that it cannot describe ends the test, so that a file never says less than
// the type.
type Maker struct {
	t    *testing.T
	root string
	// Closed forbids properties that a type does not have.
	Closed bool
	// Special are the schemas of types that write their own JSON.
	Special map[reflect.Type]Object

	docs map[string]*doc.Package
	open []reflect.Type
}

// New returns a maker. root is the module's folder.
// Types of Kubernetes that write themselves as text are known. Others with a MarshalJSON have to be added
// to Special.
func New(t *testing.T, root string) *Maker {
	text := Object{"type": "string"}
	return &Maker{t: t, root: root, docs: map[string]*doc.Package{}, Special: map[reflect.Type]Object{
		reflect.TypeFor[metav1.Time]():       text,
		reflect.TypeFor[time.Time]():         text,
		reflect.TypeFor[metav1.Duration]():   text,
		reflect.TypeFor[json.RawMessage]():   {},
		reflect.TypeFor[metav1.ObjectMeta](): {"type": "object"},
	}}
}

// Document is the schema of a document with an apiVersion and a kind.
// The document names its version and kind by an enum of one value, which every editor understands.
func (m *Maker) Document(typ reflect.Type, title, apiVersion, kind string) Object {
	m.t.Helper()
	out := m.Of(typ)
	properties, ok := out["properties"].(Object)
	if !ok {
		m.t.Fatalf("%s is no struct", typ)
	}
	// Both are text in the Go type, and one value in the document.
	properties["apiVersion"] = Object{"type": "string", "enum": []string{apiVersion}}
	properties["kind"] = Object{"type": "string", "enum": []string{kind}}
	out["$schema"], out["title"] = "http://json-schema.org/draft-07/schema#", title
	return out
}

// Of is the schema of a type. A slice, a map or a pointer without omitempty may be null.
// Types are described in place and not by references: the documents are small, and a reader finds all at
// once.
// A type that contains itself ends the test: it would need references.
func (m *Maker) Of(typ reflect.Type) Object {
	m.t.Helper()
	if s := m.Special[typ]; s != nil {
		return s
	}
	if slices.Contains(m.open, typ) {
		m.t.Fatalf("%s contains itself", typ)
	}
	// A method MarshalJSON decides about the document, and reflection does not see how.
	for _, t := range []reflect.Type{typ, reflect.PointerTo(typ)} {
		if typ.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[json.Marshaler]()) && !hasPromotedMethod(typ) {
			m.t.Fatalf("%s writes its own JSON: give Special its schema", typ)
		}
	}
	m.open = append(m.open, typ)
	defer func() { m.open = m.open[:len(m.open)-1] }()
	switch typ.Kind() { //nolint:exhaustive // documents have no others
	case reflect.Interface:
		return Object{}
	case reflect.Pointer:
		return m.Of(typ.Elem())
	case reflect.String:
		out := Object{"type": "string"}
		if values := m.enumValues(typ); len(values) > 0 {
			out["enum"] = values
		}
		return out
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return Object{"type": "integer"}
	case reflect.Float64:
		return Object{"type": "number"}
	case reflect.Slice:
		return Object{"type": "array", "items": m.Of(typ.Elem())}
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": m.Of(typ.Elem())}
	case reflect.Struct:
		properties, required := Object{}, []string{}
		m.addFields(typ, properties, &required)
		slices.Sort(required)
		out := Object{"type": "object", "properties": properties}
		if len(required) > 0 {
			out["required"] = required
		}
		if m.Closed {
			out["additionalProperties"] = false
		}
		return out
	}
	m.t.Fatalf("no schema for %s", typ)
	return nil
}

// hasPromotedMethod reports whether a struct has its method from a field in it; encoding/json would use it, and its author did not mean that.
// An embedded metav1.Time, for example, would turn the whole struct into a time.
func hasPromotedMethod(typ reflect.Type) bool {
	if typ.Kind() != reflect.Struct {
		return false
	}
	for f := range typ.Fields() {
		if f.Anonymous && f.Type.Implements(reflect.TypeFor[json.Marshaler]()) {
			return true
		}
	}
	return false
}

// addFields adds the fields of a struct as encoding/json writes them: embedded structs are spread, a tag
// renames, and without omitempty a field is always there, so it is required.
func (m *Maker) addFields(typ reflect.Type, properties Object, required *[]string) {
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		within := f.Type
		if within.Kind() == reflect.Pointer {
			within = within.Elem()
		}
		switch {
		// Its own schema says more than its fields would.
		case f.Anonymous && name == "" && m.Special[within] != nil:
			m.mergeSpecial(m.Special[within], properties, required)
			continue
		case f.Anonymous && name == "" && within.Kind() == reflect.Struct:
			m.addFields(within, properties, required)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		property := m.Of(f.Type)
		// A field without omitempty is always written, if only as null.
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if text := m.commentOf(typ, f.Name); text != "" {
			property = maps.Clone(property)
			property["description"] = text
		}
		properties[name] = property
		if !optional {
			*required = append(*required, name)
		}
	}
}

// mergeSpecial adds the properties of an embedded struct with a schema of its own.
// A struct that is embedded has its fields among those of the outer one, so its schema must have
// properties.
func (m *Maker) mergeSpecial(special, properties Object, required *[]string) {
	m.t.Helper()
	more, ok := special["properties"].(Object)
	if !ok {
		m.t.Fatalf("an embedded struct has a special schema without properties: %v", special)
	}
	maps.Copy(properties, more)
	if names, ok := special["required"].([]string); ok {
		*required = append(*required, names...)
	}
}

// typeOf is the documentation of a type of this module; nil for others.
// Packages are read once. A type without a name has no documentation.
func (m *Maker) typeOf(typ reflect.Type) *doc.Type {
	m.t.Helper()
	path := typ.PkgPath()
	if !strings.HasPrefix(path, module) || typ.Name() == "" {
		return nil
	}
	path = strings.TrimSuffix(path, "_test")
	p := m.docs[path]
	if p == nil {
		p = m.parsePackage(path)
		m.docs[path] = p
	}
	for _, t := range p.Types {
		if t.Name == typ.Name() {
			return t
		}
	}
	return nil
}

// parsePackage reads the sources of a package.
// Unexported declarations are read too, because documents are made of them as well.
func (m *Maker) parsePackage(path string) *doc.Package {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join(m.root, filepath.FromSlash(strings.TrimPrefix(path, module)), "*.go"))
	if err != nil {
		m.t.Fatal(err)
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			m.t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	p, err := doc.NewFromFiles(set, parsed, path, doc.AllDecls)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// enumValues lists the values of the constants of a type.
// The values must be literals. A type without constants has no enum, so that it takes any text.
func (m *Maker) enumValues(typ reflect.Type) (out []string) {
	t := m.typeOf(typ)
	if t == nil {
		return nil
	}
	for _, c := range t.Consts {
		for _, s := range c.Decl.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typ.Name() {
				continue
			}
			for _, v := range spec.Values {
				literal, ok := v.(*ast.BasicLit)
				if !ok {
					continue
				}
				if text, err := strconv.Unquote(literal.Value); err == nil {
					out = append(out, text)
				}
			}
		}
	}
	return out
}

// commentOf is that of a field, in one line; for a field without one, that of the field above that names it as well.
// Two fields in one declaration share a comment. So do fields of which the first has a comment that names
// the second.
func (m *Maker) commentOf(typ reflect.Type, field string) string {
	t := m.typeOf(typ)
	if t == nil {
		return ""
	}
	declared, ok := t.Decl.Specs[0].(*ast.TypeSpec)
	if !ok {
		return ""
	}
	s, ok := declared.Type.(*ast.StructType)
	if !ok {
		return ""
	}
	last := ""
	for _, f := range s.Fields.List {
		text := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
		if text != "" {
			last = text
		}
		for _, name := range f.Names {
			if name.Name != field {
				continue
			}
			if text == "" && slices.Contains(strings.FieldsFunc(last, func(r rune) bool { return r == ' ' || r == ',' || r == '.' }), field) {
				text = last
			}
			return strings.NewReplacer("[", "", "]", "").Replace(text)
		}
	}
	return ""
}

// Current writes a schema to its file with update, and compares it with the file otherwise. again is how to write it.
// The file is written only on demand, so that a change of a type shows in the diff of a commit.
func Current(t *testing.T, file string, schema Object, update bool, again string) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(now), b.String()); diff != "" {
		t.Errorf("%s is not current; write it with: %s (-file +now)\n%s", file, again, diff)
	}
}

// Read reads a schema. The function that it returns says what does not fit about a document, as encoding/json reads it.
// It is for tests that hold examples and outputs against the files in docs/schemas. The validator is that
// of Kubernetes.
func Read(file string) (func(v any) error, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var schema spec.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func(v any) error {
		return validate.NewSchemaValidator(&schema, nil, "", strfmt.Default).Validate(v).AsError()
	}, nil
}
