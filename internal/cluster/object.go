package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A large part of a stored object may be managedFields, which no judgement needs. This file cuts them out of the JSON before it is
// decoded, and reads from them only which versions the owners are noted in.

// decodeObject decodes a JSON text as the API server does, without metadata.managedFields: they are the server's own record, which
// it checked when it wrote it, and writes again in every update. It overwrites raw.
func decodeObject(raw []byte) (map[string]any, error) {
	var obj map[string]any
	if err := utiljson.Unmarshal(cutManagedFields(raw), &obj); err != nil {
		return nil, fmt.Errorf("an object that the server sent cannot be read: %w", err)
	}
	if meta, ok := obj["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	return obj, nil
}

// cutManagedFields replaces the value of metadata.managedFields by null, which is decoded faster. It overwrites raw. It leaves out
// what is seldom: a name that is there twice or has escapes.
func cutManagedFields(raw []byte) []byte {
	const null = "null"
	start, end := valueOf(raw, "metadata")
	from, to := valueOf(raw[start:end], "managedFields")
	if to-from < len(null) {
		return raw
	}
	return slices.Replace(raw, start+from, start+to, []byte(null)...)
}

// ownersIn returns the first of some apiVersions that metadata.managedFields of an object name, with the manager; empty if there is
// none.
func ownersIn(raw []byte, apiVersions []string) (version, manager string) {
	start, end := valueOf(raw, "metadata")
	from, to := valueOf(raw[start:end], "managedFields")
	text := raw[start+from : start+to]
	if !slices.ContainsFunc(apiVersions, func(v string) bool { return bytes.Contains(text, []byte(`"`+v+`"`)) }) {
		return "", ""
	}
	var entries []struct {
		APIVersion string          `json:"apiVersion"`
		Manager    string          `json:"manager"`
		FieldsV1   json.RawMessage `json:"fieldsV1"`
	}
	if json.Unmarshal(text, &entries) != nil {
		return "", ""
	}
	for _, e := range entries {
		if slices.Contains(apiVersions, e.APIVersion) && len(e.FieldsV1) > len("{}") { // an entry without fields is never converted
			return e.APIVersion, e.Manager
		}
	}
	return "", ""
}

// valueOf returns where the value of a field stands in an object, or 0, 0 if it does not see the field. The text must be valid JSON,
// in which only names are followed by colons.
func valueOf(text []byte, name string) (start, end int) {
	depth, named := 0, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			first := i + 1
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			named = depth == 1 && i < len(text) && string(text[first:i]) == name
		case ':':
			if named {
				start = i + 1
			}
		case '{', '[':
			depth++
		case ',':
			if depth == 1 && start > 0 {
				return start, i
			}
		case '}', ']':
			if depth--; depth == 0 && start > 0 {
				return start, i
			}
		}
	}
	return 0, 0
}
