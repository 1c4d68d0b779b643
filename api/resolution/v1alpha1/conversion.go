package v1alpha1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"sluice.dev/api/resolution"
	"sluice.dev/api/resolution/v1beta1"
)

// FromV1beta1 converts a request to v1alpha1. The URL, parameters that are no strings, and an order of parameters other
// than that of their names go to the annotation [resolution.AnnotationV1beta1]; nothing of the status does. The result
// shares no memory with its argument.
func FromV1beta1(in *v1beta1.ResolutionRequest) (*ResolutionRequest, error) {
	in = in.DeepCopy()
	out := &ResolutionRequest{TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta, Status: in.Status}
	out.APIVersion = SchemeGroupVersion.String()
	list := make([]param[v1beta1.ParamValue], 0, len(in.Spec.Params))
	for _, p := range in.Spec.Params {
		list = append(list, param[v1beta1.ParamValue](p))
	}
	text := func(v v1beta1.ParamValue) (string, bool) {
		return v.StringVal, v.Type == v1beta1.ParamTypeString || v.Type == ""
	}
	var note string
	var err error
	if out.Spec.Params, note, err = downgradeParams(list, in.Spec.URL, text); err != nil {
		return nil, err
	}
	delete(out.Annotations, resolution.AnnotationV1beta1)
	if note != "" {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[resolution.AnnotationV1beta1] = note
	}
	return out, nil
}

// ToV1beta1 converts a request to v1beta1 and takes back what [FromV1beta1] has put into the annotation, which may also
// be the work of a user: an annotation that cannot be read, or that speaks of a parameter that the spec has too, is an
// error. Parameters that it does not order stand in the order of their names. The result shares no memory with its
// argument.
func ToV1beta1(in *ResolutionRequest) (*v1beta1.ResolutionRequest, error) {
	in = in.DeepCopy()
	out := &v1beta1.ResolutionRequest{TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta, Status: in.Status}
	out.APIVersion = v1beta1.SchemeGroupVersion.String()
	list, url, err := upgradeParams(in.Spec.Params, in.Annotations[resolution.AnnotationV1beta1], v1beta1.StringValue)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		p.Value.Type = cmp.Or(p.Value.Type, v1beta1.ParamTypeString)
		out.Spec.Params = append(out.Spec.Params, v1beta1.Param(p))
	}
	out.Spec.URL = url
	delete(out.Annotations, resolution.AnnotationV1beta1)
	return out, nil
}

// ConvertObject converts a request in the form of decoded JSON between v1alpha1 and v1beta1, in place. All but the
// apiVersion, spec and the one annotation stays as it is, also what the Go types have no field for. Integers must be
// int64, as k8s.io/apimachinery/pkg/util/json decodes them.
func ConvertObject(object map[string]any, toAPIVersion string) error {
	from, _ := object["apiVersion"].(string)
	alpha, beta := SchemeGroupVersion.String(), v1beta1.SchemeGroupVersion.String()
	switch {
	case from == toAPIVersion && (from == alpha || from == beta):
		return nil
	case from == beta && toAPIVersion == alpha:
		if err := objectDown(object); err != nil {
			return err
		}
	case from == alpha && toAPIVersion == beta:
		if err := objectUp(object); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no conversion from %q to %q", from, toAPIVersion)
	}
	object["apiVersion"] = toAPIVersion
	return nil
}

func objectDown(object map[string]any) error {
	spec, err := memberOf[map[string]any](object, "spec")
	if err != nil {
		return err
	}
	raw, err := memberOf[[]any](spec, "params")
	if err != nil {
		return err
	}
	url, err := memberOf[string](spec, "url")
	if err != nil {
		return err
	}
	list := make([]param[any], 0, len(raw))
	for i, e := range raw {
		p, ok := e.(map[string]any)
		if !ok {
			return fmt.Errorf("spec.params[%d] is no object", i)
		}
		name, err := memberOf[string](p, "name")
		if err != nil {
			return fmt.Errorf("spec.params[%d]: %w", i, err)
		}
		list = append(list, param[any]{Name: name, Value: p["value"]})
	}
	params, note, err := downgradeParams(list, url, func(v any) (string, bool) { s, ok := v.(string); return s, ok })
	if err != nil {
		return err
	}
	delete(spec, "params")
	delete(spec, "url")
	if params != nil {
		m := make(map[string]any, len(params))
		for k, v := range params {
			m[k] = v
		}
		spec["params"] = m
	}
	return annotateWith(object, note)
}

