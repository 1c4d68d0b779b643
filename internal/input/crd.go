package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
)

const (
	crdKind    = "CustomResourceDefinition"
	crdGroup   = "apiextensions.k8s.io/"
	crdVersion = crdGroup + "v1"
)

// valueError says that a node has a value that it must not have.
type valueError struct {
	node int32
	msg  string
}

// Error implements error.
func (e *valueError) Error() string { return e.msg }

// decoded is a definition and what there is to warn about.
type decoded struct {
	crd      *apiextensionsv1.CustomResourceDefinition
	warnings []valueError
}

// decodeCRD decodes the object root of t. The schemas, which are nearly all of it, are mapped by hand; the rest takes
// the way of the API server: as JSON through sigs.k8s.io/json, with unknown fields told. Its errors are of type
// *valueError.
func decodeCRD(t *tree, root int32) (*decoded, error) {
	if err := checkVersion(t, root); err != nil {
		return nil, err
	}
	out := &decoded{crd: &apiextensionsv1.CustomResourceDefinition{}}
	r := renderer{t: t, skip: func(n int32) bool { return isSchema(t, root, n) }}
	r.value(root)
	unknown, err := kjson.UnmarshalStrict(r.out, out.crd)
	if err != nil {
		return nil, typeError(t, root, err)
	}
	for _, err := range unknown {
		out.unknown(t, root, err)
	}
	m := schemaMapper{t: t}
	i := 0
	if versions := t.find(root, "spec", "versions"); versions != none {
		for v := t.nodes[versions].first; v != none && m.want == ""; v = t.nodes[v].next {
			if n := t.find(v, "schema", "openAPIV3Schema"); n != none && t.nodes[n].kind == kindMap {
				s := &apiextensionsv1.JSONSchemaProps{}
				m.schema(n, s)
				out.crd.Spec.Versions[i].Schema.OpenAPIV3Schema = s
			}
			i++
		}
	}
	if err := m.err(root); err != nil {
		return nil, err
	}
	for _, n := range m.unknown {
		out.warn(n, t.path(root, n))
	}
	if out.crd.Name == "" {
		return nil, &valueError{root, "CustomResourceDefinition without metadata.name"}
	}
	out.crd.APIVersion, out.crd.Kind = crdVersion, crdKind
	return out, nil
}

// checkVersion refuses definitions of another API version. Items of a CustomResourceDefinitionList may have none.
func checkVersion(t *tree, root int32) error {
	version := t.text(t.child(root, "apiVersion"))
	if version == crdVersion || version == "" && t.child(root, "kind") == none {
		return nil
	}
	name := t.text(t.find(root, "metadata", "name"))
	if name == "" {
		name = "a definition without a name"
	}
	at := t.child(root, "apiVersion")
	switch {
	case at == none:
		return &valueError{root, fmt.Sprintf("CustomResourceDefinition %s has no apiVersion; it must be %s", name, crdVersion)}
	case version == crdGroup+"v1beta1":
		return &valueError{at, fmt.Sprintf("CustomResourceDefinition %s is of %s, which Kubernetes does not serve since 1.22; convert it to %s",
			name, version, crdVersion)}
	}
	return &valueError{at, fmt.Sprintf("CustomResourceDefinition %s has apiVersion %q; it must be %s", name, version, crdVersion)}
}

// isSchema is true for the object spec.versions[*].schema.openAPIV3Schema.
func isSchema(t *tree, root, n int32) bool {
	if t.nodes[n].kind != kindMap || t.nodes[n].key != "openAPIV3Schema" {
		return false
	}
	for _, key := range []string{"schema", "", "versions", "spec"} {
		n = t.nodes[n].parent
		if n == none || t.nodes[n].key != key {
			return false
		}
	}
	return t.nodes[n].parent == root
}

func (d *decoded) warn(n int32, path string) {
	d.warnings = append(d.warnings, valueError{n, fmt.Sprintf("unknown field %s is ignored", path)})
}

// unknown adds what sigs.k8s.io/json said about an unknown field.
func (d *decoded) unknown(t *tree, root int32, err error) {
	var field kjson.FieldError
	if !errors.As(err, &field) {
		d.warnings = append(d.warnings, valueError{root, err.Error()})
		return
	}
	n, left := root, field.FieldPath()
	for left != "" {
		next := none
		if t.nodes[n].kind == kindList {
			var i int
			if _, err := fmt.Sscanf(left, "[%d]", &i); err == nil {
				next = t.item(n, i)
			}
			_, left, _ = strings.Cut(left, "]")
		} else {
			left = strings.TrimPrefix(left, ".")
			for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
				rest, ok := strings.CutPrefix(left, t.nodes[c].key)
				if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
					next, left = c, rest
					break
				}
			}
		}
		if next == none {
			break
		}
		n = next
	}
	d.warn(n, field.FieldPath())
}

// typeError turns an error of sigs.k8s.io/json into one that knows its node. For that it asks encoding/json, whose error
// says at which offset the value of the wrong type stands, and writes the JSON again with the offset of each node.
func typeError(t *tree, root int32, err error) error {
	var spans []span
	r := renderer{t: t, skip: func(n int32) bool { return isSchema(t, root, n) }, spans: &spans}
	r.value(root)
	var wrong *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(r.out, &apiextensionsv1.CustomResourceDefinition{}), &wrong) {
		return &valueError{root, strings.TrimPrefix(err.Error(), "json: ")}
	}
	n := root
	for _, s := range spans {
		if s.start < int(wrong.Offset) && int(wrong.Offset) <= s.end {
			n = s.node
		}
	}
	m := schemaMapper{t: t}
	m.fail(n, typeWords(wrong.Type))
	return m.err(root)
}

// typeWords says which JSON value the Go type holds.
func typeWords(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // no other kind is in the API
	case reflect.Pointer:
		return typeWords(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "an integer"
}
