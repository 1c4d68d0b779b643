package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// This file looks at CRDs in JSON, before they are decoded. A schema takes much more memory as Go values than as JSON, and anybody
// who may write CRDs can send large ones, many at once. What the guard needs first is cheap to see: whether the spec has changed, and
// how large it is.

// specOf returns the unchanged spec of a CRD in JSON.
func specOf(object []byte) (json.RawMessage, error) {
	var crd struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(object, &crd); err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", err)
	}
	if len(crd.Spec) == 0 {
		return nil, errors.New("the object has no spec")
	}
	return crd.Spec, nil
}

// maxObjects bounds the JSON objects in a spec. Each schema is one, and takes half a kilobyte once it is decoded, however short its
// JSON is. A valid one has a type, which takes at least 20 bytes: the 1.5 MB that fit into etcd hold fewer than 80,000.
const maxObjects = 100_000

// objectsIn counts the JSON objects in valid JSON.
func objectsIn(text []byte) (n int) {
	for i, quoted := 0, false; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '{' && !quoted:
			n++
		}
	}
	return n
}

// headOf decodes the parts of a CRD that say whether it has stored objects, and whether the annotation for a bypass is set. It
// skips schemas.
func headOf(object []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	var head struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Group    string                                        `json:"group"`
			Names    apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
			Scope    apiextensionsv1.ResourceScope                 `json:"scope"`
			Versions []struct {
				Name    string `json:"name"`
				Served  bool   `json:"served"`
				Storage bool   `json:"storage"`
			} `json:"versions"`
		} `json:"spec"`
		Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
	}
	if err := json.Unmarshal(object, &head); err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: head.Metadata, Status: head.Status}
	crd.Spec.Group, crd.Spec.Names, crd.Spec.Scope = head.Spec.Group, head.Spec.Names, head.Spec.Scope
	for _, v := range head.Spec.Versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served, Storage: v.Storage})
	}
	return crd, nil
}

// leftAlone reports whether two specs, as the API server writes them, are the same except for the CA bundle of the conversion webhook.
// If it does not know, it returns false.
func leftAlone(old, next json.RawMessage) bool {
	if bytes.Equal(old, next) {
		return true
	}
	a, errA := withoutBundle(old)
	b, errB := withoutBundle(next)
	return errA == nil && errB == nil && maps.EqualFunc(a, b, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

// withoutBundle returns the fields of a spec, of which conversion has no CA bundle. It does not decode the schemas, which may be
// large.
func withoutBundle(spec json.RawMessage) (fields map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(spec, &fields); err != nil || fields["conversion"] == nil {
		return fields, err
	}
	var conversion map[string]any
	if err := utiljson.Unmarshal(fields["conversion"], &conversion); err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(conversion, "webhook", "clientConfig", "caBundle")
	fields["conversion"], err = json.Marshal(conversion)
	return fields, err
}
