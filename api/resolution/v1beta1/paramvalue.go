package v1beta1

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ParamType is the type of a parameter's value.
type ParamType string

// Types of values.
const (
	ParamTypeString ParamType = "string"
	ParamTypeArray  ParamType = "array"
	ParamTypeObject ParamType = "object"
)

// ParamValue is a string, an array of strings or an object of strings. On the wire it is the bare value. The zero value
// is the empty string.
type ParamValue struct {
	// Type says which of the other fields counts; empty stands for [ParamTypeString].
	Type      ParamType
	StringVal string
	ArrayVal  []string
	ObjectVal map[string]string
}

// StringValue returns a value that is a string.
func StringValue(s string) ParamValue { return ParamValue{Type: ParamTypeString, StringVal: s} }

// ArrayValue returns a value that is an array.
func ArrayValue(s ...string) ParamValue { return ParamValue{Type: ParamTypeArray, ArrayVal: s} }

// ObjectValue returns a value that is an object.
func ObjectValue(m map[string]string) ParamValue {
	return ParamValue{Type: ParamTypeObject, ObjectVal: m}
}

// MarshalJSON implements json.Marshaler. A nil array or object is an empty one.
func (v ParamValue) MarshalJSON() ([]byte, error) {
	switch v.Type {
	case ParamTypeString, "":
		return json.Marshal(v.StringVal)
	case ParamTypeArray:
		if v.ArrayVal == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(v.ArrayVal)
	case ParamTypeObject:
		if v.ObjectVal == nil {
			return []byte("{}"), nil
		}
		return json.Marshal(v.ObjectVal)
	}
	return nil, errors.New("a parameter's value has the unknown type " + string(v.Type))
}

// UnmarshalJSON implements json.Unmarshaler. As in Tekton a value that is no array of strings and no object of strings,
// a number for example, is taken as a string of its JSON text, so that one odd request does not stop all from being
// read; null is the empty string.
func (v *ParamValue) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	*v = ParamValue{Type: ParamTypeString}
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		return nil
	}
	switch data[0] {
	case '"':
		return json.Unmarshal(data, &v.StringVal)
	case '[':
		var array []string
		if hasNoNull(data) && json.Unmarshal(data, &array) == nil {
			*v = ParamValue{Type: ParamTypeArray, ArrayVal: array}
			return nil
		}
	case '{':
		var object map[string]string
		if hasNoNull(data) && json.Unmarshal(data, &object) == nil {
			*v = ParamValue{Type: ParamTypeObject, ObjectVal: object}
			return nil
		}
	}
	if !json.Valid(data) {
		return errors.New("a parameter's value is not JSON")
	}
	// As encoding/json reads text that is no UTF-8 elsewhere.
	v.StringVal = string(bytes.ToValidUTF8(data, []byte("\uFFFD")))
	return nil
}

// hasNoNull tells that no member of an array or object is null, which encoding/json would take for an empty string.
func hasNoNull(data []byte) bool {
	var array []*string
	if json.Unmarshal(data, &array) == nil {
		for _, s := range array {
			if s == nil {
				return false
			}
		}
		return true
	}
	var object map[string]*string
	if json.Unmarshal(data, &object) != nil {
		return false
	}
	for _, s := range object {
		if s == nil {
			return false
		}
	}
	return true
}
