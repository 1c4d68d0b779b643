package input

// Which value of an object is not what its type wants? The decoders of Kubernetes name the first wrong value
// without its place, and miss unknown fields in types that decode themselves. So the value is compared with the Go
// type here: for definitions, as the API server decodes them, and for objects of Sluice, where an unknown field is
// an error with the field that is probably meant.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"sluice.dev/internal/brief"
	"sluice.dev/report"
)

// valueError reports a value, at the end of path, that is not allowed there.
type valueError struct {
	path []string
	msg  string
}

// Error implements error.
func (e *valueError) Error() string { return e.msg }

// unknownField is the path of a field that the struct type within does not have.
type unknownField struct {
	path   []string
	within reflect.Type
}

// typed compares a value with the Go type that it is decoded into. The decoders of Kubernetes do not report the paths of two
// errors: the first value of a wrong type, and unknown fields at any depth. typed finds both. (sigs.k8s.io/json misses the latter
// in types that decode themselves, such as the schemas below items.)
type typed struct {
	unknown []unknownField
	wrong   *valueError
	// structs has the fields of the types that were met, by their names in JSON.
	structs map[reflect.Type]map[string]reflect.Type
	// ownNulls reports null as an item of a list or a value of a map below the types of this module. Decoders make an empty value of it, which means
	// something else. The types of Kubernetes are left out, because the API server makes an empty value of null there.
	ownNulls bool
}

// the types that decode themselves, and the values that they take (marshal.go of k8s.io/apiextensions-apiserver/pkg/apis/
// apiextensions/v1).
var (
	anyJSON      = reflect.TypeFor[apiextensionsv1.JSON]()
	schemaType   = reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	schemaOrBool = reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]()
	schemaOrList = reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]()
	schemaOrText = reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray]()
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
)

// ownPackages begins the paths of the packages of this module.
const ownPackages = "sluice.dev/"

// walkValue compares a value with a type, and notes the first wrong value and all unknown fields below it. A null
// is right everywhere, unless ownNulls is set. Types that decode themselves are asked with the value alone.
func (w *typed) walkValue(path []string, v any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v == nil || w.wrong != nil {
		return
	}
	object, isObject := v.(map[string]any)
	items, isList := v.([]any)
	_, isBool := v.(bool)
	switch {
	case t == anyJSON, t.Kind() == reflect.Interface:
	case slices.Contains([]reflect.Type{schemaOrBool, schemaOrList, schemaOrText}, t):
		w.schemaOr(path, v, t)
	case reflect.PointerTo(t).Implements(unmarshaler):
		b, err := json.Marshal(v)
		ok := err == nil && json.Unmarshal(b, reflect.New(t).Interface()) == nil
		w.noteUnless(ok, path, "a "+strings.ToLower(t.Name()), v)
	case t.Kind() == reflect.Struct:
		if w.noteUnless(isObject, path, wordsForType(t), v) {
			w.walkStruct(path, object, t)
		}
	case t.Kind() == reflect.Map:
		if w.noteUnless(isObject, path, wordsForType(t), v) {
			for _, key := range slices.Sorted(maps.Keys(object)) {
				w.walkElement(pathStep(path, key), object[key], t.Elem())
			}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		_, isText := v.(string)
		w.noteUnless(isText, path, "a string in base64", v)
	case t.Kind() == reflect.Slice:
		if w.noteUnless(isList, path, wordsForType(t), v) {
			w.walkItems(path, items, t.Elem())
		}
	case t.Kind() == reflect.String:
		w.checkText(path, v)
	case t.Kind() == reflect.Bool:
		w.noteUnless(isBool, path, wordsForType(t), v)
	default:
		w.checkNumber(path, v, t)
	}
}

// schemaOr walks a value that is a schema or something else.
func (w *typed) schemaOr(path []string, v any, t reflect.Type) {
	switch x := v.(type) {
	case map[string]any:
		w.walkFields(path, x, schemaType)
		return
	case []any:
		switch t {
		case schemaOrList:
			w.walkItems(path, x, schemaType)
		case schemaOrText:
			w.walkItems(path, x, reflect.TypeFor[string]())
		}
	}
	if t == schemaOrBool { // of the others, upstream takes what else there is for nothing
		_, isBool := v.(bool)
		w.noteUnless(isBool, path, "a boolean or an object (a schema)", v)
	}
}

// walkStruct walks the fields of a struct, unless only types of this module count.
func (w *typed) walkStruct(path []string, object map[string]any, t reflect.Type) {
	if !w.ownNulls || t.PkgPath() == "" || strings.HasPrefix(t.PkgPath(), ownPackages) {
		w.walkFields(path, object, t)
	}
}

// walkFields compares the fields of an object with those of a struct type, in the order of their names.
func (w *typed) walkFields(path []string, object map[string]any, t reflect.Type) {
	fields, ok := w.structs[t]
	if !ok {
		fields = map[string]reflect.Type{}
		for _, f := range jsonFields(t) {
			fields[jsonName(&f)] = f.Type
		}
		w.structs[t] = fields
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if f, ok := fields[key]; ok {
			w.walkValue(pathStep(path, key), object[key], f)
		} else {
			w.unknown = append(w.unknown, unknownField{slices.Clone(pathStep(path, key)), t})
		}
	}
}

// walkItems compares the items of a list with a type.
func (w *typed) walkItems(path []string, items []any, t reflect.Type) {
	for i, v := range items {
		w.walkElement(pathStep(path, strconv.Itoa(i)), v, t)
	}
}

// walkElement walks an item of a list or a value of a map.
func (w *typed) walkElement(path []string, v any, t reflect.Type) {
	if v == nil && w.ownNulls && t != anyJSON && t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		if t.Kind() == reflect.String {
			w.checkText(path, v)
		}
		w.noteUnless(false, path, wordsForType(t), v)
	}
	w.walkValue(path, v, t)
}

