package v1alpha1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
)

// ConvertObject converts a request in the form of decoded JSON between v1alpha1 and v1beta1, in place. All but the
// apiVersion, spec and the one annotation stays as it is, also what the Go types have no field for. Integers must be
// int64, as k8s.io/apimachinery/pkg/util/json decodes them.
//
// The URL, parameters that are no strings, and an order of parameters other than that of their names go to the annotation
// [resolution.AnnotationV1beta1] of a request in v1alpha1; nothing of the status does. That annotation may also be the
// work of a user: one that cannot be read, or that speaks of a parameter that the spec has too, is an error. Parameters
// that it does not order stand in the order of their names.
func ConvertObject(object map[string]any, toAPIVersion string) error {
	from, _ := object["apiVersion"].(string)
	alpha, beta := SchemeGroupVersion.String(), v1beta1.SchemeGroupVersion.String()
	var convert func(spec map[string]any, note string) (newSpec map[string]any, newNote string, err error)
	switch {
	case from == toAPIVersion && (from == alpha || from == beta):
		return nil
	case from == beta && toAPIVersion == alpha:
		convert = specDown
	case from == alpha && toAPIVersion == beta:
		convert = specUp
	default:
		return fmt.Errorf("no conversion from %q to %q", from, toAPIVersion)
	}
	metadata, errMetadata := memberOf[map[string]any](object, "metadata")
	annotations, errAnnotations := memberOf[map[string]any](metadata, "annotations")
	note, errNote := memberOf[string](annotations, resolution.AnnotationV1beta1)
	spec, errSpec := memberOf[map[string]any](object, "spec")
	if err := cmp.Or(errMetadata, errAnnotations, errNote, errSpec); err != nil {
		return err
	}
	spec, note, err := convert(spec, note)
	if err != nil {
		return err
	}
	object["apiVersion"] = toAPIVersion
	if spec != nil {
		object["spec"] = spec
	}
	if delete(annotations, resolution.AnnotationV1beta1); len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	if note != "" {
		if metadata == nil { // it may be null
			object["metadata"] = map[string]any{}
		}
		return unstructured.SetNestedField(object, note, "metadata", "annotations", resolution.AnnotationV1beta1)
	}
	return nil
}

// param is a parameter in v1beta1, as decoded JSON.
type param struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// kept is what v1alpha1 has no place for, as the JSON of an annotation.
type kept struct {
	URL string `json:"url,omitempty"`
	// Params are those whose value is no string, and those whose name stands more than once.
	Params []param `json:"params,omitempty"`
	// Order lists the names of all parameters where they do not stand in the order of their names.
	Order []string `json:"order,omitempty"`
}

// specDown converts a spec to v1alpha1, and returns an annotation with the rest, empty if there is none. An annotation that is there
// already counts for nothing in v1beta1.
func specDown(spec map[string]any, _ string) (map[string]any, string, error) {
	raw, errParams := memberOf[[]any](spec, "params")
	url, errURL := memberOf[string](spec, "url")
	if err := cmp.Or(errParams, errURL); err != nil {
		return nil, "", err
	}
	rest := kept{URL: url}
	list, count := make([]param, len(raw)), map[string]int{}
	names := make([]string, len(raw))
	for i, e := range raw {
		p, ok := e.(map[string]any)
		if !ok {
			return nil, "", fmt.Errorf("spec.params[%d] is no object", i)
		}
		name, err := memberOf[string](p, "name")
		if err != nil {
			return nil, "", fmt.Errorf("spec.params[%d]: %w", i, err)
		}
		list[i], names[i] = param{name, p["value"]}, name
		count[name]++
	}
	params := map[string]any{}
	for _, p := range list {
		if _, ok := p.Value.(string); !ok || count[p.Name] > 1 {
			rest.Params = append(rest.Params, p)
			continue
		}
		params[p.Name] = p.Value
	}
	if !slices.IsSorted(names) {
		rest.Order = names
	}
	delete(spec, "url")
	delete(spec, "params")
	if len(params) > 0 {
		spec["params"] = params
	}
	if rest.URL == "" && rest.Params == nil && rest.Order == nil {
		return spec, "", nil
	}
	note, err := json.Marshal(rest)
	return spec, string(note), err
}

// specUp is the inverse of specDown. It needs no annotation any more.
func specUp(spec map[string]any, note string) (map[string]any, string, error) {
	params, err := memberOf[map[string]any](spec, "params")
	if err != nil {
		return nil, "", err
	}
	var rest kept
	if note != "" {
		if err := utiljson.Unmarshal([]byte(note), &rest); err != nil {
			return nil, "", fmt.Errorf("annotation %s: %w", resolution.AnnotationV1beta1, err)
		}
	}
	waiting := map[string][]any{}
	for name := range params {
		text, err := memberOf[string](params, name)
		if err != nil {
			return nil, "", fmt.Errorf("spec.params: %w", err)
		}
		waiting[name] = []any{map[string]any{"name": name, "value": text}}
	}
	for _, p := range rest.Params {
		if _, ok := params[p.Name]; ok {
			return nil, "", fmt.Errorf("annotation %s: the parameter %q is in spec.params too", resolution.AnnotationV1beta1, p.Name)
		}
		waiting[p.Name] = append(waiting[p.Name], map[string]any{"name": p.Name, "value": p.Value})
	}
	list := inOrder(waiting, rest.Order)
	delete(spec, "params")
	if spec == nil && (len(list) > 0 || rest.URL != "") {
		spec = map[string]any{}
	}
	if len(list) > 0 {
		spec["params"] = list
	}
	if rest.URL != "" {
		spec["url"] = rest.URL
	}
	return spec, "", nil
}

// inOrder lists the parameters in the order of the names, and then those that it does not name, in the order of their names.
func inOrder(waiting map[string][]any, order []string) (list []any) {
	for _, name := range order {
		if len(waiting[name]) > 0 {
			list = append(list, waiting[name][0])
			waiting[name] = waiting[name][1:]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		list = append(list, waiting[name]...)
	}
	return list
}

// memberOf returns a member of an object, the zero value if it is missing or null.
func memberOf[T any](object map[string]any, name string) (T, error) {
	var zero T
	value, ok := object[name]
	if !ok || value == nil {
		return zero, nil
	}
	typed, ok := value.(T)
	if !ok {
		return zero, fmt.Errorf("%s is of type %T, want %T", name, value, zero)
	}
	return typed, nil
}
