package apply

import (
	"encoding/json"
	"strings"
)

// Is an object up to date, or does it need an apply? managedFields answers without a request: the API server keeps the fields that
// our last apply set, and takes a field away from us when another client changes it. If our entry has exactly the fields of the
// manifest, and the live object their values, then an apply changes nothing. The format of the entries is that of
// structured-merge-diff: f:NAME for a field, k:{...} for an item of a list with keys, v:VALUE for an item of a set.

// managedEntry is the server's record of a field manager (metav1.ManagedFieldsEntry).
type managedEntry struct {
	manager, operation, subresource, apiVersion, time string
	fields                                            map[string]any
}

// managedEntriesOf reads the managedFields of an object.
func managedEntriesOf(obj map[string]any) []managedEntry {
	var out []managedEntry
	for _, m := range mapsIn(metadataOf(obj)["managedFields"]) {
		var e managedEntry
		e.manager, _ = m["manager"].(string)
		e.operation, _ = m["operation"].(string)
		e.subresource, _ = m["subresource"].(string)
		e.apiVersion, _ = m["apiVersion"].(string)
		e.time, _ = m["time"].(string)
		e.fields, _ = m["fieldsV1"].(map[string]any)
		out = append(out, e)
	}
	return out
}

// entryOfOwnApplies finds the entry of our own applies; nil if there is none.
func entryOfOwnApplies(entries []managedEntry) *managedEntry {
	for e := range eachOf(entries) {
		if e.manager == Manager && e.operation == "Apply" && e.subresource == "" {
			return e
		}
	}
	return nil
}

// entryDigest identifies the entry. It changes when somebody takes a field of it, or when another apply changes something.
func (e *managedEntry) entryDigest() string {
	if e == nil {
		return ""
	}
	b, err := json.Marshal([]any{e.apiVersion, e.time, e.fields})
	if err != nil {
		return ""
	}
	return digestOf(b)
}

// digestOfStored identifies an object as it is stored, with the owners of its fields: everything that an apply may change. It leaves
// out what each write changes, such as times.
func digestOfStored(obj map[string]any) string {
	rest := withoutHead(obj)
	meta := metadataOf(rest)
	delete(meta, "managedFields") // withoutHead has made a copy
	delete(meta, "resourceVersion")
	parts := []any{rest}
	for _, e := range managedEntriesOf(obj) {
		parts = append(parts, []any{e.manager, e.operation, e.subresource, e.apiVersion, e.fields})
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	return digestOf(b)
}

// isAlreadyApplied reports whether applying want would change nothing: the live object already has all of it from the entry's manager.
// It compares the fields that the entry owns. If somebody else has changed a field, the entry no longer owns it (structured-merge-diff
// takes it away from all others). False means only that the client cannot decide: admission and defaults may rewrite values. Then the
// caller must ask the server.
func (e *managedEntry) isAlreadyApplied(want, live map[string]any) bool {
	if e == nil {
		return false
	}
	if version, _ := want["apiVersion"].(string); version != e.apiVersion {
		return false
	}
	return sameFields(e.fields, withoutHead(want), live) || sameFields(e.fields, withoutHead(normalForm(want)), live)
}

// withoutHead removes the fields that identify an object. Nobody owns these.
func withoutHead(obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		switch k {
		case "apiVersion", "kind":
		case "metadata":
			meta := map[string]any{}
			m, _ := v.(map[string]any)
			for k, v := range m {
				if k != "name" && k != "namespace" {
					meta[k] = v
				}
			}
			if len(meta) > 0 {
				out[k] = meta
			}
		default:
			out[k] = v
		}
	}
	return out
}

// sameFields compares objects: every field of want is owned and has the same value in live, and no other field is owned.
func sameFields(fields, want, live map[string]any) bool {
	for key := range fields {
		name, ok := strings.CutPrefix(key, "f:")
		if _, wanted := want[name]; ok && !wanted || !ok && key != "." {
			return false
		}
	}
	for name, w := range want {
		f, owned := fields["f:"+name].(map[string]any)
		l, there := live[name]
		if !owned || !there {
			// The server does not store the zero values of most fields of built-in kinds.
			if !there && (w == nil && !owned || owned && len(f) == 0 && isZeroJSON(w)) {
				continue
			}
			return false
		}
		if !sameValue(f, w, l) {
			return false
		}
	}
	return true
}

// sameValue compares a value with the fields that are owned. No fields mean that the value is owned as a whole.
func sameValue(fields map[string]any, want, live any) bool {
	if len(fields) == 0 {
		return equalJSON(want, live)
	}
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		return ok && sameFields(fields, w, l)
	case []any:
		l, ok := live.([]any)
		return ok && sameItems(fields, w, l)
	}
	return false
}

// sameItems compares lists whose items have separate owners: by their keys, or as values of a set. Items of other managers may be
// between them, but the order must be the same.
//
// Both lists are walked side by side. An item of the manifest belongs to the live item with the same key, and live items that match
// none are somebody else's.
func sameItems(fields map[string]any, want, live []any) bool {
	owned := len(fields)
	if _, self := fields["."]; self {
		owned--
	}
	if owned != len(want) {
		return false
	}
	at := 0
	for _, w := range want {
		key, f := fieldsOfItem(fields, w)
		if f == nil {
			return false
		}
		for at < len(live) && !isItem(key, live[at], true) {
			at++
		}
		if at == len(live) || !sameValue(f, w, live[at]) {
			return false
		}
		at++
	}
	return true
}

// fieldsOfItem returns the fields that are owned of an item. If the item omits a key, the key has its default, which matches. If
// several entries match, it returns none.
func fieldsOfItem(fields map[string]any, item any) (key string, owned map[string]any) {
	for k, f := range fields {
		if k == "." || !isItem(k, item, false) {
			continue
		}
		if owned != nil {
			return "", nil
		}
		key = k
		if owned, _ = f.(map[string]any); owned == nil {
			return "", nil
		}
	}
	return key, owned
}

// isItem reports whether the key of an owned item belongs to item. A complete item has all keys.
func isItem(key string, item any, whole bool) bool {
	kind, text, _ := strings.Cut(key, ":")
	var v any
	switch kind {
	case "v":
		return json.Unmarshal([]byte(text), &v) == nil && equalJSON(v, item)
	case "k":
		m, ok := item.(map[string]any)
		if !ok || json.Unmarshal([]byte(text), &v) != nil {
			return false
		}
		keys, _ := v.(map[string]any)
		for name, value := range keys {
			have, there := m[name]
			if there && !equalJSON(value, have) || !there && whole {
				return false
			}
		}
		return len(keys) > 0
	}
	return false
}