// checkText notes a value that is no string. A number or a boolean gets the advice to put it in quotes, since YAML
// reads 1.0 and on as such.
func (w *typed) checkText(path []string, v any) {
	switch v.(type) {
	case string:
	case map[string]any, []any:
		w.noteUnless(false, path, "a string", v)
	default:
		if w.wrong == nil {
			w.noteUnless(false, path, "a string", v)
			w.wrong.msg += ": put it in quotes"
		}
	}
}

// checkNumber notes a value that is no number, or none that the type can hold.
func (w *typed) checkNumber(path []string, v any, t reflect.Type) {
	text, err := json.Marshal(v)
	isNumber := err == nil && strings.Trim(string(text[:1]), "-0123456789") == ""
	if !w.noteUnless(isNumber, path, wordsForType(t), v) {
		return
	}
	want := wordsForType(t) + " that fits in " + strconv.Itoa(t.Bits()) + " bits"
	w.noteUnless(json.Unmarshal(text, reflect.New(t).Interface()) == nil, path, want, v)
}

// noteUnless notes, unless ok, that the value at path is not what is wanted.
func (w *typed) noteUnless(ok bool, path []string, want string, v any) bool {
	if !ok && w.wrong == nil {
		w.wrong = &valueError{slices.Clone(path), fmt.Sprintf("%s must be %s, not %s", pathText(path), want, kindOf(v))}
	}
	return ok
}

// wordsForType names the JSON value that the Go type holds.
func wordsForType(t reflect.Type) string {
	switch {
	case t == schemaType:
		return "an object (a schema)"
	case t == reflect.TypeFor[apiextensionsv1.ValidationRule]():
		return "an object (a validation rule)"
	}
	switch t.Kind() { //nolint:exhaustive // no other kind is in the API
	case reflect.Pointer:
		return wordsForType(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float64, reflect.Float32:
		return "a number"
	}
	return "an integer"
}

// kindOf names the kind of a value, with its article.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		b, _ := json.Marshal(v) // a number always marshals
		return "the number " + string(b)
	}
}

// pathStep returns path with one more step. The next step from path may overwrite it, so a caller that keeps it must copy it.
func pathStep(path []string, key string) []string { return append(path, key) }

