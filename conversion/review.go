package conversion

// How is a converter asked, and what does the API server make of its answer? For example, it refuses an answer in which an object has
// another name, and puts back metadata that the converter changed.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Converter answers reviews as a conversion webhook does. The error says that there is no answer, for example because nobody listens; a
// conversion that fails is an answer whose result is Failure. A Converter need not be safe for concurrent use. If it has a method Started() bool,
// that tells whether the last review began with the start of a process, whose time does not count.
type Converter interface {
	Review(ctx context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error)
}

// Func converts one object to an API version, such as example.com/v1. It may change the object. As a Converter it answers for all objects
// of a review, or with a Failure if one of them fails. A panic is a failure, too.
type Func func(obj map[string]any, toAPIVersion string) (map[string]any, error)

// Review implements [Converter].
func (f Func) Review(_ context.Context, review *apiextensionsv1.ConversionReview) (*apiextensionsv1.ConversionReview, error) {
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for i := range review.Request.Objects {
		converted, err := f.convertRaw(review.Request.Objects[i].Raw, review.Request.DesiredAPIVersion)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	return &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: response}, nil
}

// convertRaw converts an object in JSON. A panic of the function is an error that names the place.
func (f Func) convertRaw(raw []byte, to string) (converted []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v%s", r, panicSite(debug.Stack()))
		}
	}()
	obj := map[string]any{}
	if err := utiljson.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	out, err := f(obj, to)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// panicSite is the place in a stack that panicked, as " (FILE:LINE)"; empty if it is not found.
func panicSite(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic(") })
	for _, l := range lines[max(at, 0):] {
		place := strings.TrimSpace(l)
		if strings.HasPrefix(l, "\t") && !strings.Contains(place, "/runtime/") {
			place, _, _ = strings.Cut(place, " ")
			return " (" + place[strings.LastIndex(place, "/")+1:] + ")"
		}
	}
	return ""
}

// Convertible is the method set of controller-runtime's conversion.Convertible, with its conversion.Hub as H.
type Convertible[H any] interface {
	runtime.Object
	ConvertTo(hub H) error
	ConvertFrom(hub H) error
}

// Typed returns the Converter of an operator's Go types, as controller-runtime's webhook converts them: by way of the hub. The scheme knows
// the hub and the spokes. H is controller-runtime's conversion.Hub, which hub implements:
//
//	conversion.Typed[ctrlconversion.Hub](scheme, &v1.Widget{}, &v1beta1.Widget{})
//
// The objects are examples of their types, and are not changed.
func Typed[H runtime.Object](scheme runtime.ObjectTyper, hub H, spokes ...Convertible[H]) Converter {
	return Func(func(obj map[string]any, to string) (map[string]any, error) {
		in, err := newByVersion(scheme, (&unstructured.Unstructured{Object: obj}).GetAPIVersion(), hub, spokes)
		if err != nil {
			return nil, err
		}
		out, err := newByVersion(scheme, to, hub, spokes)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(obj)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, in); err != nil {
			return nil, err
		}
		middle, _ := in.(H) // the hub, unless it is a spoke
		if spoke, ok := in.(Convertible[H]); ok {
			middle, _ = newLike(hub).(H)
			if err := spoke.ConvertTo(middle); err != nil {
				return nil, err
			}
		}
		if spoke, ok := out.(Convertible[H]); !ok {
			out = middle
		} else if err := spoke.ConvertFrom(middle); err != nil {
			return nil, err
		}
		result, err := runtime.DefaultUnstructuredConverter.ToUnstructured(out)
		if err != nil {
			return nil, err
		}
		result["apiVersion"], result["kind"] = to, obj["kind"]
		return result, nil
	})
}

// newByVersion returns a new object of the type that has the API version.
func newByVersion[H runtime.Object](scheme runtime.ObjectTyper, apiVersion string, hub H, spokes []Convertible[H]) (runtime.Object, error) {
	examples := []runtime.Object{hub}
	for _, s := range spokes {
		examples = append(examples, s)
	}
	for _, example := range examples {
		kinds, _, err := scheme.ObjectKinds(example)
		if err != nil {
			return nil, err
		}
		for _, k := range kinds {
			if k.GroupVersion().String() == apiVersion {
				return newLike(example), nil
			}
		}
	}
	return nil, fmt.Errorf("no conversion for version %q", apiVersion)
}

// newLike returns a new object of the type of example.
func newLike(example runtime.Object) runtime.Object {
	out, _ := reflect.TypeAssert[runtime.Object](reflect.New(reflect.TypeOf(example).Elem()))
	return out
}

// failure is an answer that a conversion failed, in the converter's words.
type failure struct{ message string }

func (f failure) Error() string { return "the conversion failed: " + f.message }

