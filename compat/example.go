package compat

import (
	"encoding/json"
	"fmt"
	"strings"

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

// CRDs returns the whole CRDs of one of the rule's examples; one of them is nil if the example has it so.
func (r *Rule) CRDs(e Example) (old, new *crd, err error) {
	if old, err = r.crd(e.Old); err != nil {
		return nil, nil, err
	}
	new, err = r.crd(e.New)
	return old, new, err
}

func (r *Rule) crd(fragment string) (*crd, error) {
	if strings.TrimSpace(fragment) == "" {
		return nil, nil
	}
	var doc, schema, part map[string]any
	for text, into := range map[string]*map[string]any{exampleCRD: &doc, exampleSchema: &schema, fragment: &part} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			return nil, fmt.Errorf("example of rule %s: %w", r.ID, err)
		}
	}
	spec, _ := doc["spec"].(map[string]any)
	if r.InSpec() {
		schema = map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": part}},
		}
	} else {
		merge(spec, part)
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
	out := &crd{}
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		return nil, fmt.Errorf("example of rule %s: %w", r.ID, err)
	}
	return out, nil
}

// merge is a JSON merge patch (RFC 7386) in place.
func merge(into, patch map[string]any) {
	for k, v := range patch {
		sub, isPatch := v.(map[string]any)
		old, isMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isPatch && isMap:
			merge(old, sub)
		default:
			into[k] = v
		}
	}
}