// pathText writes a path for people: spec.versions[0].schema. Keys that are no plain words are quoted.
func pathText(path []string) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s != "" && strings.Trim(s, "0123456789") == "":
			b.WriteString("[" + s + "]")
		case s != "" && strings.IndexFunc(s, isSpecialRune) < 0:
			b.WriteString("." + s)
		default:
			b.WriteString("[" + strconv.Quote(s) + "]")
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// isSpecialRune reports whether a key with this letter has to be quoted in a path.
func isSpecialRune(r rune) bool {
	return r != '-' && r != '_' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

const (
	crdKind    = "CustomResourceDefinition"
	crdGroup   = "apiextensions.k8s.io/"
	crdVersion = crdGroup + "v1"
)

// decodeCRD decodes a definition as the API server does: its JSON through sigs.k8s.io/json. unknown are the fields
// that it does not have. Its errors are of type *valueError, with paths below the object. The definition has a
// name, and its version and kind are filled in.
func decodeCRD(object map[string]any) (crd *apiextensionsv1.CustomResourceDefinition, unknown []unknownField, err error) {
	if err := checkVersion(object); err != nil {
		return nil, nil, err
	}
	w := typed{structs: map[reflect.Type]map[string]reflect.Type{}}
	w.walkValue(nil, object, reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]())
	if w.wrong != nil {
		return nil, nil, w.wrong
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, nil, &valueError{msg: err.Error()}
	}
	crd = &apiextensionsv1.CustomResourceDefinition{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, crd); err != nil {
		return nil, nil, &valueError{msg: strings.TrimPrefix(err.Error(), "json: ")}
	}
	if crd.Name == "" {
		return nil, nil, &valueError{msg: "CustomResourceDefinition without metadata.name"}
	}
	crd.APIVersion, crd.Kind = crdVersion, crdKind
	return crd, w.unknown, nil
}

// checkVersion refuses definitions of another API version. Items of a CustomResourceDefinitionList may have none.
func checkVersion(object map[string]any) error {
	version, _ := object["apiVersion"].(string)
	if version == crdVersion || version == "" && object["kind"] == nil {
		return nil
	}
	name := "a definition without a name"
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if s, ok := metadata["name"].(string); ok && s != "" {
			name = s
		}
	}
	at := []string{"apiVersion"}
	switch {
	case object["apiVersion"] == nil:
		return &valueError{nil, fmt.Sprintf("CustomResourceDefinition %s has no apiVersion; it must be %s", name, crdVersion)}
	case version == crdGroup+"v1beta1":
		return &valueError{at, fmt.Sprintf("CustomResourceDefinition %s is of %s, which Kubernetes does not serve since 1.22; convert it to %s",
			name, version, crdVersion)}
	}
	return &valueError{at, fmt.Sprintf("CustomResourceDefinition %s has apiVersion %q; it must be %s", name, version, crdVersion)}
}

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
	t := reflect.TypeOf(to)
	unknown, err := o.compareWith(t, false)
	if err != nil {
		return err
	}
	if _, err := o.compareWith(t, true); err != nil { // a null would be decoded as an empty value
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, to); err != nil {
		return o.Wrong(err)
	}
	var errs []error
	for i, u := range unknown {
		if i == maxStrict {
			errs = append(errs, fmt.Errorf("and %d more", len(unknown)-i))
			break
		}
		var known []string
		for _, f := range jsonFields(u.within) {
			known = append(known, jsonName(&f))
		}
		meant := brief.Hint(u.path[len(u.path)-1], known)
		if meant == "" && 0 < len(known) && len(known) <= maxNamed {
			slices.Sort(known)
			meant = "; the fields are " + strings.Join(known, ", ")
		}
		errs = append(errs, o.WrongAt(fmt.Sprintf("there is no field %q%s", pathText(u.path), meant), u.path...))
	}
	return errors.Join(errs...)
}

// compareWith compares the object with a Go type. It returns the fields that the type does not have, and the first value that it cannot hold as an
// error, with its place. YAML reads true, Off and 1 as no texts, so that is what people write first. With ownNulls, it looks for nulls instead,
// see [typed].
func (o *Object) compareWith(t reflect.Type, ownNulls bool) ([]unknownField, error) {
	var value any
	if err := utiljson.Unmarshal(o.JSON, &value); err != nil {
		return nil, o.Wrong(err)
	}
	w := typed{ownNulls: ownNulls, structs: map[reflect.Type]map[string]reflect.Type{}}
	if w.walkValue(nil, value, t); w.wrong != nil {
		return nil, o.WrongAt(w.wrong.msg, w.wrong.path...)
	}
	return w.unknown, nil
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

// jsonName is the name of a field in JSON; empty for an embedded struct whose fields are those of the outer one.
func jsonName(f *reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
