package requester

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"sluice.dev/api/resolution/v1beta1"
)

// Ref is a reference to a resource that lives elsewhere, to be embedded in the spec of any kind:
//
//	ref:
//	  resolver: git
//	  params:
//	  - {name: url, value: https://example.com/repo}
//
// The older syntax of TEP-0060 and of early releases of Tekton, in which a map or the list stood under resource, is read
// as well:
//
//	ref:
//	  resolver: git
//	  resource: {url: https://example.com/repo}
//
// A location in one string, as in TEP-0154, stands under url. [Schema] is its part of a CRD; controller-gen makes the same of the markers, so that either way will do.
//
// +kubebuilder:object:generate=false
type Ref struct {
	// Resolver is the name of the resolver; empty if the reference is to something local.
	Resolver string `json:"resolver,omitempty"`
	// Params are its parameters, each name once.
	// +listType=map
	// +listMapKey=name
	Params []v1beta1.Param `json:"params,omitempty"`
	// URL is the location in one string (TEP-0154), for resolvers that take one; it may stand beside Params.
	URL string `json:"url,omitempty"`
	// Resource is the older form of Params: their values by name, or their list. Whatever else stands there can be read,
	// so that one bad object does not hide all others, and is an error of [Ref.Parameters].
	Resource *apiextensionsv1.JSON `json:"resource,omitempty"`
}

// DeepCopyInto copies the reference. Code that deepcopy-gen and controller-gen generate for a kind with a reference calls it.
func (r *Ref) DeepCopyInto(out *Ref) {
	*out = Ref{Resolver: r.Resolver, URL: r.URL, Resource: r.Resource.DeepCopy()}
	if r.Params != nil {
		out.Params = make([]v1beta1.Param, len(r.Params))
		for i := range r.Params {
			r.Params[i].DeepCopyInto(&out.Params[i])
		}
	}
}

// DeepCopy returns a copy that shares no memory with the reference; nil for nil.
func (r *Ref) DeepCopy() *Ref {
	if r == nil {
		return nil
	}
	out := &Ref{}
	r.DeepCopyInto(out)
	return out
}

// Parameters returns the parameters of either form; those of a map in the order of their names. It returns an error if both forms
// are used, or if a name is missing or occurs twice.
func (r Ref) Parameters() ([]v1beta1.Param, error) {
	older, err := r.olderParams()
	if err != nil {
		return nil, err
	}
	if len(r.Params) > 0 && len(older) > 0 {
		return nil, errors.New("the reference has both params and resource: move what is in resource to params")
	}
	var out []v1beta1.Param
	seen := map[string]bool{}
	for _, p := range append(older, r.Params...) {
		switch {
		case p.Name == "":
			return nil, errors.New("the reference has a parameter without a name")
		case seen[p.Name]:
			return nil, fmt.Errorf("the reference has the parameter %q twice", p.Name)
		}
		seen[p.Name] = true
		out = append(out, *p.DeepCopy())
	}
	return out, nil
}

// olderParams reads Resource.
func (r Ref) olderParams() ([]v1beta1.Param, error) {
	if r.Resource == nil {
		return nil, nil
	}
	text := bytes.TrimSpace(r.Resource.Raw)
	var out []v1beta1.Param
	var err error
	switch {
	case len(text) == 0 || bytes.Equal(text, []byte("null")):
	case text[0] == '[':
		err = json.Unmarshal(text, &out)
	case text[0] == '{':
		var values map[string]v1beta1.ParamValue
		err = json.Unmarshal(text, &values)
		for _, name := range sortedKeys(values) {
			out = append(out, v1beta1.Param{Name: name, Value: values[name]})
		}
	default:
		err = errors.New("it is neither")
	}
	if err != nil {
		return nil, fmt.Errorf("resource of the reference wants values by name, or a list of name and value: %w", err)
	}
	return out, nil
}

// Spec returns the spec of the request for the reference. A reference without a resolver is an error, as are those of
// [Ref.Parameters].
func (r Ref) Spec() (v1beta1.ResolutionRequestSpec, error) {
	if r.Resolver == "" {
		return v1beta1.ResolutionRequestSpec{}, errors.New("the reference names no resolver")
	}
	list, err := r.Parameters()
	return v1beta1.ResolutionRequestSpec{Params: list, URL: r.URL}, err
}

// Schema returns the structural schema of [Ref] for a CRD. Each call returns a new one.
func Schema() apiextensionsv1.JSONSchemaProps {
	name := apiextensionsv1.JSONSchemaProps{Type: "string", MinLength: new(int64(1))}
	mapList := "map"
	return apiextensionsv1.JSONSchemaProps{
		Type:        "object",
		Description: "A resource that lives elsewhere.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"resolver": {Type: "string", Description: "Name of the resolver: git, bundles, cluster, http, hub, or another that the cluster has."},
			"params": {
				Type: "array", Description: "Parameters of the resolver.",
				XListType: &mapList, XListMapKeys: []string{"name"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"name", "value"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"name":  name,
						"value": {Description: "A string, an array of strings or an object of strings.", XPreserveUnknownFields: new(true)},
					},
				}},
			},
			"url":      {Type: "string", Description: "The location in one string, for resolvers that take one."},
			"resource": {Description: "Older form of params: values by name, or their list.", XPreserveUnknownFields: new(true)},
		},
	}
}
