package apply

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// The API server does not store every value as the manifest has it: 1000m becomes 1, and base64 loses its line breaks. A comparison
// on the client would see a difference each time, and ask the server in vain. This file writes values of built-in kinds in the
// server's form first.

// builtInTypes has the Go types of Kubernetes' own kinds, by which the API server decodes and stores them.
var builtInTypes = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	return s
})

// apiService has the values of an APIService that the API server writes anew. The Go type of the kind is in another module.
type apiService struct {
	Spec struct {
		CABundle []byte `json:"caBundle,omitempty"`
	} `json:"spec"`
}

// kindOf returns the version and kind that an object names.
func kindOf(obj map[string]any) schema.GroupVersionKind {
	version, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind)
}

// normalForm returns an object with each value as the API server writes it: base64 on one line, 1 for the quantity 1000m, times in
// UTC. It does so by decoding the object into the Go type of its kind. Fields that this type does not have stay as they are, and so do
// objects of other kinds: the API server stores their values as they come.
func normalForm(obj map[string]any) map[string]any {
	gvk := kindOf(obj)
	var typed any = &apiService{}
	if gvk.Group != "apiregistration.k8s.io" {
		known, err := builtInTypes().New(gvk)
		if err != nil {
			return obj
		}
		typed = known
	}
	convert := runtime.DefaultUnstructuredConverter
	if convert.FromUnstructured(obj, typed) != nil {
		return obj
	}
	written, err := convert.ToUnstructured(typed)
	if err != nil {
		return obj
	}
	out, _ := valuesAsWritten(obj, written).(map[string]any)
	return out
}

// valuesAsWritten returns a value with the same fields and items, whose values are those of another one if it has them.
func valuesAsWritten(v, written any) any {
	switch x := v.(type) {
	case map[string]any:
		w, ok := written.(map[string]any)
		if !ok {
			return v
		}
		out := make(map[string]any, len(x))
		for k, inner := range x {
			if to, there := w[k]; there {
				inner = valuesAsWritten(inner, to)
			}
			out[k] = inner
		}
		return out
	case []any:
		w, ok := written.([]any)
		if !ok || len(w) != len(x) {
			return v
		}
		out := make([]any, len(x))
		for i := range x {
			out[i] = valuesAsWritten(x[i], w[i])
		}
		return out
	case nil:
		return v
	}
	return written
}
