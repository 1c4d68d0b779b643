package input

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// maxStrict bounds the unknown fields that are reported for one document.
const maxStrict = 20

// maxNamed is the number of fields up to which an error names all.
const maxNamed = 8

// Strict decodes the object into a Go value. It returns all fields that the type does not have as errors, with their lines and the
// nearest names. A key that occurs twice is an error, too.
func (o *Object) Strict(to any) error {
	if o.Twice != nil {
		return o.Twice
	}
	strict, err := kjson.UnmarshalStrict(o.JSON, to)
	if err != nil {
		return o.wrongType(reflect.TypeOf(to), err)
	}
	// A null would be decoded as an empty value.
	if err := o.wrongValue(&typed{ownNulls: true}, reflect.TypeOf(to)); err != nil {
		return err
	}
	var errs []error
	for i, e := range strict {
		if i == maxStrict {
			errs = append(errs, fmt.Errorf("and %d more", len(strict)-i))
			break
		}
		var field kjson.FieldError
		if !errors.As(e, &field) {
			errs = append(errs, o.Wrong(e))
			continue
		}
		path := field.FieldPath()
		parent, name := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			parent, name = path[:i], path[i+1:]
		}
		known := fieldsAt(reflect.TypeOf(to), parent)
		meant := brief.Hint(name, known)
		if meant == "" && 0 < len(known) && len(known) <= maxNamed {
			slices.Sort(known)
			meant = "; the fields are " + strings.Join(known, ", ")
		}
		errs = append(errs, o.WrongAt(fmt.Sprintf("there is no field %q%s", path, meant), Steps(path)...))
	}
	return errors.Join(errs...)
}

// wrongType says where a value has another type than the Go value wants. YAML reads true, Off and 1 as no texts, so that is what people write
// first. Where the place is not found, it is that of the object.
func (o *Object) wrongType(t reflect.Type, err error) error {
	if wrong := o.wrongValue(&typed{}, t); wrong != nil {
		return wrong
	}
	return o.Wrong(err)
}

// wrongValue is the first error that w finds, at its place; nil if there is none.
func (o *Object) wrongValue(w *typed, t reflect.Type) error {
	var value any
	if err := utiljson.Unmarshal(o.JSON, &value); err != nil {
		return o.Wrong(err)
	}
	w.structs = map[reflect.Type]map[string]reflect.Type{}
	w.walkValue(nil, value, t)
	if w.wrong == nil {
		return nil
	}
	return o.WrongAt(w.wrong.msg, w.wrong.path...)
}

// PlaceOf is the place of a part of the object, for people: see [Positions.Find].
func (o *Object) PlaceOf(path ...string) report.Position {
	at, _ := o.Positions.Find(path...)
	at.File = forPeople(at.File)
	return at
}

// WrongAt says what is wrong with a part of an object.
func (o *Object) WrongAt(msg string, path ...string) error {
	return &Error{Position: o.PlaceOf(path...), Msg: msg}
}

// Wrong says that an object is not as its kind wants it.
func (o *Object) Wrong(err error) error {
	return fmt.Errorf("%s:%d: %w", forPeople(o.File), o.Line, err)
}

// forPeople is the name of a source for people.
func forPeople(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// Steps takes the path of a field apart for [Positions.Find]: spec.parts[0].field is spec, parts, 0, field.
func Steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// fieldsAt returns the names of the fields that stand at a path such as spec.stages[0].
func fieldsAt(t reflect.Type, path string) (out []string) {
	for _, step := range Steps(path) {
		t = elementType(t)
		if t.Kind() != reflect.Struct || strings.Trim(step, "0123456789") == "" {
			continue
		}
		found := false
		for _, f := range jsonFields(t) {
			if jsonName(&f) == step {
				t, found = f.Type, true
				break
			}
		}
		if !found {
			return nil
		}
	}
	if t = elementType(t); t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range jsonFields(t) {
		out = append(out, jsonName(&f))
	}
	return out
}

// elementType takes pointers, lists and maps off a type.
func elementType(t reflect.Type) reflect.Type {
	for {
		switch t.Kind() { //nolint:exhaustive // the others hold nothing
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			t = t.Elem()
		default:
			return t
		}
	}
}

// jsonFields returns the fields of a struct, those of embedded ones among them.
func jsonFields(t reflect.Type) (out []reflect.StructField) {
	for f := range t.Fields() {
		switch {
		case f.Anonymous && jsonName(&f) == "":
			out = append(out, jsonFields(elementType(f.Type))...)
		case f.IsExported() && jsonName(&f) != "-":
			out = append(out, f)
		}
	}
	return out
}

func jsonName(f *reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
