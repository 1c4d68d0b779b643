package compat

// What does the change look like that a rule reports? Each rule has an example, which documentation shows and
// tests run. This file makes CRDs of the fragments that an example has, and writes the fragments. For example,
// oneField("title", "type: string") is the property title of a spec.

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

// freeSchema is that of versions whose schema does not matter.
const freeSchema = `{type: object, x-kubernetes-preserve-unknown-fields: true}`

// ExampleCRD returns the CRD around a fragment of an [Example], or of its alternative: properties of the spec of its objects if inSpec is set
// (see [Rule.InSpec]), otherwise a merge patch of the spec of the CRD.
// It is nil for no fragment.
func ExampleCRD(fragment string, inSpec bool) (*apiextensionsv1.CustomResourceDefinition, error) {
	if strings.TrimSpace(fragment) == "" {
		return nil, nil
	}
	var doc, schema, part map[string]any
	for text, into := range map[string]*map[string]any{exampleCRD: &doc, freeSchema: &schema, fragment: &part} {
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

// Examples of rules about versions are alike but for a few words. The functions below write the YAML around these words.

// exampleVersions is the list of versions in the spec of a CRD.
func exampleVersions(versions ...string) string { return "\nversions:\n" + strings.Join(versions, "") }

// storedVersion is a version that is served and stores the objects, with more fragments of YAML such as its schema.
func storedVersion(name string, more ...string) string {
	return exampleVersion(name, append([]string{"served: true", "storage: true"}, more...))
}

// servedVersion is a version that is served, while another one stores the objects.
func servedVersion(name string, more ...string) string {
	return exampleVersion(name, append([]string{"served: true", "storage: false"}, more...))
}

// unservedVersion is a version that only stands in the CRD.
func unservedVersion(name string) string {
	return exampleVersion(name, []string{"served: false", "storage: false"})
}

func exampleVersion(name string, fragments []string) string {
	return "- name: " + name + "\n" + indentLines(fragments)
}

// exampleSchema is the schema of a version, an object with these fields.
func exampleSchema(fields ...string) string {
	return exampleField("schema", exampleObject("openAPIV3Schema", fields...))
}

// exampleObject is a field of type object with these fields.
func exampleObject(name string, fields ...string) string {
	return exampleField(name, "type: object", exampleField("properties", fields...))
}

// exampleField is a key with fragments of YAML below it.
func exampleField(name string, fragments ...string) string {
	return name + ":\n" + strings.TrimSuffix(indentLines(fragments), "\n")
}

// indentLines moves fragments two columns to the right, each on lines of its own.
func indentLines(fragments []string) string {
	return "  " + strings.ReplaceAll(strings.Join(fragments, "\n"), "\n", "\n  ") + "\n"
}

// specSchema is the schema of a version whose objects have a spec with these fields.
func specSchema(fields ...string) string { return exampleSchema(exampleObject("spec", fields...)) }

// webhookConversion names a conversion webhook in the spec of a CRD.
const webhookConversion = `
conversion:
  strategy: Webhook
  webhook:
    conversionReviewVersions: [v1]
    clientConfig:
      service: {name: widget-webhook, namespace: widgets}`

// scaleSubresource is a scale subresource with a path to the number of replicas that is asked for.
func scaleSubresource(specReplicasPath string) string {
	return exampleField("subresources", exampleField("scale", "specReplicasPath: "+specReplicasPath, "statusReplicasPath: .status.replicas"))
}

// oneField is the whole of an example about one field.
func oneField(name string, fragments ...string) string {
	return exampleFields(exampleField(name, fragments...))
}

// exampleFields is the whole of an example about several fields.
func exampleFields(fields ...string) string { return "\n" + strings.Join(fields, "\n") + "\n" }

// toleratingRule is a validation rule that accepts a stored value as long as it stays unchanged. With it, a CRD asks
// more of new values and harms no stored object.
func toleratingRule(condition, message string) string {
	return "x-kubernetes-validations:\n- rule: " + condition + " || oldSelf.hasValue() && self == oldSelf.value()\n" +
		"  optionalOldSelf: true\n  message: " + message
}