func objectUp(object map[string]any) error {
	metadata, err := memberOf[map[string]any](object, "metadata")
	if err != nil {
		return err
	}
	annotations, err := memberOf[map[string]any](metadata, "annotations")
	if err != nil {
		return err
	}
	note, err := memberOf[string](annotations, resolution.AnnotationV1beta1)
	if err != nil {
		return err
	}
	spec, err := memberOf[map[string]any](object, "spec")
	if err != nil {
		return err
	}
	raw, err := memberOf[map[string]any](spec, "params")
	if err != nil {
		return err
	}
	params := make(map[string]string, len(raw))
	for k := range raw {
		if params[k], err = memberOf[string](raw, k); err != nil {
			return fmt.Errorf("spec.params: %w", err)
		}
	}
	list, url, err := upgradeParams(params, note, func(s string) any { return s })
	if err != nil {
		return err
	}
	if spec == nil && (len(list) > 0 || url != "") {
		spec = map[string]any{}
		object["spec"] = spec
	}
	delete(spec, "params")
	if len(list) > 0 {
		out := make([]any, 0, len(list))
		for _, p := range list {
			out = append(out, map[string]any{"name": p.Name, "value": p.Value})
		}
		spec["params"] = out
	}
	if url != "" {
		spec["url"] = url
	}
	return annotateWith(object, "")
}

// annotateWith sets or, if note is empty, removes the annotation.
func annotateWith(object map[string]any, note string) error {
	metadata, err := memberOf[map[string]any](object, "metadata")
	if err != nil {
		return err
	}
	annotations, err := memberOf[map[string]any](metadata, "annotations")
	if err != nil {
		return err
	}
	if note == "" {
		if delete(annotations, resolution.AnnotationV1beta1); len(annotations) == 0 {
			delete(metadata, "annotations")
		}
		return nil
	}
	if metadata == nil {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[resolution.AnnotationV1beta1] = note
	return nil
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

type param[V any] struct {
	Name  string `json:"name"`
	Value V      `json:"value"`
}

// kept is what v1alpha1 has no place for, as the JSON of an annotation.
type kept[V any] struct {
	URL string `json:"url,omitempty"`
	// Params are those whose value is no string, and those whose name stands more than once.
	Params []param[V] `json:"params,omitempty"`
	// Order lists the names of all parameters where they do not stand in the order of their names.
	Order []string `json:"order,omitempty"`
}

// downgradeParams returns what v1alpha1 can say, and an annotation with the rest, empty if there is none.
func downgradeParams[V any](list []param[V], url string, text func(V) (string, bool)) (params map[string]string, note string, err error) {
	count := map[string]int{}
	names := make([]string, 0, len(list))
	for _, p := range list {
		count[p.Name]++
		names = append(names, p.Name)
	}
	rest := kept[V]{URL: url}
	for _, p := range list {
		s, ok := text(p.Value)
		if !ok || count[p.Name] > 1 {
			rest.Params = append(rest.Params, p)
			continue
		}
		if params == nil {
			params = map[string]string{}
		}
		params[p.Name] = s
	}
	if !slices.IsSorted(names) {
		rest.Order = names
	}
	if rest.URL == "" && rest.Params == nil && rest.Order == nil {
		return params, "", nil
	}
	data, err := json.Marshal(rest)
	return params, string(data), err
}

// upgradeParams is the inverse of down.
func upgradeParams[V any](params map[string]string, note string, value func(string) V) (list []param[V], url string, err error) {
	var rest kept[V]
	if note != "" {
		if err := utiljson.Unmarshal([]byte(note), &rest); err != nil {
			return nil, "", fmt.Errorf("annotation %s: %w", resolution.AnnotationV1beta1, err)
		}
	}
	waiting := map[string][]param[V]{}
	for name, s := range params {
		waiting[name] = []param[V]{{Name: name, Value: value(s)}}
	}
	for _, p := range rest.Params {
		if _, ok := params[p.Name]; ok {
			return nil, "", fmt.Errorf("annotation %s: the parameter %q is in spec.params too", resolution.AnnotationV1beta1, p.Name)
		}
		waiting[p.Name] = append(waiting[p.Name], p)
	}
	for _, name := range rest.Order {
		if len(waiting[name]) > 0 {
			list = append(list, waiting[name][0])
			waiting[name] = waiting[name][1:]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		list = append(list, waiting[name]...)
	}
	return list, rest.URL, nil
}
