package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	return sameBut(old, next, "conversion", func(old, next json.RawMessage) bool {
		return sameBut(old, next, "webhook", func(old, next json.RawMessage) bool {
			return sameBut(old, next, "clientConfig", func(old, next json.RawMessage) bool {
				return sameBut(old, next, "caBundle", func(_, _ json.RawMessage) bool { return true })
			})
		})
	})
}

// sameBut reports whether two JSON objects have the same fields with the same values, except for one field. A function compares
// that field; its values are nil if it is missing.
func sameBut(old, next json.RawMessage, except string, same func(old, next json.RawMessage) bool) bool {
	if bytes.Equal(old, next) {
		return true
	}
	var a, b map[string]json.RawMessage
	if json.Unmarshal(old, &a) != nil || json.Unmarshal(next, &b) != nil || a == nil || b == nil {
		return false
	}
	if !same(a[except], b[except]) {
		return false
	}
	delete(a, except)
	delete(b, except)
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		other, ok := b[key]
		if !ok || !bytes.Equal(value, other) {
			return false
		}
	}
	return true
}
