package compat

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// exampleCRD is the CRD around the fragments of examples.
const exampleCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names:
    kind: Widget
    plural: widgets
  versions:
  - name: v1
    served: true
    storage: true
`

// exampleSchema is that of versions whose schema does not matter.
const exampleSchema = `{type: object, x-kubernetes-preserve-unknown-fields: true}`

// ExampleCRD returns the CRD around a fragment of an [Example], or of its alternative: properties of the spec of its objects if inSpec is set
// (see [Rule.InSpec]), otherwise a merge patch of the spec of the CRD.
// It is nil for no fragment.
func ExampleCRD(fragment string, inSpec bool) (*apiextensionsv1.CustomResourceDefinition, error) {
	if strings.TrimSpace(fragment) == "" {
		return nil, nil
	}
	var doc, schema, part map[string]any
	for text, into := range map[string]*map[string]any{exampleCRD: &doc, exampleSchema: &schema, fragment: &part} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, fragment)
		}
	}
	spec, _ := doc["spec"].(map[string]any)
	if inSpec {
		schema = map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": part}},
		}
	} else {
		mergePatch(spec, part)
	}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if version, ok := v.(map[string]any); ok && version["schema"] == nil {
			version["schema"] = map[string]any{"openAPIV3Schema": schema}
		}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		return nil, fmt.Errorf("%w in\n%s", err, fragment)
	}
	return out, nil
}

// mergePatch is a JSON merge patch (RFC 7386) in place.
func mergePatch(into, patch map[string]any) {
	for k, v := range patch {
		sub, isPatch := v.(map[string]any)
		old, isMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isPatch && isMap:
			mergePatch(old, sub)
		default:
			into[k] = v
		}
	}
}
