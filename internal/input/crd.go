package input

import (
	"encoding/json"
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

// decodeCRD decodes a definition as the API server does: its JSON through sigs.k8s.io/json. unknown are the paths of the
// fields that it does not have. Its errors are of type *valueError, with paths below the object.
func decodeCRD(object map[string]any) (crd *apiextensionsv1.CustomResourceDefinition, unknown [][]string, err error) {
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
