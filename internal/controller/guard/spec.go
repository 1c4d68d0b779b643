package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// specOf returns the spec of a CRD in JSON, as it stands there.
func specOf(object []byte) (json.RawMessage, error) {
	var crd struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(object, &crd); err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", err)
	}
	return crd.Spec, nil
}

// leftAlone tells whether two specs, as the API server writes them, are the same but for the CA bundle of the conversion
// webhook. Where it cannot tell they are not.
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

// sameBut tells whether two JSON objects have the same fields with the same values, but for one field that is compared by a
// function; its values are nil where it is missing.
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
