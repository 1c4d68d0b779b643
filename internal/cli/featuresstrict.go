package cli

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	kjson "sigs.k8s.io/json"

	"sluice.dev/internal/input"
	"sluice.dev/internal/nearest"
)

// maxStrict is how many unknown fields are told of one document.
const maxStrict = 20

// unmarshalStrict decodes an object. Fields that the type does not have are errors, all of them at once, with their lines and
// the nearest names.
func unmarshalStrict(o *input.Object, to any) error {
	strict, err := kjson.UnmarshalStrict(o.JSON, to)
	if err != nil {
		return notAs(o, err)
	}
	var errs []error
	for i, e := range strict {
		if i == maxStrict {
			errs = append(errs, fmt.Errorf("and %d more", len(strict)-i))
			break
		}
		var field kjson.FieldError
		if !errors.As(e, &field) {
			errs = append(errs, notAs(o, e))
			continue
		}
		path := field.FieldPath()
		parent, name := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			parent, name = path[:i], path[i+1:]
		}
		errs = append(errs, fmt.Errorf("%sthere is no field %q%s", placeIn(o.Positions, steps(path)...).before(), path, nearest.Hint(name, fieldsAt(reflect.TypeOf(to), parent))))
	}
	return errors.Join(errs...)
}

// fieldsAt returns the names of the fields that stand at a path such as spec.stages[0].
func fieldsAt(t reflect.Type, path string) (out []string) {
	for _, step := range steps(path) {
		t = inner(t)
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
	if t = inner(t); t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range jsonFields(t) {
		out = append(out, jsonName(&f))
	}
	return out
}

// inner takes pointers, lists and maps off a type.
func inner(t reflect.Type) reflect.Type {
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
			out = append(out, jsonFields(inner(f.Type))...)
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