// invalidAnswer is an answer that the API server refuses.
type invalidAnswer struct{ message string }

func (e invalidAnswer) Error() string { return "the API server refuses the answer: " + e.message }

// askConverter has objects converted, and returns the answer as the API server reads it (getConvertedObjectsFromResponse). The error is a
// failure, an invalidAnswer, or that of the converter.
func askConverter(ctx context.Context, c Converter, to string, objects []map[string]any) ([]map[string]any, error) {
	uid := types.UID("9a0f5c4e-0000-4000-8000-000000000001")
	review := &apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"},
		Request:  &apiextensionsv1.ConversionRequest{UID: uid, DesiredAPIVersion: to, Objects: []runtime.RawExtension{}},
	}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		review.Request.Objects = append(review.Request.Objects, runtime.RawExtension{Raw: raw})
	}
	answer, err := c.Review(ctx, review)
	switch {
	case err != nil:
		return nil, err
	case answer == nil || answer.Response == nil:
		return nil, invalidAnswer{"it has no response"}
	case answer.APIVersion != review.APIVersion || answer.Kind != review.Kind:
		return nil, invalidAnswer{fmt.Sprintf("it is a %s of %s", answer.Kind, answer.APIVersion)}
	case answer.Response.UID != uid:
		return nil, invalidAnswer{fmt.Sprintf("response.uid is %q, not that of the request", answer.Response.UID)}
	case answer.Response.Result.Status != metav1.StatusSuccess:
		return nil, failure{answer.Response.Result.Message}
	case len(answer.Response.ConvertedObjects) != len(objects):
		return nil, invalidAnswer{fmt.Sprintf("it has %d objects for %d", len(answer.Response.ConvertedObjects), len(objects))}
	}
	out := make([]map[string]any, len(objects))
	for i := range out {
		raw := answer.Response.ConvertedObjects[i]
		text := raw.Raw
		if raw.Object != nil {
			if text, err = json.Marshal(raw.Object); err != nil {
				return nil, err
			}
		}
		if err := utiljson.Unmarshal(text, &out[i]); err != nil || out[i] == nil {
			return nil, invalidAnswer{fmt.Sprintf("object %d is not a JSON object", i)}
		}
	}
	return out, nil
}

// acceptAnswer returns why the API server refuses a converted object; empty if it takes it (validateConvertedObject).
func acceptAnswer(in, out map[string]any, to string) string {
	from, got := unstructured.Unstructured{Object: in}, unstructured.Unstructured{Object: out}
	if _, ok := out["metadata"].(map[string]any); !ok {
		return "metadata is missing"
	}
	for _, x := range []struct{ what, want, got string }{
		{"apiVersion", to, got.GetAPIVersion()},
		{"kind", from.GetKind(), got.GetKind()},
		{"metadata.name", from.GetName(), got.GetName()},
		{"metadata.namespace", from.GetNamespace(), got.GetNamespace()},
		{"metadata.uid", string(from.GetUID()), string(got.GetUID())},
	} {
		if x.want != x.got {
			return fmt.Sprintf("%s is %q, not %q", x.what, x.got, x.want)
		}
	}
	return ""
}

// restoreMeta returns the converted object with the metadata of the original but labels and annotations (restoreObjectMeta). changed has
// the other fields that the converter changed; refused says why the API server refuses the labels or annotations.
func restoreMeta(in, out map[string]any) (restored map[string]any, changed []difference, refused string) {
	was, _ := in["metadata"].(map[string]any)
	got, _ := out["metadata"].(map[string]any)
	meta := runtime.DeepCopyJSON(was)
	got = maps.Clone(got)
	maps.DeleteFunc(got, func(name string, v any) bool { // creationTimestamp: null
		_, ok := was[name]
		return !ok && isEmptyValue(v)
	})
	changed = slices.DeleteFunc(compareValues([]string{".metadata"}, was, got), func(d difference) bool {
		return len(d.path) > 1 && (d.path[1] == ".labels" || d.path[1] == ".annotations")
	})
	for _, name := range []string{"labels", "annotations"} {
		delete(meta, name)
		if got[name] == nil {
			continue
		}
		texts, ok, err := unstructured.NestedStringMap(got, name)
		if !ok || err != nil {
			return nil, nil, "metadata." + name + " is not a map of strings"
		}
		var errs field.ErrorList
		if name == "labels" {
			errs = metav1validation.ValidateLabels(texts, field.NewPath("metadata", name))
		} else {
			errs = metavalidation.ValidateAnnotations(texts, field.NewPath("metadata", name))
		}
		if len(errs) > 0 {
			return nil, nil, errs.ToAggregate().Error()
		}
		meta[name] = got[name]
	}
	restored = maps.Clone(out)
	restored["metadata"] = meta
	return restored, changed, ""
}
