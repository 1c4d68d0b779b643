package schema

// What does a value look like once it was stored? For example, 1.0 is read back as 1.

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// AsStored returns the decoded JSON value v as it is read back from storage. Go's encoding/json writes the float64 1.0 as 1, which is
// read as an int64 (k8s.io/apimachinery/pkg/util/json). v is not changed.
func AsStored(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for k, x := range v {
			out[k] = AsStored(x)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, x := range v {
			out[i] = AsStored(x)
		}
		return out
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return v
		}
		// Storage has the shortest digits that read as v. Above 2^53 they are not always those of the integer v.
		if i, err := strconv.ParseInt(strconv.FormatFloat(v, 'f', -1, 64), 10, 64); err == nil {
			return i
		}
	}
	return v
}

// WithStoredLiterals returns crd with the literals of its schemas (default, enum, example) as the API server has them once they are stored:
// it decodes and writes them (Convert_v1_JSON_To_apiextensions_JSON and its reverse in k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1).
// A literal that is not JSON stays as it is. crd is not changed; it is the result if nothing differs, and shares parts with it otherwise.
// nil stays nil.
func WithStoredLiterals(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	if crd == nil || !slices.ContainsFunc(crd.Spec.Versions, literalsDiffer) {
		return crd
	}
	out := *crd
	out.Spec.Versions = slices.Clone(crd.Spec.Versions)
	for i := range out.Spec.Versions {
		v := &out.Spec.Versions[i]
		if literalsDiffer(*v) {
			v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: Rewrite(v.Schema.OpenAPIV3Schema, Everywhere, func(p *props) {
				for _, at := range []**apiextensionsv1.JSON{&p.Default, &p.Example} {
					if *at != nil {
						*at = &apiextensionsv1.JSON{Raw: storedLiteral((*at).Raw)}
					}
				}
				p.Enum = slices.Clone(p.Enum)
				for i := range p.Enum {
					p.Enum[i].Raw = storedLiteral(p.Enum[i].Raw)
				}
			})}
		}
	}
	return &out
}

// literalsDiffer reports whether a schema of the version has a literal in another form than the stored one.
func literalsDiffer(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
	differs := func(at *apiextensionsv1.JSON) bool { return at != nil && !bytes.Equal(at.Raw, storedLiteral(at.Raw)) }
	if v.Schema == nil {
		return false
	}
	for p := range Walk(v.Schema.OpenAPIV3Schema, Everywhere) {
		if differs(p.Default) || differs(p.Example) || slices.ContainsFunc(p.Enum, func(e apiextensionsv1.JSON) bool { return differs(&e) }) {
			return true
		}
	}
	return false
}

// storedLiteral returns the JSON text raw as it is stored, and raw itself if it is not JSON.
func storedLiteral(raw []byte) []byte {
	if _, ok := simpleString(raw); ok && !bytes.ContainsAny(raw, "<>&") { // encoding/json escapes these
		return raw
	}
	v, err := decodeValue(raw)
	if err != nil || v == nil {
		return raw
	}
	text, err := json.Marshal(AsStored(v))
	if err != nil {
		return raw
	}
	return text
}
