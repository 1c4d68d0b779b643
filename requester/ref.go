package requester

import (
	"errors"
	"fmt"
	"maps"

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
// The older syntax of TEP-0060, in which a map stood in place of the list, is read as well:
//
//	ref:
//	  resolver: git
//	  resource: {url: https://example.com/repo}
//
// [Schema] is its part of a CRD; controller-gen makes the same of the markers, so that either way will do.
//
// +kubebuilder:object:generate=false
type Ref struct {
	// Resolver is the name of the resolver; empty where the reference is to something local.
	Resolver string `json:"resolver,omitempty"`
	// Params are its parameters, each name once.
	// +listType=map
	// +listMapKey=name
	Params []v1beta1.Param `json:"params,omitempty"`
	// Resource is the older form of Params, with values that are strings.
	Resource map[string]string `json:"resource,omitempty"`
}

// DeepCopyInto copies the reference for the code that deepcopy-gen and controller-gen make of a kind that has one.
func (r *Ref) DeepCopyInto(out *Ref) {
	*out = Ref{Resolver: r.Resolver, Resource: maps.Clone(r.Resource)}
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

// Spec returns what the request for the reference asks for. A reference with both forms of parameters, with a name
// twice, or without a resolver is an error.
func (r Ref) Spec() (v1beta1.ResolutionRequestSpec, error) {
	var spec v1beta1.ResolutionRequestSpec
	if r.Resolver == "" {
		return spec, errors.New("the reference names no resolver")
	}
	if len(r.Params) > 0 && len(r.Resource) > 0 {
		return spec, errors.New("the reference has both params and resource: move what is in resource to params")
	}
	seen := map[string]bool{}
	for _, p := range r.Params {
		if seen[p.Name] {
			return spec, fmt.Errorf("the reference has the parameter %q twice", p.Name)
		}
		seen[p.Name] = true
		spec.Params = append(spec.Params, *p.DeepCopy())
	}
	for _, name := range sortedKeys(r.Resource) {
		spec.Params = append(spec.Params, v1beta1.Param{Name: name, Value: v1beta1.StringValue(r.Resource[name])})
	}
	return spec, nil
}

// Schema returns the structural schema of [Ref] for a CRD. Each call returns one of its own.
func Schema() apiextensionsv1.JSONSchemaProps {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
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
			"resource": {
				Type: "object", Description: "Older form of params.",
				AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &text},
			},
		},
	}
}
